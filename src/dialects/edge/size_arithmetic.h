#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ir/dim.h"

namespace downhaul::edge {

/// True for kernels that compute integers from sizes ("aten::sym_size.int",
/// "executorch_prim::add.Scalar") rather than tensors.
bool is_size_arithmetic(std::string_view kernel);

/// The result of an executorch_prim operator on sizes. nullopt when it is no integer, or a
/// comparison whose outcome depends on the sizes. Errors: kInvalidFile for a wrong number of
/// operands or a division by zero.
Result<std::optional<Dim>> compute_size(std::string_view kernel, const std::vector<Dim>& operands);

}  // namespace downhaul::edge
