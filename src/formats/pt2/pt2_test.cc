#include "formats/pt2/pt2.h"

#include <cmath>
#include <cstring>

#include "formats/pt2/test_archive.h"
#include "formats/test_files.h"

namespace downhaul::pt2 {
namespace {

std::string fixture(std::string_view name) {
  return cat(DH_SOURCE_DIR, "/tests/fixtures/formats/", name);
}

Result<Archive> read_bytes(const std::vector<uint8_t>& bytes) {
  TestFolder folder;
  return read_pt2(folder.write("m.pt2", bytes));
}

Result<Archive> read(const TestArchive& archive) { return read_bytes(archive.build()); }

TestArchive bent(std::string_view from, std::string_view to) {
  return TestArchive().bend_program(from, to);
}

class Fixture : public testing::TestWithParam<const char*> {};

TEST_P(Fixture, HoldsTheSameModelInEveryLayout) {
  const auto archive = read_pt2(fixture(GetParam()));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  const Model& model = **archive->model();
  const Program& program = model.program;
  EXPECT_EQ(program.name, "model");
  EXPECT_EQ(program.schema_major, 8);
  EXPECT_EQ(program.torch_version.substr(0, 4), "2.13");
  const std::vector<std::string> inputs = {"x", "opt", "k", "d.u", "d.v"};
  EXPECT_EQ(program.user_input_names, inputs);
  const std::vector<std::string> outputs = {"out", "aux.0", "aux.1", "aux.2.0", "pair.p", "pair.q"};
  EXPECT_EQ(program.user_output_names, outputs);
  ASSERT_EQ(model.tensors.size(), 7u);

  // A slice of a larger buffer keeps its whole storage.
  const StoredTensor& slice = model.tensors.at("b");
  EXPECT_EQ(slice.storage_offset, 2);
  const Payload& payload = archive->payloads[slice.payload];
  ASSERT_EQ(payload.bytes.size(), 40u);
  float third;
  std::memcpy(&third, payload.bytes.data() + 8, 4);
  EXPECT_EQ(third, 2.0f);
  // A permuted constant keeps its strides.
  EXPECT_EQ(model.tensors.at("c").sizes, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(model.tensors.at("c").strides, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(model.tensors.at("e").sizes, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(model.tensors.at("n").dtype, ScalarType::kInt64);
  ASSERT_EQ(archive->warnings.size(), 1u);
  EXPECT_EQ(archive->warnings[0], "weight 'b' needs 24 bytes, its record has 40");
  EXPECT_TRUE(verify_payloads(*archive).ok());
}
INSTANTIATE_TEST_SUITE_P(Pt2, Fixture,
                         testing::Values("training.pt2", "decomposed.pt2", "layout_2_8.pt2",
                                         "layout_2_7.pt2"));

TEST(Pt2, PayloadsLieInTheMappedFileWithTheirChecksums) {
  const auto archive = *read_pt2(fixture("training.pt2"));
  for (const Payload& payload : archive.payloads) {
    ASSERT_TRUE(payload.file_offset.has_value());
    EXPECT_EQ(payload.bytes.data(), archive.file->bytes().data() + *payload.file_offset);
    EXPECT_EQ(*payload.file_offset % 64, 0u);
    EXPECT_TRUE(payload.crc32.has_value());
  }
}

TEST(Pt2, ReadsNodesArgumentsAndSymbols) {
  const auto archive = *read_pt2(fixture("training.pt2"));
  const Program& program = archive.models[0].program;
  EXPECT_EQ(program.verifiers, std::vector<std::string>{"TRAINING"});
  const Graph& graph = program.graph;
  const auto node = [&](std::string_view name) -> const Node& {
    for (const Node& candidate : graph.nodes) {
      if (candidate.name == name) return candidate;
    }
    ADD_FAILURE() << name;
    return graph.nodes.front();
  };
  const Node& topk = node("topk");
  EXPECT_EQ(topk.target, "torch.ops.aten.topk.default");
  ASSERT_EQ(topk.outputs.size(), 2u);
  EXPECT_EQ(std::get<TensorRef>(topk.outputs[1]).name, "getitem_1");
  EXPECT_EQ(std::get<int64_t>(*topk.find("k")), 2);
  EXPECT_EQ(topk.find("dim"), nullptr);
  EXPECT_TRUE(std::isinf(std::get<double>(*node("add_1").find("other"))));
  const auto scopes =
      parse_module_stack(program.module_stacks[static_cast<size_t>(node("linear").module_stack)]);
  ASSERT_EQ(scopes.size(), 2u);
  EXPECT_EQ(scopes[1].fqn, "l");
  EXPECT_EQ(scopes[1].type, "torch.nn.modules.linear.Linear");

  const TensorMeta& x = graph.tensor_values.at("x");
  ASSERT_TRUE(x.sizes[0].symbolic);
  EXPECT_EQ(x.sizes[0].value, 5);
  ASSERT_TRUE(x.sizes[0].expr);
  EXPECT_EQ(x.sizes[0].expr->kind, SymExpr::Kind::kSymbol);
  const Range& rows = program.range_constraints.at(x.sizes[0].expr->name);
  EXPECT_EQ(rows.min, 2);
  EXPECT_EQ(rows.max, 64);
  EXPECT_EQ(to_string(*graph.tensor_values.at("reshape").sizes[0].expr),
            cat("Mul(4, ", x.sizes[0].expr->name, ")"));
  EXPECT_EQ(program.inputs[8].kind, InputSpec::Kind::kConstantInput);
  EXPECT_TRUE(std::holds_alternative<None>(program.inputs[8].arg));
}

TEST(Pt2, MutationsAreInTheSignatureOfDecomposedPrograms) {
  const auto archive = *read_pt2(fixture("decomposed.pt2"));
  const OutputSpec& first = archive.models[0].program.outputs[0];
  EXPECT_EQ(first.kind, OutputSpec::Kind::kBufferMutation);
  EXPECT_EQ(first.target, "n");
}

TEST(Pt2, SymbolicExpressionsAreParsedOrReportedNotCrashedOn) {
  EXPECT_EQ(to_string(*parse_sym_expr("Add(Mul(Integer(4), Symbol('s77', positive=True, "
                                      "integer=True)), Integer(-4))")),
            "Add(Mul(4, s77), -4)");
  EXPECT_EQ(to_string(*parse_sym_expr("s0")), "s0");
  EXPECT_EQ(to_string(*parse_sym_expr("Rational(1, 2)")), "Rational(1, 2)");
  for (const char* bad : {"", "Add(", "Symbol()", "Symbol(1)", "Integer('a')", "Add(1 2)", "s0 +",
                          "99999999999999999999", "Symbol('a"}) {
    EXPECT_TRUE(fails(parse_sym_expr(bad), "symbolic expression")) << bad;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "Add(";
  EXPECT_TRUE(fails(parse_sym_expr(deep), "nested too deep"));
}

TEST(Pt2, BareAndQuotedInfinityMeanTheSame) {
  for (const char* spelling : {"-Infinity", "\"-Infinity\""}) {
    const auto archive = read(bent("\"as_float\": 0.5", cat("\"as_float\": ", spelling)));
    ASSERT_TRUE(archive.ok()) << archive.status().message();
    const Argument* alpha = archive->models[0].program.graph.nodes[0].find("alpha");
    EXPECT_EQ(std::get<double>(*alpha), -INFINITY);
  }
}

TEST(Pt2, KeepsAlternativesItDoesNotKnow) {
  const auto archive = read(bent("\"as_float\": 0.5", "\"as_novelty\": {\"deep\": [1, 2]}"));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  const Argument* alpha = archive->models[0].program.graph.nodes[0].find("alpha");
  EXPECT_EQ(std::get<UnknownArg>(*alpha).alternative, "as_novelty");
}

TEST(Pt2, ReadsEveryArgumentAlternative) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("as_none": [])", "none"},
      {R"("as_tensors": [{"name": "x"}])", "tensors"},
      {R"("as_optional_tensors": [{"as_none": true}, {"as_tensor": {"name": "x"}}])",
       "optional_tensors"},
      {R"("as_optional_tensor": {"as_tensor": {"name": "x"}})", "tensor"},
      {R"("as_optional_tensor": {"as_none": true})", "none"},
      {R"("as_nested_tensors": [[{"name": "x"}]])", "nested_tensors"},
      {R"("as_int": 9223372036854775807)", "int"},
      {R"("as_ints": [1, -2])", "ints"},
      {R"("as_floats": ["Infinity", 1])", "floats"},
      {R"("as_bool": true)", "bool"},
      {R"("as_bools": [true, false])", "bools"},
      {R"("as_string": "tanh")", "string"},
      {R"("as_strings": ["a"])", "strings"},
      {R"("as_sym_int": {"as_int": 3})", "sym_int"},
      {R"("as_sym_ints": [{"as_int": 3}])", "sym_ints"},
      {R"("as_sym_bool": {"as_bool": true})", "sym_bool"},
      {R"("as_sym_bools": [{"as_bool": true}])", "sym_bools"},
      {R"("as_sym_float": {"as_float": 1.5})", "sym_float"},
      {R"("as_sym_floats": [{"as_float": 1.5}])", "sym_floats"},
      {R"("as_scalar_type": 7)", "scalar_type"},
      {R"("as_memory_format": 2)", "memory_format"},
      {R"("as_layout": 7)", "layout"},
      {R"("as_device": {"type": "cpu", "index": null})", "device"},
      {R"("as_operator": "aten.add")", "operator"},
      {R"("as_complex": {"real": 1, "imag": 2})", "complex"},
      {R"("as_int_lists": [[1], []])", "int_lists"},
      {R"("as_float_lists": [[1.5]])", "float_lists"},
      {R"("as_string_to_argument": {"a": {"as_int": 1}})", "string_to_argument"},
  };
  for (const auto& [json, alternative] : cases) {
    const auto archive = read(bent("\"as_float\": 0.5", json));
    ASSERT_TRUE(archive.ok()) << json << ": " << archive.status().message();
    EXPECT_EQ(alternative_name(*archive->models[0].program.graph.nodes[0].find("alpha")),
              alternative);
  }
  for (const auto& [json, message] :
       {std::pair{R"("as_scalar_type": 99)", "dtype 99 is not known"},
        std::pair{R"("as_layout": 8)", "layout 8 is not known"},
        std::pair{R"("as_int": 1.5)", "expected an integer"},
        std::pair{R"("as_int": 1, "as_bool": true)", "a second alternative"},
        std::pair{"", "a value without alternative"}}) {
    EXPECT_TRUE(fails(read(bent("\"as_float\": 0.5", json)), message));
  }
}

TEST(Pt2, ReadsSubgraphs) {
  const std::string inner = cat(
      R"("as_graph": {"name": "g", "graph": {"inputs": [{"as_tensor": {"name": "a"}}], "outputs": )",
      R"([{"as_tensor": {"name": "a"}}], "nodes": [], "tensor_values": {"a": )",
      tensor_meta_json(7, "2", "1"), R"(}, "sym_int_values": {}, "sym_bool_values": {}}})");
  const auto archive = read(bent("\"as_float\": 0.5", inner));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  std::string broken = inner;
  TestArchive::bend(broken, R"("outputs": [{"as_tensor": {"name": "a"}}])",
                    R"("outputs": [{"as_tensor": {"name": "x"}}])");
  EXPECT_TRUE(fails(read(bent("\"as_float\": 0.5", broken)),
                    "subgraph: graph output: value 'x' is used before it is defined"));
}

TEST(Pt2, RefusesGraphsThatAreNotInOrder) {
  EXPECT_TRUE(
      fails(read(bent(R"("arg": {"as_tensor": {"name": "x"}})",
                      R"("arg": {"as_tensor": {"name": "relu"}})")),
            "node 0 (torch.ops.aten.add.Tensor): value 'relu' is used before it is defined"));
  EXPECT_TRUE(fails(read(bent(R"("outputs": [{"as_tensor": {"name": "relu"}}], "metadata")",
                              R"("outputs": [{"as_tensor": {"name": "add"}}], "metadata")")),
                    "result 'add' is defined twice"));
  EXPECT_TRUE(fails(read(bent(R"("outputs": [{"as_tensor": {"name": "relu"}}], "nodes")",
                              R"("outputs": [{"as_tensor": {"name": "none"}}], "nodes")")),
                    "graph output: value 'none' is used before it is defined"));
  EXPECT_TRUE(fails(read(bent("\"relu\": {\"dtype\"", "\"rela\": {\"dtype\"")),
                    "result 'relu' has no entry in tensor_values"));
  EXPECT_TRUE(fails(read(bent("\"relu\": {\"dtype\"", "\"add\": {\"dtype\"")),
                    "value 'add' is described twice"));
  EXPECT_TRUE(fails(read(bent(R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}})",
                              R"({"user_input": {"arg": {"as_tensor": {"name": "z"}}}})")),
                    "signature calls input 1 'z', the graph 'x'"));
  EXPECT_TRUE(fails(read(bent(R"("output_specs": [{"user_output": {"arg": {"as_tensor": )"
                              R"({"name": "relu"}}}}])",
                              R"("output_specs": [])")),
                    "signature has 0 outputs, the graph 1"));
}

TEST(Pt2, NamesBothVersions) {
  const std::string version = R"("schema_version": {"major": 8, "minor": 20})";
  EXPECT_TRUE(fails(read(bent(version, R"("schema_version": {"major": 9, "minor": 0})")),
                    "schema version 9.0, expected 8.0 to 8.20"));
  EXPECT_TRUE(
      fails(read(bent(version, R"("other": 1)")), "schema_version is missing, expected 8.x"));
  EXPECT_TRUE(fails(read(bent(version, R"("schema_version": {"major": "8", "minor": 20})")),
                    "schema_version: JSON byte"));
  EXPECT_TRUE(fails(read(bent(version, R"("schema_version": "8.20")")), "with major 8"));
  // Another structure is explained by its version, not by the first surprise.
  TestArchive old = bent(version, R"("schema_version": {"major": 5, "minor": 1})");
  old.bend_program("\"input_specs\": [{\"parameter\"", "\"input_specs\": [{\"old_parameter\"");
  EXPECT_TRUE(fails(read(old), "schema version 5.1, expected 8.0"));
  const auto newer = read(bent(version, R"("schema_version": {"major": 8, "minor": 21})"));
  ASSERT_TRUE(newer.ok());
  EXPECT_EQ(newer->warnings.size(), 1u);
  EXPECT_TRUE(fails(read(bent("\"aten\": 10", "\"aten\": \"ten\"")), "opset_version"));
  const auto opset = read(bent("\"aten\": 10", "\"aten\": 11"));
  ASSERT_TRUE(opset.ok());
  EXPECT_EQ(opset->warnings[0], "aten opset 11 is newer than 10");
  TestArchive marked;
  marked.more = {{"archive_version", "1"}};
  EXPECT_TRUE(fails(read(marked), "archive_version is 1, expected 0"));
  marked.more = {{"archive_version", "one"}};
  EXPECT_TRUE(fails(read(marked), "archive_version is 'one', expected 0"));
  marked.more = {{"archive_format", "pt3"}};
  EXPECT_TRUE(fails(read(marked), "archive_format is 'pt3', expected 'pt2'"));
}

TEST(Pt2, RefusesBigEndianArchives) {
  ZipWriter out;
  out.add("m/models/model.json", TestArchive::default_program());
  out.add("m/byteorder", "big");
  EXPECT_TRUE(fails(read_bytes(out.finish()), "byteorder is 'big', expected 'little'"));
}

TEST(Pt2, RefusesWeightsThatDoNotFit) {
  TestArchive truncated;
  truncated.weight.resize(20);
  EXPECT_TRUE(fails(read(truncated), "weight 'w': needs 24 bytes, its record has 20"));
  TestArchive ragged;
  ragged.weight.resize(27);
  EXPECT_TRUE(fails(read(ragged), "weight 'w': its record has 27 bytes, expected a multiple of 4"));
  TestArchive longer;
  longer.weight.resize(28);
  const auto with_warning = read(longer);
  ASSERT_TRUE(with_warning.ok());
  EXPECT_EQ(with_warning->warnings[0], "weight 'w' needs 24 bytes, its record has 28");

  EXPECT_TRUE(fails(read(TestArchive().bend_config("weight_0", "weight_7")),
                    "record 'm/data/weights/weight_7' is missing"));
  EXPECT_TRUE(fails(read(TestArchive().bend_config("weight_0", "../../models/x")), "is missing"));
  EXPECT_TRUE(fails(read(TestArchive().bend_config("\"w\"", "\"v\"")),
                    "the archive lacks 1 of 1 weights: 'w'"));
  EXPECT_TRUE(
      fails(read(TestArchive().bend_config("\"use_pickle\": false", "\"use_pickle\": true")),
            "pickled object"));
  EXPECT_TRUE(fails(read(TestArchive().bend_config("\"layout\": 7", "\"layout\": 1")), "strided"));
}

TEST(Pt2, RefusesImpossibleStrides) {
  const auto with_meta = [](int dtype, std::string_view sizes, std::string_view strides,
                            int64_t offset) {
    TestArchive archive;
    archive.bend_config(tensor_meta_json(7, "2,3", "3,1"),
                        tensor_meta_json(dtype, sizes, strides, offset));
    return read(archive);
  };
  EXPECT_TRUE(fails(with_meta(7, "2147483648,2147483648,4", "8589934592,4,1", 0), "overflow"));
  EXPECT_TRUE(fails(with_meta(7, "4294967296,4294967296", "0,0", 0), "overflow"));
  EXPECT_TRUE(fails(with_meta(7, "-2,3", "3,1", 0), "negative size -2"));
  EXPECT_TRUE(fails(with_meta(7, "2,3", "-3,1", 0), "negative stride -3"));
  EXPECT_TRUE(fails(with_meta(7, "2,3", "3,1", -1), "negative storage offset -1"));
  EXPECT_TRUE(fails(with_meta(7, "2,3", "3,1", 1), "needs 28 bytes"));
  EXPECT_TRUE(fails(with_meta(7, "2,3", "3,2", 0), "needs 32 bytes"));
  EXPECT_TRUE(fails(with_meta(7, "2,3", "3", 0), "2 sizes but 1 strides"));
  EXPECT_TRUE(fails(with_meta(99, "2,3", "3,1", 0), "dtype 99 is not known"));
  EXPECT_TRUE(fails(with_meta(0, "2,3", "3,1", 0), "dtype is unknown"));
  EXPECT_TRUE(fails(with_meta(6, "2,3", "3,1", 0),
                    "the graph expects float32[2,3], the archive has float16[2,3]"));
  EXPECT_TRUE(fails(with_meta(7, "3,2", "2,1", 0),
                    "the graph expects float32[2,3], the archive has float32[3,2]"));
  std::string ones = "1";
  for (int i = 1; i < 1000; ++i) ones += ",1";
  EXPECT_TRUE(fails(with_meta(7, ones, ones, 0), "rank 1000, at most 64 expected"));
}

TEST(Pt2, WarnsAboutExtraWeights) {
  TestArchive archive;
  archive.more = {{"data/weights/weight_1", "1234"}};
  auto read_back = read(archive);
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back->warnings[0], "record 'm/data/weights/weight_1' belongs to no weight");
  archive.bend_config("{\"config\": {",
                      cat("{\"config\": {\"more\": {\"path_name\": \"weight_1\", ",
                          "\"is_param\": false, \"use_pickle\": false, ",
                          "\"tensor_meta\": ", tensor_meta_json(7, "1", "1"), "}, "));
  read_back = read(archive);
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  EXPECT_EQ(read_back->warnings[0], "1 stored weights are not in the program's signature: 'more'");
}

