#include "targets/executorch/emit.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"
#include "base/strings.h"
#include "dialects/edge/call.h"
#include "dialects/edge/node_names.h"
#include "dialects/edge/signature.h"
#include "targets/executorch/constants.h"
#include "targets/executorch/values.h"

namespace downhaul {
namespace {

constexpr const char* kViewKernel = "executorch_prim::et_view.default";
constexpr const char* kCopyKernel = "aten::copy_";

/// What happens at one place of the execution order.
struct Step {
  const Node* node = nullptr;  // a kernel call or a view
  int region = -1;             // a delegate call
  edge::KernelCall call;
  bool is_view = false;  // of dynamic shape: an instruction that moves no data
};

class Emitter {
 public:
  Emitter(const Graph& graph, std::span<const DelegatedRegion> regions, const EmitOptions& options)
      : graph_(graph), regions_(regions), options_(options), constants_(out_.builder) {}

  Result<EmittedProgram> run() {
    DH_TRY(check_interface());
    DH_TRY(collect_steps());
    DH_TRY(number_constants_and_inputs());
    for (const Step& step : steps_)
      DH_TRY(step.region >= 0 ? emit_delegate(step) : emit_kernel(step));
    DH_TRY(finish());
    return std::move(out_);
  }

 private:
  pte::Plan& plan() { return out_.program.plans.front(); }
  int next_instruction() const { return static_cast<int>(out_.calls.size()); }

  Status check_interface() const {
    for (const Value* v : graph_.inputs())
      for (const Dim& d : v->shape())
        if (d.max() > INT32_MAX)
          return unsupported(cat("input '", printable(v->name()), "': size ", d.str(),
                                 " has no upper bound that fits 31 bits"));
    return {};
  }

  // --- what is to happen, in order

  Status collect_steps() {
    std::unordered_map<const Node*, int> region_of;
    for (size_t i = 0; i < regions_.size(); ++i)
      for (const Node* node : regions_[i].nodes) region_of[node] = static_cast<int>(i);
    std::map<std::string, std::vector<std::string>> refused;  // reason → nodes
    std::set<int> done;
    for (const auto& owned : graph_.nodes()) {
      const Node* node = owned.get();
      if (const auto found = region_of.find(node); found != region_of.end()) {
        const int region = found->second;
        if (done.contains(region)) {
          if (steps_.empty() || steps_.back().region != region)
            return invalid_graph(cat("delegate ", region, ": node '",
                                     printable(node->result()->name()), "' is not contiguous"));
          continue;
        }
        done.insert(region);
        steps_.push_back({.region = region});
        continue;
      }
      Step step{.node = node};
      if (node->op_name() == "reshape") {
        const Value* self = node->operand(0);
        const Value* result = node->result();
        if (self->type().is_static() && result->type().is_static()) {
          alias_[result] = self;
          continue;
        }
        // An output needs memory of its own: the caller holds on to it.
        if (result->num_output_uses() == 0) {
          step.is_view = true;
          alias_[result] = self;
        }
      }
      Result<edge::KernelCall> call = edge::emit_call(*node);
      if (!call.ok()) {
        refused[call.status().message()].push_back(cat('%', node->result()->name()));
        continue;
      }
      step.call = *std::move(call);
      steps_.push_back(std::move(step));
    }
    if (refused.empty()) return {};
    std::vector<std::string> lines;
    for (const auto& [reason, nodes] : refused)
      lines.push_back(cat(printable(reason), " (",
                          nodes.size() == 1 ? "" : cat(nodes.size(), " nodes, first "),
                          printable(nodes.front()), ")"));
    return unsupported(cat("no kernel: ", join(lines, "; ")));
  }

  /// The value whose memory `v` shares.
  const Value* root(const Value* v) const {
    for (auto it = alias_.find(v); it != alias_.end(); it = alias_.find(v)) v = it->second;
    return v;
  }

  // --- values

