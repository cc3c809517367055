#include "models/models.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/strings.h"
#include "formats/safetensors/safetensors.h"
#include "models/test_checkpoint.h"
#include "ops/evaluate.h"

namespace downhaul::models {
namespace {

std::string fault(const TestCheckpoint& checkpoint, const BuildOptions& options = {}) {
  const auto built = build_checkpoint(checkpoint.folder(), options);
  return built.ok() ? "built" : built.status().message();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Outputs on fixed inputs.
std::vector<Tensor> outputs(const BuiltModel& model, int64_t length = 6) {
  std::vector<Tensor> inputs;
  for (const Value* v : model.graph->inputs()) {
    Sizes sizes;
    for (const Dim& d : v->shape()) sizes.push_back(d.is_static() ? d.value() : d.max());
    sizes.back() = v->shape().back().is_static() ? sizes.back() : length;
    sizes.front() = v->shape().front().is_static() ? sizes.front() : 1;
    Tensor t(DType::kI64, sizes);
    const bool mask = v->name() == "attention_mask";
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      t.set_int(i, mask ? (i % sizes.back() < sizes.back() - 1) : (i * 7 + 3) % 11);
    }
    inputs.push_back(t);
  }
  auto results = evaluate(*model.graph, inputs);
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results.ok() ? *std::move(results) : std::vector<Tensor>();
}

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bytes(a[i], b[i])) << "output " << i;
}

BuildOptions short_rows() {
  BuildOptions options;
  options.seq_len = {6, 6};
  return options;
}

TEST(Checkpoint, TakesTheHeadOfItsConfiguration) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.write();
  const auto built = build_checkpoint(checkpoint.folder(), short_rows());
  ASSERT_TRUE(built.ok()) << built.status().message();
  EXPECT_EQ(built->head, "mlm");
  EXPECT_EQ(built->task, "fill-mask");
  EXPECT_EQ(built->family, "distilbert");
  EXPECT_TRUE(built->unused.empty());
  ASSERT_EQ(built->graph->outputs().size(), 1u);
  EXPECT_EQ(built->graph->outputs()[0].name, "logits");
  EXPECT_EQ(built->graph->outputs()[0].value->type().str(), "f32[1,6,11]");
}

TEST(Checkpoint, TiedWeightsAreOneConstant) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.write();
  const auto built = build_checkpoint(checkpoint.folder(), short_rows());
  ASSERT_TRUE(built.ok()) << built.status().message();
  int tables = 0;
  for (const Value* c : built->graph->constants()) tables += c->type().str() == "f32[11,8]";
  EXPECT_EQ(tables, 1);
}

TEST(Checkpoint, NamesWithoutPrefixAndWithWrappersMeanTheSame) {
  TestCheckpoint with = tiny_distilbert();
  with.write();
  const auto expected = build_checkpoint(with.folder(), short_rows());
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const std::string change : {"no prefix", "module.", "gamma"}) {
    TestCheckpoint other = tiny_distilbert();
    for (auto& [name, tensor] : other.tensors) {
      const std::string prefix = "distilbert.";
      if (change == "no prefix" && name.starts_with(prefix)) name = name.substr(prefix.size());
      if (change == "module.") name = change + name;
      if (change == "gamma" && name.ends_with("LayerNorm.weight")) {
        name.replace(name.size() - 7, 7, ".gamma");
      }
      if (change == "gamma" && name.ends_with("LayerNorm.bias")) {
        name.replace(name.size() - 5, 5, ".beta");
      }
    }
    other.write();
    const auto built = build_checkpoint(other.folder(), short_rows());
    ASSERT_TRUE(built.ok()) << change << ": " << built.status().message();
    EXPECT_TRUE(built->unused.empty()) << change;
    expect_same(outputs(*built), outputs(*expected));
  }
}

