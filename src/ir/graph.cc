#include "ir/graph.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "base/strings.h"

namespace downhaul {

const Tensor& Value::constant() const {
  DH_CHECK(kind_ == Kind::kConstant || kind_ == Kind::kState);
  return constant_;
}

// --- Node

namespace {

const SchemaArg& argument(const Schema& schema, std::string_view name) {
  const SchemaArg* arg = schema.find(name);
  DH_CHECK(arg != nullptr);
  return *arg;
}

bool is_tensor(const SchemaArg& arg) {
  return arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorList;
}

}  // namespace

Value* Node::operand(std::string_view name) const {
  const SchemaArg& arg = argument(*schema_, name);
  DH_CHECK(arg.kind == ArgKind::kTensor);
  return operands_[static_cast<size_t>(arg.index)];
}

std::vector<Value*> Node::list() const {
  DH_CHECK(schema_->has_tensor_list);
  return {operands_.begin() + schema_->num_operands, operands_.end()};
}

const Attr& Node::attr(std::string_view name) const {
  const SchemaArg& arg = argument(*schema_, name);
  DH_CHECK(!is_tensor(arg));
  return attrs_[static_cast<size_t>(arg.index)];
}

bool Node::has_attr(std::string_view name) const {
  return !std::holds_alternative<std::monostate>(attr(name));
}

namespace {

template <typename T>
const T& get(const Attr& attr) {
  const T* value = std::get_if<T>(&attr);
  DH_CHECK(value != nullptr);
  return *value;
}

}  // namespace

int64_t Node::i(std::string_view name) const { return get<int64_t>(attr(name)); }
double Node::f(std::string_view name) const { return get<double>(attr(name)); }
bool Node::b(std::string_view name) const { return get<bool>(attr(name)); }
const std::string& Node::s(std::string_view name) const { return get<std::string>(attr(name)); }
DType Node::dtype(std::string_view name) const { return get<DType>(attr(name)); }
const Dim& Node::dim(std::string_view name) const { return get<Dim>(attr(name)); }
const Dims& Node::dims(std::string_view name) const { return get<Dims>(attr(name)); }
const Ints& Node::ints(std::string_view name) const { return get<Ints>(attr(name)); }
const Floats& Node::floats(std::string_view name) const { return get<Floats>(attr(name)); }

const TensorType& Node::type(std::string_view name) const {
  const Value* v = operand(name);
  DH_CHECK(v != nullptr);
  return v->type();
}

int64_t Node::axis(std::string_view name, int64_t rank) const {
  const int64_t a = i(name);
  return a < 0 ? a + rank : a;
}

void Node::add_origins(const std::vector<int>& origins) {
  constexpr size_t kFew = 16;
  if (origins.size() <= kFew && origins_.size() <= kFew) {
    for (const int o : origins) {
      if (std::find(origins_.begin(), origins_.end(), o) == origins_.end()) origins_.push_back(o);
    }
    return;
  }
  // A chain that merges into one node collects thousands.
  int last = -1;
  for (const int o : origins) last = std::max(last, o);
  for (const int o : origins_) last = std::max(last, o);
  std::vector<bool> known(static_cast<size_t>(last + 1));
  for (const int o : origins_) known[static_cast<size_t>(o)] = true;
  for (const int o : origins) {
    if (known[static_cast<size_t>(o)]) continue;
    known[static_cast<size_t>(o)] = true;
    origins_.push_back(o);
  }
}

Node* Node::next() const {
  auto it = std::next(position_);
  return it == graph_->nodes_.end() ? nullptr : it->get();
}

Node* Node::previous() const {
  return position_ == graph_->nodes_.begin() ? nullptr : std::prev(position_)->get();
}

// --- Graph: interface

namespace {

void release_name(std::map<std::string, int, std::less<>>& names, const std::string& taken) {
  int& suffix = names.find(taken)->second;
  suffix = -std::abs(suffix);
}

}  // namespace

std::string Graph::unique_name(std::string hint) {
  if (hint.empty()) hint = "v";
  // A name is a word of the text form.
  for (char& c : hint) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.') c = '_';
  }
  // A name that is free again counts on: or every new one would walk past all that are still taken.
  const auto take = [&](const std::string& wanted) {
    int& suffix = names_.try_emplace(wanted, -1).first->second;
    const bool free = suffix < 0;
    suffix = std::abs(suffix);
    return std::pair(free, &suffix);
  };
  const auto [free, suffix] = take(hint);
  if (free) return hint;
  while (true) {
    std::string candidate = cat(hint, "_", (*suffix)++);
    if (take(candidate).first) return candidate;
  }
}

