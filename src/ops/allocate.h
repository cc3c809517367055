#pragma once

#include <string_view>

#include "tensor/tensor.h"

namespace downhaul {

/// A zero-filled tensor whose sizes a file or a run has determined.
/// Errors: kInvalidArgument when they are negative or overflow, kUnsupported above 4 GiB, which no
/// tensor of a real model comes near. `what` starts the message.
Result<Tensor> allocate_tensor(std::string_view what, DType dtype, const Sizes& sizes);

}  // namespace downhaul
