#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "dialects/aten/aten.h"
#include "formats/pt2/pt2.h"
#include "ops/evaluate.h"

/// Programs written in a few lines, as the reader of archives would deliver them. For tests.
namespace downhaul::aten {

inline pt2::Argument ref(std::string name) { return pt2::TensorRef{std::move(name)}; }
inline pt2::Argument refs(std::vector<std::string> names) {
  return pt2::TensorList{std::move(names)};
}
inline pt2::Argument size(std::string name) { return pt2::SymIntArg{std::move(name), 0}; }
inline pt2::Argument number(double v) { return v; }
inline pt2::Argument integer(int64_t v) { return v; }
inline pt2::Argument integers(std::vector<int64_t> v) { return v; }
inline pt2::Argument text(std::string v) { return v; }

inline pt2::SymExpr symbol_expr(std::string name) {
  return {pt2::SymExpr::Kind::kSymbol, 0, std::move(name), {}};
}
inline pt2::SymExpr integer_expr(int64_t value) {
  return {pt2::SymExpr::Kind::kInteger, value, {}, {}};
}
inline pt2::SymExpr call_expr(std::string head, std::vector<pt2::SymExpr> args) {
  return {pt2::SymExpr::Kind::kCall, 0, std::move(head), std::move(args)};
}

inline pt2::Dim fixed_dim(int64_t v) { return {v, nullptr, false}; }
inline pt2::Dim dynamic_dim(const std::string& symbol, int64_t example) {
  return {example, std::make_shared<pt2::SymExpr>(symbol_expr(symbol)), true};
}

inline pt2::ScalarType scalar_type(DType d) {
  switch (d) {
    case DType::kBool:
      return pt2::ScalarType::kBool;
    case DType::kU8:
      return pt2::ScalarType::kUint8;
    case DType::kI8:
      return pt2::ScalarType::kInt8;
    case DType::kI16:
      return pt2::ScalarType::kInt16;
    case DType::kI32:
      return pt2::ScalarType::kInt32;
    case DType::kI64:
      return pt2::ScalarType::kInt64;
    case DType::kF16:
      return pt2::ScalarType::kFloat16;
    case DType::kBF16:
      return pt2::ScalarType::kBfloat16;
    case DType::kF32:
      return pt2::ScalarType::kFloat32;
    case DType::kF64:
      return pt2::ScalarType::kFloat64;
  }
  return pt2::ScalarType::kUnknown;
}

class TestProgram {
 public:
  using Args = std::vector<std::pair<std::string, pt2::Argument>>;

  TestProgram() {
    program().verifiers = {"TRAINING"};
    program().schema_major = 8;
  }

  pt2::Program& program() { return model_.program; }
  pt2::Graph& graph() { return program().graph; }

  TestProgram& input(const std::string& name, DType dtype, std::vector<pt2::Dim> sizes) {
    describe(name, scalar_type(dtype), std::move(sizes));
    graph().inputs.push_back(ref(name));
    program().inputs.push_back({pt2::InputSpec::Kind::kUserInput, ref(name), "", true});
    program().user_input_names.push_back(name);
    return *this;
  }
  TestProgram& input(const std::string& name, DType dtype, const Sizes& sizes) {
    std::vector<pt2::Dim> dims;
    for (const int64_t s : sizes) dims.push_back(fixed_dim(s));
    return input(name, dtype, std::move(dims));
  }

