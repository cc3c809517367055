#pragma once

// Every rewrite and every graph pass proves itself on a text file of its name:
//
//     # why this case
//     before:
//       input %x: f32[2,3]
//       ...
//       return %y
//     after:
//       ...            (or "after: unchanged")
//     options: tolerance=1e-5 max_int=4 nan=false
//
// The driver runs just that rewrite, compares the structure of the result with `after` (names and
// the data of constants do not count), and evaluates both graphs on the same random inputs, also
// all-zero ones and ones with a NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/evaluate.h"
#include "ops/ops.h"
#include "rewrite/rewrite.h"

namespace downhaul::rewrite_text {

struct Case {
  int line = 0;
  std::string before;
  std::string after;  ///< empty: unchanged
  double tolerance = -1;
  int64_t max_int = 1;
  bool nan = true;
};

inline void parse_options(std::string_view text, Case& c) {
  for (const std::string_view item : split(text, ' ')) {
    const size_t sign = item.find('=');
    if (sign == std::string_view::npos) continue;
    const std::string value(item.substr(sign + 1));
    const std::string_view key = item.substr(0, sign);
    if (key == "tolerance") {
      c.tolerance = std::stod(value);
    } else if (key == "max_int") {
      c.max_int = std::stoll(value);
    } else if (key == "nan") {
      c.nan = value == "true";
    } else {
      ADD_FAILURE() << "unknown option " << key;
    }
  }
}

inline std::vector<Case> read_cases(const std::filesystem::path& path) {
  std::vector<Case> cases;
  std::ifstream file(path);
  std::string* section = nullptr;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::string_view text = trim(line);
    if (text == "before:") {
      cases.emplace_back().line = number;
      section = &cases.back().before;
    } else if (text == "after:" && !cases.empty()) {
      section = &cases.back().after;
    } else if (text == "after: unchanged") {
      section = nullptr;
    } else if (text.starts_with("options:") && !cases.empty()) {
      parse_options(text.substr(8), cases.back());
      section = nullptr;
    } else if (!text.empty() && !text.starts_with('#')) {
      if (section == nullptr) {
        ADD_FAILURE() << path << ":" << number << ": text outside of a section";
        return cases;
      }
      *section += "  " + std::string(text) + "\n";
    }
  }
  return cases;
}

inline std::unique_ptr<Graph> parse(const std::string& body) {
  auto graph = parse_graph("graph test {\n" + body + "}\n", find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message() << "\n" << body;
  return graph.ok() ? *std::move(graph) : nullptr;
}

/// The graph without accidental names: values by position, constants by type and, for a single
/// element, value.
inline std::string structure(const Graph& original) {
  const auto graph = original.clone();
  std::string out;
  for (const Value* input : graph->inputs()) {
    out += cat("input %", input->name(), ": ", input->type().str(), "\n");
  }
  // Two steps, so that no new name meets an old one.
  for (const std::string_view prefix : {"renamed.", "v"}) {
    int values = 0;
    int constants = 0;
    std::set<const Value*> seen;
    const auto rename = [&](Value* v) {
      if (v == nullptr || !v->is_constant() || !seen.insert(v).second) return;
      graph->rename(v, cat(prefix, "c", constants++));
    };
    for (const auto& node : graph->nodes()) {
      for (Value* operand : node->operands()) rename(operand);
      for (int i = 0; i < node->num_results(); ++i) {
        graph->rename(node->result(i), cat(prefix, values++));
      }
    }
    for (const Output& output : graph->outputs()) rename(output.value);
  }
  std::set<std::string> lines;
  for (const Value* c : graph->constants()) {
    std::string value;
    if (c->constant().num_elements() == 1) {
      std::ostringstream number;
      number.precision(5);
      number << c->constant().at(0);
      value = " = " + number.str();
    }
    lines.insert(cat("const %", c->name(), ": ", c->type().str(), value, "\n"));
  }
  for (const std::string& line : lines) out += line;
  for (const auto& node : graph->nodes()) out += std::string(trim(print(*node))) + "\n";
  for (const Output& output : graph->outputs()) {
    out += cat("return %", output.value->name(), "\n");
  }
  return out;
}

enum class Inputs { kRandom, kZero, kNan };

inline std::vector<Tensor> make_inputs(const Graph& graph, const Case& c, const Bindings& bindings,
                                       Inputs kind, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> out;
  bool poisoned = kind != Inputs::kNan;
  for (const Value* input : graph.inputs()) {
    const auto sizes = eval_sizes(input->shape(), bindings);
    EXPECT_TRUE(sizes.has_value());
    Tensor t(input->dtype(), *sizes);
    for (int64_t i = 0; kind != Inputs::kZero && i < t.num_elements(); ++i) {
      if (is_float(t.dtype())) {
        t.set(i, std::uniform_real_distribution<double>(-4, 4)(random));
      } else {
        const int64_t top = t.dtype() == DType::kBool ? 1 : c.max_int;
        t.set_int(i, std::uniform_int_distribution<int64_t>(0, top)(random));
      }
    }
    if (!poisoned && is_float(t.dtype()) && t.num_elements() > 0) {
      t.set(t.num_elements() / 2, std::numeric_limits<double>::quiet_NaN());
      poisoned = true;
    }
    out.push_back(std::move(t));
  }
  return out;
}

inline bool all_exact(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (node->op().accuracy != Accuracy::kExact) return false;
  }
  return true;
}

