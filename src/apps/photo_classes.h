#pragma once

#include <vector>

#include "apps/app_model.h"
#include "apps/ranking.h"

namespace downhaul {

struct PhotoClasses {
  std::vector<Ranked> classes;
  double forward_ms = 0;  ///< time in the model
};

/// The `top` likeliest classes of a picture. Not for several callers at a time.
/// Errors: kInvalidArgument for a model whose output is not f32[1,classes], naming it.
Result<PhotoClasses> classify_photo(AppModel& model, const PhotoTensor& photo, int64_t top);

}  // namespace downhaul
