#pragma once

#include "engine/plan.h"
#include "kernels/image/image.h"

/// Images as kernels take them: NHWC, one pixel's channels next to each other.
namespace downhaul::engine {

/// A value of rank 4 seen in NHWC order, whatever the order of its dimensions.
View nhwc_view(const View& view, bool is_nhwc);
/// Where the image lies with its channels contiguous and pixels evenly apart; copied there first
/// when it does not.
struct ImageRef {
  kernels::Image image;
  Ref ref;
};
ImageRef image_of(PlanBuilder& plan, const Value* value, bool is_nhwc);
/// Whether the view (NHWC order) is the memory of contiguous planes.
bool is_planes(const View& nhwc);
/// Memory for a result with its channels last in memory, whatever the order of its dimensions.
ImageRef image_result(PlanBuilder& plan, const Value* value, bool is_nhwc);

}  // namespace downhaul::engine
