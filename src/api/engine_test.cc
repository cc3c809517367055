// What programs see: signatures, runs, errors as values, several sessions in several threads.
#include "api/engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "ir/text.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "report/artifact.h"
#include "targets/portable/portable.h"

namespace downhaul::api {
namespace {

using Floats = std::vector<float>;

/// A .pte of the portable target, removed at the end.
class PteFromText {
 public:
  explicit PteFromText(const std::string& body)
      : path_(std::filesystem::temp_directory_path() /
              ("downhaul_api_test_" + std::to_string(::getpid()) + "_" +
               std::to_string(counter_++) + ".pte")) {
    auto graph = parse_graph("graph test {\n" + body + "}\n", find_op);
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    if (graph.ok()) write(**graph);
  }
  ~PteFromText() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  void write(Graph& graph) {
    const auto passes = run_pipeline(graph, canonical_passes(), {});
    ASSERT_TRUE(passes.ok()) << passes.message();
    const auto lowered = lower_portable(graph);
    ASSERT_TRUE(lowered.ok()) << lowered.status().message();
    auto out = OutputFile::create(path());
    ASSERT_TRUE(out.ok());
    ASSERT_TRUE(write_program(lowered->program, *out).ok());
    ASSERT_TRUE(out->commit().ok());
  }
  static inline int counter_ = 0;
  std::filesystem::path path_;
};

constexpr const char* kTwoInputs = R"(
  input %a: f32[2,3]
  input %b: f32[2,3]
  const %w: f32[2,3] = [1, 0, 0, 0, 1, 1]
  %s = sub(%a, %b)
  %y = linear(%s, %w)
  %z = clamp(%s, min=0)
  return %y as "y", %z as "z"
)";

constexpr const char* kTable = R"(
  input %i: i64[2]
  const %t: f32[3,2] = [1, 2, 3, 4, 5, 6]
  %y = embedding(%t, %i)
  return %y as "y"
)";

/// The model in samples/, with its own inputs and torch's outputs.
struct Sample {
  static std::string folder() { return std::string(DH_SOURCE_DIR) + "/samples/distilbert/"; }
  Sample() {
    auto loaded = Model::load(folder() + "model.pt2");
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    if (loaded.ok()) model.emplace(*std::move(loaded));
    auto read = read_tensors(folder() + "inputs.safetensors");
    EXPECT_TRUE(read.ok());
    for (const auto& [name, tensor] : *read) {
      inputs.push_back({.name = name,
                        .data = tensor.bytes().data(),
                        .dtype = static_cast<DType>(tensor.dtype()),
                        .sizes = tensor.sizes()});
    }
    tensors = *std::move(read);
    expected = (*read_tensors(folder() + "expected.safetensors"))[0].second;
  }
  /// Element bytes of the one output, or empty.
  Floats run(Session& session) const {
    Floats y(static_cast<size_t>(expected.num_elements()), NAN);
    const Output out[] = {{.data = y.data(), .bytes = y.size() * sizeof(float)}};
    const Status status = session.run(inputs, out);
    EXPECT_TRUE(status.ok()) << status.message();
    return y;
  }
  std::optional<Model> model;
  NamedTensors tensors;
  std::vector<Input> inputs;
  Tensor expected;
};

Session new_session(const Model& model, int threads = 1) {
  auto session = model.new_session({.num_threads = threads});
  EXPECT_TRUE(session.ok()) << session.status().message();
  return *std::move(session);
}

TEST(ApiTest, TellsTheSignature) {
  const Sample sample;
  ASSERT_TRUE(sample.model.has_value());
  const auto& inputs = sample.model->inputs();
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[0].name, "input_ids");
  EXPECT_EQ(inputs[1].name, "attention_mask");
  EXPECT_EQ(inputs[0].dtype, DType::kI64);
  ASSERT_EQ(inputs[0].shape.size(), 2u);
  EXPECT_TRUE(inputs[0].shape[1].is_fixed());
  EXPECT_EQ(inputs[0].shape[1].max, 64);
  EXPECT_EQ(inputs[0].shape[1].text, "64");
  ASSERT_EQ(sample.model->outputs().size(), 1u);
  EXPECT_EQ(sample.model->outputs()[0].name, "logits");
  EXPECT_EQ(sample.model->outputs()[0].dtype, DType::kF32);
}

