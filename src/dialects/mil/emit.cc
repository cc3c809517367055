#include "dialects/mil/emit.h"

#include <map>

#include "base/strings.h"
#include "dialects/mil/builder.h"
#include "dialects/mil/table.h"

namespace downhaul::coreml {
namespace {

constexpr int64_t kMaxRank = 5;

const EmitRow* row_of(const Node& node) {
  static const std::map<const OpDef*, const EmitRow*> kRows = [] {
    std::map<const OpDef*, const EmitRow*> rows;
    for (const auto list : {elementwise_rows(), image_rows(), product_rows(), norm_rows(),
                            shape_rows(), index_rows()}) {
      for (const EmitRow& row : list) rows.emplace(row.op, &row);
    }
    return rows;
  }();
  const auto found = kRows.find(&node.op());
  return found != kRows.end() ? found->second : nullptr;
}

std::string refuse_type(const TensorType& type) {
  if (!type.is_static()) return "sizes of a Core ML program are fixed";
  if (type.rank() > kMaxRank) return cat("Core ML tensors have at most ", kMaxRank, " dimensions");
  switch (type.dtype) {
    case DType::kF32:
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
      return "";
    default:
      return cat("Core ML programs of this compiler hold no ", name(type.dtype));
  }
}

}  // namespace

std::string why_no_spelling(const Node& node, const Target& target) {
  const EmitRow* row = row_of(node);
  if (row == nullptr) return "Core ML has no operation for it here";
  for (int i = 0; i < node.num_results(); ++i) {
    std::string why = refuse_type(node.result(i)->type());
    if (!why.empty()) return why;
  }
  return row->refuse != nullptr ? row->refuse(node, target) : "";
}

Result<EmittedProgram> emit_program(const Graph& graph, const EmitOptions& options) {
  std::map<std::string, int> refused;
  if (!graph.states().empty()) {
    return unsupported("a model that changes buffers of its own is not written for Core ML");
  }
  for (const Value* v : graph.inputs()) {
    const std::string why = refuse_type(v->type());
    if (!why.empty()) return unsupported(cat("input '", printable(v->name()), "': ", why));
  }
  for (const auto& node : graph.nodes()) {
    const std::string why = why_no_spelling(*node, options.target);
    if (!why.empty()) ++refused[cat(node->op_name(), ": ", why)];
  }
  if (!refused.empty()) {
    std::vector<std::string> lines;
    for (const auto& [why, count] : refused) {
      lines.push_back(count > 1 ? cat(why, " (", count, " times)") : why);
    }
    return unsupported(cat("not spelled in Core ML: ", join(lines, "; ")));
  }
  EmittedProgram out;
  ProgramBuilder builder(options, out);
  builder.begin(graph);
  for (const auto& node : graph.nodes()) row_of(*node)->emit(*node, builder);
  DH_TRY(builder.finish(graph));
  return Result<EmittedProgram>(std::move(out));
}

}  // namespace downhaul::coreml
