#include "dialects/aten/importer.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "dialects/aten/liveness.h"
#include "ops/evaluate.h"

namespace downhaul::aten {

Importer::Importer(const pt2::Archive& archive, const pt2::Model& model,
                   const ImportOptions& options)
    : archive_(archive),
      model_(model),
      program_(model.program),
      options_(options),
      result_{.graph = std::make_unique<Graph>()},
      graph_(*result_.graph),
      weights_(archive) {}

const pt2::TensorMeta* Importer::meta(const std::string& name) {
  const pt2::Graph& graph = *scopes_.back().graph;
  const auto it = graph.tensor_values.find(name);
  return it == graph.tensor_values.end() ? nullptr : &it->second;
}

const Scope::Entity* Importer::lookup(const std::string& name, Builder& b) {
  Scope& scope = scopes_.back();
  if (const auto it = scope.names.find(name); it != scope.names.end()) return &it->second;
  if (scopes_.size() == 1) {
    if (const auto it = placeholders_.find(name); it != placeholders_.end()) {
      View* view = weight(it->second, b);
      if (view == nullptr) return nullptr;
      return &scope.names.emplace(it->first, view).first->second;
    }
  }
  b.fail(invalid_graph(cat("'", printable(name), "' is used but not defined before")));
  return nullptr;
}

Value* Importer::scalar(DType dtype, const Number& number) {
  const auto key =
      std::pair(dtype, std::pair(number.kind == Number::Kind::kFloat ? int64_t{0} : number.i,
                                 std::bit_cast<uint64_t>(number.f)));
  Value*& value = scalars_[key];
  if (value != nullptr) return value;
  Tensor t(dtype, {});
  if (number.kind == Number::Kind::kFloat) {
    t.set(0, number.f);
  } else {
    t.set_int(0, number.i);
  }
  value = graph_.add_constant(std::move(t), "scalar");
  return value;
}

std::optional<Tensor> Importer::fold(Value* v) {
  if (v == nullptr) return std::nullopt;
  // What decides the shape of a program is small.
  constexpr int64_t kMaxElements = int64_t{1} << 22;
  const auto small = [](const Value* value) {
    const Dim count = num_elements(value->shape());
    return count.is_static() && count.value() <= kMaxElements;
  };
  std::vector<Value*> pending = {v};
  std::unordered_set<const Value*> seen = {v};
  std::vector<StorageInfo*> looked_at;
  std::vector<Node*> nodes;
  std::unordered_set<const Node*> seen_nodes;
  while (!pending.empty()) {
    Value* value = pending.back();
    pending.pop_back();
    if (!small(value)) return std::nullopt;
    if (value->is_constant()) {
      if (const auto it = weight_storages_.find(value); it != weight_storages_.end()) {
        // Its content varies from call to call once something writes to it.
        if (it->second->version > 0) return std::nullopt;
        looked_at.push_back(it->second);
      }
      continue;
    }
    Node* node = value->producer();
    if (node == nullptr) return std::nullopt;
    if (!seen_nodes.insert(node).second) continue;
    nodes.push_back(node);
    for (Value* operand : node->operands()) {
      if (operand != nullptr && seen.insert(operand).second) pending.push_back(operand);
    }
  }
  // In order of dependence: a node is ready once its operands are known.
  std::unordered_map<const Value*, Tensor> known;
  const auto content = [&](const Value* value) -> const Tensor* {
    if (value->is_constant()) return &value->constant();
    const auto it = known.find(value);
    return it == known.end() ? nullptr : &it->second;
  };
  std::vector<Node*> stack(nodes.begin(), nodes.end());
  while (!stack.empty()) {
    Node* node = stack.back();
    if (content(node->result()) != nullptr) {
      stack.pop_back();
      continue;
    }
    std::vector<const Tensor*> operands;
    bool ready = true;
    for (const Value* operand : node->operands()) {
      const Tensor* t = operand == nullptr ? nullptr : content(operand);
      if (operand != nullptr && t == nullptr) {
        stack.push_back(operand->producer());
        ready = false;
      }
      operands.push_back(t);
    }
    if (!ready) continue;
    auto results = evaluate_node(*node, operands);
    if (!results.ok()) return std::nullopt;
    for (int i = 0; i < node->num_results(); ++i) {
      known.emplace(node->result(i), std::move((*results)[static_cast<size_t>(i)]));
    }
    stack.pop_back();
  }
  for (StorageInfo* s : looked_at) s->content_used = true;
  const Tensor* t = content(v);
  return t == nullptr ? std::nullopt : std::optional<Tensor>(*t);
}

namespace {

bool is_result(const pt2::OutputSpec& spec) {
  return spec.kind == pt2::OutputSpec::Kind::kUserOutput ||
         spec.kind == pt2::OutputSpec::Kind::kLossOutput;
}

}  // namespace

Status Importer::choose_outputs() {
  std::vector<ChosenOutput> all;
  size_t count = 0;
  for (const pt2::OutputSpec& spec : program_.outputs) count += is_result(spec) ? 1 : 0;
  size_t position = 0;
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    const pt2::OutputSpec& spec = program_.outputs[i];
    if (!is_result(spec)) continue;
    std::string name;
    if (position < program_.user_output_names.size()) name = program_.user_output_names[position];
    if (name.empty()) name = count == 1 ? "output" : cat("output_", position);
    ++position;
    if (std::holds_alternative<pt2::None>(spec.arg)) continue;
    // A key that looks like a position, or the same leaf twice.
    const auto taken = [&](const std::string& n) {
      return std::any_of(all.begin(), all.end(), [&](const auto& o) { return o.name == n; });
    };
    std::string unique = name;
    for (int n = 1; taken(unique); ++n) unique = cat(name, "_", n);
    all.push_back({i, std::move(unique)});
  }
  if (options_.keep_outputs.empty()) {
    chosen_outputs_ = std::move(all);
    return {};
  }
  for (const std::string& wanted : options_.keep_outputs) {
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&](const ChosenOutput& o) { return o.name == wanted; });
    if (it == all.end()) {
      std::vector<std::string> names;
      for (const ChosenOutput& o : all) names.push_back(printable(o.name));
      return invalid_argument(
          cat("the model has no output '", printable(wanted), "', it has: ", join(names, ", ")));
    }
    const bool twice = std::any_of(chosen_outputs_.begin(), chosen_outputs_.end(),
                                   [&](const ChosenOutput& o) { return o.index == it->index; });
    if (!twice) chosen_outputs_.push_back(*it);
  }
  return {};
}