TEST(Pt2, TiedNamesShareAPayload) {
  TestArchive archive;
  archive.bend_config("{\"config\": {",
                      cat("{\"config\": {\"tied\": {\"path_name\": \"weight_0\", ",
                          "\"is_param\": true, \"use_pickle\": false, ",
                          "\"tensor_meta\": ", tensor_meta_json(7, "6", "1"), "}, "));
  const auto read_back = *read(archive);
  EXPECT_EQ(read_back.payloads.size(), 1u);
  EXPECT_EQ(read_back.models[0].tensors.at("tied").payload,
            read_back.models[0].tensors.at("w").payload);
}

TEST(Pt2, SampleInputsAreNeverRead) {
  // A pickle that would call os.system; it is not even looked at.
  TestArchive archive;
  archive.more = {
      {"data/sample_inputs/model.pt", "\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."}};
  EXPECT_TRUE(read(archive).ok());
}

TEST(Pt2, EntriesOutsideOfTheRootAreRefused) {
  ZipWriter out;
  out.add("m/models/model.json", TestArchive::default_program());
  out.add("other/models/model.json", TestArchive::default_program());
  EXPECT_TRUE(fails(read_bytes(out.finish()), "lies outside of the archive's folder 'm/'"));
}

TEST(Pt2, SaysWhatIsWrongWithOtherFiles) {
  TestFolder folder;
  EXPECT_TRUE(fails(read_pt2(folder.file("none.pt2")), "does not exist"));
  EXPECT_TRUE(fails(read_pt2(folder.path()), "this is a folder"));
  EXPECT_TRUE(fails(read_pt2(folder.write("e.pt2", "")), "this is an empty file"));
  EXPECT_TRUE(fails(read_pt2(folder.write("j.pt2", "\xff\xd8\xff\xe0 picture")),
                    "expected a .pt2 archive, this is a JPEG image"));
  EXPECT_TRUE(fails(read_pt2(fixture("zip.pt")), "this is a torch.save file"));
  ZipWriter compiled;
  compiled.add("m/data/aotinductor/model/x.so", "");
  EXPECT_TRUE(fails(read_pt2(folder.write("c.pt2", compiled.finish())), "only compiled code"));
}

