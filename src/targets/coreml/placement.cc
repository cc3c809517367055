#include "targets/coreml/placement.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/strings.h"
#include "targets/coreml/ane_rules.h"

namespace downhaul::coreml {
namespace {

/// Buffers of the Neural Engine begin each run along the last axis at a multiple of this.
constexpr uint64_t kAlignment = 64;
/// A group of so few operations between others on the CPU is not worth going there and back. Our
/// own number: only the effect is reported.
constexpr size_t kSmallGroup = 3;
/// A program of fewer results altogether is left on the CPU. Our own number, see kSmallGroup.
constexpr uint64_t kTinyElements = 4096;

struct Extent {
  uint64_t elements = 0, bytes = 0, padded = 0;
};

/// Zero where a size is unknown: nothing can be said then.
Extent extent_of(const mil::Type& type) {
  Extent out;
  if (type.kind != mil::Type::Kind::kTensor) return out;
  const auto bits = static_cast<uint64_t>(mil::bits_of(type.dtype));
  uint64_t rows = 1;
  uint64_t last = 1;
  for (size_t d = 0; d < type.shape.size(); ++d) {
    const int64_t size = type.shape[d].value_or(0);
    if (size <= 0 || rows > (uint64_t{1} << 40) / static_cast<uint64_t>(size)) return {};
    if (d + 1 == type.shape.size()) {
      last = static_cast<uint64_t>(size);
    } else {
      rows *= static_cast<uint64_t>(size);
    }
  }
  const uint64_t row_bytes = (last * bits + 7) / 8;
  out.elements = rows * last;
  out.bytes = rows * row_bytes;
  out.padded = rows * ((row_bytes + kAlignment - 1) / kAlignment * kAlignment);
  return out;
}

PlacedOperation place(const mil::Operation& op, const ProgramFacts& facts) {
  PlacedOperation out;
  out.name = op.outputs.empty() ? "" : op.outputs[0].name;
  out.type = op.type;
  for (const AneRule& rule : ane_rules()) {
    if (!rule.applies(op, facts)) continue;
    out.unit = rule.unit;
    out.rule = rule.number;
    out.certainty = rule.certainty;
    out.reason = rule.reason;
    break;
  }
  out.is_copy = op.type == "transpose" || op.type == "reshape";
  for (const mil::NamedType& result : op.outputs) {
    const Extent extent = extent_of(result.type);
    out.bytes += extent.bytes;
    // A number without axes is a parameter, not a buffer.
    if (out.unit == ComputeUnit::kNeuralEngine && !result.type.shape.empty()) {
      out.wasted_bytes += extent.padded - extent.bytes;
    }
  }
  return out;
}

/// Groups of operations on the Neural Engine that only data connects, each by its members.
class Groups {
 public:
  Groups(const ProgramFacts& facts, const std::vector<PlacedOperation>& placed) {
    const auto& operations = facts.operations();
    parent_.resize(operations.size());
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    std::map<const mil::Operation*, size_t> index;
    for (size_t i = 0; i < operations.size(); ++i) index[operations[i]] = i;
    const auto on_ane = [&](size_t i) { return placed[i].unit == ComputeUnit::kNeuralEngine; };
    std::vector<std::pair<size_t, size_t>> edges;
    for (size_t i = 0; i < operations.size(); ++i) {
      for (const std::string_view name : ProgramFacts::operand_names(*operations[i])) {
        if (const mil::Operation* from = facts.producer(name)) edges.emplace_back(index[from], i);
      }
    }
    for (const auto& [from, to] : edges) {
      if (on_ane(from) && on_ane(to)) parent_[root(from)] = root(to);
    }
    struct Group {
      std::vector<size_t> members;
      bool reads_cpu = false, feeds_cpu = false;
    };
    std::map<size_t, Group> groups;
    for (size_t i = 0; i < operations.size(); ++i) {
      if (on_ane(i)) groups[root(i)].members.push_back(i);
    }
    for (const auto& [from, to] : edges) {
      if (!on_ane(from) && on_ane(to)) groups[root(to)].reads_cpu = true;
      if (on_ane(from) && !on_ane(to)) groups[root(from)].feeds_cpu = true;
    }
    for (const auto& [id, group] : groups) {
      if (group.reads_cpu && group.feeds_cpu && group.members.size() <= kSmallGroup) {
        stranded_.insert(stranded_.end(), group.members.begin(), group.members.end());
      }
    }
  }
  const std::vector<size_t>& stranded() const { return stranded_; }

 private:
  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  std::vector<size_t> parent_;
  std::vector<size_t> stranded_;
};

std::string percent_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? "0"
                    : fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1);
}

