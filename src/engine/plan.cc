#include "engine/plan.h"

#include <algorithm>
#include <unordered_set>

#include "base/strings.h"
#include "engine/steps/place.h"
#include "ops/cached.h"
#include "ops/ops.h"
#include "passes/plan/memory.h"

namespace downhaul::engine {
namespace {

constexpr uint64_t kLine = 64;

int64_t product(const Sizes& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

/// Dimensions of size 1 dropped, neighbours that lie in sequence joined.
struct Joined {
  std::vector<int64_t> sizes, from, to;
};
Joined join_dims(const Sizes& sizes, const std::vector<int64_t>& from,
                 const std::vector<int64_t>& to) {
  Joined j;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (!j.sizes.empty() && j.from.back() == from[d] * sizes[d] &&
        j.to.back() == to[d] * sizes[d]) {
      j.sizes.back() *= sizes[d];
      j.from.back() = from[d];
      j.to.back() = to[d];
    } else {
      j.sizes.push_back(sizes[d]);
      j.from.push_back(from[d]);
      j.to.push_back(to[d]);
    }
  }
  return j;
}

}  // namespace

bool View::is_dense() const {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

std::optional<View> reshape_view(const View& view, const Sizes& sizes) {
  View out = view;
  out.sizes = sizes;
  out.strides = contiguous_strides(sizes);
  if (view.is_dense()) return out;
  // Groups of old dimensions that lie in sequence, matched against groups of new ones.
  const Joined old = join_dims(view.sizes, view.strides, view.strides);
  size_t group = 0;
  int64_t left = old.sizes.empty() ? 1 : old.sizes[0];
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) {
      out.strides[d] = 0;
      continue;
    }
    if (left == 1) {
      if (++group >= old.sizes.size()) return std::nullopt;
      left = old.sizes[group];
    }
    if (left % sizes[d] != 0) return std::nullopt;
    left /= sizes[d];
    out.strides[d] = old.from[group] * left;
  }
  return out;
}

kernels::PermutePlan strided_copy(const View& from, const View& to) {
  const Joined j = join_dims(from.sizes, from.strides, to.strides);
  DH_CHECK(j.sizes.size() <= kernels::PermutePlan::kMaxRank);
  return kernels::plan_permute(static_cast<int>(j.sizes.size()), j.sizes.data(), j.from.data(),
                               j.to.data(), static_cast<int64_t>(item_size(from.dtype)));
}

PlanBuilder::PlanBuilder(const Graph& graph, Weights& weights, const PlanOptions& options)
    : graph_(graph), weights_(weights), options_(options) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value* input = graph.inputs()[i];
    Buffer buffer;
    buffer.kind = Buffer::Kind::kInput;
    buffer.index = i;
    buffer.bytes = static_cast<uint64_t>(elements(input)) * item_size(input->dtype());
    const int id = new_buffer(buffer);
    views_[input] = {{id, 0}, input->dtype(), sizes(input), contiguous_strides(sizes(input))};
    plan_.input_sizes.push_back(sizes(input));
  }
}

const Sizes& PlanBuilder::sizes(const Value* value) {
  const auto found = sizes_.find(value);
  if (found != sizes_.end()) return found->second;
  return sizes_.emplace(value, static_sizes(value->shape())).first->second;
}

int64_t PlanBuilder::elements(const Value* value) { return product(sizes(value)); }

int PlanBuilder::new_buffer(Buffer buffer) {
  plan_.buffers.push_back(buffer);
  return static_cast<int>(plan_.buffers.size()) - 1;
}

void PlanBuilder::touch(int buffer) { touched_.push_back(buffer); }

const std::byte* PlanBuilder::constant_data(const Tensor& tensor) {
  const auto* data = reinterpret_cast<const std::byte*>(tensor.bytes().data());
  if (reinterpret_cast<uintptr_t>(data) % item_size(tensor.dtype()) == 0) return data;
  Tensor copy(tensor.dtype(), tensor.sizes());
  const Bytes from = tensor.bytes();
  std::copy(from.begin(), from.end(), copy.mutable_data<uint8_t>());
  plan_.held.push_back(copy);
  return reinterpret_cast<const std::byte*>(copy.bytes().data());
}

View PlanBuilder::result_with_strides(const Value* value, std::vector<int64_t> strides,
                                      int64_t elements) {
  Buffer buffer;
  buffer.bytes = static_cast<uint64_t>(elements) * item_size(value->dtype());
  const int id = new_buffer(buffer);
  touch(id);
  View view{{id, 0}, value->dtype(), sizes(value), std::move(strides)};
  views_[value] = view;
  return view;
}

Ref PlanBuilder::result(const Value* value) {
  return result_with_strides(value, contiguous_strides(sizes(value)), elements(value)).ref;
}

View PlanBuilder::result_in_order(const Value* value, const std::vector<int64_t>& order) {
  const Sizes& s = sizes(value);
  std::vector<int64_t> strides(s.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[static_cast<size_t>(order[i])] = stride;
    stride *= s[static_cast<size_t>(order[i])];
  }
  return result_with_strides(value, std::move(strides), elements(value));
}

