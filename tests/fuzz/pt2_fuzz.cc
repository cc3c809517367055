#include "formats/pt2/pt2.h"

#include "formats/pt2/test_archive.h"
#include "fuzz_target.h"

namespace downhaul {
namespace {

using pt2::TestArchive;

constexpr std::string_view kSubgraph = R"json("as_graph": {"name": "g", "graph": {
  "inputs": [{"as_tensor": {"name": "a"}}], "outputs": [{"as_tensor": {"name": "a"}}], "nodes": [],
  "tensor_values": {"a": META}, "sym_int_values": {"s": {"as_expr": {
    "expr_str": "Mul(Integer(4), Symbol('s7', integer=True))", "hint": null}}}}})json";

constexpr std::string_view kModuleCalls = R"json("module_call_graph": [{"fqn": "", "signature": {
  "in_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]",
  "out_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"y\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]",
  "forward_arg_names": ["x"]}}])json";

/// A program with a symbolic size, a subgraph and trees.
TestArchive rich_archive() {
  std::string subgraph(kSubgraph);
  TestArchive::bend(subgraph, "META", pt2::tensor_meta_json(7, "2", "1"));
  TestArchive archive;
  archive.bend_program("\"as_float\": 0.5", subgraph);
  archive.bend_program("\"module_call_graph\": []", kModuleCalls);
  return archive;
}

}  // namespace

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  const auto older = MappedFile::open(cat(DH_SOURCE_DIR, "/tests/fixtures/formats/layout_2_7.pt2"));
  DH_CHECK(older.ok());
  const Bytes bytes = (*older)->bytes();
  std::vector<std::vector<uint8_t>> seeds = {TestArchive().build(),
                                             rich_archive().build(),
                                             TestArchive().build({true, 1, false, true}),
                                             {bytes.begin(), bytes.end()}};
  // Seeds must be read whole, or the target only ever sees one early error.
  for (const auto& seed : seeds) DH_CHECK(pt2::read_pt2(map_bytes(seed)).ok());
  return seeds;
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downhaul;
  const auto archive = pt2::read_pt2(map_bytes({data, size}));
  if (!archive.ok()) {
    check_message(archive.status());
    return 0;
  }
  for (const pt2::Payload& payload : archive->payloads) touch(payload.bytes);
  (void)pt2::verify_payloads(*archive).ok();
  return 0;
}
