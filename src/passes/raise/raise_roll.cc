// index_select(x, [k, …, n - 1, 0, …, k - 1]) → roll(x, -k): how a roll arrives decomposed.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseRoll = {
    .name = "raise_roll",
    .root = &ops::kIndexSelect,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand("self");
      const Value* index = node.operand("index");
      if (!is_small_constant(index) || index->rank() != 1 || x->rank() == 0) return {};
      const int64_t dim = node.axis("dim", x->rank());
      const Tensor& places = index->constant();
      const int64_t n = places.num_elements();
      if (n == 0 || !(x->dim(dim) == Dim(n))) return {};
      const int64_t first = places.int_at(0);
      if (first < 0 || first >= n) return {};
      for (int64_t i = 0; i < n; ++i) {
        if (places.int_at(i) != (first + i) % n) return {};
      }
      if (first == 0) return {x};
      return {b.op(ops::kRoll, {x}, {{"shifts", Ints{-first}}, {"dims", Ints{dim}}})};
    },
};

}  // namespace downhaul::rewrites