Value* Graph::add_input(std::string input_name, TensorType type) {
  auto value = std::make_unique<Value>();
  value->kind_ = Value::Kind::kInput;
  value->type_ = std::move(type);
  value->name_ = unique_name(std::move(input_name));
  inputs_.push_back(value.get());
  owned_.push_back(std::move(value));
  return inputs_.back();
}

Value* Graph::add_state(std::string state_name, Tensor initial) {
  auto value = std::make_unique<Value>();
  value->kind_ = Value::Kind::kState;
  value->type_ = type_of(initial);
  value->constant_ = std::move(initial);
  value->name_ = unique_name(std::move(state_name));
  states_.push_back(value.get());
  owned_.push_back(std::move(value));
  return states_.back();
}

Value* Graph::add_constant(Tensor data, std::string constant_name) {
  auto value = std::make_unique<Value>();
  value->kind_ = Value::Kind::kConstant;
  value->type_ = type_of(data);
  value->constant_ = std::move(data);
  value->name_ = unique_name(std::move(constant_name));
  owned_.push_back(std::move(value));
  return owned_.back().get();
}

std::vector<Value*> Graph::constants() const {
  std::vector<Value*> out;
  for (const auto& v : owned_) {
    if (v->is_constant()) out.push_back(v.get());
  }
  return out;
}

void Graph::add_output(Value* value, std::string output_name) {
  ++value->output_uses_;
  outputs_.push_back({value, std::move(output_name)});
}

void Graph::set_output(size_t index, Value* value) {
  ++value->output_uses_;
  --outputs_[index].value->output_uses_;
  outputs_[index].value = value;
}

void Graph::remove_output(size_t index) {
  --outputs_[index].value->output_uses_;
  outputs_.erase(outputs_.begin() + static_cast<ptrdiff_t>(index));
}

void Graph::set_state_update(Value* state, Value* value) {
  DH_CHECK(state->kind() == Value::Kind::kState);
  ++value->output_uses_;
  for (StateUpdate& u : state_updates_) {
    if (u.state != state) continue;
    --u.value->output_uses_;
    u.value = value;
    return;
  }
  state_updates_.push_back({state, value});
}

// --- Graph: nodes

void Graph::add_use(Value* value, Node* node, int operand) {
  if (value != nullptr) value->uses_.push_back({node, operand});
}

void Graph::drop_use(Value* value, Node* node, int operand) {
  if (value == nullptr) return;
  const auto it = std::find_if(value->uses_.begin(), value->uses_.end(), [&](const Use& u) {
    return u.node == node && u.operand == operand;
  });
  DH_CHECK(it != value->uses_.end());
  value->uses_.erase(it);
}

