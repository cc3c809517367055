#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/mlpackage/package.h"
#include "ir/graph.h"
#include "ops/ops.h"

/// What raise functions read with. Inside this folder only.
namespace downhaul::coreml {

/// One operation of a program. The first argument that is not what the operation takes makes the
/// builder fail; then every read gives a neutral value.
class RaiseCall {
 public:
  RaiseCall(const mil::Package& package, const mil::Operation& op,
            std::map<std::string, Value*, std::less<>>& values,
            const std::map<std::string, const mil::Value*, std::less<>>& constants,
            Builder& builder)
      : b(builder), op_(op), package_(package), values_(values), constants_(constants) {}

  Builder& b;
  const mil::Operation& op() const { return op_; }
  bool has(std::string_view argument) const;

  Value* in(std::string_view argument);
  Value* maybe(std::string_view argument) { return has(argument) ? in(argument) : nullptr; }
  std::vector<Value*> list(std::string_view argument);

  Ints ints(std::string_view argument);
  Ints ints(std::string_view argument, Ints otherwise) {
    return has(argument) ? ints(argument) : std::move(otherwise);
  }
  int64_t integer(std::string_view argument, int64_t otherwise);
  double number(std::string_view argument, double otherwise);
  bool flag(std::string_view argument, bool otherwise);
  std::vector<bool> flags(std::string_view argument, size_t size);
  std::string text(std::string_view argument, std::string otherwise);
  /// A compile-time tensor, given as input or attribute.
  Tensor tensor(std::string_view argument);

  /// Non-negative; fails when out of range.
  int64_t axis(int64_t value, int64_t rank);
  Ints axes(Ints values, int64_t rank);
  Sizes sizes(const Value* v) const;
  Value* scalar(const Value* like, double value);
  /// Null, after making the builder fail with `why`.
  Value* refuse(std::string_view why);
  bool ok() const { return b.status().ok(); }

 private:
  const mil::Value* compile_time(std::string_view argument) const;
  Value* value_of(const mil::Binding& binding, std::string_view argument);

  const mil::Operation& op_;
  const mil::Package& package_;
  std::map<std::string, Value*, std::less<>>& values_;
  const std::map<std::string, const mil::Value*, std::less<>>& constants_;
};

/// The elements of a compile-time value; 8-bit and wider as they are, packed ones as u8.
Result<Tensor> tensor_of(const mil::Package& package, const mil::Value& value);
/// The IR's type of an element type; nullopt when it has none.
std::optional<DType> ir_dtype(mil::DType dtype);

using Values = std::vector<Value*>;
struct RaiseRow {
  std::string_view type;
  Values (*raise)(RaiseCall& call);
};

// Rows by family; each family in a file of its own.
std::span<const RaiseRow> raise_elementwise_rows();
std::span<const RaiseRow> raise_image_rows();
std::span<const RaiseRow> raise_product_rows();
std::span<const RaiseRow> raise_shape_rows();
std::span<const RaiseRow> raise_weight_rows();

}  // namespace downhaul::coreml
