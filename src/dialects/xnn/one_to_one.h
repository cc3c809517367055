#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dialects/xnn/spelling.h"

namespace downhaul::xnn {

/// A row of the one-to-one table, parsed.
struct OneToOneRow {
  const OneToOne* text;
  const OpDef* op;
  XnnNodeKind kind;
  std::vector<std::string> ir_operands;    ///< a name twice: the same value twice
  std::vector<std::string> node_operands;  ///< subset of ir_operands
  struct Literal {
    std::string attr;
    std::string value;
  };
  std::vector<Literal> literals;
  std::string alpha;  ///< the attribute that is the node's number, or empty
};

/// All rows in order, parsed once. A malformed row is our mistake (DH_CHECK).
const std::vector<OneToOneRow>& one_to_one_rows();

/// Why the row does not spell `node` (an application of its operator); empty when it does.
std::string refuse_row(const OneToOneRow& row, const Node& node);
void emit_row(const OneToOneRow& row, const Node& node, PayloadBuilder& out);
Result<Value*> raise_row(const OneToOneRow& row, RaiseCall& call);

}  // namespace downhaul::xnn
