// A program of somebody else's: builds a small graph with the library and evaluates it.
#include <downhaul/ir/text.h>
#include <downhaul/ops/evaluate.h>
#include <downhaul/ops/ops.h>

#include <cstdio>

int main() {
  auto graph = downhaul::parse_graph(R"(graph forward {
    input %x: f32[2,3]
    const %w: f32[1,3] = [1, 2, 3]
    %y = linear(%x, %w)
    return %y as "y"
  })",
                                     downhaul::find_op);
  if (!graph.ok()) {
    std::fprintf(stderr, "%s\n", graph.status().message().c_str());
    return 1;
  }
  const auto x = downhaul::Tensor::from<float>({2, 3}, {1, 1, 1, 0, 0, 2});
  const auto y = downhaul::evaluate(**graph, {x});
  if (!y.ok()) {
    std::fprintf(stderr, "%s\n", y.status().message().c_str());
    return 1;
  }
  const bool right = (*y)[0].at(0) == 6 && (*y)[0].at(1) == 6;
  std::printf("%g %g\n", (*y)[0].at(0), (*y)[0].at(1));
  return right ? 0 : 1;
}
