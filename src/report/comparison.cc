#include "report/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "base/strings.h"
#include "report/rounding.h"

namespace downhaul {
namespace {

std::string file_name(const std::string& path) {
  return printable(std::filesystem::path(path).filename().string());
}

/// How the two files' inputs and outputs correspond.
struct Interface {
  std::vector<size_t> inputs;                      ///< position in a of each of b's
  std::vector<std::pair<size_t, size_t>> outputs;  ///< a, b
  std::string inputs_matched, outputs_matched;
  std::vector<std::string> notes;
};

Result<Interface> match_interfaces(const Artifact& a, const Artifact& b) {
  Interface out;
  const auto& in_a = a.graph->inputs();
  const auto& in_b = b.graph->inputs();
  if (in_a.size() != in_b.size()) {
    return Status(ErrorKind::kInvalidFile,
                  cat("'", printable(b.path), "' takes ", in_b.size(), " inputs, '",
                      printable(a.path), "' takes ", in_a.size()));
  }
  const auto named = [&](const Value* wanted) {
    return std::find_if(in_a.begin(), in_a.end(),
                        [&](const Value* v) { return v->name() == wanted->name(); });
  };
  const bool by_name =
      std::all_of(in_b.begin(), in_b.end(), [&](const Value* v) { return named(v) != in_a.end(); });
  out.inputs_matched = by_name ? "by name" : "by position";
  for (size_t i = 0; i < in_b.size(); ++i) {
    out.inputs.push_back(by_name ? static_cast<size_t>(named(in_b[i]) - in_a.begin()) : i);
    const Value& p = *in_a[out.inputs.back()];
    if (p.rank() == in_b[i]->rank() && is_float(p.dtype()) == is_float(in_b[i]->dtype())) continue;
    return Status(ErrorKind::kInvalidFile,
                  cat("input ", in_b[i]->name(), ": ", in_b[i]->type().str(), " in '",
                      printable(b.path), "', ", p.type().str(), " in '", printable(a.path), "'"));
  }
  const auto& out_a = a.graph->outputs();
  const auto& out_b = b.graph->outputs();
  for (size_t j = 0; j < out_b.size(); ++j) {
    for (size_t i = 0; i < out_a.size(); ++i) {
      if (out_a[i].name == out_b[j].name) out.outputs.emplace_back(i, j);
    }
  }
  out.outputs_matched = "by name";
  if (out.outputs.size() != out_b.size() && out_a.size() == out_b.size()) {
    out.outputs.clear();
    for (size_t i = 0; i < out_a.size(); ++i) out.outputs.emplace_back(i, i);
    out.outputs_matched = "by position";
  }
  if (out.outputs.empty()) {
    const auto names = [](const std::vector<Output>& list) {
      std::vector<std::string> all;
      for (const Output& o : list) all.push_back(o.name);
      return join(all, ", ");
    };
    return Status(ErrorKind::kInvalidFile,
                  cat("the files have no output in common: '", printable(a.path), "' has ",
                      names(out_a), "; '", printable(b.path), "' has ", names(out_b)));
  }
  if (out.outputs.size() < std::max(out_a.size(), out_b.size())) {
    out.notes.push_back(cat("compared ", out.outputs.size(),
                            " outputs that both have; the files have ", out_a.size(), " and ",
                            out_b.size()));
  }
  return out;
}

struct InputSet {
  std::string name;
  std::vector<Tensor> a, b;
};

/// Elements of all inputs with dynamic sizes at their upper bounds.
double largest_inputs(const Graph& graph) {
  double sum = 0;
  for (const Value* input : graph.inputs()) {
    double n = 1;
    for (const Dim& d : input->shape()) n *= static_cast<double>(d.max());
    sum += n;
  }
  return sum;
}

/// Generated inputs have the sizes of the file that takes fewer, so that both can run them.
std::vector<Tensor> generated_for_a(
    const Artifact& a, const Interface& interface, const Artifact& b,
    const std::function<std::vector<Tensor>(const Graph&)>& generate) {
  if (largest_inputs(*a.graph) <= largest_inputs(*b.graph)) return generate(*a.graph);
  const std::vector<Tensor> drawn = generate(*b.graph);
  std::vector<Tensor> out(a.graph->inputs().size());
  for (size_t i = 0; i < drawn.size(); ++i) {
    const size_t to = interface.inputs[i];
    out[to] = drawn[i].cast(a.graph->inputs()[to]->dtype());
  }
  return out;
}

Result<std::vector<InputSet>> input_sets(const Artifact& a, const Interface& interface,
                                         const Artifact& b, const CompareOptions& options) {
  std::vector<InputSet> sets;
  if (options.generated) {
    const auto random = [&](const Graph& graph) { return random_inputs(graph, options.seed); };
    sets.push_back(
        {cat("random, seed ", options.seed), generated_for_a(a, interface, b, random), {}});
    sets.push_back({"structured", generated_for_a(a, interface, b, structured_inputs), {}});
  }
  for (const std::string& path : options.inputs) {
    DH_ASSIGN(std::vector<Tensor> given, read_inputs(path, *a.graph));
    sets.push_back({printable(path), std::move(given), {}});
  }
  for (InputSet& set : sets) {
    for (size_t i = 0; i < interface.inputs.size(); ++i) {
      set.b.push_back(set.a[interface.inputs[i]].cast(b.graph->inputs()[i]->dtype()));
    }
  }
  return sets;
}

class Comparer {
 public:
  Comparer(const Artifact& a, const Artifact& b, const CompareOptions& options)
      : a_(a), b_(b), options_(options), rounding_a_(*a.graph), rounding_b_(*b.graph) {
    unit_ = std::max(rounding_a_.unit(), rounding_b_.unit());
    if (second_in(engine::Precision::kF16)) unit_ = std::max(unit_, Rounding::unit_of(DType::kF16));
  }

