// GPT-2, BERT and the image models on made-up weights; their numbers are held against the
// libraries' own in tests/peers.
#include <gtest/gtest.h>

#include <cmath>

#include "models/models.h"
#include "models/test_checkpoint.h"
#include "ops/evaluate.h"

namespace downhaul::models {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string fault(const std::string& path, const BuildOptions& options = {}) {
  const auto built = build_checkpoint(path, options);
  return built.ok() ? "built" : built.status().message();
}

/// The first output for the ids and mask given.
Tensor run(const BuiltModel& model, const std::vector<Tensor>& inputs) {
  auto results = evaluate(*model.graph, inputs);
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results.ok() ? (*results)[0] : Tensor();
}

Tensor ids(std::vector<int64_t> values) {
  const auto n = static_cast<int64_t>(values.size());
  return Tensor::from<int64_t>({1, n}, values);
}

TestCheckpoint tiny_gpt2(const std::string& prefix) {
  TestCheckpoint c;
  c.config = {{"model_type", "gpt2"}, {"architectures", JsonValue::Array{"GPT2LMHeadModel"}},
              {"vocab_size", 9},      {"n_positions", 7},
              {"n_layer", 2},         {"n_head", 2},
              {"n_embd", 6}};
  c.add(prefix + "wte.weight", {9, 6});
  c.add(prefix + "wpe.weight", {7, 6});
  for (int i = 0; i < 2; ++i) {
    const std::string at = cat(prefix, "h.", i, ".");
    c.norm(at + "ln_1", 6);
    c.add(at + "attn.c_attn.weight", {6, 18});
    c.add(at + "attn.c_attn.bias", {18});
    c.add(at + "attn.c_proj.weight", {6, 6});
    c.add(at + "attn.c_proj.bias", {6});
    c.norm(at + "ln_2", 6);
    c.add(at + "mlp.c_fc.weight", {6, 24});
    c.add(at + "mlp.c_fc.bias", {24});
    c.add(at + "mlp.c_proj.weight", {24, 6});
    c.add(at + "mlp.c_proj.bias", {6});
  }
  c.norm(prefix + "ln_f", 6);
  return c;
}

TEST(Gpt2, NextTokenIsTheLastRowAndLaterTokensChangeNothingBefore) {
  TestCheckpoint c = tiny_gpt2("");
  c.add("h.0.attn.bias", {1, 1, 7, 7});  // a buffer of old files
  c.add("h.0.attn.masked_bias", {});
  c.write();
  BuildOptions options;
  options.open_sizes = true;
  const auto last = build_checkpoint(c.folder(), options);
  options.head = "lm";
  const auto all = build_checkpoint(c.folder(), options);
  ASSERT_TRUE(last.ok()) << last.status().message();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_TRUE(last->unused.empty());
  EXPECT_EQ(last->task, "text-generation");
  EXPECT_EQ(last->max_length, 7);
  EXPECT_EQ(last->graph->outputs()[0].value->type().str(), "f32[batch,9]");
  const Tensor row = run(*last, {ids({1, 5, 3, 8})});
  const Tensor rows = run(*all, {ids({1, 5, 3, 8, 2})});
  for (int64_t i = 0; i < 9; ++i) EXPECT_FLOAT_EQ(row.at(i), rows.at(3 * 9 + i));
}

TEST(Gpt2, PrefixedNamesMeanTheSame) {
  const TestCheckpoint a = tiny_gpt2("");
  const TestCheckpoint b = tiny_gpt2("transformer.");
  a.write();
  b.write();
  BuildOptions options;
  options.seq_len = {4, 4};
  const auto x = build_checkpoint(a.folder(), options);
  const auto y = build_checkpoint(b.folder(), options);
  ASSERT_TRUE(x.ok() && y.ok());
  EXPECT_TRUE(same_bytes(run(*x, {ids({1, 2, 3, 4})}), run(*y, {ids({1, 2, 3, 4})})));
}

TestCheckpoint tiny_bert(const std::string& type) {
  TestCheckpoint c;
  c.config = {{"model_type", type},      {"vocab_size", 9},          {"max_position_embeddings", 8},
              {"num_hidden_layers", 1},  {"num_attention_heads", 2}, {"hidden_size", 6},
              {"intermediate_size", 10}, {"layer_norm_eps", 1e-5}};
  c.add("embeddings.word_embeddings.weight", {9, 6});
  c.add("embeddings.position_embeddings.weight", {8, 6});
  c.add("embeddings.token_type_embeddings.weight", {2, 6});
  c.norm("embeddings.LayerNorm", 6);
  const std::string at = "encoder.layer.0.";
  for (const char* name : {"self.query", "self.key", "self.value", "output.dense"}) {
    c.linear(cat(at, "attention.", name), 6, 6);
  }
  c.norm(at + "attention.output.LayerNorm", 6);
  c.linear(at + "intermediate.dense", 6, 10);
  c.linear(at + "output.dense", 10, 6);
  c.norm(at + "output.LayerNorm", 6);
  return c;
}

TEST(Bert, TokenTypesOfZeroAreTheDefault) {
  const TestCheckpoint c = tiny_bert("bert");
  c.write();
  BuildOptions options;
  options.seq_len = {4, 4};
  const auto without = build_checkpoint(c.folder(), options);
  options.token_types = true;
  const auto with = build_checkpoint(c.folder(), options);
  ASSERT_TRUE(without.ok()) << without.status().message();
  ASSERT_TRUE(with.ok()) << with.status().message();
  EXPECT_EQ(without->graph->outputs().size(), 1u);  // no pooler is stored
  const Tensor mask = ids({1, 1, 1, 0});
  const Tensor a = run(*without, {ids({1, 2, 3, 0}), mask});
  const Tensor b = run(*with, {ids({1, 2, 3, 0}), mask, ids({0, 0, 0, 0})});
  const Tensor other = run(*with, {ids({1, 2, 3, 0}), mask, ids({0, 1, 0, 0})});
  EXPECT_TRUE(same_bytes(a, b));
  EXPECT_FALSE(same_bytes(a, other));
}

TEST(Bert, EmbeddingsAreMeansOfWhatTheMaskLetsThrough) {
  const TestCheckpoint c = tiny_bert("bert");
  c.write();
  BuildOptions options;
  options.seq_len = {4, 4};
  const auto hidden = build_checkpoint(c.folder(), options);
  c.write_text("modules.json", R"([{"type": "sentence_transformers.models.Transformer"},
      {"type": "sentence_transformers.models.Pooling"},
      {"type": "sentence_transformers.models.Normalize"}])");
  std::filesystem::create_directories(c.folder() + "/1_Pooling");
  c.write_text("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  const auto embedding = build_checkpoint(c.folder(), options);
  ASSERT_TRUE(embedding.ok()) << embedding.status().message();
  EXPECT_EQ(embedding->head, "embed");
  const std::vector<Tensor> inputs = {ids({1, 2, 3, 0}), ids({1, 1, 0, 0})};
  const Tensor h = run(*hidden, inputs);
  const Tensor e = run(*embedding, inputs);
  double length = 0;
  for (int64_t i = 0; i < 6; ++i) length += std::pow((h.at(i) + h.at(6 + i)) / 2, 2);
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(e.at(i), (h.at(i) + h.at(6 + i)) / 2 / std::sqrt(length), 1e-6);
  }
  c.write_text("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  EXPECT_TRUE(contains(fault(c.folder()), "'pooling_mode_max_tokens' is not supported"));
}

TEST(Bert, RobertaLosesTheFirstPositionsToItsPadding) {
  const TestCheckpoint c = tiny_bert("roberta");
  c.write();
  BuildOptions options;
  options.seq_len = {7, 7};
  EXPECT_EQ(fault(c.folder(), options),
            "--seq-len 7: the model takes 1 to 6 tokens (max_position_embeddings 8)");
  options.seq_len = {6, 6};
  EXPECT_EQ(fault(c.folder(), options), "built");
}

TEST(Bert, RefusesWhatItDoesNotCompute) {
  TestCheckpoint c = tiny_bert("bert");
  c.set("position_embedding_type", "relative_key");
  c.write();
  EXPECT_TRUE(contains(fault(c.folder()), "key 'position_embedding_type': expected 'absolute'"));
  TestCheckpoint d = tiny_bert("bert");
  d.set("is_decoder", true);
  d.write();
  EXPECT_TRUE(contains(fault(d.folder()), "key 'is_decoder'"));
}

/// A convolution of 2 channels and its batch norm.
void conv_norm(TestCheckpoint& c, const std::string& conv, const std::string& norm, int64_t in,
               int64_t kernel, bool depthwise = false, int64_t out = 2) {
  c.add(conv + ".weight", {out, depthwise ? 1 : in, kernel, kernel});
  c.norm(norm, out);
  c.add(norm + ".running_mean", {out});
  c.add(norm + ".running_var", {out});
}

TestCheckpoint narrow_mobilenet_v2() {
  TestCheckpoint c;
  conv_norm(c, "features.0.0", "features.0.1", 3, 3);
  for (int i = 1; i <= 17; ++i) {
    const std::string at = cat("features.", i, ".conv.");
    const int part = i == 1 ? 0 : 1;
    if (i > 1) conv_norm(c, at + "0.0", at + "0.1", 2, 1);
    conv_norm(c, cat(at, part, ".0"), cat(at, part, ".1"), 2, 3, true);
    conv_norm(c, cat(at, part + 1), cat(at, part + 2), 2, 1);
  }
  conv_norm(c, "features.18.0", "features.18.1", 2, 1);
  c.linear("classifier.1", 2, 5);
  c.add("features.0.1.num_batches_tracked", {});
  return c;
}

TEST(MobileNetV2, TakesItsWidthFromTheWeights) {
  TestCheckpoint c = narrow_mobilenet_v2();
  c.write(DType::kF32, "mobilenet_v2-0123.safetensors");
  std::filesystem::remove(c.folder() + "/config.json");
  BuildOptions options;
  options.image = {{32, 48}};
  options.batch = {2, 2};
  const auto built = build_checkpoint(c.folder(), options);  // the name says what it is
  ASSERT_TRUE(built.ok()) << built.status().message();
  EXPECT_EQ(built->family, "mobilenet_v2");
  EXPECT_EQ(built->task, "classification");
  EXPECT_TRUE(built->unused.empty());
  EXPECT_EQ(built->graph->inputs()[0]->type().str(), "f32[2,3,32,48]");
  EXPECT_EQ(built->graph->outputs()[0].value->type().str(), "f32[2,5]");
  options.seq_len = {8, 8};
  EXPECT_EQ(fault(c.folder(), options), "--seq-len: mobilenet_v2 takes pictures");
  options = {};
  options.head = head_of_task("classification");  // as a spec with this task asks for
  EXPECT_TRUE(build_checkpoint(c.folder(), options).ok()) << fault(c.folder(), options);
  options.head = "qa";
  EXPECT_EQ(fault(c.folder(), options), "--head qa: mobilenet_v2 has no heads to choose from");
  options = {};
  options.model_id = "mobilenet_v9";
  EXPECT_TRUE(contains(fault(c.folder(), options), "model id 'mobilenet_v9' is not known"));
}

TEST(MobileNetV2, NamesWhatDoesNotFit) {
  TestCheckpoint c = narrow_mobilenet_v2();
  c.remove("features.3.conv.1.0.weight");
  c.add("features.3.conv.1.0.weight", {2, 1, 5, 5});
  c.remove("features.7.conv.3.running_var");
  c.write(DType::kF32, "w.safetensors");
  BuildOptions options;
  options.model_id = "mobilenet_v2";
  std::filesystem::remove(c.folder() + "/config.json");
  const std::string message = fault(c.folder(), options);
  EXPECT_TRUE(contains(message, "1 tensor is missing: 'features.7.conv.3.running_var'")) << message;
  EXPECT_TRUE(contains(message, "'features.3.conv.1.0.weight' is F32[2,1,5,5], expected ["))
      << message;
  EXPECT_TRUE(contains(message, "kernel=3")) << message;
  EXPECT_TRUE(contains(fault(c.folder()), "give --model-id, one of mobilenet_v2, "))
      << fault(c.folder());
}

TEST(ResNet, AHoleAmongTheBlocksIsMissingNotShallower) {
  TestCheckpoint c;
  conv_norm(c, "conv1", "bn1", 3, 7);
  for (int layer = 1; layer <= 4; ++layer) {
    for (int i = 0; i < 2; ++i) {
      const std::string at = cat("layer", layer, ".", i, ".");
      conv_norm(c, at + "conv1", at + "bn1", 2, 3);
      conv_norm(c, at + "conv2", at + "bn2", 2, 3);
      if (layer > 1 && i == 0) conv_norm(c, at + "downsample.0", at + "downsample.1", 2, 1);
    }
  }
  c.linear("fc", 2, 3);
  const auto write = [&] {
    c.write(DType::kF32, "resnet18.safetensors");
    std::filesystem::remove(c.folder() + "/config.json");
  };
  write();
  const auto built = build_checkpoint(c.folder() + "/resnet18.safetensors");
  ASSERT_TRUE(built.ok()) << built.status().message();
  EXPECT_TRUE(built->warnings.empty());
  EXPECT_EQ(built->graph->outputs()[0].value->type().str(), "f32[1,3]");
  std::erase_if(c.tensors, [](const auto& t) { return t.first.starts_with("layer3.0."); });
  write();
  EXPECT_TRUE(contains(fault(c.folder()), "tensors are missing: 'layer3.0.conv1.weight'"))
      << fault(c.folder());
}

}  // namespace
}  // namespace downhaul::models
