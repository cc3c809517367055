#include "dialects/mil/builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "dialects/mil/compress.h"
#include "formats/mlpackage/package.h"

namespace downhaul::coreml {
namespace {

/// Constants of fewer elements stand in the model file.
constexpr int64_t kMinBlobElements = 10;
constexpr uint64_t kStep = 1u << 16;  // elements converted at a time
/// Weights of fewer elements are not worth unpacking.
constexpr int64_t kMinCompressed = 2048;

mil::Type tensor_type(mil::DType dtype, const Sizes& sizes) {
  mil::Type out;
  out.dtype = dtype;
  out.shape.assign(sizes.begin(), sizes.end());
  return out;
}

template <typename T>
std::vector<uint8_t> bytes_of_values(const std::vector<T>& values) {
  std::vector<uint8_t> out(values.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

mil::Value text_value(const std::string& s) {
  return {tensor_type(mil::DType::kString, {}), std::vector<std::string>{s}};
}

/// Appends a tensor in the file's element type, a stretch at a time; what was read of a mapped
/// file is given back.
Status write_elements(const Tensor& t, mil::DType dtype, OutputFile& out) {
  const auto elements = static_cast<uint64_t>(t.num_elements());
  const MappedFile* file = t.storage()->file();
  std::vector<uint16_t> halves(kStep);
  for (uint64_t at = 0; at < elements; at += kStep) {
    const uint64_t count = std::min(kStep, elements - at);
    const uint64_t width = t.num_bytes() / elements;
    const Bytes from = t.bytes().subspan(at * width, count * width);
    if (t.dtype() == DType::kF32 && dtype == mil::DType::kF16) {
      to_halves({t.data<float>() + at, count}, halves.data());
      DH_TRY(out.write({reinterpret_cast<const uint8_t*>(halves.data()), 2 * count}));
    } else {
      DH_TRY(out.write(from));
    }
    if (file != nullptr) file->release(from);
  }
  return {};
}

/// Rows and columns: vectors seen as [1, C, 1, 1] are none.
bool is_matrix(const Tensor& t) {
  return t.rank() >= 2 && t.size(0) > 1 && t.num_elements() > t.size(0);
}

/// Letters, digits and underscores, not beginning with a digit.
std::string identifier(std::string_view hint) {
  std::string out;
  for (const char c : hint) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    out.push_back(letter || digit ? c : '_');
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out.insert(0, 1, '_');
  return out;
}

}  // namespace

Sizes sizes_of(const Value* v) {
  Sizes out;
  for (const Dim& d : v->shape()) out.push_back(d.value());
  return out;
}

std::string Target::opset() const { return cat("CoreML", ios - 10); }

mil::DType ProgramBuilder::type_of(DType dtype) const {
  switch (dtype) {
    case DType::kBool:
      return mil::DType::kBool;
    case DType::kF32:
    case DType::kF16:
      return float_type();
    default:
      return mil::DType::kI32;
  }
}

mil::Type ProgramBuilder::type_of(const TensorType& type) const {
  mil::Type out;
  out.dtype = type_of(type.dtype);
  for (const Dim& d : type.shape) out.shape.emplace_back(d.value());
  return out;
}

std::string ProgramBuilder::unique(std::string_view hint) {
  const std::string base = identifier(hint);
  if (taken_.insert(base).second) return base;
  while (true) {
    std::string name = cat(base, "_", next_[base]++);
    if (taken_.insert(name).second) return name;
  }
}

std::string ProgramBuilder::add_constant(std::string name, mil::Value value) {
  mil::Operation o;
  o.type = "const";
  o.outputs = {{name, value.type}};
  o.attributes = {{"name", text_value(name)}, {"val", std::move(value)}};
  function_.block.operations.push_back(std::move(o));
  return name;
}

std::string ProgramBuilder::parameter(std::string_view hint, mil::Value value) {
  std::string key = cat(static_cast<int>(value.type.dtype), ":", value.type.shape.size(), ":");
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&value.content)) {
    key.append(bytes->begin(), bytes->end());
  } else {
    for (const std::string& s : std::get<std::vector<std::string>>(value.content)) key += s;
  }
  std::string& known = parameters_[key];
  if (known.empty()) known = add_constant(unique(hint), std::move(value));
  return known;
}

std::string ProgramBuilder::ints(std::string_view hint, const Ints& values) {
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return parameter(hint, {tensor_type(mil::DType::kI32, {static_cast<int64_t>(values.size())}),
                          bytes_of_values(narrow)});
}
std::string ProgramBuilder::integer(std::string_view hint, int64_t value) {
  return parameter(hint, {tensor_type(mil::DType::kI32, {}),
                          bytes_of_values(std::vector<int32_t>{static_cast<int32_t>(value)})});
}
std::string ProgramBuilder::flag(std::string_view hint, bool value) {
  return parameter(hint, {tensor_type(mil::DType::kBool, {}),
                          std::vector<uint8_t>{static_cast<uint8_t>(value ? 1 : 0)}});
}
std::string ProgramBuilder::flags(std::string_view hint, const std::vector<bool>& values) {
  return parameter(hint, {tensor_type(mil::DType::kBool, {static_cast<int64_t>(values.size())}),
                          std::vector<uint8_t>(values.begin(), values.end())});
}
std::string ProgramBuilder::text(std::string_view hint, const std::string& value) {
  return parameter(hint, text_value(value));
}
std::string ProgramBuilder::number(std::string_view hint, double value) {
  if (!options_.half) return number_f32(hint, value);
  uint16_t half = half_of(static_cast<float>(value));
  if (value > 0 && half == 0) half = 1;
  return parameter(
      hint, {tensor_type(mil::DType::kF16, {}), bytes_of_values(std::vector<uint16_t>{half})});
}
std::string ProgramBuilder::number_f32(std::string_view hint, double value) {
  return parameter(hint, {tensor_type(mil::DType::kF32, {}),
                          bytes_of_values(std::vector<float>{static_cast<float>(value)})});
}

mil::Value ProgramBuilder::blob(mil::DType dtype, const Sizes& sizes, uint64_t elements,
                                mil::WeightWriter::Writer write) {
  const auto offset = out_.weights.add(dtype, elements, std::move(write));
  if (!offset.ok()) failed_ = offset.status();
  return {tensor_type(dtype, sizes),
          mil::BlobRef{std::string(mil::kWeightFile), offset.ok() ? *offset : 0}};
}

/// Small vectors stand in the model file.
mil::Value ProgramBuilder::vector_value(mil::DType dtype, std::vector<uint8_t> bytes) {
  const auto elements =
      static_cast<uint64_t>(8 * bytes.size() / static_cast<size_t>(mil::bits_of(dtype)));
  const Sizes sizes = {static_cast<int64_t>(elements)};
  if (elements < kMinBlobElements) return {tensor_type(dtype, sizes), std::move(bytes)};
  return blob(dtype, sizes, elements,
              [bytes = std::move(bytes)](OutputFile& out) { return out.write(bytes); });
}

const ProgramBuilder::Packed& ProgramBuilder::pack(const Tensor& t, const Stored& stored) {
  const auto known = packed_.find(stored);
  if (known != packed_.end()) return known->second;
  Packed out;
  if (options_.compression == Compression::kInt8) {
    std::vector<uint16_t> scales = int8_scales(t);
    out.table = vector_value(mil::DType::kF16, bytes_of_values(scales));
    out.zeros = vector_value(mil::DType::kI8, std::vector<uint8_t>(scales.size(), 0));
    out.codes = blob(
        mil::DType::kI8, t.sizes(), stored.elements,
        [t, scales = std::move(scales)](OutputFile& file) { return write_int8(t, scales, file); });
  } else {
    auto palette = std::make_shared<Palette>(
        palette_of(t, options_.compression == Compression::kPalette6 ? 6 : 4));
    out.table = vector_value(mil::DType::kF16, bytes_of_values(palette->entries));
    const uint64_t bytes = (stored.elements * static_cast<uint64_t>(palette->bits) + 7) / 8;
    out.codes = blob(mil::DType::kU8, {static_cast<int64_t>(bytes)}, bytes,
                     [t, palette](OutputFile& file) { return write_palette(t, *palette, file); });
  }
  return packed_[stored] = std::move(out);
}

std::string ProgramBuilder::compressed(const Tensor& t, const Stored& stored,
                                       const std::string& hint) {
  const Packed& packed = pack(t, stored);
  mil::Operation o;
  const std::string name = unique(hint);
  o.outputs = {{name, tensor_type(mil::DType::kF16, t.sizes())}};
  o.attributes.emplace_back("name", text_value(name));
  if (options_.compression == Compression::kInt8) {
    o.type = "constexpr_affine_dequantize";
    mil::Value codes = packed.codes;
    codes.type = tensor_type(mil::DType::kI8, t.sizes());
    o.attributes.emplace_back("axis", mil::Value{tensor_type(mil::DType::kI32, {}),
                                                 bytes_of_values(std::vector<int32_t>{0})});
    o.attributes.emplace_back("quantized_data", std::move(codes));
    o.attributes.emplace_back("scale", packed.table);
    o.attributes.emplace_back("zero_point", packed.zeros);
  } else {
    o.type = "constexpr_lut_to_dense";
    std::vector<uint32_t> shape(t.sizes().begin(), t.sizes().end());
    o.attributes.emplace_back("indices", packed.codes);
    o.attributes.emplace_back("lut", packed.table);
    o.attributes.emplace_back(
        "shape", mil::Value{tensor_type(mil::DType::kU32, {static_cast<int64_t>(shape.size())}),
                            bytes_of_values(shape)});
  }
  std::sort(o.attributes.begin(), o.attributes.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  ++out_.compressed[o.type];
  function_.block.operations.push_back(std::move(o));
  return name;
}

std::string ProgramBuilder::constant(const Tensor& t, const std::string& hint) {
  const mil::DType dtype = type_of(t.dtype());
  const Stored stored{t.storage().get(), t.byte_offset(), static_cast<uint64_t>(t.num_elements()),
                      t.dtype()};
  std::string& known = constants_[{stored, t.sizes()}];
  if (!known.empty()) return known;
  kept_.push_back(t.storage());  // known by its address
  if (options_.compression != Compression::kNone && t.num_elements() >= kMinCompressed &&
      is_matrix(t) && t.dtype() == DType::kF32) {
    return known = compressed(t, stored, hint);
  }
  mil::Value value;
  value.type = tensor_type(dtype, t.sizes());
  if (t.num_elements() >= kMinBlobElements &&
      (dtype == mil::DType::kF16 || dtype == mil::DType::kF32)) {
    auto blob = blobs_.find(stored);
    if (blob == blobs_.end()) {
      const auto offset = out_.weights.add(dtype, stored.elements, [t, dtype](OutputFile& out) {
        return write_elements(t, dtype, out);
      });
      if (!offset.ok()) {
        failed_ = offset.status();
        return "";
      }
      blob = blobs_.emplace(stored, *offset).first;
    }
    value.content = mil::BlobRef{std::string(mil::kWeightFile), blob->second};
  } else if (dtype == mil::DType::kF16) {
    std::vector<uint16_t> halves;
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      halves.push_back(half_of(static_cast<float>(t.at(i))));
    }
    value.content = bytes_of_values(halves);
  } else if (dtype == mil::DType::kF32) {
    std::vector<float> floats;
    for (int64_t i = 0; i < t.num_elements(); ++i) floats.push_back(static_cast<float>(t.at(i)));
    value.content = bytes_of_values(floats);
  } else if (dtype == mil::DType::kBool) {
    std::vector<uint8_t> bools;
    for (int64_t i = 0; i < t.num_elements(); ++i) bools.push_back(t.int_at(i) != 0 ? 1 : 0);
    value.content = std::move(bools);
  } else {
    std::vector<int32_t> integers;
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      integers.push_back(
          static_cast<int32_t>(std::clamp<int64_t>(t.int_at(i), INT32_MIN, INT32_MAX)));
    }
    value.content = bytes_of_values(integers);
  }
  known = add_constant(unique(hint), std::move(value));
  return known;
}