  /// Relative to the output's magnitude.
  double tolerance(size_t i, size_t j) const {
    const Value* p = a_.graph->outputs()[i].value;
    const Value* q = b_.graph->outputs()[j].value;
    if (!is_float(p->dtype()) && !is_float(q->dtype())) return 0;
    return options_.tolerance.value_or(expected(p, q));
  }
  double expected(const Value* p, const Value* q) const {
    const double both = std::max(rounding_a_.tolerance(p, unit_), rounding_b_.tolerance(q, unit_));
    // Where nothing is computed, numbers that one file keeps in fewer bits are rounded still.
    const bool stored = rounding_a_.unit() != rounding_b_.unit();
    return (stored ? std::max(both, 16 * unit_) : both) +
           (second_in(engine::Precision::kBf16) ? rounding_b_.bf16_tolerance(q) : 0);
  }

  OutputComparison output(size_t i, size_t j, const Tensor& x, const Tensor& y) const {
    OutputComparison out;
    out.name_a = a_.graph->outputs()[i].name;
    out.name_b = b_.graph->outputs()[j].name;
    out.type_a = describe(x);
    out.type_b = describe(y);
    if (x.sizes() != y.sizes() || is_float(x.dtype()) != is_float(y.dtype())) {
      out.verdict = Verdict::kDifferent;
      out.why = "the types differ";
      return out;
    }
    out.metrics = compare_tensors(x, y);
    out.tolerance = tolerance(i, j);
    const TensorMetrics& m = out.metrics;
    if (m.unequal == 0) return out;
    // What is far below the usual size of values is what is left of larger ones.
    const double allowed =
        m.scale > 0 ? out.tolerance * std::max(1.0, kSmallest / m.scale) : out.tolerance;
    if (m.not_finite_unequal > 0) {
      out.verdict = Verdict::kDifferent;
      out.why = cat(m.not_finite_unequal, " elements are NaN or infinite in one file only");
    } else if (m.relative <= allowed && m.max_abs > 0) {
      out.verdict = Verdict::kRounding;
      if (!options_.tolerance && unit_ > 0x1p-24) {
        const bool asked = second_in(engine::Precision::kF16) && rounding_a_.unit() < unit_ &&
                           rounding_b_.unit() < unit_;
        const bool in_b = rounding_b_.unit() == unit_;
        out.why = asked ? "as the second file rounds to f16"
                        : cat(downhaul::name((in_b ? rounding_b_ : rounding_a_).coarsest()),
                              " rounding in ", file_name((in_b ? b_ : a_).path));
      }
    } else {
      out.verdict = Verdict::kDifferent;
      if (out.tolerance == 0 && !options_.tolerance) out.why = "no operator on its way rounds";
    }
    return out;
  }

