#include "report/delegation.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/strings.h"
#include "formats/xnn/xnn.h"

namespace downhaul {
namespace {

/// Out tensors of a kernel call: one, or the members of the list that follows them.
struct Outs {
  std::vector<int32_t> values;
  bool several = false;
  int allocs = 0;  ///< allocation nodes: one for each tensor, one for a whole list
};

Outs outs_of(const pte::Plan& plan, const pte::KernelCall& call, const std::string& name) {
  if (call.args.empty() || name.starts_with("executorch_prim::")) return {};
  const auto list_at = [&](size_t from_end) {
    return call.args.size() < from_end
               ? nullptr
               : std::get_if<pte::TensorList>(
                     &plan.values[static_cast<size_t>(call.args[call.args.size() - from_end])]);
  };
  const pte::TensorList* list = list_at(1);
  // What writes into an operand allocates nothing.
  if (name == "aten::copy_") return {};
  if (list == nullptr) return {{call.args.back()}, false, 1};
  // A kernel that fills a list names the list twice, as its argument and as its result.
  const bool fills_list = list_at(2) != nullptr;
  return {list->items, true, fills_list ? 1 : static_cast<int>(list->items.size())};
}

/// Value ids that an instruction reads, members of lists included. Out tensors appear too: the
/// caller subtracts them.
void collect(const pte::Plan& plan, int32_t id, std::multiset<int32_t>& out) {
  const auto& value = plan.values[static_cast<size_t>(id)];
  if (const auto* list = std::get_if<pte::TensorList>(&value)) {
    for (const int32_t i : list->items) out.insert(i);
  } else if (const auto* optional = std::get_if<pte::OptionalTensorList>(&value)) {
    for (const int32_t i : optional->items) {
      if (i >= 0) out.insert(i);
    }
  } else {
    out.insert(id);
  }
}

struct ByteKey {
  uint64_t offset;
  uint64_t size;
  auto operator<=>(const ByteKey&) const = default;
};

class Counter {
 public:
  Counter(const PteFile& file, const RaisedProgram* raised, std::string (*reason_of)(const Node&))
      : file_(file), plan_(file.program.plans[0]), raised_(raised), reason_of_(reason_of) {}

  DelegationReport run() {
    collect_reasons();
    count_instructions();
    count_getitems();
    count_weights();
    count_multiply_adds();
    report_.graph_nodes = report_.kernel_calls + report_.graph_allocs + report_.graph_getitems;
    return std::move(report_);
  }

 private:
  void collect_reasons() {
    if (raised_ == nullptr || reason_of_ == nullptr) return;
    for (const auto& node : raised_->graph->nodes()) {
      const auto source = raised_->sources.find(node.get());
      if (source == raised_->sources.end() || source->second.delegate >= 0) continue;
      const std::string reason = reason_of_(*node);
      auto& known = reasons_[source->second.instruction];
      if (!reason.empty() && known.find(reason) == std::string::npos) {
        known += known.empty() ? reason : cat("; ", reason);
      }
    }
  }

  void count_instructions() {
    std::map<std::string, OutsideOperator> outside;
    std::map<std::string, std::map<std::string, int>> counts;  // by operator and reason
    const auto& instructions = plan_.chains[0].instructions;
    for (size_t at = 0; at < instructions.size(); ++at) {
      if (const auto* call = std::get_if<pte::KernelCall>(&instructions[at])) {
        const std::string name = plan_.operators[static_cast<size_t>(call->op_index)].full_name();
        OutsideOperator& entry = outside[name];
        entry.name = name;
        ++entry.count;
        const auto reason = reasons_.find(static_cast<int>(at));
        // An operator that XNNPACK could compute by itself was still not put into a delegate.
        if (reason != reasons_.end()) {
          ++counts[name][reason->second.empty() ? "whoever made the file left it outside"
                                                : reason->second];
        }
        ++report_.kernel_calls;
        const Outs outs = outs_of(plan_, *call, name);
        report_.graph_allocs += outs.allocs;
      } else if (const auto* delegate = std::get_if<pte::DelegateCall>(&instructions[at])) {
        ++report_.call_sites;
        const auto& d = plan_.delegates[static_cast<size_t>(delegate->delegate_index)];
        ++report_.backends[d.id];
      }
    }
    for (auto& [name, entry] : outside) {
      std::vector<std::string> parts;
      for (const auto& [reason, count] : counts[name]) {
        parts.push_back(count == entry.count ? reason : cat(reason, " (", count, ")"));
      }
      entry.reason = report_.call_sites == 0 ? "the file has no delegates" : join(parts, "; ");
      report_.outside.push_back(std::move(entry));
    }
    std::stable_sort(report_.outside.begin(), report_.outside.end(),
                     [](const auto& a, const auto& b) { return a.count > b.count; });
  }