Ref PlanBuilder::scratch(uint64_t bytes) {
  if (bytes == 0) return {};
  Buffer buffer;
  buffer.bytes = bytes;
  const int id = new_buffer(buffer);
  touch(id);
  return {id, 0};
}

View PlanBuilder::view_of_constant(const Tensor& tensor) {
  const std::byte* data = constant_data(tensor);
  auto [found, is_new] = constant_buffers_.try_emplace(data, 0);
  if (is_new) {
    Buffer buffer;
    buffer.kind = Buffer::Kind::kConstant;
    buffer.bytes = tensor.num_bytes();
    buffer.constant = data;
    found->second = new_buffer(buffer);
  }
  return {{found->second, 0}, tensor.dtype(), tensor.sizes(), contiguous_strides(tensor.sizes())};
}

void PlanBuilder::set_constant(const Value* value, Tensor tensor) {
  plan_.held.push_back(std::move(tensor));
  views_[value] = view_of_constant(plan_.held.back());
}

View PlanBuilder::view_of_state(const Value* state) {
  auto [found, is_new] = state_buffers_.try_emplace(state, 0);
  if (is_new) {
    const auto& states = graph_.states();
    Buffer buffer;
    buffer.kind = Buffer::Kind::kState;
    buffer.index =
        static_cast<size_t>(std::find(states.begin(), states.end(), state) - states.begin());
    buffer.bytes = static_cast<uint64_t>(elements(state)) * item_size(state->dtype());
    found->second = new_buffer(buffer);
  }
  return {{found->second, 0}, state->dtype(), sizes(state), contiguous_strides(sizes(state))};
}

bool PlanBuilder::write_in_place(const Value* self, const Value* result) {
  if (self->kind() != Value::Kind::kState || !self->has_one_use()) return false;
  const auto& updates = graph_.state_updates();
  const bool is_update = std::any_of(updates.begin(), updates.end(), [&](const StateUpdate& u) {
    return u.state == self && u.value == result;
  });
  // Once: a second state that takes the same content is copied to as any other.
  if (is_update) views_[result] = view(self);
  return is_update;
}

View PlanBuilder::derive(const Value* value) {
  if (value->is_constant()) return view_of_constant(value->constant());
  if (value->kind() == Value::Kind::kState) return view_of_state(value);
  const Node* node = value->producer();
  DH_CHECK(node != nullptr);  // inputs are there from the start
  const View from = view(node->operand(0));
  const auto item = static_cast<int64_t>(item_size(from.dtype));
  View out = from;
  out.sizes = sizes(value);
  if (node->is(ops::kReshape)) {
    if (const auto reshaped = reshape_view(from, out.sizes)) return *reshaped;
    View copy = copy_of(from, node);
    copy.sizes = sizes(value);
    copy.strides = contiguous_strides(copy.sizes);
    return copy;
  }
  const auto rank = static_cast<int64_t>(out.sizes.size());
  if (node->is(ops::kPermute)) {
    const Ints& dims = node->ints("dims");
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t axis = dims[d] < 0 ? dims[d] + rank : dims[d];
      out.strides[d] = from.strides[static_cast<size_t>(axis)];
    }
    return out;
  }
  if (node->is(ops::kSlice)) {
    const auto axis = static_cast<size_t>(node->axis("dim", rank));
    out.ref.offset += node->dim("start").value() * from.strides[axis] * item;
    out.strides[axis] = from.strides[axis] * node->i("step");
    return out;
  }
  DH_CHECK(node->is(ops::kExpand));
  const size_t added = out.sizes.size() - from.sizes.size();
  out.strides.assign(out.sizes.size(), 0);
  for (size_t d = 0; d < from.sizes.size(); ++d) {
    if (from.sizes[d] == out.sizes[d + added]) out.strides[d + added] = from.strides[d];
  }
  return out;
}

View PlanBuilder::view(const Value* value) {
  auto found = views_.find(value);
  if (found == views_.end()) found = views_.emplace(value, derive(value)).first;
  touch(found->second.ref.buffer);
  return found->second;
}

View PlanBuilder::copy_of(const View& from, const Node* reason) {
  Buffer buffer;
  buffer.bytes = static_cast<uint64_t>(product(from.sizes)) * item_size(from.dtype);
  View to{{new_buffer(buffer), 0}, from.dtype, from.sizes, contiguous_strides(from.sizes)};
  emit_copy(from, to, reason);
  return to;
}