Status Importer::add_outputs(Builder& b) {
  for (const ChosenOutput& output : chosen_outputs_) {
    const pt2::Argument& arg = program_.outputs[output.index].arg;
    const Scope::Entity entity = entity_of(arg, b);
    if (!b.status().ok()) return b.status();
    Value* value = nullptr;
    if (View* const* view = std::get_if<View*>(&entity)) {
      value = aliases_.read(*view, b);
    } else if (const Sym* s = std::get_if<Sym>(&entity)) {
      // Numbers leave the graph as tensors of rank 0.
      if (const Dim* d = std::get_if<Dim>(s)) {
        value = d->is_static() ? scalar(DType::kI64, Number::of(d->value()))
                               : b.op(ops::kDimScalar, {}, {{"value", *d}, {"dtype", DType::kI64}});
      } else if (const bool* truth = std::get_if<bool>(s)) {
        value = scalar(DType::kBool, {Number::Kind::kBool, *truth ? 1 : 0, *truth ? 1.0 : 0.0, {}});
      } else if (const double* f = std::get_if<double>(s)) {
        value = scalar(DType::kF32, Number::of(*f));
      } else {
        return unsupported(cat("output '", printable(output.name), "': ", str(*s)));
      }
      result_.warnings.push_back(
          cat("output '", printable(output.name), "' is a number; it becomes a tensor of rank 0"));
    } else {
      return unsupported(
          cat("output '", printable(output.name), "' is of kind ", pt2::alternative_name(arg)));
    }
    if (!b.status().ok()) return b.status();
    graph_.add_output(value, output.name);
  }
  return {};
}

