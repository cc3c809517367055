#include <algorithm>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/strings.h"
#include "formats/xnn/xnn.h"

namespace downhaul {
namespace {

constexpr size_t kMaxRank = 6;        // XNN_MAX_TENSOR_DIMS
constexpr size_t kMaxExterns = 4096;  // what the runtime reserves at most

bool good_scale(float scale) { return std::isfinite(scale) && scale > 0; }

class GraphVerifier {
 public:
  explicit GraphVerifier(const XnnGraph& graph) : graph_(graph) {}

  Status run() {
    if (graph_.constants.empty()) return invalid_file("constants lack the dummy entry 0");
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      DH_TRY(check_value(graph_.values[i]).with_context(cat("value ", i)));
    }
    DH_TRY(check_externals());
    defined_.resize(graph_.values.size());
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const XnnValue& v = graph_.values[i];
      defined_[i] = v.constant != 0 || v.flags == XnnValue::kExternalInput;
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Status status = check_node(graph_.nodes[i]);
      if (!status.ok()) {
        return std::move(status).with_context(cat("node ", i, " (", kind_of(graph_.nodes[i]), ")"));
      }
    }
    for (const uint32_t id : graph_.output_ids) {
      if (!defined_[id]) return invalid_file(cat("no node writes output ", id));
    }
    return {};
  }

 private:
  static std::string_view kind_of(const XnnNode& node) {
    const auto number = static_cast<size_t>(node.kind);
    return number >= 1 && number <= kNumXnnNodeKinds ? info(node.kind).name : "unknown kind";
  }

  Status check_value(const XnnValue& v) const {
    const auto type = static_cast<int>(v.datatype);
    if (type < static_cast<int>(XnnDatatype::kFp32) ||
        type > static_cast<int>(XnnDatatype::kBf16)) {
      return invalid_file(cat("unknown datatype ", type));
    }
    if (v.dims.size() > kMaxRank) {
      return invalid_file(cat("rank ", v.dims.size(), ", at most ", kMaxRank));
    }
    // 8 bytes an element cover every datatype.
    uint64_t bytes = 8;
    for (const uint32_t dim : v.dims) {
      const std::optional<uint64_t> next = checked_mul<uint64_t>(bytes, std::max<uint32_t>(dim, 1));
      if (!next)
        return invalid_file(cat("dims [", join(v.dims, ","), "]: their product is too large"));
      bytes = *next;
    }
    if (v.constant != 0) DH_TRY(check_constant(v));
    return check_quant(v);
  }

  Status check_constant(const XnnValue& v) const {
    if (v.constant >= graph_.constants.size()) {
      return invalid_file(
          cat("constant ", v.constant, ", but the payload has ", graph_.constants.size() - 1));
    }
    if (v.flags != 0) return invalid_file("a constant cannot be an external value");
    const std::optional<uint64_t> needed = xnn_constant_bytes(v);
    if (!needed) return invalid_file(cat("a constant cannot have datatype ", name(v.datatype)));
    return check_constant_size(v.constant, *needed);
  }

  Status check_constant_size(uint32_t index, uint64_t needed) const {
    const XnnConstant& constant = graph_.constants[index];
    if (constant.size < needed) {
      return invalid_file(
          cat("constant ", index, " has ", constant.size, " bytes, ", needed, " expected"));
    }
    return {};
  }

  Status check_quant(const XnnValue& v) const {
    const bool fits = [&v] {
      switch (v.datatype) {
        case XnnDatatype::kQInt8:
        case XnnDatatype::kQUInt8:
          return std::holds_alternative<XnnPerTensor>(v.quant);
        case XnnDatatype::kQInt32:
          return std::holds_alternative<XnnPerTensor>(v.quant) ||
                 std::holds_alternative<XnnPerChannel>(v.quant);
        case XnnDatatype::kQCInt8:
        case XnnDatatype::kQCInt32:
        case XnnDatatype::kQCInt4:
          return std::holds_alternative<XnnPerChannel>(v.quant);
        case XnnDatatype::kQDInt8:
        case XnnDatatype::kQPInt8:
          return std::holds_alternative<XnnPerTokenDynamic>(v.quant);
        case XnnDatatype::kQBInt4:
          return std::holds_alternative<XnnPerChannelGroup>(v.quant);
        default:
          return std::holds_alternative<std::monostate>(v.quant);
      }
    }();
    if (!fits) {
      return invalid_file(cat("quantization parameters of another kind than datatype ",
                              name(v.datatype), " needs"));
    }
    if (const auto* q = std::get_if<XnnPerTensor>(&v.quant)) return check_per_tensor(*q, v);
    if (const auto* q = std::get_if<XnnPerChannel>(&v.quant)) {
      DH_TRY(check_axis(q->channel_dim, v));
      return check_scales(*q, v.dims[static_cast<size_t>(q->channel_dim)], sizeof(float), v);
    }
    if (const auto* q = std::get_if<XnnPerTokenDynamic>(&v.quant)) {
      if (q->num_nonbatch_dims < 0 || static_cast<size_t>(q->num_nonbatch_dims) > v.dims.size()) {
        return invalid_file(
            cat("num_nonbatch_dims ", q->num_nonbatch_dims, " for rank ", v.dims.size()));
      }
      return {};
    }
    if (const auto* q = std::get_if<XnnPerChannelGroup>(&v.quant)) return check_group(*q, v);
    return {};
  }

