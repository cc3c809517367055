#include "dialects/edge/raise_program.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "base/checked.h"
#include "base/strings.h"
#include "dialects/edge/call.h"
#include "dialects/edge/node_names.h"
#include "dialects/edge/signature.h"
#include "dialects/edge/size_arithmetic.h"
#include "dialects/xnn/raise.h"
#include "formats/xnn/xnn.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

std::optional<DType> dtype_of(pte::ScalarType type) {
  switch (type) {
    case pte::ScalarType::kBool:
      return DType::kBool;
    case pte::ScalarType::kByte:
      return DType::kU8;
    case pte::ScalarType::kChar:
      return DType::kI8;
    case pte::ScalarType::kShort:
      return DType::kI16;
    case pte::ScalarType::kInt:
      return DType::kI32;
    case pte::ScalarType::kLong:
      return DType::kI64;
    case pte::ScalarType::kHalf:
      return DType::kF16;
    case pte::ScalarType::kBFloat16:
      return DType::kBF16;
    case pte::ScalarType::kFloat:
      return DType::kF32;
    case pte::ScalarType::kDouble:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

/// Overwrites a tensor; stock programs do that to their states, at the end of a run.
constexpr std::string_view kCopyKernel = "aten::copy_";

bool is_contiguous(const pte::Tensor& t) {
  for (size_t i = 0; i < t.dim_order.size(); ++i)
    if (t.dim_order[i] != i) return false;
  return true;
}

/// What planned memory holds: which value was written to which bytes last.
class Memory {
 public:
  struct Entry {
    uint64_t end;
    Value* value;
  };

  void write(const pte::Allocation& at, uint64_t bytes, Value* value) {
    auto& entries = buffers_[at.memory_id];
    if (bytes == 0) return;
    auto it = entries.upper_bound(at.offset);
    if (it != entries.begin() && std::prev(it)->second.end > at.offset) --it;
    while (it != entries.end() && it->first < at.offset + bytes) it = entries.erase(it);
    entries[at.offset] = {at.offset + bytes, value};
  }

  /// The value that occupies exactly these bytes, or null.
  Value* read(const pte::Allocation& at, uint64_t bytes) const {
    const auto buffer = buffers_.find(at.memory_id);
    if (buffer == buffers_.end()) return nullptr;
    const auto it = buffer->second.find(at.offset);
    if (it == buffer->second.end() || it->second.end != at.offset + bytes) return nullptr;
    return it->second.value;
  }

 private:
  std::map<uint32_t, std::map<uint64_t, Entry>> buffers_;
};

/// The n-th dimension with this upper bound of a dynamic input.
using BoundKey = std::pair<int64_t, int>;

/// Dimensions of dynamic inputs that may vary. The file gives upper bounds only. Bounds that are
/// equal are taken to be the same size, the n-th of a tensor with the n-th of another: models share
/// sizes between their inputs.
std::set<BoundKey> varying_dimensions(const pte::Plan& plan) {
  std::set<BoundKey> keys;
  for (const int32_t id : plan.inputs) {
    const auto* t = std::get_if<pte::Tensor>(&plan.values[static_cast<size_t>(id)]);
    if (t == nullptr || t->dynamism == pte::Dynamism::kStatic) continue;
    std::map<int64_t, int> seen;
    for (const int32_t bound : t->sizes)
      if (bound > 1) keys.insert({bound, seen[bound]++});
  }
  return keys;
}

/// Shapes of inputs, by position, where the file states them.
using StatedShapes = std::vector<std::optional<Shape>>;

/// What the file states about its dynamic inputs, when it fits the bounds of its tensors.
std::optional<StatedShapes> stated_shapes(const pte::Plan& plan) {
  auto stated = edge::decode_input_shapes(plan.encoded_inputs, plan.inputs.size());
  if (!stated.has_value()) return std::nullopt;
  for (size_t i = 0; i < stated->size(); ++i) {
    const auto* t = std::get_if<pte::Tensor>(&plan.values[static_cast<size_t>(plan.inputs[i])]);
    if (t == nullptr) return std::nullopt;
    const std::optional<Shape>& shape = (*stated)[i];
    if (shape.has_value() != (t->dynamism != pte::Dynamism::kStatic)) return std::nullopt;
    if (!shape.has_value()) continue;
    if (!std::equal(shape->begin(), shape->end(), t->sizes.begin(), t->sizes.end(),
                    [](const Dim& d, int32_t bound) { return d.min() >= 0 && d.max() == bound; }))
      return std::nullopt;
  }
  return stated;
}

class ProgramRaiser {
 public:
  /// `varying`: which dimensions of dynamic inputs become symbols; the others have their bound.
  /// `stated`: shapes of inputs that the file gives itself, with symbols of their own.
  ProgramRaiser(const PteFile& file, const pte::Plan& plan, const std::set<BoundKey>& varying,
                const StatedShapes& stated = {})
      : file_(file),
        plan_(plan),
        varying_(varying),
        stated_(stated),
        values_(plan.values.size()),
        view_of_(plan.values.size()),
        sizes_(plan.values.size()) {}

  Result<RaisedProgram> run() {
    DH_TRY(refuse_unknown());
    out_.graph = std::make_unique<Graph>();
    out_.graph->name = printable(plan_.name);
    if (const auto text = file_.find_named_data(edge::kNodesKey)) {
      names_ = edge::read_node_names({reinterpret_cast<const char*>(text->data()), text->size()});
      out_.graph->origins = names_.origins;
    }
    DH_TRY(add_inputs());
    DH_TRY(add_states());
    const auto& instructions = plan_.chains.front().instructions;
    for (size_t i = 0; i < instructions.size(); ++i) {
      Status status = instruction(instructions[i], static_cast<int>(i));
      if (!status.ok()) return std::move(status).with_context(cat("instruction ", i));
    }
    const auto names = edge::decode_output_names(plan_.encoded_outputs, plan_.outputs.size());
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      Builder b(*out_.graph, nullptr);
      Result<Value*> value = tensor(plan_.outputs[i], b);
      if (!value.ok()) return std::move(value).status().with_context(cat("output ", i));
      out_.graph->add_output(*value, names ? (*names)[i] : cat("output_", i));
    }
    for (const auto& [id, state] : states_) {
      const auto& t = *as<pte::Tensor>(id);
      Value* left = memory_.read(*t.allocation, pte::tensor_bytes(t).value_or(0));
      if (left == nullptr || left == state) continue;
      if (!(left->type() == state->type()))
        return unsupported(cat("value ", id, ": a state whose memory is reused"));
      out_.graph->set_state_update(state, left);
    }
    return std::move(out_);
  }

 private:
  Graph& graph() { return *out_.graph; }

  template <typename T>
  const T* as(int32_t id) const {
    return std::get_if<T>(&plan_.values[static_cast<size_t>(id)]);
  }

  /// All names that cannot be raised, at once.
  Status refuse_unknown() const {
    std::set<std::string> unknown;
    for (const pte::Instruction& instruction : plan_.chains.front().instructions) {
      if (const auto* call = std::get_if<pte::KernelCall>(&instruction)) {
        const std::string name = operator_name(*call);
        if (!edge::is_known_kernel(name) && !edge::is_size_arithmetic(name) && name != kCopyKernel)
          unknown.insert(printable(name));
      } else if (const auto* delegate = std::get_if<pte::DelegateCall>(&instruction)) {
        const std::string& id = plan_.delegates[static_cast<size_t>(delegate->delegate_index)].id;
        if (id != "XnnpackBackend") unknown.insert(cat("backend ", printable(id)));
      } else if (std::holds_alternative<pte::JumpFalseCall>(instruction)) {
        return unsupported(
            "the program branches (a jump instruction); a graph has no control flow");
      }
    }
    if (plan_.chains.size() > 1) unknown.insert("more than one chain");
    if (unknown.empty()) return {};
    return unsupported(cat("no graph operator for ", join(unknown, ", ")));
  }

  Status add_inputs() {
    std::map<BoundKey, SymbolPtr> symbols;
    const auto names = edge::decode_input_names(plan_.encoded_inputs, plan_.inputs.size());
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const int32_t id = plan_.inputs[i];
      const auto* t = as<pte::Tensor>(id);
      if (t == nullptr)
        return unsupported(cat("input ", i, " is ",
                               kind_name(plan_.values[static_cast<size_t>(id)]),
                               ", expected Tensor"));
      DH_ASSIGN(TensorType type, static_type(*t));
      if (i < stated_.size() && stated_[i].has_value()) {
        type.shape = *stated_[i];
      } else if (t->dynamism != pte::Dynamism::kStatic) {
        std::map<int64_t, int> seen;
        for (Dim& d : type.shape) {
          const int64_t bound = d.value();
          if (bound <= 1) continue;
          const BoundKey key{bound, seen[bound]++};
          if (!varying_.contains(key)) continue;
          SymbolPtr& symbol = symbols[key];
          if (symbol == nullptr)
            symbol = std::make_shared<Symbol>(
                Symbol{.name = cat("s", symbols.size() - 1), .min = 1, .max = bound});
          d = Dim(symbol);
        }
      }
      Value* v = graph().add_input(names ? (*names)[i] : cat("input_", i), std::move(type));
      write(id, v);
    }
    return {};
  }

  /// Tensors whose memory has an initial content: a run finds there what the one before it left.
  Status add_states() {
    for (const pte::Instruction& instruction : plan_.chains.front().instructions) {
      const auto* call = std::get_if<pte::KernelCall>(&instruction);
      if (call != nullptr && !call->args.empty() && operator_name(*call) == kCopyKernel)
        overwritten_.insert(call->args[0]);
    }
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const auto* t = as<pte::Tensor>(id);
      if (t == nullptr || !t->allocation.has_value() || t->data_index == 0) continue;
      const auto range = file_.data_range(*t);
      if (!range.has_value()) return invalid_file(cat("value ", id, ": no initial content"));
      DH_ASSIGN(Tensor initial, data_of(*t, *range));
      write(id, add_state(id, std::move(initial)));
    }
    return {};
  }

  Value* add_state(int32_t id, Tensor initial) {
    return states_[id] = graph().add_state(cat("state_", id), std::move(initial));
  }

  std::string operator_name(const pte::KernelCall& call) const {
    return plan_.operators[static_cast<size_t>(call.op_index)].full_name();
  }

  static Result<TensorType> static_type(const pte::Tensor& t) {
    const std::optional<DType> dtype = dtype_of(t.dtype);
    if (!dtype.has_value()) return unsupported(cat("a tensor of ", pte::scalar_name(t.dtype)));
    TensorType type{*dtype, {}};
    for (const int32_t size : t.sizes) type.shape.emplace_back(size);
    return type;
  }

  // --- tensors

  void write(int32_t id, Value* value) {
    values_[static_cast<size_t>(id)] = value;
    view_of_[static_cast<size_t>(id)] = nullptr;
    const auto& t = *as<pte::Tensor>(id);
    if (t.allocation.has_value())
      memory_.write(*t.allocation, pte::tensor_bytes(t).value_or(0), value);
  }

  Result<Tensor> data_of(const pte::Tensor& t, const pte::ByteRange& range) {
    DH_ASSIGN(const TensorType type, static_type(t));
    const Sizes sizes = static_sizes(type.shape);
    const auto key = std::pair(range.offset, range.size);
    std::shared_ptr<Storage>& storage = storages_[key];
    if (storage == nullptr) storage = Storage::map(file_.file, range.offset, range.size);
    if (is_contiguous(t)) return Tensor(type.dtype, sizes, storage, 0);
    std::vector<int64_t> strides(sizes.size());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[t.dim_order[i]] = stride;
      stride *= sizes[t.dim_order[i]];
    }
    return strided_tensor(type.dtype, sizes, strides, 0, storage);
  }

  Result<Value*> constant(int32_t id, const pte::Tensor& t, const pte::ByteRange& range) {
    Value*& value = constants_[id];
    if (value == nullptr) {
      DH_ASSIGN(Tensor data, data_of(t, range));
      value = graph().add_constant(std::move(data), cat("c", id));
    }
    return value;
  }

  /// The value that a tensor holds now. Views of static shape have no instruction: they show as
  /// another tensor over the same bytes.
  Result<Value*> tensor(int32_t id, Builder& b) {
    const auto* t = as<pte::Tensor>(id);
    if (t == nullptr)
      return invalid_file(cat("value ", id, " is ",
                              kind_name(plan_.values[static_cast<size_t>(id)]),
                              ", expected Tensor"));
    if (!t->external_name.empty())
      return unsupported(
          cat("value ", id, ": data in another file ('", printable(t->external_name), "')"));
    if (!t->allocation.has_value()) {
      if (const auto range = file_.data_range(*t)) return constant(id, *t, *range);
      if (Value* v = values_[static_cast<size_t>(id)]) return v;
      return invalid_file(cat("value ", id, " is read before anything wrote it"));
    }
    const uint64_t bytes = pte::tensor_bytes(*t).value_or(0);
    Value* own = values_[static_cast<size_t>(id)];
    if (bytes == 0) {  // no bytes to follow, and nothing to read
      if (own != nullptr) return own;
      DH_ASSIGN(const TensorType type, static_type(*t));
      return values_[static_cast<size_t>(id)] =
                 graph().add_constant(Tensor(type.dtype, static_sizes(type.shape)), cat("c", id));
    }
    Value* v = memory_.read(*t->allocation, bytes);
    // Stock lowering leaves a buffer's initial content out unless it is asked for it: then it is
    // whatever the runtime's memory holds, zeros in practice. Such a buffer is read before anything
    // wrote it, and overwritten in the end.
    if (v == nullptr && overwritten_.contains(id)) {
      DH_ASSIGN(const TensorType type, static_type(*t));
      v = add_state(id, Tensor(type.dtype, static_sizes(type.shape)));
      write(id, v);
      return v;
    }
    if (v == nullptr) return invalid_file(cat("value ", id, " is read before anything wrote it"));
    if (v == own || (own != nullptr && view_of_[static_cast<size_t>(id)] == v)) return own;
    DH_ASSIGN(TensorType type, static_type(*t));
    if (type.dtype != v->dtype() || type.shape == v->shape()) {
      if (type.dtype == v->dtype()) return v;
      return invalid_file(cat("value ", id, " of ", name(type.dtype), " is read where a ",
                              name(v->dtype()), " was written"));
    }
    if (!v->type().is_static())
      return unsupported(cat("value ", id, ": a view of a tensor with dynamic sizes"));
    Value* view = b.op(ops::kReshape, {v}, {{"shape", type.shape}});
    DH_TRY(b.status());
    values_[static_cast<size_t>(id)] = view;
    view_of_[static_cast<size_t>(id)] = v;
    return view;
  }

  // --- instructions

  Status instruction(const pte::Instruction& instruction, int index) {
    if (const auto* call = std::get_if<pte::KernelCall>(&instruction)) return kernel(*call, index);
    if (const auto* call = std::get_if<pte::DelegateCall>(&instruction))
      return delegate(*call, index);
    if (const auto* move = std::get_if<pte::MoveCall>(&instruction)) {
      if (as<pte::Tensor>(move->from) != nullptr && as<pte::Tensor>(move->to) != nullptr) {
        Builder b(graph(), nullptr);
        DH_ASSIGN(Value * v, tensor(move->from, b));
        write(move->to, v);
      } else {
        sizes_[static_cast<size_t>(move->to)] = size_or_constant(move->from);
      }
    }
    return {};  // a FreeCall gives memory back: nothing to compute
  }

  std::optional<Dim> size_or_constant(int32_t id) const {
    if (unknown_sizes_.contains(id)) return std::nullopt;
    if (const auto& d = sizes_[static_cast<size_t>(id)]) return d;
    if (const auto* v = as<pte::Int>(id)) return Dim(v->value);
    if (const auto* v = as<pte::Bool>(id)) return Dim(v->value ? 1 : 0);
    return std::nullopt;
  }

  Status arithmetic(const std::string& name, const std::vector<int32_t>& args, Builder& b) {
    if (name == "aten::sym_size.int" || name == "aten::sym_numel") {
      if (args.size() < 2) return invalid_file(cat(name, ": ", args.size(), " arguments"));
      // Sizes stay with the tensor when its memory has been taken over.
      const Value* v =
          as<pte::Tensor>(args[0]) != nullptr ? values_[static_cast<size_t>(args[0])] : nullptr;
      if (v == nullptr) {
        DH_ASSIGN(v, tensor(args[0], b));
      }
      if (name == "aten::sym_numel") {
        sizes_[static_cast<size_t>(args[1])] = num_elements(v->shape());
        return {};
      }
      const auto d = size_or_constant(args[1]);
      if (!d.has_value() || !d->is_static() || args.size() < 3)
        return invalid_file(cat(name, ": dimension is no constant"));
      const int64_t axis = d->value() < 0 ? d->value() + v->rank() : d->value();
      if (axis < 0 || axis >= v->rank())
        return invalid_file(cat(name, ": dimension ", d->value(), " of ", v->type().str()));
      sizes_[static_cast<size_t>(args[2])] = v->dim(axis);
      return {};
    }
    if (args.empty()) return invalid_file(cat(name, ": no arguments"));
    std::vector<Dim> operands;
    std::optional<Dim> result;
    for (size_t i = 0; i + 1 < args.size(); ++i)
      if (const auto d = size_or_constant(args[i])) operands.push_back(*d);
    if (operands.size() + 1 == args.size()) {
      DH_ASSIGN(result, edge::compute_size(name, operands));
    }
    sizes_[static_cast<size_t>(args.back())] = result;
    if (!result.has_value()) unknown_sizes_.insert(args.back());
    return {};
  }

  Result<edge::Arg> argument(int32_t id, Builder& b) {
    if (id < 0) return edge::Arg();
    const pte::Value& value = plan_.values[static_cast<size_t>(id)];
    if (unknown_sizes_.contains(id))
      return unsupported(cat("value ", id,
                             " is computed, but not an integer that follows from "
                             "sizes"));
    if (const auto& d = sizes_[static_cast<size_t>(id)]) return edge::Arg(*d);
    if (std::holds_alternative<pte::Tensor>(value)) {
      DH_ASSIGN(Value * v, tensor(id, b));
      return edge::Arg(v);
    }
    if (const auto* v = std::get_if<pte::Int>(&value)) return edge::Arg(Dim(v->value));
    if (const auto* v = std::get_if<pte::Bool>(&value)) return edge::Arg(v->value);
    if (const auto* v = std::get_if<pte::Double>(&value)) return edge::Arg(v->value);
    if (const auto* v = std::get_if<pte::String>(&value)) return edge::Arg(v->value);
    if (const auto* v = std::get_if<pte::DoubleList>(&value)) return edge::Arg(v->items);
    if (const auto* v = std::get_if<pte::BoolList>(&value))
      return edge::Arg(Dims(v->items.begin(), v->items.end()));
    if (const auto* v = std::get_if<pte::IntList>(&value)) {
      Dims dims;
      for (const int64_t item : v->items) {
        const auto d = size_or_constant(static_cast<int32_t>(item));
        if (!d.has_value()) return invalid_file(cat("value ", item, " in a list is no integer"));
        dims.push_back(*d);
      }
      return edge::Arg(std::move(dims));
    }
    const auto list = [&](const std::vector<int32_t>& items, bool optional) -> Result<edge::Arg> {
      edge::TensorList out{.values = {}, .optional = optional};
      for (const int32_t item : items) {
        if (optional && (item < 0 || as<pte::Null>(item) != nullptr)) {
          out.values.push_back(nullptr);
          continue;
        }
        DH_ASSIGN(Value * v, tensor(item, b));
        out.values.push_back(v);
      }
      return edge::Arg(std::move(out));
    };
    if (const auto* v = std::get_if<pte::TensorList>(&value)) return list(v->items, false);
    if (const auto* v = std::get_if<pte::OptionalTensorList>(&value)) return list(v->items, true);
    return edge::Arg();
  }

  Status kernel(const pte::KernelCall& call, int index) {
    const std::string name = operator_name(call);
    Builder b(graph(), nullptr);
    if (edge::is_size_arithmetic(name)) return arithmetic(name, call.args, b);
    const auto origins = names_.of_instruction.find(index);
    if (origins != names_.of_instruction.end()) b.set_origins(origins->second);

    if (name == kCopyKernel) return overwrite(call, index, b);
    // Arguments, outputs, and for all but executorch_prim the return value.
    edge::KernelCall raised{.kernel = name, .args = {}, .outs = {}};
    const bool prim = name.starts_with("executorch_prim::");
    size_t count = call.args.size();
    const int outputs = edge::num_outputs(name);
    const size_t tail = static_cast<size_t>(std::max(outputs, 1)) + (prim ? 0 : 1);
    if (count < tail) return invalid_file(cat(name, ": ", count, " arguments"));
    count -= tail;
    std::vector<int32_t> outs;
    if (outputs == edge::kListOutput) {
      const auto* list = as<pte::TensorList>(call.args[count]);
      if (list == nullptr) return invalid_file(cat(name, ": its output is no list of tensors"));
      outs = list->items;
    } else {
      outs.assign(call.args.begin() + static_cast<std::ptrdiff_t>(count),
                  call.args.begin() + static_cast<std::ptrdiff_t>(count) + outputs);
    }
    for (size_t i = 0; i < count; ++i) {
      DH_ASSIGN(edge::Arg arg, argument(call.args[i], b));
      raised.args.push_back(std::move(arg));
    }
    for (const int32_t id : outs) {
      const auto* t = as<pte::Tensor>(id);
      if (t == nullptr) return invalid_file(cat(name, ": output value ", id, " is no tensor"));
      DH_ASSIGN(TensorType type, static_type(*t));
      raised.outs.push_back(std::move(type));
    }
    DH_ASSIGN(const std::vector<Value*> results, edge::raise_call(raised, b));
    for (size_t i = 0; i < outs.size(); ++i) {
      Value* v = results[i];
      if (v == nullptr) continue;
      DH_ASSIGN(v, fit(v, *as<pte::Tensor>(outs[i]), raised.outs[i], b));
      write(outs[i], v);
    }
    note(b, {.instruction = index, .delegate = -1});
    return {};
  }

  /// copy_(self, src, non_blocking) and its result, which is self.
  Status overwrite(const pte::KernelCall& call, int index, Builder& b) {
    const auto* to = call.args.size() < 2 ? nullptr : as<pte::Tensor>(call.args[0]);
    if (to == nullptr) return invalid_file(cat(kCopyKernel, ": what it writes is no tensor"));
    DH_ASSIGN(Value * v, tensor(call.args[1], b));
    DH_ASSIGN(const TensorType type, static_type(*to));
    if (v->shape() != type.shape && to->dynamism == pte::Dynamism::kStatic)
      v = b.op(ops::kExpand, {v}, {{"size", Dims(type.shape)}});
    DH_TRY(b.status());
    DH_ASSIGN(v, fit(v, *to, type, b));
    write(call.args[0], v);
    note(b, {.instruction = index, .delegate = -1});
    return {};
  }

  /// The result as the output tensor declares it: kernels convert when they store.
  Result<Value*> fit(Value* v, const pte::Tensor& t, const TensorType& type, Builder& b) {
    if (v->dtype() != type.dtype) v = b.op(ops::kCast, {v}, {{"dtype", type.dtype}});
    DH_TRY(b.status());
    const bool fits = v->rank() == type.rank() &&
                      std::equal(v->shape().begin(), v->shape().end(), type.shape.begin(),
                                 [&](const Dim& a, const Dim& bound) {
                                   return t.dynamism == pte::Dynamism::kStatic
                                              ? a == bound
                                              : a.min() <= bound.max();
                                 });
    if (!fits)
      return invalid_file(
          cat("the output is ", type.str(), ", the kernel gives ", v->type().str()));
    return v;
  }

  Status delegate(const pte::DelegateCall& call, int index) {
    const auto number = static_cast<size_t>(call.delegate_index);
    const pte::Delegate& delegate = plan_.delegates[number];
    const auto lookup = [&](std::string_view key) { return file_.find_named_data(key); };
    Result<XnnGraph> payload = read_xnn_payload(file_.payload(delegate), lookup);
    if (!payload.ok()) return std::move(payload).status().with_context(cat("delegate ", number));
    const size_t inputs = payload->input_ids.size(), outputs = payload->output_ids.size();
    if (call.args.size() != inputs + outputs)
      return invalid_file(cat("delegate ", number, " is called with ", call.args.size(),
                              " arguments, its payload has ", inputs + outputs));
    Builder b(graph(), nullptr);
    std::vector<Value*> values;
    for (size_t i = 0; i < inputs; ++i) {
      DH_ASSIGN(Value * v, tensor(call.args[i], b));
      values.push_back(v);
    }
    const auto tensors = [&](std::string_view key) { return named_tensor(key); };
    Result<std::vector<Value*>> results = raise_xnn_payload(*payload, tensors, values, b);
    if (!results.ok()) return std::move(results).status().with_context(cat("delegate ", number));
    for (size_t i = 0; i < outputs; ++i) {
      const int32_t id = call.args[inputs + i];
      const auto* t = as<pte::Tensor>(id);
      if (t == nullptr) return invalid_file(cat("output value ", id, " is no tensor"));
      DH_ASSIGN(TensorType type, static_type(*t));
      Value* v = (*results)[i];
      // Rank 0 is written as [1] inside a payload.
      if (v->rank() != type.rank() && v->type().is_static() &&
          num_elements(v->shape()) == num_elements(type.shape))
        v = b.op(ops::kReshape, {v}, {{"shape", type.shape}});
      DH_ASSIGN(v, fit(v, *t, type, b));
      write(id, v);
    }
    note(b, {.instruction = index, .delegate = call.delegate_index});
    return {};
  }

  /// The bytes of a named blob as u8 [n], in the storage that all users of these bytes share.
  std::optional<Tensor> named_tensor(std::string_view key) {
    for (const PteNamedData& named : file_.named_data) {
      if (named.key != key) continue;
      std::shared_ptr<Storage>& storage = storages_[{named.range.offset, named.range.size}];
      if (storage == nullptr)
        storage = Storage::map(file_.file, named.range.offset, named.range.size);
      return Tensor(DType::kU8, {static_cast<int64_t>(named.range.size)}, storage, 0);
    }
    return std::nullopt;
  }

  void note(const Builder& b, RaisedFrom from) {
    for (const Node* node : b.created()) out_.sources[node] = from;
  }

  const PteFile& file_;
  const pte::Plan& plan_;
  const std::set<BoundKey> varying_;
  const StatedShapes stated_;
  RaisedProgram out_;
  edge::NodeNames names_;
  std::vector<Value*> values_;             // by id: what was written under this id last
  std::vector<Value*> view_of_;            // by id: what values_[id] is a view of
  std::vector<std::optional<Dim>> sizes_;  // by id: integers that instructions computed
  std::set<int32_t> unknown_sizes_;        // ids that were computed, but not as an integer
  std::map<int32_t, Value*> constants_;    // by id
  std::map<int32_t, Value*> states_;       // by id
  std::set<int32_t> overwritten_;          // ids
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<Storage>> storages_;
  Memory memory_;
};

