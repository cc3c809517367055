#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "engine/weights.h"
#include "ir/graph.h"
#include "ops/evaluate.h"

/// Fast evaluation on this machine's CPU: prepare once, lay out for the sizes at hand, run often.
namespace downhaul {

struct EngineOptions {
  int num_threads = 1;
  /// kF16 if, and only if, the model was prepared for it.
  engine::Precision precision = engine::Precision::kF32;
  /// For tests of the engine itself.
  bool reference_only = false;
  bool share_arena = true;
};

/// A program made ready: its graph after the rewrites that every lowering shares, and its weights
/// packed. Immutable to its users; any number of sessions may share one, from any thread.
class EngineModel {
 public:
  /// `graph` is copied and rewritten; constants keep pointing into their files.
  /// A program of half floats computes in f32; its inputs and outputs keep their type.
  /// `cache_folder`, unless empty, keeps packed weights for later processes (see Weights).
  /// `precision` kF16: the program's own operators, each rounded (passes: graph_in_f16); the other
  /// two are the same model, and a session chooses.
  /// Errors: kInvalidGraph from the rewrites.
  static Result<std::shared_ptr<EngineModel>> prepare(
      const Graph& graph, std::string cache_folder = "",
      engine::Precision precision = engine::Precision::kF32);
  /// The graph as it is, without rewrites: what tests of single kernels want.
  /// `sharing`: another model of the same constants, whose packed weights are used too.
  static std::shared_ptr<EngineModel> as_it_is(const Graph& graph,
                                               const EngineModel* sharing = nullptr);

  const Graph& graph() const { return *graph_; }
  engine::Weights& weights() { return *weights_; }
  const engine::Weights& weights() const { return *weights_; }
  bool is_in_f16() const { return is_in_f16_; }

 private:
  EngineModel(std::unique_ptr<Graph> graph, std::shared_ptr<engine::Weights> weights,
              bool is_in_f16 = false)
      : graph_(std::move(graph)), weights_(std::move(weights)), is_in_f16_(is_in_f16) {}
  std::unique_ptr<Graph> graph_;
  std::shared_ptr<engine::Weights> weights_;
  bool is_in_f16_ = false;
};

/// One stream of runs: activations, threads and state of its own. Not for several callers at a
/// time.
///
/// State is what a model changes of its own buffers (a cache, a counter). It begins with the file's
/// content, and a run that succeeds leaves behind what the next one finds, whatever the sizes of
/// the inputs. A run that fails changes nothing, but for rows that write_rows put in place.
class Session {
 public:
  Session(std::shared_ptr<EngineModel> model, const EngineOptions& options = {});
  ~Session();

  /// Lays out activations for these values of the model's symbols; a model of static sizes takes
  /// none. Weights that these sizes need in another layout are packed now. A repetition is free.
  Status reshape(const Bindings& bindings = {});

  /// Outputs in the order of the graph's, for `inputs` in its order; reshapes as the inputs demand.
  /// Errors: kInvalidArgument for an input that does not fit, or for data that no kernel may follow
  /// (an index outside its table).
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs);

  /// After reshape, on the caller's memory: row-major, aligned to the element, of the plan's sizes,
  /// inputs and outputs apart. Does not allocate, unless an operator has only its reference kernel
  /// (see Step::is_reference).
  Status run(std::span<const void* const> inputs, std::span<void* const> outputs);

  /// State as the file has it, as in a new session.
  void reset_state();

  /// The content of the graph's state `index`, row-major; goes with the session.
  uint8_t* state_data(size_t index) { return state_[index].mutable_data<uint8_t>(); }

  /// Null before the first reshape.
  const engine::Plan* plan() const { return plan_.get(); }
  const EngineModel& model() const { return *model_; }
  int num_threads() const { return pool_.num_threads(); }

  /// Nanoseconds of each step of the plan in the last run, when switched on.
  void set_profiling(bool on) { profiling_ = on; }
  const std::vector<int64_t>& step_nanoseconds() const { return nanoseconds_; }

 private:
  std::shared_ptr<EngineModel> model_;
  EngineOptions options_;
  ThreadPool pool_;
  Bindings bindings_;
  std::unique_ptr<Graph> specialized_;  ///< what the plan points into, when sizes are dynamic
  std::unique_ptr<engine::Plan> plan_;
  std::vector<Tensor> state_;  ///< of each of the graph's states
  std::byte* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  std::vector<std::byte*> pointers_;  ///< of each buffer
  bool profiling_ = false;
  std::vector<int64_t> nanoseconds_;
};

}  // namespace downhaul
