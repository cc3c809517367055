#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "ir/graph.h"

/// Queries whose every key is masked out.
namespace downhaul {

struct MaskedRows {
  /// What becomes of such a row.
  enum class Effect {
    kZeros,    ///< attention: the result is 0
    kNan,      ///< softmax over -inf alone: NaN, in that row only
    kIgnored,  ///< the mask is a finite number: an ordinary softmax, as if nothing were masked
  };
  std::string place;  ///< of the attention or softmax: the source's name, or the graph's
  int64_t rows = 0;
  int64_t of = 0;
  Effect effect = Effect::kZeros;
};

/// Looks at the masks of attentions and at what is added to (or chosen instead of) the scores of a
/// softmax over the last axis, evaluated on `inputs` with the reference kernels; scores themselves
/// are not computed. A finite mask counts from -1e4 downwards.
/// Errors: those of the evaluation.
Result<std::vector<MaskedRows>> find_masked_rows(const Graph& graph,
                                                 const std::vector<Tensor>& inputs);

std::string print(const MaskedRows& rows);

}  // namespace downhaul