  const XnnGraph* payload(const pte::Delegate& d) {
    if (d.id != "XnnpackBackend") return nullptr;
    const auto [it, fresh] = payloads_.try_emplace(d.payload);
    if (fresh) {
      auto graph = read_xnn_payload(file_.payload(d));
      if (graph.ok()) it->second = std::make_unique<XnnGraph>(*std::move(graph));
    }
    return it->second.get();
  }

  void count_getitems() {
    // A result of a kernel with several is selected when anything uses it.
    std::multiset<int32_t> mentions;
    const auto& instructions = plan_.chains[0].instructions;
    for (const auto& instruction : instructions) {
      if (const auto* call = std::get_if<pte::KernelCall>(&instruction)) {
        for (const int32_t arg : call->args) collect(plan_, arg, mentions);
      } else if (const auto* delegate = std::get_if<pte::DelegateCall>(&instruction)) {
        for (const int32_t arg : delegate->args) collect(plan_, arg, mentions);
      }
    }
    for (const int32_t id : plan_.outputs) mentions.insert(id);
    for (const auto& instruction : instructions) {
      if (const auto* delegate = std::get_if<pte::DelegateCall>(&instruction)) {
        const auto& d = plan_.delegates[static_cast<size_t>(delegate->delegate_index)];
        const XnnGraph* graph = payload(d);
        report_.graph_getitems += graph == nullptr ? 1 : num_outputs(*graph);
        continue;
      }
      const auto* call = std::get_if<pte::KernelCall>(&instruction);
      if (call == nullptr) continue;
      const std::string name = plan_.operators[static_cast<size_t>(call->op_index)].full_name();
      const Outs outs = outs_of(plan_, *call, name);
      if (!outs.several) continue;
      if (outs.allocs == 1) {  // the members of a list, which views may use without a trace
        report_.graph_getitems += static_cast<int>(outs.values.size());
        continue;
      }
      std::multiset<int32_t> own;
      for (const int32_t arg : call->args) collect(plan_, arg, own);
      for (size_t i = 0; i < outs.values.size(); ++i) {
        // The first result is the one that such kernels are called for; a view that shares its
        // memory leaves no trace in the arguments.
        const int32_t id = outs.values[i];
        report_.graph_getitems += i == 0 || mentions.count(id) > own.count(id);
      }
    }
  }

  static int num_outputs(const XnnGraph& graph) {
    return static_cast<int>(std::count_if(
        graph.values.begin(), graph.values.end(),
        [](const XnnValue& v) { return (v.flags & XnnValue::kExternalOutput) != 0; }));
  }

  void count_weights() {
    std::map<ByteKey, bool> blocks;  // delegated?
    for (const auto& value : plan_.values) {
      const auto* tensor = std::get_if<pte::Tensor>(&value);
      if (tensor == nullptr || tensor->data_index == 0 || tensor->allocation) continue;
      if (const auto range = file_.data_range(*tensor)) {
        blocks.try_emplace({range->offset, range->size}, false);
      }
    }
    std::set<uint32_t> seen;
    for (const auto& d : plan_.delegates) {
      if (!seen.insert(d.payload).second) continue;
      const XnnGraph* graph = payload(d);
      if (graph == nullptr) continue;
      report_.delegate_nodes += static_cast<int>(graph->nodes.size());
      for (const XnnNode& n : graph->nodes)
        ++report_.delegate_kinds[std::string(info(n.kind).name)];
      for (const XnnConstant& c : graph->constants) {
        if (c.named_key.empty()) {
          report_.weight_bytes += c.size;
          report_.delegated_weight_bytes += c.size;
          continue;
        }
        for (const PteNamedData& named : file_.named_data) {
          if (named.key == c.named_key) blocks[{named.range.offset, named.range.size}] = true;
        }
      }
    }
    for (const auto& [key, delegated] : blocks) {
      report_.weight_bytes += key.size;
      if (delegated) report_.delegated_weight_bytes += key.size;
    }
  }

  void count_multiply_adds() {
    if (raised_ == nullptr) return;
    int64_t total = 0;
    int64_t inside = 0;
    for (const auto& node : raised_->graph->nodes()) {
      if (node->op().multiply_adds == nullptr) continue;
      const int64_t n = node->op().multiply_adds(*node);
      total += n;
      const auto source = raised_->sources.find(node.get());
      if (source != raised_->sources.end() && source->second.delegate >= 0) inside += n;
    }
    report_.multiply_adds = total;
    report_.delegated_multiply_adds = inside;
  }