  std::string statement(const Interface& interface) const {
    if (options_.tolerance) {
      return cat(static_cast<float>(*options_.tolerance),
                 " of an output's largest magnitude, as asked");
    }
    double terms = 0;
    double layers = 0;
    for (const auto& [i, j] : interface.outputs) {
      layers = std::max(layers, rounding_b_.linear_layers(b_.graph->outputs()[j].value));
      terms = std::max({terms, rounding_a_.terms(a_.graph->outputs()[i].value),
                        rounding_b_.terms(b_.graph->outputs()[j].value)});
    }
    return cat("16·u·sqrt(N) of an output's largest magnitude: u = 2^",
               static_cast<int>(std::log2(unit_)), ", N = ", static_cast<int64_t>(terms),
               " roundings along the longest path",
               second_in(engine::Precision::kBf16)
                   ? cat(", and 2·2^-8·sqrt(", static_cast<int64_t>(layers),
                         ") for as many linear layers in bf16")
                   : std::string(),
               "; integers must be equal");
  }

  /// How much wider (or narrower) the tolerance is than what rounding explains.
  double factor(const std::pair<size_t, size_t>& pair) const {
    const double own =
        expected(a_.graph->outputs()[pair.first].value, b_.graph->outputs()[pair.second].value);
    return options_.tolerance && own > 0 ? *options_.tolerance / own : 1.0;
  }

  static constexpr double kSmallest = 1e-3;  // as in divergence.cc

 private:
  bool second_in(engine::Precision precision) const {
    return options_.second_precision == precision;
  }

