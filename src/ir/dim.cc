#include "ir/dim.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/checked.h"
#include "base/status.h"
#include "base/strings.h"

namespace downhaul {
namespace {

int64_t saturating_mul(int64_t a, int64_t b) {
  if (const auto r = checked_mul(a, b)) return *r;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}
int64_t saturating_add(int64_t a, int64_t b) {
  if (const auto r = checked_add(a, b)) return *r;
  return a < 0 ? INT64_MIN : INT64_MAX;
}
int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

using SymbolList = std::vector<SymbolPtr>;

bool less_by_names(const SymbolList& a, const SymbolList& b) {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const SymbolPtr& x, const SymbolPtr& y) { return x->name < y->name; });
}
bool same_names(const SymbolList& a, const SymbolList& b) {
  return !less_by_names(a, b) && !less_by_names(b, a);
}

std::optional<int64_t> eval_symbol(const Symbol& symbol, const Bindings& bindings) {
  if (symbol.kind == Symbol::Kind::kFree) {
    const auto it = bindings.find(symbol.name);
    return it == bindings.end() ? std::nullopt : std::optional<int64_t>(it->second);
  }
  const auto a = symbol.operands[0].eval(bindings);
  const auto b = symbol.operands[1].eval(bindings);
  if (!a || !b) return std::nullopt;
  switch (symbol.kind) {
    case Symbol::Kind::kFloorDiv:
      return *b == 0 ? std::nullopt : std::optional<int64_t>(floor_quotient(*a, *b));
    case Symbol::Kind::kMod:
      return *b == 0 ? std::nullopt : std::optional<int64_t>(*a - *b * floor_quotient(*a, *b));
    case Symbol::Kind::kMin:
      return std::min(*a, *b);
    default:
      return std::max(*a, *b);
  }
}

/// Text of a dimension as an operand of a tighter operator.
std::string wrapped(const Dim& d) {
  const std::string text = d.str();
  return text.find(' ') == std::string::npos && text.find('*') == std::string::npos &&
                 text.find('/') == std::string::npos && text.find('%') == std::string::npos
             ? text
             : cat("(", text, ")");
}

}  // namespace

/// Builds dimensions in normal form.
struct DimAlgebra {
  static Dim linear(const Dim& a, int64_t factor_a, const Dim& b, int64_t factor_b) {
    Dim out(saturating_add(saturating_mul(a.constant_, factor_a),
                           saturating_mul(b.constant_, factor_b)));
    size_t i = 0;
    size_t j = 0;
    while (i < a.terms_.size() || j < b.terms_.size()) {
      const bool take_a =
          j == b.terms_.size() ||
          (i < a.terms_.size() && !less_by_names(b.terms_[j].symbols, a.terms_[i].symbols));
      const bool take_b =
          i == a.terms_.size() ||
          (j < b.terms_.size() && !less_by_names(a.terms_[i].symbols, b.terms_[j].symbols));
      int64_t coefficient = 0;
      const SymbolList& symbols = take_a ? a.terms_[i].symbols : b.terms_[j].symbols;
      if (take_a) coefficient = saturating_mul(a.terms_[i].coefficient, factor_a);
      if (take_b) {
        coefficient =
            saturating_add(coefficient, saturating_mul(b.terms_[j].coefficient, factor_b));
      }
      if (coefficient != 0) out.terms_.push_back({symbols, coefficient});
      i += take_a;
      j += take_b;
    }
    return out;
  }

  static Dim product(const Dim& a, const Dim& b) {
    Dim out(saturating_mul(a.constant_, b.constant_));
    const auto add_term = [&](SymbolList symbols, int64_t coefficient) {
      if (coefficient == 0) return;
      std::sort(symbols.begin(), symbols.end(),
                [](const SymbolPtr& x, const SymbolPtr& y) { return x->name < y->name; });
      Dim term;
      term.terms_.push_back({std::move(symbols), coefficient});
      out = linear(out, 1, term, 1);
    };
    for (const auto& t : a.terms_) add_term(t.symbols, saturating_mul(t.coefficient, b.constant_));
    for (const auto& t : b.terms_) add_term(t.symbols, saturating_mul(t.coefficient, a.constant_));
    for (const auto& s : a.terms_) {
      for (const auto& t : b.terms_) {
        SymbolList symbols = s.symbols;
        symbols.insert(symbols.end(), t.symbols.begin(), t.symbols.end());
        add_term(std::move(symbols), saturating_mul(s.coefficient, t.coefficient));
      }
    }
    return out;
  }

