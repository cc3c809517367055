// Nodes that move data, clamp, and conversions.
#include <limits>

#include "base/strings.h"
#include "dialects/xnn/spelling.h"
#include "ops/ops.h"

namespace downhaul::xnn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<uint32_t> to_u32(const Ints& values) {
  return std::vector<uint32_t>(values.begin(), values.end());
}
Ints to_ints(const std::vector<uint32_t>& values) { return Ints(values.begin(), values.end()); }

}  // namespace

std::string refuse_clamp(const Node&) { return ""; }

void emit_clamp(const Node& node, PayloadBuilder& out) {
  const uint32_t x = out.use(node.operand(0));
  XnnNode& xnn = out.add(XnnNodeKind::kClamp, {x}, out.define(node.result()));
  xnn.output_min = node.has_attr("min") ? static_cast<float>(node.f("min")) : -kInfinity;
  xnn.output_max = node.has_attr("max") ? static_cast<float>(node.f("max")) : kInfinity;
}

// The range itself is applied by the caller, as it is for fused ones.
Result<Value*> raise_clamp(RaiseCall& call) { return call.input(0); }

// reshape: one size may be left open (0), so one may be dynamic.
std::string refuse_reshape(const Node& node) {
  int dynamic = 0;
  for (const Dim& d : node.dims("shape")) dynamic += d.is_static() ? 0 : 1;
  if (dynamic > 1) return "a reshape to more than one dynamic size";
  return "";
}

void emit_reshape(const Node& node, PayloadBuilder& out) {
  const uint32_t x = out.use(node.operand(0));
  XnnReshape reshape;
  for (const Dim& d : node.dims("shape")) {
    reshape.new_shape.push_back(d.is_static() ? static_cast<uint32_t>(d.value()) : 0);
  }
  if (reshape.new_shape.empty()) reshape.new_shape.push_back(1);
  out.add(XnnNodeKind::kStaticReshape, {x}, out.define(node.result()), std::move(reshape));
}

Result<Value*> raise_reshape(RaiseCall& call) {
  DH_ASSIGN(Value * x, call.input(0));
  const std::vector<uint32_t>& new_shape = call.params<XnnReshape>().new_shape;
  Dim known = 1;
  Dims shape;
  size_t open = new_shape.size();
  for (size_t i = 0; i < new_shape.size(); ++i) {
    shape.push_back(Dim(new_shape[i]));
    if (new_shape[i] == 0) {
      open = i;
    } else {
      known = known * Dim(new_shape[i]);
    }
  }
  if (open < shape.size()) {
    const std::optional<Dim> rest = num_elements(x->shape()).divided_by(known);
    if (!rest) {
      return invalid_file(
          cat("cannot divide ", num_elements(x->shape()).str(), " elements by ", known.str()));
    }
    shape[open] = *rest;
  }
  return call.b.op(ops::kReshape, {x}, {{"shape", shape}});
}

std::string refuse_permute(const Node&) { return ""; }

void emit_permute(const Node& node, PayloadBuilder& out) {
  const uint32_t x = out.use(node.operand(0));
  out.add(XnnNodeKind::kStaticTranspose, {x}, out.define(node.result()),
          XnnTranspose{to_u32(node.ints("dims"))});
}

Result<Value*> raise_permute(RaiseCall& call) {
  DH_ASSIGN(Value * x, call.input(0));
  return call.b.op(ops::kPermute, {x}, {{"dims", to_ints(call.params<XnnTranspose>().perm)}});
}

// slice: static bounds. A size of 0 means the whole dimension, whatever its size in a run.
std::string refuse_slice(const Node& node) {
  if (node.i("step") != 1) return "a slice with a step";
  const Value* x = node.operand(0);
  const int64_t axis = node.axis("dim", x->rank());
  const Dim& start = node.dim("start");
  const Dim& end = node.dim("end");
  const bool whole = start == Dim(0) && end == x->dim(axis);
  if (!whole && !(start.is_static() && end.is_static())) return "a slice with dynamic bounds";
  return "";
}

