#include "engine/decoder.h"

#include <algorithm>

#include "base/strings.h"
#include "passes/passes.h"

namespace downhaul {
namespace {

constexpr int64_t kFirstCapacity = 64;  // tokens; doubles

/// The first `rows` along `axis` of one row-major buffer into another with more room.
void copy_rows(const Tensor& shape, int64_t axis, int64_t rows, const uint8_t* from,
               int64_t from_room, uint8_t* to, int64_t to_room) {
  int64_t outer = 1;
  auto inner = static_cast<int64_t>(item_size(shape.dtype()));
  for (int64_t d = 0; d < axis; ++d) outer *= shape.size(d);
  for (int64_t d = axis + 1; d < shape.rank(); ++d) inner *= shape.size(d);
  for (int64_t o = 0; o < outer; ++o) {
    std::copy_n(from + o * from_room * inner, rows * inner, to + o * to_room * inner);
  }
}

}  // namespace

Result<std::unique_ptr<Decoder>> Decoder::make(const Graph& graph, const DecoderOptions& options) {
  auto out = std::unique_ptr<Decoder>(new Decoder());
  out->options_ = options;
  out->graph_ = graph.clone();
  Graph& copy = *out->graph_;
  DH_ASSIGN(out->input_, find_sequence_input(copy));
  out->input_rank_ = copy.inputs()[0]->rank();
  if (copy.outputs().empty()) return unsupported("the model has no output");
  for (size_t k = copy.outputs().size(); k-- > 1;) copy.remove_output(k);
  DH_TRY(keep_last_row(copy));
  const Value* scores = copy.outputs()[0].value;
  const auto vocabulary =
      scores->rank() > 0 ? scores->dim(scores->rank() - 1).maybe_value() : std::nullopt;
  if (scores->dtype() != DType::kF32 || !vocabulary || *vocabulary < 1 || scores->rank() > 3) {
    return unsupported(cat("output ", copy.outputs()[0].name, ": ", scores->type().str(),
                           "; expected scores of the next token"));
  }
  out->vocabulary_ = *vocabulary;
  PipelineOptions pipeline;
  pipeline.verify = false;
  DH_TRY(run_pipeline(copy, canonical_passes(), pipeline));
  if (options.whole_sequence) {
    out->reason_ = "asked for";
  } else {
    Status status = out->make_room(1);
    if (status.ok()) return out;
    if (status.kind() != ErrorKind::kUnsupported) return status;
    out->reason_ = status.message();
  }
  out->model_ = EngineModel::as_it_is(copy);
  out->session_ = std::make_unique<Session>(out->model_, options.engine);
  return out;
}

Status Decoder::make_room(int64_t tokens) {
  int64_t capacity = std::max(capacity_, kFirstCapacity);
  while (capacity < tokens) capacity *= 2;
  capacity = std::min(capacity, input_.max_length);
  if (capacity == capacity_) return {};
  DH_ASSIGN(IncrementalGraph incremental, make_incremental(*graph_, capacity));
  auto model = EngineModel::as_it_is(*incremental.graph, model_.get());
  auto session = std::make_unique<Session>(model, options_.engine);
  if (session_ != nullptr) {
    const auto& states = model_->graph().states();
    for (size_t i = 0; i < states.size(); ++i) {
      copy_rows(states[i]->constant(), cache_axes_[i], length_, session_->state_data(i), capacity_,
                session->state_data(i), capacity);
    }
  }
  model_ = std::move(model);
  session_ = std::move(session);
  cache_axes_ = std::move(incremental.cache_axes);
  capacity_ = capacity;
  return {};
}

Result<Tensor> Decoder::ids(std::span<const int64_t> tokens) const {
  Sizes sizes = {static_cast<int64_t>(tokens.size())};
  if (input_rank_ == 2) sizes.insert(sizes.begin(), 1);
  Tensor out(input_.dtype, sizes);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (input_.dtype == DType::kI32 && (tokens[i] < 0 || tokens[i] > INT32_MAX)) {
      return invalid_argument(cat("token ", tokens[i], " is no token"));
    }
    out.set_int(static_cast<int64_t>(i), tokens[i]);
  }
  return out;
}

Result<std::span<const float>> Decoder::append(std::span<const int64_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count == 0) return invalid_argument("expected at least one token");
  if (count > max_length() - length_) {
    return invalid_argument(
        cat("the model takes at most ", max_length(), " tokens, found ", length_ + count));
  }
  std::vector<Tensor> inputs;
  if (reason_.empty()) {
    DH_TRY(make_room(length_ + count));
    DH_ASSIGN(Tensor input, ids(tokens));
    inputs = {std::move(input), Tensor::from<int64_t>({}, std::vector<int64_t>{length_})};
  } else {
    std::vector<int64_t> all = tokens_;
    all.insert(all.end(), tokens.begin(), tokens.end());
    DH_ASSIGN(Tensor input, ids(all));
    inputs.push_back(std::move(input));
  }
  DH_ASSIGN(std::vector<Tensor> outputs, session_->run(inputs));
  if (!reason_.empty()) tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  length_ += count;
  scores_ = std::move(outputs[0]);
  const auto size = static_cast<size_t>(scores_.num_elements());
  const auto wanted = static_cast<size_t>(vocabulary_);
  return std::span(scores_.data<float>() + (size - wanted), wanted);
}

void Decoder::clear() {
  length_ = 0;
  tokens_.clear();
}

int64_t Decoder::cache_bytes() const {
  int64_t bytes = 0;
  for (const Value* state : model_->graph().states()) {
    bytes += static_cast<int64_t>(state->constant().num_bytes());
  }
  return bytes;
}

}  // namespace downhaul