  static std::optional<Dim> quotient(const Dim& a, const Dim& b) {
    if (b.is_static()) {
      if (b.constant_ == 0 || a.constant_ % b.constant_ != 0) return std::nullopt;
      Dim out(a.constant_ / b.constant_);
      for (const auto& t : a.terms_) {
        if (t.coefficient % b.constant_ != 0) return std::nullopt;
        out.terms_.push_back({t.symbols, t.coefficient / b.constant_});
      }
      return out;
    }
    if (b.constant_ != 0 || b.terms_.size() != 1) {
      return a == b ? std::optional<Dim>(Dim(1)) : std::nullopt;
    }
    const auto& divisor = b.terms_[0];
    if (a.constant_ != 0) return std::nullopt;
    Dim out;
    for (const auto& t : a.terms_) {
      if (t.coefficient % divisor.coefficient != 0) return std::nullopt;
      SymbolList rest = t.symbols;
      for (const SymbolPtr& s : divisor.symbols) {
        const auto it = std::find_if(rest.begin(), rest.end(),
                                     [&](const SymbolPtr& r) { return r->name == s->name; });
        if (it == rest.end()) return std::nullopt;
        rest.erase(it);
      }
      const int64_t coefficient = t.coefficient / divisor.coefficient;
      Dim term;
      if (rest.empty()) {
        term = Dim(coefficient);
      } else {
        term.terms_.push_back({std::move(rest), coefficient});
      }
      out = linear(out, 1, term, 1);
    }
    return out;
  }

  static Dim opaque(Symbol::Kind kind, const Dim& a, const Dim& b) {
    auto symbol = std::make_shared<Symbol>();
    symbol->kind = kind;
    symbol->operands = {a, b};
    switch (kind) {
      case Symbol::Kind::kFloorDiv: {
        symbol->name = cat(wrapped(a), "//", wrapped(b));
        // Sizes are not negative; a divisor that may be zero leaves the bounds of the dividend.
        const int64_t low = std::max<int64_t>(b.min(), 1);
        const int64_t high = std::max<int64_t>(b.max(), 1);
        symbol->min = a.min() >= 0 ? a.min() / high : floor_quotient(a.min(), low);
        symbol->max = a.max() >= 0 ? a.max() / low : floor_quotient(a.max(), high);
        break;
      }
      case Symbol::Kind::kMod:
        symbol->name = cat(wrapped(a), "%", wrapped(b));
        symbol->min = 0;
        symbol->max = std::max<int64_t>(b.max() - 1, 0);
        break;
      case Symbol::Kind::kMin:
        symbol->name = cat("min(", a.str(), ", ", b.str(), ")");
        symbol->min = std::min(a.min(), b.min());
        symbol->max = std::min(a.max(), b.max());
        break;
      default:
        symbol->name = cat("max(", a.str(), ", ", b.str(), ")");
        symbol->min = std::max(a.min(), b.min());
        symbol->max = std::max(a.max(), b.max());
    }
    return Dim(std::move(symbol));
  }

  template <typename Bound>
  static int64_t bound(const Dim& d, bool low, Bound) {
    int64_t total = d.constant_;
    for (const auto& t : d.terms_) {
      // Symbols are sizes, so products grow with each of them.
      const bool use_min = (t.coefficient > 0) == low;
      int64_t product = 1;
      for (const SymbolPtr& s : t.symbols)
        product = saturating_mul(product, use_min ? s->min : s->max);
      total = saturating_add(total, saturating_mul(t.coefficient, product));
    }
    return total;
  }
};

Dim::Dim(SymbolPtr symbol) { terms_.push_back({{std::move(symbol)}, 1}); }

int64_t Dim::value() const {
  DH_CHECK(is_static());
  return constant_;
}

int64_t Dim::min() const { return DimAlgebra::bound(*this, true, 0); }
int64_t Dim::max() const { return DimAlgebra::bound(*this, false, 0); }

std::optional<int64_t> Dim::eval(const Bindings& bindings) const {
  int64_t total = constant_;
  for (const Term& t : terms_) {
    int64_t product = t.coefficient;
    for (const SymbolPtr& s : t.symbols) {
      const auto value = eval_symbol(*s, bindings);
      if (!value) return std::nullopt;
      product = saturating_mul(product, *value);
    }
    total = saturating_add(total, product);
  }
  return total;
}

void Dim::collect_symbols(std::map<std::string, SymbolPtr, std::less<>>& out) const {
  for (const Term& t : terms_) {
    for (const SymbolPtr& s : t.symbols) {
      if (s->kind == Symbol::Kind::kFree) {
        out.emplace(s->name, s);
      } else {
        for (const Dim& d : s->operands) d.collect_symbols(out);
      }
    }
  }
}

SymbolPtr Dim::as_symbol() const {
  const bool single = constant_ == 0 && terms_.size() == 1 && terms_[0].coefficient == 1 &&
                      terms_[0].symbols.size() == 1;
  return single && terms_[0].symbols[0]->kind == Symbol::Kind::kFree ? terms_[0].symbols[0]
                                                                     : nullptr;
}

std::optional<Dim> Dim::divided_by(const Dim& divisor) const {
  return DimAlgebra::quotient(*this, divisor);
}