TEST(ApiTest, AgreesWithTorch) {
  const Sample sample;
  ASSERT_TRUE(sample.model.has_value());
  Session session = new_session(*sample.model, 2);
  const Floats y = sample.run(session);
  ASSERT_EQ(session.output_sizes(0).size(), static_cast<size_t>(sample.expected.rank()));
  for (size_t i = 0; i < y.size(); ++i) {
    // Sums of a few hundred products in f32, logits of about 10.
    ASSERT_NEAR(y[i], sample.expected.at(static_cast<int64_t>(i)), 1e-4) << i;
  }
}

TEST(ApiTest, SessionsInThreadsGiveTheSameBits) {
  const Sample sample;
  ASSERT_TRUE(sample.model.has_value());
  Session alone = new_session(*sample.model);
  const Floats want = sample.run(alone);
  constexpr int kCallers = 4;
  std::vector<Floats> got(kCallers);
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      Session session = new_session(*sample.model, 1 + c % 3);
      for (int round = 0; round < 3; ++round) got[static_cast<size_t>(c)] = sample.run(session);
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const Floats& y : got) {
    ASSERT_EQ(y.size(), want.size());
    EXPECT_EQ(std::memcmp(y.data(), want.data(), want.size() * sizeof(float)), 0);
  }
}

