#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "kernels/isa.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/math_test.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of what follows.
#include "hwy/highway.h"
#include "kernels/math-inl.h"

// Every function with the values it is tested on: name, expression, what it should give, ulps,
// absolute error allowed besides per |x|, range of x. Bounds are those that math-inl.h states.
#define DH_MATH_FUNCTIONS(F)                                                                       \
  F(exp, vec_exp(d, v), std::exp(x), 2, 0, -kInf, kInf)                                            \
  F(exp_nonpositive, vec_exp_nonpositive(d, v), x < -87.3365f ? 0 : std::exp(x), 2, 0, -kInf, 0.0) \
  F(expm1, vec_expm1(d, v), std::expm1(x), 3, 0, -kInf, kInf)                                      \
  F(log, vec_log(d, v), std::log(x), 2, 0, -kInf, kInf)                                            \
  F(log1p, vec_log1p(d, v), std::log1p(x), 2, 0, -kInf, kInf)                                      \
  F(tanh, vec_tanh(d, v), std::tanh(x), 3, 0, -kInf, kInf)                                         \
  F(erf, vec_erf(d, v), std::erf(x), 2, 0, -kInf, kInf)                                            \
  F(sigmoid, vec_sigmoid(d, v), 1 / (1 + std::exp(-x)), 3, 0, -88.3, kInf)                         \
  F(silu, vec_silu(d, v), x / (1 + std::exp(-x)), 3, 0, -88.3, kInf)                               \
  F(gelu, vec_gelu(d, v), x* phi(x), 7, 0, -2.0, kInf)                                             \
  F(gelu_low, vec_gelu(d, v), x* phi(x), 1, 0x1p-23, -kMax, -2.0)                                  \
  F(gelu_tanh, vec_gelu_tanh(d, v), gelu_tanh(x), 1, 0x1p-22, -kMax, kInf)                         \
  F(hardsigmoid, vec_hardsigmoid(d, v), clamp06(x + 3) / 6, 2, 0x1p-24, -kInf, kInf)               \
  F(hardswish, vec_hardswish(d, v), x* clamp06(x + 3) / 6, 2, 0x1p-24, -kMax, kInf)                \
  F(softplus, vec_softplus(d, v, 1.0f, 20.0f), std::log1p(std::exp(x)), 3, 0, -kInf, 88.0)         \
  F(mish, vec_mish(d, v), x* std::tanh(std::log1p(std::exp(x))), 4, 0, -87.0, kInf)                \
  F(rsqrt, vec_rsqrt(d, v), 1 / std::sqrt(x), 1.5, 0, -kInf, kInf)                                 \
  F(atan, vec_atan(d, v), std::atan(x), 3, 0, -kInf, kInf)                                         \
  F(sin, vec_sin(d, v), std::sin(x), 2, 0, -kMax, kMax)                                            \
  F(cos, vec_cos(d, v), std::cos(x), 2, 0, -kMax, kMax)

// Each function over an array, in full vectors and then in single elements.
HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {
using Run = void (*)(const float* x, float* y, size_t n);

#define DH_RUN(function, call, ...)                                               \
  void run_##function(const float* x, float* y, size_t n) {                       \
    const auto apply = [](auto d, auto v) HWY_ATTR { return call; };              \
    const hn::ScalableTag<float> full;                                            \
    size_t i = 0;                                                                 \
    for (; i + hn::Lanes(full) <= n; i += hn::Lanes(full)) {                      \
      hn::StoreU(apply(full, hn::LoadU(full, x + i)), full, y + i);               \
    }                                                                             \
    const hn::CappedTag<float, 1> one;                                            \
    for (; i < n; ++i) hn::StoreU(apply(one, hn::LoadU(one, x + i)), one, y + i); \
  }
DH_MATH_FUNCTIONS(DH_RUN)
#undef DH_RUN

Run math_function(size_t index) {
#define DH_RUN(function, ...) run_##function,
  static constexpr Run kRuns[] = {DH_MATH_FUNCTIONS(DH_RUN)};
#undef DH_RUN
  return kRuns[index];
}

void two_at_once(const float* a, const float* b, size_t n, float* larger, float* smaller,
                 float* clamped) {
  const hn::CappedTag<float, 1> d;
  for (size_t i = 0; i < n; ++i) {
    const auto x = hn::LoadU(d, a + i);
    const auto y = hn::LoadU(d, b + i);
    hn::StoreU(vec_maximum(d, x, y), d, larger + i);
    hn::StoreU(vec_minimum(d, x, y), d, smaller + i);
    hn::StoreU(vec_clamp(d, x, 0.0f, 6.0f), d, clamped + i);
  }
}
}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(math_function);
HWY_EXPORT(two_at_once);

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();

