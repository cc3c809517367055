#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dialects/edge/raise_program.h"
#include "formats/pte/pte.h"
#include "ir/graph.h"
#include "targets/executorch/emit.h"
#include "targets/xnnpack/xnnpack.h"

/// Which part of an ExecuTorch program runs inside delegates, and why the rest does not.
namespace downhaul {

struct OutsideOperator {
  std::string name;  ///< "aten::embedding.out"
  int count = 0;
  std::string reason;  ///< why no delegate computes it; several by "; ", each with its count
};

struct DelegationReport {
  int call_sites = 0;                    ///< delegate calls
  std::string split;                     ///< why a delegate was cut in two; known to the compiler
  int kernel_calls = 0;                  ///< kernel calls outside delegates
  std::vector<OutsideOperator> outside;  ///< most frequent first

  /// The count that graph-based summaries give: every node that is not a delegate call, allocations
  /// of results and result selections included.
  int graph_nodes = 0;
  int graph_allocs = 0;
  int graph_getitems = 0;

  int delegate_nodes = 0;                     ///< nodes inside all payloads
  std::map<std::string, int> delegate_kinds;  ///< by kind of node
  std::map<std::string, int> backends;        ///< call sites by backend

  // Shares inside delegates; absent when the program cannot be followed that far.
  std::optional<int64_t> multiply_adds;
  std::optional<int64_t> delegated_multiply_adds;
  uint64_t weight_bytes = 0;            ///< distinct constants, wherever they are stored
  uint64_t delegated_weight_bytes = 0;  ///< of them, used by delegates

  /// Per module of the source model: kernel calls outside. Empty without module names.
  std::map<std::string, int> outside_by_module;
};

/// Counts on the first plan of `file`. `raised` (may be null) gives the shares of multiply-adds and
/// the reasons. `reason_of`: why a node outside is not delegated; may be empty.
DelegationReport delegation_report(const PteFile& file, const RaisedProgram* raised,
                                   std::string (*reason_of)(const Node& node) = nullptr);

/// Adds what only the compiler knows: reasons, shares of multiply-adds, modules. `graph` is the
/// lowered graph that `program` was emitted from.
void add_graph_facts(DelegationReport& report, const Graph& graph, const EmittedProgram& program,
                     const std::vector<OutsideNode>& outside);

/// The block that `lower` and `inspect` print. `by_module`: also kernel calls outside per module.
std::string print(const DelegationReport& report, bool by_module = false);

}  // namespace downhaul