TEST(ApiTest, ThreadsMayLoadAndPackAtOnce) {
  // Several first sessions: whoever comes first packs the weights.
  const Sample sample;
  ASSERT_TRUE(sample.model.has_value());
  std::vector<Floats> got(3);
  std::vector<std::thread> callers;
  for (Floats& y : got) {
    callers.emplace_back([&] {
      Session session = new_session(*sample.model);
      y = sample.run(session);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[0], got[2]);
}

TEST(ApiTest, SessionOutlivesTheModelHandle) {
  const PteFromText file(kTable);
  std::optional<Session> session;
  {
    const auto model = Model::load(file.path());
    ASSERT_TRUE(model.ok()) << model.status().message();
    session.emplace(new_session(*model));
  }
  const int64_t rows[] = {2, 0};
  const int64_t sizes[] = {2};
  Floats y(4);
  const Input in[] = {{.data = rows, .dtype = DType::kI64, .sizes = sizes}};
  const Output out[] = {{.data = y.data(), .bytes = 16}};
  ASSERT_TRUE(session->run(in, out).ok());
  EXPECT_EQ(y, (Floats{5, 6, 1, 2}));
}

class TwoInputs : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = Model::load(file_.path());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_.emplace(*std::move(loaded));
    session_.emplace(new_session(*model_));
    names_ = {model_->inputs()[0].name, model_->inputs()[1].name};
    in_ = {{.data = a_.data(), .dtype = DType::kF32, .sizes = sizes_},
           {.data = b_.data(), .dtype = DType::kF32, .sizes = sizes_}};
    out_ = {{.data = y_.data(), .bytes = y_.size() * 4},
            {.data = z_.data(), .bytes = z_.size() * 4}};
  }
  /// The run fails as an argument of the caller, and the message has `part` in it.
  void expect_error(std::string_view part) {
    const Status status = session_->run(in_, out_);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
  void expect_right() {
    y_.assign(4, NAN);
    const Status status = session_->run(in_, out_);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(y_, (Floats{0, 3, 3, 9}));
    EXPECT_EQ(z_, (Floats{0, 1, 2, 3, 4, 5}));
  }

  const PteFromText file_{kTwoInputs};
  std::optional<Model> model_;
  std::optional<Session> session_;
  std::vector<std::string> names_;
  const std::vector<int64_t> sizes_ = {2, 3};
  Floats a_ = {1, 2, 3, 4, 5, 6}, b_ = {1, 1, 1, 1, 1, 1};
  Floats y_ = Floats(4), z_ = Floats(6);
  std::vector<Input> in_;
  std::vector<Output> out_;
};

TEST_F(TwoInputs, ByPositionAndByNameInAnyOrder) {
  expect_right();
  in_[0].name = names_[0];
  in_[1].name = names_[1];
  std::swap(in_[0], in_[1]);
  out_[0].name = "y";
  out_[1].name = "z";
  std::swap(out_[0], out_[1]);
  expect_right();
  EXPECT_EQ(session_->output_sizes(0).size(), 2u);
  EXPECT_EQ(session_->output_sizes(0)[1], 2);
  EXPECT_TRUE(session_->output_sizes(2).empty());
}

TEST_F(TwoInputs, WrongNumbersAndNamesAreErrors) {
  in_.pop_back();
  expect_error("expected 2 inputs, found 1");
  SetUp();
  in_[1].name = "c";
  expect_error("no input 'c'");
  in_[1].name = names_[0];
  expect_error("is given twice");
  SetUp();
  out_[0].name = "x";
  expect_error("no output 'x'");
  SetUp();
  out_.pop_back();
  expect_error("expected 2 outputs, found 1");
  SetUp();
  expect_right();
}

TEST_F(TwoInputs, WrongTypesAndSizesAreErrors) {
  in_[0].dtype = DType::kI32;
  expect_error("expected f32, found i32");
  in_[0].dtype = static_cast<DType>(99);
  expect_error("found type 99");
  SetUp();
  const std::vector<int64_t> other = {3, 2}, flat = {6}, negative = {-2, -3};
  for (const auto& wrong : {other, flat, negative}) {
    in_[1].sizes = wrong;
    expect_error("expected f32[2,3]");
  }
  in_[1].sizes = sizes_;
  expect_right();  // the session goes on after errors
}

TEST_F(TwoInputs, MemoryThatDoesNotFitIsAnError) {
  in_[0].data = nullptr;
  expect_error("data is null");
  in_[0].data = reinterpret_cast<const char*>(a_.data()) + 1;
  expect_error("is not aligned to its 4-byte elements");
  in_[0].data = a_.data();
  out_[1].bytes = 23;
  expect_error("expected room for 24 bytes, found 23");
  out_[1].bytes = 24;
  out_[1].data = nullptr;
  expect_error("output 'z'");
  out_[1].data = z_.data();
  expect_right();
}

TEST_F(TwoInputs, ReshapeLooksAtSizesOnly) {
  EXPECT_TRUE(session_->output_sizes(0).empty());
  in_[0].data = in_[1].data = nullptr;
  ASSERT_TRUE(session_->reshape(in_).ok());
  EXPECT_EQ(session_->output_sizes(1)[1], 3);
  const std::vector<int64_t> other = {3, 2};
  in_[0].sizes = other;
  EXPECT_EQ(session_->reshape(in_).code(), Code::kInvalidArgument);
  EXPECT_TRUE(session_->output_sizes(0).empty());
}

TEST_F(TwoInputs, KeepsOnlyTheOutputsAskedFor) {
  const auto model = Model::load(file_.path(), {.keep_outputs = {"z"}});
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ(model->outputs().size(), 1u);
  EXPECT_EQ(model->outputs()[0].name, "z");
  EXPECT_EQ(Model::load(file_.path(), {.keep_outputs = {"q"}}).status().code(),
            Code::kInvalidArgument);
}

TEST(ApiTest, IndexOutsideItsTableIsAnError) {
  const PteFromText file(kTable);
  const auto model = Model::load(file.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  Session session = new_session(*model);
  int64_t rows[] = {1, 3};
  const int64_t sizes[] = {2};
  Floats y(4);
  const Input in[] = {{.data = rows, .dtype = DType::kI64, .sizes = sizes}};
  const Output out[] = {{.data = y.data(), .bytes = 16}};
  EXPECT_EQ(session.run(in, out).code(), Code::kInvalidArgument);
  rows[1] = 2;
  ASSERT_TRUE(session.run(in, out).ok());
  EXPECT_EQ(y, (Floats{3, 4, 5, 6}));
}

TEST(ApiTest, FilesThatAreNoModelsAreErrors) {
  EXPECT_EQ(Model::load("/nonexistent/model.pte").status().code(), Code::kNotFound);
  const auto text = Model::load(Sample::folder() + "README.md");
  EXPECT_EQ(text.status().code(), Code::kInvalidFile);
  EXPECT_NE(text.status().message().find("README.md"), std::string::npos);
  EXPECT_FALSE(text.ok());
}

TEST(ApiTest, NumberOfThreadsHasBounds) {
  const PteFromText file(kTable);
  const auto model = Model::load(file.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  for (const int wrong : {0, -1, 1025}) {
    EXPECT_EQ(model->new_session({.num_threads = wrong}).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(new_session(*model, 3).num_threads(), 3);
}

TEST(ApiTest, NamesItself) {
  EXPECT_FALSE(version().empty());
  EXPECT_FALSE(instruction_set().empty());
  EXPECT_EQ(name(DType::kBF16), "bf16");
  EXPECT_EQ(item_size(DType::kI64), 8u);
  EXPECT_EQ(item_size(static_cast<DType>(-1)), 0u);
}

}  // namespace
}  // namespace downhaul::api
