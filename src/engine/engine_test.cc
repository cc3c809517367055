#include "engine/engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "kernels/isa.h"
#include "passes/passes.h"
#include "tests/tools/graph_file.h"
#include "tests/tools/random_graph.h"

namespace downhaul {
namespace {

std::unique_ptr<Graph> parse(const std::string& text) {
  auto graph = parse_graph(text, find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  DH_CHECK(graph.ok());
  return *std::move(graph);
}

Result<std::vector<Tensor>> run_with(const std::shared_ptr<EngineModel>& model,
                                     const std::vector<Tensor>& inputs, EngineOptions options) {
  Session session(model, options);
  return session.run(inputs);
}

/// Sums of at most some hundred terms below 8 in magnitude, each rounded: 2^-16 of the largest
/// partial sum; half types round the result once more, perhaps at different places.
double tolerance(DType dtype, double expected) {
  const double scale = std::max(1.0, std::abs(expected));
  if (dtype == DType::kF16) return scale * 0x1p-9;
  if (dtype == DType::kBF16) return scale * 0x1p-6;
  return scale * 0x1p-16;
}

/// `halves`: half floats on the way to f32 results, which the engine does not round to.
::testing::AssertionResult close(const Tensor& found, const Tensor& expected, bool exact,
                                 bool halves = false) {
  if (found.sizes() != expected.sizes() || found.dtype() != expected.dtype()) {
    return ::testing::AssertionFailure()
           << "found " << describe(found) << ", expected " << describe(expected);
  }
  for (int64_t i = 0; i < found.num_elements(); ++i) {
    const double f = found.at(i);
    const double e = expected.at(i);
    if (f == e || (std::isnan(f) && std::isnan(e))) continue;
    if (!exact && is_float(expected.dtype()) && std::isfinite(e) &&
        std::abs(f - e) <= tolerance(halves ? DType::kF16 : expected.dtype(), e)) {
      continue;
    }
    return ::testing::AssertionFailure()
           << "element " << i << ": found " << f << ", expected " << e;
  }
  return ::testing::AssertionSuccess();
}

void expect_close(const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                  const std::string& what, bool halves = false) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t k = 0; k < found.size(); ++k) {
    EXPECT_TRUE(close(found[k], expected[k], false, halves)) << what << ", output " << k;
  }
}

void expect_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                      const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t k = 0; k < a.size(); ++k) {
    EXPECT_TRUE(same_bytes(a[k], b[k])) << what << ", output " << k;
  }
}

// --- every operator, with its operands as constants (weights packed) and as inputs

TEST(Engine, EveryOperatorGivesWhatItsReferenceGives) {
  auto graphs = testing::read_graphs(std::string(DH_SOURCE_DIR) + "/src/ops/op_cases.dh");
  ASSERT_TRUE(graphs.ok()) << graphs.status().message();
  ASSERT_GT(graphs->size(), 100u);
  for (const auto& graph : *graphs) {
    const auto expected = evaluate(*graph, {});
    if (!expected.ok()) continue;  // cases of what a kernel refuses
    for (const Isa isa : supported_isas()) {
      const ScopedIsa scoped(isa);
      const std::string what = cat(graph->name, " on ", name(isa));
      const auto found = run_with(EngineModel::as_it_is(*graph), {}, {.num_threads = 2});
      ASSERT_TRUE(found.ok()) << what << ": " << found.status().message();
      expect_close(*found, *expected, what);
    }
    // The same node on inputs.
    Graph on_inputs;
    const Node& node = *graph->first_node();
    std::vector<Value*> values;
    std::vector<Tensor> inputs;
    for (const Value* v : node.operands()) {
      if (v == nullptr) {
        values.push_back(nullptr);
        continue;
      }
      values.push_back(on_inputs.add_input(cat("x", inputs.size()), v->type()));
      inputs.push_back(v->constant());
    }
    NamedAttrs attrs;
    for (const SchemaArg& arg : node.schema().args) {
      if (arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorList) continue;
      attrs.emplace_back(arg.name, node.attr(arg.name));
    }
    auto inserted = on_inputs.insert(nullptr, node.op(), values, attrs);
    ASSERT_TRUE(inserted.ok()) << graph->name;
    for (int r = 0; r < (*inserted)->num_results(); ++r) {
      on_inputs.add_output((*inserted)->result(r), cat("y", r));
    }
    const auto wanted = evaluate(on_inputs, inputs);
    ASSERT_TRUE(wanted.ok()) << graph->name;
    const auto found = run_with(EngineModel::as_it_is(on_inputs), inputs, {.num_threads = 2});
    ASSERT_TRUE(found.ok()) << graph->name << ": " << found.status().message();
    expect_close(*found, *wanted, cat(graph->name, " on inputs"));
  }
}