std::string Dim::str() const {
  if (is_static()) return cat(constant_);
  std::string out;
  for (const Term& t : terms_) {
    int64_t c = t.coefficient;
    if (!out.empty()) {
      out.append(c < 0 ? " - " : " + ");
      c = c < 0 ? -c : c;
    } else if (c < 0) {
      out.push_back('-');
      c = -c;
    }
    if (c != 1) out.append(cat(c, "*"));
    for (size_t i = 0; i < t.symbols.size(); ++i) {
      if (i > 0) out.push_back('*');
      const Symbol& s = *t.symbols[i];
      const bool infix = s.kind == Symbol::Kind::kFloorDiv || s.kind == Symbol::Kind::kMod;
      const bool alone = t.symbols.size() == 1 && t.coefficient == 1;
      out.append(infix && !alone ? cat("(", s.name, ")") : s.name);
    }
  }
  if (constant_ != 0) out.append(constant_ < 0 ? cat(" - ", -constant_) : cat(" + ", constant_));
  return out;
}

Dim operator+(const Dim& a, const Dim& b) { return DimAlgebra::linear(a, 1, b, 1); }
Dim operator-(const Dim& a, const Dim& b) { return DimAlgebra::linear(a, 1, b, -1); }
Dim operator*(const Dim& a, const Dim& b) { return DimAlgebra::product(a, b); }

bool operator==(const Dim& a, const Dim& b) {
  if (a.constant_ != b.constant_ || a.terms_.size() != b.terms_.size()) return false;
  for (size_t i = 0; i < a.terms_.size(); ++i) {
    if (a.terms_[i].coefficient != b.terms_[i].coefficient ||
        !same_names(a.terms_[i].symbols, b.terms_[i].symbols)) {
      return false;
    }
  }
  return true;
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static() && b.value() != 0) {
    return Dim(floor_quotient(a.value(), b.value()));
  }
  if (auto exact = a.divided_by(b)) return *exact;
  return DimAlgebra::opaque(Symbol::Kind::kFloorDiv, a, b);
}

Dim mod(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static() && b.value() != 0) {
    return Dim(a.value() - b.value() * floor_quotient(a.value(), b.value()));
  }
  if (a.divided_by(b)) return Dim(0);
  return DimAlgebra::opaque(Symbol::Kind::kMod, a, b);
}

Dim min(const Dim& a, const Dim& b) {
  if (a == b || a.max() <= b.min()) return a;
  if (b.max() <= a.min()) return b;
  return DimAlgebra::opaque(Symbol::Kind::kMin, a, b);
}

Dim max(const Dim& a, const Dim& b) {
  if (a == b || a.min() >= b.max()) return a;
  if (b.min() >= a.max()) return b;
  return DimAlgebra::opaque(Symbol::Kind::kMax, a, b);
}

namespace {

/// sum := ['-'] product {('+'|'-') product};  product := atom {('*'|'//'|'%') atom};
/// atom := integer | name | 'min(' sum ',' sum ')' | 'max(…)' | '(' sum ')'
class DimParser {
 public:
  DimParser(std::string_view text, const std::map<std::string, SymbolPtr, std::less<>>& symbols)
      : text_(text), symbols_(symbols) {}

  std::optional<Dim> parse() {
    auto result = sum(0);
    skip();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  static constexpr int kMaxDepth = 64;

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool eat(std::string_view token) {
    skip();
    if (text_.substr(at_).substr(0, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  std::optional<Dim> sum(int depth) {
    const bool negative = eat("-");
    auto total = product(depth);
    if (total && negative) total = Dim(0) - *total;
    while (total) {
      const bool plus = eat("+");
      if (!plus && !eat("-")) return total;
      const auto next = product(depth);
      if (!next) return std::nullopt;
      total = plus ? *total + *next : *total - *next;
    }
    return total;
  }

  std::optional<Dim> product(int depth) {
    auto total = atom(depth);
    while (total) {
      const bool times = eat("*");
      const bool divide = !times && eat("//");
      if (!times && !divide && !eat("%")) return total;
      const auto next = atom(depth);
      if (!next) return std::nullopt;
      total = times ? *total * *next : divide ? floor_div(*total, *next) : mod(*total, *next);
    }
    return total;
  }

  std::optional<Dim> pair(int depth, Dim (*function)(const Dim&, const Dim&)) {
    const auto a = sum(depth + 1);
    if (!a || !eat(",")) return std::nullopt;
    const auto b = sum(depth + 1);
    if (!b || !eat(")")) return std::nullopt;
    return function(*a, *b);
  }

  std::optional<Dim> atom(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (eat("(")) {
      auto inner = sum(depth + 1);
      return inner && eat(")") ? inner : std::nullopt;
    }
    if (eat("min(")) return pair(depth, [](const Dim& a, const Dim& b) { return min(a, b); });
    if (eat("max(")) return pair(depth, [](const Dim& a, const Dim& b) { return max(a, b); });
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
      int64_t value = 0;
      const auto r = std::from_chars(word.data(), word.data() + word.size(), value);
      if (r.ec != std::errc() || r.ptr != word.data() + word.size()) return std::nullopt;
      return Dim(value);
    }
    const auto it = symbols_.find(word);
    return it == symbols_.end() ? std::nullopt : std::optional<Dim>(Dim(it->second));
  }

  std::string_view text_;
  const std::map<std::string, SymbolPtr, std::less<>>& symbols_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Dim> parse_dim(std::string_view text,
                             const std::map<std::string, SymbolPtr, std::less<>>& symbols) {
  return DimParser(text, symbols).parse();
}

}  // namespace downhaul
