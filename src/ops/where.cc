#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

TypesResult infer_where(const Node& node) {
  DH_TRY(require_bool(node, "condition"));
  DH_TRY(require_same_dtype(node, {"self", "other"}));
  DH_ASSIGN(const Shape values,
            broadcast_shapes("self", node.type("self").shape, "other", node.type("other").shape));
  DH_ASSIGN(Shape shape,
            broadcast_shapes("condition", node.type("condition").shape, "self and other", values));
  return one_type(node.type("self").dtype, std::move(shape));
}

template <typename T>
Status where(RefCall& call) {
  const bool* condition = call.in(0).data<bool>();
  const T* a = call.in(1).data<T>();
  const T* b = call.in(2).data<T>();
  T* out = call.out().mutable_data<T>();
  const LoopNest loops =
      broadcast_loops(call.out().sizes(), {&call.in(0), &call.in(1), &call.in(2)});
  for_each_row(loops, [&](int64_t to, const int64_t* from) {
    for (int64_t i = 0; i < loops.inner_size(); ++i) {
      out[to + i] = condition[from[0] + i * loops.inner_stride(0)]
                        ? a[from[1] + i * loops.inner_stride(1)]
                        : b[from[2] + i * loops.inner_stride(2)];
    }
  });
  return {};
}

}  // namespace

// where: self where condition, else other; all three broadcast.
//   condition bool   self, other  any dtype, the same   result  their dtype
// Errors: kInvalidGraph for other dtypes or shapes that do not broadcast. Source: aten::where.self.
const OpDef kWhere = {
    .name = "where",
    .schema = "where(Tensor condition, Tensor self, Tensor other) -> Tensor",
    .infer = infer_where,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& call) {
          return for_item_size(call, call.in(1).dtype(),
                               []<typename T>(RefCall& c) { return where<T>(c); });
        },
};

}  // namespace downhaul::ops
