#include "ops/ops.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/evaluate.h"

namespace downhaul {
namespace {

std::vector<float> floats(const Tensor& t) {
  std::vector<float> out;
  for (int64_t i = 0; i < t.num_elements(); ++i) out.push_back(static_cast<float>(t.at(i)));
  return out;
}

/// Evaluates a graph without inputs given as text; its first output.
Tensor run(std::string_view text) {
  auto graph = parse_graph(text, find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return Tensor::scalar(DType::kF32, 0);
  auto outputs = evaluate(**graph, {});
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? (*outputs)[0] : Tensor::scalar(DType::kF32, 0);
}

TEST(Linear, MultipliesByTransposedWeightAndAddsBias) {
  EXPECT_EQ(floats(run(R"(graph g {
    const %x: f32[1,3] = [1, 2, 3]
    const %w: f32[2,3] = [1, 0, 1, 0, 1, 1]
    const %b: f32[2] = [10, 20]
    %y = linear(%x, %w, %b)
    return %y
  })")),
            (std::vector<float>{14, 25}));
}

TEST(Conv2d, PadsEvenKernelsAsGiven) {
  EXPECT_EQ(floats(run(R"(graph g {
    const %x: f32[1,1,5,1] = splat 1
    const %w: f32[1,1,4,1] = splat 1
    %y = conv2d(%x, %w, padding=[1,0,2,0])
    return %y
  })")),
            (std::vector<float>{3, 4, 4, 3, 2}));
}

}  // namespace
}  // namespace downhaul
