#pragma once

#include <initializer_list>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/op.h"
#include "ir/type.h"
#include "tensor/tensor.h"

/// The intermediate representation: a typed graph of functional operators in execution order, every
/// value defined once. Mutation of a model's buffers is explicit graph state.
namespace downhaul {

class Graph;
class Node;

struct Use {
  Node* node;
  int operand;
};

/// One tensor in the graph: an input, a state buffer, a constant, or a result of a node.
class Value {
 public:
  enum class Kind { kInput, kState, kConstant, kResult };

  Kind kind() const { return kind_; }
  bool is_constant() const { return kind_ == Kind::kConstant; }
  bool is_input() const { return kind_ == Kind::kInput; }
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  const Dim& dim(int64_t i) const { return type_.shape[static_cast<size_t>(i)]; }
  DType dtype() const { return type_.dtype; }
  int64_t rank() const { return type_.rank(); }

  /// Unique in the graph; for printing and for tying to the names of the source.
  const std::string& name() const { return name_; }
  /// The node that defines it, or null.
  Node* producer() const { return producer_; }
  int result_index() const { return result_index_; }
  /// The data of a constant, the initial content of a state buffer (DH_CHECK otherwise).
  const Tensor& constant() const;

  /// Uses by nodes; a node that takes the value twice appears twice.
  const std::vector<Use>& uses() const { return uses_; }
  /// Times the value is a graph output or the new content of a state buffer.
  int num_output_uses() const { return output_uses_; }
  int num_uses() const { return static_cast<int>(uses_.size()) + output_uses_; }
  bool has_one_use() const { return num_uses() == 1; }

 private:
  friend class Graph;
  friend class Node;
  Kind kind_ = Kind::kResult;
  TensorType type_;
  std::string name_;
  Node* producer_ = nullptr;
  int result_index_ = 0;
  Tensor constant_;
  std::vector<Use> uses_;
  int output_uses_ = 0;
};

/// Where a node came from in the source model.
struct Origin {
  std::string name;         ///< node name there ("linear_3")
  std::string module_path;  ///< "model.layer.0.attention" or empty
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// One application of an operator.
class Node {
 public:
  const OpDef& op() const { return *op_; }
  bool is(const OpDef& op) const { return op_ == &op; }
  std::string_view op_name() const { return op_->name; }
  const Schema& schema() const { return *schema_; }
  Graph& graph() const { return *graph_; }

  const std::vector<Value*>& operands() const { return operands_; }
  Value* operand(int i) const { return operands_[static_cast<size_t>(i)]; }
  /// By argument name; null when absent. For a list of tensors use `list`.
  Value* operand(std::string_view name) const;
  /// Members of the list argument.
  std::vector<Value*> list() const;

  int num_results() const { return static_cast<int>(results_.size()); }
  Value* result(int i = 0) const { return results_[static_cast<size_t>(i)].get(); }

  /// Attributes by argument name; the kind must be the schema's (DH_CHECK).
  const Attr& attr(std::string_view name) const;
  bool has_attr(std::string_view name) const;  ///< not None
  int64_t i(std::string_view name) const;
  double f(std::string_view name) const;
  bool b(std::string_view name) const;
  const std::string& s(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const Dim& dim(std::string_view name) const;
  const Dims& dims(std::string_view name) const;
  const Ints& ints(std::string_view name) const;
  const Floats& floats(std::string_view name) const;
  const std::vector<Attr>& attrs() const { return attrs_; }

  /// Type of a tensor argument that is present (DH_CHECK).
  const TensorType& type(std::string_view name) const;
  /// `name` as an axis of a tensor of `rank`, made non-negative; must be in range (infer checks).
  int64_t axis(std::string_view name, int64_t rank) const;

  /// Indices into Graph::origins of the source nodes that this one stands for.
  const std::vector<int>& origins() const { return origins_; }
  void add_origins(const std::vector<int>& origins);

  Node* next() const;  ///< in execution order, or null
  Node* previous() const;

 private:
  friend class Graph;
  const OpDef* op_ = nullptr;
  const Schema* schema_ = nullptr;
  Graph* graph_ = nullptr;
  std::vector<Value*> operands_;
  std::vector<Attr> attrs_;
  std::vector<std::unique_ptr<Value>> results_;
  std::vector<int> origins_;
  std::list<std::unique_ptr<Node>>::iterator position_;
};

using NamedAttrs = std::vector<std::pair<std::string_view, Attr>>;

struct Output {
  Value* value;
  std::string name;
};

/// A state buffer's content after the run.
struct StateUpdate {
  Value* state;
  Value* value;
};

/// Owns its nodes, values and constants. Not thread-safe to change.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  std::unique_ptr<Graph> clone() const;

  std::string name = "forward";
  std::vector<Origin> origins;

