// Reads bytes as an XNNPACK payload; what was accepted is written and read again.

#include <string>

#include "formats/pte/example_programs.h"
#include "formats/xnn/xnn.h"
#include "fuzz.h"

using namespace downhaul;  // NOLINT: a program of its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto graph = read_xnn_payload({data, size});
  if (!graph.ok()) {
    if (graph.status().message().find('\n') != std::string::npos) __builtin_trap();
    return 0;
  }
  uint64_t sum = 0;
  for (const XnnConstant& c : graph->constants) {
    for (const uint8_t byte : c.data) sum += byte;
  }
  volatile uint64_t used = sum;
  (void)used;
  const auto payload = write_xnn_payload(*graph);
  if (!payload.ok()) return 0;  // readable, but nothing the runtime takes
  const auto again = read_xnn_payload(*payload);
  if (!again.ok() || again->values.size() != graph->values.size()) __builtin_trap();
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  XnnGraph named = examples::add_relu_graph();
  named.constants.push_back({.named_key = "weight", .size = 24, .data = {}});
  const std::vector<int8_t> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<float> scales = {0.5F, 2};
  const std::vector<float> bias = {0, 0};
  for (const XnnGraph& graph : {examples::add_relu_graph(), named,
                                examples::quantized_linear_graph(weight, scales, bias)}) {
    auto payload = write_xnn_payload(graph);
    if (payload.ok()) seeds.push_back(*std::move(payload));
  }
  return seeds;
}
