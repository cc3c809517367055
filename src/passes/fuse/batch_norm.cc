#include "passes/fuse/batch_norm.h"

#include <cmath>

#include "passes/values.h"

namespace downhaul {

std::optional<Affine> affine_of_batch_norm(const Node& node) {
  static constexpr std::string_view kNames[] = {"weight", "bias", "mean", "var"};
  std::vector<double> values[4];
  const auto channels = static_cast<size_t>(node.operand("mean")->dim(0).max());
  for (size_t i = 0; i < 4; ++i) {
    const Value* v = node.operand(kNames[i]);
    if (v == nullptr) {
      values[i].assign(channels, i == 0 ? 1 : 0);
    } else if (v->is_constant()) {
      values[i] = to_doubles(v->constant());
    } else {
      return std::nullopt;
    }
  }
  Affine affine;
  for (size_t c = 0; c < channels; ++c) {
    const double scale = values[0][c] / std::sqrt(values[3][c] + node.f("eps"));
    affine.scale.push_back(scale);
    affine.shift.push_back(values[1][c] - values[2][c] * scale);
  }
  return affine;
}

}  // namespace downhaul
