#pragma once

#include <unordered_map>

#include "ir/graph.h"

/// How far two evaluations of one model may be apart through rounding alone.
///
/// A sum of K terms, in any order, errs by at most K·u of its terms' magnitude, u being the unit
/// roundoff (2^-24 for f32, 2^-11 for f16, 2^-8 for bf16); errors of independent roundings add like
/// a random walk, so that sqrt(K)·u is what is seen. Along the longest path to a value the terms
/// add up to N, and the expected difference is about sqrt(N)·u of the value's largest magnitude.
/// The tolerance is 16 times that: room for operators that enlarge errors, and far below what a
/// wrong weight does.
namespace downhaul {

class Rounding {
 public:
  /// Symbolic sizes count at their upper bounds.
  explicit Rounding(const Graph& graph);

  /// Additions and other roundings along the longest path; 0 when only data is moved.
  double terms(const Value* value) const;
  /// Relative to the value's largest magnitude: 16·u·sqrt(terms), with the larger u of the graph's
  /// and `unit`.
  double tolerance(const Value* value, double unit = 0) const;
  /// Linear layers along the longest path.
  double linear_layers(const Value* value) const;
  /// What linear layers with factors rounded to bf16 add: each errs by about 2^-8 of its result's
  /// magnitude, whatever the length of its sums, as the errors of the terms are independent;
  /// relative to the value's largest magnitude 2·2^-8·sqrt(linear_layers).
  double bf16_tolerance(const Value* value) const;
  /// Of the coarsest float type that any value or constant has; 2^-24 at least.
  double unit() const { return unit_; }
  DType coarsest() const { return coarsest_; }

  static double unit_of(DType dtype);

 private:
  std::unordered_map<const Value*, double> terms_;
  std::unordered_map<const Value*, double> layers_;
  double unit_ = 0;
  DType coarsest_ = DType::kF64;
};

}  // namespace downhaul
