// An encoder re-expressed for the Neural Engine and brought back: the shared rewrites must find in
// it what they find in the model itself, so that the engine and XNNPACK lose nothing.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/engine.h"
#include "models/models.h"
#include "models/test_checkpoint.h"
#include "ops/evaluate.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "report/artifact.h"
#include "targets/coreml/coreml.h"
#include "targets/xnnpack/xnnpack.h"

namespace downhaul {
namespace {

std::unique_ptr<Graph> encoder(const std::string& head) {
  const models::TestCheckpoint checkpoint = models::tiny_distilbert();
  checkpoint.write();
  models::BuildOptions options;
  options.head = head;
  options.seq_len = models::SizeRange{8, 8};
  auto built = models::build_checkpoint(checkpoint.folder(), options);
  EXPECT_TRUE(built.ok()) << built.status().message();
  return built.ok() ? std::move(built->graph) : nullptr;
}

void run_passes(Graph& graph, std::span<const Pass> passes, bool keep_rows = false) {
  PipelineOptions options;
  if (keep_rows) options.disabled.insert("select_before_project");
  const Status status = run_pipeline(graph, passes, options);
  EXPECT_TRUE(status.ok()) << status.message();
}

std::map<std::string, int> operators(const Graph& graph) {
  std::map<std::string, int> out;
  for (const auto& node : graph.nodes()) ++out[std::string(node->op_name())];
  return out;
}

/// As `lower --backend ane` makes it, but for the emission.
std::unique_ptr<Graph> for_neural_engine(const Graph& model) {
  auto graph = model.clone();
  run_passes(*graph, canonical_passes(), true);
  run_passes(*graph, ane_passes());
  return graph;
}

double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double largest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size() && k < b.size(); ++k) {
    EXPECT_EQ(describe(a[k]), describe(b[k]));
    for (int64_t i = 0; i < a[k].num_elements(); ++i) {
      largest = std::max(largest, std::abs(a[k].at(i) - b[k].at(i)));
    }
  }
  return largest;
}

class RaiseCoreMl : public testing::TestWithParam<const char*> {};

TEST_P(RaiseCoreMl, AnEncoderForTheNeuralEngineIsAnEncoderAgain) {
  const auto model = encoder(GetParam());
  ASSERT_NE(model, nullptr);
  const auto ane = for_neural_engine(*model);
  auto apart = operators(*ane);
  ASSERT_EQ(apart["channel_matmul"], 4) << "two heads, two products each";
  ASSERT_EQ(apart["linear"], 0);
  const auto back = ane->clone();
  run_passes(*back, canonical_passes());
  const auto canonical = model->clone();
  run_passes(*canonical, canonical_passes());
  auto found = operators(*back);
  auto wanted = operators(*canonical);
  for (const char* op : {"attention", "linear", "layer_norm", "gelu", "conv2d", "channel_norm",
                         "channel_matmul", "softmax", "matmul", "concat"}) {
    EXPECT_EQ(found[op], wanted[op]) << op;
  }
  // Heads are split and joined; an output in the layout of the Neural Engine goes there.
  EXPECT_LE(found["permute"], wanted["permute"] + 1);

  const auto inputs = random_inputs(*model, 3);
  const auto expected = evaluate(*ane, inputs);
  ASSERT_TRUE(expected.ok());
  auto prepared = EngineModel::prepare(*ane);
  ASSERT_TRUE(prepared.ok());
  const auto result = Session(*prepared).run(inputs);
  ASSERT_TRUE(result.ok());
  EXPECT_LT(largest_difference(*result, *expected), 1e-5);

  auto lowered = lower_xnnpack(*back);
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  EXPECT_EQ(lowered->partition.regions.size(), 1u) << "one delegate";
}

TEST_P(RaiseCoreMl, InHalfFloatsTheFormForTheNeuralEngineIsCloseToTheModel) {
  const auto model = encoder(GetParam());
  ASSERT_NE(model, nullptr);
  const auto ane = for_neural_engine(*model);
  const auto inputs = random_inputs(*model, 3);
  const auto exact = evaluate(*ane, inputs);
  auto prepared = EngineModel::prepare(*ane, "", engine::Precision::kF16);
  ASSERT_TRUE(exact.ok() && prepared.ok());
  const auto rounded = Session(*prepared, {.precision = engine::Precision::kF16}).run(inputs);
  const auto reference = evaluate(**graph_in_f16(*ane), inputs);
  ASSERT_TRUE(rounded.ok() && reference.ok());
  double squares = 0, count = 0, top = 0;
  for (size_t k = 0; k < exact->size(); ++k) {
    for (int64_t i = 0; i < (*exact)[k].num_elements(); ++i) {
      squares += std::pow((*exact)[k].at(i) - (*rounded)[k].at(i), 2);
      top = std::max(top, std::abs((*exact)[k].at(i)));
      ++count;
    }
  }
  EXPECT_GT(20 * std::log10(top / std::sqrt(squares / count)), 55) << "PSNR in dB";
  EXPECT_GT(squares, 0) << "rounded";
  // Sums in another order flip a rounding of numbers below 8 now and then.
  EXPECT_LT(largest_difference(*rounded, *reference), 0x1p-7);
}

INSTANTIATE_TEST_SUITE_P(Heads, RaiseCoreMl, testing::Values("base", "mlm"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace downhaul
