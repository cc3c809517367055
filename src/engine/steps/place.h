#pragma once

#include <cstdint>
#include <string_view>

#include "engine/plan.h"
#include "kernels/image/image.h"

/// Numbers that only a run knows: where in a buffer it reads and writes.
namespace downhaul::engine {

/// From one view to another of the same sizes.
kernels::PermutePlan strided_copy(const View& from, const View& to);

/// An i32 or i64 tensor of one element.
struct RunScalar {
  Ref ref;
  bool wide = true;
  int64_t read(RunContext& run) const {
    return wide ? *run.at<const int64_t>(ref) : *run.at<const int32_t>(ref);
  }
};
RunScalar run_scalar(PlanBuilder& plan, const Value* value);
/// `place` is outside [0, last].
void fail_place(RunContext& run, std::string_view op, int64_t place, int64_t last);

}  // namespace downhaul::engine
