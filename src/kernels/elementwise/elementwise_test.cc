#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/kernel_test.h"

namespace downhaul::kernels {
namespace {

using Sizes = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

size_t product(const Sizes& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return static_cast<size_t>(n);
}

/// Where element i of a row-major `result` lies in an operand that broadcasts to it.
size_t place(size_t i, const Sizes& result, const Sizes& operand) {
  size_t offset = 0;
  size_t stride = 1;
  const size_t missing = result.size() - operand.size();
  for (size_t d = result.size(); d-- > 0;) {
    const size_t at = i % static_cast<size_t>(result[d]);
    i /= static_cast<size_t>(result[d]);
    if (d < missing) continue;
    if (operand[d - missing] != 1) offset += at * stride;
    stride *= static_cast<size_t>(operand[d - missing]);
  }
  return offset;
}

Loops loops_of(const Sizes& result, const std::vector<Sizes>& operands) {
  std::vector<Extents> extents(operands.begin(), operands.end());
  const auto loops = broadcast_loops(result, extents);
  EXPECT_TRUE(loops.has_value());
  return *loops;
}

// ---------------------------------------------------------------------------------- functions

struct UnaryRow {
  UnaryOp op;
  double (*exact)(double x, double a, double b);
  double ulps;  ///< 0: the exact result, rounded once
  double a = 0;
  double b = 0;
  double low = -kInf;  ///< where ulps make sense; math_test.cc has the rest
};

double phi(double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }
double hard(double x) { return x + 3 < 0 ? 0 : (x + 3 > 6 ? 6 : x + 3); }

#define DH_F [](double x, [[maybe_unused]] double a, [[maybe_unused]] double b) -> double
const UnaryRow kUnary[] = {{UnaryOp::kAbs, DH_F{return std::abs(x);
}  // namespace
, 0
}  // namespace downhaul::kernels
, {UnaryOp::kAtan, DH_F{return std::atan(x);
}
, 3
}
, {UnaryOp::kCeil, DH_F{return std::ceil(x);
}
, 0
}
, {UnaryOp::kClamp, DH_F{return x < a ? a : (b < x ? b : x);
}
, 0, -1, 2
}
, {UnaryOp::kClamp, DH_F{return x < a ? a : x;
}
, 0, 0, kInf
}
, {UnaryOp::kCos, DH_F{return std::cos(x);
}
, 2
}
, {UnaryOp::kElu, DH_F{return x > 0 ? x : a* std::expm1(x);
}
, 4, 0.75
}
, {UnaryOp::kErf, DH_F{return std::erf(x);
}
, 2
}
, {UnaryOp::kExp, DH_F{return std::exp(x);
}
, 2
}
, {UnaryOp::kExpm1, DH_F{return std::expm1(x);
}
, 3
}
, {UnaryOp::kFloor, DH_F{return std::floor(x);
}
, 0
}
, {UnaryOp::kGelu, DH_F{return x * phi(x);
}
, 7, 0, 0, -2
}
, {UnaryOp::kGeluTanh, DH_F{return x / (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979323846) *
                                                     (x + 0.044715 * x * x * x)));
}
, 8, 0, 0, -2
}
, {UnaryOp::kHardsigmoid, DH_F{return hard(x) / 6;
}
, 3, 0, 0, -2
}
, {UnaryOp::kHardswish, DH_F{return x * hard(x) / 6;
}
, 3, 0, 0, -2
}
, {UnaryOp::kLeakyRelu, DH_F{return x > 0 ? x : a* x;
}
, 0, 0.25
}
, {UnaryOp::kLog, DH_F{return std::log(x);
}
, 2
}
, {UnaryOp::kLog1p, DH_F{return std::log1p(x);
}
, 2
}
, {UnaryOp::kMish, DH_F{return x * std::tanh(std::log1p(std::exp(x)));
}
, 4, 0, 0, -80
}
, {UnaryOp::kNeg, DH_F{return -x;
}
, 0
}
, {UnaryOp::kReciprocal, DH_F{return 1 / x;
}
, 0
}
, {UnaryOp::kRound, DH_F{return std::nearbyint(x);
}
, 0
}
, {UnaryOp::kRsqrt, DH_F{return 1 / std::sqrt(x);
}
, 1.5
}
, {UnaryOp::kSigmoid, DH_F{return 1 / (1 + std::exp(-x));
}
, 3, 0, 0, -80
}
, {UnaryOp::kSign, DH_F{return (0 < x) - (x < 0);
}
, 0
}
, {UnaryOp::kSilu, DH_F{return x / (1 + std::exp(-x));
}
, 3, 0, 0, -80
}
, {UnaryOp::kSin, DH_F{return std::sin(x);
}
, 2
}
, {UnaryOp::kSoftplus, DH_F{return x * a > b ? x : std::log1p(std::exp(a* x)) / a;
}
, 4, 2, 20
}
, {UnaryOp::kSqrt, DH_F{return std::sqrt(x);
}
, 0
}
, {UnaryOp::kTanh, DH_F{return std::tanh(x);
}
, 3
}
, {UnaryOp::kTrunc, DH_F{return std::trunc(x);
}
, 0
}
,
}
;
#undef DH_F