  const PteFile& file_;
  const pte::Plan& plan_;
  const RaisedProgram* raised_;
  std::string (*reason_of_)(const Node&);
  std::map<int, std::string> reasons_;
  std::map<uint32_t, std::unique_ptr<XnnGraph>> payloads_;
  DelegationReport report_;
};

std::string percent(double part, double whole) {
  return whole > 0 ? cat(fixed(100.0 * part / whole, 1), " %") : std::string("none");
}

}  // namespace

DelegationReport delegation_report(const PteFile& file, const RaisedProgram* raised,
                                   std::string (*reason_of)(const Node& node)) {
  return Counter(file, raised, reason_of).run();
}

void add_graph_facts(DelegationReport& report, const Graph& graph, const EmittedProgram& program,
                     const std::vector<OutsideNode>& outside) {
  std::unordered_map<const Node*, const std::string*> reasons;
  for (const OutsideNode& o : outside) reasons[o.node] = &o.reason;
  std::unordered_set<const Node*> on_kernels;
  std::map<std::string, std::set<std::string>> reasons_by_name;
  for (const EmittedCall& call : program.calls) {
    if (call.region >= 0) continue;
    if (call.node != nullptr) {
      on_kernels.insert(call.node);
      const auto reason = reasons.find(call.node);
      if (reason != reasons.end()) reasons_by_name[call.name].insert(*reason->second);
    } else {
      reasons_by_name[call.name].insert(call.purpose);
    }
    const std::string module =
        call.origins.empty() ? "" : graph.origins[static_cast<size_t>(call.origins[0])].module_path;
    ++report.outside_by_module[module];
  }
  for (OutsideOperator& o : report.outside) {
    const auto it = reasons_by_name.find(o.name);
    if (it != reasons_by_name.end()) o.reason = join(it->second, "; ");
  }
  int64_t total = 0;
  int64_t inside = 0;
  for (const auto& node : graph.nodes()) {
    if (node->op().multiply_adds == nullptr) continue;
    const int64_t n = node->op().multiply_adds(*node);
    total += n;
    if (!on_kernels.contains(node.get())) inside += n;
  }
  report.multiply_adds = total;
  report.delegated_multiply_adds = inside;
}

std::string print(const DelegationReport& r, bool by_module) {
  std::string out = "Delegation\n";
  out += cat("  delegate call sites:           ", r.call_sites, "\n");
  if (!r.split.empty()) out += cat("  one was cut in two because ", r.split, "\n");
  out += cat("  kernel calls outside:          ", r.kernel_calls, "\n");
  out += cat("  graph nodes outside:           ", r.graph_nodes, "  (kernel calls ", r.kernel_calls,
             " + alloc ", r.graph_allocs, " + getitem ", r.graph_getitems, ")\n");
  if (r.delegate_nodes > 0) out += cat("  nodes inside delegates:        ", r.delegate_nodes, "\n");
  if (r.multiply_adds) {
    out += cat("  multiply-adds inside delegates: ",
               percent(static_cast<double>(*r.delegated_multiply_adds),
                       static_cast<double>(*r.multiply_adds)),
               " of ", fixed(static_cast<double>(*r.multiply_adds) / 1e6, 1), " M\n");
  }
  out += cat(
      "  weight bytes used by delegates: ",
      percent(static_cast<double>(r.delegated_weight_bytes), static_cast<double>(r.weight_bytes)),
      " of ", fixed(static_cast<double>(r.weight_bytes) / 1e6, 2), " MB\n");
  // One reason for everything is said once.
  const std::string common = r.outside.size() > 1 ? r.outside[0].reason : "";
  const bool same =
      !common.empty() && std::all_of(r.outside.begin(), r.outside.end(),
                                     [&](const auto& o) { return o.reason == common; });
  if (same) out += cat("  all outside because ", common, "\n");
  for (const OutsideOperator& o : r.outside) {
    out += cat("  outside: ", o.name, " (", o.count, ")");
    out += same || o.reason.empty() ? "\n" : cat("  because ", o.reason, "\n");
  }
  for (const auto& [module, count] : r.outside_by_module) {
    if (!by_module) break;
    out += cat("  outside in ", module.empty() ? "(no module)" : module, ": ", count, "\n");
  }
  return out;
}

}  // namespace downhaul
