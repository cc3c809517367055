#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

/// Named rewrites over small patterns, and passes that run them.
namespace downhaul {

/// What a pattern's names are bound to. Names are written without their sigil: value("x") for %x.
class Match {
 public:
  Value* value(std::string_view name) const;            ///< null when bound to `none`
  Node* node(std::string_view name) const;              ///< the node that defines %name
  const Tensor& constant(std::string_view name) const;  ///< of a value matched as `const %name`
  const Attr& attr(std::string_view name) const;        ///< bound by key=$name
  double f(std::string_view name) const;
  int64_t i(std::string_view name) const;
  const Ints& ints(std::string_view name) const;
  Node* root() const { return root_; }
  /// Every node the pattern covers.
  const std::vector<Node*>& nodes() const { return nodes_; }

 private:
  friend class Pattern;
  std::map<std::string, Value*, std::less<>> values_;
  std::map<std::string, Attr, std::less<>> attrs_;
  std::vector<Node*> nodes_;
  Node* root_ = nullptr;
};

/// A rewrite replaces the results of one node (the root) by new values. Either a text pattern:
///
///     .match = R"(
///       %c = conv2d(%x, const %w, const? %b, stride=$s, groups=1)
///       %y = clamp(%c, min=$lo, max=$hi)
///     )"
///
/// whose last line is the root; `%x` any value, `const %w` a constant, `const? %b` a constant or
/// absent, `none` absent, a number (`0.5`) a constant all of whose elements equal it within 1e-6
/// relative, `$s` binds an attribute, a literal demands it, attributes not named are free. Operands
/// of commutative operators match in both orders. The same name twice must be the same value.
/// Operands left out at the end must be absent; `? %b` is any value or absent. Every matched node
/// but the root must be used only inside the match, unless its line starts with `shared`. Or,
/// without `match`, `root` (null: every node) and `apply`.
///
/// A replacement whose type differs from what it replaces does not apply (a constant of several
/// dimensions may have broadcast). New nodes get the origins of the nodes that die.
struct Rewrite {
  const char* name;
  const char* match = nullptr;
  /// Extra condition on a match.
  bool (*where)(const Match& m) = nullptr;
  /// Builds the replacement of the root's only result before the root. Null: does not apply after
  /// all (nothing that was built is kept).
  Value* (*build)(const Match& m, Builder& b) = nullptr;

  const OpDef* root = nullptr;
  /// As build, on one node: replacement of each result; empty: does not apply.
  std::vector<Value*> (*apply)(Node& node, Builder& b) = nullptr;
};

/// What ran and how often; goes to the report.
struct PassLog {
  struct Entry {
    std::string pass;
    std::string rewrite;
    int count;
  };
  std::vector<Entry> entries;
  int count(std::string_view rewrite) const;
};

/// A step of a pipeline: rewrites run to a fixed point, or a function over the whole graph that
/// returns how often it changed something.
struct Pass {
  const char* name;
  std::vector<const Rewrite*> rewrites;
  Result<int> (*run)(Graph& graph) = nullptr;
  /// The rewrites take only such nodes as root; null: any.
  bool (*only)(const Node& root) = nullptr;
};

struct PipelineOptions {
  std::string stop_after;             ///< name of a pass
  std::set<std::string> disabled;     ///< names of rewrites or passes
  std::set<std::string> print_after;  ///< names of passes, or "all"
  std::function<void(std::string_view pass, const Graph& graph)> print;
  bool verify = true;  ///< after each pass
};

/// Runs the passes in order. True in `stopped` when stop_after ended it.
/// Errors: kInvalidArgument for a stop_after / disabled / print_after name that no pass or rewrite
/// of the list has; kInvalidGraph from the verifier, naming the pass.
Status run_pipeline(Graph& graph, std::span<const Pass> passes, const PipelineOptions& options,
                    PassLog* log = nullptr, bool* stopped = nullptr);

/// Applies `rewrites` to a fixed point. `only` as in Pass.
/// Errors: kInvalidGraph when sweeps in proportion to the graph did not reach it, naming the
/// rewrites that still apply; those of a rewrite that builds what an operator refuses, naming it.
Result<int> apply_rewrites(Graph& graph, std::span<const Rewrite* const> rewrites,
                           PassLog* log = nullptr, std::string_view pass = "",
                           bool (*only)(const Node& root) = nullptr);

/// A copy of the first match of `rewrite` with `node` as root, for tests; false when none.
bool matches(const Rewrite& rewrite, Node& node, Match* match = nullptr);

}  // namespace downhaul
