#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph.h"

/// One call of a stock ExecuTorch kernel, free of the file's value numbering. Both directions speak
/// it: emission turns a node into a KernelCall, raising turns a KernelCall into nodes.
namespace downhaul::edge {

/// A list of tensors; members may be null where the kernel takes a list of optional tensors.
struct TensorList {
  std::vector<Value*> values;
  bool optional = false;
};

/// One argument. monostate is None; a Dim stands for an int, Dims for a list of ints.
using Arg =
    std::variant<std::monostate, Value*, Dim, double, bool, std::string, Dims, Floats, TensorList>;

struct KernelCall {
  std::string kernel;     ///< "aten::add.out"
  std::vector<Arg> args;  ///< in schema order, every default written out, without the outputs
  /// Types of all outputs in schema order. The first ones are the node's results; the others are
  /// outputs that the operator does not have (mean and rstd of a layer norm).
  std::vector<TensorType> outs;
};

/// The call that computes `node`. Errors: kUnsupported with the reason ("argmax: no kernel for
/// f16"); the message starts with the operator's name.
Result<KernelCall> emit_call(const Node& node);

/// Why `node` has no kernel, or "" when it has one.
std::string why_no_kernel(const Node& node);

/// Appends the nodes that compute `call`; returns the values of its outputs. An output that the
/// operator does not have (mean and rstd of a layer norm) is null.
/// Errors: kUnsupported with the reason, starting with the kernel's name.
Result<std::vector<Value*>> raise_call(const KernelCall& call, Builder& b);

/// True when `raise_call` knows the kernel's name.
bool is_known_kernel(std::string_view kernel);

constexpr int kListOutput = -1;
/// Number of output tensors of a kernel that the table knows, kListOutput when it fills a list of
/// tensors; 1 for others.
int num_outputs(std::string_view kernel);

/// All spellings: (IR operator, kernel) pairs in the order of the table, for the generated
/// documentation.
struct Spelling {
  std::string op;
  std::string kernel;
};
std::vector<Spelling> spellings();

}  // namespace downhaul::edge
