#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rewrite/rewrite.h"

namespace downhaul {

/// The compiled form of Rewrite::match.
class Pattern {
 public:
  /// Malformed text is our own mistake (DH_CHECK, with the rewrite's name and the line).
  explicit Pattern(const Rewrite& rewrite);

  const OpDef* root_op() const { return nodes_.back().op; }
  /// True when the pattern matches with `root` as its last line; fills `match` then.
  bool match(Node& root, Match* match) const;

 private:
  enum class ArgKind { kValue, kConstant, kMaybeConstant, kMaybe, kNone, kNumber };
  struct Arg {
    ArgKind kind = ArgKind::kValue;
    int name = -1;  ///< into names_
    double number = 0;
  };
  struct AttrRule {
    int index = 0;         ///< among the node's attributes
    int binding = -1;      ///< into attr_names_, or a literal:
    bool is_axis = false;  ///< the literal may count from the end
    Attr literal;
  };
  struct PatternNode {
    const OpDef* op = nullptr;
    bool shared = false;
    std::vector<Arg> args;
    std::vector<AttrRule> attrs;
    std::vector<int> results;  ///< into names_
  };
  struct Definition {
    int node = -1;  ///< into nodes_; -1: a free value
    int result = 0;
  };
  struct Goal {
    Arg arg;
    Value* value;
  };
  struct State {
    std::vector<Value*> values;
    std::vector<bool> bound;  ///< a name may be bound to "absent"
    std::vector<Node*> nodes;
    std::vector<const Attr*> attrs;
  };

  void parse_line(std::string_view line);
  Arg parse_arg(std::string_view text);
  void parse_attr(std::string_view key, std::string_view text, PatternNode& node);
  int name_index(std::string_view name);
  [[noreturn]] void malformed(std::string_view why) const;

  bool solve(State& state, std::vector<Goal> goals) const;
  bool bind(const Arg& arg, Value* value, State& state, std::vector<Goal>& goals, bool& fork,
            int& forked_node) const;
  bool check_attrs(const PatternNode& pattern, const Node& node, State& state) const;
  void push_operands(const PatternNode& pattern, const Node& node, bool swapped,
                     std::vector<Goal>& goals) const;
  bool uses_stay_inside(const State& state) const;

  const char* rewrite_name_;
  std::string_view line_;
  std::vector<std::string> names_;
  std::vector<Definition> definitions_;  ///< parallel to names_
  std::vector<std::string> attr_names_;
  std::vector<PatternNode> nodes_;
};

/// The compiled pattern of a rewrite that has one; kept for the life of the process, thread-safe.
const Pattern& pattern_of(const Rewrite& rewrite);

}  // namespace downhaul
