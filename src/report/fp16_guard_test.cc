#include "report/fp16_guard.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/strings.h"
#include "ir/text.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

using Kind = Fp16Finding::Kind;

std::unique_ptr<Graph> parse(std::string_view body) {
  auto graph = parse_graph(cat("graph g {\n", body, "}\n"), find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? *std::move(graph) : nullptr;
}

Fp16Report report_of(std::string_view body, std::vector<Tensor> inputs) {
  const auto graph = parse(body);
  auto report = fp16_findings(*graph, {{"given", std::move(inputs)}});
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *std::move(report) : Fp16Report();
}

const Fp16Finding* find(const Fp16Report& report, Kind kind) {
  for (const Fp16Finding& f : report.findings) {
    if (f.kind == kind) return &f;
  }
  return nullptr;
}

Tensor row(const std::vector<float>& values) {
  return Tensor::from<float>({1, static_cast<int64_t>(values.size())}, values);
}

TEST(Fp16Guard, FindsNothingInASmallOrdinaryModel) {
  const auto report = report_of(R"(
    input %x: f32[1,4]
    const %w: f32[4,4] = random 1
    %y = linear(%x, %w)
    %n = layer_norm(%y, normalized_shape=[4])
    return %n
  )",
                                {row({1, -2, 3, 4})});
  EXPECT_TRUE(report.findings.empty()) << print(report);
  EXPECT_FALSE(report.has_errors());
  EXPECT_NE(print(report).find("nothing that FP16 would break"), std::string::npos);
  EXPECT_EQ(report.distance.place, "layer_norm n");
  EXPECT_GT(report.distance.worst, 0);
}

TEST(Fp16Guard, FindsConstantsThatF16CannotHold) {
  const auto report = report_of(R"(
    input %x: f32[1,4]
    const %low: f32[] = [-3.4028234663852886e38]
    const %tiny: f32[] = [1e-12]
    const %w: f32[4] = [1e-9, 1, 2, 70000]
    %a = add(%x, %low)
    %b = add(%x, %tiny)
    %c = mul(%x, %w)
    return %a
    return %b
    return %c
  )",
                                {row({0, 0, 0, 0})});
  int over = 0;
  int vanishing = 0;
  for (const Fp16Finding& f : report.findings) {
    if (f.kind == Kind::kConstantOverflow) {
      ++over;
      EXPECT_TRUE(f.is_error);
    }
    if (f.kind == Kind::kConstantUnderflow) {
      ++vanishing;
      EXPECT_EQ(f.is_error, f.place == "constant tiny") << f.place;
    }
  }
  EXPECT_EQ(over, 2);
  EXPECT_EQ(vanishing, 2);
  EXPECT_TRUE(report.has_errors());
}

TEST(Fp16Guard, FindsResultsThatOverflowAndOnesThatVanish) {
  const auto report = report_of(R"(
    input %x: f32[1,4]
    %y = mul(%x, %x)
    return %y
  )",
                                {row({300, 1e-5f, -1, 0})});
  const Fp16Finding* over = find(report, Kind::kValueOverflow);
  ASSERT_NE(over, nullptr);
  EXPECT_TRUE(over->is_error);
  EXPECT_EQ(over->place, "mul y");
  EXPECT_EQ(over->inputs, "given");
  EXPECT_EQ(over->worst, 90000);
  EXPECT_EQ(over->count, 1);
  const Fp16Finding* under = find(report, Kind::kValueUnderflow);
  ASSERT_NE(under, nullptr);
  EXPECT_FALSE(under->is_error) << "a small number that becomes 0 is rounding";
  EXPECT_NEAR(under->worst, 1e-10, 1e-16);
}

TEST(Fp16Guard, NamesTheLargestProductOfQueryAndKeyBeforeItIsScaled) {
  // 300 * 300 * 2 = 180000, scaled to 1800.
  const char* attention = R"(
    input %q: f32[1,1,2]
    %y = attention(%q, %q, %q, scale=0.01)
    return %y
  )";
  const char* spelled_out = R"(
    input %q: f32[1,1,2]
    const %scale: f32[] = [0.01]
    %s = matmul(%q, %q, transpose_other=true)
    %c = mul(%s, %scale)
    %p = softmax(%c, dim=-1)
    %y = matmul(%p, %q)
    return %y
  )";
  for (const char* body : {attention, spelled_out}) {
    const auto report =
        report_of(body, {Tensor::from<float>({1, 1, 2}, std::vector<float>{300, 300})});
    const Fp16Finding* finding = find(report, Kind::kProductOverflow);
    ASSERT_NE(finding, nullptr) << body << print(report);
    EXPECT_TRUE(finding->is_error);
    EXPECT_EQ(finding->worst, 180000);
    EXPECT_EQ(report.product.worst, 180000);
    const auto small = report_of(body, {Tensor::from<float>({1, 1, 2}, std::vector<float>{3, 4})});
    EXPECT_EQ(find(small, Kind::kProductOverflow), nullptr);
    EXPECT_EQ(small.product.worst, 25);
  }
}

