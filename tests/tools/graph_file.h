#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "ir/text.h"
#include "ops/ops.h"

/// Text files that hold several graphs, and inputs for them. For tests.
namespace downhaul::testing {

/// The text of each graph: from a line that starts with "graph" to the line "}".
inline std::vector<std::string> split_graphs(std::string_view text) {
  std::vector<std::string> out;
  bool inside = false;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("graph ")) {
      out.emplace_back();
      inside = true;
    }
    if (inside) out.back() += std::string(line) + "\n";
    if (line == "}") inside = false;
  }
  return out;
}

inline Result<std::vector<std::unique_ptr<Graph>>> read_graphs(const std::string& path) {
  DH_ASSIGN(const std::string text, read_text_file(path));
  std::vector<std::unique_ptr<Graph>> graphs;
  for (const std::string& one : split_graphs(text)) {
    Result<std::unique_ptr<Graph>> graph = parse_graph(one, find_op);
    if (!graph.ok()) return std::move(graph).status().with_context(one.substr(0, one.find('\n')));
    graphs.push_back(*std::move(graph));
  }
  return graphs;
}

/// Numbers that are the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 1) {}
  uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  double uniform(double low, double high) {
    return low + (high - low) * (static_cast<double>(next() & 0xffffff) / 0x1000000);
  }

 private:
  uint64_t state_;
};

/// Floats in [-2, 2), integers in [0, 3), both bools.
inline Tensor random_tensor(DType dtype, Sizes sizes, Random& random) {
  Tensor t(dtype, std::move(sizes));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (is_float(dtype)) {
      t.set(i, random.uniform(-2, 2));
    } else {
      t.set_int(i, random.below(dtype == DType::kBool ? 2 : 3));
    }
  }
  return t;
}

inline std::vector<Tensor> random_inputs(const Graph& graph, const Bindings& bindings,
                                         uint64_t seed) {
  Random random(seed);
  std::vector<Tensor> out;
  for (const Value* v : graph.inputs()) {
    const auto sizes = eval_sizes(v->shape(), bindings);
    DH_CHECK(sizes.has_value());
    out.push_back(random_tensor(v->dtype(), *sizes, random));
  }
  return out;
}

/// Bindings at which a graph with dynamic sizes is tried: every symbol at its smallest, at its
/// largest, and between.
inline std::vector<Bindings> sample_bindings(const Graph& graph) {
  const auto symbols = graph.symbols();
  if (symbols.empty()) return {{}};
  std::vector<Bindings> out(3);
  for (const auto& [name, symbol] : symbols) {
    out[0][name] = symbol->min;
    out[1][name] = symbol->max;
    out[2][name] = symbol->min + (symbol->max - symbol->min) / 2;
  }
  return out;
}

}  // namespace downhaul::testing
