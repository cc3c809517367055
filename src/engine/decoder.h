#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "passes/decode/incremental.h"

/// Causal language models token by token: keys and values of what came before are kept.
namespace downhaul {

struct DecoderOptions {
  EngineOptions engine;
  /// Runs the whole sequence for every token, as a model that is not incremental demands.
  bool whole_sequence = false;
};

/// One sequence. Not for several callers at a time.
class Decoder {
 public:
  /// `graph` is copied; its first output must be scores f32 [1, vocabulary] of the next token, or
  /// such a row for each token.
  /// Errors: kUnsupported for a model that takes something else than token ids of open length, or
  /// gives something else; those of the passes.
  static Result<std::unique_ptr<Decoder>> make(const Graph& graph, const DecoderOptions& options);

  /// Appends tokens to the sequence. Scores of the token that follows, [vocabulary]; valid until
  /// the next call.
  /// Errors: kInvalidArgument for no tokens, more than max_length altogether, a token outside the
  /// vocabulary. The sequence is then as before.
  Result<std::span<const float>> append(std::span<const int64_t> tokens);

  /// Begins anew; weights stay.
  void clear();

  int64_t length() const { return length_; }
  int64_t max_length() const { return input_.max_length; }
  int64_t vocabulary() const { return vocabulary_; }
  /// Why the whole sequence is run for every token; empty when keys and values are kept.
  const std::string& whole_sequence_reason() const { return reason_; }
  /// Bytes of keys and values at present.
  int64_t cache_bytes() const;
  /// The session in use, for profiles.
  Session& session() { return *session_; }

 private:
  Decoder() = default;
  Status make_room(int64_t tokens);
  Result<Tensor> ids(std::span<const int64_t> tokens) const;

  DecoderOptions options_;
  std::unique_ptr<Graph> graph_;  ///< canonical, over whole sequences
  SequenceInput input_;
  int64_t input_rank_ = 2;
  int64_t vocabulary_ = 0;
  std::string reason_;
  int64_t capacity_ = 0;
  std::vector<int64_t> cache_axes_;
  std::shared_ptr<EngineModel> model_;
  std::unique_ptr<Session> session_;
  int64_t length_ = 0;
  std::vector<int64_t> tokens_;  ///< of a whole sequence
  Tensor scores_;
};

}  // namespace downhaul