// --- whole graphs

bool has_halves(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return node->result()->dtype() == DType::kF16; });
}

/// Whether the reference kernels take no more than a moment.
bool is_small(const Graph& graph) {
  int64_t work = 0;
  for (const auto& node : graph.nodes()) {
    for (int r = 0; r < node->num_results(); ++r) {
      int64_t elements = 1;
      for (const int64_t size : max_sizes(node->result(r)->shape())) elements *= size;
      work += elements;
    }
    if (node->op().multiply_adds != nullptr) work += node->op().multiply_adds(*node);
  }
  return work < 1 << 20;
}

/// The graphs of a file of tests/rewrites: indented blocks after "before:" and "after:".
std::vector<std::unique_ptr<Graph>> graphs_of(const std::filesystem::path& file) {
  const auto text = read_text_file(file.string());
  DH_CHECK(text.ok());
  std::vector<std::string> blocks;
  bool inside = false;
  for (const std::string_view line : split(*text, '\n')) {
    if (line.starts_with("before:") || line.starts_with("after:")) {
      inside = true;
      blocks.emplace_back();
    } else if (!line.starts_with(" ")) {
      inside = false;
    } else if (inside) {
      blocks.back() += std::string(line) + "\n";
    }
  }
  std::vector<std::unique_ptr<Graph>> graphs;
  for (const std::string& block : blocks) {
    auto graph = parse_graph("graph g {\n" + block + "}\n", find_op);
    if (graph.ok()) graphs.push_back(*std::move(graph));  // "after: unchanged" is none
  }
  return graphs;
}

TEST(Engine, GraphsOfRewritesGiveWhatTheReferenceGives) {
  int compared = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(DH_SOURCE_DIR) + "/tests/rewrites")) {
    if (entry.path().extension() != ".dh") continue;
    const std::string file = entry.path().stem().string();
    for (const auto& graph : graphs_of(entry.path())) {
      if (!is_small(*graph)) continue;
      for (const Bindings& bindings : testing::sample_bindings(*graph)) {
        const auto inputs = testing::random_inputs(*graph, bindings, 5);
        const auto expected = evaluate(*graph, inputs);
        if (!expected.ok()) continue;  // random integers that are no indices
        const auto model = EngineModel::prepare(*graph);
        ASSERT_TRUE(model.ok()) << file << ": " << model.status().message();
        for (const auto& m : {*model, EngineModel::as_it_is(*graph)}) {
          const auto found = run_with(m, inputs, {});
          ASSERT_TRUE(found.ok()) << file << ": " << found.status().message();
          expect_close(*found, *expected, file, has_halves(*graph));
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(Engine, SharingMemoryAndThreadsChangeNoBit) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto graph = testing::random_graph(seed);
    const auto inputs = testing::random_inputs(*graph, {}, seed);
    const auto model = EngineModel::as_it_is(*graph);
    const auto apart = run_with(model, inputs, {.share_arena = false});
    ASSERT_TRUE(apart.ok()) << seed << ": " << apart.status().message();
    for (const int threads : {1, 2, 3}) {
      const auto shared = run_with(model, inputs, {.num_threads = threads});
      ASSERT_TRUE(shared.ok()) << seed;
      expect_same_bits(*shared, *apart, cat("seed ", seed, ", threads ", threads));
    }
    const auto expected = evaluate(*graph, inputs);
    ASSERT_TRUE(expected.ok()) << seed;
    expect_close(*apart, *expected, cat("seed ", seed));
    const auto prepared = EngineModel::prepare(*graph);
    ASSERT_TRUE(prepared.ok()) << seed << ": " << prepared.status().message();
    const auto rewritten = run_with(*prepared, inputs, {});
    ASSERT_TRUE(rewritten.ok()) << seed;
    expect_close(*rewritten, *expected, cat("rewritten, seed ", seed));
    const auto reference = run_with(model, inputs, {.reference_only = true});
    ASSERT_TRUE(reference.ok()) << seed;
    expect_same_bits(*reference, *expected, cat("reference kernels, seed ", seed));
  }
}

TEST(Engine, ActivationsAreTakenIntoTheProductBeforeThem) {
  const auto graph = parse(R"(graph g {
  input %x: f32[2,5,8]
  input %r: f32[2,5,16]
  const %w: f32[16,8] = random 1
  const %b: f32[16] = random 2
  %y: f32[2,5,16] = linear(%x, %w, %b)
  %g: f32[2,5,16] = gelu(%y)
  %s: f32[2,5,16] = add(%r, %g)
  return %s as "s"
}
)");
  const auto model = EngineModel::as_it_is(*graph);
  Session session(model);
  const auto inputs = testing::random_inputs(*graph, {}, 3);
  const auto found = session.run(inputs);
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(session.plan()->steps.size(), 1u);
  EXPECT_EQ(session.plan()->steps[0].kernel, "gemm + gelu + add");
  const auto expected = evaluate(*graph, inputs);
  expect_close(*found, *expected, "fused");
}

TEST(Engine, TheProductOfTwoProductsGoesWithOne) {
  const auto graph = parse(R"(graph g {
  input %x: f32[9,8]
  const %w: f32[16,8] = random 1
  const %v: f32[16,8] = random 2
  %a: f32[9,16] = linear(%x, %w)
  %r: f32[9,16] = clamp(%a, min=0.0)
  %b: f32[9,16] = linear(%x, %v)
  %g: f32[9,16] = sigmoid(%b)
  %s: f32[9,16] = mul(%r, %g)
  return %s as "s"
}
)");
  const auto inputs = testing::random_inputs(*graph, {}, 3);
  Session session(EngineModel::as_it_is(*graph));
  const auto found = session.run(inputs);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(session.plan()->steps.size(), 2u);
  expect_close(*found, *evaluate(*graph, inputs), "gate");
}