  Status number_constants_and_inputs() {
    out_.program.plans.emplace_back();
    plan().name = graph_.name;
    std::vector<std::string> inputs, outputs;
    std::vector<Shape> shapes;
    for (const Value* v : graph_.inputs()) {
      inputs.push_back(v->name());
      shapes.push_back(v->shape());
    }
    for (const Output& o : graph_.outputs()) outputs.push_back(o.name);
    plan().encoded_inputs = edge::encode_inputs(inputs, shapes);
    plan().encoded_outputs = edge::encode_output_names(outputs);
    plan().chains.emplace_back();
    values_.emplace(plan());
    const auto mention = [&](const Value* v) -> Status {
      if (v != nullptr && root(v)->is_constant() && !id_of_.contains(v)) return add_tensor(v);
      return {};
    };
    for (const Step& step : steps_) {
      if (step.region >= 0) {
        for (const Value* v : regions_[static_cast<size_t>(step.region)].inputs) DH_TRY(mention(v));
        continue;
      }
      for (const edge::Arg& arg : step.call.args) {
        if (const auto* v = std::get_if<Value*>(&arg)) DH_TRY(mention(*v));
        if (const auto* list = std::get_if<edge::TensorList>(&arg))
          for (const Value* v : list->values) DH_TRY(mention(v));
      }
    }
    for (const Output& output : graph_.outputs()) DH_TRY(mention(output.value));
    for (const StateUpdate& update : graph_.state_updates()) DH_TRY(mention(update.value));
    for (const Value* v : graph_.inputs()) {
      DH_TRY(add_tensor(v));
      plan().inputs.push_back(id_of_.at(v));
    }
    for (const Value* v : graph_.states()) {
      DH_TRY(add_tensor(v));
      auto& t = std::get<pte::Tensor>(plan().values[static_cast<size_t>(id_of_.at(v))]);
      t.data_index = constants_.add_initial(v->constant(), v->name());
    }
    return {};
  }

  /// The planned block that holds `v`, made when missing.
  size_t block_of(const Value* v, int instruction) {
    const Value* r = root(v);
    const auto [it, added] = block_of_.try_emplace(r, out_.blocks.size());
    if (added) {
      const auto count = checked_num_elements(max_sizes(r->shape()));
      out_.blocks.push_back(
          {.bytes = static_cast<uint64_t>(count.value_or(0)) * item_size(r->dtype()),
           .first = instruction,
           .last = instruction});
    }
    return it->second;
  }

  Status add_tensor(const Value* v, int instruction = -1) {
    DH_ASSIGN(pte::Tensor t, tensor_of(v->type(), v->name()));
    const Value* r = root(v);
    if (r->is_constant()) {
      DH_ASSIGN(t.data_index, constants_.add(r->constant(), r->name()));
      id_of_[v] = values_->add(std::move(t));
      return {};
    }
    const int id = values_->add(std::move(t));
    id_of_[v] = id;
    planned_.push_back({id, block_of(v, instruction)});
    return {};
  }

  /// The id of a tensor that exists; views of static shape get theirs here.
  Result<int32_t> use(const Value* v) {
    if (const auto found = id_of_.find(v); found != id_of_.end()) {
      touch(v);
      return found->second;
    }
    DH_CHECK(alias_.contains(v));
    DH_TRY(add_tensor(v));
    touch(v);
    return id_of_.at(v);
  }

  /// Keeps the memory of `v` until the next instruction.
  void touch(const Value* v) {
    if (root(v)->is_constant()) return;
    PlanBlock& block = out_.blocks[block_of_.at(root(v))];
    block.last = std::max(block.last, next_instruction());
  }

  /// The id of an integer that is constant or follows from the sizes of the inputs.
  Result<int32_t> size_value(const Dim& dim) {
    if (dim.is_static()) return values_->integer(dim.value());
    const std::string key = dim.str();
    if (const auto found = size_of_.find(key); found != size_of_.end()) return found->second;
    Result<int32_t> id = compute_size(dim);
    if (id.ok()) size_of_[key] = *id;
    return id;
  }

  Result<int32_t> compute_size(const Dim& dim) {
    if (dim.terms().size() == 1 && dim.constant_term() == 0 && dim.terms()[0].symbols.size() == 1 &&
        dim.terms()[0].coefficient == 1)
      return symbol_value(dim.terms()[0].symbols[0]);
    std::optional<int32_t> sum;
    for (const Dim::Term& term : dim.terms()) {
      std::optional<int32_t> product;
      for (const SymbolPtr& symbol : term.symbols) {
        DH_ASSIGN(const int32_t factor, size_value(Dim(symbol)));
        product = product.has_value() ? arithmetic("mul.Scalar", *product, factor) : factor;
      }
      if (term.coefficient != 1)
        product = arithmetic("mul.Scalar", *product, values_->integer(term.coefficient));
      sum = sum.has_value() ? arithmetic("add.Scalar", *sum, *product) : *product;
    }
    if (dim.constant_term() != 0)
      sum = arithmetic("add.Scalar", *sum, values_->integer(dim.constant_term()));
    return *sum;
  }

