#include <gtest/gtest.h>

#include <array>

#include "dialects/aten/call.h"
#include "dialects/aten/liveness.h"
#include "dialects/aten/shapes.h"
#include "dialects/aten/sym.h"
#include "dialects/aten/table.h"
#include "dialects/aten/test_program.h"

namespace downhaul::aten {
namespace {

TEST(Table, EveryRowParses) {
  for (const std::string_view overload : all_overloads()) {
    const Row* row = find_row(overload);
    ASSERT_NE(row, nullptr) << overload;
    const ParsedRow parsed = parse_row(*row);
    EXPECT_EQ(parsed.overload, overload);
    // A one-to-one spelling covers every argument of the operator that has no default.
    if (row->raise != raise_spelled) continue;
    const Schema& schema = schema_of(*parsed.op);
    for (size_t i = parsed.spelled.size(); i < schema.args.size(); ++i) {
      EXPECT_TRUE(schema.args[i].has_default || schema.args[i].optional) << overload;
    }
  }
}

TEST(Table, DefaultsHaveTheirKind) {
  const ParsedRow row = parse_row(*find_row("aten.avg_pool2d.default"));
  EXPECT_EQ(std::get<std::vector<int64_t>>(row.find("padding")->default_value),
            (std::vector<int64_t>{0, 0}));
  EXPECT_TRUE(std::get<std::vector<int64_t>>(row.find("stride")->default_value).empty());
  EXPECT_EQ(std::get<bool>(row.find("count_include_pad")->default_value), true);
  EXPECT_TRUE(std::holds_alternative<pt2::None>(row.find("divisor_override")->default_value));
  const ParsedRow leaky = parse_row(*find_row("aten.leaky_relu.default"));
  EXPECT_EQ(std::get<double>(leaky.find("negative_slope")->default_value), 0.01);
}

TEST(Target, InPlaceOverloadsNameTheirFunctionalForm) {
  EXPECT_EQ(functional_overload("aten.add_.Tensor"), "aten.add.Tensor");
  EXPECT_EQ(functional_overload("aten.__ior__.Tensor"), "aten.__or__.Tensor");
  EXPECT_EQ(functional_overload("aten.__and__.Tensor"), "");
  EXPECT_EQ(functional_overload("aten.add.Tensor"), "");
  EXPECT_EQ(parse_target("_operator.floordiv").function, "floordiv");
  EXPECT_EQ(parse_target("math.trunc").function, "trunc");
  EXPECT_EQ(parse_target("torch.sym_max").function, "sym_max");
  EXPECT_EQ(parse_target("torch.ops.higher_order.cond").higher_order, "cond");
  EXPECT_EQ(parse_target("torch.ops.aten.relu.default").overload, "aten.relu.default");
}

// torch.result_type, by hand: rows are (dtype, rank) pairs or numbers.
TEST(Promotion, FollowsTorch) {
  Graph g;
  const auto tensor = [&](DType d, bool rank0) -> Operand {
    return g.add_input("x", {d, rank0 ? Shape{} : Shape{Dim(2)}});
  };
  const auto of = [](Operand a, Operand b) { return result_type(std::array{a, b}); };
  const Operand i = Number::of(int64_t{1});
  const Operand f = Number::of(1.0);
  const Operand truth = Number{Number::Kind::kBool, 1, 1.0, {}};
  EXPECT_EQ(of(tensor(DType::kI64, false), f), DType::kF32);
  EXPECT_EQ(of(tensor(DType::kI32, false), i), DType::kI32);
  EXPECT_EQ(of(tensor(DType::kBool, false), i), DType::kI64);
  EXPECT_EQ(of(tensor(DType::kBool, false), truth), DType::kBool);
  EXPECT_EQ(of(tensor(DType::kF16, false), f), DType::kF16);
  EXPECT_EQ(of(tensor(DType::kF16, false), i), DType::kF16);
  EXPECT_EQ(of(tensor(DType::kI32, false), tensor(DType::kI64, false)), DType::kI64);
  EXPECT_EQ(of(tensor(DType::kF32, false), tensor(DType::kF64, true)), DType::kF32);
  EXPECT_EQ(of(tensor(DType::kI32, false), tensor(DType::kI64, true)), DType::kI32);
  EXPECT_EQ(of(tensor(DType::kI32, false), tensor(DType::kF16, true)), DType::kF16);
  EXPECT_EQ(of(tensor(DType::kI64, true), f), DType::kF32);
  EXPECT_EQ(of(tensor(DType::kU8, false), tensor(DType::kI8, false)), DType::kI16);
}

TEST(Sizes, SliceEndsAreClamped) {
  const auto range = [](int64_t size, std::optional<int64_t> start, std::optional<int64_t> end) {
    const auto dim = [](std::optional<int64_t> v) {
      return v ? std::optional<Dim>(Dim(*v)) : std::nullopt;
    };
    const Range r = clamp_range(size, dim(start), dim(end));
    return std::pair(r.start.value(), r.end.value());
  };
  EXPECT_EQ(range(5, {}, INT64_MAX), (std::pair<int64_t, int64_t>(0, 5)));
  EXPECT_EQ(range(5, -2, {}), (std::pair<int64_t, int64_t>(3, 5)));
  EXPECT_EQ(range(5, -9, -1), (std::pair<int64_t, int64_t>(0, 4)));
  EXPECT_EQ(range(5, 4, 2), (std::pair<int64_t, int64_t>(4, 4)));
  EXPECT_EQ(range(5, 7, INT64_MIN), (std::pair<int64_t, int64_t>(5, 5)));

  const Dim n(std::make_shared<Symbol>(Symbol{"s0", 2, 10, Symbol::Kind::kFree, {}}));
  EXPECT_EQ(clamp_range(n, Dim(1), Dim(INT64_MAX)).end, n);
  EXPECT_EQ(clamp_range(n, Dim(1), Dim(2)).end, Dim(2));
  EXPECT_EQ(clamp_range(n, Dim(-2), std::nullopt).start, n - Dim(2));
  EXPECT_EQ(clamp_range(n, std::nullopt, n).end, n);
}

pt2::TensorMeta strided(std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  pt2::TensorMeta m;
  for (const int64_t s : sizes) m.sizes.push_back(fixed_dim(s));
  for (const int64_t s : strides) m.strides.push_back(fixed_dim(s));
  return m;
}

TEST(Strides, TellViewsFromCopies) {
  EXPECT_TRUE(can_view(strided({2, 3}, {3, 1}), {Dim(6)}, {}));
  EXPECT_FALSE(can_view(strided({3, 2}, {1, 3}), {Dim(6)}, {}));
  EXPECT_TRUE(can_view(strided({3, 2}, {1, 3}), {Dim(3), Dim(1), Dim(2)}, {}));
  // [B, S, H, D] seen as [B, H, S, D]: heads do not merge with the sequence, but split further.
  EXPECT_FALSE(can_view(strided({1, 2, 4, 8}, {64, 8, 16, 1}), {Dim(1), Dim(8), Dim(8)}, {}));
  EXPECT_TRUE(
      can_view(strided({1, 2, 4, 8}, {64, 8, 16, 1}), {Dim(2), Dim(4), Dim(2), Dim(4)}, {}));
  EXPECT_TRUE(can_view(strided({4, 1}, {8, 5}), {Dim(2), Dim(2)}, {}));
}

TEST(Sym, DividesAndCompares) {
  const Dim n(std::make_shared<Symbol>(Symbol{"s0", 2, 10, Symbol::Kind::kFree, {}}));
  const auto call = [](std::string_view f, std::vector<Sym> args) {
    return str(apply_function(f, args));
  };
  EXPECT_EQ(call("floordiv", {Sym(n * Dim(4)), Sym(Dim(2))}), "2*s0");
  EXPECT_EQ(call("truediv", {Sym(n * Dim(4)), Sym(Dim(4))}), "s0");
  EXPECT_EQ(str(apply_function(
                "trunc", std::array{apply_function("truediv", std::array{Sym(n), Sym(Dim(2))})})),
            floor_div(n, 2).str());
  EXPECT_EQ(call("ge", {Sym(n), Sym(Dim(2))}), "true");
  EXPECT_EQ(call("gt", {Sym(Dim(2)), Sym(n)}), "false");
  EXPECT_EQ(call("ne", {Sym(n), Sym(Dim(11))}), "true");
  EXPECT_TRUE(
      std::holds_alternative<Unknown>(apply_function("eq", std::array{Sym(n), Sym(Dim(4))})));
  EXPECT_EQ(call("mod", {Sym(n * Dim(6)), Sym(Dim(3))}), "0");
  EXPECT_EQ(call("sym_max", {Sym(Dim(3)), Sym(Dim(7))}), "7");
  EXPECT_EQ(call("pow", {Sym(Dim(9)), Sym(0.5)}), "3");
  // sympy writes a half as a rational factor.
  const auto symbols = [&](std::string_view) -> Sym { return n; };
  const pt2::SymExpr half = call_expr("Rational", {integer_expr(1), integer_expr(2)});
  const pt2::SymExpr product =
      call_expr("Mul", {half, call_expr("Mul", {integer_expr(6), symbol_expr("s0")})});
  EXPECT_EQ(str(evaluate(product, symbols)), "3*s0");
}

}  // namespace
}  // namespace downhaul::aten