namespace {

std::string_view kind_name(ArgKind kind) {
  switch (kind) {
    case ArgKind::kTensor:
      return "Tensor";
    case ArgKind::kTensorList:
      return "Tensor[]";
    case ArgKind::kInt:
      return "int";
    case ArgKind::kInts:
      return "int[]";
    case ArgKind::kDim:
      return "dim";
    case ArgKind::kDims:
      return "dim[]";
    case ArgKind::kFloat:
      return "float";
    case ArgKind::kFloats:
      return "float[]";
    case ArgKind::kBool:
      return "bool";
    case ArgKind::kString:
      return "str";
    case ArgKind::kDType:
      return "dtype";
  }
  return "?";
}

/// Converts what is harmless (int to float, ints to dims) and refuses the rest.
Result<Attr> coerce(const OpDef& op, const SchemaArg& arg, const Attr& value) {
  const auto wrong = [&] {
    return invalid_graph(
        cat(op.name, ": attribute ", arg.name, " is not of kind ", kind_name(arg.kind)));
  };
  if (std::holds_alternative<std::monostate>(value)) {
    if (!arg.optional) return invalid_graph(cat(op.name, ": attribute ", arg.name, " is None"));
    return value;
  }
  switch (arg.kind) {
    case ArgKind::kInt:
      if (const auto* d = std::get_if<Dim>(&value); d && d->is_static()) return Attr(d->value());
      return std::holds_alternative<int64_t>(value) ? Result<Attr>(value) : wrong();
    case ArgKind::kFloat:
      if (const auto* i = std::get_if<int64_t>(&value)) return Attr(static_cast<double>(*i));
      return std::holds_alternative<double>(value) ? Result<Attr>(value) : wrong();
    case ArgKind::kDim:
      if (const auto* i = std::get_if<int64_t>(&value)) return Attr(Dim(*i));
      return std::holds_alternative<Dim>(value) ? Result<Attr>(value) : wrong();
    case ArgKind::kDims:
      if (const auto* v = std::get_if<Ints>(&value)) return Attr(Dims(v->begin(), v->end()));
      return std::holds_alternative<Dims>(value) ? Result<Attr>(value) : wrong();
    case ArgKind::kInts:
      if (const auto* v = std::get_if<Dims>(&value)) {
        Ints out;
        for (const Dim& d : *v) {
          if (!d.is_static()) return wrong();
          out.push_back(d.value());
        }
        return Attr(std::move(out));
      }
      return std::holds_alternative<Ints>(value) ? Result<Attr>(value) : wrong();
    case ArgKind::kFloats:
      if (const auto* v = std::get_if<Ints>(&value)) return Attr(Floats(v->begin(), v->end()));
      return std::holds_alternative<Floats>(value) ? Result<Attr>(value) : wrong();
    case ArgKind::kBool:
      return std::holds_alternative<bool>(value) ? Result<Attr>(value) : wrong();
    case ArgKind::kString:
      return std::holds_alternative<std::string>(value) ? Result<Attr>(value) : wrong();
    case ArgKind::kDType:
      return std::holds_alternative<DType>(value) ? Result<Attr>(value) : wrong();
    default:
      return wrong();
  }
}

Status check_operands(const OpDef& op, const Schema& schema, std::vector<Value*>& operands) {
  const auto fixed = static_cast<size_t>(schema.num_operands);
  if (!schema.has_tensor_list && operands.size() > fixed) {
    return invalid_graph(cat(op.name, ": ", operands.size(), " operands, at most ", fixed));
  }
  if (operands.size() < fixed) operands.resize(fixed, nullptr);
  for (const SchemaArg& arg : schema.args) {
    if (!is_tensor(arg) || arg.optional) continue;
    const auto begin = static_cast<size_t>(arg.index);
    const size_t end = arg.kind == ArgKind::kTensor ? begin + 1 : operands.size();
    for (size_t i = begin; i < end; ++i) {
      if (operands[i] == nullptr) {
        return invalid_graph(cat(op.name, ": operand ", arg.name, " is missing"));
      }
    }
  }
  return {};
}

}  // namespace

Status Graph::infer_results(Node* node, std::string result_name) {
  auto types = node->op_->infer(*node);
  if (!types.ok()) return std::move(types).status();
  DH_CHECK(static_cast<int>(types->size()) == node->schema_->num_results);
  if (result_name.empty()) result_name = node->op_->name;
  for (size_t i = 0; i < types->size(); ++i) {
    auto value = std::make_unique<Value>();
    value->kind_ = Value::Kind::kResult;
    value->type_ = std::move((*types)[i]);
    value->name_ = unique_name(i == 0 ? result_name : cat(result_name, ".", i));
    value->producer_ = node;
    value->result_index_ = static_cast<int>(i);
    node->results_.push_back(std::move(value));
  }
  return {};
}

Result<Node*> Graph::insert(Node* before, const OpDef& op, std::vector<Value*> operands,
                            const NamedAttrs& attrs, std::string result_name) {
  const Schema& schema = schema_of(op);
  DH_TRY(check_operands(op, schema, operands));
  auto node = std::make_unique<Node>();
  node->op_ = &op;
  node->schema_ = &schema;
  node->graph_ = this;
  node->attrs_.resize(static_cast<size_t>(schema.num_attrs));
  std::vector<bool> given(node->attrs_.size(), false);
  for (const auto& [attr_name, value] : attrs) {
    const SchemaArg* arg = schema.find(attr_name);
    if (arg == nullptr || is_tensor(*arg)) {
      return invalid_graph(cat(op.name, " has no attribute ", attr_name));
    }
    DH_ASSIGN(node->attrs_[static_cast<size_t>(arg->index)], coerce(op, *arg, value));
    given[static_cast<size_t>(arg->index)] = true;
  }
  for (const SchemaArg& arg : schema.args) {
    if (is_tensor(arg) || given[static_cast<size_t>(arg.index)]) continue;
    if (!arg.has_default)
      return invalid_graph(cat(op.name, ": attribute ", arg.name, " is missing"));
    node->attrs_[static_cast<size_t>(arg.index)] = arg.default_value;
  }
  node->operands_ = std::move(operands);
  DH_TRY(infer_results(node.get(), std::move(result_name)));
  Node* raw = node.get();
  const auto where = before == nullptr ? nodes_.end() : before->position_;
  raw->position_ = nodes_.insert(where, std::move(node));
  for (size_t i = 0; i < raw->operands_.size(); ++i) {
    add_use(raw->operands_[i], raw, static_cast<int>(i));
  }
  return raw;
}

