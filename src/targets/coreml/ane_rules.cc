#include "targets/coreml/ane_rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>

// The rules by which Core ML is known, reported or guessed to choose a compute unit. Published: the
// article "Deploying Transformers on the Apple Neural Engine", its repository and the Xcode report
// shown there. Reported: issues of coremltools and notes of its users; those differ by chip and OS.
namespace downhaul::coreml {
namespace {

using mil::DType;
using mil::Operation;

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), type) != list.end();
}

bool is_wide_float(const mil::Type& type) {
  return type.dtype == DType::kF32 || type.dtype == DType::kF64;
}

bool is_integer_or_bool(const mil::Type& type) {
  return type.kind == mil::Type::Kind::kTensor && type.dtype != DType::kF16 &&
         type.dtype != DType::kF32 && type.dtype != DType::kF64 && type.dtype != DType::kString;
}

bool any_operand(const Operation& op, const ProgramFacts& facts, bool (*test)(const mil::Type&)) {
  const auto types = facts.operand_types(op);
  return std::any_of(types.begin(), types.end(), [&](const mil::Type* t) { return test(*t); });
}

bool any_result(const Operation& op, bool (*test)(const mil::Type&)) {
  return std::any_of(op.outputs.begin(), op.outputs.end(),
                     [&](const mil::NamedType& t) { return test(t.type); });
}

/// Squeezes and casts between the last computation and the outputs.
bool is_border(const Operation& op, const ProgramFacts& facts) {
  if (!is_one_of(op.type, {"cast", "squeeze", "identity"}) || op.outputs.size() != 1) return false;
  const std::string& result = op.outputs[0].name;
  const auto& readers = facts.readers(result);
  if (readers.empty()) return facts.is_output(result);
  return std::all_of(readers.begin(), readers.end(),
                     [&](const Operation* r) { return is_border(*r, facts); });
}

bool is_cast_of_float_input(const Operation& op, const ProgramFacts& facts) {
  return op.type == "cast" && any_operand(op, facts, is_wide_float) &&
         any_result(op, [](const mil::Type& t) { return t.dtype == DType::kF16; });
}

bool computes_in_f32(const Operation& op, const ProgramFacts& facts) {
  if (op.type == "cast") return any_result(op, is_wide_float);
  return any_result(op, is_wide_float) ||
         std::any_of(op.inputs.begin(), op.inputs.end(), [&](const mil::Argument& argument) {
           // Parameters may be f32 beside f16 data (from iOS 17 on).
           if (!is_one_of(argument.name, {"x", "y", "values", "data", "a", "b"})) return false;
           for (const mil::Binding& binding : argument.bindings) {
             const auto* name = std::get_if<std::string>(&binding);
             const mil::Type* type = name ? facts.type(*name) : &std::get<mil::Value>(binding).type;
             if (type != nullptr && is_wide_float(*type)) return true;
           }
           return false;
         });
}

bool has_odd_shape(const Operation& op, const ProgramFacts& facts) {
  const auto odd = [](const mil::Type& t) {
    return t.kind == mil::Type::Kind::kTensor &&
           (t.shape.size() > 5 || std::any_of(t.shape.begin(), t.shape.end(),
                                              [](const auto& d) { return !d.has_value(); }));
  };
  return any_result(op, odd) || any_operand(op, facts, odd);
}

bool has_huge_dimension(const Operation& op, const ProgramFacts& facts) {
  const auto huge = [](const mil::Type& t) {
    return std::any_of(t.shape.begin(), t.shape.end(), [](const auto& d) {
      return d.has_value() && *d > static_cast<int64_t>(kMaxAneDimension);
    });
  };
  return any_result(op, huge) || any_operand(op, facts, huge);
}

bool is_foreign(const Operation& op, const ProgramFacts&) {
  return !op.blocks.empty() || is_one_of(op.type, {"rnn",
                                                   "gru",
                                                   "lstm",
                                                   "topk",
                                                   "argsort",
                                                   "gather_along_axis",
                                                   "gather_nd",
                                                   "scatter",
                                                   "scatter_along_axis",
                                                   "scatter_nd",
                                                   "non_maximum_suppression",
                                                   "non_zero",
                                                   "cumsum",
                                                   "custom_layer",
                                                   "classify",
                                                   "list_read",
                                                   "list_write",
                                                   "list_gather",
                                                   "list_scatter",
                                                   "make_list",
                                                   "list_length"});
}

bool is_dilated(const Operation& op, const ProgramFacts& facts) {
  return is_one_of(op.type, {"conv", "conv_transpose"}) && facts.largest(op, "dilations") > 1;
}

bool is_plain_conv(const Operation& op, const ProgramFacts& facts) {
  return op.type == "conv" && facts.largest(op, "strides") <= 2;
}

