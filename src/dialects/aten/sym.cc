#include "dialects/aten/sym.h"

#include <cmath>
#include <optional>

#include "base/strings.h"

namespace downhaul::aten {
namespace {

using Args = std::span<const Sym>;

Unknown unknown(std::string reason) { return Unknown{std::move(reason)}; }

const Dim* as_dim(const Sym& s) { return std::get_if<Dim>(&s); }

std::optional<Ratio> as_ratio(const Sym& s) {
  if (const Dim* d = as_dim(s)) return Ratio{*d, Dim(1)};
  if (const bool* b = std::get_if<bool>(&s)) return Ratio{Dim(*b ? 1 : 0), Dim(1)};
  if (const Ratio* r = std::get_if<Ratio>(&s)) return *r;
  return std::nullopt;
}

std::optional<double> as_number(const Sym& s) {
  if (const double* f = std::get_if<double>(&s)) return *f;
  const std::optional<Ratio> r = as_ratio(s);
  if (!r || !r->numerator.is_static() || !r->denominator.is_static()) return std::nullopt;
  return static_cast<double>(r->numerator.value()) / static_cast<double>(r->denominator.value());
}

// An exact quotient becomes a dimension again.
Sym simplified(const Ratio& r) {
  if (r.denominator == Dim(0)) return unknown("a division by zero");
  if (const auto exact = r.numerator.divided_by(r.denominator)) return *exact;
  return r;
}

bool is_float(const Sym& s) { return std::holds_alternative<double>(s); }

Sym arithmetic(char op, const Sym& a, const Sym& b) {
  if (is_float(a) || is_float(b)) {
    const auto x = as_number(a);
    const auto y = as_number(b);
    if (!x || !y) return unknown("floating-point arithmetic on a dynamic size");
    switch (op) {
      case '+':
        return *x + *y;
      case '-':
        return *x - *y;
      case '*':
        return *x * *y;
      default:
        return *x / *y;
    }
  }
  const auto x = as_ratio(a);
  const auto y = as_ratio(b);
  if (!x || !y) return unknown("arithmetic on a value that is not a size");
  const Dim& n = x->numerator;
  const Dim& d = x->denominator;
  switch (op) {
    case '+':
      return simplified({n * y->denominator + y->numerator * d, d * y->denominator});
    case '-':
      return simplified({n * y->denominator - y->numerator * d, d * y->denominator});
    case '*':
      return simplified({n * y->numerator, d * y->denominator});
    default:
      return simplified({n * y->denominator, d * y->numerator});
  }
}

// Numerator and a denominator that is positive for every value of its symbols.
std::optional<Ratio> with_positive_denominator(const Sym& s) {
  std::optional<Ratio> r = as_ratio(s);
  if (!r) return std::nullopt;
  if (r->denominator.max() < 0) return Ratio{Dim(0) - r->numerator, Dim(0) - r->denominator};
  if (r->denominator.min() > 0) return r;
  return std::nullopt;
}

Sym floor_of(const Sym& s) {
  if (const double* f = std::get_if<double>(&s)) return Dim(static_cast<int64_t>(std::floor(*f)));
  const auto r = with_positive_denominator(s);
  if (!r) return unknown("a quotient whose divisor may be zero");
  if (r->denominator == Dim(1)) return r->numerator;
  return floor_div(r->numerator, r->denominator);
}

Sym ceil_of(const Sym& s) {
  if (const double* f = std::get_if<double>(&s)) return Dim(static_cast<int64_t>(std::ceil(*f)));
  const auto r = with_positive_denominator(s);
  if (!r) return unknown("a quotient whose divisor may be zero");
  if (r->denominator == Dim(1)) return r->numerator;
  return floor_div(r->numerator + r->denominator - Dim(1), r->denominator);
}

Sym trunc_of(const Sym& s) {
  if (const double* f = std::get_if<double>(&s)) return Dim(static_cast<int64_t>(std::trunc(*f)));
  const auto r = with_positive_denominator(s);
  if (!r) return unknown("a quotient whose divisor may be zero");
  if (r->numerator.min() >= 0) return floor_of(s);
  if (r->numerator.max() <= 0) return ceil_of(s);
  return unknown("truncation of a size that may be negative");
}

Sym modulo(const Sym& a, const Sym& b) {
  const Dim* x = as_dim(a);
  const Dim* y = as_dim(b);
  if (x == nullptr || y == nullptr) return unknown("a remainder of values that are not sizes");
  if (y->min() <= 0 && y->max() >= 0) return unknown("a remainder whose divisor may be zero");
  if (x->divided_by(*y)) return Dim(0);
  return mod(*x, *y);
}

enum class Order { kLess, kLessEqual, kEqual };

Sym compare(Order order, const Sym& a, const Sym& b) {
  if (is_float(a) || is_float(b)) {
    const auto x = as_number(a);
    const auto y = as_number(b);
    if (!x || !y) return unknown("a comparison with a dynamic size");
    return order == Order::kLess ? *x < *y : order == Order::kLessEqual ? *x <= *y : *x == *y;
  }
  const auto x = with_positive_denominator(a);
  const auto y = with_positive_denominator(b);
  if (!x || !y) return unknown("a comparison of values that are not sizes");
  const Dim difference = x->numerator * y->denominator - y->numerator * x->denominator;
  const int64_t low = difference.min();
  const int64_t high = difference.max();
  switch (order) {
    case Order::kLess:
      if (high < 0) return true;
      if (low >= 0) return false;
      break;
    case Order::kLessEqual:
      if (high <= 0) return true;
      if (low > 0) return false;
      break;
    case Order::kEqual:
      if (difference == Dim(0)) return true;
      if (low > 0 || high < 0) return false;
      break;
  }
  return unknown(
      cat("whether ", str(a), order == Order::kEqual ? " equals " : " is below ", str(b)));
}

std::optional<bool> as_bool(const Sym& s) {
  if (const bool* b = std::get_if<bool>(&s)) return *b;
  if (const Dim* d = as_dim(s)) {
    if (d->is_static()) return d->value() != 0;
    if (d->min() > 0) return true;
  }
  if (const double* f = std::get_if<double>(&s)) return *f != 0;
  return std::nullopt;
}

Sym negated(const Sym& s) {
  const auto b = as_bool(s);
  return b ? Sym(!*b) : s;
}

Sym both(const Sym& a, const Sym& b) {
  const auto x = as_bool(a);
  const auto y = as_bool(b);
  if ((x && !*x) || (y && !*y)) return false;
  if (x && y) return true;
  return x ? b : a;
}

Sym power(const Sym& base, const Sym& exponent) {
  const Dim* e = as_dim(exponent);
  if (e != nullptr && e->is_static() && !is_float(base)) {
    const int64_t n = e->value();
    if (n >= -16 && n <= 16) {
      Sym product = Dim(1);
      for (int64_t i = 0; i < std::abs(n); ++i) product = arithmetic('*', product, base);
      return n >= 0 ? product : arithmetic('/', Dim(1), product);
    }
  }
  const auto x = as_number(base);
  const auto y = as_number(exponent);
  if (x && y) return std::pow(*x, *y);
  return unknown("a power of a dynamic size");
}

Sym extremum(bool largest, const Sym& a, const Sym& b) {
  const Dim* x = as_dim(a);
  const Dim* y = as_dim(b);
  if (x != nullptr && y != nullptr) return largest ? max(*x, *y) : min(*x, *y);
  const auto p = as_number(a);
  const auto q = as_number(b);
  if (!p || !q) return unknown("a maximum or minimum of values that are not sizes");
  return largest ? std::max(*p, *q) : std::min(*p, *q);
}

Sym shifted(const Sym& value, const Sym& count, bool left) {
  const Dim* c = as_dim(count);
  if (c == nullptr || !c->is_static() || c->value() < 0 || c->value() > 62) {
    return unknown("a shift by a dynamic size");
  }
  const Dim factor(int64_t{1} << c->value());
  return left ? arithmetic('*', value, factor) : floor_of(arithmetic('/', value, factor));
}

Sym square_root(const Sym& s) {
  const auto x = as_number(s);
  return x ? Sym(std::sqrt(*x)) : unknown("the square root of a dynamic size");
}

Sym to_float(const Sym& s) {
  // A dynamic size stays exact: the float that it stands for is rounded to an integer again
  // before it can become a size.
  const auto x = as_number(s);
  return x ? Sym(*x) : s;
}

Sym fold(Args args, Sym (*f)(const Sym&, const Sym&)) {
  Sym result = args[0];
  for (const Sym& a : args.subspan(1)) result = f(result, a);
  return result;
}

using Apply = Sym (*)(Args);
struct Function {
  std::string_view name;
  size_t min_args;
  Apply apply;
};

// Names of Python's operator and math modules and torch's, and of sympy's and torch's heads.
constexpr Function kFunctions[] = {
    {"add", 2, [](Args a) { return arithmetic('+', a[0], a[1]); }},
    {"sub", 2, [](Args a) { return arithmetic('-', a[0], a[1]); }},
    {"mul", 2, [](Args a) { return arithmetic('*', a[0], a[1]); }},
    {"truediv", 2, [](Args a) { return arithmetic('/', a[0], a[1]); }},
    {"floordiv", 2, [](Args a) { return floor_of(arithmetic('/', a[0], a[1])); }},
    {"mod", 2, [](Args a) { return modulo(a[0], a[1]); }},
    {"neg", 1, [](Args a) { return arithmetic('-', Dim(0), a[0]); }},
    {"pos", 1, [](Args a) { return a[0]; }},
    {"pow", 2, [](Args a) { return power(a[0], a[1]); }},
    {"lshift", 2, [](Args a) { return shifted(a[0], a[1], true); }},
    {"rshift", 2, [](Args a) { return shifted(a[0], a[1], false); }},
    {"eq", 2, [](Args a) { return compare(Order::kEqual, a[0], a[1]); }},
    {"ne", 2, [](Args a) { return negated(compare(Order::kEqual, a[0], a[1])); }},
    {"lt", 2, [](Args a) { return compare(Order::kLess, a[0], a[1]); }},
    {"le", 2, [](Args a) { return compare(Order::kLessEqual, a[0], a[1]); }},
    {"gt", 2, [](Args a) { return compare(Order::kLess, a[1], a[0]); }},
    {"ge", 2, [](Args a) { return compare(Order::kLessEqual, a[1], a[0]); }},
    {"and_", 2, [](Args a) { return both(a[0], a[1]); }},
    {"or_", 2, [](Args a) { return negated(both(negated(a[0]), negated(a[1]))); }},
    {"trunc", 1, [](Args a) { return trunc_of(a[0]); }},
    {"floor", 1, [](Args a) { return floor_of(a[0]); }},
    {"ceil", 1, [](Args a) { return ceil_of(a[0]); }},
    {"sqrt", 1, [](Args a) { return square_root(a[0]); }},
    {"sym_max", 2, [](Args a) { return extremum(true, a[0], a[1]); }},
    {"sym_min", 2, [](Args a) { return extremum(false, a[0], a[1]); }},
    {"sym_not", 1, [](Args a) { return negated(a[0]); }},
    {"sym_ite", 3,
     [](Args a) {
       const auto condition = as_bool(a[0]);
       return condition ? (*condition ? a[1] : a[2]) : a[0];
     }},
    {"sym_int", 1, [](Args a) { return trunc_of(a[0]); }},
    {"sym_float", 1, [](Args a) { return to_float(a[0]); }},
    {"sym_sqrt", 1, [](Args a) { return square_root(a[0]); }},
    {"_sym_sqrt", 1, [](Args a) { return square_root(a[0]); }},

    {"Add", 1,
     [](Args a) {
       return fold(a, [](const Sym& x, const Sym& y) { return arithmetic('+', x, y); });
     }},
    {"Mul", 1,
     [](Args a) {
       return fold(a, [](const Sym& x, const Sym& y) { return arithmetic('*', x, y); });
     }},
    {"Max", 1,
     [](Args a) {
       return fold(a, [](const Sym& x, const Sym& y) { return extremum(true, x, y); });
     }},
    {"Min", 1,
     [](Args a) {
       return fold(a, [](const Sym& x, const Sym& y) { return extremum(false, x, y); });
     }},
    {"And", 1, [](Args a) { return fold(a, both); }},
    {"Not", 1, [](Args a) { return negated(a[0]); }},
    {"Pow", 2, [](Args a) { return power(a[0], a[1]); }},
    {"PowByNatural", 2, [](Args a) { return power(a[0], a[1]); }},
    {"Rational", 2, [](Args a) { return arithmetic('/', a[0], a[1]); }},
    {"FloorDiv", 2, [](Args a) { return floor_of(arithmetic('/', a[0], a[1])); }},
    {"CleanDiv", 2, [](Args a) { return floor_of(arithmetic('/', a[0], a[1])); }},
    {"CeilDiv", 2, [](Args a) { return ceil_of(arithmetic('/', a[0], a[1])); }},
    {"IntTrueDiv", 2, [](Args a) { return arithmetic('/', a[0], a[1]); }},
    {"FloatTrueDiv", 2, [](Args a) { return arithmetic('/', a[0], a[1]); }},
    {"Mod", 2, [](Args a) { return modulo(a[0], a[1]); }},
    {"PythonMod", 2, [](Args a) { return modulo(a[0], a[1]); }},
    {"TruncToInt", 1, [](Args a) { return trunc_of(a[0]); }},
    {"FloorToInt", 1, [](Args a) { return floor_of(a[0]); }},
    {"CeilToInt", 1, [](Args a) { return ceil_of(a[0]); }},
    {"ToFloat", 1, [](Args a) { return to_float(a[0]); }},
    {"Identity", 1, [](Args a) { return a[0]; }},
    {"Equality", 2, [](Args a) { return compare(Order::kEqual, a[0], a[1]); }},
    {"Unequality", 2, [](Args a) { return negated(compare(Order::kEqual, a[0], a[1])); }},
    {"StrictLessThan", 2, [](Args a) { return compare(Order::kLess, a[0], a[1]); }},
    {"LessThan", 2, [](Args a) { return compare(Order::kLessEqual, a[0], a[1]); }},
    {"StrictGreaterThan", 2, [](Args a) { return compare(Order::kLess, a[1], a[0]); }},
    {"GreaterThan", 2, [](Args a) { return compare(Order::kLessEqual, a[1], a[0]); }},
};

}  // namespace

Sym apply_function(std::string_view function, Args args) {
  for (const Sym& a : args) {
    if (std::holds_alternative<Unknown>(a)) return a;
  }
  for (const Function& f : kFunctions) {
    if (f.name != function) continue;
    if (args.size() < f.min_args) return unknown(cat("'", function, "' lacks an argument"));
    return f.apply(args);
  }
  return unknown(cat("the function '", printable(function), "'"));
}

Sym evaluate(const pt2::SymExpr& expr, const std::function<Sym(std::string_view)>& symbol) {
  switch (expr.kind) {
    case pt2::SymExpr::Kind::kInteger:
      return Dim(expr.integer);
    case pt2::SymExpr::Kind::kSymbol:
      return symbol(expr.name);
    case pt2::SymExpr::Kind::kCall:
      break;
  }
  std::vector<Sym> args;
  args.reserve(expr.args.size());
  for (const pt2::SymExpr& a : expr.args) args.push_back(evaluate(a, symbol));
  return apply_function(expr.name, args);
}

std::string str(const Sym& value) {
  struct Printer {
    std::string operator()(const Dim& d) const { return d.str(); }
    std::string operator()(bool b) const { return cat(b); }
    std::string operator()(double f) const { return cat(f); }
    std::string operator()(const Ratio& r) const {
      return cat("(", r.numerator.str(), ")/(", r.denominator.str(), ")");
    }
    std::string operator()(const Unknown& u) const { return u.reason; }
  };
  return std::visit(Printer{}, value);
}

}  // namespace downhaul::aten
