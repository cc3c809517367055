// A program over s tokens becomes one over n new ones.
//
// Every value that depends on the tokens is either kRows, one row per token along a dimension of
// size s, or kLast, what the last token alone needs. The incremental graph computes rows
// [position, position + n) of the former. That is right when row i depends on tokens 0 … i only.
// OpDef::axes shows it for all operators that map the row of each such operand to the row of the
// result; attention needs the earlier rows of its keys and values, which are kept in states, and
// must not look ahead.
//
// What depends on sizes alone (masks, tables of positions) is kTable. A table whose dimensions of
// size s are prefixes of those at the largest s is computed once, there, and read by rows. Masks
// are looked at number by number: one that only says what causality says is dropped.
#include "passes/decode/incremental.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/strings.h"
#include "ops/cached.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

/// Sequences and tables above these are not worth the memory.
constexpr int64_t kMaxLength = int64_t{1} << 20;
constexpr int64_t kMaxTable = int64_t{1} << 26;
/// A number added to a score that is as good as minus infinity: exponentials of differences below
/// -104 are 0 in f32, and scores do not come near ten thousand.
constexpr double kNever = -1e4;

using Substitution = std::map<std::string, Dim, std::less<>>;

Dim substitute(const Dim& dim, const Substitution& by);

Dim substitute(const SymbolPtr& symbol, const Substitution& by) {
  if (symbol->kind == Symbol::Kind::kFree) {
    const auto found = by.find(symbol->name);
    return found == by.end() ? Dim(symbol) : found->second;
  }
  const Dim a = substitute(symbol->operands[0], by);
  const Dim b = substitute(symbol->operands[1], by);
  switch (symbol->kind) {
    case Symbol::Kind::kFloorDiv:
      return floor_div(a, b);
    case Symbol::Kind::kMod:
      return mod(a, b);
    case Symbol::Kind::kMin:
      return min(a, b);
    default:
      return max(a, b);
  }
}

Dim substitute(const Dim& dim, const Substitution& by) {
  Dim out(dim.constant_term());
  for (const Dim::Term& term : dim.terms()) {
    Dim product(term.coefficient);
    for (const SymbolPtr& symbol : term.symbols) product = product * substitute(symbol, by);
    out = out + product;
  }
  return out;
}

struct Sequence {
  SymbolPtr length;  // s
  int64_t axis = 0;
  std::vector<SymbolPtr> ones;  // batch sizes, taken as 1
};

Result<Sequence> find_sequence(const Graph& graph) {
  if (graph.inputs().size() != 1) {
    return unsupported(
        cat("expected token ids as the only input, found ", graph.inputs().size(), " inputs"));
  }
  if (!graph.states().empty()) return unsupported("the model keeps state of its own");
  const Value& input = *graph.inputs()[0];
  Sequence out;
  const auto what = [&] { return cat("input ", input.name(), ": ", input.type().str()); };
  if ((input.dtype() != DType::kI64 && input.dtype() != DType::kI32) || input.rank() < 1 ||
      input.rank() > 2) {
    return unsupported(cat(what(), "; expected token ids [1, length]"));
  }
  out.axis = input.rank() - 1;
  out.length = input.dim(out.axis).as_symbol();
  if (out.length == nullptr) return unsupported(cat(what(), "; its length is fixed"));
  if (out.length->max > kMaxLength) return unsupported(cat(what(), "; its length has no bound"));
  if (input.rank() == 2 && !(input.dim(0) == Dim(1))) {
    const SymbolPtr batch = input.dim(0).as_symbol();
    if (batch == nullptr || batch->name == out.length->name || batch->min > 1) {
      return unsupported(cat(what(), "; expected one sequence"));
    }
    out.ones.push_back(batch);
  }
  for (const auto& [name, symbol] : graph.symbols()) {
    if (name != out.length->name && (out.ones.empty() || out.ones[0]->name != name)) {
      return unsupported(cat("size ", name, " is neither a batch nor a length"));
    }
  }
  return out;
}

/// What a value is in the incremental graph.
struct Info {
  enum class Kind { kTable, kRows, kLast };
  Kind kind = Kind::kTable;
  int64_t axis = -1;      // of kRows
  bool is_prefix = true;  // of kTable
  Tensor table;           // at the largest length, when it is a prefix and a result
};

