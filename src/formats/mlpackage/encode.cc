// Structs → messages of the model file.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>

#include "base/status.h"
#include "formats/mlpackage/package.h"
#include "mil.pb.h"

namespace downhaul::mil {
namespace {

void encode(const Type& in, milpb::ValueType& out) {
  switch (in.kind) {
    case Type::Kind::kTensor: {
      milpb::TensorType& tensor = *out.mutable_tensor_type();
      tensor.set_data_type(static_cast<int32_t>(in.dtype));
      tensor.set_rank(static_cast<int64_t>(in.shape.size()));
      for (const auto& size : in.shape) {
        milpb::Dimension& d = *tensor.add_dimensions();
        if (size) {
          d.mutable_constant()->set_size(static_cast<uint64_t>(*size));
        } else {
          d.mutable_unknown()->set_variadic(false);
        }
      }
      return;
    }
    case Type::Kind::kList:
      encode(in.parts.at(0), *out.mutable_list_type()->mutable_type());
      out.mutable_list_type()->mutable_length()->mutable_unknown()->set_variadic(false);
      return;
    case Type::Kind::kTuple:
      out.mutable_tuple_type();
      for (const Type& t : in.parts) encode(t, *out.mutable_tuple_type()->add_types());
      return;
    case Type::Kind::kDictionary:
      encode(in.parts.at(0), *out.mutable_dictionary_type()->mutable_key_type());
      encode(in.parts.at(1), *out.mutable_dictionary_type()->mutable_value_type());
      return;
    case Type::Kind::kState:
      encode(in.parts.at(0), *out.mutable_state_type()->mutable_wrapped_type());
      return;
  }
}

template <typename From, typename Values>
void unpack(const std::vector<uint8_t>& bytes, Values& out) {
  for (size_t i = 0; i + sizeof(From) <= bytes.size(); i += sizeof(From)) {
    From v;
    std::memcpy(&v, bytes.data() + i, sizeof(From));
    out.add_values(v);
  }
}

void encode(const std::vector<uint8_t>& bytes, DType dtype, milpb::TensorValue& out) {
  switch (dtype) {
    case DType::kBool:
      return unpack<uint8_t>(bytes, *out.mutable_bools());
    case DType::kF32:
      return unpack<float>(bytes, *out.mutable_floats());
    case DType::kF64:
      return unpack<double>(bytes, *out.mutable_doubles());
    case DType::kI32:
      return unpack<int32_t>(bytes, *out.mutable_ints());
    case DType::kI16:
      return unpack<int16_t>(bytes, *out.mutable_ints());
    case DType::kU16:
      return unpack<uint16_t>(bytes, *out.mutable_ints());
    case DType::kI64:
      return unpack<int64_t>(bytes, *out.mutable_long_ints());
    case DType::kU64:
      return unpack<uint64_t>(bytes, *out.mutable_long_ints());
    default:
      out.mutable_bytes()->set_values(bytes.data(), bytes.size());
  }
}

void encode(const Value& in, milpb::Value& out) {
  encode(in.type, *out.mutable_type());
  if (const auto* blob = std::get_if<BlobRef>(&in.content)) {
    out.mutable_blob_file_value()->set_file_name(blob->file);
    out.mutable_blob_file_value()->set_offset(blob->offset);
    return;
  }
  milpb::ImmediateValue& value = *out.mutable_immediate_value();
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&in.content)) {
    encode(*bytes, in.type.dtype, *value.mutable_tensor());
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&in.content)) {
    for (const std::string& s : *strings) {
      value.mutable_tensor()->mutable_strings()->add_values(s);
    }
  } else {
    const auto& parts = std::get<std::vector<Value>>(in.content);
    if (in.type.kind == Type::Kind::kDictionary) {
      value.mutable_dictionary();
      for (size_t i = 0; i + 1 < parts.size(); i += 2) {
        milpb::KeyValue& pair = *value.mutable_dictionary()->add_values();
        encode(parts[i], *pair.mutable_key());
        encode(parts[i + 1], *pair.mutable_value());
      }
    } else if (in.type.kind == Type::Kind::kTuple) {
      value.mutable_tuple();
      for (const Value& p : parts) encode(p, *value.mutable_tuple()->add_values());
    } else {
      value.mutable_list();
      for (const Value& p : parts) encode(p, *value.mutable_list()->add_values());
    }
  }
}

