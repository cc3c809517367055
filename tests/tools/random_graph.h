#pragma once

#include <memory>
#include <vector>

#include "ops/ops.h"
#include "tests/tools/graph_file.h"

namespace downhaul::testing {

/// A graph of 20 to 80 nodes (elementwise, matrix products, concatenations, slices, views) with
/// several outputs, among them an input returned unchanged and values that are also used inside.
inline std::unique_ptr<Graph> random_graph(uint64_t seed) {
  Random random(seed);
  auto graph = std::make_unique<Graph>();
  graph->name = cat("random_", seed);
  Builder b(*graph, nullptr);
  std::vector<Value*> pool;  // f32 [r, c] with small sizes
  const int64_t kSizes[] = {1, 2, 3, 4, 8};
  const auto size = [&] { return kSizes[random.below(5)]; };
  for (int i = 0; i < 3; ++i)
    pool.push_back(graph->add_input(cat("x", i), {DType::kF32, {size(), size()}}));
  pool.push_back(graph->add_constant(random_tensor(DType::kF32, {4, 4}, random)));
  const auto pick = [&] {
    // Mostly recent values, so that lifetimes differ.
    const auto n = static_cast<int64_t>(pool.size());
    const int64_t span = random.below(3) == 0 ? n : std::min<int64_t>(n, 6);
    return pool[static_cast<size_t>(n - 1 - random.below(span))];
  };
  const int64_t nodes = 20 + random.below(61);
  for (int64_t i = 0; i < nodes; ++i) {
    Value* x = pick();
    const int64_t rows = x->dim(0).value(), columns = x->dim(1).value();
    Value* made = nullptr;
    switch (random.below(8)) {
      case 0:
        made = b.op(ops::kTanh, {x});
        break;
      case 1:
        made = b.op(ops::kSigmoid, {x});
        break;
      case 2: {
        Value* y = pick();
        const auto fits = [](const Dim& p, const Dim& q) {
          return p == q || p == Dim(1) || q == Dim(1);
        };
        made = fits(x->dim(0), y->dim(0)) && fits(x->dim(1), y->dim(1))
                   ? b.op(random.below(2) == 0 ? ops::kAdd : ops::kMaximum, {x, y})
                   : b.op(ops::kNeg, {x});
        break;
      }
      case 3:
        made = b.op(ops::kReshape, {x}, {{"shape", Dims{columns * rows, 1}}});
        made = b.op(ops::kReshape, {made}, {{"shape", Dims{columns, rows}}});
        break;
      case 4:
        made = b.op(ops::kPermute, {x}, {{"dims", Ints{1, 0}}});
        break;
      case 5: {
        Value* w = graph->add_constant(random_tensor(DType::kF32, {size(), columns}, random));
        made = b.op(ops::kSigmoid, {b.op(ops::kLinear, {x, w, nullptr})});
        break;
      }
      case 6:
        made = rows < 64 ? b.op(ops::kConcat, {x, x}, {{"dim", int64_t{0}}}) : b.op(ops::kAbs, {x});
        break;
      default:
        made = rows > 1 ? b.op(ops::kSlice, {x},
                               {{"dim", int64_t{0}}, {"start", Dim(1)}, {"end", Dim(rows)}})
                        : b.op(ops::kAbs, {x});
    }
    DH_CHECK(b.status().ok());
    pool.push_back(made);
  }
  graph->add_output(pool[0], "unchanged input");
  for (Value* v : pool)
    if (v->producer() != nullptr && v->num_uses() == 0) graph->add_output(v, v->name());
  for (int i = 0; i < 3; ++i)
    graph->add_output(pool[static_cast<size_t>(random.below(static_cast<int64_t>(pool.size())))],
                      cat("also used inside ", i));
  graph->remove_dead();  // constants and inputs that nobody picked
  return graph;
}

}  // namespace downhaul::testing
