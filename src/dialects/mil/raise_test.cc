#include "dialects/mil/raise.h"

#include <gtest/gtest.h>

#include <cstring>

namespace downhaul::coreml {
namespace {

mil::Type type(mil::DType dtype, std::vector<std::optional<int64_t>> shape) {
  mil::Type t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  return t;
}

mil::Operation constant(const std::string& name, const std::vector<int32_t>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(int32_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  mil::Operation o;
  o.type = "const";
  mil::Value value{type(mil::DType::kI32, {static_cast<int64_t>(values.size())}), bytes};
  o.outputs = {{name, value.type}};
  o.attributes = {{"val", std::move(value)}};
  return o;
}

/// main(x: fp32[2,3]) { ... }
mil::Package package(std::vector<mil::Operation> operations, const std::string& output) {
  mil::Function f;
  f.name = "main";
  f.opset = "CoreML5";
  f.inputs = {{"x", type(mil::DType::kF32, {2, 3})}};
  f.block.operations = std::move(operations);
  f.block.outputs = {output};
  mil::Package out;
  out.model.program = {f};
  return out;
}

TEST(RaiseProgram, RefusesShapesBeyondAllTensors) {
  mil::Operation reshape;
  reshape.type = "reshape";
  reshape.inputs = {{"shape", {std::string("s")}}, {"x", {std::string("x")}}};
  reshape.outputs = {{"y", type(mil::DType::kF32, {6})}};
  const auto graph =
      raise_program(package({constant("s", {65536, 65536, 65536, 65536, -1}), reshape}, "y"));
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.status().message().find("shape"), std::string::npos) << graph.status().message();
}

TEST(RaiseProgram, DoesNotSeeIntoNestedBlocks) {
  mil::Operation outer = constant("c", {1});
  outer.blocks.emplace_back();
  outer.blocks[0].operations = {constant("inner", {1})};
  const mil::Package with_block = package({outer}, "inner");
  const auto graph = raise_program(with_block);
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.status().message().find("'inner' is not defined"), std::string::npos);
}

}  // namespace
}  // namespace downhaul::coreml