  Result<int32_t> symbol_value(const SymbolPtr& symbol) {
    if (symbol->kind != Symbol::Kind::kFree) {
      DH_ASSIGN(const int32_t a, size_value(symbol->operands[0]));
      DH_ASSIGN(const int32_t b, size_value(symbol->operands[1]));
      switch (symbol->kind) {
        case Symbol::Kind::kFloorDiv:
          return arithmetic("floordiv.Scalar", a, b);
        case Symbol::Kind::kMod:
          return arithmetic("mod.Scalar", a, b);
        case Symbol::Kind::kMin:
          return arithmetic("sym_min.Scalar", a, b);
        case Symbol::Kind::kMax:
          return arithmetic("sym_max.Scalar", a, b);
        case Symbol::Kind::kFree:
          break;
      }
    }
    // The size of an input, or what an input's size is computed from: a * s + b.
    for (const bool exact : {true, false}) {
      for (const Value* v : graph_.inputs()) {
        for (int64_t d = 0; d < v->rank(); ++d) {
          const Dim& size = v->dim(d);
          if (size.terms().size() != 1 || size.terms()[0].symbols.size() != 1 ||
              size.terms()[0].symbols[0]->name != symbol->name)
            continue;
          const bool plain = size.terms()[0].coefficient == 1 && size.constant_term() == 0;
          if (plain != exact) continue;
          int32_t id = size_of_input(v, d);
          if (size.constant_term() != 0)
            id = arithmetic("sub.Scalar", id, values_->integer(size.constant_term()));
          if (size.terms()[0].coefficient != 1)
            id = arithmetic("floordiv.Scalar", id, values_->integer(size.terms()[0].coefficient));
          return id;
        }
      }
    }
    return unsupported(cat("size ", symbol->name, " does not follow from the size of an input"));
  }

  int32_t size_of_input(const Value* v, int64_t d) {
    const int32_t id = values_->add(pte::Int{v->dim(d).max()});
    call_kernel("aten::sym_size.int", {id_of_.at(v), values_->integer(d), id},
                {.purpose = "arithmetic on run-time sizes"});
    return id;
  }

  int32_t arithmetic(const char* op, int32_t a, int32_t b) {
    const int32_t id = values_->add(pte::Int{0});
    call_kernel(cat("executorch_prim::", op), {a, b, id},
                {.purpose = "arithmetic on run-time sizes"});
    return id;
  }

  // --- instructions

  void call_kernel(const std::string& kernel, std::vector<int32_t> args, EmittedCall call) {
    plan().chains[0].instructions.push_back(
        pte::KernelCall{values_->operator_index(kernel), std::move(args)});
    call.name = kernel;
    out_.calls.push_back(std::move(call));
    ++out_.num_kernel_calls;
  }

  /// Size arithmetic that `arg` needs; runs before the instruction that takes it.
  Status prepare_sizes(const edge::Arg& arg) {
    if (const auto* d = std::get_if<Dim>(&arg)) DH_TRY(size_value(*d));
    if (const auto* list = std::get_if<Dims>(&arg))
      for (const Dim& d : *list) DH_TRY(size_value(d));
    return {};
  }

  Result<int32_t> argument(const edge::Arg& arg) {
    if (const auto* v = std::get_if<Value*>(&arg)) return use(*v);
    if (const auto* d = std::get_if<Dim>(&arg)) return size_value(*d);
    if (const auto* f = std::get_if<double>(&arg)) return values_->number(*f);
    if (const auto* b = std::get_if<bool>(&arg)) return values_->flag(*b);
    if (const auto* s = std::get_if<std::string>(&arg)) return values_->text(*s);
    if (const auto* list = std::get_if<Dims>(&arg)) {
      std::vector<int64_t> items;
      for (const Dim& d : *list) {
        DH_ASSIGN(const int32_t id, size_value(d));
        items.push_back(id);
      }
      return values_->int_list(std::move(items));
    }
    if (const auto* list = std::get_if<Floats>(&arg)) return values_->add(pte::DoubleList{*list});
    if (const auto* list = std::get_if<edge::TensorList>(&arg)) {
      std::vector<int32_t> items;
      for (const Value* v : list->values) {
        if (v == nullptr) {
          items.push_back(-1);
          continue;
        }
        DH_ASSIGN(const int32_t id, use(v));
        items.push_back(id);
      }
      return list->optional ? values_->add(pte::OptionalTensorList{std::move(items)})
                            : values_->tensor_list(std::move(items));
    }
    return values_->null();
  }

