// LSTM over a sequence of fixed length, written out step by step.
#include "base/strings.h"
#include "dialects/aten/raise.h"
#include "dialects/aten/shapes.h"

namespace downhaul::aten {
namespace {

struct Weights {
  Value* input = nullptr;   // [4·hidden, features]
  Value* hidden = nullptr;  // [4·hidden, hidden or projection]
  Value* input_bias = nullptr;
  Value* hidden_bias = nullptr;
};

struct State {
  Value* h = nullptr;  // [batch, hidden]
  Value* c = nullptr;
};

// Gates lie in the order input, forget, cell, output.
State step(Call& c, Value* projected, const State& state, const Weights& w, const Dim& hidden) {
  Value* gates = c.add(projected, c.op(ops::kLinear, {state.h, w.hidden, w.hidden_bias}));
  const auto gate = [&](int64_t i) {
    return c.slice(gates, 1, hidden * Dim(i), hidden * Dim(i + 1));
  };
  Value* in = c.op(ops::kSigmoid, {gate(0)});
  Value* forget = c.op(ops::kSigmoid, {gate(1)});
  Value* cell = c.op(ops::kTanh, {gate(2)});
  Value* out = c.op(ops::kSigmoid, {gate(3)});
  State next;
  next.c = c.add(c.mul(forget, state.c), c.mul(in, cell));
  next.h = c.mul(out, c.op(ops::kTanh, {next.c}));
  return next;
}

// A row of a [layers, batch, hidden] tensor.
Value* row(Call& c, Value* v, int64_t index) {
  Value* one = c.slice(v, 0, index, index + 1);
  return c.reshape(one, replaced(dims_of(v), 0, 1, {}));
}

Value* stacked(Call& c, std::vector<Value*> parts, int64_t dim) {
  for (Value*& p : parts) {
    Dims shape = dims_of(p);
    if (dim > static_cast<int64_t>(shape.size())) return nullptr;
    shape.insert(shape.begin() + dim, Dim(1));
    p = c.reshape(p, std::move(shape));
  }
  return parts.size() == 1 ? parts[0] : c.op(ops::kConcat, parts, {{"dim", dim}});
}

}  // namespace

Out raise_lstm(Call& c) {
  Value* input = c.tensor("input");
  const std::vector<Value*> initial = c.tensors("hx");
  const std::vector<Value*> params = c.tensors("params");
  const bool biases = c.b("has_biases");
  const bool batch_first = c.b("batch_first");
  const int64_t layers = c.i("num_layers");
  const int64_t directions = c.b("bidirectional") ? 2 : 1;
  const int64_t per_direction = biases ? 4 : 2;
  if (c.b("train") && c.f("dropout") != 0.0) {
    c.fail("dropout in training mode; export the model after model.eval()");
  }
  if (!c.ok()) return {};
  if (layers < 1 || layers > 1024 || initial.size() != 2 || input->rank() != 3 ||
      initial[0]->rank() != 3 || initial[1]->rank() != 3 ||
      static_cast<int64_t>(params.size()) != layers * directions * per_direction) {
    c.fail(cat("an LSTM of ", layers, " layers with ", params.size(),
               " weights on an input of rank ", input->rank(),
               " (projections and unbatched inputs are not handled)"));
    return {};
  }
  const int64_t time = batch_first ? 1 : 0;
  const Dim steps = input->dim(time);
  const Dim hidden = initial[1]->dim(2);
  constexpr int64_t kMaxSteps = 4096;
  if (!steps.is_static() || steps.value() < 1 || steps.value() > kMaxSteps) {
    c.fail(cat("a sequence of ", steps.str(), " steps, expected a fixed number from 1 to ",
               kMaxSteps));
    return {};
  }
  Value* sequence = input;
  std::vector<Value*> last_h;
  std::vector<Value*> last_c;
  for (int64_t layer = 0; layer < layers && c.ok(); ++layer) {
    std::vector<Value*> results;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t index = layer * directions + direction;
      const auto first = static_cast<size_t>(index * per_direction);
      Weights w{params[first], params[first + 1], nullptr, nullptr};
      if (biases) {
        w.input_bias = params[first + 2];
        w.hidden_bias = params[first + 3];
      }
      State state{row(c, initial[0], index), row(c, initial[1], index)};
      Value* projected = c.op(ops::kLinear, {sequence, w.input, w.input_bias});
      std::vector<Value*> outputs(static_cast<size_t>(steps.value()));
      for (int64_t n = 0; n < steps.value() && c.ok(); ++n) {
        const int64_t t = direction == 0 ? n : steps.value() - 1 - n;
        Value* at = c.slice(projected, time, t, t + 1);
        at = c.reshape(at, replaced(dims_of(at), time, 1, {}));
        state = step(c, at, state, w, hidden);
        outputs[static_cast<size_t>(t)] = state.h;
      }
      if (!c.ok()) return {};
      results.push_back(stacked(c, outputs, time));
      last_h.push_back(state.h);
      last_c.push_back(state.c);
    }
    sequence =
        results.size() == 1 ? results[0] : c.op(ops::kConcat, results, {{"dim", int64_t{2}}});
  }
  if (!c.ok()) return {};
  return std::vector<Value*>{sequence, stacked(c, last_h, 0), stacked(c, last_c, 0)};
}

}  // namespace downhaul::aten