class Converter {
 public:
  Converter(const Graph& source, Sequence sequence, int64_t capacity)
      : source_(source),
        sequence_(std::move(sequence)),
        s_(Dim(sequence_.length)),
        capacity_(capacity) {
    auto symbol = std::make_shared<Symbol>();
    symbol->name = "n";
    symbol->min = 1;
    symbol->max = sequence_.length->max;
    n_ = Dim(symbol);
    by_[sequence_.length->name] = n_;
    bindings_[sequence_.length->name] = sequence_.length->max;
    for (const SymbolPtr& one : sequence_.ones) {
      by_[one->name] = Dim(1);
      bindings_[one->name] = 1;
    }
  }

  Result<IncrementalGraph> run() {
    out_.graph = std::make_unique<Graph>();
    Graph& graph = *out_.graph;
    graph.name = source_.name;
    graph.origins = source_.origins;
    const Value* tokens = source_.inputs()[0];
    made_[tokens] = graph.add_input(tokens->name(), type_of_value(tokens));
    position_ = graph.add_input("position", {DType::kI64, {}});
    infos_[tokens] = {Info::Kind::kRows, sequence_.axis, true, {}};
    for (const Value* constant : source_.constants()) infos_[constant] = {};
    for (const auto& node : source_.nodes()) {
      Status status = convert(*node);
      if (!status.ok()) {
        return std::move(status).with_context(
            cat(node->result()->name(), " (", node->op_name(), ")"));
      }
    }
    for (const Output& output : source_.outputs()) {
      const auto found = made_.find(output.value);
      if (found == made_.end() || is_table(output.value)) {
        return unsupported(cat("output ", output.name, " does not depend on the tokens"));
      }
      graph.add_output(found->second, output.name);
    }
    graph.remove_dead();
    return std::move(out_);
  }

 private:
  TensorType type_of_value(const Value* value) const {
    TensorType type = value->type();
    for (Dim& dim : type.shape) dim = substitute(dim, by_);
    return type;
  }
  bool names_length(const Dim& dim) const {
    std::map<std::string, SymbolPtr, std::less<>> symbols;
    dim.collect_symbols(symbols);
    return symbols.contains(sequence_.length->name);
  }
  bool names_length(const Node& node) const {
    for (const Attr& attr : node.attrs()) {
      if (const auto* dim = std::get_if<Dim>(&attr)) {
        if (names_length(*dim)) return true;
      } else if (const auto* dims = std::get_if<Dims>(&attr)) {
        if (std::any_of(dims->begin(), dims->end(), [&](const Dim& d) { return names_length(d); }))
          return true;
      }
    }
    return false;
  }
  /// Dimensions that vary with the length; nullopt when one is not the length itself.
  std::optional<std::vector<int64_t>> length_axes(const Value* value) const {
    std::vector<int64_t> axes;
    for (int64_t d = 0; d < value->rank(); ++d) {
      if (!names_length(value->dim(d))) continue;
      if (!(value->dim(d) == s_)) return std::nullopt;
      axes.push_back(d);
    }
    return axes;
  }
  bool is_table(const Value* value) const { return infos_.at(value).kind == Info::Kind::kTable; }

  Status convert(const Node& node) {
    bool any_rows = false, any_last = false;
    for (const Value* v : node.operands()) {
      if (v == nullptr) continue;
      any_rows = any_rows || infos_.at(v).kind == Info::Kind::kRows;
      any_last = any_last || infos_.at(v).kind == Info::Kind::kLast;
    }
    if (!any_rows && !any_last) return convert_table(node);
    if (node.is(ops::kAttention)) return convert_attention(node);
    if (!any_rows) return convert_last(node);
    if (node.is(ops::kSlice) &&
        node.axis("dim", node.operand(0)->rank()) == infos_.at(node.operand(0)).axis) {
      return convert_row_slice(node);
    }
    if (any_last) return unsupported("mixes the last token into rows of earlier ones");
    return convert_rows(node);
  }

  // --- tables