  static Status check_per_tensor(const XnnPerTensor& q, const XnnValue& v) {
    if (!good_scale(q.scale)) {
      return invalid_file(cat("scale ", q.scale, ", expected a finite number above 0"));
    }
    int32_t low = 0;
    int32_t high = 0;
    if (v.datatype == XnnDatatype::kQInt8) {
      low = -128;
      high = 127;
    } else if (v.datatype == XnnDatatype::kQUInt8) {
      high = 255;
    }
    if (q.zero_point < low || q.zero_point > high) {
      return invalid_file(cat("zero point ", q.zero_point, ", expected ", low, " to ", high,
                              " for ", name(v.datatype)));
    }
    return {};
  }

  static Status check_axis(int32_t axis, const XnnValue& v) {
    if (axis < 0 || static_cast<size_t>(axis) >= v.dims.size()) {
      return invalid_file(cat("channel_dim ", axis, " for rank ", v.dims.size()));
    }
    return {};
  }

  Status check_group(const XnnPerChannelGroup& q, const XnnValue& v) const {
    DH_TRY(check_axis(q.channel_dim, v));
    if (v.dims.size() != 2) {
      return invalid_file(cat("rank ", v.dims.size(), ", expected 2 for ", name(v.datatype)));
    }
    const auto axis = static_cast<size_t>(q.channel_dim);
    const uint64_t row = v.dims[1 - axis];
    if (q.group_size <= 0 || row % static_cast<uint64_t>(q.group_size) != 0) {
      return invalid_file(cat("group size ", q.group_size, " does not divide a row of ", row));
    }
    const uint64_t groups = row / static_cast<uint64_t>(q.group_size);
    return check_scales(q, v.dims[axis] * groups, 2, v);
  }

  template <typename Quant>
  Status check_scales(const Quant& q, uint64_t expected, uint64_t item, const XnnValue& v) const {
    const bool in_constant = q.scale_constant != 0;
    const uint64_t count = in_constant ? q.num_scales : q.scales.size();
    if (in_constant && !q.scales.empty()) {
      return invalid_file("scales both inline and in a constant");
    }
    if (count != expected) {
      return invalid_file(cat(count, " scales, expected ", expected));
    }
    if (in_constant) {
      if (q.scale_constant >= graph_.constants.size()) {
        return invalid_file(cat("scales: constant ", q.scale_constant, ", but the payload has ",
                                graph_.constants.size() - 1));
      }
      DH_TRY(check_constant_size(q.scale_constant, count * item).with_context("scales"));
      if (graph_.constants[q.scale_constant].data.empty()) return {};
    }
    DH_ASSIGN(const std::vector<float> scales, xnn_scales(graph_, v));
    for (size_t i = 0; i < scales.size(); ++i) {
      if (!good_scale(scales[i])) {
        return invalid_file(
            cat("scale ", i, " is ", scales[i], ", expected a finite number above 0"));
      }
    }
    return {};
  }

