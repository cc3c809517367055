#pragma once

#include "engine/fusion.h"
#include "engine/plan.h"

/// How each operator is done: the list is steps.inc, a file per family beside it.
namespace downhaul::engine {

/// Products and convolutions whose kernels take an epilogue.
bool is_fusion_root(PlanBuilder& plan, const Node& node);
void plan_fused(PlanBuilder& plan, const Fusion& fusion);

// is_fusion_root's cases.
bool takes_linear(PlanBuilder& plan, const Node& node);
void plan_linear(PlanBuilder& plan, const Fusion& fusion);
bool takes_conv2d(PlanBuilder& plan, const Node& node);
void plan_conv2d(PlanBuilder& plan, const Fusion& fusion);
/// Whether a product of an image and a value per channel is left to the convolution that alone
/// reads it, which multiplies its weights instead.
bool is_gate_of_conv2d(PlanBuilder& plan, const Node& node);
/// The depthwise convolution that alone reads this product's result, when doing both in one pass
/// is faster; null otherwise.
const Node* depthwise_after(PlanBuilder& plan, const Fusion& fusion);
/// `fusion` begins with that convolution.
void plan_expanded_conv2d(PlanBuilder& plan, const Fusion& expand, const Fusion& fusion);

/// The mean of all pixels of an NHWC image; false for any other mean.
bool plan_image_mean(PlanBuilder& plan, const Node& node);

#define DH_PLANNER(symbol, planner) bool planner(PlanBuilder& plan, const Node& node);
#include "engine/steps/steps.inc"
#undef DH_PLANNER

}  // namespace downhaul::engine
