#include "kernels/conv/conv.h"

#include "base/status.h"
#include "kernels/conv/kernel.h"

namespace downhaul::kernels {
namespace {

constexpr const ConvKernel* kKernels[] = {
#define DH_CONV(name) &name,
#include "kernels/conv/kernels.inc"
#undef DH_CONV
};

}  // namespace

std::span<const ConvKernel* const> conv_kernels() { return kKernels; }

ConvPlan plan_conv2d_with(const ConvKernel& kernel, const Conv2d& conv, int num_threads) {
  DH_CHECK(kernel.can_run(conv));
  const ConvSizes sizes = kernel.sizes(conv, num_threads);
  return {.conv = conv,
          .kernel = &kernel,
          .packed_bytes = sizes.packed,
          .table_bytes = sizes.table,
          .scratch_bytes = sizes.scratch};
}

ConvPlan plan_conv2d(const Conv2d& conv, int num_threads) {
  for (const ConvKernel* kernel : kKernels) {
    if (kernel->reassociates && !conv.may_reassociate) continue;
    if (kernel->can_run(conv)) return plan_conv2d_with(*kernel, conv, num_threads);
  }
  DH_CHECK(false);  // planes_in without can_read_planes
  return {};
}

std::string_view kernel_name(const ConvPlan& plan) { return plan.kernel->name; }

void pack_conv2d(const ConvPlan& plan, const float* weight, const float* bias, float* packed,
                 ThreadPool& pool) {
  plan.kernel->pack(plan.conv, weight, bias, packed, pool);
}

void build_conv2d_table(const ConvPlan& plan, int32_t* table) {
  if (plan.kernel->build_table != nullptr) plan.kernel->build_table(plan.conv, table);
}

void run_conv2d(const ConvPlan& plan, const float* in, const float* packed, const int32_t* table,
                const Epilogue& epilogue, float* out, void* scratch, ThreadPool& pool) {
  plan.kernel->run(plan.conv, in, packed, table, epilogue, out, scratch, pool);
}

}  // namespace downhaul::kernels
