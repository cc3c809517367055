// Forms that today's exporters no longer write but that files in the wild have. They are built with
// the generated code, since our writer has no way to write them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/strings.h"
#include "formats/pte/pte.h"
#include "program_generated.h"

namespace downhaul {
namespace {

namespace fb = fb_pte;
using Builder = flatbuffers::FlatBufferBuilder;

// What one test changes in the smallest program: one plan with one constant tensor and one
// delegate.
struct Form {
  uint32_t version = 0;
  uint32_t data_index = 1;
  fb::PayloadLocation location = fb::PayloadLocation::Inline;
  uint32_t payload = 0;
};

flatbuffers::Offset<fb::Plan> build_plan(Builder& b, const Form& form) {
  const auto sizes = b.CreateVector(std::vector<int32_t>{4});
  const auto dim_order = b.CreateVector(std::vector<uint8_t>{0});
  fb::TensorBuilder tensor(b);
  tensor.add_scalar_type(static_cast<int8_t>(pte::ScalarType::kByte));
  tensor.add_sizes(sizes);
  tensor.add_dim_order(dim_order);
  tensor.add_data_buffer_idx(form.data_index);
  const auto value = fb::CreateValue(b, fb::Kind::Tensor, tensor.Finish().Union());
  const auto values = b.CreateVector(std::vector{value});
  const auto no_instructions = b.CreateVector(std::vector<flatbuffers::Offset<fb::Instruction>>{});
  const auto chain = fb::CreateChain(b, 0, 0, no_instructions);
  const auto chains = b.CreateVector(std::vector{chain});
  const auto id = b.CreateString("SomeBackend");
  const auto processed = fb::CreatePayloadReference(b, form.location, form.payload);
  const auto delegate = fb::CreateDelegate(b, id, processed);
  const auto delegates = b.CreateVector(std::vector{delegate});
  const auto buffers = b.CreateVector(std::vector<int64_t>{0});
  const auto name = b.CreateString("forward");
  fb::PlanBuilder plan(b);
  plan.add_name(name);
  plan.add_values(values);
  plan.add_chains(chains);
  plan.add_delegates(delegates);
  plan.add_non_const_buffer_sizes(buffers);
  return plan.Finish();
}

Result<PteFile> read_form(const Form& form) {
  Builder b;
  const auto plan = build_plan(b, form);
  const auto plans = b.CreateVector(std::vector{plan});
  std::vector<flatbuffers::Offset<fb::InlineConstant>> constants;
  for (const std::vector<uint8_t>& bytes : {std::vector<uint8_t>{}, {1, 2, 3, 4}}) {
    b.ForceVectorAlignment(bytes.size(), 1, 16);
    constants.push_back(fb::CreateInlineConstant(b, b.CreateVector(bytes)));
  }
  const auto constant_vector = b.CreateVector(constants);
  b.ForceVectorAlignment(3, 1, 16);
  const auto payload = fb::CreateInlinePayload(b, b.CreateVector(std::vector<uint8_t>{7, 8, 9}));
  const auto payloads = b.CreateVector(std::vector{payload});
  fb::ProgramBuilder program(b);
  program.add_version(form.version);
  program.add_execution_plan(plans);
  program.add_constant_buffer(constant_vector);
  program.add_backend_delegate_data(payloads);
  b.Finish(program.Finish(), fb::ProgramIdentifier());

  const std::string path = cat(::testing::TempDir(), "/old_form-", ::getpid(), ".pte");
  DH_TRY(write_file(path, {b.GetBufferPointer(), b.GetSize()}));
  DH_ASSIGN(auto file, MappedFile::open(path));
  ::unlink(path.c_str());
  return read_pte(file);
}

TEST(PteOldForms, InlineConstantsAndPayloadsAreRead) {
  auto file = read_form({});
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->header_length, 0u);
  EXPECT_TRUE(file->inline_constants);
  const pte::Plan& plan = file->program.plans[0];
  const auto range = file->data_range(std::get<pte::Tensor>(plan.values[0]));
  ASSERT_TRUE(range.has_value());
  EXPECT_TRUE(std::ranges::equal(file->bytes(*range), std::vector<uint8_t>{1, 2, 3, 4}));
  EXPECT_TRUE(std::ranges::equal(file->payload(plan.delegates[0]), std::vector<uint8_t>{7, 8, 9}));
  ASSERT_EQ(file->parts.size(), 2u);
  EXPECT_EQ(file->parts[0].range.size + file->parts[1].range.size, file->file->bytes().size());
}

TEST(PteOldForms, IndicesOutsideAreRefused) {
  EXPECT_NE(read_form({.data_index = 2}).status().message().find("constant 2, but the file has 1"),
            std::string::npos);
  EXPECT_NE(read_form({.payload = 1})
                .status()
                .message()
                .find("delegate 0: inline payload 1, but the file has 1"),
            std::string::npos);
  EXPECT_NE(read_form({.location = fb::PayloadLocation::Segment})
                .status()
                .message()
                .find("delegate 0: segment 0, but the file has 0"),
            std::string::npos);
}

TEST(PteOldForms, ANewerSchemaIsRefusedWithBothVersions) {
  const Status status = read_form({.version = 1}).status();
  EXPECT_EQ(status.kind(), ErrorKind::kInvalidFile);
  EXPECT_NE(status.message().find("schema version 1, this reader knows version 0"),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace downhaul
