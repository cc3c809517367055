// Reads bytes as an XNNPACK payload; what was accepted is written and read again.

#include <string>

#include "formats/pte/example_programs.h"
#include "formats/xnn/xnn.h"
#include "fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downhaul;
  // On the heap and no longer than it is, so that a sanitizer sees a read past its end.
  const std::vector<uint8_t> payload_bytes(data, data + size);
  const auto graph = read_xnn_payload(payload_bytes);
  if (!graph.ok()) {
    check_message(graph.status());
    return 0;
  }
  for (const XnnConstant& c : graph->constants) touch(c.data);
  const auto payload = write_xnn_payload(*graph);
  if (!payload.ok()) return 0;  // readable, but nothing the runtime takes
  const auto again = read_xnn_payload(*payload);
  DH_CHECK(again.ok() && again->values == graph->values && again->nodes == graph->nodes);
  return 0;
}

namespace downhaul {

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
    DH_CHECK(payload.ok());
    seeds.push_back(*std::move(payload));
  }
  return seeds;
}

}  // namespace downhaul