Result<Node*> Graph::insert_like(Node* before, const Node& like, std::vector<Value*> operands,
                                 const NamedAttrs& changed_attrs) {
  NamedAttrs attrs;
  for (const SchemaArg& arg : like.schema().args) {
    if (!is_tensor(arg)) attrs.emplace_back(arg.name, like.attrs()[static_cast<size_t>(arg.index)]);
  }
  for (const auto& change : changed_attrs) {
    for (auto& attr : attrs) {
      if (attr.first == change.first) attr.second = change.second;
    }
  }
  auto node = insert(before, like.op(), std::move(operands), attrs, like.result()->name());
  if (node.ok()) (*node)->add_origins(like.origins());
  return node;
}

void Graph::set_operand(Node* node, int operand, Value* value) {
  Value*& slot = node->operands_[static_cast<size_t>(operand)];
  drop_use(slot, node, operand);
  slot = value;
  add_use(value, node, operand);
}

void Graph::replace_all_uses(Value* from, Value* to) {
  if (from == to) return;
  for (const Use& use : from->uses_) {
    use.node->operands_[static_cast<size_t>(use.operand)] = to;
    to->uses_.push_back(use);
  }
  from->uses_.clear();
  if (from->output_uses_ == 0) return;
  for (Output& output : outputs_) {
    if (output.value == from) output.value = to;
  }
  for (StateUpdate& update : state_updates_) {
    if (update.value == from) update.value = to;
  }
  to->output_uses_ += from->output_uses_;
  from->output_uses_ = 0;
}

void Graph::erase(Node* node) {
  for (const auto& r : node->results_) {
    DH_CHECK(r->num_uses() == 0);
    release_name(names_, r->name_);
  }
  for (size_t i = 0; i < node->operands_.size(); ++i) {
    drop_use(node->operands_[i], node, static_cast<int>(i));
  }
  nodes_.erase(node->position_);
}

void Graph::move(Node* node, Node* before) {
  if (node == before) return;
  const auto where = before == nullptr ? nodes_.end() : before->position_;
  nodes_.splice(where, nodes_, node->position_);
}

int Graph::remove_dead() {
  int removed = 0;
  for (auto it = nodes_.end(); it != nodes_.begin();) {
    Node* node = std::prev(it)->get();
    const bool used = std::any_of(node->results_.begin(), node->results_.end(),
                                  [](const auto& r) { return r->num_uses() > 0; });
    if (used) {
      --it;
    } else {
      erase(node);  // `it` stays valid: it points behind the erased node
      ++removed;
    }
  }
  std::erase_if(owned_, [&](const std::unique_ptr<Value>& v) {
    const bool dead = v->is_constant() && v->num_uses() == 0;
    if (dead) release_name(names_, v->name_);
    return dead;
  });
  return removed;
}

void Graph::rename(Value* value, std::string new_name) {
  release_name(names_, value->name_);
  value->name_ = unique_name(std::move(new_name));
}

Status Graph::reinfer() {
  for (const auto& node : nodes_) {
    auto types = node->op_->infer(*node);
    if (!types.ok()) {
      return std::move(types).status().with_context(cat("node ", node->result()->name()));
    }
    for (size_t i = 0; i < types->size(); ++i) node->results_[i]->type_ = std::move((*types)[i]);
  }
  return {};
}

std::map<std::string, SymbolPtr, std::less<>> Graph::symbols() const {
  std::map<std::string, SymbolPtr, std::less<>> out;
  for (const Value* input : inputs_) {
    for (const Dim& d : input->shape()) d.collect_symbols(out);
  }
  return out;
}

