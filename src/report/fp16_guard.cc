#include "report/fp16_guard.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "ops/evaluate.h"
#include "ops/gemm.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "report/artifact.h"

namespace downhaul {
namespace {

using Kind = Fp16Finding::Kind;

/// Masks count from here downwards: what is added to scores to hide them.
constexpr double kMasked = -9e3;

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", v);
  return text;
}

std::string place_of(const Node& node) {
  if (node.origins().empty()) return cat(node.op_name(), " ", node.result()->name());
  const Origin& origin = node.graph().origins[static_cast<size_t>(node.origins().back())];
  return cat(node.op_name(), " ", origin.name,
             origin.module_path.empty() ? "" : cat(" in ", origin.module_path));
}

/// Elements of one tensor that f16 cannot hold.
struct Range {
  double largest = 0;   ///< finite magnitude
  double smallest = 0;  ///< magnitude of what becomes 0, the least; 0: none
  int64_t over = 0, under = 0, nan = 0;
  bool all_under = false;  ///< every element that is not 0
};

Range range_of(const Tensor& t) {
  Range r;
  int64_t not_zero = 0;
  const auto look = [&](double v) {
    const double a = std::abs(v);
    if (std::isnan(v)) {
      ++r.nan;
    } else if (a != 0 && !std::isinf(v)) {
      ++not_zero;
      r.largest = std::max(r.largest, a);
      r.over += a > kLargestF16;
      if (a < kSmallestF16) {
        ++r.under;
        r.smallest = r.smallest == 0 ? a : std::min(r.smallest, a);
      }
    }
  };
  const int64_t n = t.num_elements();
  if (t.dtype() == DType::kF32 && reinterpret_cast<uintptr_t>(t.bytes().data()) % 4 == 0) {
    const auto* data = t.data<float>();
    for (int64_t i = 0; i < n; ++i) look(static_cast<double>(data[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) look(t.at(i));
  }
  r.all_under = r.under > 0 && r.under == not_zero;
  return r;
}

/// The sizes before, at and behind an axis: element (o, i, n) lies at (o * size + i) * inner + n.
struct Rows {
  int64_t outer = 1, size = 1, inner = 1;
  Rows(const Sizes& sizes, size_t first, size_t end) {
    for (size_t d = 0; d < sizes.size(); ++d) {
      (d < first ? outer : d < end ? size : inner) *= sizes[d];
    }
  }
};

class Guard {
 public:
  explicit Guard(const Graph& graph) : graph_(graph) {
    for (const auto& node : graph.nodes()) {
      if (is_norm(*node)) want(node->operand(0));
      if (node->is(ops::kSoftmax)) want(node->operand(0));
      if (node->is(ops::kAttention)) {
        for (const char* name : {"query", "key", "mask"}) want(node->operand(name));
      }
      if (is_scores(*node)) scores_.insert(node.get());
    }
  }

  void constants() {
    for (const Value* c : graph_.constants()) {
      if (is_float(c->dtype()) && c->num_uses() > 0) constant(*c);
    }
    for (const auto& node : graph_.nodes()) {
      for (const SchemaArg& arg : node->schema().args) {
        if (arg.kind == ArgKind::kFloat && node->has_attr(arg.name)) attribute(*node, arg.name);
      }
    }
  }

  Status evaluate_on(const NamedInputs& inputs) {
    set_ = inputs.name;
    tensors_.clear();
    for (size_t i = 0; i < inputs.tensors.size() && i < graph_.inputs().size(); ++i) {
      tensors_[graph_.inputs()[i]] = inputs.tensors[i];
      if (is_float(inputs.tensors[i].dtype())) {
        values(cat("input ", graph_.inputs()[i]->name()), inputs.tensors[i], false);
      }
    }
    EvaluateOptions options;
    options.context = this;
    options.on_node = [](const Node& node, const std::vector<Tensor>& results, void* self) {
      static_cast<Guard*>(self)->look(node, results);
    };
    return evaluate(graph_, inputs.tensors, options).status();
  }

  Fp16Report finish() {
    for (auto& [key, finding] : found_) report_.findings.push_back(std::move(finding));
    std::stable_sort(
        report_.findings.begin(), report_.findings.end(),
        [](const Fp16Finding& a, const Fp16Finding& b) { return a.is_error && !b.is_error; });
    return std::move(report_);
  }

 private:
  void want(const Value* value) {
    if (value != nullptr) wanted_.insert(value);
  }

  static bool is_norm(const Node& node) {
    return node.is(ops::kLayerNorm) || node.is(ops::kChannelNorm);
  }

  /// A product of two computed matrices that reaches a softmax through scales and masks alone.
  static bool is_scores(const Node& node) {
    if (!node.is(ops::kMatmul) && !node.is(ops::kChannelMatmul)) return false;
    const Value* value = node.result();
    for (int step = 0; step < 6; ++step) {
      if (value->uses().empty()) return false;
      const Node* next = value->uses()[0].node;
      if (next->is(ops::kSoftmax)) return true;
      if (!next->is(ops::kMul) && !next->is(ops::kAdd) && !next->is(ops::kWhere) &&
          !next->is(ops::kReshape) && !next->is(ops::kPermute) && !next->is(ops::kCast) &&
          !next->is(ops::kDiv) && !next->is(ops::kSub)) {
        return false;
      }
      value = next->result();
    }
    return false;
  }

  const Tensor* tensor(const Value* value) const {
    if (value == nullptr) return nullptr;
    if (value->is_constant()) return &value->constant();
    const auto it = tensors_.find(value);
    return it == tensors_.end() ? nullptr : &it->second;
  }

  /// Keeps the worst of each kind and place; `smaller`: the least is the worst.
  void add(Fp16Finding finding, bool smaller = false) {
    const auto key = std::pair(finding.place, static_cast<int>(finding.kind));
    const auto it = found_.find(key);
    if (it == found_.end()) {
      found_.emplace(key, std::move(finding));
    } else if (finding.is_error != it->second.is_error ? finding.is_error
               : smaller                               ? finding.worst < it->second.worst
                                                       : finding.worst > it->second.worst) {
      it->second = std::move(finding);
    }
  }

  void extreme(Fp16Extreme& of, double worst, const std::string& place) const {
    if (!of.place.empty() && worst <= of.worst) return;
    of = {worst, place, set_};
  }

  void constant(const Value& c) {
    const Range r = range_of(c.constant());
    const std::string place = cat("constant ", c.name());
    const int64_t n = c.constant().num_elements();
    if (r.over > 0) {
      add({Kind::kConstantOverflow, true, place, "", r.largest, r.over,
           cat(r.over, " of ", n, " numbers beyond 65504, up to ", number(r.largest),
               ", become infinite")});
    }
    if (r.under > 0) {
      // A few tiny weights among many are rounding; a number of its own is not.
      add({Kind::kConstantUnderflow, r.all_under, place, "", r.smallest, r.under,
           cat(r.under, " of ", n, " numbers below 2^-24, down to ", number(r.smallest),
               ", become 0")});
    }
  }

  void attribute(const Node& node, const std::string& name) {
    const double v = std::abs(node.f(name));
    const std::string place = place_of(node);
    if (std::isfinite(v) && v > kLargestF16) {
      add({Kind::kConstantOverflow, false, place, "", v, 1,
           cat(name, " = ", number(node.f(name)), " becomes infinite")});
    } else if (v != 0 && v < kSmallestF16) {
      add({Kind::kConstantUnderflow, true, place, "", v, 1,
           cat(name, " = ", number(node.f(name)), " becomes 0")});
    }
  }

  void values(const std::string& place, const Tensor& t, bool is_product) {
    const Range r = range_of(t);
    const int64_t n = t.num_elements();
    if (r.largest > 0) extreme(report_.value, r.largest, place);
    if (r.over > 0) {
      add({is_product ? Kind::kProductOverflow : Kind::kValueOverflow, true, place, set_, r.largest,
           r.over,
           cat(is_product ? "query times key before scaling: " : "", r.over, " of ", n,
               " results beyond 65504, up to ", number(r.largest), ", become infinite")});
    }
    if (r.under > 0) {
      add({Kind::kValueUnderflow, false, place, set_, r.smallest, r.under,
           cat(r.under, " of ", n, " results below 2^-24, down to ", number(r.smallest),
               ", become 0")},
          true);
    }
    if (r.nan > 0) {
      add({Kind::kNotANumber, true, place, set_, 0, r.nan,
           cat(r.nan, " of ", n, " results are NaN in f32 already")});
    }
  }

  void look(const Node& node, const std::vector<Tensor>& results) {
    const std::string place = place_of(node);
    for (size_t r = 0; r < results.size(); ++r) {
      if (wanted_.contains(node.result(static_cast<int>(r)))) {
        tensors_[node.result(static_cast<int>(r))] = results[r];
      }
      if (!is_float(results[r].dtype())) continue;
      const bool is_product = scores_.contains(&node);
      if (is_product) extreme(report_.product, range_of(results[r]).largest, place);
      values(place, results[r], is_product);
    }
    if (is_norm(node)) norm(node, place);
    if (node.is(ops::kSoftmax)) softmax(node, place);
    if (node.is(ops::kAttention)) attention(node, place);
  }

  void norm(const Node& node, const std::string& place) {
    const Tensor* x = tensor(node.operand(0));
    if (x == nullptr) return;
    const auto rank = static_cast<size_t>(x->rank());
    const bool by_channel = node.is(ops::kChannelNorm);
    const size_t first = by_channel ? 1 : rank - node.ints("normalized_shape").size();
    const Rows rows(x->sizes(), first, by_channel ? 2 : rank);
    double worst = 0;
    int64_t constant_rows = 0;
    for (int64_t o = 0; o < rows.outer; ++o) {
      for (int64_t n = 0; n < rows.inner; ++n) {
        const auto at = [&](int64_t i) { return x->at((o * rows.size + i) * rows.inner + n); };
        double sum = 0;
        for (int64_t i = 0; i < rows.size; ++i) sum += at(i);
        const double mean = sum / static_cast<double>(rows.size);
        double distance = 0;
        for (int64_t i = 0; i < rows.size; ++i)
          distance = std::max(distance, std::abs(at(i) - mean));
        // What f16 cannot tell from the mean is a constant row there.
        constant_rows += rows.size > 1 && distance * distance < kSmallestF16;
        worst = std::max(worst, distance);
      }
    }
    if (!std::isnan(worst)) extreme(report_.distance, worst, place);
    if (worst > kLargestSquareRoot) {
      add({Kind::kSquareOverflow, true, place, set_, worst, 1,
           cat("distance to the mean up to ", number(worst),
               ": its square is beyond 65504 unless the device keeps it in FP32")});
    }
    if (constant_rows > 0) {
      const double eps = node.f("eps");
      add({Kind::kConstantRow, eps < kSmallestF16, place, set_, 0, constant_rows,
           cat(constant_rows, " rows of equal numbers: ",
               eps < kSmallestF16
                   ? cat("0 / 0 as eps = ", number(eps), " becomes 0")
                   : cat("0 by eps = ", number(eps), ", NaN where subnormals are flushed"))});
    }
  }

  void masked(const std::string& place, int64_t count, int64_t of, bool becomes_infinite) {
    if (count == 0) return;
    add({Kind::kMaskedRow, becomes_infinite, place, set_, 0, count,
         cat("every entry is masked out in ", count, " of ", of, " rows: ",
             becomes_infinite ? "NaN, as f16 has only -inf for the mask"
                              : "equal weights, as the mask is finite")});
  }

  /// Rows along `axis` of what is added to scores, or of the scores themselves.
  void masked_rows(const std::string& place, const Tensor& t, size_t axis) {
    const Rows rows(t.sizes(), axis, axis + 1);
    int64_t finite = 0;
    int64_t infinite = 0;
    for (int64_t o = 0; o < rows.outer; ++o) {
      for (int64_t n = 0; n < rows.inner; ++n) {
        bool all = rows.size > 0;
        bool beyond = true;
        for (int64_t i = 0; i < rows.size && all; ++i) {
          const double v = t.at((o * rows.size + i) * rows.inner + n);
          all = t.dtype() == DType::kBool ? v == 0 : v <= kMasked;
          beyond = beyond && (t.dtype() == DType::kBool || v < -kLargestF16);
        }
        if (all) ++(beyond ? infinite : finite);
      }
    }
    masked(place, finite, rows.outer * rows.inner, false);
    masked(place, infinite, rows.outer * rows.inner, true);
  }

  void softmax(const Node& node, const std::string& place) {
    const Tensor* x = tensor(node.operand(0));
    if (x == nullptr || x->rank() == 0) return;
    masked_rows(place, *x, static_cast<size_t>(node.axis("dim", x->rank())));
  }

  void attention(const Node& node, const std::string& place) {
    if (const Tensor* mask = tensor(node.operand("mask")); mask != nullptr && mask->rank() > 0) {
      masked_rows(place, *mask, static_cast<size_t>(mask->rank() - 1));
    }
    const Tensor* query = tensor(node.operand("query"));
    const Tensor* key = tensor(node.operand("key"));
    if (query == nullptr || key == nullptr || query->dtype() != DType::kF32 ||
        key->dtype() != DType::kF32) {
      return;
    }
    const int64_t d = query->sizes().back();
    const int64_t s = query->size(query->rank() - 2);
    const int64_t t = key->size(key->rank() - 2);
    const int64_t heads = query->num_elements() / std::max<int64_t>(1, s * d);
    // Keys that several heads share repeat in an order that does not matter for the largest.
    const int64_t key_heads = key->num_elements() / std::max<int64_t>(1, t * d);
    if (key_heads == 0 || heads % key_heads != 0) return;
    std::vector<float> scores(static_cast<size_t>(s * t));
    double worst = 0;
    int64_t over = 0;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t k = key_heads == heads ? h : h % key_heads;
      gemm(s, t, d, StridedMatrix<float>{query->data<float>() + h * s * d, d, 1},
           StridedMatrix<float>{key->data<float>() + k * t * d, 1, d}, scores.data(), t);
      for (const float v : scores) {
        worst = std::max(worst, std::abs(static_cast<double>(v)));
        over += std::abs(v) > static_cast<float>(kLargestF16);
      }
    }
    extreme(report_.product, worst, place);
    if (over > 0) {
      add({Kind::kProductOverflow, true, place, set_, worst, over,
           cat("query times key before scaling: ", over, " of ", heads * s * t,
               " results beyond 65504, up to ", number(worst), ", become infinite")});
    }
  }

  const Graph& graph_;
  std::string set_;
  std::unordered_set<const Value*> wanted_;
  std::unordered_set<const Node*> scores_;
  std::unordered_map<const Value*, Tensor> tensors_;
  std::map<std::pair<std::string, int>, Fp16Finding> found_;
  Fp16Report report_;
};

std::string print(std::string_view what, const Fp16Extreme& e, double allowed) {
  if (e.place.empty()) return "";
  return cat("largest ", what, ": ", number(e.worst), " (", number(allowed), " fits), at ",
             printable(e.place), ", ", e.inputs, "\n");
}

void write_json(std::string_view key, const Fp16Extreme& e, JsonWriter& json) {
  json.key(key);
  if (e.place.empty()) {
    json.null();
    return;
  }
  json.begin_object();
  json.field("largest", e.worst);
  json.field("place", e.place);
  json.field("inputs", e.inputs);
  json.end_object();
}

std::string_view name(Kind kind) {
  constexpr std::string_view kNames[] = {
      "constant_overflow", "constant_underflow", "value_overflow",
      "value_underflow",   "product_overflow",   "square_overflow",
      "masked_row",        "constant_row",       "not_a_number"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

bool Fp16Report::has_errors() const {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Fp16Finding& f) { return f.is_error; });
}

std::vector<NamedInputs> guard_inputs(const Graph& graph, uint64_t seed) {
  return {{cat("random inputs, seed ", seed), random_inputs(graph, seed)},
          {"structured inputs", structured_inputs(graph)},
          {"masked inputs", masked_inputs(graph, seed)}};
}

Result<Fp16Report> fp16_findings(const Graph& graph, const std::vector<NamedInputs>& inputs) {
  const std::unique_ptr<Graph> wide = graph.clone();
  DH_TRY(widen_f16(*wide).status());
  Guard guard(*wide);
  guard.constants();
  for (const NamedInputs& set : inputs) {
    if (auto status = guard.evaluate_on(set); !status.ok()) {
      return std::move(status).with_context(set.name);
    }
  }
  return guard.finish();
}

std::string print(const Fp16Report& report) {
  std::string out = print("query times key", report.product, kLargestF16);
  out += print("distance to the mean in norms", report.distance, kLargestSquareRoot);
  out += print("result", report.value, kLargestF16);
  for (const Fp16Finding& f : report.findings) {
    out += cat(f.is_error ? "FP16 error: " : "FP16 note: ", printable(f.place), ": ", f.text,
               f.inputs.empty() ? "" : cat(" (", f.inputs, ")"), "\n");
  }
  if (!report.has_errors()) out += "nothing that FP16 would break was found\n";
  return out;
}

void write_json(const Fp16Report& report, JsonWriter& json) {
  json.begin_object();
  write_json("query_times_key", report.product, json);
  write_json("distance_to_mean", report.distance, json);
  write_json("result", report.value, json);
  json.key("findings").begin_array();
  for (const Fp16Finding& f : report.findings) {
    json.begin_object();
    json.field("kind", name(f.kind));
    json.field("error", f.is_error);
    json.field("place", f.place);
    json.field("inputs", f.inputs);
    json.field("worst", f.worst);
    json.field("count", f.count);
    json.field("text", f.text);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

}  // namespace downhaul