  /// A weight whose storage holds `data`, seen through sizes and strides.
  TestProgram& strided_weight(const std::string& name, const std::string& fqn, const Tensor& data,
                              Sizes sizes, std::vector<int64_t> strides, int64_t offset = 0,
                              pt2::InputSpec::Kind kind = pt2::InputSpec::Kind::kParameter) {
    pt2::Payload payload;
    payload.inflated =
        std::make_shared<std::vector<uint8_t>>(data.bytes().begin(), data.bytes().end());
    payload.bytes = *payload.inflated;
    archive_.payloads.push_back(std::move(payload));
    return view_of_last_payload(name, fqn, data.dtype(), std::move(sizes), std::move(strides),
                                offset, kind);
  }
  TestProgram& view_of_last_payload(const std::string& name, const std::string& fqn, DType dtype,
                                    Sizes sizes, std::vector<int64_t> strides, int64_t offset = 0,
                                    pt2::InputSpec::Kind kind = pt2::InputSpec::Kind::kParameter) {
    graph().inputs.push_back(ref(name));
    program().inputs.push_back({kind, ref(name), fqn, true});
    model_.tensors[fqn] = {static_cast<uint32_t>(archive_.payloads.size() - 1), scalar_type(dtype),
                           std::move(sizes), std::move(strides), offset};
    return *this;
  }
  TestProgram& weight(const std::string& name, const std::string& fqn, const Tensor& data,
                      pt2::InputSpec::Kind kind = pt2::InputSpec::Kind::kParameter) {
    return strided_weight(name, fqn, data, data.sizes(), contiguous_strides(data.sizes()), 0, kind);
  }

  TestProgram& node(const std::string& target, Args args, pt2::Argument output) {
    pt2::Node n;
    n.target = target.find('.') == std::string::npos || target.starts_with("aten.") ||
                       target.starts_with("quantized_decomposed.") || target.starts_with("my.")
                   ? "torch.ops." + target
                   : target;
    for (auto& [name, value] : args) n.inputs.push_back({name, std::move(value)});
    if (!std::holds_alternative<pt2::None>(output)) n.outputs.push_back(output);
    if (const auto* r = std::get_if<pt2::TensorRef>(&output)) n.name = r->name;
    graph().nodes.push_back(std::move(n));
    return *this;
  }
  /// A node with one tensor result.
  TestProgram& node(const std::string& target, Args args, const char* result) {
    return node(target, std::move(args), ref(result));
  }

  TestProgram& describe(const std::string& name, pt2::ScalarType dtype,
                        std::vector<pt2::Dim> sizes) {
    pt2::TensorMeta meta;
    meta.dtype = dtype;
    meta.sizes = std::move(sizes);
    int64_t stride = 1;
    meta.strides.resize(meta.sizes.size());
    for (size_t d = meta.sizes.size(); d-- > 0;) {
      meta.strides[d] = fixed_dim(stride);
      stride *= meta.sizes[d].value.value_or(1);
    }
    meta.storage_offset = fixed_dim(0);
    graph().tensor_values[name] = std::move(meta);
    return *this;
  }

  TestProgram& output(pt2::Argument value, const std::string& key = "") {
    graph().outputs.push_back(value);
    program().outputs.push_back({pt2::OutputSpec::Kind::kUserOutput, std::move(value), ""});
    program().user_output_names.push_back(key);
    return *this;
  }
  TestProgram& output(const char* value, const std::string& key = "") {
    return output(ref(value), key);
  }
  TestProgram& mutation(const std::string& value, const std::string& target,
                        pt2::OutputSpec::Kind kind = pt2::OutputSpec::Kind::kBufferMutation) {
    program().outputs.push_back({kind, ref(value), target});
    return *this;
  }

  Result<ImportedModel> import(const ImportOptions& options = {}) {
    return import_program(archive_, model_, options);
  }
  /// Outputs of the imported graph; errors of either step.
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs,
                                  const ImportOptions& options = {}) {
    DH_ASSIGN(const ImportedModel imported, import(options));
    return evaluate(*imported.graph, inputs);
  }

 private:
  pt2::Archive archive_;
  pt2::Model model_;
};

inline Tensor f32(Sizes sizes, const std::vector<float>& values) {
  return Tensor::from<float>(std::move(sizes), values);
}
inline Tensor i64(Sizes sizes, const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>(std::move(sizes), values);
}
/// All elements, as doubles.
inline std::vector<double> values(const Tensor& t) {
  std::vector<double> result;
  for (int64_t i = 0; i < t.num_elements(); ++i) result.push_back(t.at(i));
  return result;
}

}  // namespace downhaul::aten
