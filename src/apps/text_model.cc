#include "apps/text_model.h"

#include <algorithm>
#include <chrono>

#include "base/strings.h"
#include "text/post_processor.h"

namespace downhaul {
namespace {

// Far more than any model takes, and little enough to allocate.
constexpr int64_t kMaxTokens = 1 << 20;

bool is_index_type(DType dtype) { return dtype == DType::kI64 || dtype == DType::kI32; }

template <typename T>
Tensor tensor_of(const Sizes& sizes, const std::vector<int64_t>& values) {
  return Tensor::from<T>(sizes, std::vector<T>(values.begin(), values.end()));
}

Result<Tensor> make_tensor(DType dtype, const Sizes& sizes, const std::vector<int64_t>& values) {
  switch (dtype) {
    case DType::kI64:
      return Tensor::from<int64_t>(sizes, values);
    case DType::kI32:
      return tensor_of<int32_t>(sizes, values);
    case DType::kF32:
      return tensor_of<float>(sizes, values);
    case DType::kBool: {
      Tensor out(DType::kBool, sizes);
      for (size_t i = 0; i < values.size(); ++i) {
        out.mutable_data<bool>()[i] = values[i] != 0;
      }
      return out;
    }
    default:
      return unsupported(cat("an input of ", name(dtype), " for tokens or their mask"));
  }
}

std::string takes(const Graph& graph) {
  std::vector<std::string> inputs;
  for (const Value* v : graph.inputs()) inputs.push_back(cat(v->name(), ": ", v->type().str()));
  return inputs.empty() ? "nothing" : join(inputs, ", ");
}

}  // namespace

bool TextModel::takes_text(const Graph& graph) {
  if (graph.inputs().empty()) return false;
  const Value& first = *graph.inputs()[0];
  return is_index_type(first.dtype()) && (first.rank() == 2 || first.rank() == 3);
}

Result<TextModel> TextModel::load(const std::string& path, const AppModelOptions& model,
                                  const TextModelOptions& options) {
  DH_ASSIGN(AppModel loaded, AppModel::load(path, model));
  return make(std::move(loaded), options);
}

Result<TextModel> TextModel::make(AppModel model, const TextModelOptions& options) {
  const Graph& graph = model.graph();
  const std::string path = cat("'", printable(model.path()), "'");
  if (!takes_text(graph)) {
    return invalid_argument(
        cat(path, ": expected a model of texts, int64[1,tokens]; this one takes ", takes(graph)));
  }
  std::string folder = options.tokenizer;
  if (folder.empty() && model.spec().has_value()) {
    DH_ASSIGN(folder, require(*model.spec(), model.spec()->tokenizer, "tokenizer"));
  }
  if (folder.empty()) folder = folder_of_model(model.path());
  auto tokenizer = text::Tokenizer::load(folder);
  if (!tokenizer.ok()) {
    return std::move(tokenizer).status().with_context(
        options.tokenizer.empty() ? "no --tokenizer is given" : "--tokenizer");
  }
  TextModel out(std::move(model), *std::move(tokenizer));
  out.truncate_ = options.truncate;
  const auto& values = out.model_.graph().inputs();
  const auto& spec = out.model_.spec();
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& own = values[i]->name();
    const std::string stated =
        spec.has_value() && i < spec->inputs.size() ? spec->inputs[i].name : std::string();
    std::optional<Role> role;
    // Files that lost the names keep the order in which transformers' models take their inputs.
    for (const std::string& called : {own, stated}) {
      if (role) break;
      if (called == "attention_mask" || called == "mask") role = Role::kMask;
      if (called == "token_type_ids") role = Role::kTypes;
      if (called == "position_ids") role = Role::kPositions;
      if (called == "input_ids") role = Role::kIds;
    }
    if (!role && i < 3) role = i == 0 ? Role::kIds : i == 1 ? Role::kMask : Role::kTypes;
    const bool fits = role.has_value() && values[i]->rank() == values[0]->rank();
    if (!fits) {
      return invalid_argument(cat(path, ": input ", printable(own),
                                  " is neither input_ids, "
                                  "attention_mask, token_type_ids nor position_ids; it takes ",
                                  takes(out.model_.graph())));
    }
    out.has_mask_ = out.has_mask_ || *role == Role::kMask;
    out.inputs_.push_back({*role, values[i]->dtype()});
  }
  const Shape& shape = values[0]->type().shape;
  if (shape[0].min() > 1) {
    return invalid_argument(
        cat(path, ": takes several texts at once, ", takes(out.model_.graph())));
  }
  out.with_choices_ = shape.size() == 3;
  if (out.with_choices_) out.choices_ = shape[1].max();
  out.min_tokens_ = shape.back().min();
  out.max_tokens_ = std::min(shape.back().max(), kMaxTokens);
  if (const auto limit = out.tokenizer_.model_max_length(); limit && *limit >= out.min_tokens_) {
    out.max_tokens_ = std::min<int64_t>(out.max_tokens_, *limit);
  }
  return out;
}

