#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "formats/pt2/pt2.h"
#include "ir/dim.h"

/// Scalars that a program computes beside its tensors: sizes, and conditions on sizes. They are
/// evaluated while reading, over dimensions, and leave no node behind.
namespace downhaul::aten {

/// Quotient of sizes that has not been rounded yet: size / 2 on its way to int().
struct Ratio {
  Dim numerator;
  Dim denominator;
};
/// A scalar that is known only at run time; an error once something needs it.
struct Unknown {
  std::string reason;
};
using Sym = std::variant<Dim, bool, double, Ratio, Unknown>;

/// `function` is Python's or sympy's name without its module: "add", "floordiv", "sym_max", "Mul",
/// "CleanDiv", "GreaterThan". Undecidable or unknown functions give Unknown.
Sym apply_function(std::string_view function, std::span<const Sym> args);

/// Evaluates an expression of the archive; `symbol` maps the names of symbols.
Sym evaluate(const pt2::SymExpr& expr, const std::function<Sym(std::string_view)>& symbol);

/// For messages: "s0 + 1", "true", "0.5".
std::string str(const Sym& value);

}  // namespace downhaul::aten