bool is_odd_resize(const Operation& op, const ProgramFacts& facts) {
  if (!is_one_of(op.type, {"upsample_bilinear", "resize_bilinear", "upsample_nearest_neighbor"})) {
    return false;
  }
  if (op.type != "upsample_nearest_neighbor" && facts.flag(op, "align_corners").value_or(true)) {
    return true;
  }
  for (const char* factor : {"scale_factor_height", "scale_factor_width"}) {
    const auto numbers = facts.numbers(op, factor);
    if (numbers && std::any_of(numbers->begin(), numbers->end(),
                               [](double v) { return v != std::floor(v); })) {
      return true;
    }
  }
  return false;
}

bool is_mask_arithmetic(const Operation& op, const ProgramFacts& facts) {
  return any_result(op, is_integer_or_bool) ||
         (op.type == "cast" && any_operand(op, facts, is_integer_or_bool));
}

bool is_measured_form(const Operation& op, const ProgramFacts&) {
  return is_one_of(op.type, {"einsum", "softmax", "layer_norm", "reduce_mean", "rsqrt", "add",
                             "sub", "mul", "split", "concat", "gelu", "relu", "transpose",
                             "expand_dims", "squeeze", "slice_by_index"});
}

constexpr ComputeUnit kAne = ComputeUnit::kNeuralEngine;
constexpr ComputeUnit kCpu = ComputeUnit::kCpu;
constexpr ComputeUnit kOther = ComputeUnit::kCpuOrGpu;

constexpr AneRule kRules[] = {
    {2, [](const Operation& op, const ProgramFacts& f) { return f.is_embedding(op); }, kCpu,
     Certainty::kPublished,
     "looks up an embedding, prepares its indices or adds positions: more efficient there "
     "(published for DistilBERT; later chips and systems do place it on the Neural Engine)"},
    {9, is_foreign, kCpu, Certainty::kReported,
     "recurrent, sorting, gathering or control flow: not on the Neural Engine"},
    {14, is_border, kAne, Certainty::kGuess, "border of the program: free wherever it runs"},
    {3, is_cast_of_float_input, kAne, Certainty::kGuess,
     "conversion of an input: free wherever it runs"},
    {7, has_odd_shape, kOther, Certainty::kReported,
     "more than 5 dimensions, or a size that is not fixed"},
    {8, has_huge_dimension, kOther, Certainty::kReported, "a dimension above 16384"},
    {1, computes_in_f32, kOther, Certainty::kPublished,
     "computes in FP32; the Neural Engine computes in FP16"},
    {5, is_dilated, kOther, Certainty::kReported,
     "dilated convolution: CPU or GPU on older systems, reported to work on later ones"},
    {10, is_odd_resize, kOther, Certainty::kGuess,
     "resizes with aligned corners or by a factor that is no integer"},
    {3, is_mask_arithmetic, kAne, Certainty::kGuess,
     "integer or bool arithmetic: on the Neural Engine or folded in Apple's count, elsewhere often "
     "on the CPU"},
    {4, is_plain_conv, kAne, Certainty::kPublished, "convolution in FP16, stride 1 or 2"},
    {6, is_measured_form, kAne, Certainty::kPublished,
     "of the forms that the published DistilBERT runs there"},
    {0, [](const Operation&, const ProgramFacts&) { return true; }, kAne, Certainty::kGuess,
     "FP16 operation without a known rule"},
};

}  // namespace

std::span<const AneRule> ane_rules() { return kRules; }

ProgramFacts::ProgramFacts(const mil::Function& function) {
  for (const mil::NamedType& input : function.inputs) types_[input.name] = &input.type;
  outputs_.insert(function.block.outputs.begin(), function.block.outputs.end());
  collect(function.block);
  find_embeddings();
}

void ProgramFacts::collect(const mil::Block& block) {
  for (const mil::NamedType& input : block.inputs) types_[input.name] = &input.type;
  for (const Operation& op : block.operations) {
    for (const mil::NamedType& result : op.outputs) types_[result.name] = &result.type;
    // Weights that are stored compressed are constants once the program is loaded.
    if (op.type == "const" || op.type.starts_with("constexpr_")) {
      const mil::Value* value = op.attribute("val");
      for (const mil::NamedType& result : op.outputs) constants_[result.name] = value;
      continue;
    }
    operations_.push_back(&op);
    for (const mil::NamedType& result : op.outputs) producers_[result.name] = &op;
    for (const std::string_view name : operand_names(op)) {
      auto& readers = readers_[std::string(name)];
      if (readers.empty() || readers.back() != &op) readers.push_back(&op);
    }
    for (const mil::Block& nested : op.blocks) collect(nested);
  }
}

const mil::Type* ProgramFacts::type(std::string_view name) const {
  const auto it = types_.find(std::string(name));
  return it == types_.end() ? nullptr : it->second;
}