TEST(Pt2, HoldsSeveralModels) {
  TestArchive archive;
  archive.more = {{"models/second.json", TestArchive::default_program()},
                  {"data/weights/second_weights_config.json", archive.config}};
  const auto read_back = read(archive);
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  EXPECT_EQ((*read_back->model("second"))->program.name, "second");
  EXPECT_TRUE(fails(read_back->model(), "name one of: model, second"));
  EXPECT_TRUE(fails(read_back->model("third"), "no model 'third'"));
  EXPECT_EQ(read_back->payloads.size(), 1u);
}

TEST(Pt2, ADamagedPayloadIsFoundOnRequest) {
  TestFolder folder;
  std::vector<uint8_t> bytes = TestArchive().build();
  const auto good = *read_pt2(folder.write("good.pt2", bytes));
  bytes[*good.payloads[0].file_offset] ^= 1;
  const auto bad = read_pt2(folder.write("bad.pt2", bytes));
  ASSERT_TRUE(bad.ok());
  EXPECT_TRUE(verify_payloads(good).ok());
  EXPECT_TRUE(fails(verify_payloads(*bad), "record 'm/data/weights/weight_0' has checksum"));
}

TEST(Pt2, DeepNestingIsRefused) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_TRUE(fails(read(bent("\"as_float\": 0.5", cat("\"as_ints\": ", deep))), "JSON byte"));
  EXPECT_TRUE(fails(read(bent("\"metadata\": {}", cat("\"metadata\": ", deep))), "JSON byte"));
  std::string graphs;
  for (int i = 0; i < 20000; ++i) {
    graphs += R"("as_graph": {"graph": {"nodes": [{"inputs": [{"arg": {)";
  }
  EXPECT_TRUE(fails(read(bent("\"as_float\": 0.5", graphs)), "nested deeper than 256"));
}

TEST(Pt2, AVeryLargeValidGraphLoads) {
  // A chain of relu nodes.
  constexpr int kNodes = 100000;
  const std::string meta = tensor_meta_json(7, "2,3", "3,1");
  std::string nodes;
  std::string values;
  std::string last = "relu";
  for (int i = 0; i < kNodes; ++i) {
    const std::string name = cat("relu_", i);
    nodes += cat(", ", node_json("torch.ops.aten.relu.default", last, name));
    values += cat("\"", name, "\": ", meta, ", ");
    last = name;
  }
  TestArchive archive;
  archive.bend_program("], \"tensor_values\": {", cat(nodes, "], \"tensor_values\": {", values));
  const auto read_back = read(archive);
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  EXPECT_EQ(read_back->models[0].program.graph.nodes.size(), kNodes + 2u);
  EXPECT_EQ(read_back->models[0].program.module_stacks.size(), 1u);
}

}  // namespace
}  // namespace downhaul::pt2