double ulp(double y) { return std::ldexp(1.0, std::ilogb(std::max(std::abs(y), 0x1p-126)) - 23); }

/// Ordinary numbers with special ones among them.
void fill_with_specials(GuardedBuffer<float>& x, uint32_t seed) {
  const float specials[] = {0.0f, -0.0f, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 1e-40f, -3e38f, 20.0f};
  fill_random(x, seed, 0, 3);
  for (size_t i = 0; i < x.size(); i += 3) x[i] = specials[(i + seed) % std::size(specials)];
}

TEST(Unary, EveryFunctionOfF32AndF64AgreesWithItsFormulaAtEveryLength) {
  for (const UnaryRow& row : kUnary) {
    SCOPED_TRACE("function " + std::to_string(static_cast<int>(row.op)));
    on_every_isa_and_pool([&](ThreadPool& pool) {
      for (int64_t size = 1; size <= 67; ++size) {
        const auto n = static_cast<size_t>(size);
        GuardedBuffer<float> x(n);
        GuardedBuffer<float> y(n);
        GuardedBuffer<double> wide(n);
        fill_with_specials(x, static_cast<uint32_t>(size));
        if (size % 2 == 1) x[n - 1] = kNan;
        const Loops loops = loops_of({size}, {{size}});
        const UnaryParams params{row.a, row.b};
        unary(row.op, params, Element::kF32, loops, x.data(), y.data(), pool);
        for (size_t i = 0; i < n; ++i) wide[i] = static_cast<double>(x[i]);
        unary(row.op, params, Element::kF64, loops, wide.data(), wide.data(), pool);
        for (size_t i = 0; i < n; ++i) {
          const double exact = row.exact(static_cast<double>(x[i]), row.a, row.b);
          if (std::isnan(exact)) {
            ASSERT_TRUE(std::isnan(y[i])) << x[i] << " gave " << y[i];
            ASSERT_TRUE(std::isnan(wide[i])) << x[i] << " gave " << wide[i];
            continue;
          }
          const auto rounded = static_cast<float>(exact);
          if (row.ulps == 0) {
            ASSERT_TRUE(same_bits(&rounded, &y[i], 1)) << x[i];
          } else if (static_cast<double>(x[i]) >= row.low && !std::isinf(rounded)) {
            ASSERT_NEAR(y[i], exact, row.ulps * ulp(exact)) << x[i];
          }
          if (!std::isinf(exact)) {
            // Written otherwise here for gelu, whose other form cancels where x is negative.
            const double slack = row.op == UnaryOp::kGeluTanh ? 1e-15 : 0;
            ASSERT_NEAR(wide[i], exact, 1e-14 * std::abs(exact) + slack) << x[i];
          }
        }
      }
    });
  }
}

