#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/graph.h"

/// From a program over a whole sequence of tokens to one over the tokens that are new.
namespace downhaul {

struct IncrementalGraph {
  /// Inputs: the new tokens, [1, n] with a symbol n >= 1, and `position`, i64 []: how many tokens
  /// came before. Outputs as the source's after position + n tokens; of one that has a row for each
  /// token, the n new rows. States: keys and values of every attention.
  std::unique_ptr<Graph> graph;
  std::vector<int64_t> cache_axes;  ///< of each state: the dimension that counts tokens
};

/// What a source graph takes.
struct SequenceInput {
  int64_t max_length = 0;  ///< tokens
  DType dtype = DType::kI64;
};
/// The only input of `graph` must be token ids of an open length, [s] or [1, s] (a batch that is
/// open counts as 1). Errors: kUnsupported saying what it is instead.
Result<SequenceInput> find_sequence_input(const Graph& graph);

/// `graph` after canonical_passes. Room for `capacity` tokens, at most max_length.
/// Errors: kUnsupported naming the first node whose row for a token cannot be shown to depend only
/// on that token and those before it, and why.
Result<IncrementalGraph> make_incremental(const Graph& graph, int64_t capacity);

/// Where each output has a row for each token, keeps the last one only.
Status keep_last_row(Graph& graph);

}  // namespace downhaul