Value* Graph::find_value(std::string_view value_name) const {
  for (const auto& v : owned_) {
    if (v->name() == value_name) return v.get();
  }
  for (const auto& node : nodes_) {
    for (const auto& r : node->results_) {
      if (r->name() == value_name) return r.get();
    }
  }
  return nullptr;
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>();
  copy->name = name;
  copy->origins = origins;
  copy->names_ = names_;
  std::unordered_map<const Value*, Value*> map;
  const auto copy_value = [&](const Value& v) {
    auto c = std::make_unique<Value>();
    c->kind_ = v.kind_;
    c->type_ = v.type_;
    c->name_ = v.name_;
    c->constant_ = v.constant_;
    c->result_index_ = v.result_index_;
    c->output_uses_ = v.output_uses_;
    map[&v] = c.get();
    return c;
  };
  for (const auto& v : owned_) copy->owned_.push_back(copy_value(*v));
  for (const Value* v : inputs_) copy->inputs_.push_back(map.at(v));
  for (const Value* v : states_) copy->states_.push_back(map.at(v));
  for (const auto& n : nodes_) {
    auto c = std::make_unique<Node>();
    c->op_ = n->op_;
    c->schema_ = n->schema_;
    c->graph_ = copy.get();
    c->attrs_ = n->attrs_;
    c->origins_ = n->origins_;
    for (const auto& r : n->results_) {
      c->results_.push_back(copy_value(*r));
      c->results_.back()->producer_ = c.get();
    }
    for (size_t i = 0; i < n->operands_.size(); ++i) {
      Value* operand = n->operands_[i] == nullptr ? nullptr : map.at(n->operands_[i]);
      c->operands_.push_back(operand);
      copy->add_use(operand, c.get(), static_cast<int>(i));
    }
    Node* raw = c.get();
    raw->position_ = copy->nodes_.insert(copy->nodes_.end(), std::move(c));
  }
  for (const Output& o : outputs_) copy->outputs_.push_back({map.at(o.value), o.name});
  for (const StateUpdate& u : state_updates_) {
    copy->state_updates_.push_back({map.at(u.state), map.at(u.value)});
  }
  return copy;
}

// --- RefCall

const Tensor* RefCall::maybe(std::string_view name) const {
  const SchemaArg& arg = argument(node.schema(), name);
  DH_CHECK(arg.kind == ArgKind::kTensor);
  return operands[static_cast<size_t>(arg.index)];
}

int64_t RefCall::size(std::string_view name) const {
  const auto value = node.dim(name).eval(bindings);
  DH_CHECK(value.has_value());
  return *value;
}

Sizes RefCall::sizes(std::string_view name) const {
  auto value = eval_sizes(node.dims(name), bindings);
  DH_CHECK(value.has_value());
  return *std::move(value);
}

// --- Builder

std::vector<Value*> Builder::op_multi(const OpDef& op, std::vector<Value*> operands,
                                      const NamedAttrs& attrs, std::string name) {
  if (!status_.ok()) return {};
  auto node = graph_.insert(before_, op, std::move(operands), attrs, std::move(name));
  if (!node.ok()) {
    status_ = std::move(node).status();
    return {};
  }
  (*node)->add_origins(origins_);
  created_.push_back(*node);
  std::vector<Value*> results;
  for (int i = 0; i < (*node)->num_results(); ++i) results.push_back((*node)->result(i));
  return results;
}

Value* Builder::op(const OpDef& op, std::vector<Value*> operands, const NamedAttrs& attrs,
                   std::string name) {
  const auto results = op_multi(op, std::move(operands), attrs, std::move(name));
  return results.empty() ? nullptr : results[0];
}

Value* Builder::like(const Node& node, std::vector<Value*> operands, const NamedAttrs& changed) {
  if (!status_.ok()) return nullptr;
  auto created = graph_.insert_like(before_, node, std::move(operands), changed);
  if (!created.ok()) {
    status_ = std::move(created).status();
    return nullptr;
  }
  (*created)->add_origins(origins_);
  created_.push_back(*created);
  return (*created)->result();
}

Value* Builder::constant(Tensor data, std::string name) {
  return graph_.add_constant(std::move(data), std::move(name));
}

void Builder::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

}  // namespace downhaul