TEST(Unary, IntegersAndBoolKeepTheirTypeAndWrap) {
  ThreadPool pool(2);
  const Loops loops = loops_of({4}, {{4}});
  const int8_t small[] = {-128, -1, 0, 127};
  int8_t y[4];
  const auto expect = [&](std::vector<int> expected) {
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(y[i], expected[i]) << i;
  };
  unary(UnaryOp::kAbs, {}, Element::kI8, loops, small, y, pool);
  expect({-128, 1, 0, 127});
  unary(UnaryOp::kNeg, {}, Element::kI8, loops, small, y, pool);
  expect({-128, 1, 0, -127});
  unary(UnaryOp::kSign, {}, Element::kI8, loops, small, y, pool);
  expect({-1, -1, 0, 1});
  unary(UnaryOp::kBitwiseNot, {}, Element::kI8, loops, small, y, pool);
  expect({127, 0, -1, -128});
  unary(UnaryOp::kRound, {}, Element::kI8, loops, small, y, pool);
  expect({-128, -1, 0, 127});
  unary(UnaryOp::kClamp, {-5, 300}, Element::kI8, loops, small, y, pool);
  expect({-5, -1, 0, 127});
  const int64_t wide[] = {std::numeric_limits<int64_t>::min(), -1, 0,
                          std::numeric_limits<int64_t>::max()};
  int64_t z[4];
  unary(UnaryOp::kAbs, {}, Element::kI64, loops, wide, z, pool);
  EXPECT_EQ(z[0], wide[0]);
  EXPECT_EQ(z[1], 1);
  unary(UnaryOp::kClamp, {}, Element::kI64, loops, wide, z, pool);
  EXPECT_TRUE(std::equal(wide, wide + 4, z));
  bool is[4];
  unary(UnaryOp::kLogicalNot, {}, Element::kI64, loops, wide, is, pool);
  EXPECT_TRUE(!is[0] && !is[1] && is[2] && !is[3]);
  unary(UnaryOp::kBitwiseNot, {}, Element::kBool, loops, is, is, pool);
  EXPECT_TRUE(is[0] && is[1] && !is[2] && is[3]);
  const float special[] = {kNan, kInf, -kInf, 1.0f};
  unary(UnaryOp::kIsNan, {}, Element::kF32, loops, special, is, pool);
  EXPECT_TRUE(is[0] && !is[1] && !is[2] && !is[3]);
  unary(UnaryOp::kIsInf, {}, Element::kF32, loops, special, is, pool);
  EXPECT_TRUE(!is[0] && is[1] && is[2] && !is[3]);
  unary(UnaryOp::kIsInf, {}, Element::kI8, loops, small, is, pool);
  EXPECT_TRUE(!is[0] && !is[1] && !is[2] && !is[3]);
}

// -------------------------------------------------------------------------------- broadcasting

struct Shapes {
  Sizes result, x, y;
};
const Shapes kShapes[] = {
    {{}, {}, {}},
    {{7}, {7}, {}},
    {{7}, {1}, {7}},
    {{5, 300}, {5, 300}, {300}},
    {{5, 300}, {5, 1}, {300}},
    {{3, 1025}, {3, 1025}, {3, 1}},
    {{2, 2100}, {2, 2100}, {2, 2100}},
    {{9, 64}, {9, 64}, {64}},
    {{70, 33}, {70, 33}, {70, 1}},
    {{2, 3, 7, 7}, {2, 3, 7, 7}, {3, 1, 1}},
    {{2, 12, 5, 5}, {2, 12, 5, 5}, {2, 1, 1, 5}},
    {{4, 1, 6, 1, 3}, {1, 6, 1, 3}, {4, 1, 1, 1, 3}},
    {{600, 2}, {600, 1}, {1, 2}},
    {{0, 4}, {0, 4}, {4}},
};

template <typename T, typename Out, typename F>
void check_binary(BinaryOp op, Element element, double spread, F exact) {
  SCOPED_TRACE("function " + std::to_string(static_cast<int>(op)));
  on_every_isa_and_pool([&](ThreadPool& pool) {
    for (const Shapes& s : kShapes) {
      GuardedBuffer<T> x(product(s.x));
      GuardedBuffer<T> y(product(s.y));
      GuardedBuffer<Out> z(product(s.result));
      fill_random(x, 1, 0, spread);
      fill_random(y, 2, 0, spread);
      for (T& v : y) {
        if (v == T(0)) v = T(1);
      }
      if constexpr (std::is_floating_point_v<T>) {
        for (size_t i = 0; i < x.size(); i += 5) x[i] = static_cast<T>(kNan);
        for (size_t i = 1; i < x.size(); i += 7) x[i] = y[i % std::max<size_t>(1, y.size())];
        for (size_t i = 0; i < y.size(); i += 11) y[i] = static_cast<T>(-0.0);
      }
      ASSERT_TRUE(
          binary(op, element, loops_of(s.result, {s.x, s.y}), x.data(), y.data(), z.data(), pool));
      for (size_t i = 0; i < z.size(); ++i) {
        const Out expected =
            static_cast<Out>(exact(x[place(i, s.result, s.x)], y[place(i, s.result, s.y)]));
        ASSERT_TRUE(same_bits(&expected, &z[i], 1))
            << "at " << i << " of " << z.size() << ": " << +x[place(i, s.result, s.x)] << ", "
            << +y[place(i, s.result, s.y)];
      }
    }
  });
}

