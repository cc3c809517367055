#include "dialects/edge/call.h"

#include <set>
#include <unordered_map>

#include "base/strings.h"
#include "dialects/edge/table.h"

namespace downhaul::edge {
namespace {

struct Index {
  std::unordered_map<std::string_view, std::vector<const Row*>> by_op;
  std::unordered_map<std::string_view, std::vector<const Row*>> by_kernel;
};

bool can_emit(const Row& row) { return row.emit != nullptr || row.raise == nullptr; }

const Index& index() {
  static const Index* const kIndex = [] {
    auto* built = new Index;
    for (const Row& row : table()) {
      if (can_emit(row)) built->by_op[name_of(row.op)].push_back(&row);
      built->by_kernel[name_of(row.kernel)].push_back(&row);
    }
    return built;
  }();
  return *kIndex;
}

/// The first tensor operand whose type picks the kernel's code.
const Value* typed_operand(const Node& node) {
  for (const Value* v : node.operands())
    if (v != nullptr && v->dtype() != DType::kBool) return v;
  for (const Value* v : node.operands())
    if (v != nullptr) return v;
  return nullptr;
}

}  // namespace

std::string_view name_of(const char* spelling) {
  const std::string_view text(spelling);
  return text.substr(0, text.find('('));
}

Result<KernelCall> emit_call(const Node& node) {
  const auto rows = index().by_op.find(node.op_name());
  if (rows == index().by_op.end()) return no_kernel(node, "the stock runtime has no kernel for it");
  Status first;
  for (const Row* row : rows->second) {
    const Value* typed = typed_operand(node);
    Result<KernelCall> call =
        typed != nullptr && (row->dtypes & bit(typed->dtype())) == 0
            ? Result<KernelCall>(no_kernel(node, cat("no kernel for ", name(typed->dtype()))))
        : row->emit != nullptr ? row->emit(node)
                               : emit_text(*row, node);
    if (call.ok()) return call;
    if (first.ok()) first = call.status();
  }
  return first;
}

std::string why_no_kernel(const Node& node) {
  const Result<KernelCall> call = emit_call(node);
  return call.ok() ? "" : call.status().message();
}

Result<std::vector<Value*>> raise_call(const KernelCall& call, Builder& b) {
  const auto rows = index().by_kernel.find(call.kernel);
  if (rows == index().by_kernel.end())
    return unsupported(cat(printable(call.kernel), ": unknown kernel"));
  // Several rows of one kernel differ in what they emit; the first reads all.
  const Row& row = *rows->second.front();
  if (call.outs.empty() && num_outputs(call.kernel) > 0)
    return invalid_file(cat(call.kernel, ": no output"));
  Raising r(call, b);
  Values results = row.raise != nullptr ? row.raise(r) : raise_text(row, r);
  if (!b.status().ok()) {
    Status status = b.status();
    return std::move(status).with_context(call.kernel);
  }
  results.resize(call.outs.size());
  return results;
}

bool is_known_kernel(std::string_view kernel) { return index().by_kernel.contains(kernel); }

int num_outputs(std::string_view kernel) {
  const auto rows = index().by_kernel.find(kernel);
  return rows == index().by_kernel.end() ? 1 : rows->second.front()->num_outputs;
}

std::vector<Spelling> spellings() {
  std::vector<Spelling> out;
  for (const Row& row : table())
    out.push_back({std::string(name_of(row.op)), std::string(name_of(row.kernel))});
  return out;
}

// --- for emit functions

Arg ints(const Ints& v) { return Arg(Dims(v.begin(), v.end())); }

Arg scalar(double value, DType dtype) {
  if (is_float(dtype)) return number(value);
  if (dtype == DType::kBool) return flag(value != 0);
  return integer(static_cast<int64_t>(value));
}

KernelCall call_of(const Node& node, std::string kernel, std::vector<Arg> args) {
  KernelCall call{.kernel = std::move(kernel), .args = std::move(args), .outs = {}};
  for (int i = 0; i < node.num_results(); ++i) call.outs.push_back(node.result(i)->type());
  return call;
}

Status no_kernel(const Node& node, std::string_view reason) {
  return unsupported(cat(node.op_name(), ": ", reason));
}

bool is_scalar_constant(const Value* v, Arg* value) {
  if (v == nullptr || !v->is_constant() || v->rank() != 0) return false;
  if (value != nullptr) {
    const Tensor& t = v->constant();
    if (is_float(t.dtype())) {
      *value = number(t.at(0));
    } else if (t.dtype() == DType::kBool) {
      *value = flag(t.at(0) != 0);
    } else {
      *value = integer(t.int_at(0));
    }
  }
  return true;
}

// --- Raising

bool Raising::is_none(size_t i) const {
  return i < size() && std::holds_alternative<std::monostate>(call.args[i]);
}

Value* Raising::refuse(std::string_view reason) {
  b.fail(unsupported(std::string(reason)));
  return nullptr;
}

Value* Raising::tensor_or_null(size_t i) { return is_none(i) ? nullptr : tensor(i); }

Value* Raising::tensor(size_t i) {
  if (i < size())
    if (const auto* v = std::get_if<Value*>(&call.args[i])) return *v;
  return refuse(cat("argument ", i, " is no tensor"));
}

std::vector<Value*> Raising::tensors(size_t i) {
  if (i < size())
    if (const auto* v = std::get_if<TensorList>(&call.args[i])) return v->values;
  refuse(cat("argument ", i, " is no list of tensors"));
  return {};
}

Dim Raising::dim(size_t i) {
  if (i < size())
    if (const auto* v = std::get_if<Dim>(&call.args[i])) return *v;
  refuse(cat("argument ", i, " is no integer"));
  return {};
}

int64_t Raising::integer(size_t i) {
  const Dim d = dim(i);
  if (d.is_static()) return d.value();
  refuse(cat("argument ", i, " depends on a size (", d.str(), ")"));
  return 0;
}

Dims Raising::dims(size_t i) {
  if (i < size())
    if (const auto* v = std::get_if<Dims>(&call.args[i])) return *v;
  refuse(cat("argument ", i, " is no list of integers"));
  return {};
}

Ints Raising::ints(size_t i) {
  Ints out;
  for (const Dim& d : dims(i)) {
    if (!d.is_static()) {
      refuse(cat("argument ", i, " depends on a size (", d.str(), ")"));
      return {};
    }
    out.push_back(d.value());
  }
  return out;
}

double Raising::number(size_t i) {
  if (i < size()) {
    if (const auto* v = std::get_if<double>(&call.args[i])) return *v;
    if (const auto* v = std::get_if<bool>(&call.args[i])) return *v ? 1 : 0;
    if (const auto* v = std::get_if<Dim>(&call.args[i]); v != nullptr && v->is_static())
      return static_cast<double>(v->value());
  }
  refuse(cat("argument ", i, " is no number"));
  return 0;
}

bool Raising::flag(size_t i) {
  if (i < size()) {
    if (const auto* v = std::get_if<bool>(&call.args[i])) return *v;
    if (const auto* v = std::get_if<Dim>(&call.args[i]); v != nullptr && v->is_static())
      return v->value() != 0;
  }
  refuse(cat("argument ", i, " is no bool"));
  return false;
}

std::string Raising::text(size_t i) {
  if (i < size())
    if (const auto* v = std::get_if<std::string>(&call.args[i])) return *v;
  refuse(cat("argument ", i, " is no text"));
  return "";
}

Floats Raising::floats(size_t i) {
  if (i < size())
    if (const auto* v = std::get_if<Floats>(&call.args[i])) return *v;
  refuse(cat("argument ", i, " is no list of floats"));
  return {};
}

int64_t Raising::axis(size_t i, int64_t rank) {
  const int64_t a = integer(i);
  const int64_t extent = rank == 0 ? 1 : rank;
  if (a >= -extent && a < extent) return a < 0 ? a + extent : a;
  refuse(cat("argument ", i, ": axis ", a, " of a tensor of rank ", rank));
  return 0;
}

Value* Raising::scalar(size_t i, DType dtype) {
  if (i < size())
    if (const auto* v = std::get_if<Dim>(&call.args[i])) {
      if (!v->is_static()) return cast(b.op(ops::kDimScalar, {}, {{"value", *v}}), dtype);
      Tensor t(DType::kI64, {});
      t.set_int(0, v->value());
      return b.constant(t.cast(dtype));
    }
  return b.constant(Tensor::scalar(dtype, number(i)));
}

Value* Raising::cast(Value* v, DType dtype) {
  if (v == nullptr || v->dtype() == dtype) return v;
  return b.op(ops::kCast, {v}, {{"dtype", dtype}});
}

}  // namespace downhaul::edge