  Status emit_kernel(const Step& step) {
    for (const edge::Arg& arg : step.call.args) DH_TRY(prepare_sizes(arg));
    std::vector<int32_t> args;
    for (const edge::Arg& arg : step.call.args) {
      DH_ASSIGN(const int32_t id, argument(arg));
      args.push_back(id);
    }
    EmittedCall call{.node = step.node, .origins = step.node->origins()};
    if (step.is_view) {
      // Its memory is that of its operand: neither buffer nor allocation.
      DH_ASSIGN(pte::Tensor t, tensor_of(step.node->result()->type(), step.node->result()->name()));
      const int32_t id = values_->add(std::move(t));
      id_of_[step.node->result()] = id;
      args.push_back(id);
      call_kernel(kViewKernel, std::move(args), std::move(call));
      return {};
    }
    std::vector<int32_t> outs;
    for (size_t i = 0; i < step.call.outs.size(); ++i) {
      if (i < static_cast<size_t>(step.node->num_results())) {
        const Value* result = step.node->result(static_cast<int>(i));
        DH_TRY(add_tensor(result, next_instruction()));
        outs.push_back(id_of_.at(result));
      } else {
        DH_ASSIGN(const int32_t id, add_unused_output(step.call.outs[i]));
        outs.push_back(id);
      }
    }
    args.insert(args.end(), outs.begin(), outs.end());
    args.push_back(outs.size() == 1 ? outs[0] : values_->tensor_list(outs));
    call_kernel(step.call.kernel, std::move(args), std::move(call));
    return {};
  }

  /// An output of a kernel that nobody reads still needs memory during the call.
  Result<int32_t> add_unused_output(const TensorType& type) {
    DH_ASSIGN(pte::Tensor t, tensor_of(type, "unused output"));
    const uint64_t bytes = pte::tensor_bytes(t).value_or(0);
    const int32_t id = values_->add(std::move(t));
    planned_.push_back({id, out_.blocks.size()});
    out_.blocks.push_back({bytes, next_instruction(), next_instruction()});
    return id;
  }

  Status emit_delegate(const Step& step) {
    const DelegatedRegion& region = regions_[static_cast<size_t>(step.region)];
    std::vector<int32_t> args;
    for (const Value* v : region.inputs) {
      DH_ASSIGN(const int32_t id, use(v));
      args.push_back(id);
    }
    for (const Value* v : region.outputs) {
      DH_TRY(add_tensor(v, next_instruction()));
      args.push_back(id_of_.at(v));
    }
    const uint32_t payload = out_.builder.add_payload(Blob::owned(region.payload));
    const std::string owner = cat("delegate ", plan().delegates.size());
    if (payload >= out_.payload_owners.size()) out_.payload_owners.resize(payload + 1);
    std::string& owners = out_.payload_owners[payload];
    owners += owners.empty() ? owner : ", " + owner;
    for (const NamedBlob& blob : region.blobs) DH_TRY(constants_.add_named(blob.key, blob.data));

    EmittedCall call{.name = region.backend, .region = step.region};
    std::set<int> origins;
    for (const Node* node : region.nodes)
      origins.insert(node->origins().begin(), node->origins().end());
    call.origins.assign(origins.begin(), origins.end());
    plan().chains[0].instructions.push_back(
        pte::DelegateCall{static_cast<int32_t>(plan().delegates.size()), std::move(args)});
    plan().delegates.push_back({.id = region.backend, .payload = payload, .compile_specs = {}});
    out_.calls.push_back(std::move(call));
    ++out_.num_delegate_calls;
    return {};
  }

  // --- the end

  bool is_updated_state(const Value* v) const {
    return std::any_of(graph_.state_updates().begin(), graph_.state_updates().end(),
                       [&](const StateUpdate& u) { return u.state == v && u.value != v; });
  }

  void copy(int32_t to, int32_t from) {
    call_kernel(kCopyKernel, {to, from, values_->flag(false), to},
                {.purpose = "keeps a state's content for the next run"});
  }