template <typename T>
void check_common(Element element) {
  check_binary<T, bool>(BinaryOp::kEq, element, 2, [](T a, T b) { return a == b; });
  check_binary<T, bool>(BinaryOp::kNe, element, 2, [](T a, T b) { return a != b; });
  check_binary<T, bool>(BinaryOp::kLt, element, 2, [](T a, T b) { return a < b; });
  check_binary<T, bool>(BinaryOp::kLe, element, 2, [](T a, T b) { return a <= b; });
  check_binary<T, bool>(BinaryOp::kGt, element, 2, [](T a, T b) { return a > b; });
  check_binary<T, bool>(BinaryOp::kGe, element, 2, [](T a, T b) { return a >= b; });
  check_binary<T, bool>(BinaryOp::kLogicalAnd, element, 2, [](T a, T b) { return a && b; });
  check_binary<T, bool>(BinaryOp::kLogicalOr, element, 2, [](T a, T b) { return a || b; });
  check_binary<T, bool>(BinaryOp::kLogicalXor, element, 2, [](T a, T b) { return !a != !b; });
  check_binary<T, T>(BinaryOp::kMaximum, element, 2,
                     [](T a, T b) { return a != a ? a : (b != b ? b : std::max(a, b)); });
  check_binary<T, T>(BinaryOp::kMinimum, element, 2,
                     [](T a, T b) { return a != a ? a : (b != b ? b : std::min(a, b)); });
}

template <typename T>
void check_floats(Element element) {
  check_common<T>(element);
  check_binary<T, T>(BinaryOp::kAdd, element, 2, [](T a, T b) { return a + b; });
  check_binary<T, T>(BinaryOp::kSub, element, 2, [](T a, T b) { return a - b; });
  check_binary<T, T>(BinaryOp::kMul, element, 2, [](T a, T b) { return a * b; });
  check_binary<T, T>(BinaryOp::kDiv, element, 2, [](T a, T b) { return a / b; });
  check_binary<T, T>(BinaryOp::kPow, element, 2, [](T a, T b) { return std::pow(a, b); });
  check_binary<T, T>(BinaryOp::kFmod, element, 2, [](T a, T b) { return std::fmod(a, b); });
  check_binary<T, T>(BinaryOp::kRemainder, element, 2, [](T a, T b) {
    const T rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  });
  check_binary<T, T>(BinaryOp::kPrelu, element, 2, [](T a, T b) { return a > 0 ? a : b * a; });
}

template <typename T>
void check_integers(Element element) {
  check_common<T>(element);
  check_binary<T, T>(BinaryOp::kAdd, element, 0, [](T a, T b) { return T(a + b); });
  check_binary<T, T>(BinaryOp::kSub, element, 0, [](T a, T b) { return T(a - b); });
  check_binary<T, T>(BinaryOp::kMul, element, 0, [](T a, T b) { return T(a * b); });
  check_binary<T, T>(BinaryOp::kBitwiseAnd, element, 0, [](T a, T b) { return T(a & b); });
  check_binary<T, T>(BinaryOp::kBitwiseOr, element, 0, [](T a, T b) { return T(a | b); });
  check_binary<T, T>(BinaryOp::kBitwiseXor, element, 0, [](T a, T b) { return T(a ^ b); });
  check_binary<T, T>(BinaryOp::kFmod, element, 0, [](T a, T b) { return T(a % b); });
  check_binary<T, T>(BinaryOp::kFloorDivide, element, 0, [](T a, T b) {
    return T(std::floor(static_cast<double>(a) / static_cast<double>(b)));
  });
  check_binary<T, T>(BinaryOp::kRemainder, element, 0, [](T a, T b) {
    return T(static_cast<double>(a) -
             static_cast<double>(b) * std::floor(static_cast<double>(a) / static_cast<double>(b)));
  });
}

TEST(Binary, FloatsBroadcast) {
  check_floats<float>(Element::kF32);
  check_floats<double>(Element::kF64);
}

TEST(Binary, IntegersBroadcast) {
  check_integers<uint8_t>(Element::kU8);
  check_integers<int8_t>(Element::kI8);
  check_integers<int16_t>(Element::kI16);
  check_integers<int32_t>(Element::kI32);
  check_integers<int64_t>(Element::kI64);
}

TEST(Binary, BoolAddsAsOrAndMultipliesAsAnd) {
  check_common<bool>(Element::kBool);
  check_binary<bool, bool>(BinaryOp::kAdd, Element::kBool, 0, [](bool a, bool b) { return a | b; });
  check_binary<bool, bool>(BinaryOp::kMul, Element::kBool, 0, [](bool a, bool b) { return a & b; });
  check_binary<bool, bool>(BinaryOp::kBitwiseXor, Element::kBool, 0,
                           [](bool a, bool b) { return a ^ b; });
  EXPECT_FALSE(is_supported(BinaryOp::kSub, Element::kBool));
  EXPECT_TRUE(is_supported(BinaryOp::kMaximum, Element::kBool));
}