TEST(Engine, TheWeightsAfterAGateAreMultipliedInsteadOfTheImage) {
  const auto graph = parse(R"(graph g {
  input %x: f32[1,9,8,24]
  input %g: f32[1,1,1,24]
  input %r: f32[1,9,8,10]
  const %w: f32[10,24,1,1] = random 1
  const %b: f32[10] = random 2
  %p: f32[1,9,8,24] = mul(%g, %x)
  %y: f32[1,9,8,10] = conv2d(%p, %w, %b, layout="nhwc")
  %s: f32[1,9,8,10] = add(%r, %y)
  return %s as "s"
}
)");
  const auto inputs = testing::random_inputs(*graph, {}, 3);
  Session session(EngineModel::as_it_is(*graph));
  const auto found = session.run(inputs);
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(session.plan()->steps.size(), 1u);
  EXPECT_EQ(session.plan()->steps[0].kernel, "conv pointwise of gated weights + add");
  expect_close(*found, *evaluate(*graph, inputs), "gated");
}

TEST(Engine, AValueThatIsReadTwiceIsNotTakenIn) {
  const auto graph = parse(R"(graph g {
  input %x: f32[9,8]
  const %w: f32[16,8] = random 1
  %y: f32[9,16] = linear(%x, %w)
  %g: f32[9,16] = clamp(%y, min=0.0)
  %s: f32[9,16] = add(%y, %g)
  return %s as "s"
}
)");
  const auto inputs = testing::random_inputs(*graph, {}, 3);
  const auto found = run_with(EngineModel::as_it_is(*graph), inputs, {});
  ASSERT_TRUE(found.ok());
  expect_close(*found, *evaluate(*graph, inputs), "read twice");
}

TEST(Engine, ReshapesForEachSizeOfADynamicModel) {
  const auto graph = parse(R"(graph g {
  symbol s in [1, 40]
  input %x: f32[1,s,8]
  const %w: f32[16,8] = random 1
  %y: f32[1,s,16] = linear(%x, %w)
  %p: f32[1,16,s] = permute(%y, dims=[0,2,1])
  return %p as "p"
}
)");
  const auto model = EngineModel::as_it_is(*graph);
  Session session(model);
  for (const int64_t s : {1, 40, 7, 8, 9, 40}) {
    const auto inputs = testing::random_inputs(*graph, {{"s", s}}, 4);
    const auto found = session.run(inputs);
    ASSERT_TRUE(found.ok()) << found.status().message();
    expect_close(*found, *evaluate(*graph, inputs), cat("s = ", s));
  }
  EXPECT_FALSE(session.run(testing::random_inputs(*graph, {{"s", 41}}, 4)).ok());
}

