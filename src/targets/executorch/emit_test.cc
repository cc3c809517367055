#include "targets/executorch/emit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "dialects/edge/raise_program.h"
#include "ops/evaluate.h"
#include "targets/portable/portable.h"
#include "tests/tools/graph_file.h"

namespace downhaul {
namespace {

/// A file path that no other test uses.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() /
              cat("downhaul_emit_", getpid(), "_", counter_++, ".pte")) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  static inline int counter_ = 0;
  std::filesystem::path path_;
};

struct Written {
  EmittedProgram program;
  SizeReport size;
  PteFile file;
};

Result<Written> write_and_read(const Graph& graph, std::span<const DelegatedRegion> regions = {}) {
  Written out;
  DH_ASSIGN(out.program, emit_program(graph, regions));
  const TemporaryFile temporary;
  DH_ASSIGN(OutputFile file, OutputFile::create(temporary.path()));
  DH_ASSIGN(out.size, write_program(out.program, file));
  DH_TRY(file.commit());
  DH_ASSIGN(auto mapped, MappedFile::open(temporary.path()));
  DH_ASSIGN(out.file, read_pte(mapped));
  return out;
}

std::unique_ptr<Graph> parse(const std::string& body) {
  auto graph = parse_graph("graph test {\n" + body + "}\n", find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? *std::move(graph) : std::make_unique<Graph>();
}

/// Largest difference; NaN equals NaN.
double difference(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return INFINITY;
  double worst = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    worst = std::max(worst, std::isfinite(x - y) ? std::abs(x - y) : INFINITY);
  }
  return worst;
}

