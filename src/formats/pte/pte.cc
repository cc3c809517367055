#include "formats/pte/pte.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/strings.h"

namespace downhaul::pte {
namespace {

struct ScalarRow {
  ScalarType type;
  uint8_t bytes;
  std::string_view name;
};
constexpr std::array<ScalarRow, 23> kScalars = {{
    {ScalarType::kByte, 1, "uint8"},
    {ScalarType::kChar, 1, "int8"},
    {ScalarType::kShort, 2, "int16"},
    {ScalarType::kInt, 4, "int32"},
    {ScalarType::kLong, 8, "int64"},
    {ScalarType::kHalf, 2, "float16"},
    {ScalarType::kFloat, 4, "float32"},
    {ScalarType::kDouble, 8, "float64"},
    {ScalarType::kBool, 1, "bool"},
    {ScalarType::kQInt8, 1, "qint8"},
    {ScalarType::kQUInt8, 1, "quint8"},
    {ScalarType::kQInt32, 4, "qint32"},
    {ScalarType::kBFloat16, 2, "bfloat16"},
    {ScalarType::kQUInt4x2, 1, "quint4x2"},
    {ScalarType::kQUInt2x4, 1, "quint2x4"},
    {ScalarType::kBits16, 2, "bits16"},
    {ScalarType::kFloat8E5M2, 1, "float8_e5m2"},
    {ScalarType::kFloat8E4M3FN, 1, "float8_e4m3fn"},
    {ScalarType::kFloat8E5M2FNUZ, 1, "float8_e5m2fnuz"},
    {ScalarType::kFloat8E4M3FNUZ, 1, "float8_e4m3fnuz"},
    {ScalarType::kUInt16, 2, "uint16"},
    {ScalarType::kUInt32, 4, "uint32"},
    {ScalarType::kUInt64, 8, "uint64"},
}};

const ScalarRow* find_scalar(ScalarType type) {
  const auto row = std::ranges::find(kScalars, type, &ScalarRow::type);
  return row == kScalars.end() ? nullptr : &*row;
}

// Runtime limits: kTensorDimensionLimit, and the buffer in which it joins name and overload.
constexpr size_t kMaxRank = 16;
constexpr size_t kMaxOperatorName = 99;
// No machine that runs these files plans more; a larger number is a broken file, and is refused
// here rather than when somebody allocates it.
constexpr int64_t kMaxPlannedBuffer = int64_t{1} << 40;

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

/// Checks one plan. Messages start at the value or instruction; the caller names the plan.
class PlanVerifier {
 public:
  PlanVerifier(const Plan& plan, const StorageLimits& limits) : plan_(plan), limits_(limits) {}

  Status run() const {
    DH_TRY(check_buffers());
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      Status status = check_value(i);
      if (!status.ok()) {
        return std::move(status).with_context(
            cat("value ", i, " (", kind_name(plan_.values[i]), ")"));
      }
    }
    DH_TRY(check_ids(plan_.inputs, "inputs"));
    DH_TRY(check_ids(plan_.outputs, "outputs"));
    for (size_t i = 0; i < plan_.operators.size(); ++i) {
      const size_t length = plan_.operators[i].full_name().size();
      if (length > kMaxOperatorName) {
        return invalid_file(cat("operator ", i, ": name of ", length, " characters, at most ",
                                kMaxOperatorName, " expected"));
      }
    }
    for (size_t i = 0; i < plan_.delegates.size(); ++i) {
      if (plan_.delegates[i].payload >= limits_.num_payloads) {
        return invalid_file(cat("delegate ", i, ": payload ", plan_.delegates[i].payload,
                                ", but there are ", limits_.num_payloads));
      }
    }
    if (plan_.chains.empty()) return invalid_file("no chain of instructions");
    for (size_t c = 0; c < plan_.chains.size(); ++c) {
      Status status = check_chain(plan_.chains[c]);
      if (!status.ok()) {
        return c == 0 ? std::move(status) : std::move(status).with_context(cat("chain ", c));
      }
    }
    return {};
  }