TEST(Binary, IntegerEdgesAreThoseOfTheOperators) {
  ThreadPool pool(1);
  const Loops loops = loops_of({4}, {{4}, {4}});
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  const int64_t x[] = {kLow, 5, -7, -1};
  const int64_t y[] = {-1, 0, 2, 3};
  int64_t z[4];
  EXPECT_FALSE(binary(BinaryOp::kFloorDivide, Element::kI64, loops, x, y, z, pool));
  EXPECT_EQ(std::vector<int64_t>(z, z + 4), (std::vector<int64_t>{kLow, 0, -4, -1}));
  EXPECT_FALSE(binary(BinaryOp::kRemainder, Element::kI64, loops, x, y, z, pool));
  EXPECT_EQ(std::vector<int64_t>(z, z + 4), (std::vector<int64_t>{0, 0, 1, 2}));
  EXPECT_FALSE(binary(BinaryOp::kFmod, Element::kI64, loops, x, y, z, pool));
  EXPECT_EQ(std::vector<int64_t>(z, z + 4), (std::vector<int64_t>{0, 0, -1, -1}));
  EXPECT_TRUE(binary(BinaryOp::kPow, Element::kI64, loops, x, y, z, pool));
  EXPECT_EQ(std::vector<int64_t>(z, z + 4), (std::vector<int64_t>{0, 1, 49, -1}));
  EXPECT_TRUE(binary(BinaryOp::kAdd, Element::kI64, loops, x, y, z, pool));
  EXPECT_EQ(z[0], std::numeric_limits<int64_t>::max());
}

TEST(Binary, FloorDivisionOfFloatsIsExact) {
  ThreadPool pool(1);
  const Loops loops = loops_of({4}, {{4}, {4}});
  const float x[] = {1.0f, -7.0f, 5.0f, -0.5f};
  const float y[] = {0.1f, 2.0f, 0.0f, 3.0f};
  float z[4];
  binary(BinaryOp::kFloorDivide, Element::kF32, loops, x, y, z, pool);
  EXPECT_EQ(z[0], 9.0f);
  EXPECT_EQ(z[1], -4.0f);
  EXPECT_EQ(z[2], kInf);
  EXPECT_EQ(z[3], -1.0f);
}

TEST(Binary, PowersWithANumberAreThoseOfTheCLibrary) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    for (const float exponent : {2.0f, 1.0f, 0.5f, -1.0f, 3.0f, 0.0f}) {
      GuardedBuffer<float> x(67);
      GuardedBuffer<float> y(67);
      fill_random(x, 1);
      x[0] = -kInf;
      x[1] = -0.0f;
      x[2] = kNan;
      binary(BinaryOp::kPow, Element::kF32, loops_of({67}, {{67}, {}}), x.data(), &exponent,
             y.data(), pool);
      for (size_t i = 0; i < 67; ++i) {
        const float expected = std::pow(x[i], exponent);
        ASSERT_TRUE(same_bits(&expected, &y[i], 1)) << x[i] << " to " << exponent;
      }
    }
  });
}

template <typename T>
void check_where() {
  on_every_isa_and_pool([](ThreadPool& pool) {
    for (const Shapes& s : kShapes) {
      const Sizes row = s.result.empty() ? Sizes{} : Sizes{s.result.back()};
      for (const Sizes& c : {s.result, row}) {
        GuardedBuffer<bool> condition(product(c));
        GuardedBuffer<T> x(product(s.x));
        GuardedBuffer<T> y(product(s.y));
        GuardedBuffer<T> z(product(s.result));
        fill_random(condition, 3);
        fill_random(x, 1);
        fill_random(y, 2);
        where(sizeof(T), loops_of(s.result, {c, s.x, s.y}), condition.data(), x.data(), y.data(),
              z.data(), pool);
        for (size_t i = 0; i < z.size(); ++i) {
          ASSERT_EQ(z[i], condition[place(i, s.result, c)] ? x[place(i, s.result, s.x)]
                                                           : y[place(i, s.result, s.y)]);
        }
      }
    }
  });
}

TEST(Where, PicksElementsOfAnySize) {
  check_where<uint8_t>();
  check_where<int16_t>();
  check_where<float>();
  check_where<int64_t>();
}

// ------------------------------------------------------------------------------------- chains

