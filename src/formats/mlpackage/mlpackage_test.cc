#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "formats/mlpackage/package.h"
#include "formats/test_files.h"

namespace downhaul::mil {
namespace {

Type tensor(DType dtype, std::vector<std::optional<int64_t>> shape) {
  Type t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  return t;
}

Value text(std::string s) {
  return {tensor(DType::kString, {}), std::vector<std::string>{std::move(s)}};
}

Operation constant(const std::string& name, Value value) {
  Operation o;
  o.type = "const";
  o.outputs = {{name, value.type}};
  o.attributes = {{"name", text(name)}, {"val", std::move(value)}};
  return o;
}

/// y = x + w, with w in the weight file.
Model sum_model(uint64_t offset) {
  const Type four = tensor(DType::kF16, {4});
  Operation add;
  add.type = "add";
  add.inputs = {{"x", {std::string("x")}}, {"y", {std::string("w")}}};
  add.outputs = {{"sum", four}};
  add.attributes = {{"name", text("sum")}};
  Function f;
  f.name = "main";
  f.opset = "CoreML6";
  f.inputs = {{"x", four}};
  f.block.operations = {constant("w", {four, BlobRef{std::string(kWeightFile), offset}}), add};
  f.block.outputs = {"sum"};
  Model model;
  model.specification_version = 7;
  model.inputs = {{"x", DType::kF16, {4}, {{4}, {8}}, {}, true}};
  model.outputs = {{"sum", DType::kF16, {4}, {}, {}, false}};
  model.user_defined = {{"a", "1"}, {"b", "2"}};
  model.program = {f};
  return model;
}

WeightWriter four_halves(uint64_t* offset) {
  WeightWriter weights;
  *offset = *weights.add(DType::kF16, 4, [](OutputFile& out) {
    const std::vector<uint8_t> bytes = {0, 0x3c, 0, 0x40, 0, 0x42, 0, 0x44};
    return out.write(bytes);
  });
  return weights;
}

struct Written {
  TestFolder folder;
  std::string path = folder.file("m.mlpackage");
  uint64_t offset = 0;
  Written() {
    const WeightWriter weights = four_halves(&offset);
    const Status status = write_mlpackage(path, sum_model(offset), weights);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  std::string model() const { return path + "/Data/com.apple.CoreML/model.mlmodel"; }
  std::string weights() const { return path + "/Data/com.apple.CoreML/weights/weight.bin"; }
  void rewrite(const Model& model_now) const {
    EXPECT_TRUE(write_file(model(), as_bytes(encode_model(model_now))).ok());
  }
  std::string refusal() const {
    const auto package = read_mlpackage(path);
    EXPECT_FALSE(package.ok());
    return package.status().message();
  }
};

TEST(MlPackage, WritesWhatItReads) {
  const Written w;
  const auto package = read_mlpackage(w.path);
  ASSERT_TRUE(package.ok()) << package.status().message();
  EXPECT_EQ(package->model.specification_version, 7);
  EXPECT_EQ(package->model.inputs[0].enumerated_shapes.size(), 2u);
  EXPECT_TRUE(package->model.inputs[0].optional);
  EXPECT_EQ(encode_model(package->model), encode_model(sum_model(w.offset)));
  const Value& val = *package->model.program[0].block.operations[0].attribute("val");
  const auto bytes = value_bytes(*package, val);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ((*bytes)[1], 0x3c);
  // The old package is replaced as a whole, and no temporary stays.
  uint64_t offset = 0;
  const WeightWriter weights = four_halves(&offset);
  ASSERT_TRUE(write_mlpackage(w.path, sum_model(offset), weights).ok());
  const std::filesystem::directory_iterator entries(w.folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(MlPackage, ImmediateValuesOfEveryTypeSurvive) {
  std::mt19937 random(1);
  for (const DType dtype :
       {DType::kBool, DType::kF16, DType::kF32, DType::kF64, DType::kI8, DType::kU8, DType::kI16,
        DType::kU16, DType::kI32, DType::kU32, DType::kI64, DType::kU64, DType::kI4, DType::kU4,
        DType::kU6, DType::kU1}) {
    for (const int64_t n : {0, 1, 7, 16}) {
      Value v{tensor(dtype, {n}), std::vector<uint8_t>(bytes_of(dtype, static_cast<uint64_t>(n)))};
      for (uint8_t& b : std::get<std::vector<uint8_t>>(v.content)) {
        b = static_cast<uint8_t>(dtype == DType::kBool ? random() & 1 : random() & 0x3f);
      }
      Model model = sum_model(64);
      model.program[0].block.operations[0] = constant("w", v);
      const auto read = decode_model(as_bytes(encode_model(model)));
      ASSERT_TRUE(read.ok()) << read.status().message();
      EXPECT_EQ(*read->program[0].block.operations[0].attribute("val"), v) << dtype_name(dtype);
    }
  }
}

TEST(MlPackage, BrokenBlobsAreRefused) {
  const struct {
    size_t at;
    uint8_t value;
    const char* word;
  } kCases[] = {{64, 0, "0xDEADBEEF"},  {68, 99, "unknown element type"}, {68, 2, "declared"},
                {72, 7, "has 7 bytes"}, {72 + 7, 1, "outside"},           {80, 129, "multiple"},
                {80 + 7, 1, "outside"}, {4, 3, "storage version 3"}};
  for (const auto& c : kCases) {
    const Written w;
    std::string bytes = *read_text_file(w.weights());
    bytes[c.at] = static_cast<char>(c.value);
    ASSERT_TRUE(write_file(w.weights(), as_bytes(bytes)).ok());
    EXPECT_NE(w.refusal().find(c.word), std::string::npos) << w.refusal();
  }
  const Written w;
  ASSERT_TRUE(write_file(w.weights(), as_bytes("short")).ok());
  EXPECT_NE(w.refusal().find("header"), std::string::npos);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{65}, uint64_t{1} << 40, ~uint64_t{63}}) {
    w.rewrite(sum_model(offset));
    EXPECT_FALSE(read_mlpackage(w.path).ok());
  }
}

TEST(MlPackage, ItemsStayInside) {
  for (const char* path : {"../../etc/passwd", "/etc/passwd", "com.apple.CoreML/../../../x", ""}) {
    const Written w;
    std::string manifest = *read_text_file(w.path + "/Manifest.json");
    const std::string model = "com.apple.CoreML/model.mlmodel";
    manifest.replace(manifest.find(model), model.size(), path);
    ASSERT_TRUE(write_file(w.path + "/Manifest.json", as_bytes(manifest)).ok());
    EXPECT_NE(w.refusal().find("leaves the package"), std::string::npos) << w.refusal();
  }
  const Written w;
  const std::string outside = w.folder.write("outside", "x");
  std::filesystem::remove(w.model());
  std::filesystem::create_symlink(outside, w.model());
  EXPECT_NE(w.refusal().find("link"), std::string::npos) << w.refusal();
  std::filesystem::remove(w.model());
  EXPECT_NE(w.refusal().find("does not exist"), std::string::npos) << w.refusal();
}

TEST(MlPackage, ProgramsThatNameWhatIsNotThereAreRefused) {
  const Written w;
  Model model = sum_model(w.offset);
  model.program[0].block.operations[1].inputs[0].bindings = {std::string("nobody")};
  w.rewrite(model);
  EXPECT_NE(w.refusal().find("'nobody' is not defined"), std::string::npos) << w.refusal();
  model = sum_model(w.offset);
  std::swap(model.program[0].block.operations[0], model.program[0].block.operations[1]);
  w.rewrite(model);
  EXPECT_NE(w.refusal().find("before its use"), std::string::npos) << w.refusal();
  model = sum_model(w.offset);
  model.program[0].block.operations[1].outputs[0].name = "x";
  w.rewrite(model);
  EXPECT_NE(w.refusal().find("twice"), std::string::npos) << w.refusal();
  model = sum_model(w.offset);
  model.program[0].block.outputs = {"nothing"};
  w.rewrite(model);
  EXPECT_NE(w.refusal().find("'nothing' is not defined"), std::string::npos) << w.refusal();
  model.program.clear();
  w.rewrite(model);
  EXPECT_FALSE(read_mlpackage(w.path).ok());
  ASSERT_TRUE(write_file(w.model(), as_bytes("no message")).ok());
  EXPECT_FALSE(read_mlpackage(w.path).ok());
}

TEST(MlPackage, DeepNestingEndsInAnError) {
  Block inner;
  for (int i = 0; i < 2000; ++i) {
    Operation o;
    o.type = "cond";
    o.blocks = {std::move(inner)};
    inner = {};
    inner.operations = {std::move(o)};
  }
  Model model = sum_model(64);
  model.program[0].block = std::move(inner);
  EXPECT_FALSE(decode_model(as_bytes(encode_model(model))).ok());
}

TEST(MlPackage, TruncationsNeverCrash) {
  const std::string whole = encode_model(sum_model(64));
  for (size_t n = 0; n < whole.size(); ++n) {
    (void)decode_model(as_bytes(whole.substr(0, n)));
  }
}

}  // namespace
}  // namespace downhaul::mil
