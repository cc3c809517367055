#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/json/json.h"
#include "ir/graph.h"

/// What half floats would break in a model: found by computing it in f32 and looking at the
/// numbers, before anything is written for a device that keeps f16 between operators.
namespace downhaul {

/// 65504 and 2^-24: f16 has nothing larger, and nothing smaller but 0.
inline constexpr double kLargestF16 = 65504;
inline constexpr double kSmallestF16 = 0x1p-24;
/// Squares of more than this are beyond kLargestF16.
inline constexpr double kLargestSquareRoot = 255;

struct Fp16Finding {
  enum class Kind {
    kConstantOverflow,   ///< a constant or attribute beyond kLargestF16 becomes infinite
    kConstantUnderflow,  ///< one that is not 0 becomes 0
    kValueOverflow,      ///< a result beyond kLargestF16
    kValueUnderflow,     ///< results that are not 0 become 0
    kProductOverflow,    ///< query · key beyond kLargestF16 before it is scaled
    kSquareOverflow,     ///< a norm squares a distance to the mean beyond kLargestSquareRoot
    kMaskedRow,          ///< a softmax whose every entry is masked out
    kConstantRow,        ///< a norm of equal numbers
    kNotANumber,         ///< NaN in f32 already
  };
  Kind kind = Kind::kValueOverflow;
  /// Changes results beyond rounding, or may give NaN; others are worth knowing only. --strict goes
  /// by it.
  bool is_error = false;
  std::string place;   ///< "layer_norm layer_norm_3 in encoder.layer.0", or the constant's name
  std::string inputs;  ///< name of the set of inputs; empty for what does not depend on them
  double worst = 0;    ///< the largest or smallest magnitude
  int64_t count = 0;   ///< of elements or rows
  std::string text;    ///< one line, without place and inputs
};

/// The largest of its kind over all operators and inputs; `place` empty when there is none.
struct Fp16Extreme {
  double worst = 0;
  std::string place;
  std::string inputs;
};

struct Fp16Report {
  Fp16Extreme product;                ///< |query · key| before scaling; kLargestF16 allowed
  Fp16Extreme distance;               ///< |x - mean| in norms; kLargestSquareRoot allowed
  Fp16Extreme value;                  ///< of any finite result
  std::vector<Fp16Finding> findings;  ///< errors first, then by place
  bool has_errors() const;
};

struct NamedInputs {
  std::string name;  ///< "random, seed 1"
  std::vector<Tensor> tensors;
};

/// Random inputs, structured ones, and ones whose masks let nothing through (see artifact.h).
std::vector<NamedInputs> guard_inputs(const Graph& graph, uint64_t seed = 1);

/// Evaluates the graph on each set with the reference kernels, in f32 whatever it is written in.
/// Errors: those of the evaluation, naming the set.
Result<Fp16Report> fp16_findings(const Graph& graph, const std::vector<NamedInputs>& inputs);

std::string print(const Fp16Report& report);
void write_json(const Fp16Report& report, JsonWriter& json);

}  // namespace downhaul