void PlanBuilder::emit_copy(const View& from, const View& to, const Node* reason) {
  // The copy is a step of its own, before the one that is being built.
  const std::vector<int> outer = std::exchange(touched_, {});
  touch(from.ref.buffer);
  touch(to.ref.buffer);
  const kernels::PermutePlan permute = strided_copy(from, to);
  const bool empty = product(from.sizes) == 0;
  std::vector<const Node*> nodes;
  if (reason != nullptr) nodes.push_back(reason);
  emit("copy", std::move(nodes), [=, source = from.ref, target = to.ref](RunContext& run) {
    if (!empty) kernels::permute(permute, run.at<void>(source), run.at<void>(target), run.pool);
  });
  touched_ = outer;
}

Ref PlanBuilder::dense(const Value* value) {
  const View v = view(value);
  if (v.is_dense()) return v.ref;
  const View copy = copy_of(v, value->producer());
  views_[value] = copy;
  touch(copy.ref.buffer);
  return copy.ref;
}

Ref PlanBuilder::dense_in_order(const Value* value, const std::vector<int64_t>& order) {
  View v = view(value);
  const View original = v;
  for (size_t i = 0; i < order.size(); ++i) {
    v.sizes[i] = original.sizes[static_cast<size_t>(order[i])];
    v.strides[i] = original.strides[static_cast<size_t>(order[i])];
  }
  if (v.is_dense()) return v.ref;
  const View copy = copy_of(v, value->producer());
  touch(copy.ref.buffer);
  return copy.ref;
}

void PlanBuilder::emit(std::string kernel, std::vector<const Node*> nodes,
                       std::function<void(RunContext&)> run, int64_t extra_bytes) {
  const auto index = static_cast<int>(plan_.steps.size());
  Step step;
  step.kernel = std::move(kernel);
  step.run = std::move(run);
  step.bytes = extra_bytes;
  std::unordered_set<int> seen;
  for (const int id : touched_) {
    Buffer& buffer = plan_.buffers[static_cast<size_t>(id)];
    if (buffer.first < 0) buffer.first = index;
    buffer.last = index;
    if (seen.insert(id).second) step.bytes += static_cast<int64_t>(buffer.bytes);
  }
  for (const Node* node : nodes) {
    if (node->op().multiply_adds != nullptr) step.multiply_adds += node->op().multiply_adds(*node);
  }
  step.nodes = std::move(nodes);
  plan_.steps.push_back(std::move(step));
  touched_.clear();
}

Status PlanBuilder::plan_outputs() {
  for (size_t k = 0; k < graph_.outputs().size(); ++k) {
    const Value* value = graph_.outputs()[k].value;
    plan_.output_sizes.push_back(sizes(value));
    View v = view(value);
    touched_.clear();
    const uint64_t bytes = static_cast<uint64_t>(elements(value)) * item_size(value->dtype());
    const Buffer& buffer = plan_.buffers[static_cast<size_t>(v.ref.buffer)];
    // Computed straight into the caller's memory, unless that memory is someone else's already.
    if (buffer.kind != Buffer::Kind::kArena || buffer.bytes != bytes || v.ref.offset != 0 ||
        !v.is_dense()) {
      v = copy_of(v, value->producer());
    }
    Buffer& output = plan_.buffers[static_cast<size_t>(v.ref.buffer)];
    output.kind = Buffer::Kind::kOutput;
    output.index = k;
  }
  return {};
}

void PlanBuilder::plan_state_updates() {
  // Content that is another state's old one is read before any is written.
  std::vector<std::pair<View, View>> copies;
  for (const StateUpdate& update : graph_.state_updates()) {
    if (update.value == update.state) continue;
    View from = view(update.value);
    touched_.clear();
    const Node* writer = update.value->producer();
    if (writer != nullptr && writer->is(ops::kWriteRows) && writer->operand(0) == update.state &&
        from.ref.buffer == view_of_state(update.state).ref.buffer) {
      continue;  // is there already
    }
    if (plan_.buffers[static_cast<size_t>(from.ref.buffer)].kind == Buffer::Kind::kState) {
      from = copy_of(from, update.value->producer());
    }
    copies.emplace_back(from, view_of_state(update.state));
  }
  for (const auto& [from, to] : copies) emit_copy(from, to, nullptr);
}

Result<Plan> PlanBuilder::finish() {
  DH_TRY(plan_outputs());
  plan_state_updates();
  std::vector<PlanBlock> blocks;
  std::vector<Buffer*> placed;
  for (Buffer& buffer : plan_.buffers) {
    if (buffer.kind != Buffer::Kind::kArena) continue;
    PlanBlock block;
    block.bytes = (buffer.bytes + kLine - 1) / kLine * kLine;
    block.first = options_.share_arena ? buffer.first : 0;
    block.last = options_.share_arena ? buffer.last : static_cast<int>(plan_.steps.size());
    blocks.push_back(block);
    placed.push_back(&buffer);
  }
  const MemoryPlan memory = plan_memory(blocks);
  DH_CHECK(check_plan(blocks, memory).ok());
  for (size_t i = 0; i < placed.size(); ++i) placed[i]->offset = memory.offsets[i];
  plan_.arena_bytes = memory.arena_bytes;
  return std::move(plan_);
}

}  // namespace downhaul::engine