// Buffers that were written become state; user inputs that were written give one more output each.
Status Importer::add_state_updates(Builder& b) {
  // Decomposed programs return the new contents.
  std::vector<std::pair<View*, Value*>> returned;
  for (const pt2::OutputSpec& spec : program_.outputs) {
    const bool writes = spec.kind == pt2::OutputSpec::Kind::kBufferMutation ||
                        spec.kind == pt2::OutputSpec::Kind::kParameterMutation;
    const bool writes_input = spec.kind == pt2::OutputSpec::Kind::kUserInputMutation;
    if (!writes && !writes_input) continue;
    const Scope::Entity content = entity_of(spec.arg, b);
    View* const* view = std::get_if<View*>(&content);
    if (!b.status().ok()) return b.status();
    if (view == nullptr) return invalid_graph("a mutated tensor's new content is not a tensor");
    View* target = nullptr;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const auto* ref = std::get_if<pt2::TensorRef>(&program_.inputs[i].arg);
      if (ref == nullptr) continue;
      const pt2::InputSpec::Kind kind = program_.inputs[i].kind;
      const bool match = writes_input
                             ? kind == pt2::InputSpec::Kind::kUserInput && ref->name == spec.target
                             : kind != pt2::InputSpec::Kind::kUserInput &&
                                   program_.inputs[i].target == spec.target;
      if (match) target = weight(i, b);
    }
    if (!b.status().ok()) return b.status();
    if (target == nullptr) {
      return invalid_graph(cat("mutation of '", printable(spec.target), "', which is no input"));
    }
    returned.emplace_back(target, aliases_.read(*view, b));
  }
  for (const auto& [view, value] : returned) {
    if (value->type() != view->type) {
      return invalid_graph(cat("the new content of a mutated tensor is ", value->type().str(),
                               ", expected ", view->type.str()));
    }
    aliases_.write(view, value, b);
  }

  // The new content of one may be the old content of another.
  std::unordered_map<const Value*, Value*> states;
  const auto content_of = [&](const StorageInfo& storage) {
    const auto state = states.find(storage.whole->value);
    return state == states.end() ? storage.whole->value : state->second;
  };
  for (const StorageInfo& storage : aliases_.storages()) {
    if (storage.version == 0 || storage.source == StorageInfo::Source::kIntermediate) continue;
    const pt2::InputSpec& spec = program_.inputs[static_cast<size_t>(storage.placeholder)];
    if (storage.source == StorageInfo::Source::kUserInput) continue;
    if (storage.content_used) {
      return unsupported(cat("'", printable(spec.target),
                             "' is written although its content decides the program"));
    }
    const pt2::StoredTensor& stored = model_.tensors.at(spec.target);
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (placeholder_views_[i] == nullptr || static_cast<int>(i) == storage.placeholder) continue;
      const auto other = model_.tensors.find(program_.inputs[i].target);
      if (other != model_.tensors.end() && other->second.payload == stored.payload) {
        return unsupported(cat("'", printable(spec.target),
                               "' is written and shares its memory with '",
                               printable(program_.inputs[i].target), "'"));
      }
    }
    Value* state = graph_.add_state(spec.target, storage.initial->constant());
    graph_.replace_all_uses(storage.initial, state);
    states[storage.initial] = state;
  }
  for (const StorageInfo& storage : aliases_.storages()) {
    if (storage.version == 0 || storage.source == StorageInfo::Source::kIntermediate) continue;
    if (storage.source == StorageInfo::Source::kWeight) {
      graph_.set_state_update(states.at(storage.initial), content_of(storage));
      continue;
    }
    const std::string name = storage.initial->name();
    result_.warnings.push_back(cat("the program writes into its input '", printable(name),
                                   "'; the new content is the output '", printable(name),
                                   "_updated', the caller's tensor stays as it is"));
    graph_.add_output(content_of(storage), cat(name, "_updated"));
  }
  return {};
}

