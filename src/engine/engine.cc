#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "base/strings.h"
#include "engine/pages.h"
#include "passes/passes.h"

namespace downhaul {

using engine::Buffer;

Result<std::shared_ptr<EngineModel>> EngineModel::prepare(const Graph& graph,
                                                          std::string cache_folder,
                                                          engine::Precision precision) {
  const bool is_in_f16 = precision == engine::Precision::kF16;
  std::unique_ptr<Graph> copy;
  std::vector<Pass> passes;
  if (is_in_f16) {
    DH_ASSIGN(copy, graph_in_f16(graph));
  } else {
    copy = graph.clone();
    passes = canonical_passes();
    passes.insert(passes.begin(), {"widen_f16", {}, widen_f16});
  }
  for (Pass& pass : nhwc_passes()) passes.push_back(std::move(pass));
  PipelineOptions options;
  options.verify = false;
  DH_TRY(run_pipeline(*copy, passes, options));
  return std::shared_ptr<EngineModel>(new EngineModel(
      std::move(copy), std::make_shared<engine::Weights>(std::move(cache_folder)), is_in_f16));
}

std::shared_ptr<EngineModel> EngineModel::as_it_is(const Graph& graph, const EngineModel* sharing) {
  auto weights = sharing == nullptr ? std::make_shared<engine::Weights>() : sharing->weights_;
  return std::shared_ptr<EngineModel>(new EngineModel(graph.clone(), std::move(weights)));
}

Session::Session(std::shared_ptr<EngineModel> model, const EngineOptions& options)
    : model_(std::move(model)), options_(options), pool_(options.num_threads) {
  DH_CHECK((options.precision == engine::Precision::kF16) == model_->is_in_f16());
  reset_state();
}

Session::~Session() {
  if (arena_ != nullptr) engine::unmap_memory(arena_, arena_bytes_);
}

void Session::reset_state() {
  const std::vector<Value*>& states = model_->graph().states();
  for (size_t i = 0; i < states.size(); ++i) {
    const Tensor& initial = states[i]->constant();
    if (state_.size() <= i) state_.emplace_back(initial.dtype(), initial.sizes());
    std::copy_n(initial.bytes().data(), initial.num_bytes(), state_[i].mutable_data<uint8_t>());
  }
}

Status Session::reshape(const Bindings& bindings) {
  if (plan_ != nullptr && bindings == bindings_) return {};
  engine::PlanOptions options;
  options.num_threads = pool_.num_threads();
  options.precision = options_.precision;
  options.pool = &pool_;
  options.reference_only = options_.reference_only;
  options.share_arena = options_.share_arena;
  std::unique_ptr<Graph> specialized;
  if (!model_->graph().symbols().empty()) {
    DH_ASSIGN(specialized, engine::specialize(model_->graph(), bindings));
  }
  const Graph& graph = specialized != nullptr ? *specialized : model_->graph();
  DH_ASSIGN(engine::Plan plan, engine::make_plan(graph, model_->weights(), options));
  if (plan.arena_bytes > arena_bytes_) {
    if (arena_ != nullptr) engine::unmap_memory(arena_, arena_bytes_);
    arena_ = nullptr;
    arena_bytes_ = 0;
    void* memory = engine::map_memory(plan.arena_bytes);
    if (memory == nullptr) {
      plan_ = nullptr;
      return unsupported(cat("activations need ", plan.arena_bytes,
                             " bytes, which this system "
                             "does not give"));
    }
    arena_ = static_cast<std::byte*>(memory);
    arena_bytes_ = plan.arena_bytes;
  }
  plan_ = std::make_unique<engine::Plan>(std::move(plan));
  specialized_ = std::move(specialized);
  bindings_ = bindings;
  pointers_.assign(plan_->buffers.size(), nullptr);
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const Buffer& buffer = plan_->buffers[i];
    if (buffer.kind == Buffer::Kind::kArena) pointers_[i] = arena_ + buffer.offset;
    if (buffer.kind == Buffer::Kind::kState) {
      pointers_[i] = reinterpret_cast<std::byte*>(state_[buffer.index].mutable_data<uint8_t>());
    }
    // Kernels only read constants.
    if (buffer.kind == Buffer::Kind::kConstant) {
      pointers_[i] = const_cast<std::byte*>(buffer.constant);
    }
  }
  nanoseconds_.assign(plan_->steps.size(), 0);
  return {};
}

Status Session::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  if (plan_ == nullptr) return invalid_argument("run before reshape");
  if (inputs.size() != plan_->input_sizes.size() || outputs.size() != plan_->output_sizes.size()) {
    return invalid_argument(cat("expected ", plan_->input_sizes.size(), " inputs and ",
                                plan_->output_sizes.size(), " outputs, found ", inputs.size(),
                                " and ", outputs.size()));
  }
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const Buffer& buffer = plan_->buffers[i];
    if (buffer.kind == Buffer::Kind::kInput) {
      pointers_[i] = const_cast<std::byte*>(static_cast<const std::byte*>(inputs[buffer.index]));
    } else if (buffer.kind == Buffer::Kind::kOutput) {
      pointers_[i] = static_cast<std::byte*>(outputs[buffer.index]);
    }
  }
  engine::RunContext context(pointers_.data(), pool_);
  if (!profiling_) {
    for (const engine::Step& step : plan_->steps) {
      step.run(context);
      if (!context.status().ok()) return context.status();
    }
    return {};
  }
  auto before = std::chrono::steady_clock::now();
  for (size_t s = 0; s < plan_->steps.size(); ++s) {
    plan_->steps[s].run(context);
    if (!context.status().ok()) return context.status();
    const auto now = std::chrono::steady_clock::now();
    nanoseconds_[s] = std::chrono::duration_cast<std::chrono::nanoseconds>(now - before).count();
    before = now;
  }
  return {};
}

Result<std::vector<Tensor>> Session::run(const std::vector<Tensor>& inputs) {
  DH_ASSIGN(const Bindings bindings, bind_symbols(model_->graph(), inputs));
  DH_TRY(reshape(bindings));
  const Graph& graph = model_->graph();
  std::vector<Tensor> aligned;  // keeps copies of inputs that lie oddly in their file
  aligned.reserve(inputs.size());
  std::vector<const void*> in;
  for (const Tensor& input : inputs) {
    const uint8_t* data = input.bytes().data();
    if (reinterpret_cast<uintptr_t>(data) % item_size(input.dtype()) != 0) {
      Tensor copy(input.dtype(), input.sizes());
      std::copy_n(data, input.num_bytes(), copy.mutable_data<uint8_t>());
      aligned.push_back(std::move(copy));
      data = aligned.back().bytes().data();
    }
    in.push_back(data);
  }
  std::vector<Tensor> results;
  std::vector<void*> out;
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    results.emplace_back(graph.outputs()[k].value->dtype(), plan_->output_sizes[k]);
    out.push_back(results.back().mutable_data<uint8_t>());
  }
  DH_TRY(run(in, out));
  return results;
}

}  // namespace downhaul
