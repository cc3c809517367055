#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dialects/aten/call.h"
#include "formats/pt2/pt2.h"

namespace downhaul::aten {

/// One overload: table.inc explains the columns.
struct Row {
  const char* schema;
  Raise raise;
  const char* spelling;
  /// The result is, or may be, another view of the argument `self`.
  bool view;
};

struct Parameter {
  std::string_view name;
  bool has_default = false;
  pt2::Argument default_value;
};

/// One argument of the IR operator in a one-to-one spelling.
struct SpelledArgument {
  std::string_view name;  ///< of the overload's argument
  bool as_float = false;  ///< integers become f32
};

struct ParsedRow {
  const Row* row = nullptr;
  std::string_view overload;  ///< "aten.add.Tensor"
  std::vector<Parameter> parameters;
  const OpDef* op = nullptr;  ///< the operator that the spelling names, or null
  std::vector<SpelledArgument> spelled;

  const Parameter* find(std::string_view name) const;
};

/// The row of an overload ("aten.add.Tensor"), or null.
const Row* find_row(std::string_view overload);
ParsedRow parse_row(const Row& row);
std::vector<std::string_view> all_overloads();
/// The operator and its arguments as the row's spelling says ("gelu(self, approximate)").
Out raise_spelled(Call& c);

}  // namespace downhaul::aten
