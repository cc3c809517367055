#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/strings.h"
#include "formats/xnn/xnn.h"
#include "xnn_generated.h"

namespace downhaul {
namespace {

namespace fb = fb_xnn;

// ---- the header ----

constexpr std::string_view kMagic = "XH00";
constexpr std::string_view kOldIdentifier = "XN00";
constexpr uint64_t kHeaderBytes = 32;  // 30 and two bytes of padding
constexpr uint16_t kHeaderLength = 30;
constexpr uint64_t kAlignment = 16;
constexpr uint64_t kMaxFlatbuffer = uint64_t{1} << 31;
constexpr uint64_t kByName = ~uint64_t{0};  // offset of a constant that has a name
// What a small payload may take in memory; larger ones may take as much again as they are long.
constexpr uint64_t kBaseMemory = 32u << 20;

// ---- which field of a node's table is what ----

// Field ids as in the schema; a vtable slot is 4 + 2 * id.
struct FamilyFields {
  XnnFamily family;
  std::array<int8_t, 5> inputs;
  std::array<int8_t, 2> outputs;
  int8_t flags;
};
constexpr int8_t kNone = -1;
constexpr std::array<FamilyFields, 14> kFamilyFields = {{
    {XnnFamily::kUnary, {0, kNone, kNone, kNone, kNone}, {1, kNone}, 2},
    {XnnFamily::kBinary, {0, 1, kNone, kNone, kNone}, {2, kNone}, 3},
    {XnnFamily::kFullyConnected, {0, 1, 2, kNone, kNone}, {3, kNone}, 4},
    {XnnFamily::kConv, {15, 16, 17, kNone, kNone}, {18, kNone}, 19},
    {XnnFamily::kPool, {10, kNone, kNone, kNone, kNone}, {11, kNone}, 12},
    {XnnFamily::kArgMaxPool, {6, kNone, kNone, kNone, kNone}, {7, 8}, 9},
    {XnnFamily::kConcat, {1, 2, 3, 4, 7}, {5, kNone}, 6},
    {XnnFamily::kTranspose, {2, kNone, kNone, kNone, kNone}, {3, kNone}, 4},
    {XnnFamily::kReshape, {2, kNone, kNone, kNone, kNone}, {3, kNone}, 4},
    {XnnFamily::kSlice, {3, kNone, kNone, kNone, kNone}, {4, kNone}, 5},
    {XnnFamily::kPad, {3, kNone, kNone, kNone, kNone}, {4, kNone}, 5},
    {XnnFamily::kResize, {2, kNone, kNone, kNone, kNone}, {3, kNone}, 4},
    {XnnFamily::kAlpha, {1, kNone, kNone, kNone, kNone}, {2, kNone}, 3},
    {XnnFamily::kAttention, {0, 1, 2, 3, 4}, {5, kNone}, 6},
}};

// Numeric parameters in the order of their field ids, from 0.
constexpr std::array<uint32_t XnnConv::*, 15> kConvFields = {
    &XnnConv::padding_top,
    &XnnConv::padding_right,
    &XnnConv::padding_bottom,
    &XnnConv::padding_left,
    &XnnConv::kernel_height,
    &XnnConv::kernel_width,
    &XnnConv::subsampling_height,
    &XnnConv::subsampling_width,
    &XnnConv::dilation_height,
    &XnnConv::dilation_width,
    &XnnConv::group_input_channels,
    &XnnConv::group_output_channels,
    &XnnConv::groups,
    &XnnConv::adjustment_height,
    &XnnConv::adjustment_width,
};
constexpr std::array<uint32_t XnnPool::*, 10> kPoolFields = {
    &XnnPool::padding_top,    &XnnPool::padding_right,  &XnnPool::padding_bottom,
    &XnnPool::padding_left,   &XnnPool::pooling_height, &XnnPool::pooling_width,
    &XnnPool::stride_height,  &XnnPool::stride_width,   &XnnPool::dilation_height,
    &XnnPool::dilation_width,
};
constexpr size_t kNumArgMaxPoolFields = 6;  // without stride and dilation

const FamilyFields& fields_of(XnnFamily family) {
  const auto row = std::ranges::find(kFamilyFields, family, &FamilyFields::family);
  DH_CHECK(row != kFamilyFields.end());
  return *row;
}

constexpr flatbuffers::voffset_t slot(size_t field) {
  return static_cast<flatbuffers::voffset_t>(4 + 2 * field);
}

template <typename T>
T load(Bytes bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T>
void store(std::vector<uint8_t>& bytes, uint64_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

// ---- reading ----

class PayloadReader {
 public:
  PayloadReader(Bytes payload, const XnnNamedLookup& lookup)
      : payload_(payload), lookup_(lookup), left_(kBaseMemory + payload.size()) {}

  Result<XnnGraph> run() {
    DH_TRY(read_header());
    Bytes flatbuffer = payload_.subspan(flatbuffer_at_, flatbuffer_size_);
    // A payload that lies badly in its file is read from an aligned copy.
    std::vector<uint64_t> aligned;
    if (reinterpret_cast<uintptr_t>(flatbuffer.data()) % alignof(uint64_t) != 0) {
      DH_TRY(take(flatbuffer.size()));
      aligned.resize((flatbuffer.size() + 7) / 8);
      std::memcpy(aligned.data(), flatbuffer.data(), flatbuffer.size());
      flatbuffer = {reinterpret_cast<const uint8_t*>(aligned.data()), flatbuffer.size()};
    }
    const std::string_view identifier = as_text(flatbuffer.subspan(4, 4));
    if (identifier != fb::GraphIdentifier() && identifier != kOldIdentifier) {
      return invalid_file(
          cat("identifier '", printable(identifier), "', expected '", fb::GraphIdentifier(), "'"));
    }
    flatbuffers::Verifier::Options options;
    options.max_tables = static_cast<flatbuffers::uoffset_t>(1'000'000 + flatbuffer.size() / 32);
    flatbuffers::Verifier verifier(flatbuffer.data(), flatbuffer.size(), options);
    if (!verifier.VerifyBuffer<fb::Graph>(nullptr)) {
      return invalid_file(cat("the flatbuffer of ", flatbuffer.size(),
                              " bytes is damaged (an offset or length points outside)"));
    }
    const fb::Graph& root = *fb::GetGraph(flatbuffer.data());
    DH_TRY(read_constants(root, flatbuffer));
    DH_TRY(read_values(root));
    DH_TRY(read_externals(root));
    DH_TRY(read_nodes(root));
    DH_TRY(verify_xnn_graph(graph_));
    return std::move(graph_);
  }

 private:
  // Every allocation of unknown size is asked for here first.
  Status take(uint64_t bytes) {
    if (bytes > left_) {
      return invalid_file(
          "the payload refers to the same tables so often that it will not be read");
    }
    left_ -= bytes;
    return {};
  }

  template <typename T>
  Status copy_vector(const flatbuffers::Vector<T>* from, std::vector<T>& to) {
    if (from == nullptr) return {};
    DH_TRY(take(32 + uint64_t{from->size()} * sizeof(T)));
    to.assign(from->begin(), from->end());
    return {};
  }

  Status read_header() {
    if (payload_.size() < 8) {
      return invalid_file(cat("an XNNPACK payload of ", payload_.size(), " bytes"));
    }
    if (as_text(payload_.subspan(4, 4)) != kMagic) {
      flatbuffer_size_ = payload_.size();
    } else {
      if (payload_.size() < kHeaderBytes) {
        return invalid_file(
            cat("an XNNPACK payload of ", payload_.size(), " bytes, shorter than its header"));
      }
      const auto length = load<uint16_t>(payload_, 8);
      if (length < kHeaderLength) {
        return invalid_file(cat("header of ", length, " bytes, expected ", kHeaderLength));
      }
      flatbuffer_at_ = load<uint32_t>(payload_, 10);
      flatbuffer_size_ = load<uint32_t>(payload_, 14);
      const uint64_t constants_at = load<uint32_t>(payload_, 18);
      const auto constants_size = load<uint64_t>(payload_, 22);
      if (!in_range(flatbuffer_at_, flatbuffer_size_, payload_.size()) || flatbuffer_size_ < 8) {
        return invalid_file(cat("flatbuffer of ", flatbuffer_size_, " bytes at ", flatbuffer_at_,
                                " in a payload of ", payload_.size()));
      }
      if (!in_range(constants_at, constants_size, payload_.size()) ||
          constants_at < flatbuffer_at_ + flatbuffer_size_) {
        return invalid_file(cat("constants of ", constants_size, " bytes at ", constants_at,
                                " in a payload of ", payload_.size(), " with a flatbuffer up to ",
                                flatbuffer_at_ + flatbuffer_size_));
      }
      constants_ = payload_.subspan(constants_at, constants_size);
    }
    if (flatbuffer_size_ >= kMaxFlatbuffer) {
      return invalid_file(
          cat("flatbuffer of ", flatbuffer_size_, " bytes, at most ", kMaxFlatbuffer - 1));
    }
    return {};
  }

  Status read_constants(const fb::Graph& root, Bytes flatbuffer) {
    const auto* data = root.constant_data();
    const auto* buffers = root.constant_buffer();
    const bool old = data == nullptr || data->size() == 0;
    const uint32_t count = !old ? data->size() : (buffers == nullptr ? 0 : buffers->size());
    if (count == 0) return {};
    DH_TRY(take(count * uint64_t{sizeof(XnnConstant)}));
    graph_.constants.resize(count);
    for (uint32_t i = 1; i < count; ++i) {
      XnnConstant& out = graph_.constants[i];
      if (old) {
        if (const auto* storage = buffers->Get(i)->storage()) {
          out.size = storage->size();
          const auto at = static_cast<uint64_t>(storage->data() - flatbuffer.data());
          out.data = payload_.subspan(flatbuffer_at_ + at, out.size);
        }
        continue;
      }
      DH_TRY(read_constant(*data->Get(i), out).with_context(cat("constant ", i)));
    }
    return {};
  }

  Status read_constant(const fb::Constant& constant, XnnConstant& out) {
    out.size = constant.size();
    if (constant.offset() != kByName) {
      if (constant.named_key() != nullptr && constant.named_key()->size() > 0) {
        return invalid_file(cat("both a name and an offset (", constant.offset(), ")"));
      }
      if (!in_range(constant.offset(), out.size, constants_.size())) {
        return invalid_file(cat(out.size, " bytes at ", constant.offset(),
                                " lie outside the inline constants of ", constants_.size()));
      }
      out.data = constants_.subspan(constant.offset(), out.size);
      return {};
    }
    if (constant.named_key() == nullptr || constant.named_key()->size() == 0) {
      return invalid_file("neither a name nor an offset");
    }
    DH_TRY(take(constant.named_key()->size()));
    out.named_key = constant.named_key()->str();
    if (!lookup_) return {};
    const std::optional<Bytes> found = lookup_(out.named_key);
    if (!found) {
      return invalid_file(
          cat("the program has no named data '", printable(out.named_key, 80), "'"));
    }
    if (found->size() < out.size) {
      return invalid_file(cat("named data '", printable(out.named_key, 80), "' has ", found->size(),
                              " bytes, expected ", out.size));
    }
    out.data = found->first(out.size);
    return {};
  }

  Status read_values(const fb::Graph& root) {
    if (root.xvalues() == nullptr) return invalid_file("xvalues is missing");
    DH_TRY(take(uint64_t{root.xvalues()->size()} * (sizeof(XnnValue) + 64)));
    graph_.values.reserve(root.xvalues()->size());
    for (const fb::Value* value : *root.xvalues()) {
      const auto position = static_cast<uint32_t>(graph_.values.size());
      XnnValue out;
      uint32_t id = 0;
      DH_TRY(read_value(*value, out, id).with_context(cat("value ", position)));
      if (!position_of_.emplace(id, position).second || id == kXnnNoId) {
        return invalid_file(cat("value ", position, ": id ", id, " is taken"));
      }
      graph_.values.push_back(std::move(out));
    }
    return {};
  }

  Status read_value(const fb::Value& value, XnnValue& out, uint32_t& id) {
    const fb::Tensor* tensor = value.xvalue_union_as_Tensor();
    const fb::QuantizedTensor* quantized = value.xvalue_union_as_QuantizedTensor();
    if (quantized != nullptr) tensor = quantized->tensor_value();
    if (tensor == nullptr) {
      return invalid_file(cat("unknown type ", static_cast<int>(value.xvalue_union_type()),
                              ", or its table is missing"));
    }
    out.datatype = static_cast<XnnDatatype>(tensor->datatype());
    DH_TRY(copy_vector(tensor->dims(), out.dims));
    if (out.dims.size() != tensor->num_dims()) {
      return invalid_file(
          cat("num_dims ", tensor->num_dims(), ", but dims has ", out.dims.size(), " entries"));
    }
    if (tensor->dq_datatype() != 0) {
      return unsupported("dq_datatype, which only runtimes before 2024 understood");
    }
    out.constant = tensor->constant_buffer_idx();
    out.external_id = tensor->external_id();
    out.flags = tensor->flags();
    id = tensor->id_out();
    return quantized == nullptr ? Status() : read_quant(*quantized, out.quant);
  }

  Status read_quant(const fb::QuantizedTensor& value, XnnQuant& out) {
    if (const auto* q = value.quant_params_as_PerTensor()) {
      out = XnnPerTensor{.scale = q->scale(), .zero_point = q->zero_point()};
      return {};
    }
    if (const auto* q = value.quant_params_as_PerTokenDynamic()) {
      out = XnnPerTokenDynamic{.num_nonbatch_dims = q->num_nonbatch_dims()};
      return {};
    }
    if (const auto* q = value.quant_params_as_PerChannel()) {
      XnnPerChannel to{.scales = {},
                       .channel_dim = q->channel_dim(),
                       .scale_constant = q->scale_buffer_idx(),
                       .num_scales = q->num_scales()};
      DH_TRY(copy_vector(q->scale(), to.scales));
      out = std::move(to);
      return {};
    }
    if (const auto* q = value.quant_params_as_PerChannelGroup()) {
      XnnPerChannelGroup to{.scales = {},
                            .channel_dim = q->channel_dim(),
                            .group_size = q->group_size(),
                            .scale_constant = q->scale_buffer_idx(),
                            .num_scales = q->num_scales()};
      DH_TRY(copy_vector(q->scale(), to.scales));
      out = std::move(to);
      return {};
    }
    return invalid_file(cat("unknown kind ", static_cast<int>(value.quant_params_type()),
                            " of quantization parameters, or their table is missing"));
  }

  // The runtime goes by flags and external ids, so the lists are made from them; input_ids and
  // output_ids of the file are hints for other tools and not trusted.
  Status read_externals(const fb::Graph& root) {
    std::vector<std::pair<uint32_t, uint32_t>> inputs;  // external id, value
    std::vector<std::pair<uint32_t, uint32_t>> outputs;
    for (uint32_t i = 0; i < graph_.values.size(); ++i) {
      const XnnValue& v = graph_.values[i];
      if (v.flags == XnnValue::kExternalInput) inputs.emplace_back(v.external_id, i);
      if (v.flags == XnnValue::kExternalOutput) outputs.emplace_back(v.external_id, i);
    }
    if (root.num_externs() != inputs.size() + outputs.size()) {
      return invalid_file(cat("num_externs ", root.num_externs(), ", but there are ", inputs.size(),
                              " inputs and ", outputs.size(), " outputs"));
    }
    std::ranges::sort(inputs);
    std::ranges::sort(outputs);
    for (const auto& [external, id] : inputs) graph_.input_ids.push_back(id);
    for (const auto& [external, id] : outputs) graph_.output_ids.push_back(id);
    return {};
  }

  Status read_nodes(const fb::Graph& root) {
    if (root.xnodes() == nullptr) return invalid_file("xnodes is missing");
    DH_TRY(take(uint64_t{root.xnodes()->size()} * (sizeof(XnnNode) + 64)));
    graph_.nodes.reserve(root.xnodes()->size());
    for (const fb::Node* node : *root.xnodes()) {
      XnnNode out;
      DH_TRY(read_node(*node, out).with_context(cat("node ", graph_.nodes.size())));
      graph_.nodes.push_back(std::move(out));
    }
    return {};
  }

  Status read_node(const fb::Node& node, XnnNode& out) {
    const auto type = static_cast<size_t>(node.xnode_union_type());
    if (type < 1 || type > kNumXnnNodeKinds) return invalid_file(cat("unknown kind ", type));
    if (node.xnode_union() == nullptr) return invalid_file("its table is missing");
    out.kind = static_cast<XnnNodeKind>(type);
    out.debug_handle = node.debug_handle();
    if (const fb::MinMax* range = node.output_min_max()) {
      out.output_min = range->output_min();
      out.output_max = range->output_max();
    }
    const XnnNodeInfo& row = info(out.kind);
    const FamilyFields& fields = fields_of(row.family);
    const auto& table = *static_cast<const flatbuffers::Table*>(node.xnode_union());
    for (size_t i = 0; i < row.num_inputs; ++i) {
      DH_TRY(add_id(number(table, static_cast<size_t>(fields.inputs[i])), out.inputs));
    }
    for (size_t i = 0; i < row.num_outputs; ++i) {
      DH_TRY(add_id(number(table, static_cast<size_t>(fields.outputs[i])), out.outputs));
    }
    out.flags = number(table, static_cast<size_t>(fields.flags));
    return read_params(table, row.family, out.params);
  }

  static uint32_t number(const flatbuffers::Table& table, size_t field) {
    return table.GetField<uint32_t>(slot(field), 0);
  }
  static float real(const flatbuffers::Table& table, size_t field) {
    return table.GetField<float>(slot(field), 0);
  }
  Status numbers(const flatbuffers::Table& table, size_t field, std::vector<uint32_t>& out) {
    return copy_vector(table.GetPointer<const flatbuffers::Vector<uint32_t>*>(slot(field)), out);
  }

  Status add_id(uint32_t id, std::vector<uint32_t>& out) const {
    if (id == kXnnNoId) {  // an absent bias; verify_xnn_graph knows where that is allowed
      out.push_back(id);
      return {};
    }
    const auto found = position_of_.find(id);
    if (found == position_of_.end()) return invalid_file(cat("value id ", id, " does not exist"));
    out.push_back(found->second);
    return {};
  }

  Status read_params(const flatbuffers::Table& table, XnnFamily family, XnnParams& out) {
    switch (family) {
      case XnnFamily::kConv: {
        auto& p = out.emplace<XnnConv>();
        for (size_t i = 0; i < kConvFields.size(); ++i) p.*kConvFields[i] = number(table, i);
        return {};
      }
      case XnnFamily::kPool:
      case XnnFamily::kArgMaxPool: {
        auto& p = out.emplace<XnnPool>();
        const size_t n = family == XnnFamily::kPool ? kPoolFields.size() : kNumArgMaxPoolFields;
        for (size_t i = 0; i < n; ++i) p.*kPoolFields[i] = number(table, i);
        return {};
      }
      case XnnFamily::kConcat:
        out = XnnAxis{number(table, 0)};
        return {};
      case XnnFamily::kTranspose: {
        auto& p = out.emplace<XnnTranspose>();
        DH_TRY(numbers(table, 1, p.perm));
        return check_num_dims(table, p.perm.size());
      }
      case XnnFamily::kReshape: {
        auto& p = out.emplace<XnnReshape>();
        DH_TRY(numbers(table, 1, p.new_shape));
        return check_num_dims(table, p.new_shape.size());
      }
      case XnnFamily::kSlice: {
        auto& p = out.emplace<XnnSlice>();
        DH_TRY(numbers(table, 1, p.offsets));
        DH_TRY(numbers(table, 2, p.sizes));
        return check_num_dims(table, p.offsets.size());
      }
      case XnnFamily::kPad: {
        auto& p = out.emplace<XnnPad>();
        DH_TRY(numbers(table, 0, p.pre));
        DH_TRY(numbers(table, 1, p.post));
        p.value = real(table, 2);
        return {};
      }
      case XnnFamily::kResize:
        out = XnnResize{number(table, 0), number(table, 1)};
        return {};
      case XnnFamily::kAlpha:
        out = XnnAlpha{real(table, 0)};
        return {};
      case XnnFamily::kUnary:
      case XnnFamily::kBinary:
      case XnnFamily::kFullyConnected:
      case XnnFamily::kAttention:
        return {};
    }
    return {};
  }

  static Status check_num_dims(const flatbuffers::Table& table, size_t entries) {
    const uint32_t num_dims = number(table, 0);
    if (num_dims == entries) return {};
    return invalid_file(cat("num_dims ", num_dims, ", but ", entries, " entries"));
  }

  Bytes payload_;
  const XnnNamedLookup& lookup_;
  uint64_t left_;
  uint64_t flatbuffer_at_ = 0;
  uint64_t flatbuffer_size_ = 0;
  Bytes constants_;
  std::unordered_map<uint32_t, uint32_t> position_of_;  // by id_out
  XnnGraph graph_;
};

// ---- writing ----

class PayloadWriter {
 public:
  explicit PayloadWriter(const XnnGraph& graph) : graph_(graph) {}

  Result<std::vector<uint8_t>> run() {
    std::vector<flatbuffers::Offset<fb::Node>> nodes;
    for (const XnnNode& node : graph_.nodes) nodes.push_back(write_node(node));
    const auto node_vector = builder_.CreateVector(nodes);
    std::vector<flatbuffers::Offset<fb::Value>> values;
    for (uint32_t id = 0; id < graph_.values.size(); ++id) {
      values.push_back(write_value(graph_.values[id], id));
    }
    const auto value_vector = builder_.CreateVector(values);
    const auto constant_vector = builder_.CreateVector(write_constants());
    const auto version = builder_.CreateString("0");
    const auto input_ids = builder_.CreateVector(graph_.input_ids);
    const auto output_ids = builder_.CreateVector(graph_.output_ids);

    fb::GraphBuilder root(builder_);
    root.add_version(version);
    root.add_xnodes(node_vector);
    root.add_xvalues(value_vector);
    root.add_num_externs(static_cast<uint32_t>(graph_.input_ids.size() + graph_.output_ids.size()));
    root.add_input_ids(input_ids);
    root.add_output_ids(output_ids);
    root.add_constant_data(constant_vector);
    builder_.Finish(root.Finish(), fb::GraphIdentifier());
    return assemble();
  }

 private:
  flatbuffers::Offset<fb::Node> write_node(const XnnNode& node) {
    const XnnNodeInfo& row = info(node.kind);
    const FamilyFields& fields = fields_of(row.family);
    // Vectors first: a table cannot be built around another object.
    std::vector<std::pair<size_t, flatbuffers::Offset<flatbuffers::Vector<uint32_t>>>> vectors;
    const auto add_vector = [&](size_t field, const std::vector<uint32_t>& items) {
      vectors.emplace_back(field, builder_.CreateVector(items));
    };
    std::vector<std::pair<size_t, uint32_t>> numbers;
    std::optional<std::pair<size_t, float>> real;
    if (const auto* conv = std::get_if<XnnConv>(&node.params)) {
      for (size_t i = 0; i < kConvFields.size(); ++i)
        numbers.emplace_back(i, conv->*kConvFields[i]);
    } else if (const auto* pool = std::get_if<XnnPool>(&node.params)) {
      const size_t n = row.family == XnnFamily::kPool ? kPoolFields.size() : kNumArgMaxPoolFields;
      for (size_t i = 0; i < n; ++i) numbers.emplace_back(i, pool->*kPoolFields[i]);
    } else if (const auto* concat = std::get_if<XnnAxis>(&node.params)) {
      numbers.emplace_back(0, concat->axis);
    } else if (const auto* transpose = std::get_if<XnnTranspose>(&node.params)) {
      numbers.emplace_back(0, static_cast<uint32_t>(transpose->perm.size()));
      add_vector(1, transpose->perm);
    } else if (const auto* reshape = std::get_if<XnnReshape>(&node.params)) {
      numbers.emplace_back(0, static_cast<uint32_t>(reshape->new_shape.size()));
      add_vector(1, reshape->new_shape);
    } else if (const auto* slice = std::get_if<XnnSlice>(&node.params)) {
      numbers.emplace_back(0, static_cast<uint32_t>(slice->offsets.size()));
      add_vector(1, slice->offsets);
      add_vector(2, slice->sizes);
    } else if (const auto* pad = std::get_if<XnnPad>(&node.params)) {
      add_vector(0, pad->pre);
      add_vector(1, pad->post);
      real = {2, pad->value};
    } else if (const auto* resize = std::get_if<XnnResize>(&node.params)) {
      numbers.emplace_back(0, resize->new_height);
      numbers.emplace_back(1, resize->new_width);
    } else if (const auto* alpha = std::get_if<XnnAlpha>(&node.params)) {
      real = {0, alpha->alpha};
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      numbers.emplace_back(static_cast<size_t>(fields.inputs[i]), node.inputs[i]);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      numbers.emplace_back(static_cast<size_t>(fields.outputs[i]), node.outputs[i]);
    }
    numbers.emplace_back(static_cast<size_t>(fields.flags), node.flags);

    const auto start = builder_.StartTable();
    for (const auto& [field, vector] : vectors) builder_.AddOffset(slot(field), vector);
    if (real) builder_.AddElement<float>(slot(real->first), real->second, 0.0F);
    for (const auto& [field, value] : numbers) {
      builder_.AddElement<uint32_t>(slot(field), value, 0);
    }
    const flatbuffers::Offset<void> table(builder_.EndTable(start));

    const XnnNode unclamped;
    const bool clamped =
        node.output_min != unclamped.output_min || node.output_max != unclamped.output_max;
    flatbuffers::Offset<fb::MinMax> range;
    if (clamped) range = fb::CreateMinMax(builder_, node.output_min, node.output_max);
    fb::NodeBuilder out(builder_);
    out.add_xnode_union_type(static_cast<fb::AnyNode>(node.kind));
    out.add_xnode_union(table);
    out.add_debug_handle(node.debug_handle);
    if (clamped) out.add_output_min_max(range);
    return out.Finish();
  }

  flatbuffers::Offset<fb::Value> write_value(const XnnValue& value, uint32_t id) {
    const auto dims = builder_.CreateVector(value.dims);
    const auto tensor = fb::CreateTensor(builder_, static_cast<int16_t>(value.datatype),
                                         static_cast<uint32_t>(value.dims.size()), dims,
                                         value.constant, value.external_id, value.flags, id);
    if (std::holds_alternative<std::monostate>(value.quant)) {
      return fb::CreateValue(builder_, fb::AnyTensor::Tensor, tensor.Union());
    }
    const auto quant = std::visit([this](const auto& q) { return write_quant(q); }, value.quant);
    const auto quantized = fb::CreateQuantizedTensor(
        builder_, tensor, static_cast<fb::Quant>(value.quant.index()), quant);
    return fb::CreateValue(builder_, fb::AnyTensor::QuantizedTensor, quantized.Union());
  }

  flatbuffers::Offset<void> write_quant(std::monostate) { return {}; }
  flatbuffers::Offset<void> write_quant(const XnnPerTensor& q) {
    return fb::CreatePerTensor(builder_, q.scale, q.zero_point).Union();
  }
  flatbuffers::Offset<void> write_quant(const XnnPerTokenDynamic& q) {
    return fb::CreatePerTokenDynamic(builder_, q.num_nonbatch_dims).Union();
  }
  // The vector of scales is written even when empty: the runtime dereferences it.
  flatbuffers::Offset<void> write_quant(const XnnPerChannel& q) {
    const auto scales = builder_.CreateVector(q.scales);
    return fb::CreatePerChannel(builder_, scales, q.channel_dim, q.scale_constant, q.num_scales)
        .Union();
  }
  flatbuffers::Offset<void> write_quant(const XnnPerChannelGroup& q) {
    const auto scales = builder_.CreateVector(q.scales);
    return fb::CreatePerChannelGroup(builder_, scales, q.channel_dim, q.group_size,
                                     q.scale_constant, q.num_scales)
        .Union();
  }

  std::vector<flatbuffers::Offset<fb::Constant>> write_constants() {
    std::vector<flatbuffers::Offset<fb::Constant>> out;
    for (size_t i = 0; i < graph_.constants.size(); ++i) {
      const XnnConstant& c = graph_.constants[i];
      if (i == 0) {
        out.push_back(fb::CreateConstant(builder_, 0, 0));
      } else if (c.named_key.empty()) {
        // No named_key at all: the runtime takes an empty one for a name.
        inline_size_ = align_up(inline_size_, kAlignment);
        inline_constants_.emplace_back(inline_size_, c.data.first(c.size));
        out.push_back(fb::CreateConstant(builder_, inline_size_, c.size));
        inline_size_ += c.size;
      } else {
        const auto key = builder_.CreateString(c.named_key);
        out.push_back(fb::CreateConstant(builder_, kByName, c.size, key));
      }
    }
    return out;
  }

  std::vector<uint8_t> assemble() const {
    const uint64_t flatbuffer_size = builder_.GetSize();
    const uint64_t constants_at = align_up(kHeaderBytes + flatbuffer_size, kAlignment);
    std::vector<uint8_t> out(constants_at + inline_size_);
    std::copy(kMagic.begin(), kMagic.end(), out.begin() + 4);
    store<uint16_t>(out, 8, kHeaderLength);
    store<uint32_t>(out, 10, static_cast<uint32_t>(kHeaderBytes));
    store<uint32_t>(out, 14, static_cast<uint32_t>(flatbuffer_size));
    store<uint32_t>(out, 18, static_cast<uint32_t>(constants_at));
    store<uint64_t>(out, 22, inline_size_);
    std::copy_n(builder_.GetBufferPointer(), flatbuffer_size,
                out.begin() + static_cast<ptrdiff_t>(kHeaderBytes));
    for (const auto& [offset, data] : inline_constants_) {
      std::ranges::copy(data, out.begin() + static_cast<ptrdiff_t>(constants_at + offset));
    }
    return out;
  }

  const XnnGraph& graph_;
  flatbuffers::FlatBufferBuilder builder_{4096};
  std::vector<std::pair<uint64_t, Bytes>> inline_constants_;
  uint64_t inline_size_ = 0;
};

// What the reader takes but the runtime does not.
Status check_runnable(const XnnGraph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const XnnNodeInfo& row = info(graph.nodes[i].kind);
    if (!row.runnable) return invalid_graph(cat("node ", i, ": the runtime rejects ", row.name));
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const XnnValue& v = graph.values[i];
    if (v.dims.empty()) return invalid_graph(cat("value ", i, ": rank 0, expected dims [1]"));
    if (v.datatype == XnnDatatype::kQPInt8 || v.datatype == XnnDatatype::kPFp32) {
      return invalid_graph(cat("value ", i, ": ", name(v.datatype), " is internal to the runtime"));
    }
  }
  for (size_t i = 1; i < graph.constants.size(); ++i) {
    const XnnConstant& c = graph.constants[i];
    if (c.named_key.empty() && c.data.size() < c.size) {
      return invalid_graph(cat("constant ", i, ": ", c.data.size(), " bytes given of ", c.size));
    }
  }
  return {};
}

}  // namespace

Result<XnnGraph> read_xnn_payload(Bytes payload, const XnnNamedLookup& lookup) {
  return PayloadReader(payload, lookup).run();
}

Result<std::vector<uint8_t>> write_xnn_payload(const XnnGraph& graph) {
  if (Status status = verify_xnn_graph(graph); !status.ok()) {
    return Status(ErrorKind::kInvalidGraph, status.message());
  }
  DH_TRY(check_runnable(graph));
  return PayloadWriter(graph).run();
}

}  // namespace downhaul
