#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/xnn/payload_builder.h"
#include "dialects/xnn/raise_call.h"
#include "ir/graph.h"

/// The table IR operator ↔ XNNPACK node, both directions.
namespace downhaul::xnn {

/// An operator that maps one to one onto a node, as text:
///   "leaky_relu(self, negative_slope=$alpha)"   "XNNLeakyReLU(self, alpha=$alpha)"
/// Operands by name, in both; `name=literal` demands (and, raising, gives) an attribute's value;
/// `last` is the last axis; `$alpha` is the node's only number.
struct OneToOne {
  const char* ir;
  const char* node;
  /// Extra condition on the IR node, and the reason to print when it does not hold.
  bool (*guard)(const Node& node) = nullptr;
  const char* reason = "";
};

/// An operator with typed functions. Either direction may be missing.
struct Functions {
  const OpDef* op;
  /// Why the node has no spelling; empty when it has.
  std::string (*refuse)(const Node& node);
  /// The node is known not to be refused.
  void (*emit)(const Node& node, PayloadBuilder& out);
};
struct RaiseFunction {
  XnnNodeKind kind;
  /// The node's outputs, before its output range is applied.
  Result<Value*> (*raise)(RaiseCall& call);
};

std::span<const OneToOne> one_to_one_table();
std::span<const Functions> functions_table();
std::span<const RaiseFunction> raise_table();

/// What holds for every node of a payload: f32, rank at most 6, sizes of at least 1.
std::string refuse_types(const Node& node);

// Emission and raising by family; each family in a file of its own.
std::string refuse_linear(const Node& node);
void emit_linear(const Node& node, PayloadBuilder& out);
Result<Value*> raise_linear(RaiseCall& call);
std::string refuse_matmul(const Node& node);
void emit_matmul(const Node& node, PayloadBuilder& out);
Result<Value*> raise_matmul(RaiseCall& call);

std::string refuse_conv2d(const Node& node);
void emit_conv2d(const Node& node, PayloadBuilder& out);
Result<Value*> raise_conv2d(RaiseCall& call);
Result<Value*> raise_depthwise_conv2d(RaiseCall& call);
std::string refuse_conv_transpose2d(const Node& node);
void emit_conv_transpose2d(const Node& node, PayloadBuilder& out);
Result<Value*> raise_conv_transpose2d(RaiseCall& call);

std::string refuse_max_pool2d(const Node& node);
void emit_max_pool2d(const Node& node, PayloadBuilder& out);
Result<Value*> raise_max_pool2d(RaiseCall& call);
std::string refuse_avg_pool2d(const Node& node);
void emit_avg_pool2d(const Node& node, PayloadBuilder& out);
Result<Value*> raise_avg_pool2d(RaiseCall& call);
std::string refuse_global_avg_pool2d(const Node& node);
void emit_global_avg_pool2d(const Node& node, PayloadBuilder& out);
Result<Value*> raise_global_avg_pool2d(RaiseCall& call);
std::string refuse_resize_bilinear2d(const Node& node);
void emit_resize_bilinear2d(const Node& node, PayloadBuilder& out);
Result<Value*> raise_resize_bilinear2d(RaiseCall& call);

std::string refuse_clamp(const Node& node);
void emit_clamp(const Node& node, PayloadBuilder& out);
Result<Value*> raise_clamp(RaiseCall& call);
std::string refuse_reshape(const Node& node);
void emit_reshape(const Node& node, PayloadBuilder& out);
Result<Value*> raise_reshape(RaiseCall& call);
std::string refuse_permute(const Node& node);
void emit_permute(const Node& node, PayloadBuilder& out);
Result<Value*> raise_permute(RaiseCall& call);
std::string refuse_slice(const Node& node);
void emit_slice(const Node& node, PayloadBuilder& out);
Result<Value*> raise_slice(RaiseCall& call);
std::string refuse_concat(const Node& node);
void emit_concat(const Node& node, PayloadBuilder& out);
Result<Value*> raise_concat(RaiseCall& call);
std::string refuse_pad(const Node& node);
void emit_pad(const Node& node, PayloadBuilder& out);
Result<Value*> raise_pad(RaiseCall& call);
Result<Value*> raise_convert(RaiseCall& call);
Result<Value*> raise_copy(RaiseCall& call);

}  // namespace downhaul::xnn