TEST(Checkpoint, RefusesTwoNamesOfOneWeight) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.add("module.vocab_transform.bias", {8});
  checkpoint.write();
  EXPECT_TRUE(contains(fault(checkpoint),
                       "'vocab_transform.bias' and 'module.vocab_transform.bias' are both"))
      << fault(checkpoint);
}

TEST(Checkpoint, NamesEveryMissingAndMisshapedTensor) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.remove("vocab_transform.bias");
  checkpoint.remove("distilbert.transformer.layer.0.ffn.lin1.weight");
  checkpoint.remove("vocab_layer_norm.bias");
  checkpoint.add("vocab_layer_norm.bias", {9});
  checkpoint.write();
  const std::string message = fault(checkpoint);
  EXPECT_TRUE(contains(message,
                       "2 tensors are missing: 'transformer.layer.0.ffn.lin1.weight', "
                       "'vocab_transform.bias'; 'vocab_layer_norm.bias' is F32[9], "
                       "expected [dim=8]"))
      << message;
}

TEST(Checkpoint, WarnsOfUnusedTensorsButNotOfBuffers) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.add("extra.weight", {2, 2});
  checkpoint.add("distilbert.embeddings.position_ids", {1, 16});
  checkpoint.write();
  const auto built = build_checkpoint(checkpoint.folder(), short_rows());
  ASSERT_TRUE(built.ok()) << built.status().message();
  EXPECT_EQ(built->unused, std::vector<std::string>{"extra.weight"});
  ASSERT_EQ(built->warnings.size(), 1u);
  EXPECT_TRUE(contains(built->warnings[0], "1 tensor is not used by this model: extra.weight"));
}

TEST(Checkpoint, AnUntiedProjectorIsKeptWithAWarning) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.add("vocab_projector.weight", {11, 8});
  checkpoint.write();
  auto built = build_checkpoint(checkpoint.folder(), short_rows());
  ASSERT_TRUE(built.ok()) << built.status().message();
  ASSERT_EQ(built->warnings.size(), 1u);
  EXPECT_TRUE(contains(built->warnings[0], "'vocab_projector.weight' is to be tied"));

  TestCheckpoint untied = tiny_distilbert();
  untied.set("tie_word_embeddings", false);
  untied.write();
  EXPECT_TRUE(contains(fault(untied), "1 tensor is missing: 'vocab_projector.weight'"))
      << fault(untied);
}

TEST(Checkpoint, ConvertsHalfTypes) {
  TestCheckpoint f32 = tiny_distilbert();
  f32.round_to_bf16();
  f32.write();
  const auto expected = build_checkpoint(f32.folder(), short_rows());
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
    TestCheckpoint half = tiny_distilbert();
    half.round_to_bf16();
    half.write(dtype);
    const auto built = build_checkpoint(half.folder(), short_rows());
    ASSERT_TRUE(built.ok()) << built.status().message();
    int tables = 0;
    for (const Value* c : built->graph->constants()) tables += c->type().str() == "f32[11,8]";
    EXPECT_EQ(tables, 1) << name(dtype);
    expect_same(outputs(*built), outputs(*expected));
  }
}

TEST(Checkpoint, KeepsSizesOpen) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.write();
  BuildOptions open;
  open.open_sizes = true;
  const auto built = build_checkpoint(checkpoint.folder(), open);
  ASSERT_TRUE(built.ok()) << built.status().message();
  EXPECT_EQ(built->graph->outputs()[0].value->type().str(), "f32[batch,seq,11]");
  const auto expected = build_checkpoint(checkpoint.folder(), short_rows());
  expect_same(outputs(*built, 6), outputs(*expected));
}

TEST(Checkpoint, LengthIsBoundByThePositions) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.write();
  BuildOptions options;
  options.seq_len = {17, 17};
  EXPECT_EQ(fault(checkpoint, options),
            "--seq-len 17: the model takes 1 to 16 tokens (max_position_embeddings 16)");
  options.seq_len = {16, 16};
  EXPECT_EQ(fault(checkpoint, options), "built");
  EXPECT_EQ(fault(checkpoint), "built");  // 128 is shortened to what there is
}

