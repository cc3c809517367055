// Convolutions, pooling and resampling. One-dimensional forms are the two-dimensional ones on
// images of height 1; tensors without a batch get one of size 1.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "dialects/aten/raise.h"
#include "dialects/aten/shapes.h"

namespace downhaul::aten {
namespace {

// [N, C, L] → [N, C, 1, L]; and back.
Value* with_height(Call& c, Value* v) {
  const Shape shape = dims_of(v);
  if (shape.size() != 3) return v;
  return c.reshape(v, {shape[0], shape[1], Dim(1), shape[2]});
}
Value* without_height(Call& c, Value* v) {
  const Shape shape = dims_of(v);
  if (shape.size() != 4) return v;
  return c.reshape(v, {shape[0], shape[1], shape[3]});
}

// The weight of a one-dimensional convolution; constants keep their storage.
Value* weight_with_height(Call& c, Value* w) {
  if (w == nullptr || w->rank() != 3) return w;
  if (!w->is_constant()) return with_height(c, w);
  const Tensor& t = w->constant();
  return c.builder().constant(t.reshaped({t.size(0), t.size(1), 1, t.size(2)}), w->name());
}

// Per spatial dimension, from a list of that many or of one.
Ints spatial(Call& c, std::string_view name, Ints given, size_t dims) {
  if (given.size() == 1) given.resize(dims, given[0]);
  if (given.size() != dims) {
    c.invalid(cat("argument '", name, "' has ", given.size(), " entries, expected ", dims));
    given.assign(dims, 0);
  }
  return given;
}
Ints spatial(Call& c, std::string_view name, size_t dims) {
  return spatial(c, name, c.ints(name), dims);
}

struct Window {
  size_t dims = 2;  // spatial dimensions of the source operator
  Ints stride;
  Ints dilation;
  Ints padding;  // top, left, bottom, right
  int64_t groups = 1;
};

// Gives one-dimensional parameters their height.
Window with_height(Window w) {
  if (w.dims == 1) {
    w.stride.insert(w.stride.begin(), 1);
    w.dilation.insert(w.dilation.begin(), 1);
    w.padding = {0, w.padding[0], 0, w.padding[1]};
  }
  return w;
}

size_t spatial_dims(Call& c, const Value* weight) {
  const int64_t rank = rank_of(weight);
  if (rank != 3 && rank != 4) {
    c.fail(cat("a weight of rank ", rank, "; convolutions have one or two spatial dimensions"));
    return 2;
  }
  return static_cast<size_t>(rank - 2);
}

Ints symmetric(const Ints& padding) {
  Ints both = padding;
  both.insert(both.end(), padding.begin(), padding.end());
  return both;
}

Out convolved(Call& c, const Window& source, bool transposed, Ints output_padding) {
  Value* input = c.tensor("input");
  Value* weight = c.tensor("weight");
  Value* bias = c.maybe_tensor("bias");
  if (!c.ok()) return {};
  const int64_t rank = static_cast<int64_t>(source.dims) + 2;
  const bool batched = input->rank() == rank;
  if (!batched && input->rank() != rank - 1) {
    c.invalid(cat("an input of rank ", input->rank(), ", expected ", rank));
    return {};
  }
  if (!batched) input = c.reshape(input, replaced(input->shape(), 0, 0, {Dim(1)}));
  const Window w = with_height(source);
  if (source.dims == 1) {
    input = with_height(c, input);
    weight = weight_with_height(c, weight);
  }
  NamedAttrs attrs = {
      {"stride", w.stride}, {"padding", w.padding}, {"dilation", w.dilation}, {"groups", w.groups}};
  Value* y = nullptr;
  if (transposed) {
    if (source.dims == 1) output_padding.insert(output_padding.begin(), 0);
    attrs.emplace_back("output_padding", output_padding);
    y = c.op(ops::kConvTranspose2d, {input, weight, bias}, attrs);
  } else {
    y = c.op(ops::kConv2d, {input, weight, bias}, attrs);
  }
  if (source.dims == 1) y = without_height(c, y);
  if (!batched && y != nullptr) y = c.reshape(y, replaced(y->shape(), 0, 1, {}));
  return y;
}

Window window(Call& c) {
  Window w;
  w.dims = spatial_dims(c, c.tensor("weight"));
  w.stride = spatial(c, "stride", w.dims);
  w.dilation = spatial(c, "dilation", w.dims);
  w.groups = c.i("groups");
  return w;
}

}  // namespace

Out raise_conv(Call& c) {
  Window w = window(c);
  w.padding = symmetric(spatial(c, "padding", w.dims));
  return convolved(c, w, false, {});
}

// Text padding: "same" keeps the size; an odd total puts the extra element behind.
Out raise_conv_padding(Call& c) {
  Window w = window(c);
  const std::string padding = c.s("padding");
  w.padding.assign(w.dims * 2, 0);
  if (padding == "same") {
    Value* weight = c.tensor("weight");
    if (!c.ok()) return {};
    for (size_t d = 0; d < w.dims; ++d) {
      const Dim& kernel = weight->dim(static_cast<int64_t>(d) + 2);
      if (!kernel.is_static() || w.stride[d] != 1) {
        c.invalid("padding 'same' with a stride");
        return {};
      }
      const int64_t total = w.dilation[d] * (kernel.value() - 1);
      w.padding[d] = total / 2;
      w.padding[w.dims + d] = total - total / 2;
    }
  } else if (padding != "valid") {
    c.invalid(cat("padding '", printable(padding), "', expected same or valid"));
    return {};
  }
  return convolved(c, w, false, {});
}

Out raise_conv_transpose(Call& c) {
  Window w = window(c);
  w.padding = symmetric(spatial(c, "padding", w.dims));
  return convolved(c, w, true, spatial(c, "output_padding", w.dims));
}

Out raise_convolution(Call& c) {
  return c.b("transposed") ? raise_conv_transpose(c) : raise_conv(c);
}

namespace {

// Runs `build` on a batch of images [N, C, H, W] made from the argument `self`, and gives the
// result its rank back.
template <typename Build>
Out pooled(Call& c, size_t dims, const Build& build) {
  Value* self = c.tensor("self");
  const int64_t rank = static_cast<int64_t>(dims) + 2;
  if (!c.ok()) return {};
  const bool batched = self->rank() == rank;
  if (!batched && self->rank() != rank - 1) {
    c.invalid(cat("an input of rank ", self->rank(), ", expected ", rank));
    return {};
  }
  if (!batched) self = c.reshape(self, replaced(self->shape(), 0, 0, {Dim(1)}));
  if (dims == 1) self = with_height(c, self);
  Value* y = build(self);
  if (dims == 1) y = without_height(c, y);
  if (!batched && y != nullptr) y = c.reshape(y, replaced(y->shape(), 0, 1, {}));
  return y;
}

struct Pool {
  Ints kernel;
  Ints stride;
  Ints padding;
};

Pool pool_window(Call& c, size_t dims) {
  Pool p;
  p.kernel = spatial(c, "kernel_size", dims);
  const Ints stride = c.ints("stride");
  p.stride = stride.empty() ? p.kernel : spatial(c, "stride", stride, dims);
  p.padding = symmetric(spatial(c, "padding", dims));
  if (dims == 1) {
    p.kernel.insert(p.kernel.begin(), 1);
    p.stride.insert(p.stride.begin(), 1);
    p.padding = {0, p.padding[0], 0, p.padding[1]};
  }
  return p;
}

Out max_pooled(Call& c, size_t dims) {
  const Pool p = pool_window(c, dims);
  Ints dilation = spatial(c, "dilation", dims);
  if (dims == 1) dilation.insert(dilation.begin(), 1);
  return pooled(c, dims, [&](Value* x) {
    return c.op(ops::kMaxPool2d, {x},
                {{"kernel", p.kernel},
                 {"stride", p.stride},
                 {"padding", p.padding},
                 {"dilation", dilation},
                 {"ceil_mode", c.b("ceil_mode")}});
  });
}

Out avg_pooled(Call& c, size_t dims, std::optional<int64_t> divisor) {
  const Pool p = pool_window(c, dims);
  return pooled(c, dims, [&](Value* x) {
    NamedAttrs attrs = {{"kernel", p.kernel},
                        {"stride", p.stride},
                        {"padding", p.padding},
                        {"ceil_mode", c.b("ceil_mode")},
                        {"count_include_pad", c.b("count_include_pad")}};
    if (divisor) attrs.emplace_back("divisor_override", *divisor);
    return c.op(ops::kAvgPool2d, {x}, attrs);
  });
}

}  // namespace

Out raise_max_pool1d(Call& c) { return max_pooled(c, 1); }
Out raise_max_pool2d(Call& c) { return max_pooled(c, 2); }
Out raise_avg_pool1d(Call& c) { return avg_pooled(c, 1, std::nullopt); }
Out raise_avg_pool2d(Call& c) { return avg_pooled(c, 2, c.maybe_i("divisor_override")); }

Out raise_adaptive_avg_pool1d(Call& c) {
  Ints size = spatial(c, "output_size", 1);
  size.insert(size.begin(), 1);
  return pooled(
      c, 1, [&](Value* x) { return c.op(ops::kAdaptiveAvgPool2d, {x}, {{"output_size", size}}); });
}
Out raise_adaptive_avg_pool2d(Call& c) {
  const Ints size = spatial(c, "output_size", 2);
  return pooled(
      c, 2, [&](Value* x) { return c.op(ops::kAdaptiveAvgPool2d, {x}, {{"output_size", size}}); });
}

namespace {

struct Resize {
  Ints size;
  std::optional<double> scale_h;
  std::optional<double> scale_w;
};

NamedAttrs resize_attrs(const Resize& r) {
  NamedAttrs attrs = {{"output_size", r.size}};
  if (r.scale_h) attrs.emplace_back("scale_h", *r.scale_h);
  if (r.scale_w) attrs.emplace_back("scale_w", *r.scale_w);
  return attrs;
}

Resize resize_to_size(Call& c) {
  return {spatial(c, "output_size", 2), c.maybe_f("scales_h"), c.maybe_f("scales_w")};
}

// Either the size or the factors are given; factors also fix the step between source points.
Resize resize_to_either(Call& c, const Value* input) {
  Resize r;
  if (c.has("output_size")) {
    r.size = spatial(c, "output_size", 2);
    return r;
  }
  const Floats factors = c.floats("scale_factors");
  if (!c.ok()) return r;
  if (factors.size() != 2 || input->rank() != 4) {
    c.invalid(cat(factors.size(), " scale factors for an input of rank ", input->rank()));
    return r;
  }
  for (size_t d = 0; d < 2; ++d) {
    const Dim& size = input->dim(static_cast<int64_t>(d) + 2);
    if (!size.is_static()) {
      c.fail(cat("enlarging the dynamic size ", size.str(), " by a factor gives a dynamic size; ",
                 "images are resized to fixed ones only"));
      return r;
    }
    const double scaled = std::floor(static_cast<double>(size.value()) * factors[d]);
    if (!(scaled >= 0) || scaled > 1e9) {
      c.invalid(cat("the scale factor ", factors[d]));
      return r;
    }
    r.size.push_back(static_cast<int64_t>(scaled));
  }
  r.scale_h = factors[0];
  r.scale_w = factors[1];
  return r;
}

Out bilinear(Call& c, Value* input, const Resize& r) {
  NamedAttrs attrs = resize_attrs(r);
  attrs.emplace_back("align_corners", c.b("align_corners"));
  return c.op(ops::kUpsampleBilinear2d, {input}, attrs);
}

}  // namespace

Out raise_upsample_bilinear(Call& c) { return bilinear(c, c.tensor("self"), resize_to_size(c)); }
Out raise_upsample_bilinear_vec(Call& c) {
  Value* input = c.tensor("input");
  return bilinear(c, input, resize_to_either(c, input));
}
Out raise_upsample_nearest(Call& c) {
  Value* input = c.tensor("self");
  return c.op(ops::kUpsampleNearest2d, {input}, resize_attrs(resize_to_size(c)));
}
Out raise_upsample_nearest_vec(Call& c) {
  Value* input = c.tensor("input");
  return c.op(ops::kUpsampleNearest2d, {input}, resize_attrs(resize_to_either(c, input)));
}

}  // namespace downhaul::aten
