#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "engine/weights.h"
#include "ir/graph.h"

/// From a graph of static sizes to a list of kernel calls on fixed memory.
namespace downhaul::engine {

/// A place in one of the plan's buffers.
struct Ref {
  int buffer = -1;
  int64_t offset = 0;  ///< bytes
};

/// A value as it lies in memory. Strides count elements; 0 repeats.
struct View {
  Ref ref;
  DType dtype = DType::kF32;
  Sizes sizes;
  std::vector<int64_t> strides;

  /// Row-major without gaps (dimensions of size 1 may have any stride).
  bool is_dense() const;
};

/// The same elements, in the same order, under other sizes of the same product; nullopt when that
/// takes a copy.
std::optional<View> reshape_view(const View& view, const Sizes& sizes);

/// What a step sees while it runs.
class RunContext {
 public:
  RunContext(std::byte* const* buffers, ThreadPool& threads) : pool(threads), buffers_(buffers) {}
  template <typename T>
  T* at(const Ref& ref) const {
    return reinterpret_cast<T*>(buffers_[ref.buffer] + ref.offset);
  }
  /// For what only the data can show to be wrong (an index outside its table). The first sticks.
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }

  ThreadPool& pool;

 private:
  std::byte* const* buffers_;
  Status status_;
};

/// One kernel call.
struct Step {
  std::string kernel;              ///< "gemm + gelu", for profiles
  std::vector<const Node*> nodes;  ///< what it computes; the last one's results are stored
  std::function<void(RunContext&)> run;
  int64_t multiply_adds = 0;
  int64_t bytes = 0;  ///< of weights, inputs and results that it must touch at least once
  bool is_reference = false;
};

struct Buffer {
  enum class Kind { kArena, kInput, kOutput, kConstant, kState };
  Kind kind = Kind::kArena;
  size_t index = 0;  ///< of the input, output or state
  uint64_t bytes = 0;
  uint64_t offset = 0;  ///< in the arena
  const std::byte* constant = nullptr;
  int first = -1;  ///< step that writes it
  int last = -1;   ///< last step that touches it
};

/// Everything that a run needs to know. Points into the graph and the weights that it was made of.
struct Plan {
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  uint64_t arena_bytes = 0;
  std::vector<Sizes> input_sizes;
  std::vector<Sizes> output_sizes;
  std::vector<Tensor> held;  ///< constants that were made aligned
};

enum class Precision {
  kF32,
  kBf16,  ///< linear layers round both factors to bf16, all else is f32: see kernels/gemm/bf16.h
  kF16,   ///< every operator of the program rounds its result to f16, as devices do that store it
};

struct PlanOptions {
  int num_threads = 1;
  Precision precision = Precision::kF32;
  /// Packs weights; null: the caller alone does.
  ThreadPool* pool = nullptr;
  /// Every operator by its reference kernel: what the others are held against.
  bool reference_only = false;
  /// A buffer of its own for every value: what sharing is held against.
  bool share_arena = true;
};

/// `graph` with a number for every size, so that inference has checked each node for them.
/// Errors: kInvalidArgument when a size does not follow from the bindings; what inference says of a
/// node that does not work out at these sizes.
Result<std::unique_ptr<Graph>> specialize(const Graph& graph, const Bindings& bindings);

/// Lays out a graph of static sizes, which must outlive the plan. Errors: kUnsupported for a tensor
/// too large to address. The last steps of the plan write the new content of state buffers, so that
/// a run that fails leaves them as they were; rows that are written into them (write_rows) go there
/// at once.
Result<Plan> make_plan(const Graph& graph, Weights& weights, const PlanOptions& options);

/// What the planners of single operators (steps/*.cc) work with. Views are free: reshape, permute,
/// slice and expand cost nothing until someone asks for their elements in order.
class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, Weights& weights, const PlanOptions& options);

  const Sizes& sizes(const Value* value);
  int64_t elements(const Value* value);
  Weights& weights() { return weights_; }
  int num_threads() const { return options_.num_threads; }
  Precision precision() const { return options_.precision; }
  /// For work while planning.
  ThreadPool& pool() { return options_.pool != nullptr ? *options_.pool : caller_; }

  /// Where a value lies; the step that is being built reads it.
  View view(const Value* value);
  /// The same in row-major order without gaps; copies before this step when it is not.
  Ref dense(const Value* value);
  /// The same with the dimensions in `order` of memory (order[0] outermost).
  Ref dense_in_order(const Value* value, const std::vector<int64_t>& order);
  /// Memory for a result of this step, row-major.
  Ref result(const Value* value);
  /// Memory for a result that is laid out as `order` of its dimensions (order[0] outermost).
  View result_in_order(const Value* value, const std::vector<int64_t>& order);
  /// Memory of `elements` for a result that has these strides in it.
  View result_with_strides(const Value* value, std::vector<int64_t> strides, int64_t elements);
  /// Memory that only this step uses; 64-byte aligned. An empty Ref for 0 bytes.
  Ref scratch(uint64_t bytes);
  /// Memory of a constant's elements, aligned to its element size.
  const std::byte* constant_data(const Tensor& tensor);
  /// Lets `result` lie where the state `self` does, whose new content it is: true when nobody
  /// reads the old content. The step that is being built writes it.
  bool write_in_place(const Value* self, const Value* result);
  /// A result that is known now and needs no step.
  void set_constant(const Value* value, Tensor tensor);
  /// Ends the step that was being built. `nodes`: what it covers.
  void emit(std::string kernel, std::vector<const Node*> nodes,
            std::function<void(RunContext&)> run, int64_t extra_bytes = 0);

  Result<Plan> finish();

 private:
  int new_buffer(Buffer buffer);
  void touch(int buffer);
  View derive(const Value* value);
  View view_of_constant(const Tensor& tensor);
  View view_of_state(const Value* state);
  View copy_of(const View& from, const Node* reason);
  void emit_copy(const View& from, const View& to, const Node* reason);
  Status plan_outputs();
  void plan_state_updates();

  const Graph& graph_;
  Weights& weights_;
  PlanOptions options_;
  ThreadPool caller_{1};
  Plan plan_;
  std::unordered_map<const Value*, Sizes> sizes_;
  std::unordered_map<const Value*, View> views_;
  std::unordered_map<const void*, int> constant_buffers_;
  std::unordered_map<const Value*, int> state_buffers_;
  std::vector<int> touched_;
};

/// Plans one node; false when it has no kernel for this case (the reference kernel takes it).
using Planner = bool (*)(PlanBuilder& plan, const Node& node);
/// Null when an operator has none.
Planner planner_of(const OpDef& op);
/// By the reference kernel.
void plan_reference(PlanBuilder& plan, const Node& node);

}  // namespace downhaul::engine