inline void expect_close(const Tensor& a, const Tensor& b, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(describe(a), describe(b)) << what;
  int64_t worst = -1;
  double worst_error = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.at(i);
    const double y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    double error = std::abs(x - y) / (1 + std::abs(x));
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error > tolerance && error > worst_error) {
      worst = i;
      worst_error = error;
    }
  }
  EXPECT_EQ(worst, -1) << what << ": element " << worst << " expected "
                       << a.at(std::max<int64_t>(worst, 0)) << " found "
                       << b.at(std::max<int64_t>(worst, 0));
}

inline void expect_same_values(const Graph& before, const Graph& after, const Case& c) {
  // 1e-5: sums of a few dozen products of numbers of order 10 in f32, in another order.
  double tolerance = c.tolerance;
  if (tolerance < 0) tolerance = all_exact(before) && all_exact(after) ? 0 : 1e-5;
  const auto symbols = before.symbols();
  for (int step = 0; step < (symbols.empty() ? 1 : 3); ++step) {
    Bindings bindings;
    for (const auto& [name, symbol] : symbols) {
      const int64_t top = std::min<int64_t>(symbol->max, symbol->min + 8);
      bindings[name] = step == 0 ? symbol->min : step == 1 ? (symbol->min + top + 1) / 2 : top;
    }
    for (const Inputs kind : {Inputs::kRandom, Inputs::kZero, Inputs::kNan}) {
      if (kind == Inputs::kNan && !c.nan) continue;
      const auto inputs = make_inputs(before, c, bindings, kind, 7);
      const auto expected = evaluate(before, inputs);
      const auto found = evaluate(after, inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      ASSERT_TRUE(found.ok()) << found.status().message() << "\n" << print(after);
      ASSERT_EQ(expected->size(), found->size());
      for (size_t i = 0; i < expected->size(); ++i) {
        expect_close((*expected)[i], (*found)[i], tolerance,
                     cat("inputs ", static_cast<int>(kind), ", output ", i, ", sizes step ", step));
      }
    }
  }
}

inline void check_case(const Pass& pass, const Case& c) {
  const auto before = parse(c.before);
  if (before == nullptr) return;
  const auto graph = before->clone();
  PipelineOptions options;
  const Status status = run_pipeline(*graph, std::span(&pass, 1), options);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::string found = structure(*graph);
  if (c.after.empty()) {
    EXPECT_EQ(found, structure(*before));
    return;
  }
  EXPECT_NE(found, structure(*before)) << "did not fire";
  const auto after = parse(c.after);
  if (after == nullptr) return;
  EXPECT_EQ(found, structure(*after)) << print(*graph);
  expect_same_values(*before, *graph, c);
}

/// Runs the cases of `folder`/<name of the pass>.dh. At least one of them must fire.
inline void check_file(const std::filesystem::path& folder, const Pass& pass) {
  const std::filesystem::path path = folder / (std::string(pass.name) + ".dh");
  ASSERT_TRUE(std::filesystem::exists(path)) << path;
  const std::vector<Case> cases = read_cases(path);
  ASSERT_FALSE(cases.empty());
  bool fires = false;
  for (const Case& c : cases) {
    SCOPED_TRACE(cat(path.string(), ":", c.line));
    check_case(pass, c);
    fires = fires || !c.after.empty();
  }
  EXPECT_TRUE(fires) << "no case where it fires";
}

/// The folder holds a file for each pass, and no other.
inline void check_folder(const std::filesystem::path& folder, const std::vector<Pass>& passes) {
  std::set<std::string> names;
  for (const Pass& pass : passes) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name << " twice";
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".dh") continue;
    EXPECT_TRUE(names.contains(entry.path().stem().string())) << entry.path();
  }
}

}  // namespace downhaul::rewrite_text

namespace downhaul {

// Readable parameter in gtest's messages.
inline void PrintTo(const Pass& pass, std::ostream* out) { *out << pass.name; }

}  // namespace downhaul
