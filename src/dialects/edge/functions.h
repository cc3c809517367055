#pragma once

#include "dialects/edge/table.h"

/// Spellings that are not one to one: pairs of emit_x and raise_x, and what is only read. Each is
/// beside its counterpart in the file named here.
namespace downhaul::edge {

// elementwise.cc
Result<KernelCall> emit_hardtanh(const Node& node);
Result<KernelCall> emit_clamp(const Node& node);
Values raise_clamp(Raising& r);
Result<KernelCall> emit_pow_of_scalar(const Node& node);
Values raise_pow_of_scalar(Raising& r);
Result<KernelCall> emit_cast(const Node& node);
Values raise_cast(Raising& r);
Values raise_cast_aten(Raising& r);
Values raise_add(Raising& r);
Values raise_add_scalar(Raising& r);
Values raise_sub(Raising& r);
Values raise_sub_scalar(Raising& r);
Values raise_rsub_scalar(Raising& r);
Values raise_div_mode(Raising& r);
Values raise_identity(Raising& r);
Values raise_copy(Raising& r);
Values raise_masked_fill(Raising& r);
Values raise_elu(Raising& r);

// create.cc
Result<KernelCall> emit_full(const Node& node);
Values raise_full(Raising& r);
Result<KernelCall> emit_arange(const Node& node);
Values raise_arange(Raising& r);
Values raise_arange_end(Raising& r);
Result<KernelCall> emit_dim_scalar(const Node& node);
Values raise_scalar_tensor(Raising& r);
Values raise_full_like(Raising& r);
Values raise_zeros(Raising& r);
Values raise_ones(Raising& r);

// shape.cc
Values raise_reshape(Raising& r);
Values raise_unsqueeze(Raising& r);
Values raise_squeeze(Raising& r);
Values raise_permute(Raising& r);
Values raise_transpose(Raising& r);
Values raise_t(Raising& r);
Values raise_expand(Raising& r);
Values raise_slice(Raising& r);
Values raise_select(Raising& r);
Values raise_narrow(Raising& r);
Values raise_split_sizes(Raising& r);
Values raise_split(Raising& r);
Values raise_unbind(Raising& r);
Values raise_cat(Raising& r);
Values raise_stack(Raising& r);
Result<KernelCall> emit_pad(const Node& node);
Values raise_constant_pad(Raising& r);
Values raise_reflection_pad(Raising& r);
Values raise_replication_pad(Raising& r);
Values raise_flip(Raising& r);
Values raise_roll(Raising& r);
Values raise_slice_scatter(Raising& r);

// index.cc
Result<KernelCall> emit_index(const Node& node);
Values raise_index(Raising& r);
Result<KernelCall> emit_index_put(const Node& node);
Values raise_index_put(Raising& r);

// reduce.cc
Result<KernelCall> emit_sum(const Node& node);
Values raise_sum(Raising& r);
Result<KernelCall> emit_mean(const Node& node);
Values raise_mean(Raising& r);
Result<KernelCall> emit_amax(const Node& node);
Values raise_amax(Raising& r);
Result<KernelCall> emit_amin(const Node& node);
Values raise_amin(Raising& r);
Result<KernelCall> emit_any(const Node& node);
Values raise_any(Raising& r);
Values raise_any_all(Raising& r);
Result<KernelCall> emit_prod(const Node& node);
Values raise_prod(Raising& r);
Values raise_prod_all(Raising& r);
Result<KernelCall> emit_var(const Node& node);
Values raise_var(Raising& r);
Values raise_var_unbiased(Raising& r);
Values raise_argmax(Raising& r);
Values raise_argmin(Raising& r);
Values raise_max_dim(Raising& r);
Values raise_min_dim(Raising& r);
Values raise_max(Raising& r);
Values raise_min(Raising& r);

// linear.cc
Result<KernelCall> emit_linear(const Node& node);
Values raise_linear(Raising& r);
Result<KernelCall> emit_linear_transposed(const Node& node);
Values raise_addmm(Raising& r);
Values raise_mm(Raising& r);
Result<KernelCall> emit_matmul(const Node& node);
Values raise_bmm(Raising& r);

// conv.cc
Result<KernelCall> emit_conv2d(const Node& node);
Result<KernelCall> emit_conv_transpose2d(const Node& node);
Values raise_convolution(Raising& r);
Result<KernelCall> emit_max_pool2d(const Node& node);
Values raise_max_pool2d(Raising& r);
Result<KernelCall> emit_avg_pool2d(const Node& node);
Values raise_avg_pool2d(Raising& r);
Result<KernelCall> emit_upsample_bilinear2d(const Node& node);
Values raise_upsample_bilinear2d(Raising& r);
Result<KernelCall> emit_upsample_nearest2d(const Node& node);
Values raise_upsample_nearest2d(Raising& r);

// norm.cc
Result<KernelCall> emit_layer_norm(const Node& node);
Values raise_layer_norm(Raising& r);
Result<KernelCall> emit_batch_norm(const Node& node);
Values raise_batch_norm(Raising& r);
Result<KernelCall> emit_group_norm(const Node& node);
Values raise_group_norm(Raising& r);

// quantized.cc
Values raise_quantize_per_tensor(Raising& r);
Values raise_dequantize_per_tensor(Raising& r);
Values raise_quantize_per_channel(Raising& r);
Values raise_dequantize_per_channel(Raising& r);

}  // namespace downhaul::edge
