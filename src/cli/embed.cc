#include <cstdio>

#include "apps/text_answers.h"
#include "cli/text_verb.h"
#include "formats/json/json.h"

namespace downhaul {
namespace {

// One vector a text: what the model gives, or the mean of what it gives for the tokens.
class EmbeddingVerb : public TextVerb {
 protected:
  void declare_embedding(Options& o) {
    declare_model(o);
    o.positionals(&texts_, "TEXT", "texts", false);
    o.choice(&pooling_, "--pooling", {"mean", "cls"},
             "of a model that gives one vector a token: their mean, or the first");
    declare_common(o);
  }
  Result<std::vector<std::vector<float>>> embed(TextModel& model, bool unit_length) {
    std::vector<std::vector<float>> vectors;
    for (const std::string& given : texts_) {
      DH_ASSIGN(const TextOutput output, model.run(text::replace_invalid_utf8(given)));
      forward_ms_ += output.forward_ms;
      const bool pooled = !output.outputs.empty() && output.outputs[0].rank() == 2;
      const auto tokens = static_cast<int64_t>(output.encoding.size());
      DH_ASSIGN(const Tensor* out,
                scores(output.outputs, 0, pooled ? Sizes{1, -1} : Sizes{1, tokens, -1}));
      std::vector<float> vector;
      if (pooled || pooling_ == "cls") {
        const auto row = row_of(*out, 0);
        vector.assign(row.begin(), row.end());
      } else {
        vector = mean_rows({out->data<float>(), static_cast<size_t>(out->num_elements())},
                           output.encoding.attention_mask);
      }
      if (unit_length) normalize_length(vector);
      vectors.push_back(std::move(vector));
    }
    return vectors;
  }

  std::vector<std::string> texts_;
  std::string pooling_ = "mean";
  double forward_ms_ = 0;
};

class Embed final : public EmbeddingVerb {
 public:
  std::string_view name() const override { return "embed"; }
  std::string_view summary() const override { return "Turn texts into vectors"; }
  std::string_view details() const override {
    return "Example:\n  downhaul embed minilm.pte \"a small cat\" --json";
  }
  void declare(Options& o) override {
    declare_embedding(o);
    o.flag(&raw_, "--raw", "do not scale the vectors to length 1");
  }
  Result<int> run() override {
    if (texts_.empty()) return invalid_argument("embed: give MODEL and TEXTS");
    DH_ASSIGN(TextModel model, load());
    DH_ASSIGN(const auto vectors, embed(model, !raw_));
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.model().path());
      json.field("forward_ms", forward_ms_);
      json.key("embeddings").begin_array();
      for (size_t i = 0; i < vectors.size(); ++i) {
        json.begin_object();
        json.field("text", texts_[i]);
        json.field("vector", vectors[i]);
        json.end_object();
      }
      json.end_array();
      json.end_object();
      std::printf("%s\n", json.take().c_str());
      return kExitDone;
    }
    for (const auto& vector : vectors) std::printf("%s\n", join(vector, " ").c_str());
    return kExitDone;
  }

 private:
  bool raw_ = false;
};

class Similarity final : public EmbeddingVerb {
 public:
  std::string_view name() const override { return "similarity"; }
  std::string_view summary() const override { return "Say how alike texts are"; }
  std::string_view details() const override {
    return "Cosines of the texts' vectors. Example:\n"
           "  downhaul similarity minilm.pte \"a cat\" \"a kitten\" \"a car\"";
  }
  void declare(Options& o) override { declare_embedding(o); }
  Result<int> run() override {
    if (texts_.size() < 2) return invalid_argument("similarity: give MODEL and two or more TEXTS");
    DH_ASSIGN(TextModel model, load());
    DH_ASSIGN(const auto vectors, embed(model, false));
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.model().path());
      json.field("forward_ms", forward_ms_);
      json.field("texts", texts_);
      json.key("similarities").begin_array();
      for (const auto& a : vectors) {
        json.begin_array();
        for (const auto& b : vectors) json.value(cosine(a, b));
        json.end_array();
      }
      json.end_array();
      json.end_object();
      std::printf("%s\n", json.take().c_str());
      return kExitDone;
    }
    for (size_t i = 0; i < vectors.size(); ++i) {
      for (size_t k = i + 1; k < vectors.size(); ++k) {
        std::printf("%7s  %s | %s\n", fixed(cosine(vectors[i], vectors[k]), 4).c_str(),
                    printable(texts_[i]).c_str(), printable(texts_[k]).c_str());
      }
    }
    return kExitDone;
  }
};

}  // namespace

std::unique_ptr<Verb> make_embed() { return std::make_unique<Embed>(); }
std::unique_ptr<Verb> make_similarity() { return std::make_unique<Similarity>(); }

}  // namespace downhaul
