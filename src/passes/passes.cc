#include "passes/passes.h"

#include <array>
#include <memory>

namespace downhaul {

namespace {

using namespace rewrites;  // NOLINT: the lists below are what this file is for

constexpr const Rewrite* kAll[] = {
#define DH_REWRITE(symbol) &rewrites::symbol,
#include "passes/rewrites.inc"
#undef DH_REWRITE
};

template <typename... Lists>
std::vector<const Rewrite*> join_lists(const Lists&... lists) {
  std::vector<const Rewrite*> out;
  (out.insert(out.end(), lists.begin(), lists.end()), ...);
  return out;
}

// Views before constants: a view of a constant costs nothing, a computed one is a copy.
const std::vector<const Rewrite*>& canonical() {
  static const std::vector<const Rewrite*> list = {&kRemoveIdentity,
                                                   &kMergeReshapes,
                                                   &kMergePermutes,
                                                   &kPermuteToReshape,
                                                   &kMergeSlices,
                                                   &kMergeCasts,
                                                   &kMergeExpands,
                                                   &kFullToExpand,
                                                   &kEmbeddingToSlice,
                                                   &kFoldConstants,
                                                   &kSliceOfConcat,
                                                   &kSliceBeforePermute,
                                                   &kSliceBeforeReshape,
                                                   &kGatherOfSplat,
                                                   &kSplatToExpand,
                                                   &kScalarConstant,
                                                   &kRemoveNeutralOperand,
                                                   &kBitwiseToLogical,
                                                   &kFoldLogical,
                                                   &kFoldWhere,
                                                   &kFoldComparison,
                                                   &kFoldIndex,
                                                   &kIndexToBatchedSelect,
                                                   &kIndexSelectToBatchedSelect,
                                                   &kMergeExpandIntoBroadcast,
                                                   &kHoistOverExpand,
                                                   &kFoldBoundedConstant,
                                                   &kSubToAdd,
                                                   &kDivToMul,
                                                   &kSquareToMul,
                                                   &kMergeConstantChain,
                                                   &kMergeClamps,
                                                   &kReduceOnesToReshape,
                                                   &kDropOpenMask};
  return list;
}

const std::vector<const Rewrite*>& raising() {
  static const std::vector<const Rewrite*> list = {&kMergePermuteIntoLinear,
                                                   &kMatmulToLinear,
                                                   &kMergePermuteIntoMatmul,
                                                   &kFoldBiasIntoLinear,
                                                   &kSinkReshapeBelowLinear,
                                                   &kLiftReshapeOverLinear,
                                                   &kSinkReshapeBelowMatmul,
                                                   &kLinearToSum,
                                                   &kLiftReshapeOverSoftmax,
                                                   &kSinkScalarMul,
                                                   &kRaiseLayerNorm,
                                                   &kRaiseLayerNormOfVar,
                                                   &kFoldAffineIntoLayerNorm,
                                                   &kRaiseGelu,
                                                   &kRaiseGeluHalfLast,
                                                   &kRaiseGeluHalfInside,
                                                   &kRaiseGeluTanh,
                                                   &kRaiseGeluTanhCube,
                                                   &kRaiseGeluTanhFactored,
                                                   &kRaiseGeluTanhSigmoid,
                                                   &kRaiseRsqrt,
                                                   &kRaiseRoll,
                                                   &kRaiseSilu,
                                                   &kRaiseMish,
                                                   &kRaiseHardswishSixthLast,
                                                   &kRaiseHardsigmoid,
                                                   &kRaiseHardswish,
                                                   &kRaiseHardswishOfThreshold,
                                                   &kRaiseSoftmax,
                                                   &kAdaptiveAvgPoolToMean,
                                                   &kChannelNormToLayerNorm,
                                                   &kChannelMatmulToMatmul};
  return list;
}

}  // namespace

std::span<const Rewrite* const> all_rewrites() { return kAll; }

std::vector<const Rewrite*> cleanup_rewrites() { return canonical(); }

std::vector<Pass> graph_passes() {
  return {{"remove_dead_code", {}, remove_dead_code},
          {"share_common_subexpressions", {}, share_common_subexpressions},
          {"select_before_project", {}, select_before_project},
          {"raise_bc1s", {}, raise_bc1s},
          {"widen_f16", {}, widen_f16},
          {"round_to_f16", {}, round_to_f16},
          {"assign_nhwc", {}, assign_nhwc}};
}

std::vector<Pass> canonical_passes() {
  const std::vector<const Rewrite*> attention = {&kRaiseAttention, &kMergeScaleIntoAttention,
                                                 &kDropOpenMask};
  const std::vector<const Rewrite*> fusing = {&kFoldBatchNormIntoConv, &kFoldAffineIntoConv,
                                              &kFoldHardsigmoidIntoConv, &kFoldPadIntoConv,
                                              &kBatchNormToAffine};
  return {
      // What outputs do not need is not looked at.
      {"remove_dead_code", {}, remove_dead_code},
      // Masks, positions and sizes that are known, chains of views, one spelling for each meaning.
      {"canonicalize", canonical(), nullptr},
      // The layers of a transformer compute the same mask each; patterns count uses.
      {"share_common_subexpressions", {}, share_common_subexpressions},
      // Norms over channels, which the next pass takes along.
      {"raise_channels",
       join_lists(std::vector<const Rewrite*>{&kRaiseChannelNorm, &kFoldAffineIntoChannelNorm},
                  canonical()),
       nullptr},
      // Programs for devices that want positions last, and heads apart.
      {"raise_bc1s", {}, raise_bc1s},
      // Decomposed programs to composite operators.
      {"raise", join_lists(raising(), canonical()), nullptr},
      // After the scales and reshapes around the matmuls have gone.
      {"raise_attention", join_lists(attention, raising(), canonical()), nullptr},
      // Arithmetic with constants into weights. Batch norm first; what no convolution takes in
      // becomes arithmetic that a following rewrite may still fold.
      {"fuse", join_lists(fusing, canonical()), nullptr},
      {"share_common_subexpressions_again", {}, share_common_subexpressions},
      // A row that is picked after a projection is picked before it.
      {"select_before_project", {}, select_before_project},
      // Fewer pixels are projected, too, and batch norms have been folded. The selects meet
      // constants and each other.
      {"canonicalize_selected",
       join_lists(std::vector<const Rewrite*>{&kProjectBeforeUpsample}, attention, canonical()),
       nullptr},
      // Copies of constants that nothing made needless.
      {"fold_large_constants",
       join_lists(std::vector<const Rewrite*>{&kFoldLargeConstants}, canonical()), nullptr},
      {"share_common_subexpressions_last", {}, share_common_subexpressions},
  };
}

Result<std::unique_ptr<Graph>> graph_in_f16(const Graph& graph) {
  std::unique_ptr<Graph> copy = graph.clone();
  const std::vector<Pass> passes = {
      {"remove_dead_code", {}, remove_dead_code},
      {"widen_f16", {}, widen_f16},
      // The same operators, spelled for fast kernels: no rounding more or less.
      {"raise_bc1s", {}, raise_bc1s},
      {"respell_channels", {&kChannelNormToLayerNorm, &kChannelMatmulToMatmul}, nullptr},
      {"round_to_f16", {}, round_to_f16},
  };
  PipelineOptions options;
  options.verify = false;
  DH_TRY(run_pipeline(*copy, passes, options));
  return copy;
}

std::vector<Pass> nhwc_passes() {
  return {
      {"assign_nhwc", {}, assign_nhwc},
      // Permutes of images with one pixel or one channel are reshapes; the others cancel.
      {"canonicalize_nhwc",
       join_lists(std::vector<const Rewrite*>{&kFoldLargeConstants}, canonical()), nullptr},
  };
}

}  // namespace downhaul
