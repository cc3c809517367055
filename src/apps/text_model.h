#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/app_model.h"
#include "text/tokenizer.h"

/// A model that takes tokens, with its tokenizer: from texts to outputs.
namespace downhaul {

struct TextModelOptions {
  /// Folder or file of the tokenizer; "" means the one that the spec names, or the model's folder.
  std::string tokenizer;
  bool truncate = false;  ///< cut texts that are too long, instead of refusing them
};

/// What a model made of one text.
struct TextOutput {
  text::Encoding encoding;  ///< padded as the model got it
  std::vector<Tensor> outputs;
  double forward_ms = 0;
};

class TextModel {
 public:
  /// Whether the first input of a graph takes token ids.
  static bool takes_text(const Graph& graph);

  /// Errors: kInvalidArgument for inputs that are not those of a text model, naming them; those of
  /// the tokenizer.
  static Result<TextModel> make(AppModel model, const TextModelOptions& options);
  static Result<TextModel> load(const std::string& path, const AppModelOptions& model,
                                const TextModelOptions& options);

  const AppModel& model() const { return model_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  /// Most tokens that fit, special ones included.
  int64_t max_tokens() const { return max_tokens_; }
  /// Texts that are encoded side by side, as for multiple choice; 1 for all other models.
  int64_t num_choices() const { return choices_; }

  /// Tokens of a text or a pair, padded to the program's length where that is fixed. Of pairs only
  /// the second text is cut.
  /// Errors: kInvalidArgument for texts that do not fit, unless they are to be cut, and for texts
  /// of another length than the program's when it has no mask to hide the rest.
  Result<text::Encoding> encode(std::string_view text, const std::string_view* pair) const;
  /// Tokens of a text or a pair as they are: neither cut nor padded.
  Result<text::Encoding> tokens(std::string_view text, const std::string_view* pair) const;
  /// Whether texts that are too long are cut.
  bool truncates() const { return truncate_; }
  /// Pads to `length` tokens, or leaves what is longer.
  void pad(text::Encoding& encoding, size_t length) const;

  /// Not for several callers at a time. Errors: as encode, and as AppModel::run.
  Result<TextOutput> run(std::string_view text, const std::string_view* pair = nullptr);
  /// As run, from tokens.
  Result<TextOutput> run_tokens(text::Encoding encoding);
  /// Runs encodings of one length: num_choices() of them.
  Result<std::vector<Tensor>> run(const std::vector<text::Encoding>& encodings);

 private:
  enum class Role { kIds, kMask, kTypes, kPositions };
  struct Input {
    Role role;
    DType dtype;
  };
  Result<text::Encoding> tokens(std::string_view text, const std::string_view* pair,
                                int64_t limit) const;
  /// Pads tokens to the program's length. Errors: as encode.
  Status fit(text::Encoding& encoding) const;
  Result<TextOutput> run_fitting(text::Encoding encoding);
  TextModel(AppModel model, text::Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}

  AppModel model_;
  text::Tokenizer tokenizer_;
  bool truncate_ = false;
  std::vector<Input> inputs_;
  bool has_mask_ = false;
  bool with_choices_ = false;  ///< ids are [1, choices, tokens]
  int64_t min_tokens_ = 1, max_tokens_ = 0, choices_ = 1;
};

}  // namespace downhaul
