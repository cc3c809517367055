// What every operator owes, checked by iteration over ops.inc and op_cases.dh: values as torch
// gives them, types that fit the results, axes that say what depends on what, swapped operands,
// f64.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/file.h"
#include "ir/text.h"
#include "ops/evaluate.h"
#include "ops/loops.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

struct Case {
  std::string name;
  std::unique_ptr<Graph> graph;

  const Node& node() const { return *graph->first_node(); }
  std::vector<Tensor> operands() const {
    std::vector<Tensor> out;
    for (const Value* v : node().operands()) out.push_back(v ? v->constant() : Tensor());
    return out;
  }
};

const std::vector<Case>& cases() {
  static const std::vector<Case>* const all = [] {
    auto* out = new std::vector<Case>;
    const auto file = MappedFile::open(std::string(DH_SOURCE_DIR) + "/src/ops/op_cases.dh");
    DH_CHECK(file.ok());
    const Bytes bytes = (*file)->bytes();
    const std::string_view whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    size_t at = whole.find("graph ");
    while (at != std::string_view::npos) {
      const size_t end = whole.find("\n}", at) + 2;
      auto graph = parse_graph(whole.substr(at, end - at), find_op);
      if (graph.ok()) {
        out->push_back({(*graph)->name, *std::move(graph)});
      } else {
        ADD_FAILURE() << whole.substr(at, whole.find('\n', at) - at) << ": "
                      << graph.status().message();
      }
      at = whole.find("graph ", end);
    }
    return out;
  }();
  return *all;
}

Result<std::vector<Tensor>> evaluate_with(const Node& node, const std::vector<Tensor>& operands) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : operands) pointers.push_back(t.defined() ? &t : nullptr);
  return evaluate_node(node, pointers);
}

/// A node like `node` on other operands, in a graph of its own. Changed attributes by name.
Result<std::unique_ptr<Graph>> rebuild(const Node& node, const std::vector<Tensor>& operands,
                                       const NamedAttrs& changed = {}) {
  auto graph = std::make_unique<Graph>();
  std::vector<Value*> values;
  for (const Tensor& t : operands) values.push_back(t.defined() ? graph->add_constant(t) : nullptr);
  NamedAttrs attrs;
  for (const SchemaArg& arg : node.schema().args) {
    if (arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorList) continue;
    attrs.emplace_back(arg.name, node.attr(arg.name));
    for (const auto& [name, value] : changed) {
      if (name == arg.name) attrs.back().second = value;
    }
  }
  auto inserted = graph->insert(nullptr, node.op(), std::move(values), attrs);
  if (!inserted.ok()) return std::move(inserted).status();
  return graph;
}

/// Inputs of the cases are below 8 in magnitude, sums have at most 300 terms, and every sum is kept
/// in blocks or in f64: 2^-17 of the largest partial sum covers some 64 roundings of f32. Halves
/// round once more; both sides may do so at different places, hence two units.
double tolerance(DType dtype, double expected) {
  const double scale = std::max(1.0, std::abs(expected));
  switch (dtype) {
    case DType::kF16:
      return scale * 0x1p-10;
    case DType::kBF16:
      return scale * 0x1p-7;
    default:
      return scale * 0x1p-17;
  }
}

::testing::AssertionResult close(const Tensor& found, const Tensor& expected, bool exact) {
  if (found.sizes() != expected.sizes()) {
    return ::testing::AssertionFailure()
           << "found " << describe(found) << ", expected " << describe(expected);
  }
  for (int64_t i = 0; i < found.num_elements(); ++i) {
    const double f = found.at(i);
    const double e = expected.at(i);
    const bool same = f == e || (std::isnan(f) && std::isnan(e));
    const bool rounding = !exact && is_float(expected.dtype()) && std::isfinite(e) &&
                          std::abs(f - e) <= tolerance(expected.dtype(), e);
    if (!same && !rounding) {
      return ::testing::AssertionFailure()
             << "element " << i << ": found " << f << ", expected " << e;
    }
  }
  return ::testing::AssertionSuccess();
}

TEST(Ops, EveryOperatorHasACase) {
  std::set<std::string_view> covered;
  for (const Case& c : cases()) covered.insert(c.node().op_name());
  for (const OpDef* op : all_ops()) EXPECT_TRUE(covered.contains(op->name)) << op->name;
}

TEST(Ops, NamesAreUniqueAndFound) {
  for (const OpDef* op : all_ops()) {
    EXPECT_EQ(find_op(op->name), op);
    EXPECT_EQ(std::string_view(op->schema).substr(0, std::string_view(op->name).size() + 1),
              std::string(op->name) + "(");
  }
  EXPECT_EQ(find_op("no_such_operator"), nullptr);
}

TEST(Ops, ValuesAreWhatTorchGives) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto outputs = evaluate(*c.graph, {});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    for (size_t i = 0; i + 1 < outputs->size(); i += 2) {
      EXPECT_TRUE(
          close((*outputs)[i], (*outputs)[i + 1], c.node().op().accuracy == Accuracy::kExact));
    }
  }
}

