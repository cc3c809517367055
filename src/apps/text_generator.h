#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/sampling.h"
#include "engine/decoder.h"
#include "models/models.h"
#include "report/artifact.h"
#include "text/tokenizer.h"

/// Goes on with texts, token by token, by a causal language model.
namespace downhaul {

struct TextGeneratorOptions {
  /// Folder or file of the tokenizer; "": the one beside the model.
  std::string tokenizer;
  bool needs_tokenizer = true;  ///< false: only token ids go in and out unless `tokenizer` is set
  models::BuildOptions model;   ///< for checkpoints
  DecoderOptions decoder;
};

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 64;
  std::vector<std::string> stop_texts;  ///< end before the first of them; none is empty
  std::vector<int64_t> stop_ids;  ///< end after one of them; empty: the tokenizer's end of text
  double max_seconds = 0;         ///< above 0: end after the token that reaches it
};

struct GeneratedText {
  std::vector<int64_t> prompt;
  std::vector<int64_t> tokens;  ///< that were added, the one that ended it included
  std::string text;             ///< of the tokens, without what ended it; empty without a tokenizer
  std::string_view ended_by;    ///< "max-tokens", "stop", "length", "time"
  double prefill_seconds = 0;   ///< for the prompt
  double decode_seconds = 0;    ///< for all that was added
  double tokens_per_second = 0;  ///< after the first step, which also lays out its plan
};

class TextGenerator {
 public:
  /// Called with each token, and with the text that has become certain by it: whole characters
  /// only, and nothing of what a stop may begin with.
  using OnToken = std::function<void(int64_t token, std::string_view text)>;

  /// Errors: those of loading, of Decoder::make (with the path) and of the tokenizer.
  static Result<std::unique_ptr<TextGenerator>> load(const std::string& path,
                                                     const TextGeneratorOptions& options);

  /// Null without one.
  const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  const Decoder& decoder() const { return *decoder_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Tokens of a prompt. Errors: kInvalidArgument without a tokenizer, or for a text without
  /// tokens.
  Result<std::vector<int64_t>> encode(std::string_view prompt) const;

  /// Not for several callers at a time; each call begins anew. Errors: kInvalidArgument for
  /// sampling options, an empty stop text, stop texts without a tokenizer, prompts that do not fit.
  Result<GeneratedText> generate(std::vector<int64_t> prompt, const GenerateOptions& options,
                                 const OnToken& on_token = {});

 private:
  TextGenerator() = default;
  std::optional<text::Tokenizer> tokenizer_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<std::string> warnings_;
};

}  // namespace downhaul
