// What moves elements.
#include "base/strings.h"
#include "dialects/mil/table.h"

namespace downhaul::coreml {
namespace {

Sizes without_ones(const Sizes& sizes) {
  Sizes out;
  for (const int64_t s : sizes) {
    if (s != 1) out.push_back(s);
  }
  return out;
}

/// The axes of size 1 that `longer` has beyond `shorter`, first ones first; empty when they differ
/// in more.
Ints added_ones(const Sizes& shorter, const Sizes& longer) {
  Ints out;
  size_t at = 0;
  for (size_t i = 0; i < longer.size(); ++i) {
    if (at < shorter.size() && shorter[at] == longer[i]) {
      ++at;
    } else if (longer[i] == 1) {
      out.push_back(static_cast<int64_t>(i));
    } else {
      return {};
    }
  }
  return at == shorter.size() ? out : Ints{};
}

/// Dimensions that only come or go are said as such: cheaper on the device than a reshape.
void emit_reshape(const Node& node, ProgramBuilder& b) {
  const Sizes from = sizes_of(node.operand(0)), to = sizes_of(node.result());
  const std::string x = b.value(node.operand(0));
  if (from == to) {
    b.alias(node.result(), x);
    return;
  }
  if (without_ones(from) == without_ones(to)) {
    if (const Ints axes = added_ones(from, to); to.size() > from.size() && !axes.empty()) {
      b.result(node, "expand_dims", {{"x", x}, {"axes", b.ints("axes", axes)}});
      return;
    }
    if (const Ints axes = added_ones(to, from); from.size() > to.size() && !axes.empty()) {
      b.result(node, "squeeze", {{"x", x}, {"axes", b.ints("axes", axes)}});
      return;
    }
  }
  b.result(node, "reshape", {{"x", x}, {"shape", b.ints("shape", to)}});
}
std::string refuse_reshape(const Node& node, const Target& /*target*/) {
  return node.result()->rank() > 0 || node.operand(0)->rank() == 0
             ? ""
             : "Core ML cannot reshape to a scalar";
}

void emit_permute(const Node& node, ProgramBuilder& b) {
  b.result(node, "transpose",
           {{"x", b.value(node.operand(0))}, {"perm", b.ints("perm", node.ints("dims"))}});
}

void emit_concat(const Node& node, ProgramBuilder& b) {
  std::vector<std::string> values;
  for (const Value* v : node.list()) values.push_back(b.value(v));
  b.result(node, "concat",
           {{"values", std::move(values)},
            {"axis", b.integer("axis", node.axis("dim", node.result()->rank()))},
            {"interleave", b.flag("interleave", false)}});
}

/// All parts with the first of them.
void emit_split(const std::vector<const Node*>& parts, ProgramBuilder& b) {
  const Value* from = parts[0]->operand(0);
  std::vector<std::pair<mil::Type, std::string>> results;
  for (const Node* p : parts) {
    results.emplace_back(b.type_of(p->result()->type()), p->result()->name());
  }
  const auto names =
      b.op_multi("split",
                 {{"x", b.value(from)},
                  {"num_splits", b.integer("num_splits", static_cast<int64_t>(parts.size()))},
                  {"axis", b.integer("axis", parts[0]->axis("dim", from->rank()))}},
                 results);
  for (size_t i = 0; i < parts.size(); ++i) b.alias(parts[i]->result(), names[i]);
}

void emit_slice(const Node& node, ProgramBuilder& b) {
  if (b.written(node)) return;
  if (const auto* parts = b.parts(node)) return emit_split(*parts, b);
  const Sizes sizes = sizes_of(node.operand(0));
  const auto axis = static_cast<size_t>(node.axis("dim", static_cast<int64_t>(sizes.size())));
  Ints begin(sizes.size(), 0), end = sizes, stride(sizes.size(), 1);
  begin[axis] = node.dim("start").value();
  stride[axis] = node.i("step");
  end[axis] = node.dim("end").value();
  std::vector<bool> whole(sizes.size(), true);
  whole[axis] = false;
  std::vector<bool> to_end = whole;
  to_end[axis] = end[axis] == sizes[axis];
  std::vector<In> in = {{"x", b.value(node.operand(0))},
                        {"begin", b.ints("begin", begin)},
                        {"end", b.ints("end", end)},
                        {"begin_mask", b.flags("begin_mask", whole)},
                        {"end_mask", b.flags("end_mask", to_end)}};
  if (stride[axis] != 1) in.emplace_back("stride", b.ints("stride", stride));
  b.result(node, "slice_by_index", in);
}

/// A broadcast as copies; dimensions in front come first.
void emit_expand(const Node& node, ProgramBuilder& b) {
  Sizes from = sizes_of(node.operand(0));
  const Sizes to = sizes_of(node.result());
  std::string x = b.value(node.operand(0));
  if (from == to) {
    b.alias(node.result(), x);
    return;
  }
  if (from.size() < to.size()) {
    Ints front;
    for (size_t i = from.size(); i < to.size(); ++i)
      front.push_back(static_cast<int64_t>(front.size()));
    from.insert(from.begin(), front.size(), 1);
    const std::vector<In> in = {{"x", x}, {"axes", b.ints("axes", front)}};
    if (from == to) {
      b.result(node, "expand_dims", in);
      return;
    }
    x = b.step(node, "expand_dims", in, from);
  }
  Ints reps;
  for (size_t i = 0; i < to.size(); ++i) reps.push_back(from[i] == to[i] ? 1 : to[i]);
  b.result(node, "tile", {{"x", x}, {"reps", b.ints("reps", reps)}});
}

void emit_repeat(const Node& node, ProgramBuilder& b) {
  b.result(node, "tile",
           {{"x", b.value(node.operand(0))}, {"reps", b.ints("reps", node.ints("repeats"))}});
}
std::string refuse_repeat(const Node& node, const Target& /*target*/) {
  return node.operand(0)->rank() == node.result()->rank() ? "" : "it adds dimensions";
}

void emit_flip(const Node& node, ProgramBuilder& b) {
  b.result(node, "reverse",
           {{"x", b.value(node.operand(0))}, {"axes", b.ints("axes", node.ints("dims"))}});
}

std::string refuse_pad(const Node& node, const Target& /*target*/) {
  if (!is_float(node.result()->dtype())) return "Core ML pads floats only";
  if (node.s("mode") != "constant") return cat("mode ", node.s("mode"));
  for (const char* side : {"before", "after"}) {
    for (const int64_t n : node.ints(side)) {
      if (n < 0) return "it crops";
    }
  }
  return "";
}
void emit_pad(const Node& node, ProgramBuilder& b) {
  Ints pad;
  for (size_t i = 0; i < node.ints("before").size(); ++i) {
    pad.push_back(node.ints("before")[i]);
    pad.push_back(node.ints("after")[i]);
  }
  b.result(node, "pad",
           {{"x", b.value(node.operand(0))},
            {"pad", b.ints("pad", pad)},
            {"mode", b.text("mode", "constant")},
            {"constant_val", b.number("constant_val", node.f("value"))}});
}

constexpr EmitRow kRows[] = {
    {&ops::kReshape, refuse_reshape, emit_reshape},
    {&ops::kPermute, nullptr, emit_permute},
    {&ops::kConcat, nullptr, emit_concat},
    {&ops::kSlice, nullptr, emit_slice},
    {&ops::kExpand, nullptr, emit_expand},
    {&ops::kRepeat, refuse_repeat, emit_repeat},
    {&ops::kFlip, nullptr, emit_flip},
    {&ops::kPad, refuse_pad, emit_pad},
};

}  // namespace

std::span<const EmitRow> shape_rows() { return kRows; }

}  // namespace downhaul::coreml