  // --- interface of the model
  Value* add_input(std::string name, TensorType type);
  Value* add_state(std::string name, Tensor initial);
  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& states() const { return states_; }
  void add_output(Value* value, std::string name);
  void set_output(size_t index, Value* value);
  void remove_output(size_t index);
  const std::vector<Output>& outputs() const { return outputs_; }
  void set_state_update(Value* state, Value* value);
  const std::vector<StateUpdate>& state_updates() const { return state_updates_; }

  // --- constants
  /// `name` is a hint, made unique. Data is shared, not copied.
  Value* add_constant(Tensor data, std::string name = "c");
  std::vector<Value*> constants() const;

  // --- nodes
  using NodeList = std::list<std::unique_ptr<Node>>;
  /// Iterate with `for (const auto& node : graph.nodes())`; while changing the graph use
  /// first_node() and Node::next().
  const NodeList& nodes() const { return nodes_; }
  Node* first_node() const { return nodes_.empty() ? nullptr : nodes_.front().get(); }
  /// Creates a node before `before` (null: at the end), infers its result types. Attributes not
  /// named take their defaults. On error nothing is added.
  /// Errors: kInvalidGraph with the operator's name; unknown, missing or ill-typed arguments too.
  Result<Node*> insert(Node* before, const OpDef& op, std::vector<Value*> operands,
                       const NamedAttrs& attrs = {}, std::string name = "");
  /// A node of the same operator and attributes with other operands; re-infers types.
  Result<Node*> insert_like(Node* before, const Node& like, std::vector<Value*> operands,
                            const NamedAttrs& changed_attrs = {});
  void set_operand(Node* node, int operand, Value* value);
  /// Every use of `from`, outputs and state updates included, becomes a use of `to`.
  void replace_all_uses(Value* from, Value* to);
  /// Only when no result is used (DH_CHECK).
  void erase(Node* node);
  /// Moves `node` before `before` (null: to the end). The caller keeps the order valid.
  void move(Node* node, Node* before);
  /// Removes nodes without used results, and constants that nobody uses. Returns how many nodes.
  int remove_dead();
  void rename(Value* value, std::string name);
  /// Infers all result types anew in order, after an input's type was changed.
  Status reinfer();
  void set_input_type(Value* input, TensorType type) { input->type_ = std::move(type); }

  /// All free symbols in the types of inputs, by name.
  std::map<std::string, SymbolPtr, std::less<>> symbols() const;

  Value* find_value(std::string_view name) const;  ///< linear; for tests and tools

 private:
  friend class Node;
  std::string unique_name(std::string hint);
  void add_use(Value* value, Node* node, int operand);
  void drop_use(Value* value, Node* node, int operand);
  Status infer_results(Node* node, std::string name);

  std::vector<std::unique_ptr<Value>> owned_;  // inputs, states, constants
  std::vector<Value*> inputs_;
  std::vector<Value*> states_;
  std::vector<Output> outputs_;
  std::vector<StateUpdate> state_updates_;
  NodeList nodes_;
  std::map<std::string, int, std::less<>> names_;  // next suffix by name; < 0: name is free
};

/// One evaluation of a node on concrete tensors.
struct RefCall {
  const Node& node;
  std::vector<const Tensor*> operands;  ///< as node.operands(); null when absent
  const Bindings& bindings;
  std::vector<Tensor> results;  ///< zero-filled, of the inferred types; the kernel fills them

  const Tensor& in(int i) const { return *operands[static_cast<size_t>(i)]; }
  const Tensor* maybe(std::string_view name) const;
  const Tensor& in(std::string_view name) const { return *maybe(name); }
  Tensor& out(int i = 0) { return results[static_cast<size_t>(i)]; }
  /// A dim / dim[] attribute in this run (the evaluator has checked that symbols are bound).
  int64_t size(std::string_view name) const;
  Sizes sizes(std::string_view name) const;
};

/// Appends nodes at one place; the first error sticks, later calls return null, so that nested
/// expressions need one check at the end.
class Builder {
 public:
  /// Inserts before `before`; null: at the end of the graph.
  Builder(Graph& graph, Node* before) : graph_(graph), before_(before) {}

  Value* op(const OpDef& op, std::vector<Value*> operands, const NamedAttrs& attrs = {},
            std::string name = "");
  /// All results of an operator that has several (empty after an error).
  std::vector<Value*> op_multi(const OpDef& op, std::vector<Value*> operands,
                               const NamedAttrs& attrs = {}, std::string name = "");
  Value* like(const Node& node, std::vector<Value*> operands, const NamedAttrs& changed = {});
  Value* constant(Tensor data, std::string name = "c");
  Value* scalar(DType dtype, double value) { return constant(Tensor::scalar(dtype, value)); }

  /// Origins that every new node gets.
  void set_origins(std::vector<int> origins) { origins_ = std::move(origins); }
  const std::vector<Node*>& created() const { return created_; }
  const Status& status() const { return status_; }
  void fail(Status status);
  Graph& graph() const { return graph_; }

 private:
  Graph& graph_;
  Node* before_;
  std::vector<int> origins_;
  std::vector<Node*> created_;
  Status status_;
};

}  // namespace downhaul
