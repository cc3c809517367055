#include "dialects/mil/emit.h"

#include <gtest/gtest.h>

#include <set>

#include "base/strings.h"
#include "formats/mlpackage/package.h"
#include "ir/text.h"
#include "ops/ops.h"

namespace downhaul::coreml {
namespace {

EmittedProgram emitted(std::string_view text, const EmitOptions& options) {
  auto graph = parse_graph(text, find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  auto program = emit_program(**graph, options);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return *std::move(program);
}

/// Names are defined once and before they are read, and outputs exist.
void check_names(const EmittedProgram& program) {
  std::set<std::string> defined;
  for (const auto& input : program.model.program[0].inputs) defined.insert(input.name);
  for (const mil::Operation& o : program.model.program[0].block.operations) {
    for (const mil::Argument& a : o.inputs) {
      for (const mil::Binding& b : a.bindings) {
        EXPECT_TRUE(defined.contains(std::get<std::string>(b))) << std::get<std::string>(b);
      }
    }
    for (const mil::NamedType& out : o.outputs) EXPECT_TRUE(defined.insert(out.name).second);
  }
  for (const std::string& name : program.model.program[0].block.outputs) {
    EXPECT_TRUE(defined.contains(name)) << name;
  }
}

TEST(EmitProgram, NamesViewsOfAnOutputLikeIt) {
  EmitOptions options;
  options.half = false;  // no casts at the border
  const auto program = emitted(R"(graph f {
  input %x: f32[2,3]
  %y = neg(%x)
  %z = clamp(%y)
  %u = tanh(%z)
  return %y as "first", %z as "second", %u as "third", %x as "fourth"
})",
                               options);
  check_names(program);
  EXPECT_EQ(program.model.outputs.size(), 4u);
}

TEST(EmitProgram, GivesACompressedConstantAsItIs) {
  EmitOptions options;
  options.target.ios = 16;
  options.compression = Compression::kPalette4;
  const auto program = emitted(R"(graph f {
  input %x: f32[64,64]
  const %w: f32[64,64] = random 1
  %y = add(%x, %w)
  return %y as "sum", %w as "weights"
})",
                               options);
  check_names(program);
  for (const mil::Operation& o : program.model.program[0].block.operations) {
    if (o.type != "constexpr_lut_to_dense") continue;
    EXPECT_NE(o.attribute("lut"), nullptr);
  }
}

TEST(EmitProgram, CompressesMatricesOnly) {
  EmitOptions options;
  options.target.ios = 16;
  options.compression = Compression::kInt8;
  const auto program = emitted(R"(graph f {
  input %x: f32[1,4096,1,2]
  const %w: f32[1,4096,1,1] = random 1
  %y = mul(%x, %w)
  return %y
})",
                               options);
  EXPECT_TRUE(program.compressed.empty());
}

TEST(EmitProgram, KeepsConstantsOfNormsApart) {
  EmitOptions options;
  options.primitive_norms = true;
  const auto program = emitted(R"(graph f {
  input %x: f32[1,4,1,3]
  const %w: f32[4] = [1, 2, 3, 4]
  const %a: f32[4] = [1, 1, 1, 1]
  const %b: f32[4] = [2, 2, 2, 2]
  const %c: f32[4] = [3, 3, 3, 3]
  %p = channel_norm(%x, %w, %a)
  %q = channel_norm(%p, %w, %b)
  %y = channel_norm(%q, %w, %c)
  return %y
})",
                               options);
  check_names(program);
  std::set<std::vector<uint8_t>> quotients;
  for (const mil::Operation& o : program.model.program[0].block.operations) {
    if (o.type == "const" && o.outputs[0].name.find("over_weight") != std::string::npos) {
      quotients.insert(std::get<std::vector<uint8_t>>(o.attribute("val")->content));
    }
  }
  EXPECT_EQ(quotients.size(), 3u);
}

}  // namespace
}  // namespace downhaul::coreml