TEST(Fp16Guard, FindsNormsWhoseSquaresOverflowAndRowsOfEqualNumbers) {
  const char* body = R"(
    input %x: f32[1,4]
    %n = layer_norm(%x, normalized_shape=[4], eps=1e-7)
    return %n
  )";
  const auto wide = report_of(body, {row({0, 0, 400, 0})});
  const Fp16Finding* square = find(wide, Kind::kSquareOverflow);
  ASSERT_NE(square, nullptr);
  EXPECT_TRUE(square->is_error);
  EXPECT_EQ(square->worst, 300);
  const auto flat = report_of(body, {row({5, 5, 5, 5})});
  const Fp16Finding* constant = find(flat, Kind::kConstantRow);
  ASSERT_NE(constant, nullptr);
  EXPECT_FALSE(constant->is_error) << "eps survives";
  const auto no_eps = report_of(R"(
    input %x: f32[1,4]
    %n = layer_norm(%x, normalized_shape=[4], eps=1e-12)
    return %n
  )",
                                {row({5, 5, 5, 5})});
  ASSERT_NE(find(no_eps, Kind::kConstantRow), nullptr);
  EXPECT_TRUE(find(no_eps, Kind::kConstantRow)->is_error);
  ASSERT_NE(find(no_eps, Kind::kConstantUnderflow), nullptr);
  EXPECT_NE(find(no_eps, Kind::kConstantUnderflow)->text.find("eps = 1e-12"), std::string::npos);
}

TEST(Fp16Guard, FindsRowsInWhichEverythingIsMaskedOut) {
  const char* body = R"(
    input %s: f32[1,2,3]
    input %m: f32[1,2,3]
    %a = add(%s, %m)
    %p = softmax(%a, dim=AXIS)
    return %p
  )";
  const auto with_axis = [&](std::string_view axis) {
    std::string text = body;
    return text.replace(text.find("AXIS"), 4, axis);
  };
  const Tensor scores({DType::kF32, {1, 2, 3}});
  const float low = -3.4e38f;
  const std::vector<float> second_row = {0, -1e4f, 0, -1e4f, -1e4f, -1e4f};
  auto report = report_of(with_axis("-1"), {scores, Tensor::from<float>({1, 2, 3}, second_row)});
  const Fp16Finding* masked = find(report, Kind::kMaskedRow);
  ASSERT_NE(masked, nullptr);
  EXPECT_FALSE(masked->is_error) << "-1e4 is finite in f16";
  EXPECT_EQ(masked->count, 1);
  report = report_of(with_axis("1"), {scores, Tensor::from<float>({1, 2, 3}, second_row)});
  ASSERT_NE(find(report, Kind::kMaskedRow), nullptr);
  EXPECT_EQ(find(report, Kind::kMaskedRow)->count, 1) << "the middle column";
  const std::vector<float> beyond = {0, 0, 0, low, low, low};
  report = report_of(with_axis("-1"), {scores, Tensor::from<float>({1, 2, 3}, beyond)});
  ASSERT_NE(find(report, Kind::kMaskedRow), nullptr);
  EXPECT_TRUE(find(report, Kind::kMaskedRow)->is_error);
  const auto attention = report_of(R"(
    input %q: f32[1,2,2]
    const %m: bool[2,2] = [1, 1, 0, 0]
    %y = attention(%q, %q, %q, %m)
    return %y
  )",
                                   {Tensor(DType::kF32, {1, 2, 2})});
  ASSERT_NE(find(attention, Kind::kMaskedRow), nullptr);
  EXPECT_TRUE(find(attention, Kind::kMaskedRow)->is_error);
}

TEST(Fp16Guard, FindsWhatIsNoNumberAlready) {
  const auto report = report_of(R"(
    input %x: f32[1,2]
    %y = log(%x)
    return %y
  )",
                                {row({-1, 1})});
  const Fp16Finding* finding = find(report, Kind::kNotANumber);
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->is_error);
}

TEST(Fp16Guard, LooksAtProgramsOfHalfFloatsToo) {
  const auto report = report_of(R"(
    input %x: f16[1,2]
    %y = mul(%x, %x)
    return %y
  )",
                                {row({300, 1}).cast(DType::kF16)});
  ASSERT_NE(find(report, Kind::kValueOverflow), nullptr);
  EXPECT_EQ(find(report, Kind::kValueOverflow)->worst, 90000);
}

TEST(Fp16Guard, TriesInputsThatHideEverything) {
  const auto graph = parse(R"(
    input %m: i64[1,3]
    input %s: f32[1,3]
    const %one: f32[] = [1]
    const %low: f32[] = [-10000]
    %f = cast(%m, dtype=f32)
    %n = sub(%one, %f)
    %w = mul(%n, %low)
    %a = add(%s, %w)
    %p = softmax(%a, dim=-1)
    return %p
  )");
  const auto sets = guard_inputs(*graph);
  ASSERT_EQ(sets.size(), 3u);
  const auto report = fp16_findings(*graph, sets);
  ASSERT_TRUE(report.ok());
  const Fp16Finding* masked = find(*report, Kind::kMaskedRow);
  ASSERT_NE(masked, nullptr);
  EXPECT_EQ(masked->inputs, "masked inputs");
  JsonWriter json;
  write_json(*report, json);
  EXPECT_TRUE(JsonValue::parse(json.take()).ok());
}

TEST(Fp16Guard, NamesTheInputsThatDoNotFit) {
  const auto graph = parse("input %x: f32[2]\n%y = exp(%x)\nreturn %y\n");
  const auto report = fp16_findings(*graph, {{"mine", {Tensor(DType::kF32, {3})}}});
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find("mine"), std::string::npos);
}

}  // namespace
}  // namespace downhaul
