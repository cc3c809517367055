#pragma once

#include <type_traits>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/loops.h"

/// Reference kernels of elementwise operators from a function of one element.
namespace downhaul {

/// out[i] = f(self[i]); f gets T and gives T, or bool when the result is bool.
template <typename T, typename F>
Status map_one(RefCall& call, F f) {
  using Out = std::conditional_t<std::is_same_v<decltype(f(T{})), bool>, bool, T>;
  const T* in = call.in(0).template data<T>();
  Out* out = call.out().template mutable_data<Out>();
  const int64_t n = call.out().num_elements();
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(in[i]));
  return {};
}

template <typename F>
Status map_float(RefCall& call, F f) {
  return for_float(call, call.in(0).dtype(),
                   [&]<typename T>(RefCall& c) { return map_one<T>(c, f); });
}

template <typename F>
Status map_number(RefCall& call, F f) {
  return for_number(call, call.in(0).dtype(),
                    [&]<typename T>(RefCall& c) { return map_one<T>(c, f); });
}

template <typename F>
Status map_any(RefCall& call, F f) {
  return for_any(call, call.in(0).dtype(),
                 [&]<typename T>(RefCall& c) { return map_one<T>(c, f); });
}

/// out = f(self, other) with broadcasting; f gets two T and gives T, or bool.
template <typename T, typename F>
Status map_two(RefCall& call, F f) {
  using Out = std::conditional_t<std::is_same_v<decltype(f(T{}, T{})), bool>, bool, T>;
  const T* a = call.in(0).template data<T>();
  const T* b = call.in(1).template data<T>();
  Out* out = call.out().template mutable_data<Out>();
  const LoopNest loops = broadcast_loops(call.out().sizes(), {&call.in(0), &call.in(1)});
  const int64_t n = loops.inner_size();
  const int64_t step_a = loops.inner_stride(0);
  const int64_t step_b = loops.inner_stride(1);
  for_each_row(loops, [&](int64_t to, const int64_t* from) {
    const T* x = a + from[0];
    const T* y = b + from[1];
    Out* z = out + to;
    if (step_a == 1 && step_b == 1) {
      for (int64_t i = 0; i < n; ++i) z[i] = static_cast<Out>(f(x[i], y[i]));
    } else if (step_b == 0) {
      const T v = *y;
      for (int64_t i = 0; i < n; ++i) z[i] = static_cast<Out>(f(x[i * step_a], v));
    } else {
      for (int64_t i = 0; i < n; ++i) z[i] = static_cast<Out>(f(x[i * step_a], y[i * step_b]));
    }
  });
  return {};
}

template <typename F>
Status map_two_floats(RefCall& call, F f) {
  return for_float(call, call.in(0).dtype(),
                   [&]<typename T>(RefCall& c) { return map_two<T>(c, f); });
}

template <typename F>
Status map_two_numbers(RefCall& call, F f) {
  return for_number(call, call.in(0).dtype(),
                    [&]<typename T>(RefCall& c) { return map_two<T>(c, f); });
}

template <typename F>
Status map_two_any(RefCall& call, F f) {
  return for_any(call, call.in(0).dtype(),
                 [&]<typename T>(RefCall& c) { return map_two<T>(c, f); });
}

template <typename F>
Status map_two_integers(RefCall& call, F f) {
  return for_integer_or_bool(call, call.in(0).dtype(),
                             [&]<typename T>(RefCall& c) { return map_two<T>(c, f); });
}

/// Result type of binary operators: equal dtypes, broadcast shape.
TypesResult infer_binary(const Node& node);          ///< any dtype
TypesResult infer_binary_number(const Node& node);   ///< integers and floats
TypesResult infer_binary_float(const Node& node);    ///< floats
TypesResult infer_binary_integer(const Node& node);  ///< integers and bool
TypesResult infer_compare(const Node& node);         ///< any dtype, result bool

}  // namespace downhaul
