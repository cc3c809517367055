// Messages of the model file → structs.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/strings.h"
#include "formats/mlpackage/package.h"
#include "mil.pb.h"

namespace downhaul::mil {
namespace {

constexpr int kMaxRank = 32;
constexpr int64_t kMaxElements = int64_t{1} << 40;

/// Elements of a tensor type whose sizes are all known.
Result<uint64_t> elements_of(const Type& type) {
  int64_t count = 1;
  for (const auto& size : type.shape) {
    if (!size) return invalid_file("a value of unknown size");
    if (*size != 0 && count > kMaxElements / *size) {
      return invalid_file(cat("a value of more than ", kMaxElements, " elements"));
    }
    count *= *size;
  }
  return static_cast<uint64_t>(count);
}

Result<Type> decode(const milpb::ValueType& in);

Result<Type> decode(const milpb::TensorType& in) {
  Type out;
  out.dtype = static_cast<DType>(in.data_type());
  if (dtype_name(out.dtype) == "?") {
    return invalid_file(cat("unknown element type ", in.data_type()));
  }
  if (in.rank() != in.dimensions_size() && !(in.rank() == -1 && in.dimensions_size() == 0)) {
    return invalid_file(
        cat("a tensor type of rank ", in.rank(), " has ", in.dimensions_size(), " dimensions"));
  }
  if (in.rank() < 0 || in.rank() > kMaxRank) {
    return invalid_file(cat("a tensor type of rank ", in.rank(), ", expected 0 to ", kMaxRank));
  }
  for (const milpb::Dimension& d : in.dimensions()) {
    if (d.has_unknown()) {
      out.shape.emplace_back(std::nullopt);
    } else if (d.constant().size() <= static_cast<uint64_t>(kMaxElements)) {
      out.shape.emplace_back(static_cast<int64_t>(d.constant().size()));
    } else {
      return invalid_file(cat("a dimension of ", d.constant().size()));
    }
  }
  return out;
}

Result<Type> decode(const milpb::ValueType& in) {
  Type out;
  const auto part = [&](const milpb::ValueType& type) -> Status {
    DH_ASSIGN(Type decoded, decode(type));
    out.parts.push_back(std::move(decoded));
    return {};
  };
  switch (in.type_case()) {
    case milpb::ValueType::kTensorType:
      return decode(in.tensor_type());
    case milpb::ValueType::kListType:
      out.kind = Type::Kind::kList;
      DH_TRY(part(in.list_type().type()));
      return out;
    case milpb::ValueType::kTupleType:
      out.kind = Type::Kind::kTuple;
      for (const auto& t : in.tuple_type().types()) DH_TRY(part(t));
      return out;
    case milpb::ValueType::kDictionaryType:
      out.kind = Type::Kind::kDictionary;
      DH_TRY(part(in.dictionary_type().key_type()));
      DH_TRY(part(in.dictionary_type().value_type()));
      return out;
    case milpb::ValueType::kStateType:
      out.kind = Type::Kind::kState;
      DH_TRY(part(in.state_type().wrapped_type()));
      return out;
    case milpb::ValueType::TYPE_NOT_SET:
      break;
  }
  return invalid_file("a value without a type");
}

Result<Value> decode(const milpb::Value& in);

template <typename To, typename Values>
std::vector<uint8_t> packed(const Values& values) {
  std::vector<uint8_t> out(static_cast<size_t>(values.size()) * sizeof(To));
  for (int i = 0; i < values.size(); ++i) {
    const auto v = static_cast<To>(values.Get(i));
    std::memcpy(out.data() + static_cast<size_t>(i) * sizeof(To), &v, sizeof(To));
  }
  return out;
}

/// The elements as the declared type has them; an empty optional when the message's field is not
/// the one that holds this type.
std::optional<std::vector<uint8_t>> bytes_of(const milpb::TensorValue& in, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      if (in.has_bools()) return packed<uint8_t>(in.bools().values());
      break;
    case DType::kF32:
      if (in.has_floats()) return packed<float>(in.floats().values());
      break;
    case DType::kF64:
      if (in.has_doubles()) return packed<double>(in.doubles().values());
      break;
    case DType::kI32:
      if (in.has_ints()) return packed<int32_t>(in.ints().values());
      break;
    case DType::kI16:
      if (in.has_ints()) return packed<int16_t>(in.ints().values());
      break;
    case DType::kU16:
      if (in.has_ints()) return packed<uint16_t>(in.ints().values());
      break;
    case DType::kI64:
      if (in.has_long_ints()) return packed<int64_t>(in.long_ints().values());
      break;
    case DType::kU64:
      if (in.has_long_ints()) return packed<uint64_t>(in.long_ints().values());
      break;
    default:
      break;
  }
  if (in.has_bytes()) {
    const std::string& raw = in.bytes().values();
    return std::vector<uint8_t>(raw.begin(), raw.end());
  }
  return std::nullopt;
}

Result<Value> decode_tensor(const milpb::TensorValue& in, Type type) {
  DH_ASSIGN(const uint64_t elements, elements_of(type));
  Value out;
  if (type.dtype == DType::kString) {
    const auto& strings = in.strings().values();
    if (static_cast<uint64_t>(strings.size()) != elements) {
      return invalid_file(cat("a value of ", elements, " strings holds ", strings.size()));
    }
    out.content = std::vector<std::string>(strings.begin(), strings.end());
    out.type = std::move(type);
    return out;
  }
  const uint64_t expected = bytes_of(type.dtype, elements);
  auto bytes = bytes_of(in, type.dtype);
  // An empty tensor has no field at all.
  if (!bytes && elements == 0) bytes.emplace();
  if (!bytes || bytes->size() != expected) {
    return invalid_file(cat("a value of ", elements, " ", dtype_name(type.dtype), " has ", expected,
                            " bytes, found ",
                            bytes ? cat(bytes->size()) : std::string("none of its type")));
  }
  out.type = std::move(type);
  out.content = *std::move(bytes);
  return out;
}

template <typename Values>
Status decode_all(const Values& values, std::vector<Value>& out) {
  for (const milpb::Value& v : values) {
    DH_ASSIGN(Value decoded, decode(v));
    out.push_back(std::move(decoded));
  }
  return {};
}

Result<Value> decode(const milpb::Value& in) {
  DH_ASSIGN(Type type, decode(in.type()));
  Value out;
  if (in.has_blob_file_value()) {
    out.type = std::move(type);
    out.content = BlobRef{in.blob_file_value().file_name(), in.blob_file_value().offset()};
    return out;
  }
  const milpb::ImmediateValue& value = in.immediate_value();
  if (type.kind == Type::Kind::kTensor) return decode_tensor(value.tensor(), std::move(type));
  std::vector<Value> parts;
  if (value.has_list()) DH_TRY(decode_all(value.list().values(), parts));
  if (value.has_tuple()) DH_TRY(decode_all(value.tuple().values(), parts));
  for (const milpb::KeyValue& pair : value.dictionary().values()) {
    DH_ASSIGN(Value k, decode(pair.key()));
    DH_ASSIGN(Value v, decode(pair.value()));
    parts.push_back(std::move(k));
    parts.push_back(std::move(v));
  }
  out.type = std::move(type);
  out.content = std::move(parts);
  return out;
}

Result<NamedType> decode(const milpb::NamedValueType& in) {
  auto type = decode(in.type());
  if (!type.ok()) return std::move(type).status().with_context(cat("'", printable(in.name()), "'"));
  return NamedType{in.name(), *std::move(type)};
}

template <typename Map>
Status decode_attributes(const Map& in, std::vector<std::pair<std::string, Value>>& out) {
  for (const auto& [name, value] : in) {
    auto decoded = decode(value);
    if (!decoded.ok()) return std::move(decoded).status().with_context(printable(name));
    out.emplace_back(name, *std::move(decoded));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return {};
}

Result<Block> decode(const milpb::Block& in);

Result<Operation> decode(const milpb::Operation& in) {
  Operation out;
  out.type = in.type();
  for (const auto& [name, argument] : in.inputs()) {
    Argument decoded{name, {}};
    for (const milpb::Binding& b : argument.arguments()) {
      if (b.has_value()) {
        DH_ASSIGN(Value value, decode(b.value()));
        decoded.bindings.emplace_back(std::move(value));
      } else {
        decoded.bindings.emplace_back(b.name());
      }
    }
    out.inputs.push_back(std::move(decoded));
  }
  std::sort(out.inputs.begin(), out.inputs.end(),
            [](const Argument& a, const Argument& b) { return a.name < b.name; });
  for (const milpb::NamedValueType& o : in.outputs()) {
    DH_ASSIGN(NamedType decoded, decode(o));
    out.outputs.push_back(std::move(decoded));
  }
  for (const milpb::Block& b : in.blocks()) {
    DH_ASSIGN(Block decoded, decode(b));
    out.blocks.push_back(std::move(decoded));
  }
  DH_TRY(decode_attributes(in.attributes(), out.attributes));
  return out;
}

Result<Block> decode(const milpb::Block& in) {
  Block out;
  for (const milpb::NamedValueType& i : in.inputs()) {
    DH_ASSIGN(NamedType decoded, decode(i));
    out.inputs.push_back(std::move(decoded));
  }
  out.outputs.assign(in.outputs().begin(), in.outputs().end());
  out.operations.reserve(static_cast<size_t>(in.operations_size()));
  for (int i = 0; i < in.operations_size(); ++i) {
    auto decoded = decode(in.operations(i));
    if (!decoded.ok()) {
      return std::move(decoded).status().with_context(
          cat("operation ", i, " (", printable(in.operations(i).type(), 60), ")"));
    }
    out.operations.push_back(*std::move(decoded));
  }
  return out;
}

Result<Feature> decode(const milpb::Feature& in) {
  Feature out;
  out.name = in.name();
  out.optional = in.type().is_optional();
  const bool state = in.type().has_state_type();
  if (!state && !in.type().has_multi_array_type()) {
    return unsupported(cat("feature '", printable(in.name()), "' is no multi-array"));
  }
  const milpb::ArrayFeatureType& array =
      state ? in.type().state_type().array_type() : in.type().multi_array_type();
  constexpr std::pair<int32_t, DType> kTypes[] = {{0x10000 | 32, DType::kF32},
                                                  {0x10000 | 64, DType::kF64},
                                                  {0x20000 | 32, DType::kI32},
                                                  {0x10000 | 16, DType::kF16},
                                                  {0x20000 | 8, DType::kI8}};
  out.dtype = DType::kUnused;
  for (const auto& [code, dtype] : kTypes) {
    if (code == array.data_type()) out.dtype = dtype;
  }
  if (out.dtype == DType::kUnused) {
    return invalid_file(
        cat("feature '", printable(in.name()), "': unknown element type ", array.data_type()));
  }
  out.shape.assign(array.shape().begin(), array.shape().end());
  for (const milpb::ArrayShape& s : array.enumerated_shapes().shapes()) {
    out.enumerated_shapes.emplace_back(s.shape().begin(), s.shape().end());
  }
  for (const milpb::SizeRange& r : array.shape_range().size_ranges()) {
    out.ranges.emplace_back(static_cast<int64_t>(r.lower_bound()), r.upper_bound());
  }
  return out;
}

template <typename Features>
Status decode_features(const Features& in, std::vector<Feature>& out) {
  for (const milpb::Feature& f : in) {
    DH_ASSIGN(Feature decoded, decode(f));
    out.push_back(std::move(decoded));
  }
  return {};
}

Status decode_description(const milpb::Description& in, Model& out) {
  DH_TRY(decode_features(in.input(), out.inputs));
  DH_TRY(decode_features(in.output(), out.outputs));
  DH_TRY(decode_features(in.state(), out.states));
  for (const milpb::FunctionDescription& f : in.functions()) {
    FunctionDescription decoded;
    decoded.name = f.name();
    DH_TRY(decode_features(f.input(), decoded.inputs));
    DH_TRY(decode_features(f.output(), decoded.outputs));
    DH_TRY(decode_features(f.state(), decoded.states));
    out.functions.push_back(std::move(decoded));
  }
  out.default_function = in.default_function_name();
  const milpb::Metadata& metadata = in.metadata();
  out.short_description = metadata.short_description();
  out.version = metadata.version_string();
  out.author = metadata.author();
  out.license = metadata.license();
  out.user_defined.assign(metadata.user_defined().begin(), metadata.user_defined().end());
  std::sort(out.user_defined.begin(), out.user_defined.end());
  return {};
}

Result<Function> decode(const std::string& name, const milpb::Function& in) {
  Function out;
  out.name = name;
  out.opset = in.opset();
  for (const milpb::NamedValueType& i : in.inputs()) {
    DH_ASSIGN(NamedType decoded, decode(i));
    out.inputs.push_back(std::move(decoded));
  }
  const auto block = in.block_specializations().find(in.opset());
  if (block == in.block_specializations().end()) {
    return invalid_file(cat("no block for the operator set '", printable(in.opset()), "'"));
  }
  DH_ASSIGN(out.block, decode(block->second));
  return out;
}

}  // namespace

Result<Model> decode_model(Bytes bytes) {
  // The library would say on stderr what the caller hears as a Status.
  static const auto kQuiet = google::protobuf::SetLogHandler(nullptr);
  (void)kQuiet;
  milpb::Model message;
  if (bytes.size() > INT32_MAX ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_file("expected a Core ML model, found bytes that are no such message");
  }
  if (!message.has_program()) {
    return unsupported("the model is no program (ML Program); other kinds are not read");
  }
  Model out;
  out.specification_version = message.specification_version();
  DH_TRY(decode_description(message.description(), out));
  for (const auto& [name, function] : message.program().functions()) {
    auto decoded = decode(name, function);
    if (!decoded.ok()) {
      return std::move(decoded).status().with_context(cat("function '", printable(name), "'"));
    }
    out.program.push_back(*std::move(decoded));
  }
  std::sort(out.program.begin(), out.program.end(),
            [](const Function& a, const Function& b) { return a.name < b.name; });
  if (out.program.empty()) return invalid_file("the program has no function");
  return out;
}

}  // namespace downhaul::mil
