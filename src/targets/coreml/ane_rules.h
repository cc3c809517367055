#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "formats/mlpackage/mil.h"
#include "targets/coreml/placement.h"

/// The table behind placement.h, and what its rows may ask.
namespace downhaul::coreml {

/// A program seen by its data flow.
class ProgramFacts {
 public:
  explicit ProgramFacts(const mil::Function& function);

  /// In program order, those of nested blocks after the one that holds them; without constants.
  const std::vector<const mil::Operation*>& operations() const { return operations_; }
  /// Type of a name; null when nothing defines it.
  const mil::Type* type(std::string_view name) const;
  /// The operation that computes `name`; null for inputs, constants and unknown names.
  const mil::Operation* producer(std::string_view name) const;
  /// Operations that read `name`; nobody reads what is an output of the program only.
  const std::vector<const mil::Operation*>& readers(std::string_view name) const;
  bool is_constant(std::string_view name) const { return constants_.contains(std::string(name)); }
  bool is_output(std::string_view name) const { return outputs_.contains(std::string(name)); }

  /// Types of everything that `op` reads, inline values and constants included.
  std::vector<const mil::Type*> operand_types(const mil::Operation& op) const;
  /// Names that `op` reads, in the order of its inputs.
  static std::vector<std::string_view> operand_names(const mil::Operation& op);

  /// Numbers of a compile-time parameter that is held in place; nullopt when absent or elsewhere.
  std::optional<std::vector<double>> numbers(const mil::Operation& op,
                                             std::string_view input) const;
  /// 1 when absent, as for strides and dilations.
  double largest(const mil::Operation& op, std::string_view input) const;
  std::optional<bool> flag(const mil::Operation& op, std::string_view input) const;

  /// Looks up rows of a table, prepares their indices, or adds positions to them (rule 2).
  bool is_embedding(const mil::Operation& op) const { return embedding_.contains(&op); }

 private:
  void collect(const mil::Block& block);
  void find_embeddings();
  const mil::Value* value_of(const mil::Operation& op, std::string_view input) const;

  std::vector<const mil::Operation*> operations_;
  std::unordered_map<std::string, const mil::Type*> types_;
  std::unordered_map<std::string, const mil::Operation*> producers_;
  std::unordered_map<std::string, std::vector<const mil::Operation*>> readers_;
  std::unordered_map<std::string, const mil::Value*> constants_;
  std::unordered_set<std::string> outputs_;
  std::unordered_set<const mil::Operation*> embedding_;
};

/// One row: the first that applies to an operation places it.
struct AneRule {
  int number;
  bool (*applies)(const mil::Operation& op, const ProgramFacts& facts);
  ComputeUnit unit;
  Certainty certainty;
  const char* reason;
};
std::span<const AneRule> ane_rules();

/// Largest size of a dimension that the Neural Engine is reported to take.
inline constexpr uint64_t kMaxAneDimension = 16384;

}  // namespace downhaul::coreml