double phi(double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }
double clamp06(double x) { return x < 0 ? 0 : (x > 6 ? 6 : x); }
double gelu_tanh(double x) {
  const double u = std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

struct Function {
  const char* name;
  double (*exact)(double x);
  double ulps;
  double per_x;
  float low;
  float high;
};
#define DH_ROW(function, call, exact, ulps, per_x, low, high) \
  {#function, [](double x) -> double { return exact; }, ulps, per_x, low, high},
constexpr Function kFunctions[] = {DH_MATH_FUNCTIONS(DH_ROW)};
#undef DH_ROW

/// Distance of the f32 values around `y`.
double ulp(double y) {
  const double a = std::max(std::abs(y), 0x1p-126);
  return std::ldexp(1.0, std::ilogb(a) - 23);
}

/// Floats of both signs over all exponents, `count` mantissas of each, infinities and NaN, and more
/// of where functions bend.
std::vector<float> sweep(uint32_t count) {
  std::vector<float> values = {kInf, -kInf, kNan, -kNan};
  std::mt19937 random(7);
  for (uint32_t top = 0; top < 512; ++top) {
    if ((top & 255) == 255) continue;
    values.push_back(std::bit_cast<float>(top << 23));
    values.push_back(std::bit_cast<float>((top << 23) | 0x7FFFFF));
    for (uint32_t i = 0; i < count; ++i) {
      values.push_back(
          std::bit_cast<float>((top << 23) | static_cast<uint32_t>(random() & 0x7FFFFF)));
    }
  }
  std::uniform_real_distribution<float> near(-5, 5);
  std::uniform_real_distribution<float> far(-110, 110);
  for (uint32_t i = 0; i < 64 * count; ++i) {
    values.push_back(near(random));
    values.push_back(far(random));
  }
  return values;
}

TEST(Math, EveryFunctionKeepsItsBoundOverAllExponentsOnEveryIsa) {
  const std::vector<float> all = sweep(256);
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    for (size_t f = 0; f < std::size(kFunctions); ++f) {
      const Function& function = kFunctions[f];
      std::vector<float> x;
      for (const float v : all) {
        if (std::isnan(v) || (v >= function.low && v <= function.high)) x.push_back(v);
      }
      std::vector<float> y(x.size());
      HWY_DYNAMIC_DISPATCH(math_function)(f)(x.data(), y.data(), x.size());
      double worst = 0;
      size_t at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double exact = function.exact(static_cast<double>(x[i]));
        const auto rounded = static_cast<float>(exact);
        if (std::isnan(rounded)) {
          ASSERT_TRUE(std::isnan(y[i])) << function.name << "(" << x[i] << ") gave " << y[i];
          continue;
        }
        if (y[i] == rounded && std::signbit(y[i]) == std::signbit(rounded)) continue;
        const double error = std::abs(static_cast<double>(y[i]) - exact) -
                             function.per_x * std::abs(static_cast<double>(x[i]));
        const double ulps = error / ulp(exact);
        if (!(ulps <= worst)) {
          worst = ulps;
          at = i;
        }
        if (x[i] == 0.0f) {
          ADD_FAILURE() << function.name << "(" << x[i] << ") gave " << y[i] << ", not " << rounded;
        }
      }
      EXPECT_LE(worst, function.ulps)
          << function.name << "(" << x[at] << ") on " << name(isa) << " gave " << y[at] << ", not "
          << function.exact(static_cast<double>(x[at]));
      if (std::getenv("DH_PRINT_BOUNDS") != nullptr) {
        std::printf("%-9s %-16s %6.2f ulp at %g\n", name(isa).data(), function.name, worst,
                    static_cast<double>(x[at]));
      }
    }
  }
}

TEST(Math, NegativeTailsOfGeluGoToZero) {
  const float x[] = {-8.0f, -13.0f, -100.0f, -kMax};
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    for (size_t f = 0; f < std::size(kFunctions); ++f) {
      if (std::string_view(kFunctions[f].name).substr(0, 4) != "gelu") continue;
      float y[4];
      HWY_DYNAMIC_DISPATCH(math_function)(f)(x, y, 4);
      for (const float v : y) EXPECT_TRUE(v <= 0 && v > -1e-9f) << kFunctions[f].name << ": " << v;
    }
  }
}

TEST(Math, MaximumMinimumAndClampTreatNanAndZerosAsTorchDoes) {
  const float values[] = {0.0f, -0.0f, 1.0f, -1.0f, 7.0f, kInf, -kInf, kNan, 1e-45f};
  std::vector<float> a;
  std::vector<float> b;
  for (const float x : values) {
    for (const float y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  const auto expect_same = [](float expected, float found) {
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << found;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(expected), std::bit_cast<uint32_t>(found))
          << expected << " and " << found;
    }
  };
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    std::vector<float> larger(a.size());
    std::vector<float> smaller(a.size());
    std::vector<float> clamped(a.size());
    HWY_DYNAMIC_DISPATCH(two_at_once)
    (a.data(), b.data(), a.size(), larger.data(), smaller.data(), clamped.data());
    for (size_t i = 0; i < a.size(); ++i) {
      const bool nan = std::isnan(a[i]) || std::isnan(b[i]);
      expect_same(nan ? kNan : (a[i] < b[i] ? b[i] : a[i]), larger[i]);
      expect_same(nan ? kNan : (b[i] < a[i] ? b[i] : a[i]), smaller[i]);
      const float low = a[i] < 0 ? 0.0f : a[i];
      expect_same(6 < low ? 6.0f : low, clamped[i]);
    }
  }
}

}  // namespace
}  // namespace downhaul::kernels
#endif  // HWY_ONCE