TEST(Checkpoint, FillMaskFindsTheMaskToken) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.write();
  BuildOptions options = short_rows();
  options.head = "fill-mask";
  EXPECT_TRUE(contains(fault(checkpoint, options), "which token is the mask"));
  checkpoint.write_text("vocab.txt", "[PAD]\nx\ny\n[MASK]\n");
  const auto built = build_checkpoint(checkpoint.folder(), options);
  ASSERT_TRUE(built.ok()) << built.status().message();
  EXPECT_EQ(built->graph->outputs()[0].value->type().str(), "f32[1,11]");
  // Ids run 3, 10, 6, …: the mask token stands first.
  const auto all = build_checkpoint(checkpoint.folder(), short_rows());
  const Tensor row = outputs(*built)[0];
  const Tensor rows = outputs(*all)[0];
  for (int64_t i = 0; i < 11; ++i) EXPECT_EQ(row.at(i), rows.at(i));
  checkpoint.write_text("tokenizer.json", R"({"added_tokens": [{"id": 99, "content": "[MASK]"}]})");
  EXPECT_TRUE(contains(fault(checkpoint, options), "mask token 99 is outside the vocabulary"));
}

TEST(Checkpoint, FaultsOfTheConfigurationNameTheKey) {
  struct Row {
    const char* key;
    JsonValue value;
    const char* message;
  };
  const std::vector<Row> rows = {
      {"n_heads", JsonValue(3), "key 'n_heads': 3 does not divide dim (8)"},
      {"n_layers", JsonValue(-1), "key 'n_layers': expected an integer from 1 to 4096, found -1"},
      {"vocab_size", JsonValue(5),
       "'embeddings.word_embeddings.weight' is F32[11,8], expected [vocab_size=5,dim=8]"},
      {"dim", JsonValue(1e308), "key 'dim': expected an integer from 1 to 2147483647, found 1e"},
      {"dim", JsonValue("8"), "key 'dim': expected an integer from 1 to 2147483647, found '8'"},
      {"activation", JsonValue("sharp"), "key 'activation': expected one of gelu,"},
      {"model_type", JsonValue("mamba"), "key 'model_type': 'mamba' is not known; known: "},
      {"model_type", JsonValue(7), "key 'model_type': expected a text, found 7"},
      {"architectures", JsonValue("DistilBertModel"), "key 'architectures': expected a list"},
      {"architectures", JsonValue(JsonValue::Array{"DistilBertForDreams"}),
       "'DistilBertForDreams' is not known; choose one by --head: base, "},
      {"id2label", JsonValue(JsonValue::Object{{"1", "a"}}), "key 'id2label': expected ids from 0"},
      {"tie_word_embeddings", JsonValue(1), "key 'tie_word_embeddings': expected true or false"},
  };
  for (const Row& row : rows) {
    TestCheckpoint checkpoint = tiny_distilbert();
    checkpoint.set(row.key, row.value);
    checkpoint.write();
    const std::string message = fault(checkpoint, {});
    EXPECT_TRUE(contains(message, row.message)) << row.key << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.write();
  checkpoint.write_text("config.json", "{\"model_type\": ");
  EXPECT_TRUE(contains(fault(checkpoint), "config.json'")) << fault(checkpoint);
  checkpoint.write_text("config.json", "[]");
  EXPECT_TRUE(contains(fault(checkpoint), "expected a JSON object, found array"));
  checkpoint.write_text("config.json", "{}");
  EXPECT_TRUE(contains(fault(checkpoint), "key 'model_type' is missing")) << fault(checkpoint);
}

TEST(Checkpoint, ManyMissingLayersStayOneShortLine) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.set("n_layers", 4096);
  checkpoint.write();
  const std::string message = fault(checkpoint);
  EXPECT_TRUE(contains(message, "65520 tensors are missing: ")) << message.substr(0, 200);
  EXPECT_LT(message.size(), 4000u);
}