std::string ProgramBuilder::value(const Value* v) {
  if (v->is_constant()) return constant(v->constant(), v->name());
  return names_.at(v);
}

std::string ProgramBuilder::reshaped(const Value* v, const Sizes& sizes) {
  return constant(v->constant().reshaped(sizes), v->name());
}

std::vector<std::string> ProgramBuilder::op_multi(
    std::string_view type, const std::vector<In>& inputs,
    const std::vector<std::pair<mil::Type, std::string>>& results) {
  mil::Operation o;
  o.type = type;
  for (const In& in : inputs) {
    mil::Argument a{std::string(in.argument), {}};
    for (const std::string& name : in.names) a.bindings.emplace_back(name);
    o.inputs.push_back(std::move(a));
  }
  std::sort(o.inputs.begin(), o.inputs.end(),
            [](const mil::Argument& a, const mil::Argument& b) { return a.name < b.name; });
  std::vector<std::string> names;
  for (const auto& [result_type, hint] : results) {
    names.push_back(unique(hint));
    o.outputs.push_back({names.back(), result_type});
  }
  o.attributes = {{"name", text_value(names[0])}};
  function_.block.operations.push_back(std::move(o));
  ++out_.operations;
  ++out_.histogram[std::string(type)];
  return names;
}

std::string ProgramBuilder::op(std::string_view type, const std::vector<In>& inputs,
                               mil::Type result, const std::string& hint) {
  return op_multi(type, inputs, {{std::move(result), hint}})[0];
}

