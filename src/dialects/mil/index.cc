// What picks elements by number.
#include "base/strings.h"
#include "dialects/mil/table.h"

namespace downhaul::coreml {
namespace {

void gather(const Node& node, const std::string& x, const std::string& indices, int64_t axis,
            ProgramBuilder& b) {
  std::vector<In> in = {{"x", x}, {"indices", indices}, {"axis", b.integer("axis", axis)}};
  const int ios = b.options().target.ios;
  if (ios >= 16) in.emplace_back("batch_dims", b.integer("batch_dims", 0));
  if (ios >= 17) in.emplace_back("validate_indices", b.flag("validate_indices", false));
  b.result(node, "gather", in);
}

void emit_embedding(const Node& node, ProgramBuilder& b) {
  gather(node, b.value(node.operand(0)), b.value(node.operand(1)), 0, b);
}
void emit_index_select(const Node& node, ProgramBuilder& b) {
  gather(node, b.value(node.operand(0)), b.value(node.operand(1)),
         node.axis("dim", node.operand(0)->rank()), b);
}

/// Of one batch element: a gather.
void emit_batched_select(const Node& node, ProgramBuilder& b) {
  gather(node, b.value(node.operand(0)), b.value(node.operand(1)), 1, b);
}
std::string refuse_batched_select(const Node& node, const Target& /*target*/) {
  return node.operand(0)->dim(0) == Dim(1) ? "" : "Core ML picks the same row for a whole batch";
}

void emit_gather(const Node& node, ProgramBuilder& b) {
  std::vector<In> in = {{"x", b.value(node.operand(0))},
                        {"indices", b.value(node.operand(1))},
                        {"axis", b.integer("axis", node.axis("dim", node.operand(0)->rank()))}};
  if (b.options().target.ios >= 17) {
    in.emplace_back("validate_indices", b.flag("validate_indices", false));
  }
  b.result(node, "gather_along_axis", in);
}

constexpr EmitRow kRows[] = {
    {&ops::kEmbedding, nullptr, emit_embedding},
    {&ops::kIndexSelect, nullptr, emit_index_select},
    {&ops::kBatchedSelect, refuse_batched_select, emit_batched_select},
    {&ops::kGather, nullptr, emit_gather},
};

}  // namespace

std::span<const EmitRow> index_rows() { return kRows; }

}  // namespace downhaul::coreml
