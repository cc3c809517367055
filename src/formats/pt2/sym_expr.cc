#include <charconv>

#include "base/strings.h"
#include "formats/pt2/pt2.h"

namespace downhaul::pt2 {
namespace {

constexpr int kMaxDepth = 64;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

/// Recursive descent over  expr = integer | name | name '(' arg {',' arg} ')',
/// arg = expr | string | name '=' expr. Keywords (assumptions about symbols) are passed over.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<SymExpr> parse_all() {
    SymExpr out;
    DH_TRY(parse(out, 0));
    skip_space();
    if (at_ != text_.size()) return fail("trailing text");
    return out;
  }

 private:
  Status fail(std::string_view what) const {
    return invalid_file(
        cat("symbolic expression '", printable(text_, 80), "': ", what, " at character ", at_));
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view take_name() {
    skip_space();
    const size_t start = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  Status parse(SymExpr& out, int depth) {
    if (depth > kMaxDepth) return fail("nested too deep");
    skip_space();
    if (at_ < text_.size() && (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9'))) {
      return parse_integer(out);
    }
    const std::string_view head = take_name();
    if (head.empty()) return fail("expected a name or an integer");
    if (!take('(')) {
      out.kind = SymExpr::Kind::kSymbol;
      out.name = head;
      return {};
    }
    out.kind = SymExpr::Kind::kCall;
    out.name = head;
    if (!take(')')) {
      do {
        DH_TRY(parse_argument(out, depth));
      } while (take(','));
      if (!take(')')) return fail("expected ')'");
    }
    return simplify(out);
  }

  Status parse_integer(SymExpr& out) {
    const char* const begin = text_.data() + at_;
    const auto r = std::from_chars(begin, text_.data() + text_.size(), out.integer);
    if (r.ec != std::errc()) return fail("integer out of range");
    out.kind = SymExpr::Kind::kInteger;
    at_ += static_cast<size_t>(r.ptr - begin);
    return {};
  }

  Status parse_argument(SymExpr& call, int depth) {
    if (take('\'')) {
      const size_t end = text_.find('\'', at_);
      if (end == std::string_view::npos) return fail("unterminated string");
      SymExpr& text = call.args.emplace_back();
      text.kind = SymExpr::Kind::kSymbol;
      text.name = text_.substr(at_, end - at_);
      at_ = end + 1;
      return {};
    }
    const size_t start = at_;
    if (!take_name().empty() && take('=')) {
      SymExpr ignored;
      return parse(ignored, depth + 1);
    }
    at_ = start;
    // Not emplace_back(): the call's own vector must not move under a reference into it.
    SymExpr argument;
    DH_TRY(parse(argument, depth + 1));
    call.args.push_back(std::move(argument));
    return {};
  }

  /// Symbol('s0') and Integer(2) become what they stand for.
  Status simplify(SymExpr& call) const {
    if (call.name != "Symbol" && call.name != "Integer") return {};
    const auto wanted = call.name == "Symbol" ? SymExpr::Kind::kSymbol : SymExpr::Kind::kInteger;
    if (call.args.size() != 1 || call.args[0].kind != wanted) {
      return fail(cat("malformed ", call.name));
    }
    SymExpr inner = std::move(call.args[0]);
    call = std::move(inner);
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<SymExpr> parse_sym_expr(std::string_view text) { return Parser(text).parse_all(); }

std::string to_string(const SymExpr& expr) {
  switch (expr.kind) {
    case SymExpr::Kind::kInteger:
      return cat(expr.integer);
    case SymExpr::Kind::kSymbol:
      return printable(expr.name);
    case SymExpr::Kind::kCall:
      break;
  }
  std::vector<std::string> parts;
  for (const SymExpr& arg : expr.args) parts.push_back(to_string(arg));
  return cat(printable(expr.name), "(", join(parts, ", "), ")");
}

}  // namespace downhaul::pt2
