#include <algorithm>
#include <cstdio>
#include <set>

#include "base/strings.h"
#include "cli/model_flags.h"
#include "cli/verbs.h"
#include "dialects/spellings.h"
#include "dialects/xnn/emit.h"
#include "formats/sniff.h"
#include "ir/text.h"
#include "report/artifact.h"
#include "report/delegation.h"
#include "report/json.h"
#include "report/size.h"
#include "targets/coreml/placement.h"

namespace downhaul {
namespace {

/// What one file shows.
struct Inspection {
  std::string path;
  std::string kind;
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::pair<std::string, std::string>> inputs;   ///< name, type
  std::vector<std::pair<std::string, std::string>> outputs;  ///< name, type
  std::optional<DelegationReport> delegation;
  std::optional<FileSizeReport> size;
  std::optional<coreml::Placement> placement;
  std::map<std::string, int> operators;  ///< of the graph, by IR operator
  struct Weight {
    std::string name;
    std::string type;
    uint64_t bytes = 0;
  };
  std::vector<Weight> largest;  ///< constants of the graph, largest first
  std::string not_followed;     ///< why the file could not be turned into a graph
};

std::string type_of_value(const pte::Value& value) {
  const auto* t = std::get_if<pte::Tensor>(&value);
  if (t == nullptr) return std::string(pte::kind_name(value));
  const char* bound = t->dynamism == pte::Dynamism::kStatic ? "" : " (upper bounds)";
  return cat(pte::scalar_name(t->dtype), "[", join(t->sizes, ","), "]", bound);
}

void take_graph(const Graph& graph, Inspection& out) {
  std::map<std::string, SymbolPtr, std::less<>> symbols;
  for (const Value* v : graph.inputs()) {
    for (const Dim& d : v->type().shape) d.collect_symbols(symbols);
  }
  for (const auto& [name, symbol] : symbols) {
    out.facts.emplace_back(name, symbol->max == INT64_MAX ? cat(symbol->min, " or more")
                                                          : cat(symbol->min, " to ", symbol->max));
  }
  for (const auto& node : graph.nodes()) ++out.operators[std::string(node->op_name())];
  std::set<std::pair<const Storage*, uint64_t>> seen;  // tied weights are one
  for (const Value* c : graph.constants()) {
    const Tensor& t = c->constant();
    if (!seen.emplace(t.storage().get(), t.byte_offset()).second) continue;
    out.largest.push_back({c->name(), c->type().str(), static_cast<uint64_t>(t.num_bytes())});
  }
  constexpr size_t kShown = 5;
  std::stable_sort(out.largest.begin(), out.largest.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  out.largest.resize(std::min(kShown, out.largest.size()));
  out.inputs.clear();
  out.outputs.clear();
  for (const Value* v : graph.inputs()) out.inputs.emplace_back(v->name(), v->type().str());
  for (const Output& o : graph.outputs()) out.outputs.emplace_back(o.name, o.value->type().str());
}

Result<Inspection> inspect_pte(const std::string& path) {
  DH_ASSIGN(auto mapped, MappedFile::open(path));
  DH_ASSIGN(const PteFile file, read_pte(std::move(mapped)));
  Inspection out;
  out.path = path;
  out.kind = "ExecuTorch program";
  const pte::Plan& plan = file.program.plans[0];
  out.facts = {
      {"schema version", cat(file.version)},
      {"methods", cat(file.program.plans.size())},
      {"planned memory",
       cat(plan.non_const_buffer_sizes.size() > 1 ? plan.non_const_buffer_sizes[1] : 0, " bytes")}};
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    out.inputs.emplace_back(cat("input ", i),
                            type_of_value(plan.values[static_cast<size_t>(plan.inputs[i])]));
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    out.outputs.emplace_back(cat("output ", i),
                             type_of_value(plan.values[static_cast<size_t>(plan.outputs[i])]));
  }
  auto raised = raise_program(file);
  if (raised.ok()) {
    take_graph(*raised->graph, out);
    out.delegation = delegation_report(file, &*raised, xnn_refusal);
  } else {
    out.not_followed = raised.status().message();
    out.delegation = delegation_report(file, nullptr);
  }
  out.size = size_report(file);
  return out;
}

Result<Inspection> inspect_graph(const std::string& path, const LoadOptions& options) {
  DH_ASSIGN(const Artifact artifact, load_artifact(path, options));
  Inspection out;
  out.path = path;
  out.kind = artifact.kind == Artifact::Kind::kCheckpoint  ? "checkpoint"
             : artifact.kind == Artifact::Kind::kMlPackage ? "Core ML package"
                                                           : "exported PyTorch program";
  out.facts = artifact.facts;
  take_graph(*artifact.graph, out);
  uint64_t weights = 0;
  int64_t multiply_adds = 0;
  for (const Value* c : artifact.graph->constants()) weights += c->constant().num_bytes();
  for (const auto& node : artifact.graph->nodes()) {
    if (node->op().multiply_adds != nullptr) multiply_adds += node->op().multiply_adds(*node);
  }
  out.facts.emplace_back("constant bytes in the graph", cat(weights));
  const bool fixed_sizes =
      std::all_of(artifact.graph->inputs().begin(), artifact.graph->inputs().end(),
                  [](const Value* v) { return v->type().is_static(); });
  out.facts.emplace_back("multiply-adds",
                         cat(multiply_adds, fixed_sizes ? "" : " at the largest sizes"));
  if (artifact.mil != nullptr) out.placement = coreml::predict_placement(*artifact.mil);
  if (artifact.kind != Artifact::Kind::kPt2) return out;
  DH_ASSIGN(auto mapped, MappedFile::open(path));
  const uint64_t bytes = mapped->bytes().size();
  DH_ASSIGN(const ZipArchive archive, ZipArchive::open(std::move(mapped)));
  DH_ASSIGN(out.size, size_report(archive, bytes));
  return out;
}

Result<Inspection> inspect_file(const std::string& path, const LoadOptions& options) {
  const FileType type = sniff(path);
  if (type == FileType::kPte || path.ends_with(".pte")) return inspect_pte(path);
  return inspect_graph(path, options);
}

std::string text_of(const Inspection& f) {
  std::string out = cat(f.path, "\n", f.kind, "\n");
  for (const auto& [key, value] : f.facts) {
    if (!value.empty()) out += cat("  ", key, ": ", value, "\n");
  }
  for (const auto& [name, type] : f.inputs) out += cat("  in   ", name, ": ", type, "\n");
  for (const auto& [name, type] : f.outputs) out += cat("  out  ", name, ": ", type, "\n");
  if (!f.not_followed.empty()) out += cat("  cannot be run: ", f.not_followed, "\n");
  if (f.delegation) out += print(*f.delegation);
  if (f.size) out += print(*f.size);
  if (f.placement) out += cat("Placement\n", print(*f.placement));
  if (!f.largest.empty()) {
    out += "Largest weights\n";
    for (const auto& w : f.largest) {
      out += cat("  ", printable(w.name), ": ", w.type, ", ", w.bytes, " bytes\n");
    }
  }
  if (!f.operators.empty()) {
    std::vector<std::pair<std::string, int>> sorted(f.operators.begin(), f.operators.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::vector<std::string> parts;
    for (const auto& [op, count] : sorted) parts.push_back(cat(op, " ", count));
    out += cat("Operators  ", join(parts, ", "), "\n");
  }
  return out;
}

/// Figures of several files in columns.
std::string side_by_side(const std::vector<Inspection>& files) {
  struct Row {
    std::string name;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, auto&& cell) {
    Row row{name, {}};
    for (const Inspection& f : files) row.cells.push_back(cell(f));
    rows.push_back(std::move(row));
  };
  const auto of_delegation = [](auto member) {
    return [member](const Inspection& f) {
      return f.delegation ? cat((*f.delegation).*member) : std::string("-");
    };
  };
  add("size, bytes", [](const Inspection& f) { return f.size ? cat(f.size->file_size) : "-"; });
  add("stored twice, bytes",
      [](const Inspection& f) { return f.size ? cat(f.size->duplicated_bytes) : "-"; });
  add("delegate call sites", of_delegation(&DelegationReport::call_sites));
  add("kernel calls outside", of_delegation(&DelegationReport::kernel_calls));
  add("graph nodes outside", of_delegation(&DelegationReport::graph_nodes));
  add("nodes inside", of_delegation(&DelegationReport::delegate_nodes));
  std::map<std::string, int> names;
  for (const Inspection& f : files) {
    if (!f.delegation) continue;
    for (const OutsideOperator& o : f.delegation->outside) ++names[o.name];
  }
  for (const auto& [name, unused] : names) {
    add(cat("  ", name), [&](const Inspection& f) {
      if (!f.delegation) return std::string("-");
      for (const OutsideOperator& o : f.delegation->outside) {
        if (o.name == name) return cat(o.count);
      }
      return std::string("0");
    });
  }
  size_t width = 0;
  for (const Row& r : rows) width = std::max(width, r.name.size());
  std::string out;
  for (size_t i = 0; i < files.size(); ++i) out += cat("[", i + 1, "] ", files[i].path, "\n");
  out += std::string(width, ' ');
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string head = cat("[", i + 1, "]");
    out += std::string(14 - std::min<size_t>(13, head.size()), ' ') + head;
  }
  out += "\n";
  for (const Row& r : rows) {
    out += r.name + std::string(width - r.name.size(), ' ');
    for (const std::string& c : r.cells) {
      out += std::string(14 - std::min<size_t>(13, c.size()), ' ') + c;
    }
    out += "\n";
  }
  return out;
}

void write_json(const Inspection& f, JsonWriter& json) {
  json.begin_object();
  json.field("file", f.path);
  json.field("kind", f.kind);
  json.key("facts").begin_object();
  for (const auto& [key, value] : f.facts) json.field(key, value);
  json.end_object();
  const auto types = [&](const char* key, const auto& list) {
    json.key(key).begin_array();
    for (const auto& [name, type] : list) {
      json.begin_object();
      json.field("name", name);
      json.field("type", type);
      json.end_object();
    }
    json.end_array();
  };
  types("inputs", f.inputs);
  types("outputs", f.outputs);
  if (f.delegation) {
    json.key("delegation");
    write_json(*f.delegation, json);
  }
  if (f.size) {
    json.key("size");
    write_json(*f.size, json);
  }
  if (f.placement) {
    json.key("placement");
    write_json(*f.placement, json);
  }
  json.key("largest_weights").begin_array();
  for (const auto& w : f.largest) {
    json.begin_object();
    json.field("name", w.name);
    json.field("type", w.type);
    json.field("bytes", w.bytes);
    json.end_object();
  }
  json.end_array();
  json.key("operators").begin_object();
  for (const auto& [op, count] : f.operators) json.field(op, count);
  json.end_object();
  if (!f.not_followed.empty()) json.field("cannot_be_run", f.not_followed);
  json.end_object();
}

/// The matrix operator x dialect as a Markdown page.
std::string operator_page() {
  std::string out =
      "# Operators and their spellings\n\n"
      "Made by `downhaul inspect --ops`. Read from ATen: overloads of exported programs. Written "
      "as: "
      "kernels of the\nstock ExecuTorch runtime, nodes of an XNNPACK payload. Only read: further "
      "kernels of files that others made.\nAn operator without a kernel or node is rewritten to "
      "others first.\n\n"
      "| operator | read from ATen | kernel written | kernel only read | XNNPACK node |\n"
      "|---|---|---|---|---|\n";
  const auto cell = [](const std::vector<std::string>& names) {
    return names.empty() ? std::string("-") : join(names, "<br>");
  };
  for (const OpSpellings& s : all_spellings()) {
    out += cat("| `", s.op->schema, "` | ", cell(s.aten), " | ", cell(s.kernels), " | ",
               cell(s.kernels_read), " | ", cell(s.xnnpack), " |\n");
  }
  return out +
         cat("\nRead as compositions of several operators: ", join(composed_overloads(), ", "),
             ".\n");
}

class Inspect final : public Verb {
 public:
  std::string_view name() const override { return "inspect"; }
  std::string_view summary() const override {
    return "Show what is in .pt2 and .pte files: delegation, sizes, operators";
  }
  std::string_view details() const override {
    return "Several files are also shown side by side. --ops is given alone.\n"
           "Example:\n  downhaul inspect ours.pte theirs.pte";
  }
  void declare(Options& o) override {
    o.positionals(&files_, "FILE", ".pt2 and .pte files, whoever made them, and checkpoints",
                  false);
    model_.declare(o);
    o.flag(&ops_, "--ops", "print every operator and its spelling in each format");
    o.flag(&graph_, "--graph", "print the graph in its text form");
    o.flag(&json_, "--json", "print JSON");
  }
  Result<int> run() override {
    if (ops_) {
      if (!files_.empty() || graph_ || json_) {
        return invalid_argument("inspect: --ops prints a page of its own: give it alone");
      }
      std::fputs(operator_page().c_str(), stdout);
      return kExitDone;
    }
    if (files_.empty()) return invalid_argument("inspect: give a FILE");
    std::vector<Inspection> files;
    LoadOptions options;
    DH_ASSIGN(options.model, model_.options());
    for (const std::string& path : files_) {
      DH_ASSIGN(Inspection f, inspect_file(path, options));
      files.push_back(std::move(f));
    }
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.key("files").begin_array();
      for (const Inspection& f : files) write_json(f, json);
      json.end_array();
      json.end_object();
      std::fputs(json.take().c_str(), stdout);
      return kExitDone;
    }
    for (const Inspection& f : files) std::printf("%s\n", text_of(f).c_str());
    if (files.size() > 1) std::fputs(side_by_side(files).c_str(), stdout);
    if (graph_) {
      for (const std::string& path : files_) {
        DH_ASSIGN(const Artifact artifact, load_artifact(path, options));
        std::fputs(print(*artifact.graph).c_str(), stdout);
      }
    }
    return kExitDone;
  }

 private:
  ModelFlags model_;
  std::vector<std::string> files_;
  bool ops_ = false;
  bool graph_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_inspect() { return std::make_unique<Inspect>(); }

}  // namespace downhaul