const std::vector<const Node*>* ProgramBuilder::parts(const Node& slice) const {
  const auto found = parts_.find(&slice);
  return found != parts_.end() ? &found->second : nullptr;
}

void ProgramBuilder::find_parts(const Graph& graph) {
  std::map<std::pair<const Value*, int64_t>, std::vector<const Node*>> slices;
  for (const auto& node : graph.nodes()) {
    if (node->op_name() != "slice" || node->i("step") != 1) continue;
    const Value* from = node->operand(0);
    slices[{from, node->axis("dim", from->rank())}].push_back(node.get());
  }
  for (const auto& [key, nodes] : slices) {
    const int64_t whole = key.first->dim(key.second).value();
    const auto count = static_cast<int64_t>(nodes.size());
    bool equal = count > 1 && whole % count == 0;
    for (int64_t i = 0; i < count && equal; ++i) {
      const Node* n = nodes[static_cast<size_t>(i)];
      equal = n->dim("start") == Dim(i * (whole / count)) &&
              n->dim("end") == Dim((i + 1) * (whole / count));
    }
    if (!equal) continue;
    for (const Node* n : nodes) parts_[n] = nodes;
  }
}

void ProgramBuilder::result(const Node& node, std::string_view type,
                            const std::vector<In>& inputs) {
  names_[node.result()] = op(type, inputs, type_of(node.result()->type()), node.result()->name());
}