Result<ImportedModel> Importer::run() {
  result_.model_name = program_.name;
  result_.torch_version = program_.torch_version;
  result_.schema_version = cat(program_.schema_major, ".", program_.schema_minor);
  result_.dialect = program_.verifiers.empty() ? "" : program_.verifiers.front();
  result_.num_source_nodes = static_cast<int64_t>(program_.graph.nodes.size());
  result_.warnings = archive_.warnings;
  scopes_.emplace_back().graph = &program_.graph;
  DH_TRY(add_inputs());
  DH_TRY(choose_outputs());

  const auto names_of = [](const pt2::Argument& a, std::vector<std::string>& names) {
    if (const auto* ref = std::get_if<pt2::TensorRef>(&a)) names.push_back(ref->name);
    if (const auto* i = std::get_if<pt2::SymIntArg>(&a)) names.push_back(i->name);
    if (const auto* x = std::get_if<pt2::SymBoolArg>(&a)) names.push_back(x->name);
    if (const auto* f = std::get_if<pt2::SymFloatArg>(&a)) names.push_back(f->name);
  };
  std::vector<std::string> wanted;
  for (const ChosenOutput& o : chosen_outputs_) names_of(program_.outputs[o.index].arg, wanted);
  for (const pt2::OutputSpec& spec : program_.outputs) {
    if (!is_result(spec)) names_of(spec.arg, wanted);
  }
  // What the caller or the next call can see: writes into it count without a reader.
  std::vector<std::string> kept;
  for (const pt2::InputSpec& spec : program_.inputs) names_of(spec.arg, kept);
  const std::vector<bool> live = live_nodes(program_.graph, wanted, kept);
  DH_TRY(check_operators(program_.graph, live));
  DH_TRY(import_nodes(program_.graph, live));

  Builder b(graph_, nullptr);
  DH_TRY(add_outputs(b));
  DH_TRY(add_state_updates(b));
  if (!b.status().ok()) return b.status();
  graph_.remove_dead();

  std::unordered_set<std::string_view> used;
  for (const Value* constant : graph_.constants()) {
    const auto it = weight_storages_.find(constant);
    if (it == weight_storages_.end()) continue;
    used.insert(program_.inputs[static_cast<size_t>(it->second->placeholder)].target);
  }
  for (const StorageInfo& storage : aliases_.storages()) {
    if (storage.source != StorageInfo::Source::kWeight || storage.version == 0) continue;
    used.insert(program_.inputs[static_cast<size_t>(storage.placeholder)].target);
  }
  for (const pt2::InputSpec& spec : program_.inputs) {
    const auto stored = model_.tensors.find(spec.target);
    if (stored == model_.tensors.end() || used.contains(spec.target)) continue;
    result_.unused_weights.push_back({spec.target, bytes_of(stored->second)});
  }
  return std::move(result_);
}

Result<ImportedModel> import_program(const pt2::Archive& archive, const pt2::Model& model,
                                     const ImportOptions& options) {
  return Importer(archive, model, options).run();
}

Result<ImportedModel> import_pt2(const std::string& path, const ImportOptions& options) {
  DH_ASSIGN(const pt2::Archive archive, pt2::read_pt2(path));
  DH_ASSIGN(const pt2::Model* model, archive.model(options.model));
  auto imported = import_program(archive, *model, options);
  if (!imported.ok()) {
    return std::move(imported).status().with_context(cat("while reading '", printable(path), "'"));
  }
  return imported;
}

std::vector<std::string> supported_overloads() {
  const std::vector<std::string_view> names = all_overloads();
  return {names.begin(), names.end()};
}

}  // namespace downhaul::aten
