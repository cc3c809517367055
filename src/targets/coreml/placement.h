#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json/json.h"
#include "formats/mlpackage/mil.h"

/// Where Core ML will probably run each operation of a program. Core ML decides on the device; only
/// its own tools show it there. This is a prediction from published rules (ane_rules.cc), and every
/// line of it says so.
namespace downhaul::coreml {

enum class ComputeUnit {
  kNeuralEngine,  ///< "ANE"
  kCpu,           ///< "CPU"
  kCpuOrGpu,      ///< "CPU/GPU": not the Neural Engine
};
std::string_view name(ComputeUnit unit);

/// How well a rule is known.
enum class Certainty : char {
  kPublished = 'A',  ///< published by Apple, or measured by its tools and reported publicly
  kReported = 'B',   ///< widely reported; varies with chip and OS
  kGuess = 'C',
};

struct PlacedOperation {
  std::string name;  ///< of its first result
  std::string type;  ///< "conv"
  ComputeUnit unit = ComputeUnit::kNeuralEngine;
  int rule = 0;  ///< number in the table of docs/placement.md; 0: no rule is known for it
  Certainty certainty = Certainty::kGuess;
  std::string reason;
  uint64_t bytes = 0;         ///< of the results, unpadded
  uint64_t wasted_bytes = 0;  ///< more that the alignment of the last axis to 64 bytes costs
  bool is_copy = false;       ///< moves elements and computes nothing
  bool is_stranded = false;   ///< of a small group between operations on the CPU (rule 12)
};

struct Placement {
  std::vector<PlacedOperation> operations;  ///< in program order; constants are not operations
  std::vector<std::string> notes;           ///< about the program as a whole

  int count(ComputeUnit unit) const;
  int num_copies() const;
  int num_stranded() const;
  uint64_t wasted_bytes() const;
};

/// Looks at types, parameters and data flow only. Names that nothing defines count as unknown
/// types, so any parsed program will do.
Placement predict_placement(const mil::Function& function);

/// The totals beside those that Apple published, then each operation off the Neural Engine with
/// its rule; `all`: every operation.
std::string print(const Placement& placement, bool all = false);
/// An object: totals, then an array of operations.
void write_json(const Placement& placement, JsonWriter& json);

}  // namespace downhaul::coreml