  /// The id of a tensor that holds `v` also after the states have their new contents.
  Result<int32_t> use_to_the_end(const Value* v) {
    DH_ASSIGN(int32_t id, use(v));
    if (is_updated_state(root(v))) {
      DH_ASSIGN(const int32_t kept, add_unused_output(v->type()));
      copy(kept, id);
      id = kept;
    }
    until_end_.insert(id);
    return id;
  }

  Status emit_outputs_and_updates() {
    for (const Output& output : graph_.outputs()) {
      DH_ASSIGN(const int32_t id, use_to_the_end(output.value));
      plan().outputs.push_back(id);
    }
    // When nothing reads the old contents any more. A new content may be another state's old one.
    std::vector<std::pair<int32_t, int32_t>> copies;
    for (const auto& [state, value] : graph_.state_updates()) {
      if (root(value) == state) continue;
      DH_ASSIGN(const int32_t id, use_to_the_end(value));
      copies.emplace_back(id_of_.at(state), id);
    }
    for (const auto& [to, from] : copies) copy(to, from);
    for (const Value* state : graph_.states()) until_end_.insert(id_of_.at(state));
    for (const auto& [id, block] : planned_)
      if (until_end_.contains(id)) out_.blocks[block].last = next_instruction();
    return {};
  }

  Status finish() {
    DH_TRY(emit_outputs_and_updates());
    out_.plan = plan_memory(out_.blocks);
    DH_TRY(check_plan(out_.blocks, out_.plan));
    for (const auto& [id, block] : planned_) {
      auto& t = std::get<pte::Tensor>(plan().values[static_cast<size_t>(id)]);
      t.allocation = pte::Allocation{.memory_id = 1, .offset = out_.plan.offsets[block]};
    }
    plan().non_const_buffer_sizes = {0, static_cast<int64_t>(out_.plan.arena_bytes)};

    if (options_.embed_nodes) embed_nodes();
    constants_.take_owners(out_);
    return {};
  }

  void embed_nodes() {
    edge::NodeNames names{.origins = graph_.origins, .of_instruction = {}};
    for (size_t i = 0; i < out_.calls.size(); ++i) {
      const EmittedCall& call = out_.calls[i];
      // Nodes of a delegate have handles of their own.
      if (call.region < 0) names.of_instruction[static_cast<int>(i)] = call.origins;
    }
    const std::string text = edge::write_node_names(names);
    const auto bytes = as_bytes(text);
    out_.builder.add_named_data(edge::kNodesKey,
                                Blob::owned(std::vector<uint8_t>(bytes.begin(), bytes.end())));
  }

  static Result<pte::Tensor> tensor_of(const TensorType& type, std::string_view name) {
    pte::Tensor t;
    for (const Dim& d : type.shape) {
      const int64_t size = d.max();
      if (size > INT32_MAX)
        return unsupported(cat("'", printable(name), "': size ", d.str(), " does not fit 31 bits"));
      t.sizes.push_back(static_cast<int32_t>(size));
    }
    if (t.sizes.size() > 16)
      return unsupported(cat("'", printable(name), "': rank ", t.sizes.size(), ", at most 16"));
    for (size_t i = 0; i < t.sizes.size(); ++i) t.dim_order.push_back(static_cast<uint8_t>(i));
    t.dtype = scalar_type(type.dtype);
    t.dynamism = type.is_static() ? pte::Dynamism::kStatic : pte::Dynamism::kDynamicBound;
    return t;
  }

  struct Planned {
    int32_t id;
    size_t block;
  };

  const Graph& graph_;
  std::span<const DelegatedRegion> regions_;
  const EmitOptions& options_;
  EmittedProgram out_;
  ConstantWriter constants_;
  std::optional<ValueTable> values_;
  std::vector<Step> steps_;
  std::unordered_map<const Value*, const Value*> alias_;
  std::unordered_map<const Value*, int32_t> id_of_;
  std::unordered_map<const Value*, size_t> block_of_;  // of roots
  std::vector<Planned> planned_;
  std::set<int32_t> until_end_;             // ids whose memory outlives the last instruction
  std::map<std::string, int32_t> size_of_;  // computed sizes, by their text
};

}  // namespace

Result<EmittedProgram> emit_program(const Graph& graph, std::span<const DelegatedRegion> regions,
                                    const EmitOptions& options) {
  return Emitter(graph, regions, options).run();
}

}  // namespace downhaul
