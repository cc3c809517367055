#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

/// The names of the source model's nodes inside an ExecuTorch program, as named data.
///
///     [{"name": "linear_3", "module": "layer.0.ffn", "instructions": [7]}, …]
///
/// Element i is what debug handle i of a delegate's nodes stands for; `instructions` are positions
/// in the first chain of the kernel calls that compute the node, or a part of it.
namespace downhaul::edge {

constexpr const char* kNodesKey = "downhaul.nodes";

struct NodeNames {
  std::vector<Origin> origins;
  std::map<int, std::vector<int>> of_instruction;  ///< indices into `origins`
};

std::string write_node_names(const NodeNames& names);
/// Empty when `text` is not of this form: names are a help, never a reason to refuse a file.
NodeNames read_node_names(std::string_view text);

}  // namespace downhaul::edge
