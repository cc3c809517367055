#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ir/graph.h"

/// The text form of a graph:
///
///     graph forward {
///       symbol s0 in [1, 512]
///       input %ids: i64[1,s0]
///       state %cache: f32[1,4] = splat 0
///       const %w: f32[3,2] = [0, 1, 2, 3, 4, 5]
///       const %b: f32[3] = random 7
///       %y = linear(%x, %w, %b)
///       %v, %i = topk(%y, k=2, dim=-1)
///       %m = matmul(%a, %b, transpose_other=true)
///       %c = concat(%a, %b, dim=1)                    # list members after the fixed operands
///       %p = layer_norm(%x, none, %bias, normalized_shape=[8])
///       return %v as "values", %i as "indices"
///       update %cache = %new
///     }
///
/// Attributes at their default are left out. Constant data: a list in row-major order, `splat V`,
/// or `random SEED` (reading only: uniform in [-1, 1), the same on every machine; integers 0 or 1).
/// Types of results may be stated after the name (`%y: f32[1,3] = …`) and are checked.
/// `#` starts a comment.
namespace downhaul {

struct PrintOptions {
  bool types = true;  ///< state result types
  int max_constant_values =
      16;  ///< longer constants print as `data "f32…"` with a digest, not readable
  bool origins = false;
};

std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Node& node, const PrintOptions& options = {});
/// One attribute as it stands in the text form.
std::string print(const Attr& attr);

/// Errors: kInvalidGraph, with the line.
Result<std::unique_ptr<Graph>> parse_graph(std::string_view text, OpLookup lookup);

}  // namespace downhaul