/// Emits, writes, reads and raises the graph; the result must compute what `meaning` does.
void expect_round_trip(const Graph& graph, const Graph& meaning) {
  Result<Written> written = write_and_read(graph);
  ASSERT_TRUE(written.ok()) << written.status().message();
  Result<RaisedProgram> raised = raise_program(written->file);
  ASSERT_TRUE(raised.ok()) << raised.status().message();
  uint64_t seed = 1;
  for (const Bindings& bindings : testing::sample_bindings(graph)) {
    const std::vector<Tensor> inputs = testing::random_inputs(graph, bindings, seed++);
    const auto expected = evaluate(meaning, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const auto found = evaluate(*raised->graph, inputs);
    ASSERT_TRUE(found.ok()) << found.status().message() << "\n" << print(*raised->graph);
    ASSERT_EQ(expected->size(), found->size());
    for (size_t i = 0; i < expected->size(); ++i)
      EXPECT_LE(difference((*expected)[i], (*found)[i]), 1e-5) << "output " << i << "\n"
                                                               << print(*raised->graph);
  }
}

void expect_round_trip(const Graph& graph) { expect_round_trip(graph, graph); }

TEST(Emit, EverySpellingSurvivesWritingAndRaising) {
  auto graphs = testing::read_graphs(DH_SOURCE_DIR "/tests/edge/kernels.dh");
  ASSERT_TRUE(graphs.ok()) << graphs.status().message();
  for (const auto& graph : *graphs) {
    SCOPED_TRACE(graph->name);
    expect_round_trip(*graph);
  }
}

TEST(Emit, LegalizedOperatorsSurviveWritingAndRaising) {
  auto graphs = testing::read_graphs(DH_SOURCE_DIR "/tests/edge/legalized.dh");
  ASSERT_TRUE(graphs.ok()) << graphs.status().message();
  for (const auto& graph : *graphs) {
    SCOPED_TRACE(graph->name);
    const auto legalized = graph->clone();
    const Status status = run_pipeline(*legalized, portable_passes(), {});
    ASSERT_TRUE(status.ok()) << status.message();
    expect_round_trip(*legalized, *graph);
  }
}

TEST(Emit, SizeReportSumsToTheFile) {
  const auto graph = parse(R"(
    input %x: f32[2,4]
    const %w: f32[5,4] = random 1
    const %b: f32[5] = random 2
    %y = linear(%x, %w, %b)
    return %y
  )");
  const auto written = write_and_read(*graph);
  ASSERT_TRUE(written.ok()) << written.status().message();
  uint64_t sum = 0;
  for (const SizeEntry& entry : written->size.entries) sum += entry.bytes;
  EXPECT_EQ(sum, written->size.file_size);
  EXPECT_EQ(sum, written->file.file->bytes().size());
  EXPECT_EQ(written->size.total(SizeEntry::Kind::kConstant), 5u * 4 * 4 + 5 * 4);
}

TEST(Emit, StaticViewsCostNoInstruction) {
  const auto graph = parse(R"(
    input %x: f32[2,6]
    const %c: f32[6] = random 1
    %r = reshape(%x, shape=[3,4])
    %k = reshape(%c, shape=[2,3])
    %a = sigmoid(%r)
    %b = reshape(%a, shape=[12])
    %d = tanh(%k)
    return %b, %r, %k, %x, %d, %b
  )");
  const auto program = emit_program(*graph, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(program->num_kernel_calls, 2);
  expect_round_trip(*graph);
}

TEST(Emit, StatesKeepTheirMemoryAndTheirUpdates) {
  const auto graph = parse(R"(
    input %x: f32[4]
    state %a: f32[4] = random 1
    state %b: f32[4] = random 2
    state %c: f32[2,2] = splat 3
    state %d: f32[4] = splat 5
    const %k: f32[4] = random 3
    %sum = add(%a, %x)
    %view = reshape(%a, shape=[2,2])
    %back = mul(%view, %c)
    update %a = %b
    update %b = %a
    update %c = %back
    update %d = %k
    return %sum, %a, %view, %d, %c
  )");
  ASSERT_FALSE(HasFailure());
  const auto written = write_and_read(*graph);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ(written->size.total(SizeEntry::Kind::kInitialContent), 4u * 16);
  const auto raised = raise_program(written->file);
  ASSERT_TRUE(raised.ok()) << raised.status().message();
  ASSERT_EQ(raised->graph->state_updates().size(), 4U);

  // States and what becomes of them, as outputs.
  const auto show_updates = [](const Graph& g) {
    auto shown = g.clone();
    for (const StateUpdate& update : shown->state_updates())
      shown->add_output(update.value, cat("next_", shown->outputs().size()));
    return shown;
  };
  const std::vector<Tensor> inputs = testing::random_inputs(*graph, {}, 1);
  const auto expected = evaluate(*show_updates(*graph), inputs);
  const auto found = evaluate(*show_updates(*raised->graph), inputs);
  ASSERT_TRUE(expected.ok() && found.ok());
  ASSERT_EQ(found->size(), 9U);
  for (size_t i = 0; i < expected->size(); ++i)
    EXPECT_EQ(difference((*expected)[i], (*found)[i]), 0) << i << print(*raised->graph);
}

TEST(Emit, EqualBytesAreWrittenOnceWhoeverOwnsThem) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::kF32, {2, 3}});
  const Tensor data = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  Builder b(graph, nullptr);
  Value* y = b.op(ops::kAdd, {x, graph.add_constant(data, "a")});
  y = b.op(ops::kMul,
           {y, graph.add_constant(Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6}), "b")});
  y = b.op(ops::kSub, {y, graph.add_constant(data, "c")});
  graph.add_output(y, "y");
  const auto written = write_and_read(graph);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ(written->size.total(SizeEntry::Kind::kConstant), 24u);
  expect_round_trip(graph);
}

TEST(Emit, ListsAllOperatorsWithoutKernelAndWhy) {
  const auto graph = parse(R"(
    input %x: f32[1,4,8,8]
    %a = hardswish(%x)
    %b = hardswish(%a)
    %c = avg_pool2d(%b, kernel=[2,2], stride=[2,2], padding=[0,0,1,1])
    return %c
  )");
  const auto program = emit_program(*graph, {});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(program.status().message(),
            "no kernel: avg_pool2d: the kernel pads both sides of an axis equally (%c); hardswish: "
            "the stock runtime has no kernel for it (2 nodes, first %a)");
}

TEST(Emit, TheSameGraphGivesTheSameProgram) {
  auto graphs = testing::read_graphs(DH_SOURCE_DIR "/tests/edge/kernels.dh");
  ASSERT_TRUE(graphs.ok());
  for (const auto& graph : *graphs) {
    const auto a = emit_program(*graph, {}), b = emit_program(*graph->clone(), {});
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->program, b->program);
  }
}

}  // namespace
}  // namespace downhaul
