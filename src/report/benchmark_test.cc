#include "report/benchmark.h"

#include <gtest/gtest.h>

namespace downhaul {
namespace {

Machine machine(std::string build) {
  Machine m{.cpu = "A CPU", .isa = "avx2", .threads = 2, .build = std::move(build)};
  m.fma_gflops = 100;
  m.read_gb_per_s = 10;
  return m;
}

FileBenchmark file() {
  FileBenchmark f;
  f.file = "dir/model.pte";
  f.coverage = "3 nodes";
  f.steps = 2;
  f.runs_ms = {2, 2, 2, 4};
  f.multiply_adds = 50'000'000;
  f.bytes = 4'000'000;
  f.profile = {{.kernel = "gemm, \"packed\"",
                .place = "a",
                .type = "f32[1]",
                .ms = 1.5,
                .multiply_adds = 50'000'000,
                .bytes = 0,
                .reference = false},
               {.kernel = "sort",
                .place = "b",
                .type = "f32[1]",
                .ms = 0.5,
                .multiply_adds = 0,
                .bytes = 0,
                .reference = true}};
  f.reference = {{"sort", 1}};
  return f;
}

TEST(Benchmark, ADebugBuildIsSaidLoudly) {
  EXPECT_NE(print_header(machine("Debug")).find("*** Debug BUILD"), std::string::npos);
  EXPECT_EQ(print_header(machine("Release")).find("***"), std::string::npos);
}

TEST(Benchmark, OperatorsOnReferenceKernelsAreListed) {
  EXPECT_NE(print_coverage(file()).find("1 of them by REFERENCE kernels (slow): sort 1"),
            std::string::npos);
}

TEST(Benchmark, RatesAreSharesOfWhatWasMeasured) {
  // 100 M operations in 2 ms: 50 GFLOP/s of 100; 4 MB in 2 ms: 2 GB/s of 10.
  const std::string text = print_figures(file(), machine("Release"));
  EXPECT_NE(text.find("50.0 GFLOP/s, 50.0 % of"), std::string::npos) << text;
  EXPECT_NE(text.find("2.0 GB/s, 20.0 % of"), std::string::npos) << text;
}

TEST(Benchmark, DisturbedRunsAreSaidLoudly) {
  FileBenchmark f = file();
  f.waited = 0.019;
  EXPECT_EQ(print_figures(f, machine("Release")).find("DISTURBED"), std::string::npos);
  f.waited = 0.021;
  EXPECT_NE(print_figures(f, machine("Release")).find("DISTURBED"), std::string::npos);
}

TEST(Benchmark, TheProfileIsSlowestFirstWithShares) {
  const std::string text = print_profile(file(), machine("Release"));
  EXPECT_LT(text.find("75.0%"), text.find("25.0%")) << text;
  EXPECT_NE(text.find("sort (REFERENCE)"), std::string::npos);
}

TEST(Benchmark, CommaSeparatedValuesAreQuoted) {
  const BenchmarkReport report{machine("Release"), {file()}};
  EXPECT_NE(to_csv(report, true).find("dir/model.pte,\"gemm, \"\"packed\"\"\",a,"),
            std::string::npos);
}

std::string saved(const BenchmarkReport& report) {
  JsonWriter json;
  write_json(report, json);
  return json.take();
}

TEST(Benchmark, ResultsAreComparedWithThemselves) {
  const auto parsed = JsonValue::parse(saved({machine("Release"), {file()}}));
  ASSERT_TRUE(parsed.ok());
  const auto same = compare_benchmarks(*parsed, *parsed);
  ASSERT_TRUE(same.ok()) << same.status().message();
  ASSERT_EQ(same->size(), 1u);
  EXPECT_FALSE(same->front().ratio.beyond_noise);
  const auto debug = JsonValue::parse(saved({machine("Debug"), {file()}}));
  ASSERT_TRUE(debug.ok());
  const auto refused = compare_benchmarks(*parsed, *debug);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(), "not comparable: build was Release, is Debug");
}

}  // namespace
}  // namespace downhaul
