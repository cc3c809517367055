// clamp(clamp(x, a, b), c, d) → clamp(x, …) when [c, d] is not wholly outside of [a, b].
#include <algorithm>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::optional<double> bound(const Node& node, std::string_view name) {
  if (!node.has_attr(name)) return std::nullopt;
  return node.f(name);
}

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!is_op(node.operand(0), ops::kClamp) || !node.operand(0)->has_one_use()) return {};
  const Node& inner = *node.operand(0)->producer();
  auto low = bound(inner, "min");
  auto high = bound(inner, "max");
  const auto low2 = bound(node, "min");
  const auto high2 = bound(node, "max");
  if (low2) low = low ? std::max(*low, *low2) : *low2;
  if (high2) high = high ? std::min(*high, *high2) : *high2;
  if (low && high && *low > *high) return {};
  return {b.op(ops::kClamp, {inner.operand(0)},
               {{"min", low ? Attr(*low) : Attr()}, {"max", high ? Attr(*high) : Attr()}})};
}

}  // namespace

const Rewrite kMergeClamps = {
    .name = "merge_clamps",
    .root = &ops::kClamp,
    .apply = apply,
};

}  // namespace downhaul::rewrites