/// Operators of the plan that have only their reference kernel.
std::vector<std::string> slow_operators(const Session& session) {
  std::vector<std::string> slow;
  for (const engine::Step& step : session.plan()->steps) {
    if (step.is_reference) slow.emplace_back(step.nodes.back()->op_name());
  }
  return slow;
}

TEST(Engine, TransposedConvolutionsTakeSeveralPartsOfAnImage) {
  const auto graph = parse(R"(graph g {
  input %x: f32[2,8,40,50]
  const %w: f32[8,40,4,4] = random 1
  const %b: f32[80] = random 2
  %y = conv_transpose2d(%x, %w, %b, stride=[2,2], padding=[1,1,1,1], groups=2)
  %r = clamp(%y, min=0)
  const %v: f32[80,21,3,2] = random 3
  %z = conv_transpose2d(%r, %v, none, stride=[1,3], padding=[0,2,1,0], output_padding=[0,1])
  return %z as "z"
}
)");
  const auto inputs = testing::random_inputs(*graph, {}, 3);
  const auto expected = evaluate(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    const auto model = EngineModel::as_it_is(*graph);
    const auto one = *run_with(model, inputs, {});
    for (int64_t i = 0; i < one[0].num_elements(); ++i) {
      // Sums of 80·6 products below 100, each sum rounded at most 500 times.
      ASSERT_NEAR(one[0].at(i), (*expected)[0].at(i), 500 * 0x1p-24 * 2000) << i;
    }
    expect_same_bits(*run_with(model, inputs, {.num_threads = 3}), one, "threads");
    Session session(model);
    ASSERT_TRUE(session.reshape().ok());
    EXPECT_TRUE(slow_operators(session).empty());
  }
}

TEST(Engine, CopiesOfAnyKindHaveKernels) {
  const auto graph = parse(R"(graph g {
  input %x: f32[2,12,9,10]
  input %s: f32[2,12,3,10]
  const %a: f32[12] = random 1
  %p = pad(%x, before=[0,0,2,3], after=[0,0,1,4], mode="reflect")
  %q = pad(%x, before=[0,0,2,-1], after=[0,1,-3,4], value=0.5)
  %c = slice_scatter(%x, %s, dim=2, start=1, end=9, step=3)
  %r = repeat(%c, repeats=[1,2,1,3])
  %l = tril(%c, diagonal=1)
  %u = triu(%c, diagonal=-2)
  %f = pixel_shuffle(%x, factor=2)
  %g = pixel_unshuffle(%f, factor=2)
  %k = prelu(%x, %a)
  return %p as "p", %q as "q", %r as "r", %l as "l", %u as "u", %f as "f", %g as "g", %k as "k"
}
)");
  const auto inputs = testing::random_inputs(*graph, {}, 3);
  const auto expected = evaluate(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  Session session(EngineModel::as_it_is(*graph), {.num_threads = 2});
  const auto found = session.run(inputs);
  ASSERT_TRUE(found.ok()) << found.status().message();
  expect_same_bits(*found, *expected, "copies are exact");
  EXPECT_TRUE(slow_operators(session).empty()) << slow_operators(session)[0];
}

TEST(Engine, LinearLayersInBf16AreOffByTheRoundingOfTheirFactors) {
  const auto graph = parse(R"(graph g {
  input %x: f32[1,20,64]
  const %w1: f32[96,64] = random 1
  const %b1: f32[96] = random 2
  const %w2: f32[96,40] = random 3
  %a: f32[1,20,96] = linear(%x, %w1, %b1)
  %r: f32[1,20,96] = clamp(%a, min=0)
  %y: f32[1,20,40] = linear(%r, %w2, none, weight_transposed=true)
  %s: f32[1,1,40] = slice(%y, dim=1, start=3, end=4)
  %m: f32[1,20,64] = mul(%x, %x)
  return %y as "y", %s as "s", %m as "m"
}
)");
  const auto inputs = testing::random_inputs(*graph, {}, 3);
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    const auto model = EngineModel::as_it_is(*graph);
    const auto exact = *run_with(model, inputs, {});
    const auto coarse = *run_with(model, inputs, {.precision = engine::Precision::kBf16});
    const auto threads =
        *run_with(model, inputs, {.num_threads = 3, .precision = engine::Precision::kBf16});
    expect_same_bits(threads, coarse, "threads");
    // Each factor is off by 2^-8 of itself at most. Sums of 64 and then 96 products of numbers
    // below 1 (below 16 after the first layer) err like a random walk: by less than 2^-7 sqrt(64)
    // in the first, and sqrt(96) times that plus 2^-7 16 in the second.
    double largest = 0;
    for (int64_t i = 0; i < exact[0].num_elements(); ++i) {
      largest = std::max(largest, std::abs(exact[0].at(i) - coarse[0].at(i)));
    }
    EXPECT_GT(largest, 1e-4) << "bf16 is not f32";
    EXPECT_LT(largest, std::sqrt(96.0) * (0x1p-7 * 8 + 0x1p-7 * 16));
    expect_same_bits({coarse[2]}, {exact[2]}, "other operators stay in f32");
  }
}