TEST(Chain, GivesWhatItsStepsGiveOneByOne) {
  for (const Shapes& s : kShapes) {
    std::vector<float> expected;
    for (const Isa isa : supported_isas()) {
      const ScopedIsa scoped(isa);
      expected.clear();
      for (int threads = 1; threads <= 3; ++threads) {
        ThreadPool pool(threads);
        GuardedBuffer<float> x(product(s.x));
        GuardedBuffer<float> y(product(s.y));
        GuardedBuffer<float> w(product(s.result));
        GuardedBuffer<float> z(product(s.result));
        fill_random(x, 1);
        fill_random(y, 2);
        fill_random(w, 3);
        Chain chain{.loops = loops_of(s.result, {s.x, s.y, s.result}), .num_steps = 6};
        using Kind = Step::Kind;
        chain.steps[0] = {.kind = Kind::kBinary, .binary = BinaryOp::kMul, .a = 0.5f};
        chain.steps[1] = {.kind = Kind::kBinary, .binary = BinaryOp::kAdd, .operand = 1};
        chain.steps[2] = {.kind = Kind::kUnary, .unary = UnaryOp::kTanh};
        chain.steps[3] = {.kind = Kind::kBinarySwapped, .binary = BinaryOp::kSub, .operand = 2};
        chain.steps[4] = {.kind = Kind::kBinarySwapped, .binary = BinaryOp::kDiv, .a = 2.0f};
        chain.steps[5] = {.kind = Kind::kUnary, .unary = UnaryOp::kClamp, .a = -3, .b = 3};
        const float* const operands[] = {x.data(), y.data(), w.data()};
        run_chain(chain, operands, z.data(), pool);
        if (threads == 1) {
          expected = copy_of(z);
          for (size_t i = 0; i < z.size(); ++i) {
            const float v = x[place(i, s.result, s.x)] * 0.5f + y[place(i, s.result, s.y)];
            const double t = std::tanh(static_cast<double>(v));
            const double exact = std::clamp(2 / (static_cast<double>(w[i]) - t), -3.0, 3.0);
            // 4 ulp of tanh, made larger by the division.
            const double bound = 4 * kEps * (1 + exact * exact);
            ASSERT_NEAR(z[i], exact, 2 * bound);
          }
        }
        ASSERT_TRUE(same_bits(expected.data(), z.data(), z.size()));
        // Over its last operand.
        run_chain(chain, operands, w.data(), pool);
        ASSERT_TRUE(same_bits(expected.data(), w.data(), w.size()));
      }
    }
  }
}

TEST(Chain, WritesToAndReadsFromStridedPlaces) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    // A transposed operand, and a result that is a part of a wider tensor.
    const Sizes sizes = {40, 30};
    GuardedBuffer<float> x(1200);
    GuardedBuffer<float> y(30);
    GuardedBuffer<float> z(39 * 50 + 30);
    fill_random(x, 1);
    fill_random(y, 2);
    std::fill(z.begin(), z.end(), 7.0f);
    const Sizes transposed = {1, 40};
    const Sizes row = {0, 1};
    const Sizes wide = {50, 1};
    const Extents operands[] = {transposed, row};
    const auto loops = strided_loops(sizes, wide, operands);
    ASSERT_TRUE(loops.has_value());
    ASSERT_TRUE(binary(BinaryOp::kAdd, Element::kF32, *loops, x.data(), y.data(), z.data(), pool));
    for (size_t i = 0; i < 40; ++i) {
      for (size_t j = 0; j < 30; ++j) ASSERT_EQ(z[i * 50 + j], x[j * 40 + i] + y[j]);
      for (size_t j = 30; j < 50 && i < 39; ++j) ASSERT_EQ(z[i * 50 + j], 7.0f);
    }
    // The result transposed, the operand straight.
    const Extents straight[] = {wide, row};
    const auto back = strided_loops(sizes, transposed, straight);
    ASSERT_TRUE(binary(BinaryOp::kSub, Element::kF32, *back, z.data(), y.data(), x.data(), pool));
    for (size_t i = 0; i < 40; ++i) {
      for (size_t j = 0; j < 30; ++j) ASSERT_EQ(x[j * 40 + i], z[i * 50 + j] - y[j]);
    }
  });
}

// --------------------------------------------------------------------------------------- cast

/// On every instruction set, which must agree.
template <typename From, typename To>
std::vector<To> cast_of(Element from, Element to, const std::vector<From>& values) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<To> result;
  on_every_isa_and_pool([&](ThreadPool& pool) {
    GuardedBuffer<From> x(values.size());
    GuardedBuffer<To> y(values.size());
    std::copy(values.begin(), values.end(), x.begin());
    cast(from, to, loops_of({n}, {{n}}), x.data(), y.data(), pool);
    if (result.empty()) result = copy_of(y);
    ASSERT_TRUE(same_bits(result.data(), y.data(), y.size()));
  });
  return result;
}

