#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/pt2/pt2.h"

namespace downhaul::aten {

/// How a target of the program reads as one of the dialect's rows.
struct Target {
  std::string_view overload;      ///< "aten.add_.Tensor"; empty when it is no overload
  std::string_view function;      ///< "floordiv" of "_operator.floordiv"; empty otherwise
  std::string_view higher_order;  ///< "cond" of "torch.ops.higher_order.cond"; empty otherwise
  std::string_view predispatch;   ///< "…" of "torch._functorch.predispatch.…"; empty otherwise
};
Target parse_target(std::string_view target);

/// "aten.relu.default" for "aten.relu_.default" and for "aten.__ior__.Tensor" "aten.__or__.Tensor";
/// empty when the overload does not write into its first argument.
std::string functional_overload(std::string_view overload);

/// For each node of `graph`, whether the values called `wanted` need it. Writes into a tensor are
/// needed when any alias of it is read afterwards; those that reach a tensor called `kept` always.
std::vector<bool> live_nodes(const pt2::Graph& graph, const std::vector<std::string>& wanted,
                             const std::vector<std::string>& kept);

}  // namespace downhaul::aten