void encode(const NamedType& in, milpb::NamedValueType& out) {
  out.set_name(in.name);
  encode(in.type, *out.mutable_type());
}

void encode(const Block& in, milpb::Block& out) {
  for (const NamedType& i : in.inputs) encode(i, *out.add_inputs());
  for (const std::string& o : in.outputs) out.add_outputs(o);
  for (const Operation& o : in.operations) {
    milpb::Operation& message = *out.add_operations();
    message.set_type(o.type);
    for (const Argument& argument : o.inputs) {
      milpb::Argument& a = (*message.mutable_inputs())[argument.name];
      for (const Binding& b : argument.bindings) {
        if (const auto* name = std::get_if<std::string>(&b)) {
          a.add_arguments()->set_name(*name);
        } else {
          encode(std::get<Value>(b), *a.add_arguments()->mutable_value());
        }
      }
    }
    for (const NamedType& result : o.outputs) encode(result, *message.add_outputs());
    for (const Block& b : o.blocks) encode(b, *message.add_blocks());
    for (const auto& [name, value] : o.attributes) {
      encode(value, (*message.mutable_attributes())[name]);
    }
  }
}

int32_t array_code(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x10000 | 64;
    case DType::kF16:
      return 0x10000 | 16;
    case DType::kI32:
      return 0x20000 | 32;
    case DType::kI8:
      return 0x20000 | 8;
    default:
      DH_CHECK(dtype == DType::kF32);
      return 0x10000 | 32;
  }
}

void encode(const Feature& in, bool state, milpb::Feature& out) {
  out.set_name(in.name);
  milpb::FeatureType& type = *out.mutable_type();
  type.set_is_optional(in.optional);
  milpb::ArrayFeatureType& array =
      state ? *type.mutable_state_type()->mutable_array_type() : *type.mutable_multi_array_type();
  array.set_data_type(array_code(in.dtype));
  for (const int64_t size : in.shape) array.add_shape(size);
  for (const auto& shape : in.enumerated_shapes) {
    milpb::ArrayShape& s = *array.mutable_enumerated_shapes()->add_shapes();
    for (const int64_t size : shape) s.add_shape(size);
  }
  for (const auto& [low, high] : in.ranges) {
    milpb::SizeRange& r = *array.mutable_shape_range()->add_size_ranges();
    r.set_lower_bound(static_cast<uint64_t>(low));
    r.set_upper_bound(high);
  }
}

void encode_description(const Model& in, milpb::Description& out) {
  for (const Feature& f : in.inputs) encode(f, false, *out.add_input());
  for (const Feature& f : in.outputs) encode(f, false, *out.add_output());
  for (const Feature& f : in.states) encode(f, true, *out.add_state());
  for (const FunctionDescription& f : in.functions) {
    milpb::FunctionDescription& message = *out.add_functions();
    message.set_name(f.name);
    for (const Feature& i : f.inputs) encode(i, false, *message.add_input());
    for (const Feature& o : f.outputs) encode(o, false, *message.add_output());
    for (const Feature& s : f.states) encode(s, true, *message.add_state());
  }
  out.set_default_function_name(in.default_function);
  milpb::Metadata& metadata = *out.mutable_metadata();
  metadata.set_short_description(in.short_description);
  metadata.set_version_string(in.version);
  metadata.set_author(in.author);
  metadata.set_license(in.license);
  for (const auto& [key, value] : in.user_defined) (*metadata.mutable_user_defined())[key] = value;
}

}  // namespace

std::string encode_model(const Model& model) {
  milpb::Model message;
  message.set_specification_version(model.specification_version);
  encode_description(model, *message.mutable_description());
  milpb::Program& program = *message.mutable_program();
  program.set_version(1);
  for (const Function& f : model.program) {
    milpb::Function& function = (*program.mutable_functions())[f.name];
    function.set_opset(f.opset);
    for (const NamedType& i : f.inputs) encode(i, *function.add_inputs());
    encode(f.block, (*function.mutable_block_specializations())[f.opset]);
  }
  std::string out;
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    // The entries of maps in the order of their keys: equal models give equal bytes.
    coded.SetSerializationDeterministic(true);
    DH_CHECK(message.SerializeToCodedStream(&coded));
  }
  return out;
}

}  // namespace downhaul::mil