  /// Whether the result at a smaller length is a prefix of that at a larger one.
  bool keeps_prefix(const Node& node) const {
    if (node.num_results() != 1 || !length_axes(node.result())) return false;
    if (node.is(ops::kArange)) return !names_length(node.dim("start"));
    if (node.is(ops::kFull)) return true;
    const bool sizes = node.is(ops::kReshape) || node.is(ops::kExpand);
    if (node.is(ops::kSlice)) {
      if (names_length(node.dim("start"))) return false;
      const int64_t axis = node.axis("dim", node.result()->rank());
      if (names_length(node.dim("end")) && !(node.dim("end") == s_)) return false;
      if (names_length(node.operand(0)->dim(axis))) {
        return node.dim("start") == Dim(0) && node.dim("end") == s_ && node.i("step") == 1;
      }
      if (names_length(node.result()->dim(axis)) && !(node.dim("start") == Dim(0))) return false;
    } else if (!sizes && names_length(node)) {
      return false;
    }
    if (node.op().axes == nullptr) {
      return std::all_of(node.operands().begin(), node.operands().end(), [&](const Value* v) {
        return v == nullptr || length_axes(v).value_or(std::vector<int64_t>{0}).empty();
      });
    }
    const AxisMap map = node.op().axes(node);
    for (size_t o = 0; o < node.operands().size(); ++o) {
      const Value* v = node.operands()[o];
      if (v == nullptr) continue;
      const auto axes = length_axes(v);
      if (!axes) return false;
      for (const int64_t d : *axes) {
        if (node.is(ops::kSlice) && d == node.axis("dim", v->rank())) continue;
        const int to = map.operand[o][static_cast<size_t>(d)];
        if (to < 0 || !(node.result()->dim(to) == s_)) return false;
      }
    }
    return true;
  }

  Status convert_table(const Node& node) {
    Info info;
    std::vector<const Tensor*> operands;
    for (const Value* v : node.operands()) {
      if (v == nullptr) {
        operands.push_back(nullptr);
        continue;
      }
      info.is_prefix = info.is_prefix && infos_.at(v).is_prefix;
      operands.push_back(v->is_constant() ? &v->constant() : &infos_.at(v).table);
    }
    info.is_prefix = info.is_prefix && keeps_prefix(node);
    if (info.is_prefix) {
      const auto sizes = eval_sizes(node.result()->shape(), bindings_);
      const auto count = sizes ? checked_num_elements(*sizes) : std::nullopt;
      if (!count || *count > kMaxTable) {
        return unsupported(cat("a table of ", node.result()->type().str(), " is too large"));
      }
      DH_ASSIGN(std::vector<Tensor> results, evaluate_node(node, operands, bindings_));
      info.table = std::move(results[0]);
    }
    for (int r = 0; r < node.num_results(); ++r) infos_[node.result(r)] = info;
    return {};
  }

  Tensor table_of(const Value* value) const {
    return value->is_constant() ? value->constant() : infos_.at(value).table;
  }

  /// The table that `value` is the last row of, along `axis`; null when it is none.
  const Value* source_of_last_row(const Value* value, int64_t* axis) const {
    const Node* node = value->producer();
    if (node == nullptr || !node->is(ops::kSlice) || !(node->dim("start") == s_ - Dim(1)) ||
        !(node->dim("end") == s_)) {
      return nullptr;
    }
    *axis = node->axis("dim", value->rank());
    const Value* from = node->operand(0);
    const Info& info = infos_.at(from);
    if (!info.is_prefix || !(from->dim(*axis) == s_)) return nullptr;
    return from;
  }

  Value* constant_of(const Value* value) {
    Value*& made = made_[value];
    if (made == nullptr) made = out_.graph->add_constant(table_of(value), value->name());
    return made;
  }

  Result<Value*> insert(const OpDef& op, std::vector<Value*> operands, const NamedAttrs& attrs,
                        const Node& from, std::string name = "") {
    DH_ASSIGN(Node * node,
              out_.graph->insert(nullptr, op, std::move(operands), attrs, std::move(name)));
    node->add_origins(from.origins());
    return node->result();
  }

  Result<Value*> read_rows(Value* table, int64_t axis, bool last, const Node& from) {
    return insert(
        ops::kReadRows, {table, position_},
        {{"dim", axis}, {"length", last ? Dim(1) : n_}, {"offset", last ? n_ - Dim(1) : Dim(0)}},
        from);
  }

