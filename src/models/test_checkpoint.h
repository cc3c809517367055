#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/safetensors/safetensors.h"
#include "tensor/tensor.h"

/// Checkpoints that tests make up, in a folder that goes with them.
namespace downhaul::models {

class TestCheckpoint {
 public:
  TestCheckpoint() {
    static int count = 0;
    const auto base = std::filesystem::path(::testing::TempDir());
    folder_ = (base / cat("downhaul_models_", ::getpid(), "_", count++)).string();
    std::filesystem::create_directories(folder_);
  }
  TestCheckpoint(TestCheckpoint&& other) noexcept
      : tensors(std::move(other.tensors)),
        config(std::move(other.config)),
        folder_(std::exchange(other.folder_, "")),
        seed_(other.seed_) {}
  ~TestCheckpoint() {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::vector<std::pair<std::string, Tensor>> tensors;
  JsonValue::Object config;

  const std::string& folder() const { return folder_; }

  /// Values in [-0.5, 0.5), other ones for every tensor.
  void add(const std::string& name, const Sizes& sizes) {
    Tensor t(DType::kF32, sizes);
    auto* data = t.mutable_data<float>();
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
      data[i] = static_cast<float>(seed_ >> 40) / static_cast<float>(1 << 24) - 0.5f;
    }
    tensors.emplace_back(name, t);
  }
  void linear(const std::string& module, int64_t in, int64_t out) {
    add(module + ".weight", {out, in});
    add(module + ".bias", {out});
  }
  void norm(const std::string& module, int64_t dim) {
    add(module + ".weight", {dim});
    add(module + ".bias", {dim});
  }
  void remove(const std::string& name) {
    const size_t before = tensors.size();
    std::erase_if(tensors, [&](const auto& t) { return t.first == name; });
    ASSERT_EQ(tensors.size() + 1, before) << name;
  }
  void set(const std::string& key, JsonValue value) {
    std::erase_if(config, [&](const auto& member) { return member.first == key; });
    config.emplace_back(key, std::move(value));
  }
  /// Values that f16, bf16 and f32 all hold.
  void round_to_bf16() {
    for (auto& [name, t] : tensors) t = t.cast(DType::kBF16).cast(DType::kF32);
  }

  void write_text(const std::string& file, const std::string& text) const {
    ASSERT_TRUE(write_file(cat(folder_, "/", file), as_bytes(text)).ok());
  }
  void write(DType dtype = DType::kF32, const std::string& file = "model.safetensors") const {
    write_text("config.json", to_json(JsonValue(config)));
    const auto type = dtype == DType::kF16    ? safetensors::DType::kF16
                      : dtype == DType::kBF16 ? safetensors::DType::kBF16
                      : dtype == DType::kF64  ? safetensors::DType::kF64
                                              : safetensors::DType::kF32;
    std::vector<safetensors::Writer::Declaration> declarations;
    for (const auto& [name, t] : tensors) declarations.push_back({name, type, t.sizes()});
    auto writer = safetensors::Writer::create(cat(folder_, "/", file), declarations);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (const auto& [name, t] : tensors) ASSERT_TRUE(writer->append(t.cast(dtype).bytes()).ok());
    ASSERT_TRUE(writer->commit().ok());
  }

 private:
  std::string folder_;
  uint64_t seed_ = 1;
};

/// One layer of width 8 for 11 words and 16 places, masked language modelling.
inline TestCheckpoint tiny_distilbert() {
  TestCheckpoint c;
  c.config = {{"architectures", JsonValue::Array{"DistilBertForMaskedLM"}},
              {"model_type", "distilbert"},
              {"vocab_size", 11},
              {"max_position_embeddings", 16},
              {"n_layers", 1},
              {"n_heads", 2},
              {"dim", 8},
              {"hidden_dim", 12},
              {"activation", "gelu"}};
  c.add("distilbert.embeddings.word_embeddings.weight", {11, 8});
  c.add("distilbert.embeddings.position_embeddings.weight", {16, 8});
  c.norm("distilbert.embeddings.LayerNorm", 8);
  const std::string at = "distilbert.transformer.layer.0.";
  for (const char* name : {"q_lin", "k_lin", "v_lin", "out_lin"}) {
    c.linear(cat(at, "attention.", name), 8, 8);
  }
  c.norm(at + "sa_layer_norm", 8);
  c.linear(at + "ffn.lin1", 8, 12);
  c.linear(at + "ffn.lin2", 12, 8);
  c.norm(at + "output_layer_norm", 8);
  c.linear("vocab_transform", 8, 8);
  c.norm("vocab_layer_norm", 8);
  c.add("vocab_projector.bias", {11});
  return c;
}

}  // namespace downhaul::models
