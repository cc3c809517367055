#include "dialects/xnn/raise_call.h"

#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "ops/ops.h"

namespace downhaul::xnn {
namespace {

Sizes sizes_of(const XnnValue& value) { return Sizes(value.dims.begin(), value.dims.end()); }

/// Element `i` of a constant of integers, before its zero point.
int64_t stored(const XnnValue& value, const uint8_t* bytes, int64_t i) {
  switch (value.datatype) {
    case XnnDatatype::kQInt8:
    case XnnDatatype::kQCInt8:
      return reinterpret_cast<const int8_t*>(bytes)[i];
    case XnnDatatype::kQUInt8:
      return bytes[i];
    case XnnDatatype::kQCInt4:
    case XnnDatatype::kQBInt4: {
      // Rows are whole bytes; the even element is the low nibble, stored with an offset of 8.
      const int64_t row = value.dims.back();
      const int64_t column = i % row;
      const uint8_t pair = bytes[i / row * ((row + 1) / 2) + column / 2];
      return int64_t{(column % 2 == 0 ? pair : pair >> 4) & 15} - 8;
    }
    default: {
      int32_t wide;
      std::memcpy(&wide, bytes + i * 4, sizeof wide);
      return wide;
    }
  }
}

/// Position in the list of scales that element `i` takes its scale from.
struct ScaleIndex {
  explicit ScaleIndex(const XnnValue& value) {
    const Sizes sizes = sizes_of(value);
    if (const auto* channels = std::get_if<XnnPerChannel>(&value.quant)) {
      const auto axis = static_cast<size_t>(channels->channel_dim);
      for (size_t d = axis + 1; d < sizes.size(); ++d) inner *= sizes[d];
      count = sizes[axis];
    } else if (const auto* groups = std::get_if<XnnPerChannelGroup>(&value.quant)) {
      // One scale for each group_size neighbours of a row.
      group = groups->group_size;
      row = sizes.back();
    }
  }
  int64_t operator()(int64_t i) const {
    if (group > 0) return i / row * (row / group) + i % row / group;
    return count == 0 ? 0 : i / inner % count;
  }
  int64_t inner = 1;
  int64_t count = 0;
  int64_t group = 0;
  int64_t row = 1;
};

}  // namespace

Result<Tensor> RaiseCall::load(uint32_t id) {
  const XnnValue& value = graph_.values[id];
  const XnnConstant& constant = graph_.constants[value.constant];
  const std::optional<uint64_t> size = xnn_constant_bytes(value);
  if (!size) return invalid_file("a constant of this type has no data");

  std::optional<Tensor> bytes;
  if (!constant.named_key.empty()) {
    bytes = lookup_(constant.named_key);
    if (!bytes && constant.data.empty()) {
      return not_found(cat("named data '", printable(constant.named_key), "'"));
    }
  }
  if (!bytes) {
    Tensor copy(DType::kU8, {static_cast<int64_t>(constant.data.size())});
    std::memcpy(copy.mutable_data<uint8_t>(), constant.data.data(), constant.data.size());
    bytes = std::move(copy);
  }
  if (bytes->num_bytes() < *size) {
    return invalid_file(cat("a constant has ", bytes->num_bytes(), " bytes, expected ", *size));
  }
  const Sizes sizes = sizes_of(value);
  switch (value.datatype) {
    case XnnDatatype::kFp32:
      return Tensor(DType::kF32, sizes, bytes->storage(), bytes->byte_offset());
    case XnnDatatype::kFp16:
      return Tensor(DType::kF16, sizes, bytes->storage(), bytes->byte_offset()).cast(DType::kF32);
    case XnnDatatype::kBf16:
      return Tensor(DType::kBF16, sizes, bytes->storage(), bytes->byte_offset()).cast(DType::kF32);
    case XnnDatatype::kQInt8:
    case XnnDatatype::kQUInt8:
    case XnnDatatype::kQInt32:
    case XnnDatatype::kQCInt8:
    case XnnDatatype::kQCInt32:
    case XnnDatatype::kQCInt4:
    case XnnDatatype::kQBInt4:
      break;
    default:
      return unsupported(cat("a constant of type ", name(value.datatype)));
  }
  DH_ASSIGN(const std::vector<float> scales, xnn_scales(graph_, value));
  int32_t zero_point = 0;
  if (const auto* tensor = std::get_if<XnnPerTensor>(&value.quant)) {
    zero_point = tensor->zero_point;
  }
  const ScaleIndex scale_of(value);
  Tensor result(DType::kF32, sizes);
  float* out = result.mutable_data<float>();
  const uint8_t* in = bytes->data<uint8_t>();
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    const auto at = static_cast<size_t>(scale_of(i));
    if (at >= scales.size()) return invalid_file("a constant has too few scales");
    out[i] = static_cast<float>(stored(value, in, i) - zero_point) * scales[at];
  }
  return result;
}

std::string RaiseCall::constant_name(size_t i) const {
  const XnnValue& value = input_value(i);
  const std::string& key = graph_.constants[value.constant].named_key;
  return key.empty() ? "c" : key;
}

Result<Tensor> RaiseCall::constant(size_t i) {
  if (input_value(i).constant == 0) return unsupported("a filter that is not constant");
  return load(node_->inputs[i]);
}

Result<Value*> RaiseCall::input(size_t i) {
  const uint32_t id = node_->inputs[i];
  if (id == kXnnNoId) return nullptr;
  if (values_[id] != nullptr) return values_[id];
  if (graph_.values[id].constant == 0) return invalid_file("an operand is not computed");
  DH_ASSIGN(Tensor data, load(id));
  Value* value = b.constant(std::move(data), constant_name(i));
  values_[id] = value;
  return value;
}

Result<Value*> RaiseCall::with_quantization(uint32_t id, Value* v) {
  const XnnValue& value = graph_.values[id];
  const auto* quant = std::get_if<XnnPerTensor>(&value.quant);
  if (v == nullptr || quant == nullptr) return v;
  const bool is_signed = value.datatype == XnnDatatype::kQInt8;
  if (!is_signed && value.datatype != XnnDatatype::kQUInt8) {
    return unsupported(cat("a computed value of type ", name(value.datatype)));
  }
  const DType dtype = is_signed ? DType::kI8 : DType::kU8;
  Value* scale = b.scalar(DType::kF32, quant->scale);
  Value* zero_point = b.scalar(DType::kI64, quant->zero_point);
  Value* q = b.op(ops::kQuantize, {v, scale, zero_point},
                  {{"quant_min", int64_t{is_signed ? -128 : 0}},
                   {"quant_max", int64_t{is_signed ? 127 : 255}},
                   {"dtype", dtype}});
  return b.op(ops::kDequantize, {q, scale, zero_point});
}

}  // namespace downhaul::xnn