TEST(Cast, RoundsTruncatesAndWraps) {
  using F = std::vector<float>;
  EXPECT_EQ((cast_of<float, int32_t>(Element::kF32, Element::kI32, F{-1.9f, 2.5f, kNan, 3e9f})),
            (std::vector<int32_t>{-1, 2, 0, static_cast<int32_t>(3000000000u)}));
  EXPECT_EQ((cast_of<float, int64_t>(Element::kF32, Element::kI64, F{kInf, -kInf, 1e10f})),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min(), 10000000000}));
  EXPECT_EQ((cast_of<float, uint8_t>(Element::kF32, Element::kU8, F{300.0f, -1.0f})),
            (std::vector<uint8_t>{44, 255}));
  EXPECT_EQ((cast_of<float, uint8_t>(Element::kF32, Element::kBool, F{0.0f, -0.0f, kNan, 0.1f})),
            (std::vector<uint8_t>{0, 0, 1, 1}));
  EXPECT_EQ((cast_of<int64_t, int8_t>(Element::kI64, Element::kI8, {200, -129})),
            (std::vector<int8_t>{-56, 127}));
  EXPECT_EQ((cast_of<int64_t, float>(Element::kI64, Element::kF32, {16777217, -3})),
            (F{16777216.0f, -3.0f}));
  EXPECT_EQ((cast_of<uint8_t, float>(Element::kBool, Element::kF32, {0, 1})), (F{0.0f, 1.0f}));
  // 1, the largest, the first that rounds to infinity, ties to even, the least denormal and half of
  // it.
  EXPECT_EQ((cast_of<float, uint16_t>(Element::kF32, Element::kF16,
                                      F{1.0f, 65504.0f, 65520.0f, 65519.0f, 2049.0f, 2051.0f,
                                        0x1p-24f, 0x1p-25f, -kInf})),
            (std::vector<uint16_t>{0x3C00, 0x7BFF, 0x7C00, 0x7BFF, 0x6800, 0x6802, 1, 0, 0xFC00}));
  EXPECT_EQ((cast_of<float, uint16_t>(Element::kF32, Element::kBF16,
                                      F{1.0f, 0x1.01p0f, 0x1.03p0f, 3.4e38f, -2.0f})),
            (std::vector<uint16_t>{0x3F80, 0x3F80, 0x3F82, 0x7F80, 0xC000}));
}

TEST(Unary, RoundsToHalfAsCastingThereAndBackDoes) {
  // All exponents, both signs: every half, its neighbours in f32 and the middle to the next half.
  std::vector<float> values;
  std::vector<uint16_t> halves(65536);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  for (const float half : cast_of<uint16_t, float>(Element::kF16, Element::kF32, halves)) {
    const auto bits = std::bit_cast<uint32_t>(half);
    for (const uint32_t more : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu}) {
      values.push_back(std::bit_cast<float>(bits + more));
    }
  }
  for (const float small : {0x1p-25f, 0x1.000002p-25f, 0x1p-26f, 1e-40f, 0x1.8p-24f, 0x1.4p-23f}) {
    values.insert(values.end(), {small, -small});
  }
  values.insert(values.end(), {65504.0f, 65519.996f, 65520.0f, 3e38f, -3e38f, kInf, -kInf, kNan});
  const auto expected = cast_of<uint16_t, float>(
      Element::kF16, Element::kF32, cast_of<float, uint16_t>(Element::kF32, Element::kF16, values));
  const auto n = static_cast<int64_t>(values.size());
  on_every_isa_and_pool([&](ThreadPool& pool) {
    std::vector<float> found(values.size());
    unary(UnaryOp::kRoundToHalf, {}, Element::kF32, loops_of({n}, {{n}}), values.data(),
          found.data(), pool);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i]))
          << values[i] << " gives " << found[i] << ", not " << expected[i];
    }
  });
  EXPECT_FALSE(is_supported(UnaryOp::kRoundToHalf, Element::kF64));
  EXPECT_FALSE(is_supported(UnaryOp::kRoundToHalf, Element::kI32));
}

TEST(Cast, EveryHalfAndBf16GoesToF32AndBack) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const Element element : {Element::kF16, Element::kBF16}) {
    const std::vector<float> wide = cast_of<uint16_t, float>(element, Element::kF32, all);
    const std::vector<uint16_t> back = cast_of<float, uint16_t>(Element::kF32, element, wide);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!std::isnan(wide[i])) {
        ASSERT_EQ(back[i], all[i]);
      }
      const bool f16 = element == Element::kF16;
      const int bits = f16 ? 10 : 7;
      const auto top = static_cast<int>(i >> bits) & (f16 ? 31 : 255);
      const auto fraction = static_cast<double>(i & ((size_t{1} << bits) - 1));
      if (top == (f16 ? 31 : 255)) {
        ASSERT_EQ(std::isnan(wide[i]), fraction != 0);
        ASSERT_TRUE(fraction != 0 || std::isinf(wide[i]));
        continue;
      }
      const int bias = f16 ? 15 : 127;
      const double magnitude = std::ldexp(fraction + (top == 0 ? 0.0 : std::ldexp(1.0, bits)),
                                          std::max(top, 1) - bias - bits);
      ASSERT_EQ(static_cast<double>(wide[i]), i >= 32768 ? -magnitude : magnitude);
    }
  }
}