Result<text::Encoding> TextModel::tokens(std::string_view text, const std::string_view* pair,
                                         int64_t limit) const {
  text::EncodeOptions options;
  options.truncation = tokenizer_.truncation_to(
      static_cast<uint32_t>(limit), pair != nullptr ? text::TruncationStrategy::kOnlySecond
                                                    : text::TruncationStrategy::kLongestFirst);
  options.padding = text::Padding{};
  text::Tokenizer::Workspace workspace;
  text::Encoding encoding;
  DH_TRY(tokenizer_.encode(text, pair, options, workspace, encoding));
  return encoding;
}

Result<text::Encoding> TextModel::tokens(std::string_view text,
                                         const std::string_view* pair) const {
  return tokens(text, pair, INT32_MAX);
}

Result<text::Encoding> TextModel::encode(std::string_view text,
                                         const std::string_view* pair) const {
  DH_ASSIGN(text::Encoding encoding, tokens(text, pair, truncate_ ? max_tokens_ : INT32_MAX));
  DH_TRY(fit(encoding));
  return encoding;
}

void TextModel::pad(text::Encoding& encoding, size_t length) const {
  text::pad(tokenizer_.padding_to(static_cast<uint32_t>(length)), encoding);
}

Status TextModel::fit(text::Encoding& encoding) const {
  const auto used = static_cast<int64_t>(encoding.size());
  if (used > max_tokens_) {
    return invalid_argument(cat("the text has ", used, " tokens, the model takes ", max_tokens_,
                                " at most; --truncate cuts it"));
  }
  pad(encoding, static_cast<size_t>(min_tokens_));
  if (encoding.size() == 0) return invalid_argument("the text has no tokens");
  if (!has_mask_ && used < static_cast<int64_t>(encoding.size())) {
    return invalid_argument(cat("the text has ", used, " tokens; the model takes exactly ",
                                min_tokens_, ", it has no attention_mask to hide padding"));
  }
  return {};
}

Result<std::vector<Tensor>> TextModel::run(const std::vector<text::Encoding>& encodings) {
  DH_CHECK(!encodings.empty());
  const auto length = static_cast<int64_t>(encodings[0].size());
  const auto count = static_cast<int64_t>(encodings.size());
  const Sizes sizes = with_choices_ ? Sizes{1, count, length} : Sizes{count, length};
  std::vector<Tensor> tensors;
  for (const Input& input : inputs_) {
    std::vector<int64_t> values;
    for (const text::Encoding& e : encodings) {
      DH_CHECK(static_cast<int64_t>(e.size()) == length);
      switch (input.role) {
        case Role::kIds:
          values.insert(values.end(), e.ids.begin(), e.ids.end());
          break;
        case Role::kMask:
          values.insert(values.end(), e.attention_mask.begin(), e.attention_mask.end());
          break;
        case Role::kTypes:
          values.insert(values.end(), e.type_ids.begin(), e.type_ids.end());
          break;
        case Role::kPositions:
          for (int64_t i = 0; i < length; ++i) values.push_back(i);
          break;
      }
    }
    DH_ASSIGN(Tensor tensor, make_tensor(input.dtype, sizes, values));
    tensors.push_back(std::move(tensor));
  }
  return model_.run(tensors);
}

Result<TextOutput> TextModel::run(std::string_view text, const std::string_view* pair) {
  DH_ASSIGN(text::Encoding encoding, encode(text, pair));
  return run_fitting(std::move(encoding));
}

Result<TextOutput> TextModel::run_tokens(text::Encoding encoding) {
  DH_TRY(fit(encoding));
  return run_fitting(std::move(encoding));
}

Result<TextOutput> TextModel::run_fitting(text::Encoding encoding) {
  if (with_choices_) {
    return invalid_argument("the model chooses between texts; `downhaul choose` runs it");
  }
  TextOutput out;
  out.encoding = std::move(encoding);
  const auto begin = std::chrono::steady_clock::now();
  DH_ASSIGN(out.outputs, run({out.encoding}));
  out.forward_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace downhaul