/// With the sizes that the file states; else the reading with the most varying dimensions that is
/// consistent: shapes fit each other, and tensors that the file calls static have static sizes.
Result<RaisedProgram> raise_plan(const PteFile& file, const pte::Plan& plan) {
  if (const auto stated = stated_shapes(plan)) {
    Result<RaisedProgram> raised = ProgramRaiser(file, plan, {}, *stated).run();
    if (raised.ok()) return raised;
  }
  constexpr size_t kMaxVarying = 6;  // 2^6 attempts
  const std::set<BoundKey> all = varying_dimensions(plan);
  const std::vector<BoundKey> keys(all.begin(), all.end());
  if (keys.size() > kMaxVarying) return ProgramRaiser(file, plan, all).run();
  for (size_t fixed = 0; fixed < keys.size(); ++fixed) {
    for (uint32_t mask = 0; mask < 1u << keys.size(); ++mask) {
      if (static_cast<size_t>(std::popcount(mask)) != fixed) continue;
      std::set<BoundKey> varying;
      for (size_t i = 0; i < keys.size(); ++i)
        if ((mask >> i & 1) == 0) varying.insert(keys[i]);
      Result<RaisedProgram> raised = ProgramRaiser(file, plan, varying).run();
      if (raised.ok()) return raised;
    }
  }
  return ProgramRaiser(file, plan, {}).run();
}

}  // namespace

Result<RaisedProgram> raise_program(const PteFile& file, const RaiseOptions& options) {
  for (const pte::Plan& plan : file.program.plans) {
    if (!options.plan.empty() && plan.name != options.plan) continue;
    Result<RaisedProgram> raised = raise_plan(file, plan);
    if (!raised.ok())
      return std::move(raised).status().with_context(cat("method '", printable(plan.name), "'"));
    return raised;
  }
  return not_found(options.plan.empty() ? "the program has no method"
                                        : cat("no method '", printable(options.plan), "'"));
}

}  // namespace downhaul
