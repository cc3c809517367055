#include "dialects/edge/size_arithmetic.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"

namespace downhaul::edge {
namespace {

using Known = std::optional<Dim>;

/// The outcome of a comparison when it is the same for all sizes.
template <typename Compare>
Known compared(const Dim& a, const Dim& b, Compare compare) {
  if (a.is_static() && b.is_static()) return Dim(compare(a.value(), b.value()) ? 1 : 0);
  return std::nullopt;
}

struct SizeKernel {
  std::string_view name;
  size_t operands;
  /// Null: gives no integer (a float, or a bool that depends on sizes).
  Known (*compute)(const std::vector<Dim>& v);
};

constexpr SizeKernel kKernels[] = {
    {"executorch_prim::add.Scalar", 2, [](auto& v) -> Known { return v[0] + v[1]; }},
    {"executorch_prim::sub.Scalar", 2, [](auto& v) -> Known { return v[0] - v[1]; }},
    {"executorch_prim::mul.Scalar", 2, [](auto& v) -> Known { return v[0] * v[1]; }},
    {"executorch_prim::floordiv.Scalar", 2, [](auto& v) -> Known { return floor_div(v[0], v[1]); }},
    {"executorch_prim::floordiv.int", 2, [](auto& v) -> Known { return floor_div(v[0], v[1]); }},
    {"executorch_prim::mod.Scalar", 2, [](auto& v) -> Known { return mod(v[0], v[1]); }},
    {"executorch_prim::mod.int", 2, [](auto& v) -> Known { return mod(v[0], v[1]); }},
    {"executorch_prim::sym_max.Scalar", 2, [](auto& v) -> Known { return max(v[0], v[1]); }},
    {"executorch_prim::sym_min.Scalar", 2, [](auto& v) -> Known { return min(v[0], v[1]); }},
    {"executorch_prim::neg.Scalar", 1, [](auto& v) -> Known { return Dim(0) - v[0]; }},
    {"executorch_prim::sym_int.Scalar", 1, [](auto& v) -> Known { return v[0]; }},
    {"executorch_prim::eq.Scalar", 2,
     [](auto& v) -> Known {
       if (v[0] == v[1]) return Dim(1);
       return compared(v[0], v[1], [](int64_t a, int64_t b) { return a == b; });
     }},
    {"executorch_prim::gt.Scalar", 2,
     [](auto& v) { return compared(v[0], v[1], [](int64_t a, int64_t b) { return a > b; }); }},
    {"executorch_prim::lt.Scalar", 2,
     [](auto& v) { return compared(v[0], v[1], [](int64_t a, int64_t b) { return a < b; }); }},
    {"executorch_prim::ge.Scalar", 2,
     [](auto& v) { return compared(v[0], v[1], [](int64_t a, int64_t b) { return a >= b; }); }},
    {"executorch_prim::le.Scalar", 2,
     [](auto& v) { return compared(v[0], v[1], [](int64_t a, int64_t b) { return a <= b; }); }},
    {"executorch_prim::truediv.Scalar", 2, nullptr},
    {"executorch_prim::sym_float.Scalar", 1, nullptr},
    {"executorch_prim::ceil.Scalar", 1, nullptr},
    {"executorch_prim::round.Scalar", 1, nullptr},
    {"executorch_prim::trunc.Scalar", 1, nullptr},
    {"executorch_prim::sym_not.Scalar", 1, nullptr},
    {"executorch_prim::sym_ite.Scalar", 3, nullptr},
};

const SizeKernel* find(std::string_view kernel) {
  const auto* found = std::find_if(std::begin(kKernels), std::end(kKernels),
                                   [&](const SizeKernel& k) { return k.name == kernel; });
  return found == std::end(kKernels) ? nullptr : found;
}

}  // namespace

bool is_size_arithmetic(std::string_view kernel) {
  return kernel == "aten::sym_size.int" || kernel == "aten::sym_numel" || find(kernel) != nullptr;
}

Result<std::optional<Dim>> compute_size(std::string_view kernel, const std::vector<Dim>& operands) {
  const SizeKernel* k = find(kernel);
  DH_CHECK(k != nullptr);
  if (operands.size() != k->operands)
    return invalid_file(cat(kernel, ": ", operands.size(), " operands, expected ", k->operands));
  if (kernel.find("div") != std::string_view::npos || kernel.find("mod") != std::string_view::npos)
    if (operands[1] == Dim(0)) return invalid_file(cat(kernel, ": division by zero"));
  if (k->compute == nullptr) return std::optional<Dim>();
  return k->compute(operands);
}

}  // namespace downhaul::edge