void emit_slice(const Node& node, PayloadBuilder& out) {
  const Value* value = node.operand(0);
  const uint32_t x = out.use(value);
  const auto axis = static_cast<size_t>(node.axis("dim", value->rank()));
  XnnSlice slice;
  for (const Dim& d : value->shape()) {
    slice.offsets.push_back(0);
    slice.sizes.push_back(d.is_static() ? static_cast<uint32_t>(d.value()) : 0);
  }
  const Dim& start = node.dim("start");
  const Dim& end = node.dim("end");
  if (end.is_static()) {
    slice.offsets[axis] = static_cast<uint32_t>(start.value());
    slice.sizes[axis] = static_cast<uint32_t>(end.value() - start.value());
  }
  out.add(XnnNodeKind::kStaticSlice, {x}, out.define(node.result()), std::move(slice));
}

Result<Value*> raise_slice(RaiseCall& call) {
  DH_ASSIGN(Value * x, call.input(0));
  const XnnSlice& slice = call.params<XnnSlice>();
  if (slice.sizes.size() != x->shape().size()) {
    return invalid_file(cat("a slice of ", slice.sizes.size(), " dimensions of ", x->type().str()));
  }
  for (size_t i = 0; i < slice.sizes.size() && x != nullptr; ++i) {
    const Dim whole = x->dim(static_cast<int64_t>(i));
    const Dim start(slice.offsets[i]);
    const Dim end = slice.sizes[i] == 0 ? whole : start + Dim(slice.sizes[i]);
    // Stock files state the size at the upper bound for a dimension they take whole.
    if (start == Dim(0) && (end == whole || (!whole.is_static() && end == Dim(whole.max())))) {
      continue;
    }
    x = call.b.op(ops::kSlice, {x},
                  {{"dim", static_cast<int64_t>(i)}, {"start", start}, {"end", end}});
  }
  return x;
}

std::string refuse_concat(const Node& node) {
  const size_t count = node.list().size();
  if (count < 2 || count > 5) return cat("a concatenation of ", count, " tensors (2 to 5 fit)");
  return "";
}

void emit_concat(const Node& node, PayloadBuilder& out) {
  constexpr XnnNodeKind kKinds[] = {XnnNodeKind::kConcatenate2, XnnNodeKind::kConcatenate3,
                                    XnnNodeKind::kConcatenate4, XnnNodeKind::kConcatenate5};
  std::vector<uint32_t> inputs;
  for (const Value* v : node.list()) inputs.push_back(out.use(v));
  const auto axis = static_cast<uint32_t>(node.axis("dim", node.result()->rank()));
  const XnnNodeKind kind = kKinds[inputs.size() - 2];
  out.add(kind, std::move(inputs), out.define(node.result()), XnnAxis{axis});
}

Result<Value*> raise_concat(RaiseCall& call) {
  std::vector<Value*> inputs;
  for (size_t i = 0; i < call.node().inputs.size(); ++i) {
    DH_ASSIGN(Value * x, call.input(i));
    inputs.push_back(x);
  }
  return call.b.op(ops::kConcat, inputs,
                   {{"dim", static_cast<int64_t>(call.params<XnnAxis>().axis)}});
}

std::string refuse_pad(const Node& node) {
  if (node.s("mode") != "constant") return cat("padding in mode ", node.s("mode"));
  for (const char* side : {"before", "after"}) {
    for (int64_t p : node.ints(side)) {
      if (p < 0) return "negative padding";
    }
  }
  return "";
}

void emit_pad(const Node& node, PayloadBuilder& out) {
  const uint32_t x = out.use(node.operand(0));
  out.add(XnnNodeKind::kStaticConstantPad, {x}, out.define(node.result()),
          XnnPad{to_u32(node.ints("before")), to_u32(node.ints("after")),
                 static_cast<float>(node.f("value"))});
}

Result<Value*> raise_pad(RaiseCall& call) {
  DH_ASSIGN(Value * x, call.input(0));
  const XnnPad& pad = call.params<XnnPad>();
  return call.b.op(ops::kPad, {x},
                   {{"before", to_ints(pad.pre)},
                    {"after", to_ints(pad.post)},
                    {"value", static_cast<double>(pad.value)}});
}

// Both ends of a conversion are f32 in the IR; rounding to the output's quantization is applied by
// the caller, as it is for every other node.
Result<Value*> raise_convert(RaiseCall& call) { return call.input(0); }
Result<Value*> raise_copy(RaiseCall& call) { return call.input(0); }

}  // namespace downhaul::xnn