  const Artifact& a_;
  const Artifact& b_;
  const CompareOptions& options_;
  Rounding rounding_a_, rounding_b_;
  double unit_ = 0;
};

Status in_file(Status status, const std::string& path) {
  const ErrorKind kind =
      status.kind() == ErrorKind::kInvalidArgument ? ErrorKind::kInvalidFile : status.kind();
  return Status(kind, status.message()).with_context(cat("'", printable(path), "'"));
}

}  // namespace

const char* name(Verdict verdict) {
  constexpr const char* kNames[] = {"equal", "rounding", "DIFFERENT"};
  return kNames[static_cast<int>(verdict)];
}

Result<Comparison> compare_artifacts(const Artifact& a, const Artifact& b,
                                     const CompareOptions& options) {
  DH_ASSIGN(const Interface interface, match_interfaces(a, b));
  DH_ASSIGN(const std::vector<InputSet> sets, input_sets(a, interface, b, options));
  const Comparer comparer(a, b, options);
  Comparison out;
  out.a = a.path;
  out.b = b.path;
  out.kernels = describe(options.runner);
  if (options.second_precision != engine::Precision::kF32) {
    out.kernels += cat("; the second with ", describe(options.second_precision));
  }
  out.inputs_matched = interface.inputs_matched;
  out.outputs_matched = interface.outputs_matched;
  out.notes = interface.notes;
  out.tolerance = comparer.statement(interface);
  // One after the other, so that only one has its weights in memory.
  std::vector<std::vector<Tensor>> results[2];
  for (const bool second : {false, true}) {
    const Artifact& artifact = second ? b : a;
    RunnerOptions how = options.runner;
    if (second) how.precision = options.second_precision;
    auto runner = Runner::make(*artifact.graph, how);
    if (!runner.ok()) return in_file(std::move(runner).status(), artifact.path);
    for (const InputSet& set : sets) {
      auto outputs = (*runner)->run(second ? set.b : set.a);
      if (!outputs.ok()) {
        return in_file(std::move(outputs).status().with_context(set.name), artifact.path);
      }
      results[second].push_back(*std::move(outputs));
    }
  }
  for (size_t s = 0; s < sets.size(); ++s) {
    InputSetComparison set{.inputs = sets[s].name, .outputs = {}};
    std::optional<std::pair<size_t, size_t>> different;
    for (const auto& [i, j] : interface.outputs) {
      set.outputs.push_back(comparer.output(i, j, results[0][s][i], results[1][s][j]));
      set.verdict = std::max(set.verdict, set.outputs.back().verdict);
      if (set.outputs.back().verdict == Verdict::kDifferent && !different) different = {i, j};
    }
    out.verdict = std::max(out.verdict, set.verdict);
    if (different && options.find_operator && !out.divergence) {
      DivergenceQuery query{.a = a.graph.get(),
                            .b = b.graph.get(),
                            .inputs_a = &sets[s].a,
                            .inputs_b = &sets[s].b,
                            .outputs = interface.outputs,
                            .tolerance_factor = comparer.factor(*different)};
      DH_ASSIGN(out.divergence, find_divergence(query));
      out.divergence_inputs = set.inputs;
    }
    out.sets.push_back(std::move(set));
  }
  return out;
}

namespace {

/// Three digits say how large a difference is; nine tell any two floats apart.
std::string number(double v, int digits = 3) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char text[32];
  std::snprintf(text, sizeof(text), "%.*g", digits, v);
  return text;
}

std::string print(const OutputComparison& o) {
  std::string out = cat("  ", name(o.verdict), o.why.empty() ? "" : cat(" (", o.why, ")"), "  ",
                        printable(o.name_a));
  if (o.name_b != o.name_a) out += cat(" / ", printable(o.name_b));
  out += cat(" ", o.type_a);
  if (o.type_b != o.type_a) return out + cat(" / ", o.type_b, "\n");
  const TensorMetrics& m = o.metrics;
  if (m.unequal == 0) {
    if (m.not_finite_a > 0) out += cat("  not finite: ", m.not_finite_a, " (the same in both)");
    return out + "\n";
  }
  out += cat("\n    max abs ", number(m.max_abs), "  mean abs ", number(m.mean_abs), "  relative ",
             number(m.relative), " (allowed ", number(o.tolerance), ")  PSNR ",
             std::isfinite(m.psnr) ? fixed(m.psnr, 1) : number(m.psnr), " dB  cosine ",
             fixed(m.cosine, 8), "\n");
  out += cat("    ", m.unequal, " of ", m.elements, " elements differ, most at ", m.worst, ": ",
             number(m.worst_a, 9), " and ", number(m.worst_b, 9));
  if (m.not_finite_a + m.not_finite_b > 0) {
    out += cat("; not finite: ", m.not_finite_a, " and ", m.not_finite_b);
  }
  out += "\n";
  if (m.argmax) {
    out += cat("    same largest entry along axis ", m.argmax->axis, ": ", m.argmax->equal, " of ",
               m.argmax->rows, " (", fixed(100 * m.argmax->share(), 2), " %)");
    if (m.overlap) {
      out +=
          cat("; masks of ", m.overlap->classes, " classes overlap by ", fixed(m.overlap->mean, 4),
              " on average, ", fixed(m.overlap->lowest, 4), " at least");
    }
    out += "\n";
  } else if (m.overlap) {
    out +=
        cat("    masks of ", m.overlap->classes, " classes overlap by ", fixed(m.overlap->mean, 4),
            " on average, ", fixed(m.overlap->lowest, 4), " at least\n");
  }
  return out;
}

std::string print(const Divergence& d, const std::string& inputs) {
  if (!d.outputs_differ) {
    return cat("the reference kernels give the same on both files (", inputs,
               "): the difference comes from the kernels above\n");
  }
  if (!d.found()) return "no operator diverges: an output is an input or a constant itself\n";
  std::string out = cat("first operator that diverges (", inputs, "):\n");
  if (d.a) out += cat("  first file   ", d.a->str(), "\n");
  if (d.b) out += cat("  second file  ", d.b->str(), "\n");
  if (d.difference) out += cat("  they differ by at most ", number(*d.difference), "\n");
  for (const std::string& w : d.weights) out += cat("  ", w, "\n");
  out += cat("  values of the second file matched: ", d.method(), "\n");
  if (d.as_written)
    out += "  graphs compared as written: the shared rewrites hide the difference\n";
  return out;
}

void write_json(const OperatorPlace& place, JsonWriter& json) {
  json.begin_object();
  json.field("name", place.name);
  json.field("operator", place.op);
  json.field("type", place.type);
  json.field("origin", place.origin);
  json.field("weights", place.constants);
  json.end_object();
}

void write_json(const Divergence& d, const std::string& inputs, JsonWriter& json) {
  json.begin_object();
  json.field("inputs", inputs);
  json.field("reference_kernels_differ", d.outputs_differ);
  json.key("a");
  d.a ? write_json(*d.a, json) : void(json.null());
  json.key("b");
  d.b ? write_json(*d.b, json) : void(json.null());
  json.field("difference", d.difference);
  json.field("weights", d.weights);
  json.field("matched_by_name", d.by_name);
  json.field("matched_by_value", d.by_value);
  json.field("unmatched", d.unmatched);
  json.end_object();
}

void write_json(const OutputComparison& o, JsonWriter& json) {
  const TensorMetrics& m = o.metrics;
  json.begin_object();
  json.field("a", o.name_a);
  json.field("b", o.name_b);
  json.field("type_a", o.type_a);
  json.field("type_b", o.type_b);
  json.field("verdict", name(o.verdict));
  json.field("why", o.why);
  json.field("tolerance", o.tolerance);
  json.field("elements", m.elements);
  json.field("unequal", m.unequal);
  json.field("not_finite_a", m.not_finite_a);
  json.field("not_finite_b", m.not_finite_b);
  json.field("not_finite_unequal", m.not_finite_unequal);
  json.field("max_abs", m.max_abs);
  json.field("mean_abs", m.mean_abs);
  json.field("magnitude", m.magnitude);
  json.field("scale", m.scale);
  json.field("relative", m.relative);
  json.field("relative_l2", m.relative_l2);
  json.field("psnr_db", m.psnr);
  json.field("cosine", m.cosine);
  if (m.argmax) {
    json.field("argmax_axis", m.argmax->axis);
    json.field("argmax_rows", m.argmax->rows);
    json.field("argmax_equal", m.argmax->equal);
  }
  if (m.overlap) {
    json.field("mask_classes", m.overlap->classes);
    json.field("mask_iou_mean", m.overlap->mean);
    json.field("mask_iou_lowest", m.overlap->lowest);
  }
  json.end_object();
}

}  // namespace

