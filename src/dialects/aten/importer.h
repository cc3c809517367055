#pragma once

#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "dialects/aten/aliases.h"
#include "dialects/aten/aten.h"
#include "dialects/aten/call.h"
#include "dialects/aten/sym.h"
#include "dialects/aten/table.h"
#include "dialects/aten/weights.h"

namespace downhaul::aten {

/// One run of import_program: inputs and weights (inputs.cc), nodes (nodes.cc), outputs and state
/// (importer.cc).
class Importer final : public CallContext {
 public:
  Importer(const pt2::Archive& archive, const pt2::Model& model, const ImportOptions& options);
  Result<ImportedModel> run();

  // CallContext
  const Scope::Entity* lookup(const std::string& name, Builder& b) override;
  const pt2::TensorMeta* meta(const std::string& name) override;
  Aliases& aliases() override { return aliases_; }
  Value* scalar(DType dtype, const Number& number) override;
  std::optional<Tensor> fold(Value* v) override;

 private:
  // --- inputs.cc
  Status add_inputs();
  Status add_user_input(size_t index, const std::string& name);
  View* weight(size_t index, Builder& b);
  Sym symbol(std::string_view name);
  Result<Shape> shape_of_meta(const pt2::TensorMeta& meta);

  // --- nodes.cc
  Status check_operators(const pt2::Graph& graph, const std::vector<bool>& live);
  void count_unknown(const pt2::Graph& graph, const std::vector<bool>& live,
                     std::map<std::string, int>& unknown, int depth);
  Status import_nodes(const pt2::Graph& graph, const std::vector<bool>& live);
  Status import_node(const pt2::Node& node, size_t index);
  Status import_overload(const pt2::Node& node, std::string_view overload, Builder& b);
  Status import_function(const pt2::Node& node, std::string_view function, Builder& b);
  Status import_higher_order(const pt2::Node& node, std::string_view name, Builder& b);
  Status inline_graph(const pt2::Node& node, const pt2::Argument& graph, size_t first_operand,
                      Builder& b);
  Status check_arguments(const pt2::Node& node, const ParsedRow& row);
  Status write_in_place(const pt2::Node& node, const ParsedRow& row, Call& call, const Out& out,
                        Builder& b);
  Status bind(const pt2::Node& node, Out out, Builder& b);
  Status check_type(const std::string& name, const TensorType& type);
  const ParsedRow& parsed(const Row& row);
  Scope::Entity entity_of(const pt2::Argument& argument, Builder& b);
  int origin_of(const pt2::Node& node);

  // --- importer.cc
  Status choose_outputs();
  Status add_outputs(Builder& b);
  Status add_state_updates(Builder& b);
  std::string describe_node(const pt2::Node& node, size_t index) const;

  const pt2::Archive& archive_;
  const pt2::Model& model_;
  const pt2::Program& program_;
  const ImportOptions& options_;
  ImportedModel result_;
  Graph& graph_;
  Aliases aliases_;
  Weights weights_;

  std::list<Scope> scopes_;  ///< the program, and the subgraphs being inlined; innermost last
  std::unordered_map<std::string_view, size_t> placeholders_;  ///< name to graph input
  std::vector<View*> placeholder_views_;                       ///< null until used
  std::unordered_map<const Value*, StorageInfo*> weight_storages_;
  std::map<std::pair<DType, std::pair<int64_t, uint64_t>>, Value*> scalars_;
  std::unordered_map<const Row*, ParsedRow> rows_;
  std::map<std::string, SymbolPtr, std::less<>> symbols_;
  Bindings hints_;  ///< value of each symbol at export
  std::vector<std::string> module_paths_;

  struct ChosenOutput {
    size_t index;  ///< of the program's outputs
    std::string name;
  };
  std::vector<ChosenOutput> chosen_outputs_;
};

}  // namespace downhaul::aten
