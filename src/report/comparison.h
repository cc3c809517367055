#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/json/json.h"
#include "report/artifact.h"
#include "report/divergence.h"
#include "report/metrics.h"
#include "report/runner.h"

/// Do two files of one model compute the same?
namespace downhaul {

struct CompareOptions {
  std::vector<std::string> inputs;  ///< files (safetensors or JSON), in the names of the first
  uint64_t seed = 1;
  bool generated = true;  ///< also random and structured inputs
  /// Largest difference allowed, relative to the largest magnitude of an output; absent: what
  /// rounding explains (see rounding.h).
  std::optional<double> tolerance;
  bool find_operator = true;  ///< name the operator where a difference begins
  RunnerOptions runner;
  engine::Precision second_precision = engine::Precision::kF32;  ///< the first file's is f32
};

enum class Verdict {
  kEqual,      ///< every element is equal
  kRounding,   ///< within the tolerance
  kDifferent,  ///< beyond it, or of another shape
};
const char* name(Verdict verdict);  ///< "equal", "rounding", "DIFFERENT"

struct OutputComparison {
  std::string name_a, name_b;
  std::string type_a, type_b;
  TensorMetrics metrics;  ///< not set when the shapes differ
  double tolerance = 0;   ///< relative to metrics.magnitude
  Verdict verdict = Verdict::kEqual;
  std::string why;  ///< "f16 rounding in b.pte", "shapes differ", …; may be empty
};

struct InputSetComparison {
  std::string inputs;  ///< "random, seed 1", "structured", or the file
  std::vector<OutputComparison> outputs;
  Verdict verdict = Verdict::kEqual;
};

struct Comparison {
  std::string a, b;
  std::string kernels;                          ///< what they were run by
  std::string inputs_matched, outputs_matched;  ///< "by name" or "by position"
  std::string tolerance;                        ///< where the tolerance comes from
  std::vector<std::string> notes;
  std::vector<InputSetComparison> sets;
  Verdict verdict = Verdict::kEqual;
  /// Of the first set that differs.
  std::optional<Divergence> divergence;
  std::string divergence_inputs;
};

/// Errors: files that do not fit together (other inputs, no output in common), named; those of
/// reading inputs and of evaluation.
Result<Comparison> compare_artifacts(const Artifact& a, const Artifact& b,
                                     const CompareOptions& options);

std::string print(const Comparison& comparison);
void write_json(const Comparison& comparison, JsonWriter& json);

}  // namespace downhaul