std::string print(const Comparison& c) {
  std::string out =
      cat("first file   ", printable(c.a, 1000), "\nsecond file  ", printable(c.b, 1000), "\n");
  out += cat("run by ", c.kernels, "; inputs matched ", c.inputs_matched, ", outputs ",
             c.outputs_matched, "\ntolerance ", c.tolerance,
             "\nPSNR = 10·log10((max a - min a)² / mean((a - b)²)); relative = max |a - b| / max "
             "|a| (|a| above 1000 each for itself)\n");
  for (const std::string& note : c.notes) out += cat("note: ", note, "\n");
  for (const InputSetComparison& set : c.sets) {
    out += cat("inputs: ", set.inputs, "\n");
    for (const OutputComparison& o : set.outputs) out += print(o);
  }
  if (c.divergence) out += print(*c.divergence, c.divergence_inputs);
  constexpr const char* kResult[] = {"the files compute the same, bit for bit",
                                     "the files differ by rounding only", "the files DIFFER"};
  // A tolerance that was asked for need not be rounding.
  const bool asked = c.verdict == Verdict::kRounding && c.tolerance.ends_with("as asked");
  out += cat(asked ? "the files differ within the tolerance" : kResult[static_cast<int>(c.verdict)],
             "\n");
  return out;
}

void write_json(const Comparison& c, JsonWriter& json) {
  json.begin_object();
  json.field("a", c.a);
  json.field("b", c.b);
  json.field("kernels", c.kernels);
  json.field("inputs_matched", c.inputs_matched);
  json.field("outputs_matched", c.outputs_matched);
  json.field("tolerance", c.tolerance);
  json.field("notes", c.notes);
  json.field("verdict", name(c.verdict));
  json.key("sets").begin_array();
  for (const InputSetComparison& set : c.sets) {
    json.begin_object();
    json.field("inputs", set.inputs);
    json.field("verdict", name(set.verdict));
    json.key("outputs").begin_array();
    for (const OutputComparison& o : set.outputs) write_json(o, json);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.key("first_divergence");
  if (c.divergence) {
    write_json(*c.divergence, c.divergence_inputs, json);
  } else {
    json.null();
  }
  json.end_object();
}

}  // namespace downhaul
