#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace downhaul {

class Dim;

/// A size that is known only at run time, within inclusive bounds. Either a named symbol of the
/// model (`s0`), or an opaque function of other sizes (`(s0 + 1)//2`), whose name is its text.
struct Symbol {
  enum class Kind { kFree, kFloorDiv, kMod, kMin, kMax };
  std::string name;
  int64_t min = 0;
  int64_t max = INT64_MAX;
  Kind kind = Kind::kFree;
  std::vector<Dim> operands;  ///< two, unless kFree
};
using SymbolPtr = std::shared_ptr<const Symbol>;

/// Values of the free symbols in one run, by name.
using Bindings = std::map<std::string, int64_t, std::less<>>;

/// A dimension: an integer, or a polynomial with integer coefficients over symbols. Kept in a
/// normal form, so that equal polynomials compare equal. A value type; cheap when static.
class Dim {
 public:
  Dim(int64_t value = 0) : constant_(value) {}  // NOLINT: integers are dimensions
  explicit Dim(SymbolPtr symbol);

  bool is_static() const { return terms_.empty(); }
  /// The integer; only when static (DH_CHECK).
  int64_t value() const;
  std::optional<int64_t> maybe_value() const {
    return is_static() ? std::optional<int64_t>(constant_) : std::nullopt;
  }
  /// Inclusive bounds over all values of the symbols (saturating).
  int64_t min() const;
  int64_t max() const;
  /// The size in one run; nullopt when a symbol is not bound or a division by zero occurs.
  std::optional<int64_t> eval(const Bindings& bindings) const;
  /// Adds every free symbol in here, also inside opaque ones.
  void collect_symbols(std::map<std::string, SymbolPtr, std::less<>>& out) const;
  /// The free symbol when the whole dimension is just that symbol, else null.
  SymbolPtr as_symbol() const;

  /// Exact quotient when `divisor` is an integer or a single product that divides every term.
  std::optional<Dim> divided_by(const Dim& divisor) const;

  /// The polynomial: the sum of `constant_term` and, for each term, coefficient * product of
  /// symbols.
  struct Term {
    std::vector<SymbolPtr> symbols;  ///< sorted by name, at least one
    int64_t coefficient;             ///< not 0
  };
  const std::vector<Term>& terms() const { return terms_; }
  int64_t constant_term() const { return constant_; }

  /// "1", "s0", "2*s0 + 1", "s0*s1", "(s0 + 1)//2". Read back by parse_dim.
  std::string str() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);

 private:
  friend struct DimAlgebra;
  int64_t constant_ = 0;
  std::vector<Term> terms_;  ///< sorted by the names of their symbols, coefficients not 0
};

Dim floor_div(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);

/// Reads what Dim::str writes; symbols are looked up by name. nullopt when malformed or unknown.
std::optional<Dim> parse_dim(std::string_view text,
                             const std::map<std::string, SymbolPtr, std::less<>>& symbols);

using Dims = std::vector<Dim>;

}  // namespace downhaul
