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
  Result<TextEmbeddings> embed(TextModel& model, bool unit_length) const {
    return embed_texts(model, texts_, pooling_ == "cls" ? Pooling::kFirst : Pooling::kMean,
                       unit_length);
  }

  std::vector<std::string> texts_;
  std::string pooling_ = "mean";
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
    DH_ASSIGN(const TextEmbeddings made, embed(model, !raw_));
    const auto& vectors = made.vectors;
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.model().path());
      json.field("forward_ms", made.forward_ms);
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
    DH_ASSIGN(const TextEmbeddings made, embed(model, false));
    const auto& vectors = made.vectors;
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.model().path());
      json.field("forward_ms", made.forward_ms);
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