TEST(Cast, FloatsBetweenHalvesGoToTheNearerAndTiesToTheEvenOne) {
  for (const Element element : {Element::kF16, Element::kBF16}) {
    // All positive finite ones in order, so neighbours are one apart.
    std::vector<uint16_t> halves(element == Element::kF16 ? 0x7C00 : 0x7F80);
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
    const std::vector<float> wide = cast_of<uint16_t, float>(element, Element::kF32, halves);
    std::vector<float> between;
    std::vector<uint16_t> expected;
    for (size_t i = 0; i + 1 < halves.size(); ++i) {
      const float middle = wide[i] + (wide[i + 1] - wide[i]) / 2;
      const auto even = static_cast<uint16_t>(i + (i & 1));
      for (const float sign : {1.0f, -1.0f}) {
        const auto bit = static_cast<uint16_t>(sign < 0 ? 0x8000 : 0);
        between.insert(between.end(), {sign * middle, sign * std::nextafter(middle, 0.0f),
                                       sign * std::nextafter(middle, kInf)});
        expected.insert(expected.end(),
                        {static_cast<uint16_t>(even | bit), static_cast<uint16_t>(i | bit),
                         static_cast<uint16_t>((i + 1) | bit)});
      }
    }
    const std::vector<uint16_t> found = cast_of<float, uint16_t>(Element::kF32, element, between);
    ASSERT_TRUE(same_bits(expected.data(), found.data(), found.size()));
  }
  const std::vector<float> nan = {kNan, -kNan};
  for (const uint16_t h : cast_of<float, uint16_t>(Element::kF32, Element::kF16, nan)) {
    EXPECT_GT(h & 0x7FFF, 0x7C00);
  }
  for (const uint16_t h : cast_of<float, uint16_t>(Element::kF32, Element::kBF16, nan)) {
    EXPECT_GT(h & 0x7FFF, 0x7F80);
  }
}

TEST(Arange, CountsInAnyType) {
  int64_t wide[3];
  arange(Element::kI64, 3, 5, -2, wide);
  EXPECT_EQ(std::vector<int64_t>(wide, wide + 3), (std::vector<int64_t>{5, 3, 1}));
  float f[2];
  arange(Element::kF32, 2, 0, 3, f);
  EXPECT_EQ(f[1], 3.0f);
}

// -------------------------------------------------------------------------------------- loops

TEST(Loops, MergeWhatCanBeWalkedAsOne) {
  EXPECT_EQ(loops_of({2, 3, 4}, {{2, 3, 4}, {2, 3, 4}}).rank, 1);
  EXPECT_EQ(loops_of({2, 3, 4}, {{2, 3, 4}, {}}).rank, 1);
  EXPECT_EQ(loops_of({2, 3, 4}, {{2, 3, 4}, {4}}).rank, 2);
  EXPECT_EQ(loops_of({2, 3, 4}, {{2, 3, 4}, {3, 1}}).rank, 3);
  EXPECT_EQ(loops_of({2, 1, 4}, {{2, 1, 4}, {1, 1, 4}}).rank, 2);
  EXPECT_EQ(loops_of({2, 3, 4}, {{2, 3, 4}}).count, 24);
}

TEST(Loops, MoreDimensionsThanFitAreRefused) {
  const Sizes sizes(18, 2);
  Sizes other(18, 1);
  for (size_t d = 0; d < 18; d += 2) other[d] = 2;
  const Extents both[] = {sizes, other};
  EXPECT_FALSE(broadcast_loops(sizes, both).has_value());
}

TEST(Loops, TheCursorWalksAsTheOffsetsSay) {
  const Sizes result = {3, 4, 5};
  const Sizes operand = {3, 1, 5};
  const Loops loops = loops_of(result, {operand});
  for (int64_t begin = 0; begin < 60; ++begin) {
    LoopCursor cursor(loops, begin);
    for (int64_t i = begin; i < 60;) {
      ASSERT_EQ(static_cast<size_t>(cursor.offset(0)),
                place(static_cast<size_t>(i), result, operand));
      ASSERT_EQ(cursor.result_offset(), i);
      const int64_t step = std::min<int64_t>(cursor.left(), 1 + begin % 3);
      cursor.advance(step);
      i += step;
    }
  }
}

}  // namespace
}  // namespace downhaul::kernels
