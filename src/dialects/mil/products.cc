// Products of matrices.
#include "dialects/mil/table.h"

namespace downhaul::coreml {
namespace {

// `linear` takes up to three dimensions, and constants.
constexpr int64_t kMaxLinearRank = 3;

bool is_linear(const Node& node) {
  return node.operand(1)->is_constant() && !node.b("weight_transposed") &&
         (node.operand(2) == nullptr || node.operand(2)->is_constant()) &&
         node.operand(0)->rank() <= kMaxLinearRank;
}

void emit_linear(const Node& node, ProgramBuilder& b) {
  const std::string x = b.value(node.operand(0)), weight = b.value(node.operand(1));
  const Value* bias = node.operand(2);
  if (is_linear(node)) {
    std::vector<In> in = {{"x", x}, {"weight", weight}};
    if (bias != nullptr) in.emplace_back("bias", b.value(bias));
    b.result(node, "linear", in);
    return;
  }
  const std::vector<In> in = {{"x", x},
                              {"y", weight},
                              {"transpose_x", b.flag("transpose_x", false)},
                              {"transpose_y", b.flag("transpose_y", !node.b("weight_transposed"))}};
  if (bias == nullptr) {
    b.result(node, "matmul", in);
    return;
  }
  const std::string product = b.step(node, "matmul", in, sizes_of(node.result()));
  b.result(node, "add", {{"x", product}, {"y", b.value(bias)}});
}

void emit_matmul(const Node& node, ProgramBuilder& b) {
  b.result(node, "matmul",
           {{"x", b.value(node.operand(0))},
            {"y", b.value(node.operand(1))},
            {"transpose_x", b.flag("transpose_x", node.b("transpose_self"))},
            {"transpose_y", b.flag("transpose_y", node.b("transpose_other"))}});
}

void emit_channel_matmul(const Node& node, ProgramBuilder& b) {
  b.result(node, "einsum",
           {{"values", {b.value(node.operand(0)), b.value(node.operand(1))}},
            {"equation", b.text("equation", "nchw,nwhu->nchu")}});
}

constexpr EmitRow kRows[] = {
    {&ops::kLinear, nullptr, emit_linear},
    {&ops::kMatmul, nullptr, emit_matmul},
    {&ops::kChannelMatmul, nullptr, emit_channel_matmul},
};

}  // namespace

std::span<const EmitRow> product_rows() { return kRows; }

}  // namespace downhaul::coreml