const Operation* ProgramFacts::producer(std::string_view name) const {
  const auto it = producers_.find(std::string(name));
  return it == producers_.end() ? nullptr : it->second;
}

const std::vector<const Operation*>& ProgramFacts::readers(std::string_view name) const {
  static const std::vector<const Operation*> kNobody;
  const auto it = readers_.find(std::string(name));
  return it == readers_.end() ? kNobody : it->second;
}

std::vector<std::string_view> ProgramFacts::operand_names(const Operation& op) {
  std::vector<std::string_view> names;
  for (const mil::Argument& argument : op.inputs) {
    for (const mil::Binding& binding : argument.bindings) {
      if (const auto* name = std::get_if<std::string>(&binding)) names.push_back(*name);
    }
  }
  return names;
}

std::vector<const mil::Type*> ProgramFacts::operand_types(const Operation& op) const {
  std::vector<const mil::Type*> types;
  for (const mil::Argument& argument : op.inputs) {
    for (const mil::Binding& binding : argument.bindings) {
      const auto* name = std::get_if<std::string>(&binding);
      const mil::Type* type_of = name ? type(*name) : &std::get<mil::Value>(binding).type;
      if (type_of != nullptr) types.push_back(type_of);
    }
  }
  return types;
}

const mil::Value* ProgramFacts::value_of(const Operation& op, std::string_view input) const {
  const mil::Argument* argument = op.input(input);
  if (argument == nullptr || argument->bindings.size() != 1) return nullptr;
  if (const auto* value = std::get_if<mil::Value>(&argument->bindings[0])) return value;
  const auto it = constants_.find(std::get<std::string>(argument->bindings[0]));
  return it == constants_.end() ? nullptr : it->second;
}

std::optional<std::vector<double>> ProgramFacts::numbers(const Operation& op,
                                                         std::string_view input) const {
  const mil::Value* value = value_of(op, input);
  if (value == nullptr) return std::nullopt;
  const auto* bytes = std::get_if<std::vector<uint8_t>>(&value->content);
  if (bytes == nullptr) return std::nullopt;
  std::vector<double> out;
  const auto read_as = [&](auto number) {
    for (size_t at = 0; at + sizeof(number) <= bytes->size(); at += sizeof(number)) {
      std::memcpy(&number, bytes->data() + at, sizeof(number));
      out.push_back(static_cast<double>(number));
    }
    return out;
  };
  switch (value->type.dtype) {
    case DType::kF32:
      return read_as(float{});
    case DType::kI32:
      return read_as(int32_t{});
    case DType::kBool:
      return read_as(uint8_t{});
    default:
      return std::nullopt;
  }
}

double ProgramFacts::largest(const Operation& op, std::string_view input) const {
  const auto list = numbers(op, input);
  return list && !list->empty() ? *std::max_element(list->begin(), list->end()) : 1;
}

std::optional<bool> ProgramFacts::flag(const Operation& op, std::string_view input) const {
  const auto list = numbers(op, input);
  if (!list || list->size() != 1) return std::nullopt;
  return list->front() != 0;
}

void ProgramFacts::find_embeddings() {
  const auto is_table_look_up = [&](const Operation& op) {
    if (op.type != "gather") return false;
    const mil::Argument* x = op.input("x");
    if (x == nullptr || x->bindings.size() != 1) return false;
    const auto* name = std::get_if<std::string>(&x->bindings[0]);
    return name == nullptr || is_constant(*name);
  };
  for (const Operation* op : operations_) {
    if (is_table_look_up(*op)) embedding_.insert(op);
  }
  // Sums of rows of tables, with each other and with tables that were looked up already.
  for (const Operation* op : operations_) {
    if (op->type != "add") continue;
    bool any = false;
    bool all = true;
    for (const std::string_view name : operand_names(*op)) {
      const Operation* from = producer(name);
      any = any || (from != nullptr && embedding_.contains(from));
      all = all && (from == nullptr ? is_constant(name) : embedding_.contains(from));
    }
    if (any && all) embedding_.insert(op);
  }
  // What is computed for indices alone, from the last operation to the first.
  for (auto it = operations_.rbegin(); it != operations_.rend(); ++it) {
    const Operation& op = **it;
    if (embedding_.contains(&op) || op.outputs.empty()) continue;
    const auto for_indices = [&](const mil::NamedType& result) {
      const auto& users = readers(result.name);
      return !users.empty() && !is_output(result.name) && is_integer_or_bool(result.type) &&
             std::all_of(users.begin(), users.end(),
                         [&](const Operation* user) { return embedding_.contains(user); });
    };
    if (std::all_of(op.outputs.begin(), op.outputs.end(), for_indices)) embedding_.insert(&op);
  }
}

}  // namespace downhaul::coreml
