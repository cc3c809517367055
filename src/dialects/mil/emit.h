#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/mlpackage/mil.h"
#include "formats/mlpackage/weights.h"
#include "ir/graph.h"

/// IR → Core ML program. Names and meanings of operations: README.md in this folder.
namespace downhaul::coreml {

/// What a specification version knows.
struct Target {
  int ios = 15;  ///< 15 to 18

  int32_t specification_version() const { return ios - 9; }
  std::string opset() const;
  /// Inputs and outputs may be fp16; before, programs cast at their borders.
  bool half_features() const { return ios >= 16; }
};

/// Of matrices and filters, by operations that unpack them when the model is loaded (iOS 16).
enum class Compression {
  kNone,
  kInt8,      ///< a scale for each output channel or row
  kPalette6,  ///< 64 values a tensor
  kPalette4,  ///< 16
};

struct EmitOptions {
  Compression compression = Compression::kNone;  ///< only with `half`
  Target target;
  bool half = true;              ///< fp16 inside, else fp32
  bool primitive_norms = false;  ///< channel_norm as nine operations instead of one
  std::string input_prefix;      ///< before the name of every input
};

struct EmittedProgram {
  mil::Model model;
  mil::WeightWriter weights;
  int operations = 0;                    ///< without constants
  std::map<std::string, int> histogram;  ///< of them
  std::map<std::string, int>
      compressed;                  ///< constexpr operations; neither constants nor operations
  std::vector<std::string> notes;  ///< what was decided on the way, for people
};

/// A model with one function, `main`. Sizes must be static, floats f32; int64 becomes int32.
/// Errors: kUnsupported listing all operators that have no spelling, each with the reason.
Result<EmittedProgram> emit_program(const Graph& graph, const EmitOptions& options);

/// Why an operator cannot be spelled; empty when it can.
std::string why_no_spelling(const Node& node, const Target& target);

}  // namespace downhaul::coreml