 private:
  Status check_buffers() const {
    const auto& sizes = plan_.non_const_buffer_sizes;
    if (sizes.empty()) return invalid_file("non_const_buffer_sizes is empty, expected [0, ...]");
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 0 || sizes[i] > kMaxPlannedBuffer) {
        return invalid_file(
            cat("planned buffer ", i, ": size ", sizes[i], ", expected 0 to ", kMaxPlannedBuffer));
      }
    }
    return {};
  }

  Status check_id(int64_t id, std::string_view what) const {
    if (id < 0 || static_cast<uint64_t>(id) >= plan_.values.size()) {
      return invalid_file(
          cat(what, ": value id ", id, ", but there are ", plan_.values.size(), " values"));
    }
    return {};
  }

  Status check_ids(const std::vector<int32_t>& ids, std::string_view what) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || static_cast<size_t>(ids[i]) >= plan_.values.size()) {
        return check_id(ids[i], cat(what, "[", i, "]"));
      }
    }
    return {};
  }

  Status check_value(size_t index) const {
    const Value& value = plan_.values[index];
    if (const auto* t = std::get_if<Tensor>(&value)) return check_tensor(*t);
    if (const auto* list = std::get_if<IntList>(&value)) {
      for (const int64_t id : list->items) {
        DH_TRY(check_id(id, "item"));
        const Value& item = plan_.values[static_cast<size_t>(id)];
        if (!std::holds_alternative<Int>(item)) {
          return invalid_file(cat("item ", id, " is a ", kind_name(item), ", expected an Int"));
        }
      }
    }
    if (const auto* list = std::get_if<TensorList>(&value)) {
      for (const int32_t id : list->items) DH_TRY(check_member(id, index, false));
    }
    if (const auto* list = std::get_if<OptionalTensorList>(&value)) {
      for (const int32_t id : list->items) {
        if (id != -1) DH_TRY(check_member(id, index, true));
      }
    }
    return {};
  }

  // Members are read while the list is, so they must come before it.
  Status check_member(int32_t id, size_t list, bool may_be_null) const {
    DH_TRY(check_id(id, "item"));
    const auto position = static_cast<size_t>(id);
    const Value& item = plan_.values[position];
    const bool fits =
        std::holds_alternative<Tensor>(item) || (may_be_null && std::holds_alternative<Null>(item));
    if (!fits) {
      return invalid_file(cat("item ", id, " is a ", kind_name(item), ", expected a Tensor"));
    }
    if (position >= list) return invalid_file(cat("item ", id, " comes after its list"));
    return {};
  }

  Status check_tensor(const Tensor& t) const {
    if (!scalar_bytes(t.dtype)) {
      return invalid_file(cat("unknown scalar type ", static_cast<int>(t.dtype)));
    }
    if (static_cast<uint8_t>(t.dynamism) > static_cast<uint8_t>(Dynamism::kDynamicUnbound)) {
      return invalid_file(cat("unknown shape dynamism ", static_cast<int>(t.dynamism)));
    }
    const size_t rank = t.sizes.size();
    if (rank > kMaxRank) return unsupported(cat("rank ", rank, ", at most ", kMaxRank));
    if (t.dim_order.size() != rank) {
      return invalid_file(
          cat("dim_order of ", t.dim_order.size(), " entries for a tensor of rank ", rank));
    }
    uint32_t seen = 0;
    for (const uint8_t d : t.dim_order) {
      if (d >= rank || (seen >> d & 1) != 0) {
        return invalid_file(cat("dim_order [", join(t.dim_order, ","),
                                "] is no permutation of the ", rank, " dimensions"));
      }
      seen |= 1u << d;
    }
    const std::optional<uint64_t> bytes = tensor_bytes(t);
    if (!bytes) {
      return invalid_file(
          cat("sizes [", join(t.sizes, ","), "] are negative or their product is too large"));
    }
    if (!t.external_name.empty()) return {};
    if (t.data_index > 0) DH_TRY(check_data(t, *bytes));
    if (t.allocation) DH_TRY(check_allocation(*t.allocation, *bytes));
    return {};
  }

  Status check_data(const Tensor& t, uint64_t bytes) const {
    const bool initial = t.allocation.has_value();
    const auto& available = initial ? limits_.initial_contents : limits_.constants;
    const std::string_view what = initial ? "initial content " : "constant ";
    if (t.data_index >= available.size()) {
      return invalid_file(cat(what, t.data_index, ", but the file has ",
                              available.empty() ? 0 : available.size() - 1));
    }
    if (bytes > available[t.data_index]) {
      return invalid_file(cat(what, t.data_index, " has ", available[t.data_index],
                              " bytes, the tensor needs ", bytes));
    }
    return {};
  }

  Status check_allocation(const Allocation& a, uint64_t bytes) const {
    const auto& sizes = plan_.non_const_buffer_sizes;
    if (a.memory_id == 0 || a.memory_id >= sizes.size()) {
      return invalid_file(cat("memory id ", a.memory_id, ", expected 1 to ", sizes.size() - 1));
    }
    const auto size = static_cast<uint64_t>(sizes[a.memory_id]);
    if (!in_range(a.offset, bytes, size)) {
      return invalid_file(cat("allocation of ", bytes, " bytes at ", a.offset,
                              " lies outside planned buffer ", a.memory_id, " of ", size));
    }
    return {};
  }

  Status check_chain(const Chain& chain) const {
    DH_TRY(check_ids(chain.inputs, "chain inputs"));
    DH_TRY(check_ids(chain.outputs, "chain outputs"));
    for (size_t i = 0; i < chain.instructions.size(); ++i) {
      Status status = check_instruction(chain, i);
      if (!status.ok()) return std::move(status).with_context(cat("instruction ", i));
    }
    return {};
  }

  Status check_instruction(const Chain& chain, size_t index) const {
    return std::visit(
        Overloaded{
            [&](const KernelCall& call) -> Status {
              if (call.op_index < 0 ||
                  static_cast<size_t>(call.op_index) >= plan_.operators.size()) {
                return invalid_file(
                    cat("operator ", call.op_index, ", but there are ", plan_.operators.size()));
              }
              return check_ids(call.args, "argument ");
            },
            [&](const DelegateCall& call) -> Status {
              if (call.delegate_index < 0 ||
                  static_cast<size_t>(call.delegate_index) >= plan_.delegates.size()) {
                return invalid_file(cat("delegate ", call.delegate_index, ", but there are ",
                                        plan_.delegates.size()));
              }
              return check_ids(call.args, "argument ");
            },
            [&](const MoveCall& call) -> Status {
              DH_TRY(check_id(call.from, "move source"));
              return check_id(call.to, "move destination");
            },
            [&](const JumpFalseCall& call) { return check_jump(call, chain, index); },
            [&](const FreeCall& call) -> Status {
              DH_TRY(check_id(call.value, "freed value"));
              const Value& value = plan_.values[static_cast<size_t>(call.value)];
              if (!std::holds_alternative<Tensor>(value)) {
                return invalid_file(cat("frees value ", call.value, ", a ", kind_name(value),
                                        ", expected a Tensor"));
              }
              return {};
            },
        },
        chain.instructions[index]);
  }

  Status check_jump(const JumpFalseCall& call, const Chain& chain, size_t index) const {
    DH_TRY(check_id(call.condition, "jump condition"));
    const Value& condition = plan_.values[static_cast<size_t>(call.condition)];
    if (!std::holds_alternative<Bool>(condition) && !std::holds_alternative<Tensor>(condition)) {
      return invalid_file(cat("jump condition is value ", call.condition, ", a ",
                              kind_name(condition), ", expected a Bool or a Tensor"));
    }
    const size_t length = chain.instructions.size();
    if (call.destination < 0 || static_cast<size_t>(call.destination) > length) {
      return invalid_file(
          cat("jump to instruction ", call.destination, ", but the chain has ", length));
    }
    if (static_cast<size_t>(call.destination) == index) {
      return invalid_file("jump to itself, an endless loop");
    }
    return {};
  }

  const Plan& plan_;
  const StorageLimits& limits_;
};

}  // namespace

