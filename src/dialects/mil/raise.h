#pragma once

#include <memory>

#include "formats/mlpackage/package.h"
#include "ir/graph.h"

/// Core ML program → IR.
namespace downhaul::coreml {

/// The default function of a package as a graph. fp16 values stay f16, int32 stays i32; weights
/// point into the mapped weight file. Sizes that the program leaves open are those of the model's
/// default shapes. Errors: kUnsupported listing all operations that are not known; kInvalidGraph,
/// naming the operation, for arguments that are not what it takes, and for results of another type
/// than declared.
Result<std::unique_ptr<Graph>> raise_program(const mil::Package& package);

}  // namespace downhaul::coreml