  /// A table operand as the last token needs it.
  Result<Value*> last_of_table(const Value* value, const Node& node) {
    int64_t axis = 0;
    if (const Value* from = source_of_last_row(value, &axis)) {
      if (const auto axes = length_axes(from); axes && axes->size() == 1) {
        return read_rows(constant_of(from), axis, true, node);
      }
    }
    const auto axes = length_axes(value);
    if (!infos_.at(value).is_prefix || !axes || !axes->empty()) {
      return unsupported(cat("operand ", value->name(), " varies with the length"));
    }
    return constant_of(value);
  }

  // --- rows

  NamedAttrs new_attrs(const Node& node) const {
    NamedAttrs attrs;
    for (const SchemaArg& arg : node.schema().args) {
      if (arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorList) continue;
      Attr attr = node.attr(arg.name);
      if (auto* dim = std::get_if<Dim>(&attr)) {
        *dim = substitute(*dim, by_);
      } else if (auto* dims = std::get_if<Dims>(&attr)) {
        for (Dim& d : *dims) d = substitute(d, by_);
      }
      attrs.emplace_back(arg.name, std::move(attr));
    }
    return attrs;
  }

  Status emit(const Node& node, std::vector<Value*> operands, Info info,
              const NamedAttrs* attrs = nullptr) {
    DH_ASSIGN(Node * made, out_.graph->insert(nullptr, node.op(), std::move(operands),
                                              attrs != nullptr ? *attrs : new_attrs(node),
                                              node.result()->name()));
    made->add_origins(node.origins());
    for (int r = 0; r < node.num_results(); ++r) {
      made_[node.result(r)] = made->result(r);
      infos_[node.result(r)] = info;
    }
    return {};
  }

  Status convert_last(const Node& node) {
    if (names_length(node)) return unsupported("computes with the length");
    std::vector<Value*> operands;
    for (const Value* v : node.operands()) {
      if (v != nullptr && is_table(v)) {
        DH_ASSIGN(Value * table, last_of_table(v, node));
        operands.push_back(table);
      } else {
        operands.push_back(v == nullptr ? nullptr : made_.at(v));
      }
    }
    return emit(node, std::move(operands), {Info::Kind::kLast, -1, true, {}});
  }

  Status convert_row_slice(const Node& node) {
    const Info& from = infos_.at(node.operand(0));
    const Dim& start = node.dim("start");
    const Dim& end = node.dim("end");
    if (!(end == s_) || node.i("step") != 1 || !(start == s_ - Dim(1) || start == Dim(0))) {
      return unsupported(
          cat("takes tokens [", start.str(), ", ", end.str(), "); expected the last one"));
    }
    Info info{start == Dim(0) ? Info::Kind::kRows : Info::Kind::kLast, -1, true, {}};
    if (info.kind == Info::Kind::kRows) info.axis = from.axis;
    return emit(node, {made_.at(node.operand(0))}, info);
  }

  Status convert_rows(const Node& node) {
    if (node.num_results() != 1 || node.op().axes == nullptr) {
      return unsupported("may mix tokens");
    }
    if (names_length(node) && !node.is(ops::kReshape) && !node.is(ops::kExpand)) {
      return unsupported("computes with the length");
    }
    const AxisMap map = node.op().axes(node);
    const auto target = [&](size_t o, int64_t d) {
      return int64_t{map.operand[o][static_cast<size_t>(d)]};
    };
    int64_t axis = -1;
    for (size_t o = 0; o < node.operands().size(); ++o) {
      const Value* v = node.operands()[o];
      if (v == nullptr || is_table(v)) continue;
      const int64_t to = target(o, infos_.at(v).axis);
      if (to < 0 || (axis >= 0 && to != axis) || !(node.result()->dim(to) == s_)) {
        return unsupported(cat("mixes the tokens of ", v->name()));
      }
      axis = to;
    }
    std::vector<Value*> operands;
    for (size_t o = 0; o < node.operands().size(); ++o) {
      const Value* v = node.operands()[o];
      if (v == nullptr || !is_table(v)) {
        operands.push_back(v == nullptr ? nullptr : made_.at(v));
        continue;
      }
      const auto axes = length_axes(v);
      const Info& info = infos_.at(v);
      if (!info.is_prefix || !axes || axes->size() > 1 ||
          (axes->size() == 1 && target(o, (*axes)[0]) != axis)) {
        return unsupported(cat("operand ", v->name(), " varies with the length"));
      }
      Value* table = constant_of(v);
      if (!axes->empty()) {
        DH_ASSIGN(table, read_rows(table, (*axes)[0], false, node));
      }
      operands.push_back(table);
    }
    return emit(node, std::move(operands), {Info::Kind::kRows, axis, true, {}});
  }

