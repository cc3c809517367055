#include "passes/fuse/projection.h"

#include <cstring>

#include "ops/ops.h"
#include "passes/values.h"

namespace downhaul {

Node* foldable_projection(const Value* value) {
  Node* node = value->producer();
  if (node == nullptr || !value->has_one_use()) return nullptr;
  if (!node->is(ops::kLinear) && !node->is(ops::kConv2d) && !node->is(ops::kConvTranspose2d)) {
    return nullptr;
  }
  const Value* weight = node->operand(1);
  const Value* bias = node->operand(2);
  if (!weight->is_constant() || !is_float(weight->dtype())) return nullptr;
  if (bias != nullptr && !bias->is_constant()) return nullptr;
  return node;
}

int64_t channel_axis(const Node& projection) {
  const int64_t rank = projection.result()->rank();
  if (projection.is(ops::kLinear) || projection.s("layout") == "nhwc") return rank - 1;
  return 1;
}

int64_t num_channels(const Node& projection) {
  return projection.result()->dim(channel_axis(projection)).value();
}

namespace {

/// Output channel of each row of `inner` weights that lie together.
struct WeightLayout {
  int64_t rows;
  int64_t inner;
  int64_t (*channel)(int64_t row, const WeightLayout& layout);
  int64_t group_rows = 1;
  int64_t group_channels = 1;
};

WeightLayout layout_of(const Node& node, const Tensor& w) {
  if (node.is(ops::kConvTranspose2d)) {
    // [in, out/groups, kh, kw]: input i belongs to group i / (in/groups).
    WeightLayout layout{w.size(0) * w.size(1), w.size(2) * w.size(3),
                        [](int64_t row, const WeightLayout& l) {
                          return row / l.group_rows * l.group_channels + row % l.group_channels;
                        }};
    layout.group_channels = w.size(1);
    layout.group_rows = w.size(0) / node.i("groups") * w.size(1);
    return layout;
  }
  if (node.is(ops::kLinear) && node.b("weight_transposed")) {
    WeightLayout layout{w.num_elements(), 1,
                        [](int64_t row, const WeightLayout& l) { return row % l.group_channels; }};
    layout.group_channels = w.size(1);
    return layout;
  }
  const int64_t rows = w.size(0);
  return {rows, rows == 0 ? 0 : w.num_elements() / rows,
          [](int64_t row, const WeightLayout&) { return row; }};
}

Tensor scaled(const Node& node, const Tensor& w, const std::vector<double>& scale) {
  Tensor out(w.dtype(), w.sizes());
  const WeightLayout layout = layout_of(node, w);
  const bool f32 = w.dtype() == DType::kF32;
  // Weights may lie unaligned in a file; the bytes are copied before they are read as floats.
  if (f32 && w.num_bytes() > 0)
    std::memcpy(out.mutable_data<float>(), w.bytes().data(), w.num_bytes());
  float* const data = f32 ? out.mutable_data<float>() : nullptr;
  for (int64_t row = 0; row < layout.rows; ++row) {
    const double factor = scale[static_cast<size_t>(layout.channel(row, layout))];
    const int64_t begin = row * layout.inner;
    for (int64_t i = begin; i < begin + layout.inner; ++i) {
      if (f32) {
        data[i] = static_cast<float>(static_cast<double>(data[i]) * factor);
      } else {
        out.set(i, w.at(i) * factor);
      }
    }
  }
  // Nobody reads the old weight again; it may be most of a mapped file.
  w.storage()->release_pages();
  return out;
}

}  // namespace

Value* fold_affine(Node& node, const std::vector<double>& scale, const std::vector<double>& shift,
                   Builder& b) {
  Value* weight = node.operand(1);
  const Value* bias = node.operand(2);
  const auto channels = static_cast<size_t>(num_channels(node));
  std::vector<double> sum = shift;
  if (bias != nullptr) {
    for (size_t c = 0; c < channels; ++c) {
      sum[c] += bias->constant().at(static_cast<int64_t>(c)) * scale[c];
    }
  }
  bool unit = true;
  for (const double s : scale) unit = unit && s == 1;
  if (!unit) weight = b.constant(scaled(node, weight->constant(), scale), weight->name());
  Value* new_bias = b.constant(from_doubles(weight->dtype(), {static_cast<int64_t>(channels)}, sum),
                               bias != nullptr ? bias->name() : "bias");
  return b.like(node, {node.operand(0), weight, new_bias});
}

}  // namespace downhaul