  // External ids number inputs first, then outputs; input_ids and output_ids say the same.
  Status check_externals() const {
    const size_t inputs = graph_.input_ids.size();
    const size_t total = inputs + graph_.output_ids.size();
    if (total > kMaxExterns) {
      return invalid_file(cat(total, " external values, at most ", kMaxExterns));
    }
    size_t flagged = 0;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const XnnValue& v = graph_.values[i];
      if (v.flags == 0) {
        if (v.external_id == kXnnNoId) continue;
        return invalid_file(
            cat("value ", i, ": external id ", v.external_id, ", but neither input nor output"));
      }
      ++flagged;
      const bool input = v.flags == XnnValue::kExternalInput;
      if (!input && v.flags != XnnValue::kExternalOutput) {
        return invalid_file(
            cat("value ", i, ": flags ", v.flags, ", expected 0, 1 (input) or 2 (output)"));
      }
      const size_t begin = input ? 0 : inputs;
      const size_t end = input ? inputs : total;
      if (v.external_id < begin || v.external_id >= end) {
        return invalid_file(cat("value ", i, ": external id ", v.external_id, " of an ",
                                input ? "input" : "output", ", expected ", begin, " to ", end,
                                " - 1"));
      }
      const auto& ids = input ? graph_.input_ids : graph_.output_ids;
      if (ids[v.external_id - begin] != i) {
        return invalid_file(cat("value ", i, ": external id ", v.external_id, " belongs to value ",
                                ids[v.external_id - begin]));
      }
    }
    // Each flagged value has its own slot, so equal counts mean that every slot is taken.
    if (flagged != total) {
      return invalid_file(cat(flagged, " values are inputs or outputs, ", total, " expected"));
    }
    return {};
  }

  Status check_node(const XnnNode& node) {
    const auto number = static_cast<size_t>(node.kind);
    if (number < 1 || number > kNumXnnNodeKinds) return invalid_file(cat("kind ", number));
    const XnnNodeInfo& row = info(node.kind);
    if (node.inputs.size() != row.num_inputs || node.outputs.size() != row.num_outputs) {
      return invalid_file(cat(node.inputs.size(), " inputs and ", node.outputs.size(),
                              " outputs, expected ", row.num_inputs, " and ", row.num_outputs));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const uint32_t id = node.inputs[i];
      const bool bias =
          i == 2 && (row.family == XnnFamily::kConv || row.family == XnnFamily::kFullyConnected);
      if (bias && id == kXnnNoId) continue;
      DH_TRY(check_id(id, "input"));
      if (!defined_[id]) return invalid_file(cat("input ", id, " is not defined before it"));
    }
    for (const uint32_t id : node.outputs) {
      DH_TRY(check_id(id, "output"));
      if (defined_[id]) return invalid_file(cat("output ", id, " is defined before it"));
      defined_[id] = true;
    }
    if (!(node.output_min <= node.output_max)) {
      return invalid_file(cat("output range ", node.output_min, " to ", node.output_max));
    }
    return check_params(node, row.family);
  }

  Status check_id(uint32_t id, std::string_view what) const {
    if (id < graph_.values.size()) return {};
    return invalid_file(
        cat(what, " ", id, ", but the payload has ", graph_.values.size(), " values"));
  }

  const std::vector<uint32_t>& dims(uint32_t id) const { return graph_.values[id].dims; }

  template <typename Params>
  static const Params* params_of(const XnnNode& node) {
    return std::get_if<Params>(&node.params);
  }
  static Status wrong_params() { return invalid_file("parameters of another node family"); }

  Status check_params(const XnnNode& node, XnnFamily family) const {
    const std::vector<uint32_t>& in = dims(node.inputs[0]);
    switch (family) {
      case XnnFamily::kUnary:
      case XnnFamily::kBinary:
      case XnnFamily::kFullyConnected:
      case XnnFamily::kAttention:
        return std::holds_alternative<std::monostate>(node.params) ? Status() : wrong_params();
      case XnnFamily::kConv:
        return check_conv(node);
      case XnnFamily::kPool:
      case XnnFamily::kArgMaxPool:
        return check_pool(node, family == XnnFamily::kPool);
      case XnnFamily::kConcat: {
        const auto* p = params_of<XnnAxis>(node);
        if (p == nullptr) return wrong_params();
        if (p->axis >= in.size())
          return invalid_file(cat("axis ", p->axis, " for rank ", in.size()));
        return {};
      }
      case XnnFamily::kTranspose: {
        const auto* p = params_of<XnnTranspose>(node);
        return p == nullptr ? wrong_params() : check_permutation(p->perm, in.size());
      }
      case XnnFamily::kReshape: {
        const auto* p = params_of<XnnReshape>(node);
        if (p == nullptr) return wrong_params();
        if (p->new_shape.size() > kMaxRank || std::ranges::count(p->new_shape, 0u) > 1) {
          return invalid_file(cat("new shape [", join(p->new_shape, ","), "]: at most ", kMaxRank,
                                  " dimensions, one of them inferred"));
        }
        return {};
      }
      case XnnFamily::kSlice:
        return check_slice(node, in);
      case XnnFamily::kPad: {
        const auto* p = params_of<XnnPad>(node);
        if (p == nullptr) return wrong_params();
        if (p->pre.size() != in.size() || p->post.size() != in.size()) {
          return invalid_file(cat("paddings of ", p->pre.size(), " and ", p->post.size(),
                                  " entries for rank ", in.size()));
        }
        return {};
      }
      case XnnFamily::kResize: {
        const auto* p = params_of<XnnResize>(node);
        if (p == nullptr) return wrong_params();
        if (in.size() != 4 || p->new_height == 0 || p->new_width == 0) {
          return invalid_file(
              cat("resize of rank ", in.size(), " to ", p->new_height, " x ", p->new_width));
        }
        return {};
      }
      case XnnFamily::kAlpha: {
        const auto* p = params_of<XnnAlpha>(node);
        if (p == nullptr) return wrong_params();
        if (!std::isfinite(p->alpha)) return invalid_file(cat("alpha is ", p->alpha));
        return {};
      }
    }
    return {};
  }

  static Status check_permutation(const std::vector<uint32_t>& perm, size_t rank) {
    std::vector<uint32_t> sorted = perm;
    std::ranges::sort(sorted);
    bool good = perm.size() == rank;
    for (size_t i = 0; good && i < rank; ++i) good = sorted[i] == i;
    if (good) return {};
    return invalid_file(
        cat("perm [", join(perm, ","), "] is no permutation of the ", rank, " dimensions"));
  }

  static Status check_slice(const XnnNode& node, const std::vector<uint32_t>& in) {
    const auto* p = params_of<XnnSlice>(node);
    if (p == nullptr) return wrong_params();
    if (p->offsets.size() != in.size() || p->sizes.size() != in.size()) {
      return invalid_file(cat("offsets and sizes of ", p->offsets.size(), " and ", p->sizes.size(),
                              " entries for rank ", in.size()));
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in_range(p->offsets[i], p->sizes[i], in[i])) {
        return invalid_file(
            cat("dimension ", i, ": slice of ", p->sizes[i], " at ", p->offsets[i], " of ", in[i]));
      }
    }
    return {};
  }

  Status check_conv(const XnnNode& node) const {
    const auto* p = params_of<XnnConv>(node);
    if (p == nullptr) return wrong_params();
    if (p->kernel_height == 0 || p->kernel_width == 0 || p->subsampling_height == 0 ||
        p->subsampling_width == 0 || p->dilation_height == 0 || p->dilation_width == 0 ||
        p->groups == 0) {
      return invalid_file("kernel, stride, dilation and groups must be at least 1");
    }
    const std::vector<uint32_t>& filter = dims(node.inputs[1]);
    const uint64_t out = uint64_t{p->groups} * p->group_output_channels;
    const bool depthwise = node.kind == XnnNodeKind::kDepthwiseConv2d;
    const uint64_t first = depthwise ? 1 : out;
    const uint64_t last = depthwise ? out : p->group_input_channels;
    const bool good = dims(node.inputs[0]).size() == 4 && filter.size() == 4 &&
                      filter[0] == first && filter[1] == p->kernel_height &&
                      filter[2] == p->kernel_width && filter[3] == last;
    if (!good) {
      return invalid_file(cat("filter [", join(filter, ","), "], expected [", first, ",",
                              p->kernel_height, ",", p->kernel_width, ",", last,
                              "] and an input of rank 4"));
    }
    if (node.inputs[2] != kXnnNoId) {
      const std::vector<uint32_t>& bias = dims(node.inputs[2]);
      if (bias.size() != 1 || bias[0] != out) {
        return invalid_file(cat("bias [", join(bias, ","), "], expected [", out, "]"));
      }
    }
    return {};
  }

  Status check_pool(const XnnNode& node, bool strided) const {
    const auto* p = params_of<XnnPool>(node);
    if (p == nullptr) return wrong_params();
    if (p->pooling_height == 0 || p->pooling_width == 0) {
      return invalid_file(cat("window of ", p->pooling_height, " x ", p->pooling_width));
    }
    if (strided && (p->stride_height == 0 || p->stride_width == 0)) {
      return invalid_file(cat("stride of ", p->stride_height, " x ", p->stride_width));
    }
    if (dims(node.inputs[0]).size() != 4) {
      return invalid_file(cat("input of rank ", dims(node.inputs[0]).size(), ", expected 4"));
    }
    return {};
  }

  const XnnGraph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

Status verify_xnn_graph(const XnnGraph& graph) { return GraphVerifier(graph).run(); }

}  // namespace downhaul