  // --- attention

  /// The state with room for the rows of `value`, and the new rows written into it.
  Result<Value*> cache_of(const Value* value, const Node& node) {
    if (const auto found = caches_.find(value); found != caches_.end()) return found->second;
    const int64_t axis = infos_.at(value).axis;
    TensorType type = type_of_value(value);
    type.shape[static_cast<size_t>(axis)] = Dim(capacity_);
    if (!type.is_static()) return unsupported(cat(value->name(), ": ", type.str()));
    Value* state = out_.graph->add_state(cat(value->name(), "_cache"),
                                         Tensor(type.dtype, static_sizes(type.shape)));
    DH_ASSIGN(Value * written,
              insert(ops::kWriteRows, {state, made_.at(value), position_}, {{"dim", axis}}, node));
    out_.graph->set_state_update(state, written);
    out_.cache_axes.push_back(axis);
    caches_[value] = written;
    return written;
  }

  /// What a mask at the largest length says.
  enum class MaskKind { kCausal, kBias, kLooksAhead };
  static MaskKind kind_of_mask(const Tensor& mask) {
    const int64_t columns = mask.sizes().back();
    const int64_t rows = mask.size(mask.rank() - 2);
    const bool is_bool = mask.dtype() == DType::kBool;
    MaskKind kind = MaskKind::kCausal;
    const int64_t count = mask.num_elements();
    for (int64_t at = 0; at < count; ++at) {
      const int64_t column = at % columns, row = at / columns % rows;
      const double value = mask.at(at);
      if (column > row) {
        if (is_bool ? value != 0 : !(value <= kNever)) return MaskKind::kLooksAhead;
      } else if (value != (is_bool ? 1 : 0)) {
        kind = MaskKind::kBias;
      }
    }
    return kind;
  }