TEST(Ops, ResultsHaveTheInferredTypes) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto results = evaluate_with(c.node(), c.operands());
    ASSERT_TRUE(results.ok()) << results.status().message();
    ASSERT_EQ(static_cast<int>(results->size()), c.node().num_results());
    for (int r = 0; r < c.node().num_results(); ++r) {
      EXPECT_EQ(type_of((*results)[static_cast<size_t>(r)]), c.node().result(r)->type());
    }
  }
}

TEST(Ops, CommutativeOperandsCanBeSwapped) {
  for (const Case& c : cases()) {
    if (!c.node().op().commutative) continue;
    SCOPED_TRACE(c.name);
    std::vector<Tensor> operands = c.operands();
    const auto straight = evaluate_with(c.node(), operands);
    std::swap(operands[0], operands[1]);
    const auto graph = rebuild(c.node(), operands);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const auto swapped = evaluate_with(*(*graph)->first_node(), operands);
    ASSERT_TRUE(straight.ok() && swapped.ok());
    EXPECT_TRUE(close((*swapped)[0], (*straight)[0], true));
  }
}

/// f32 cases again with f64 operands: both kernels mean the same.
TEST(Ops, F32AndF64Agree) {
  int compared = 0;
  for (const Case& c : cases()) {
    std::vector<Tensor> operands = c.operands();
    bool any = false;
    for (Tensor& t : operands) {
      if (!t.defined() || t.dtype() != DType::kF32) continue;
      t = t.cast(DType::kF64);
      any = true;
    }
    if (!any || c.node().op().accuracy == Accuracy::kExact) continue;
    SCOPED_TRACE(c.name);
    const auto graph = rebuild(c.node(), operands);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const auto wide = evaluate_with(*(*graph)->first_node(), operands);
    const auto narrow = evaluate_with(c.node(), c.operands());
    ASSERT_TRUE(wide.ok() && narrow.ok());
    for (size_t r = 0; r < wide->size(); ++r) {
      EXPECT_TRUE(close((*wide)[r].cast((*narrow)[r].dtype()), (*narrow)[r], false));
    }
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

/// Position of element `index` of row-major `sizes`.
Sizes coordinates(int64_t index, const Sizes& sizes) {
  Sizes at(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    at[d] = index % sizes[d];
    index /= sizes[d];
  }
  return at;
}

bool differs(double a, double b) { return a != b && !(std::isnan(a) && std::isnan(b)); }

/// The tensor with element `i` changed; an index stays in range by staying below what it was.
Tensor perturbed(const Tensor& t, int64_t i) {
  Tensor out(t.dtype(), t.sizes());
  for (int64_t j = 0; j < t.num_elements(); ++j) {
    if (is_float(t.dtype())) {
      out.set(j, j == i ? (std::isfinite(t.at(j)) ? t.at(j) + 1.25 : 0.5) : t.at(j));
    } else {
      const int64_t v = t.int_at(j);
      out.set_int(j, j != i ? v : (v > 0 ? v - 1 : (t.dtype() == DType::kBool ? 1 : v + 1)));
    }
  }
  return out;
}

/// Changing one element of an operand may change only result elements at the same place along every
/// dimension that the axes map.
TEST(Ops, AxesCoverWhatAPerturbationChanges) {
  int changes = 0;
  for (const Case& c : cases()) {
    const Node& node = c.node();
    if (node.op().axes == nullptr) continue;
    SCOPED_TRACE(c.name);
    const AxisMap map = node.op().axes(node);
    ASSERT_EQ(map.operand.size(), node.operands().size());
    const std::vector<Tensor> operands = c.operands();
    const auto base = evaluate_with(node, operands);
    ASSERT_TRUE(base.ok());
    const Sizes& result_sizes = (*base)[0].sizes();
    for (size_t o = 0; o < operands.size(); ++o) {
      if (!operands[o].defined()) {
        EXPECT_TRUE(map.operand[o].empty());
        continue;
      }
      ASSERT_EQ(map.operand[o].size(), operands[o].sizes().size());
      for (size_t d = 0; d < map.operand[o].size(); ++d) {
        const int to = map.operand[o][d];
        if (to == AxisMap::kWhole) continue;
        ASSERT_LT(static_cast<size_t>(to), result_sizes.size());
        EXPECT_EQ(operands[o].sizes()[d], result_sizes[static_cast<size_t>(to)]);
      }
      for (int64_t i = 0; i < operands[o].num_elements(); ++i) {
        std::vector<Tensor> changed = operands;
        changed[o] = perturbed(operands[o], i);
        const auto results = evaluate_with(node, changed);
        if (!results.ok()) continue;  // an index out of range, a division by zero
        const Sizes at = coordinates(i, operands[o].sizes());
        for (int64_t r = 0; r < (*results)[0].num_elements(); ++r) {
          if (!differs((*results)[0].at(r), (*base)[0].at(r))) continue;
          ++changes;
          const Sizes result_at = coordinates(r, result_sizes);
          for (size_t d = 0; d < at.size(); ++d) {
            const int to = map.operand[o][d];
            if (to == AxisMap::kWhole) continue;
            ASSERT_EQ(at[d], result_at[static_cast<size_t>(to)])
                << "operand " << o << " dimension " << d << " element " << i << " changes result "
                << r;
          }
        }
      }
    }
  }
  EXPECT_GT(changes, 10000);
}

/// The second half of dimension `dim`.
Tensor behind(const Tensor& t, int64_t dim, int64_t first) {
  std::vector<int64_t> strides = contiguous_strides(t.sizes());
  Sizes sizes = t.sizes();
  sizes[static_cast<size_t>(dim)] -= first;
  Tensor out(t.dtype(), sizes);
  const int64_t offset = first * strides[static_cast<size_t>(dim)];
  strided_copy(t, offset, std::move(strides), out);
  return out;
}

/// Along a result dimension with mapped operands the operator may run on a part only: taking the
/// part before gives the same as taking it after. (Sizes in attributes change with it.)
TEST(Ops, SelectingAlongAnAxisBeforeOrAfterIsTheSame) {
  int selections = 0;
  for (const Case& c : cases()) {
    const Node& node = c.node();
    if (node.op().axes == nullptr) continue;
    SCOPED_TRACE(c.name);
    const AxisMap map = node.op().axes(node);
    const auto whole = evaluate_with(node, c.operands());
    ASSERT_TRUE(whole.ok());
    for (int64_t r = 0; r < node.result()->rank(); ++r) {
      std::vector<Tensor> operands = c.operands();
      bool any = false;
      for (size_t o = 0; o < operands.size(); ++o) {
        for (size_t d = 0; d < map.operand[o].size(); ++d) {
          if (map.operand[o][d] != r || operands[o].sizes()[d] < 2) continue;
          operands[o] = behind(operands[o], static_cast<int64_t>(d), 1);
          any = true;
        }
      }
      if (!any) continue;
      const Sizes expected_sizes = behind((*whole)[0], r, 1).sizes();
      NamedAttrs changed;
      for (const char* attr : {"shape", "size"}) {
        if (node.schema().find(attr) != nullptr)
          changed.emplace_back(attr, shape_of(expected_sizes));
      }
      SCOPED_TRACE(testing::Message() << "result dimension " << r);
      const auto graph = rebuild(node, operands, changed);
      ASSERT_TRUE(graph.ok()) << graph.status().message();
      const auto part = evaluate_with(*(*graph)->first_node(), operands);
      ASSERT_TRUE(part.ok()) << part.status().message();
      EXPECT_TRUE(close((*part)[0], behind((*whole)[0], r, 1), false));
      ++selections;
    }
  }
  EXPECT_GT(selections, 200);
}

/// A mapped dimension may be symbolic; then so is the result's.
TEST(Ops, MappedDimensionsMayBeSymbolic) {
  int inferred = 0;
  for (const Case& c : cases()) {
    const Node& node = c.node();
    if (node.op().axes == nullptr) continue;
    SCOPED_TRACE(c.name);
    const AxisMap map = node.op().axes(node);
    for (int64_t r = 0; r < node.result()->rank(); ++r) {
      auto symbol = std::make_shared<Symbol>();
      symbol->name = "s";
      symbol->min = 2;
      symbol->max = 64;
      const Dim s{SymbolPtr(symbol)};
      Graph graph;
      std::vector<Value*> values;
      bool any = false;
      for (size_t o = 0; o < node.operands().size(); ++o) {
        const Value* v = node.operands()[o];
        if (v == nullptr) {
          values.push_back(nullptr);
          continue;
        }
        TensorType type = v->type();
        for (size_t d = 0; d < type.shape.size(); ++d) {
          if (map.operand[o][d] != r || type.shape[d] == Dim(1)) continue;
          type.shape[d] = s;
          any = true;
        }
        values.push_back(graph.add_input("x", type));
      }
      // Weights, group sizes and normalised shapes are static by definition.
      const bool is_parameter =
          map.operand[0].empty() || std::find(map.operand[0].begin(), map.operand[0].end(),
                                              static_cast<int>(r)) == map.operand[0].end();
      if (!any || is_parameter) continue;
      SCOPED_TRACE(testing::Message() << "result dimension " << r);
      Shape expected = node.result()->shape();
      expected[static_cast<size_t>(r)] = s;
      NamedAttrs attrs;
      for (const SchemaArg& arg : node.schema().args) {
        if (arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorList) continue;
        const bool is_size = arg.name == "shape" || arg.name == "size";
        attrs.emplace_back(arg.name, is_size ? Attr(expected) : node.attr(arg.name));
      }
      const auto inserted = graph.insert(nullptr, node.op(), values, attrs);
      ASSERT_TRUE(inserted.ok()) << inserted.status().message();
      EXPECT_EQ((*inserted)->result()->shape(), expected);
      ++inferred;
    }
  }
  EXPECT_GT(inferred, 200);
}

}  // namespace
}  // namespace downhaul