// --- half floats

Result<std::vector<Tensor>> run_in(engine::Precision precision, const Graph& graph,
                                   const std::vector<Tensor>& inputs, int threads = 1) {
  auto model = EngineModel::prepare(graph, "", precision);
  if (!model.ok()) return std::move(model).status();
  return run_with(*model, inputs, {.num_threads = threads, .precision = precision});
}

TEST(Engine, ProgramsOfHalfFloatsComputeInF32AndKeepTheirInterface) {
  const auto graph = parse(R"(graph g {
  input %x: f16[4]
  const %half: f16[] = [0.5]
  %s: f16[4] = mul(%x, %x)
  %r: f16[4] = sqrt(%s)
  %y: f16[4] = mul(%r, %half)
  return %y as "y"
}
)");
  const Tensor x =
      Tensor::from<float>({4}, std::vector<float>{300, 0x1p-14f, 2, -3}).cast(DType::kF16);
  const auto wide = run_in(engine::Precision::kF32, *graph, {x});
  ASSERT_TRUE(wide.ok()) << wide.status().message();
  ASSERT_EQ((*wide)[0].dtype(), DType::kF16);
  EXPECT_EQ((*wide)[0].at(0), 150) << "90000 does not overflow";
  EXPECT_EQ((*wide)[0].at(1), 0x1p-15) << "2^-28 does not vanish";
  EXPECT_EQ((*wide)[0].at(3), 1.5);
  const auto rounded = run_in(engine::Precision::kF16, *graph, {x});
  ASSERT_TRUE(rounded.ok()) << rounded.status().message();
  ASSERT_EQ((*rounded)[0].dtype(), DType::kF16);
  EXPECT_TRUE(std::isinf((*rounded)[0].at(0)));
  EXPECT_EQ((*rounded)[0].at(1), 0);
  EXPECT_EQ((*rounded)[0].at(3), 1.5);
}

TEST(Engine, EveryResultInF16IsRoundedToNearestEvenAndNoneIsSkipped) {
  // Sums of products that f32 has exactly, so that the roundings between are all there is.
  const auto graph = parse(R"(graph g {
  input %x: f32[1,4]
  const %w: f32[2,4] = [1, 1, 1, 1, 1, 0, 0, 1.00048828125]
  const %b: f32[2] = [1, 0]
  const %big: f32[] = [-2048]
  %l: f32[1,2] = linear(%x, %w, %b)
  %c: f32[1,2] = clamp(%l, min=0)
  %s: f32[1,2] = add(%c, %big)
  return %l as "l", %s as "s"
}
)");
  const Tensor x = Tensor::from<float>({1, 4}, std::vector<float>{2048, 0.5f, 0.5f, 0x1.0028p11f});
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    const auto found = run_in(engine::Precision::kF16, *graph, {x});
    ASSERT_TRUE(found.ok()) << found.status().message();
    // The input 2049.25 is 2050 in f16 and the weight 1.00048828125 is 1 (ties to even); 2048 + 1 +
    // 2050 + 1 = 4100, a multiple of 4.
    EXPECT_EQ((*found)[0].at(0), 4100);
    EXPECT_EQ((*found)[0].at(1), 4096) << "2048 + 2050 = 4098 is halfway: to the even neighbour";
    EXPECT_EQ((*found)[1].at(0), 2052);
    EXPECT_EQ((*found)[1].at(1), 2048);
  }
  auto model = *EngineModel::prepare(*graph, "", engine::Precision::kF16);
  Session session(model, {.precision = engine::Precision::kF16});
  ASSERT_TRUE(session.reshape().ok());
  for (const engine::Step& step : session.plan()->steps) {
    EXPECT_EQ(step.kernel.find(" + "), std::string::npos) << step.kernel;
    EXPECT_NE(step.kernel, "cast") << "there and back is one step";
  }
}

