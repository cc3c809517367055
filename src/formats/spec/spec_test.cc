#include "formats/spec/spec.h"

#include "formats/test_files.h"

namespace downhaul {
namespace {

TEST(ModelSpec, ReadsTheFirstSpelling) {
  TestFolder folder;
  folder.write("m.pt2", "x");
  folder.write("labels.json", R"(["cat", "dog"])");
  const std::string path = folder.write("model_spec.json", R"({
    "name": "lraspp", "model_id": "lraspp_mobilenet_v3_large", "exported_program": "m.pt2",
    "labels": "labels.json", "sample": "gone.png", "colour": {"of": "the sky"},
    "inputs": [{"name": "image", "shape": [1, 3, 520, 520], "dtype": "float32", "layout": "nchw",
      "preprocessing": {"resize": [520, 520], "letterbox": true, "mean": [0.485, 0.456, 0.406],
                        "std": [0.229, 0.224, 0.225], "gamma": 2}, "unit": "pixel"}],
    "outputs": [{"name": "out", "shape": [1, 21, 520, 520]}]})");
  const auto spec = read_model_spec(path);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->name, "lraspp");
  EXPECT_EQ(spec->task, "segmentation");
  EXPECT_EQ(*require(*spec, spec->exported_program, "exported_program"), folder.file("m.pt2"));
  EXPECT_TRUE(fails(require(*spec, spec->weights, "weights"), "key 'weights' is missing"));
  EXPECT_TRUE(fails(require(*spec, spec->sample, "sample"),
                    cat("'gone.png' exists neither as '", folder.file("gone.png"), "'")));
  ASSERT_EQ(spec->inputs.size(), 1u);
  const Preprocessing& p = spec->inputs[0].preprocessing;
  EXPECT_EQ(p.resize->height, 520);
  EXPECT_FALSE(p.resize->shorter_side);
  EXPECT_TRUE(p.letterbox);
  EXPECT_EQ((*p.mean)[0], 0.485);
  EXPECT_EQ(spec->seq_len, std::nullopt);
  EXPECT_EQ((*read_labels(spec->labels->found))[1], "dog");

  // Unknown keys survive rewriting, at every level.
  const auto again = parse_model_spec(write_model_spec(*spec), path);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again->document.find("colour")->find("of")->as_string(), "the sky");
  const JsonValue& input = again->document.find("inputs")->elements()[0];
  EXPECT_EQ(*input.find("unit")->as_string(), "pixel");
  EXPECT_EQ(input.find("preprocessing")->find("gamma")->as_int(), 2);
  EXPECT_EQ(write_model_spec(*again), write_model_spec(*spec));
}

TEST(ModelSpec, ReadsTheSecondSpelling) {
  TestFolder folder;
  folder.write("distilbert_exported.pt2", "x");
  folder.write("weights.bin", "x");
  const auto spec = parse_model_spec(
      R"({"model": "distilbert_exported.pt2", "state_dict": "weights.bin", "labels_path": null,
          "architectures": ["DistilBertForMaskedLM"],
          "input": {"shape": [1, 128], "resize": 256, "center_crop": 224}})",
      folder.file("spec.json"));
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->name, "distilbert");
  EXPECT_EQ(spec->task, "fill-mask");
  EXPECT_EQ(spec->exported_program->found, folder.file("distilbert_exported.pt2"));
  EXPECT_EQ(spec->weights->found, folder.file("weights.bin"));
  EXPECT_EQ(spec->batch, 1);
  EXPECT_EQ(spec->seq_len, 128);
  EXPECT_EQ(spec->tokenizer.found, folder.path());
  EXPECT_TRUE(spec->inputs[0].preprocessing.resize->shorter_side);
  EXPECT_EQ((*spec->inputs[0].preprocessing.center_crop)[1], 224);
}

TEST(ModelSpec, NamesKeyExpectedAndFound) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "expected a JSON object, found array"},
      {R"({"name": 3})", "key 'name': expected a string, found integer"},
      {R"({"name": "../x"})", "is no file name"},
      {R"({"seq_len": 0})", "key 'seq_len': expected a positive integer, found 0"},
      {R"({"seq_len": 1e308})", "key 'seq_len': expected a positive integer, found number"},
      {R"({"inputs": [{"shape": [1, -3]}]})", "inputs[0]: key 'shape'"},
      {R"({"inputs": [{}, {"mean": [1, 2]}]})", "inputs[1]: key 'mean': expected a list of three"},
      {R"({"input": 3})", "key 'inputs': expected an object or a list"},
      {R"({"input": {"resize": "big"}})", "key 'resize': expected a positive integer or [height"},
      {R"({"name": "a", "name": "b"})", "duplicate key 'name'"},
      {R"({"name": )", "JSON byte"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_TRUE(fails(parse_model_spec(text, "spec.json"), message)) << text;
    EXPECT_TRUE(fails(parse_model_spec(text, "spec.json"), "while reading 'spec.json'"));
  }
  TestFolder folder;
  EXPECT_TRUE(
      fails(read_model_spec(folder.path()), "expected a model spec (JSON), this is a folder"));
  EXPECT_TRUE(fails(read_model_spec(folder.file("none.json")), "does not exist"));
}

TEST(Labels, ComeInClassIdOrder) {
  TestFolder folder;
  EXPECT_EQ((*read_labels(folder.write("a", R"({"1": "one", "0": "zero"})")))[1], "one");
  EXPECT_TRUE(fails(read_labels(folder.write("b", R"({"0": "a", "2": "b"})")), "without holes"));
  EXPECT_TRUE(fails(read_labels(folder.write("c", R"({"0": "a", "00": "b"})")), "without holes"));
  EXPECT_TRUE(fails(read_labels(folder.write("d", "[1]")), "label 0 is no string"));
  EXPECT_TRUE(fails(read_labels(folder.write("e", "3")), "expected a list of labels"));
}

}  // namespace
}  // namespace downhaul