std::string ProgramBuilder::step(const Node& node, std::string_view type,
                                 const std::vector<In>& inputs, const Sizes& sizes) {
  return op(type, inputs, tensor_type(type_of(node.result()->dtype()), sizes),
            cat(node.result()->name(), "_", type));
}

std::string ProgramBuilder::cast(const std::string& name, mil::DType to, const Sizes& sizes,
                                 const std::string& hint) {
  return op("cast", {{"x", name}, {"dtype", text("dtype", std::string(mil::dtype_name(to)))}},
            tensor_type(to, sizes), hint);
}

mil::Feature ProgramBuilder::feature(const std::string& name, const TensorType& type) const {
  mil::Feature f;
  f.name = name;
  for (const Dim& d : type.shape) f.shape.push_back(d.value());
  const bool half = options_.half && options_.target.half_features();
  f.dtype = !is_float(type.dtype) ? mil::DType::kI32 : half ? mil::DType::kF16 : mil::DType::kF32;
  return f;
}

void ProgramBuilder::begin(const Graph& graph) {
  function_.name = "main";
  function_.opset = options_.target.opset();
  out_.model.specification_version = options_.target.specification_version();
  find_parts(graph);
  // Names that others see come first.
  for (const Output& o : graph.outputs()) taken_.insert(identifier(o.name));
  for (const Value* v : graph.inputs()) {
    const std::string name = unique(cat(options_.input_prefix, v->name()));
    const mil::Feature f = feature(name, v->type());
    out_.model.inputs.push_back(f);
    function_.inputs.push_back({name, tensor_type(f.dtype, f.shape)});
    names_[v] = name;
  }
  for (const Value* v : graph.inputs()) {
    const mil::DType inside = type_of(v->dtype());
    const std::string name = names_[v];
    const mil::Feature f = feature(name, v->type());
    if (f.dtype == inside) continue;
    names_[v] = cast(name, inside, f.shape, cat(name, "_to_", mil::dtype_name(inside)));
  }
}

void ProgramBuilder::rename(const std::string& from, const std::string& to) {
  taken_.insert(to);
  for (auto& [value, name] : names_) {
    if (name == from) name = to;  // views of it have its name
  }
  for (mil::Operation& o : function_.block.operations) {
    for (mil::Argument& a : o.inputs) {
      for (mil::Binding& b : a.bindings) {
        if (auto* name = std::get_if<std::string>(&b); name != nullptr && *name == from) *name = to;
      }
    }
    for (size_t i = 0; i < o.outputs.size(); ++i) {
      if (o.outputs[i].name != from) continue;
      o.outputs[i].name = to;
      if (i == 0) o.attributes = {{"name", text_value(to)}};
    }
  }
}

Status ProgramBuilder::finish(const Graph& graph) {
  std::set<std::string> given;
  for (const Output& o : graph.outputs()) {
    const std::string name = identifier(o.name);
    if (!given.insert(name).second) {
      return unsupported(cat("two outputs are called '", name, "' in a Core ML program"));
    }
    const mil::Feature f = feature(name, o.value->type());
    const std::string inside = value(o.value);
    taken_.erase(name);
    if (f.dtype != type_of(o.value->dtype())) {
      cast(inside, f.dtype, f.shape, name);
    } else {
      // What computes it gets the output's name; inputs, constants and what is an output already
      // are passed on under it.
      const bool computed = std::any_of(
          function_.block.operations.begin(), function_.block.operations.end(),
          [&](const mil::Operation& made) {
            return !made.type.starts_with("const") &&  // nor compressed constants
                   std::any_of(made.outputs.begin(), made.outputs.end(),
                               [&](const mil::NamedType& t) { return t.name == inside; });
          });
      if (computed && !given.contains(inside)) {
        rename(inside, name);
      } else {
        op("identity", {{"x", inside}}, type_of(o.value->type()), name);
      }
    }
    out_.model.outputs.push_back(f);
    function_.block.outputs.push_back(name);
  }
  out_.model.program.push_back(std::move(function_));
  return failed_;
}

}  // namespace downhaul::coreml
