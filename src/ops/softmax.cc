#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/lines.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

TypesResult infer_softmax(const Node& node) {
  DH_TRY(require_float(node, "self"));
  DH_TRY(require_axis(node, "dim", node.type("self").rank()));
  return one_type(node.type("self"));
}

template <typename T>
Status softmax(RefCall& call) {
  const Tensor& self = call.in("self");
  const T* in = self.data<T>();
  T* out = call.out().mutable_data<T>();
  for_each_line(self, call.node.axis("dim", self.rank()), [=](int64_t at, int64_t step, int64_t n) {
    T top = -std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < n; ++i) top = std::max(top, in[at + i * step]);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const T e = std::exp(in[at + i * step] - top);
      out[at + i * step] = e;
      sum += static_cast<double>(e);
    }
    const T scale = static_cast<T>(1 / sum);
    for (int64_t i = 0; i < n; ++i) out[at + i * step] *= scale;
  });
  return {};
}

template <typename T>
Status log_softmax(RefCall& call) {
  const Tensor& self = call.in("self");
  const T* in = self.data<T>();
  T* out = call.out().mutable_data<T>();
  for_each_line(self, call.node.axis("dim", self.rank()), [=](int64_t at, int64_t step, int64_t n) {
    T top = -std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < n; ++i) top = std::max(top, in[at + i * step]);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += static_cast<double>(std::exp(in[at + i * step] - top));
    }
    const T log_sum = static_cast<T>(std::log(sum));
    for (int64_t i = 0; i < n; ++i) out[at + i * step] = in[at + i * step] - top - log_sum;
  });
  return {};
}

}  // namespace

// softmax: y = exp(x - max x) / sum exp(x - max x), max and sum along `dim`.
//   self  float, rank >= 1    result  same shape and dtype
// A line of only -inf, or with NaN or +inf, gives NaN. Sums are kept in f64.
// Errors: kInvalidGraph for a dim out of range or another dtype. Source: aten::softmax.int.
const OpDef kSoftmax = {
    .name = "softmax",
    .schema = "softmax(Tensor self, int dim) -> Tensor",
    .infer = infer_softmax,
    .axes = [](const Node& node) { return same_except_axis(node, "dim"); },
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return softmax<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

// log_softmax: y = x - max x - log sum exp(x - max x), along `dim`; otherwise as softmax.
// Source: aten::log_softmax.int.
const OpDef kLogSoftmax = {
    .name = "log_softmax",
    .schema = "log_softmax(Tensor self, int dim) -> Tensor",
    .infer = infer_softmax,
    .axes = [](const Node& node) { return same_except_axis(node, "dim"); },
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return log_softmax<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

}  // namespace downhaul::ops