/// The tensors of `whole` in two files and an index that says where they are.
void write_shards(const TestCheckpoint& whole, const std::string& second = "two.safetensors") {
  TestCheckpoint first, rest;
  JsonValue::Object map;
  for (size_t i = 0; i < whole.tensors.size(); ++i) {
    (i % 2 == 0 ? first : rest).tensors.push_back(whole.tensors[i]);
    map.emplace_back(whole.tensors[i].first,
                     JsonValue(i % 2 == 0 ? std::string("one.safetensors") : second));
  }
  first.write();
  rest.write();
  std::filesystem::copy_file(first.folder() + "/model.safetensors",
                             whole.folder() + "/one.safetensors");
  std::filesystem::copy_file(rest.folder() + "/model.safetensors",
                             whole.folder() + "/two.safetensors");
  whole.write_text("config.json", to_json(JsonValue(whole.config)));
  whole.write_text("model.safetensors.index.json",
                   to_json(JsonValue(JsonValue::Object{{"weight_map", JsonValue(map)}})));
}

TEST(Checkpoint, ReadsShardsBesideTheirIndex) {
  TestCheckpoint whole = tiny_distilbert();
  whole.write();
  TestCheckpoint sharded = tiny_distilbert();
  write_shards(sharded);
  const auto a = build_checkpoint(whole.folder(), short_rows());
  const auto b = build_checkpoint(sharded.folder(), short_rows());
  ASSERT_TRUE(b.ok()) << b.status().message();
  expect_same(outputs(*a), outputs(*b));
}

TEST(Checkpoint, RefusesShardsThatAreElsewhere) {
  TestCheckpoint outside = tiny_distilbert();
  write_shards(outside, "../two.safetensors");
  EXPECT_TRUE(contains(fault(outside), "'../two.safetensors'")) << fault(outside);
  EXPECT_TRUE(contains(fault(outside), "is no file beside the index"));

  TestCheckpoint missing = tiny_distilbert();
  write_shards(missing);
  std::filesystem::remove(missing.folder() + "/two.safetensors");
  EXPECT_TRUE(contains(fault(missing), "two.safetensors")) << fault(missing);

  TestCheckpoint wrong = tiny_distilbert();
  write_shards(wrong);
  std::filesystem::rename(wrong.folder() + "/one.safetensors", wrong.folder() + "/x");
  std::filesystem::rename(wrong.folder() + "/two.safetensors", wrong.folder() + "/one.safetensors");
  std::filesystem::rename(wrong.folder() + "/x", wrong.folder() + "/two.safetensors");
  EXPECT_TRUE(contains(fault(wrong),
                       "is in shard 'two.safetensors', expected in "
                       "'one.safetensors'"))
      << fault(wrong);
}

TEST(Checkpoint, FaultsOfTheWeightsNameTheFile) {
  TestCheckpoint c = tiny_distilbert();
  c.write();
  for (const std::string& bytes : {std::string("\x08\0\0\0\0\0\0\x80{}", 10), std::string("x"),
                                   std::string(), std::string("\x80\x02}q\0.", 6)}) {
    c.write_text("model.safetensors", bytes);
    const std::string message = fault(c);
    EXPECT_TRUE(contains(message, "model.safetensors'")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Checkpoint, AFolderWithoutWeightsSaysWhatIsExpected) {
  TestCheckpoint checkpoint = tiny_distilbert();
  checkpoint.write_text("config.json", "{\"model_type\": \"distilbert\"}");
  EXPECT_TRUE(contains(fault(checkpoint), "no weights; expected one of model.safetensors"))
      << fault(checkpoint);
  EXPECT_FALSE(build_checkpoint(checkpoint.folder() + "/none").ok());
}

}  // namespace
}  // namespace downhaul::models
