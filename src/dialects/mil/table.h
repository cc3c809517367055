#pragma once

#include <span>
#include <string>

#include "dialects/mil/builder.h"
#include "ops/ops.h"

/// The table IR operator → Core ML operations. Inside this folder only.
namespace downhaul::coreml {

struct EmitRow {
  const OpDef* op;
  /// Why this node has no spelling; empty when it has. Null: every node has one.
  std::string (*refuse)(const Node& node, const Target& target);
  void (*emit)(const Node& node, ProgramBuilder& b);
};

// Rows by family; each family in a file of its own.
std::span<const EmitRow> elementwise_rows();
std::span<const EmitRow> image_rows();
std::span<const EmitRow> product_rows();
std::span<const EmitRow> norm_rows();
std::span<const EmitRow> shape_rows();
std::span<const EmitRow> index_rows();

}  // namespace downhaul::coreml