TEST(Engine, F16AgreesWithTheReferenceKernelsOfTheRoundedGraph) {
  const auto graph = parse(R"(graph g {
  symbol s in [1, 16]
  input %x: f32[1,s,16]
  input %image: f32[1,4,6,5]
  const %w: f32[24,16] = random 1
  const %b: f32[24] = random 2
  const %f: f32[8,4,3,3] = random 3
  const %fb: f32[8] = random 4
  const %d: f32[8,1,3,3] = random 5
  %l: f32[1,s,24] = linear(%x, %w, %b)
  %g: f32[1,s,24] = gelu(%l)
  %n: f32[1,s,24] = layer_norm(%g, normalized_shape=[24], eps=1e-12)
  %q: f32[1,s,s] = matmul(%n, %n, transpose_other=true)
  %p: f32[1,s,s] = softmax(%q, dim=-1)
  %a: f32[1,s,24] = matmul(%p, %n)
  %t: f32[1,24,s] = permute(%a, dims=[0,2,1])
  %c: f32[1,8,6,5] = conv2d(%image, %f, %fb, padding=[1,1,1,1])
  %h: f32[1,8,6,5] = hardswish(%c)
  %e: f32[1,8,6,5] = conv2d(%h, %d, none, padding=[1,1,1,1], groups=8)
  %r: f32[1,8,6,5] = add(%e, %c)
  return %t as "t", %r as "r"
}
)");
  const auto inputs = testing::random_inputs(*graph, {{"s", 9}}, 5);
  const auto rounded = graph_in_f16(*graph);
  ASSERT_TRUE(rounded.ok());
  const auto expected = evaluate(**rounded, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const auto exact = run_in(engine::Precision::kF32, *graph, inputs);
  ASSERT_TRUE(exact.ok());
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    const auto found = run_in(engine::Precision::kF16, *graph, inputs);
    const auto threads = run_in(engine::Precision::kF16, *graph, inputs, 3);
    ASSERT_TRUE(found.ok() && threads.ok());
    expect_same_bits(*threads, *found, "threads");
    for (size_t k = 0; k < expected->size(); ++k) {
      double off = 0;
      double to_exact = 0;
      for (int64_t i = 0; i < (*found)[k].num_elements(); ++i) {
        const double v = (*found)[k].at(i);
        EXPECT_EQ(v, half_to_float(float_to_half(static_cast<float>(v)))) << "is one of f16";
        off = std::max(off, std::abs(v - (*expected)[k].at(i)));
        to_exact = std::max(to_exact, std::abs(v - (*exact)[k].at(i)));
      }
      // Sums in another order flip a rounding now and then: one place of results below 8, 2^-8.
      EXPECT_LE(off, 0x1p-7) << k;
      EXPECT_GT(to_exact, 1e-5) << "f16 is not f32";
      EXPECT_LT(to_exact, 0.1) << k;
    }
  }
}

TEST(Engine, StateIsKeptFromRunToRunUntilItIsReset) {
  const auto graph = parse(R"(graph g {
  input %x: f32[4]
  state %count: f32[4] = splat 2
  %y: f32[4] = add(%x, %count)
  return %y as "y", %count as "before"
  update %count = %y
}
)");
  const auto x = Tensor::from<float>({4}, std::vector<float>{1, 2, 3, 4});
  const auto model = EngineModel::as_it_is(*graph);
  Session session(model);
  Session other(model);
  for (int round = 0; round < 2; ++round) {
    for (int run = 1; run <= 3; ++run) {
      const auto found = session.run({x});
      ASSERT_TRUE(found.ok()) << found.status().message();
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ((*found)[0].at(i), 2 + run * x.at(i));
        EXPECT_EQ((*found)[1].at(i), 2 + (run - 1) * x.at(i)) << "what the run began with";
      }
    }
    session.reset_state();
  }
  EXPECT_EQ((*other.run({x}))[0].at(0), 3) << "a session of its own";
  EXPECT_EQ(graph->states()[0]->constant().at(0), 2) << "the model stays as it is";
}