std::string print_operation(const PlacedOperation& op) {
  std::string out =
      cat("  ", name(op.unit), "  ", printable(op.type), " ", printable(op.name), ": ");
  out += op.rule == 0 ? std::string("no rule") : cat("rule ", op.rule);
  out += cat(" (", std::string(1, static_cast<char>(op.certainty)), "), ", op.reason);
  if (op.wasted_bytes > 0) {
    out += cat("; padding of the last axis: ", op.wasted_bytes, " bytes more than ", op.bytes);
  }
  if (op.is_copy) out += "; a copy";
  if (op.is_stranded) out += "; between operations on the CPU, may go there too (rule 12, B)";
  return out + "\n";
}

}  // namespace

std::string_view name(ComputeUnit unit) {
  constexpr std::string_view kNames[] = {"ANE", "CPU", "CPU/GPU"};
  return kNames[static_cast<int>(unit)];
}

int Placement::count(ComputeUnit unit) const {
  return static_cast<int>(std::count_if(operations.begin(), operations.end(),
                                        [&](const auto& op) { return op.unit == unit; }));
}

int Placement::num_copies() const {
  return static_cast<int>(std::count_if(operations.begin(), operations.end(),
                                        [](const auto& op) { return op.is_copy; }));
}

int Placement::num_stranded() const {
  return static_cast<int>(std::count_if(operations.begin(), operations.end(),
                                        [](const auto& op) { return op.is_stranded; }));
}

uint64_t Placement::wasted_bytes() const {
  uint64_t sum = 0;
  for (const PlacedOperation& op : operations) sum += op.wasted_bytes;
  return sum;
}

Placement predict_placement(const mil::Function& function) {
  const ProgramFacts facts(function);
  Placement out;
  uint64_t elements = 0;
  for (const mil::Operation* op : facts.operations()) {
    out.operations.push_back(place(*op, facts));
    for (const mil::NamedType& result : op->outputs) elements += extent_of(result.type).elements;
  }
  const Groups groups(facts, out.operations);
  for (const size_t i : groups.stranded()) out.operations[i].is_stranded = true;
  if (elements > 0 && elements < kTinyElements) {
    out.notes.push_back(
        cat("a program of ", elements, " results in all is usually left on the CPU (rule 11, B)"));
  }
  return out;
}

std::string print(const Placement& p, bool all) {
  const auto n = p.operations.size();
  std::string out =
      cat("predicted ", p.count(ComputeUnit::kNeuralEngine), " ANE / ", n, " operations, ",
          p.count(ComputeUnit::kCpu), " CPU, ", p.count(ComputeUnit::kCpuOrGpu),
          " CPU or GPU (published reference: 602 ANE / 606, 4 CPU, Apple's DistilBERT at 1x128 on "
          "iOS 16); Core ML decides on the device\n");
  uint64_t bytes = 0;
  for (const PlacedOperation& op : p.operations) bytes += op.bytes;
  out += cat("results ", bytes, " bytes, ", p.wasted_bytes(), " more (",
             percent_of(p.wasted_bytes(), bytes),
             " %) for last axes that do not fill 64 bytes (rule 13, A); ", p.num_copies(),
             " copies (transpose, reshape); ", p.num_stranded(),
             " operations stranded between others on the CPU\n");
  for (const std::string& note : p.notes) out += cat("note: ", note, "\n");
  for (const PlacedOperation& op : p.operations) {
    if (all || op.unit != ComputeUnit::kNeuralEngine || op.is_stranded) out += print_operation(op);
  }
  return out;
}

void write_json(const Placement& p, JsonWriter& json) {
  json.begin_object();
  json.field("predicted", true);
  json.field("operations", static_cast<int64_t>(p.operations.size()));
  json.field("ane", p.count(ComputeUnit::kNeuralEngine));
  json.field("cpu", p.count(ComputeUnit::kCpu));
  json.field("cpu_or_gpu", p.count(ComputeUnit::kCpuOrGpu));
  json.key("published_reference").begin_object();
  json.field("operations", 606);
  json.field("ane", 602);
  json.field("cpu", 4);
  json.end_object();
  json.field("wasted_bytes", static_cast<int64_t>(p.wasted_bytes()));
  json.field("copies", p.num_copies());
  json.field("stranded", p.num_stranded());
  json.field("notes", p.notes);
  json.key("placement").begin_array();
  for (const PlacedOperation& op : p.operations) {
    json.begin_object();
    json.field("name", op.name);
    json.field("type", op.type);
    json.field("unit", name(op.unit));
    json.field("rule", op.rule);
    json.field("certainty", std::string(1, static_cast<char>(op.certainty)));
    json.field("reason", op.reason);
    json.field("bytes", static_cast<int64_t>(op.bytes));
    json.field("wasted_bytes", static_cast<int64_t>(op.wasted_bytes));
    json.field("copy", op.is_copy);
    json.field("stranded", op.is_stranded);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

}  // namespace downhaul::coreml