std::optional<uint64_t> scalar_bytes(ScalarType type) {
  const ScalarRow* row = find_scalar(type);
  return row == nullptr ? std::nullopt : std::optional<uint64_t>(row->bytes);
}

std::string_view scalar_name(ScalarType type) {
  const ScalarRow* row = find_scalar(type);
  return row == nullptr ? "unknown" : row->name;
}

std::optional<uint64_t> tensor_bytes(const Tensor& tensor) {
  const std::optional<uint64_t> item = scalar_bytes(tensor.dtype);
  if (!item) return std::nullopt;
  // A zero among the sizes must not hide a product that wraps before it: consumers multiply in any
  // order. So the zeros are left out first.
  auto product = static_cast<int64_t>(*item);
  bool empty = false;
  for (const int32_t size : tensor.sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    const std::optional<int64_t> next = checked_mul<int64_t>(product, size);
    if (!next) return std::nullopt;
    product = *next;
  }
  return empty ? 0 : static_cast<uint64_t>(product);
}

std::string_view kind_name(const Value& value) {
  static constexpr std::array<std::string_view, std::variant_size_v<Value>> kNames = {
      "Null",
      "Int",
      "Bool",
      "Double",
      "Tensor",
      "String",
      "IntList",
      "DoubleList",
      "BoolList",
      "TensorList",
      "OptionalTensorList"};
  return kNames[value.index()];
}

std::string Operator::full_name() const { return overload.empty() ? name : name + "." + overload; }

Status verify_program(const Program& program, const StorageLimits& limits) {
  if (program.plans.empty()) return invalid_file("the program has no execution plan");
  for (const Plan& plan : program.plans) {
    Status status = PlanVerifier(plan, limits).run();
    if (!status.ok()) {
      return std::move(status).with_context(cat("plan '", printable(plan.name), "'"));
    }
  }
  return {};
}

}  // namespace downhaul::pte