  /// The first `capacity` columns.
  Tensor cut_columns(const Tensor& mask) const {
    Sizes sizes = mask.sizes();
    const int64_t columns = sizes.back();
    sizes.back() = capacity_;
    Tensor out(mask.dtype(), sizes);
    const size_t item = item_size(mask.dtype());
    const int64_t rows = columns == 0 ? 0 : mask.num_elements() / columns;
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(mask.bytes().data() + static_cast<size_t>(r * columns) * item,
                  static_cast<size_t>(capacity_) * item,
                  out.mutable_data<uint8_t>() + static_cast<size_t>(r * capacity_) * item);
    }
    return out;
  }

  Result<Value*> cut_mask(const Value* mask) {
    Value*& made = cut_masks_[mask];
    if (made == nullptr) {
      made = out_.graph->add_constant(cut_columns(table_of(mask)), mask->name());
    }
    return made;
  }

  /// The mask that the incremental attention still needs, or null.
  Result<Value*> new_mask(const Node& node, bool last) {
    const Value* mask = node.operand("mask");
    if (mask == nullptr) {
      if (last || node.b("is_causal")) return static_cast<Value*>(nullptr);
      return unsupported("attends to later tokens");
    }
    if (!is_table(mask) || mask->rank() < 2) {
      return unsupported(cat("mask ", mask->name(), " depends on the tokens"));
    }
    const int64_t rows = mask->rank() - 2;
    const Value* table = mask;
    bool by_row = !last;
    int64_t axis = 0;
    if (const Value* from = source_of_last_row(mask, &axis); last && from != nullptr) {
      if (axis != rows) return unsupported(cat("mask ", mask->name(), ": another row"));
      table = from;
      by_row = true;
    }
    const auto axes = length_axes(table);
    const std::vector<int64_t> expected =
        by_row ? std::vector<int64_t>{rows, rows + 1} : std::vector<int64_t>{rows + 1};
    if (!infos_.at(table).is_prefix || !axes || *axes != expected) {
      return unsupported(cat("mask ", mask->name(), " is not known beforehand"));
    }
    if (!by_row) return cut_mask(table);
    auto [kind, is_new] = mask_kinds_.try_emplace(table, MaskKind::kCausal);
    if (is_new) kind->second = kind_of_mask(table_of(table));
    if (kind->second == MaskKind::kLooksAhead) return unsupported("attends to later tokens");
    if (kind->second == MaskKind::kCausal) return static_cast<Value*>(nullptr);
    DH_ASSIGN(Value * columns, cut_mask(table));
    return read_rows(columns, rows, last, node);
  }

  Status convert_attention(const Node& node) {
    const Value* query = node.operand("query");
    const Info& q = infos_.at(query);
    const bool last = q.kind == Info::Kind::kLast;
    if (is_table(query) || (!last && q.axis != query->rank() - 2) ||
        (last && (!(query->dim(query->rank() - 2) == Dim(1)) || node.b("is_causal")))) {
      return unsupported("its queries are no tokens");
    }
    for (const char* name : {"key", "value"}) {
      const Value* v = node.operand(name);
      const Info& info = infos_.at(v);
      if (info.kind != Info::Kind::kRows || info.axis != v->rank() - 2) {
        return unsupported(cat("its ", name, "s are no tokens"));
      }
    }
    DH_ASSIGN(Value * mask, new_mask(node, last));
    DH_ASSIGN(Value * keys, cache_of(node.operand("key"), node));
    DH_ASSIGN(Value * values, cache_of(node.operand("value"), node));
    NamedAttrs attrs = {{"offset", last ? n_ - Dim(1) : Dim(0)}};
    if (node.has_attr("scale")) attrs.emplace_back("scale", node.f("scale"));
    DH_ASSIGN(Value * result,
              insert(ops::kCachedAttention, {made_.at(query), keys, values, mask, position_}, attrs,
                     node, node.result()->name()));
    made_[node.result()] = result;
    const Info info{last ? Info::Kind::kLast : Info::Kind::kRows,
                    last ? int64_t{-1} : node.result()->rank() - 2,
                    true,
                    {}};
    infos_[node.result()] = info;
    return {};
  }

  const Graph& source_;
  Sequence sequence_;
  Dim s_, n_;
  int64_t capacity_;
  Substitution by_;
  Bindings bindings_;
  IncrementalGraph out_;
  Value* position_ = nullptr;
  std::unordered_map<const Value*, Value*> made_;
  std::unordered_map<const Value*, Info> infos_;
  std::unordered_map<const Value*, Value*> caches_;
  std::unordered_map<const Value*, Value*> cut_masks_;
  std::unordered_map<const Value*, MaskKind> mask_kinds_;
};

}  // namespace

Result<SequenceInput> find_sequence_input(const Graph& graph) {
  DH_ASSIGN(const Sequence sequence, find_sequence(graph));
  return SequenceInput{sequence.length->max, graph.inputs()[0]->dtype()};
}

Result<IncrementalGraph> make_incremental(const Graph& graph, int64_t capacity) {
  DH_ASSIGN(Sequence sequence, find_sequence(graph));
  DH_CHECK(capacity >= 1 && capacity <= sequence.length->max);
  return Converter(graph, std::move(sequence), capacity).run();
}

Status keep_last_row(Graph& graph) {
  DH_ASSIGN(const Sequence sequence, find_sequence(graph));
  const Dim s(sequence.length);
  Builder b(graph, nullptr);
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    Value* value = graph.outputs()[k].value;
    for (int64_t d = 0; d < value->rank(); ++d) {
      if (!(value->dim(d) == s)) continue;
      Value* last = b.op(ops::kSlice, {value}, {{"dim", d}, {"start", s - Dim(1)}, {"end", s}});
      if (last != nullptr) graph.set_output(k, last);
      break;
    }
  }
  return b.status();
}

}  // namespace downhaul
