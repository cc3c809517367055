#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dialects/mil/emit.h"
#include "ir/graph.h"

/// What emit functions write with. Inside this folder only.
namespace downhaul::coreml {

/// A named input of an operation under construction: names of values, several for a list.
struct In {
  std::string_view argument;
  std::vector<std::string> names;
  In(std::string_view a, std::string name) : argument(a), names{std::move(name)} {}
  In(std::string_view a, std::vector<std::string> n) : argument(a), names(std::move(n)) {}
};

class ProgramBuilder {
 public:
  ProgramBuilder(const EmitOptions& options, EmittedProgram& out) : options_(options), out_(out) {}

  const EmitOptions& options() const { return options_; }
  mil::DType float_type() const { return options_.half ? mil::DType::kF16 : mil::DType::kF32; }
  /// The element type that values of an IR type have in the program.
  mil::DType type_of(DType dtype) const;
  mil::Type type_of(const TensorType& type) const;

  /// The name of an IR value; writes it first when it is a constant.
  std::string value(const Value* v);
  /// As value, of a constant under other sizes (the same weights in the file).
  std::string reshaped(const Value* v, const Sizes& sizes);
  /// A constant tensor: floats in the program's float type.
  std::string constant(const Tensor& t, const std::string& hint);

  // Parameters. Equal ones are written once.
  std::string ints(std::string_view hint, const Ints& values);
  std::string integer(std::string_view hint, int64_t value);
  std::string flag(std::string_view hint, bool value);
  std::string flags(std::string_view hint, const std::vector<bool>& values);
  std::string text(std::string_view hint, const std::string& value);
  /// In the program's float type; a number that would become 0 becomes the smallest above it.
  std::string number(std::string_view hint, double value);
  std::string number_f32(std::string_view hint, double value);

  /// Writes an operation with one result of this type; returns its name.
  std::string op(std::string_view type, const std::vector<In>& inputs, mil::Type result,
                 const std::string& hint);
  /// The same for the first result of a node, which then has this name.
  void result(const Node& node, std::string_view type, const std::vector<In>& inputs);
  /// An operation with several results; their names.
  std::vector<std::string> op_multi(std::string_view type, const std::vector<In>& inputs,
                                    const std::vector<std::pair<mil::Type, std::string>>& results);
  /// Slices that take a value apart in equal parts are one operation; null for others.
  const std::vector<const Node*>* parts(const Node& slice) const;
  bool written(const Node& node) const { return names_.contains(node.result()); }
  /// A result of an intermediate shape.
  std::string step(const Node& node, std::string_view type, const std::vector<In>& inputs,
                   const Sizes& sizes);
  std::string cast(const std::string& name, mil::DType to, const Sizes& sizes,
                   const std::string& hint);
  /// Something that people should know about this program.
  void note(std::string text) { out_.notes.push_back(std::move(text)); }
  /// The node's result is what `name` names already.
  void alias(const Value* v, std::string name) { names_[v] = std::move(name); }

  void begin(const Graph& graph);
  Status finish(const Graph& graph);

 private:
  std::string unique(std::string_view hint);
  std::string parameter(std::string_view hint, mil::Value value);
  std::string add_constant(std::string name, mil::Value value);
  void find_parts(const Graph& graph);
  void rename(const std::string& from, const std::string& to);
  mil::Feature feature(const std::string& name, const TensorType& type) const;

  const EmitOptions& options_;
  EmittedProgram& out_;
  mil::Function function_;
  std::unordered_map<const Node*, std::vector<const Node*>> parts_;
  std::unordered_map<const Value*, std::string> names_;
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, int, std::less<>> next_;
  std::map<std::string, std::string> parameters_;  ///< content -> name
  struct Stored {
    const Storage* storage;
    uint64_t offset;
    uint64_t elements;
    DType dtype;
    auto operator<=>(const Stored&) const = default;
  };
  /// Compressed weights, whatever shapes they are seen in.
  struct Packed {
    mil::Value codes, table, zeros;
  };
  mil::Value blob(mil::DType dtype, const Sizes& sizes, uint64_t elements,
                  mil::WeightWriter::Writer write);
  mil::Value vector_value(mil::DType dtype, std::vector<uint8_t> bytes);
  const Packed& pack(const Tensor& t, const Stored& stored);
  std::string compressed(const Tensor& t, const Stored& stored, const std::string& hint);
  std::vector<std::shared_ptr<const Storage>> kept_;
  std::map<Stored, Packed> packed_;
  std::map<Stored, uint64_t> blobs_;                           ///< -> place in the weight file
  std::map<std::pair<Stored, Sizes>, std::string> constants_;  ///< -> name
  Status failed_;
};

Sizes sizes_of(const Value* v);

}  // namespace downhaul::coreml
