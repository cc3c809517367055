#include "passes/plan/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "dialects/edge/call.h"
#include "ops/evaluate.h"
#include "targets/executorch/emit.h"
#include "tests/tools/random_graph.h"

namespace downhaul {
namespace {

TEST(Plan, BlocksThatAreNeverAliveTogetherShareBytes) {
  const std::vector<PlanBlock> blocks = {{100, -1, 0}, {50, 0, 1}, {100, 1, 2}, {16, 2, 2}};
  const MemoryPlan plan = plan_memory(blocks);
  EXPECT_TRUE(check_plan(blocks, plan).ok());
  EXPECT_EQ(plan.arena_bytes, 112u + 64);
  EXPECT_EQ(plan.arena_bytes, live_bytes(blocks));
}

TEST(Plan, CheckerFindsOverlapMisalignmentAndOverrun) {
  const std::vector<PlanBlock> blocks = {{32, 0, 2}, {32, 2, 3}};
  EXPECT_TRUE(check_plan(blocks, {{0, 32}, 64}).ok());
  EXPECT_EQ(check_plan(blocks, {{0, 16}, 64}).message(),
            "blocks 0 (instructions 0 to 2, bytes 0 to 32) and 1 (instructions 2 to 3, bytes 16 to "
            "48) are alive together and overlap");
  EXPECT_EQ(check_plan(blocks, {{0, 40}, 72}).message(), "block 1 lies at 40, no multiple of 16");
  EXPECT_EQ(check_plan(blocks, {{0, 32}, 48}).message(),
            "block 1 ends at 64, outside the arena of 48 bytes");
  EXPECT_TRUE(check_plan({{32, 0, 1}, {32, 2, 3}}, {{0, 16}, 64}).ok());
}

TEST(Plan, RandomBlocksNeverOverlap) {
  testing::Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<PlanBlock> blocks;
    const int64_t instructions = 1 + random.below(60);
    for (int64_t i = random.below(80); i >= 0; --i) {
      const int64_t first = random.below(instructions);
      blocks.push_back({static_cast<uint64_t>(random.below(5000)), static_cast<int>(first),
                        static_cast<int>(first + random.below(instructions - first))});
    }
    const MemoryPlan plan = plan_memory(blocks);
    const Status status = check_plan(blocks, plan);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_GE(plan.arena_bytes, live_bytes(blocks));
    EXPECT_LE(plan.arena_bytes, live_bytes(blocks) * 3 / 2 + 64);
  }
}

/// Runs the program's instructions on one arena laid out as planned.
class ArenaRun {
 public:
  explicit ArenaRun(const EmittedProgram& program)
      : program_(program), arena_(program.plan.arena_bytes, 0xcd) {}

  std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
    const pte::Plan& plan = program_.program.plans[0];
    for (const Value* v : graph.constants()) constants_[v] = v->constant();
    for (size_t i = 0; i < inputs.size(); ++i) write(plan.inputs[i], inputs[i]);
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      const auto& call = std::get<pte::KernelCall>(plan.chains[0].instructions[i]);
      const Node& node = *program_.calls[i].node;
      const auto described = edge::emit_call(node);
      std::map<const Value*, Tensor> known;
      const auto load = [&](const Value* v, int32_t id) { known[v] = read(*v, id); };
      for (size_t a = 0; a < described->args.size(); ++a) {
        if (const auto* v = std::get_if<Value*>(&described->args[a])) load(*v, call.args[a]);
        if (const auto* list = std::get_if<edge::TensorList>(&described->args[a])) {
          const auto& ids =
              std::get<pte::TensorList>(plan.values[static_cast<size_t>(call.args[a])]);
          for (size_t m = 0; m < list->values.size(); ++m) load(list->values[m], ids.items[m]);
        }
      }
      std::vector<const Tensor*> operands;
      for (const Value* v : node.operands()) operands.push_back(v == nullptr ? nullptr : &known[v]);
      const auto results = evaluate_node(node, operands);
      EXPECT_TRUE(results.ok());
      write(call.args[described->args.size()], (*results)[0]);
    }
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < plan.outputs.size(); ++i)
      outputs.push_back(read(*graph.outputs()[i].value, plan.outputs[i]));
    return outputs;
  }

 private:
  const pte::Tensor& tensor(int32_t id) const {
    return std::get<pte::Tensor>(program_.program.plans[0].values[static_cast<size_t>(id)]);
  }
  void write(int32_t id, const Tensor& data) {
    std::memcpy(arena_.data() + tensor(id).allocation->offset, data.bytes().data(),
                data.num_bytes());
  }
  Tensor read(const Value& v, int32_t id) {
    const Sizes sizes = static_sizes(v.shape());
    if (!tensor(id).allocation.has_value()) {
      const Value* root = &v;
      while (!root->is_constant()) root = root->producer()->operand(0);
      return constants_.at(root).reshaped(sizes);
    }
    Tensor out(v.dtype(), sizes);
    std::memcpy(out.mutable_data<uint8_t>(), arena_.data() + tensor(id).allocation->offset,
                out.num_bytes());
    return out;
  }

  const EmittedProgram& program_;
  std::vector<uint8_t> arena_;
  std::map<const Value*, Tensor> constants_;
};

TEST(Plan, RandomGraphsComputeTheSameInSharedAndInSeparateBuffers) {
  uint64_t shared = 0, separate = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const auto graph = testing::random_graph(seed);
    const auto program = emit_program(*graph, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const Status status = check_plan(program->blocks, program->plan);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto inputs = testing::random_inputs(*graph, {}, seed);
    const auto expected = evaluate(*graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const auto found = ArenaRun(*program).run(*graph, inputs);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(same_bytes((*expected)[i], found[i]));
    shared += program->plan.arena_bytes;
    for (const PlanBlock& block : program->blocks) separate += block.bytes;
  }
  EXPECT_LT(shared, separate * 2 / 3);
}

}  // namespace
}  // namespace downhaul
