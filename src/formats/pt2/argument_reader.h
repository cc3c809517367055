#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/pt2/pt2.h"

namespace downhaul::pt2 {

/// Reads an object with exactly one member, the archive's form of a union.
template <typename F>
Status read_union(JsonReader& reader, F&& on_alternative) {
  int members = 0;
  DH_TRY(reader.object([&](std::string_view key) -> Status {
    if (++members > 1) return reader.error(cat("a second alternative '", printable(key), "'"));
    return on_alternative(key);
  }));
  return members == 1 ? Status() : reader.error("a value without alternative");
}

/// Reads graphs and what they are made of. Module stacks go into a table of the program.
class ArgumentReader {
 public:
  /// `on_progress` is called now and then, between values.
  ArgumentReader(Program& program, std::function<void()> on_progress)
      : program_(program), on_progress_(std::move(on_progress)) {}

  Status read(JsonReader& reader, Argument& out);
  Status read_graph(JsonReader& reader, Graph& out);
  /// A size: {"as_int": n} or {"as_expr": …}.
  Status read_dim(JsonReader& reader, Dim& out);
  Status read_tensor_meta(JsonReader& reader, TensorMeta& out);

 private:
  using Alternative = Status (ArgumentReader::*)(JsonReader&, Argument&);
  static Alternative find_alternative(std::string_view name);

  template <typename T>
  Status read_plain(JsonReader& reader, Argument& out);
  template <typename T>
  Status read_enum(JsonReader& reader, Argument& out);
  template <typename T>
  Status read_list(JsonReader& reader, Argument& out);
  Status read_none(JsonReader& reader, Argument& out);
  Status read_tensor(JsonReader& reader, Argument& out);
  Status read_tensors(JsonReader& reader, Argument& out);
  Status read_optional_tensor(JsonReader& reader, Argument& out);
  Status read_optional_tensors(JsonReader& reader, Argument& out);
  Status read_nested_tensors(JsonReader& reader, Argument& out);
  Status read_device(JsonReader& reader, Argument& out);
  Status read_graph_argument(JsonReader& reader, Argument& out);
  Status read_custom_object(JsonReader& reader, Argument& out);
  Status read_operator(JsonReader& reader, Argument& out);
  Status read_complex(JsonReader& reader, Argument& out);
  Status read_string_map(JsonReader& reader, Argument& out);

  Status read_expression(JsonReader& reader, Dim& out);
  Status read_node(JsonReader& reader, Node& out);
  Status read_metadata(JsonReader& reader, Node& out);
  template <typename Map, typename F>
  Status read_values(JsonReader& reader, Map& map, F read_value);

  Program& program_;
  std::function<void()> on_progress_;
  /// Expression text to its tree; null for text that was not understood.
  std::unordered_map<std::string, std::shared_ptr<const SymExpr>> expressions_;
  std::unordered_map<std::string, int32_t> module_stacks_;
};

}  // namespace downhaul::pt2