TEST(Engine, StatesChangePlacesAndSurviveOtherSizes) {
  const auto graph = parse(R"(graph g {
  symbol s in [1, 9]
  input %x: f32[s]
  state %a: f32[2] = [1, 2]
  state %b: f32[2] = [3, 4]
  %y: f32[s] = neg(%x)
  return %y as "y", %a as "a", %b as "b"
  update %a = %b
  update %b = %a
}
)");
  Session session(EngineModel::as_it_is(*graph));
  for (const int64_t size : {1, 9, 9, 2}) {
    static int run = 0;
    const auto found = session.run(testing::random_inputs(*graph, {{"s", size}}, 4));
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ((*found)[1].at(0), run % 2 == 0 ? 1 : 3);
    EXPECT_EQ((*found)[2].at(1), run % 2 == 0 ? 4 : 2);
    ++run;
  }
}

TEST(Engine, ARunThatFailsLeavesTheStateAsItWas) {
  const auto graph = parse(R"(graph g {
  input %i: i64[1]
  state %n: f32[1] = splat 0
  const %one: f32[1] = [1]
  const %t: f32[3,1] = [5, 6, 7]
  %m: f32[1] = add(%n, %one)
  %e: f32[1,1] = embedding(%t, %i)
  return %m as "m", %e as "e"
  update %n = %m
}
)");
  Session session(EngineModel::as_it_is(*graph));
  const auto index = [](int64_t i) { return Tensor::from<int64_t>({1}, std::vector<int64_t>{i}); };
  EXPECT_EQ((*session.run({index(0)}))[0].at(0), 1);
  EXPECT_FALSE(session.run({index(3)}).ok());
  EXPECT_EQ((*session.run({index(2)}))[0].at(0), 2);
}

TEST(Engine, AnInputThatDoesNotFitIsRefused) {
  const auto graph = parse(R"(graph g {
  input %x: f32[2,3]
  %y: f32[2,3] = neg(%x)
  return %y as "y"
}
)");
  Session session(EngineModel::as_it_is(*graph));
  EXPECT_FALSE(session.run({Tensor(DType::kF32, {3, 2})}).ok());
  EXPECT_FALSE(session.run({Tensor(DType::kI64, {2, 3})}).ok());
  EXPECT_FALSE(session.run(std::vector<Tensor>{}).ok());
}

TEST(Engine, AnIndexOutsideItsTableIsRefused) {
  const auto graph = parse(R"(graph g {
  input %i: i64[2]
  const %w: f32[5,3] = random 1
  %y: f32[2,3] = embedding(%w, %i)
  return %y as "y"
}
)");
  Session session(EngineModel::as_it_is(*graph));
  EXPECT_TRUE(session.run({Tensor::from<int64_t>({2}, std::vector<int64_t>{0, 4})}).ok());
  EXPECT_FALSE(session.run({Tensor::from<int64_t>({2}, std::vector<int64_t>{0, 5})}).ok());
  EXPECT_FALSE(session.run({Tensor::from<int64_t>({2}, std::vector<int64_t>{-1, 0})}).ok());
}

TEST(Engine, PackedWeightsComeBackFromTheCache) {
  const auto graph = parse(R"(graph g {
  input %x: f32[20,8]
  const %w: f32[40,8] = random 1
  const %b: f32[40] = random 2
  %y: f32[20,40] = linear(%x, %w, %b)
  return %y as "y"
}
)");
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / cat("downhaul_cache_", ::getpid());
  const auto inputs = testing::random_inputs(*graph, {}, 3);
  const auto expected = *run_with(EngineModel::as_it_is(*graph), inputs, {});
  const auto run_cached = [&](int from_cache) {
    const auto model = EngineModel::prepare(*graph, folder.string());
    ASSERT_TRUE(model.ok());
    const auto found = run_with(*model, inputs, {});
    ASSERT_TRUE(found.ok());
    expect_same_bits(*found, expected, "with a cache");
    EXPECT_EQ((*model)->weights().num_from_cache(), from_cache);
  };
  run_cached(0);
  run_cached(1);
  // A file that was cut, or in which a bit has changed, is made anew.
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) file = entry.path();
  const auto size = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, size - 1);
  run_cached(0);
  run_cached(1);
  {
    std::fstream damage(file, std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(static_cast<std::streamoff>(size - 5));
    damage.put('\x55');
  }
  run_cached(0);
  run_cached(1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace downhaul
