#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"
#include "ops/window.h"

// Images resized to output_size, each channel on its own. A step of one result element is 1 / scale
// in the source when a scale is given (it need not be out / in), else in / out.
// Errors: kInvalidGraph for ranks, dtypes, an empty image, a scale that is not positive.
namespace downhaul::ops {

namespace {

TypesResult infer_upsample(const Node& node) {
  DH_ASSIGN(ImageShape image, image_shape(node, "self"));
  DH_TRY(require_ints(node, "output_size", 2, 1));
  if (image.height.max() < 1 || image.width.max() < 1) {
    return invalid_graph(
        cat("self: expected an image that is not empty, found ", node.type("self").str()));
  }
  for (const char* scale : {"scale_h", "scale_w"}) {
    if (node.has_attr(scale) && !(node.f(scale) > 0 && std::isfinite(node.f(scale)))) {
      return invalid_graph(cat(scale, ": expected a positive number, found ", node.f(scale)));
    }
  }
  image.height = Dim(node.ints("output_size")[0]);
  image.width = Dim(node.ints("output_size")[1]);
  return one_type(node.type("self").dtype, image.as(node.s("layout") == "nhwc"));
}

TypesResult infer_bilinear(const Node& node) {
  DH_TRY(require_float(node, "self"));
  return infer_upsample(node);
}

Status require_image(const Tensor& self) {
  for (int64_t d = 1; d < 4; ++d) {
    if (self.size(d) == 0) {
      return invalid_argument(
          cat("self: expected an image that is not empty, found ", describe(self)));
    }
  }
  return {};
}

/// The two source elements of a result element and the weight of the second.
struct Tap {
  int64_t low;
  int64_t high;
  double weight;
};

std::vector<Tap> bilinear_taps(const Node& node, const char* scale, int64_t in, int64_t out) {
  const bool align_corners = node.b("align_corners");
  double step = static_cast<double>(in) / static_cast<double>(out);
  if (align_corners) {
    step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  } else if (node.has_attr(scale)) {
    step = 1 / node.f(scale);
  }
  std::vector<Tap> taps;
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<double>(i);
    const double source = align_corners ? at * step : std::max(0.0, (at + 0.5) * step - 0.5);
    // A given scale may lead beyond the last element, which is then repeated.
    const double inside = std::min(source, static_cast<double>(in - 1));
    const auto low = static_cast<int64_t>(inside);
    taps.push_back({low, std::min(low + 1, in - 1), inside - static_cast<double>(low)});
  }
  return taps;
}

template <typename T>
Status bilinear(RefCall& call) {
  const bool nhwc = call.node.s("layout") == "nhwc";
  DH_TRY(require_image(call.in("self")));
  const Tensor self = to_nchw(call.in("self"), nhwc);
  const int64_t height = call.node.ints("output_size")[0];
  const int64_t width = call.node.ints("output_size")[1];
  const int64_t width_in = self.size(3);
  const std::vector<Tap> rows = bilinear_taps(call.node, "scale_h", self.size(2), height);
  const std::vector<Tap> columns = bilinear_taps(call.node, "scale_w", width_in, width);
  Tensor result(self.dtype(), {self.size(0), self.size(1), height, width});
  const T* plane = self.data<T>();
  T* out = result.mutable_data<T>();
  for (int64_t p = 0; p < self.size(0) * self.size(1); ++p, plane += self.size(2) * width_in) {
    for (const Tap& row : rows) {
      const T* upper = plane + row.low * width_in;
      const T* lower = plane + row.high * width_in;
      const T down = static_cast<T>(row.weight);
      for (const Tap& column : columns) {
        const T right = static_cast<T>(column.weight);
        const T above = upper[column.low] * (T(1) - right) + upper[column.high] * right;
        const T below = lower[column.low] * (T(1) - right) + lower[column.high] * right;
        *out++ = above * (T(1) - down) + below * down;
      }
    }
  }
  call.out() = from_nchw(result, nhwc);
  return {};
}

/// The position is computed in f32, as torch does: at exact halves rounding decides.
std::vector<int64_t> nearest_table(const Node& node, const char* scale, int64_t in, int64_t out) {
  std::vector<int64_t> table(static_cast<size_t>(out));
  const float step = node.has_attr(scale) ? static_cast<float>(1 / node.f(scale))
                                          : static_cast<float>(in) / static_cast<float>(out);
  for (int64_t i = 0; i < out; ++i) {
    const float source = std::floor(static_cast<float>(i) * step);
    table[static_cast<size_t>(i)] =
        source >= static_cast<float>(in) ? in - 1 : static_cast<int64_t>(source);
  }
  return table;
}

Status nearest(RefCall& call) {
  const Tensor& self = call.in("self");
  DH_TRY(require_image(self));
  const size_t h = call.node.s("layout") == "nhwc" ? 1 : 2;
  IndexTables tables;
  for (const int64_t s : self.sizes()) tables.push_back(identity_table(s));
  tables[h] = nearest_table(call.node, "scale_h", self.sizes()[h], call.out().sizes()[h]);
  tables[h + 1] =
      nearest_table(call.node, "scale_w", self.sizes()[h + 1], call.out().sizes()[h + 1]);
  copy_by_tables(self, tables, nullptr, call.out());
  return {};
}

}  // namespace

// upsample_bilinear2d: mixes the two by two elements around the source position of each result
// element: (i + 1/2) · step - 1/2, at least 0; with align_corners i · (in - 1) / (out - 1).
// Positions in f64, mixing in f32 (f64 for f64). Source: aten::upsample_bilinear2d.vec.
const OpDef kUpsampleBilinear2d = {
    .name = "upsample_bilinear2d",
    .schema =
        "upsample_bilinear2d(Tensor self, int[] output_size, bool align_corners=False, float? "
        "scale_h=None, float? scale_w=None, str layout=\"nchw\") -> Tensor",
    .infer = infer_bilinear,
    .axes = image_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return bilinear<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

// upsample_nearest2d: the element at floor(i · step); any dtype. Source:
// aten::upsample_nearest2d.vec.
const OpDef kUpsampleNearest2d = {
    .name = "upsample_nearest2d",
    .schema =
        "upsample_nearest2d(Tensor self, int[] output_size, float? scale_h=None, float? "
        "scale_w=None, str layout=\"nchw\") -> Tensor",
    .infer = infer_upsample,
    .axes = image_axes,
    .reference = nearest,
};

}  // namespace downhaul::ops
