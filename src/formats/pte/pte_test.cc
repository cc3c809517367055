#include "formats/pte/pte.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "base/strings.h"
#include "formats/pte/example_programs.h"
#include "formats/pte/pte_writer.h"

namespace downhaul {
namespace {

using examples::Example;

struct Written {
  PteLayout layout;
  std::vector<uint8_t> bytes;
  PteFile file;
};

std::string scratch(const std::string& name) {
  return cat(::testing::TempDir(), "/pte_test-", ::getpid(), "-", name);
}

// Reads `bytes` as a file of that name; the mapping outlives the name.
Result<PteFile> read_bytes(const std::vector<uint8_t>& bytes, const std::string& name = "x.pte") {
  const std::string path = scratch(name);
  DH_TRY(write_file(path, bytes));
  auto file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  auto read = read_pte(*file);
  ::unlink(path.c_str());
  return read;
}

Result<Written> write_and_read(const PteBuilder& builder, const pte::Program& program) {
  const std::string path = scratch("w.pte");
  DH_ASSIGN(OutputFile out, OutputFile::create(path));
  DH_ASSIGN(PteLayout layout, builder.write(program, out));
  DH_TRY(out.commit());
  DH_ASSIGN(auto mapped, MappedFile::open(path));
  ::unlink(path.c_str());
  Written w;
  w.layout = std::move(layout);
  w.bytes.assign(mapped->bytes().begin(), mapped->bytes().end());
  DH_ASSIGN(w.file, read_pte(mapped));
  return w;
}

uint64_t check_parts(const std::vector<PtePart>& parts) {
  uint64_t end = 0;
  for (const PtePart& p : parts) {
    EXPECT_EQ(p.range.offset, end);
    EXPECT_GT(p.range.size, 0u);
    end += p.range.size;
  }
  return end;
}

// ---- random programs ----

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {}

  Example make() {
    Example e{.name = "random", .program = {}, .builder = {}};
    for (uint32_t i = 0; i < pick(5); ++i) constant_sizes_.push_back(add_constant(e.builder));
    for (uint32_t i = 0; i < pick(3); ++i) {
      initial_sizes_.push_back(16 * (i + 1));
      e.builder.add_initial_content(random_blob(16 * (i + 1)));
    }
    for (uint32_t i = 0; i < pick(3); ++i)
      num_payloads_ = e.builder.add_payload(random_blob(40)) + 1;
    for (uint32_t i = 0; i < pick(4); ++i) {
      e.builder.add_named_data(cat("key", i), random_blob(pick(60)));
    }
    const uint32_t plans = 1 + pick(2);
    for (uint32_t i = 0; i < plans; ++i) e.program.plans.push_back(make_plan(cat("plan", i)));
    return e;
  }

 private:
  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  Blob random_blob(uint64_t size) {
    std::vector<uint8_t> bytes(size);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random_());
    return Blob::owned(std::move(bytes));
  }

  uint64_t add_constant(PteBuilder& builder) {
    const uint64_t size = 1 + pick(300);
    builder.add_constant(random_blob(size), 16u << pick(4));
    return size;
  }

  pte::Tensor make_tensor(int64_t buffer_size) {
    static constexpr pte::ScalarType kTypes[] = {pte::ScalarType::kByte, pte::ScalarType::kFloat,
                                                 pte::ScalarType::kLong, pte::ScalarType::kBFloat16,
                                                 pte::ScalarType::kBool};
    pte::Tensor t;
    t.dtype = kTypes[pick(5)];
    const uint32_t rank = pick(5);
    for (uint32_t d = 0; d < rank; ++d) {
      t.sizes.push_back(static_cast<int32_t>(pick(4)));
      t.dim_order.push_back(static_cast<uint8_t>(d));
    }
    std::shuffle(t.dim_order.begin(), t.dim_order.end(), random_);
    t.dynamism = static_cast<pte::Dynamism>(pick(3));
    t.requires_grad = pick(2) == 1;
    const uint64_t bytes = *pte::tensor_bytes(t);
    const uint32_t where = pick(4);
    const auto size = static_cast<uint64_t>(buffer_size);
    if (where == 0 && !constant_sizes_.empty()) {
      const uint32_t i = pick(static_cast<uint32_t>(constant_sizes_.size()));
      if (bytes <= constant_sizes_[i]) t.data_index = i + 1;
    } else if (where == 1 && bytes <= size) {
      t.allocation = {.memory_id = 1, .offset = (size - bytes) / 16 * 16};
      if (!initial_sizes_.empty() && bytes <= initial_sizes_[0]) t.data_index = pick(2);
    } else if (where == 2) {
      t.external_name = cat("weight", pick(100));
    }
    return t;
  }

  pte::Value make_value(const pte::Plan& plan) {
    const auto ids_of = [&](auto kind, auto& items) {
      for (size_t i = 0; i < plan.values.size(); ++i) {
        if (pick(2) == 1 && std::holds_alternative<decltype(kind)>(plan.values[i])) {
          items.push_back(static_cast<std::decay_t<decltype(items[0])>>(i));
        }
      }
    };
    switch (pick(11)) {
      case 0:
        return pte::Null{};
      case 1:
        return pte::Int{static_cast<int64_t>(random_())};
      case 2:
        return pte::Bool{pick(2) == 1};
      case 3:
        return pte::Double{static_cast<double>(pick(1000)) / 7};
      case 4:
        return pte::String{std::string(pick(20), 's')};
      case 5: {
        pte::IntList list;
        ids_of(pte::Int{}, list.items);
        return list;
      }
      case 6:
        return pte::DoubleList{std::vector<double>(pick(4), 0.25)};
      case 7:
        return pte::BoolList{std::vector<uint8_t>(pick(4), 1)};
      case 8: {
        pte::TensorList list;
        ids_of(pte::Tensor{}, list.items);
        return list;
      }
      case 9: {
        pte::OptionalTensorList list;
        ids_of(pte::Tensor{}, list.items);
        list.items.push_back(-1);
        return list;
      }
      default:
        return make_tensor(plan.non_const_buffer_sizes[1]);
    }
  }

  std::vector<int32_t> make_ids(const pte::Plan& plan) {
    std::vector<int32_t> ids(pick(6));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(pick(static_cast<uint32_t>(plan.values.size())));
    }
    return ids;
  }

  pte::Instruction make_instruction(const pte::Plan& plan, int32_t index) {
    const uint32_t kind = pick(4);
    if (kind == 0 && !plan.operators.empty()) {
      return pte::KernelCall{
          .op_index = static_cast<int32_t>(pick(static_cast<uint32_t>(plan.operators.size()))),
          .args = make_ids(plan)};
    }
    if (kind == 1 && !plan.delegates.empty()) {
      return pte::DelegateCall{.delegate_index = static_cast<int32_t>(
                                   pick(static_cast<uint32_t>(plan.delegates.size()))),
                               .args = make_ids(plan)};
    }
    // Value 0 is a Bool, value 1 a Tensor (see make_plan).
    if (kind == 2) return pte::JumpFalseCall{.condition = 0, .destination = index == 0 ? 1 : 0};
    if (kind == 3) return pte::FreeCall{.value = 1};
    return pte::MoveCall{.from = 1, .to = 0};
  }

  pte::Plan make_plan(std::string name) {
    pte::Plan plan;
    plan.name = std::move(name);
    plan.encoded_inputs = std::string(pick(30), 'i');
    plan.non_const_buffer_sizes = {0, 16 * static_cast<int64_t>(pick(100))};
    plan.values = {pte::Bool{true}, examples::tensor({2})};
    for (uint32_t i = 0; i < 2 + pick(30); ++i) plan.values.push_back(make_value(plan));
    plan.inputs = make_ids(plan);
    plan.outputs = make_ids(plan);
    for (uint32_t i = 0; i < pick(4); ++i) {
      plan.operators.push_back({cat("aten::op", i), pick(2) == 1 ? "out" : ""});
    }
    for (uint32_t i = 0; i < (num_payloads_ > 0 ? pick(3) : 0); ++i) {
      plan.delegates.push_back({.id = "Backend",
                                .payload = pick(num_payloads_),
                                .compile_specs = {{"key", std::vector<uint8_t>(pick(5), 3)}}});
    }
    const uint32_t chains = 1 + pick(2);
    for (uint32_t c = 0; c < chains; ++c) {
      pte::Chain chain;
      chain.inputs = make_ids(plan);
      const uint32_t length = 2 + pick(10);
      for (uint32_t i = 0; i < length; ++i) {
        chain.instructions.push_back(make_instruction(plan, static_cast<int32_t>(i)));
      }
      plan.chains.push_back(std::move(chain));
    }
    return plan;
  }

  std::mt19937 random_;
  std::vector<uint64_t> constant_sizes_;
  std::vector<uint64_t> initial_sizes_;
  uint32_t num_payloads_ = 0;
};

TEST(PteRoundTrip, RandomProgramsComeBackEqual) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    const Example e = RandomProgram(seed).make();
    auto w = write_and_read(e.builder, e.program);
    ASSERT_TRUE(w.ok()) << w.status().message();
    // Payload numbers are those of the reader, which counts by first use.
    ASSERT_EQ(w->file.program.plans.size(), e.program.plans.size());
    for (size_t p = 0; p < e.program.plans.size(); ++p) {
      pte::Plan expected = e.program.plans[p];
      for (size_t d = 0; d < expected.delegates.size(); ++d) {
        const pte::Delegate& read = w->file.program.plans[p].delegates[d];
        EXPECT_EQ(w->file.payloads[read.payload],
                  w->layout.payloads[expected.delegates[d].payload]);
        expected.delegates[d].payload = read.payload;
      }
      EXPECT_EQ(w->file.program.plans[p], expected);
    }
    EXPECT_EQ(check_parts(w->file.parts), w->bytes.size());
    EXPECT_EQ(check_parts(w->layout.parts), w->bytes.size());
    auto again = write_and_read(e.builder, e.program);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->bytes, w->bytes);
  }
}

// ---- the writer's layout ----

TEST(PteWriter, AlignsSegmentsAndConstants) {
  PteBuilder builder;
  const Example e = examples::add_constant();
  builder.add_constant(Blob::owned(std::vector<uint8_t>(24, 1)));
  builder.add_constant(Blob::owned({2}), 128);
  builder.add_constant(Blob::owned({3}));
  builder.add_payload(Blob::owned({4, 5}));
  auto w = write_and_read(builder, e.program);
  ASSERT_TRUE(w.ok()) << w.status().message();
  const uint64_t base = w->file.segment_base;
  EXPECT_EQ(base % 128, 0u);
  EXPECT_EQ(w->layout.constants[1], (pte::ByteRange{base, 24}));
  EXPECT_EQ(w->layout.constants[2], (pte::ByteRange{base + 128, 1}));
  EXPECT_EQ(w->layout.constants[3], (pte::ByteRange{base + 144, 1}));
  EXPECT_EQ(w->layout.payloads[0], (pte::ByteRange{base + 256, 2}));
  EXPECT_EQ(w->layout.constants_padding, 104u + 15u);
  EXPECT_EQ(w->bytes.size(), base + 258);
  EXPECT_EQ(w->file.segment_data_size, 258u);
}

TEST(PteWriter, StoresEqualBlobsOnceAndNamesConstantsInPlace) {
  const std::vector<uint8_t> table(1000, 9);
  PteBuilder builder;
  builder.add_constant(Blob::owned(std::vector<uint8_t>(24, 1)));
  const uint32_t first = builder.add_constant(Blob::owned(table));
  EXPECT_EQ(builder.add_constant(Blob::owned(table)), first);
  builder.add_named_data("a", Blob::owned(table));
  builder.add_named_constant("b", first, 100, 200);
  builder.add_named_data("c", Blob::owned({7}));
  builder.add_named_data("d", Blob::owned({7}));
  EXPECT_EQ(builder.add_payload(Blob::owned({5})), builder.add_payload(Blob::owned({5})));

  auto w = write_and_read(builder, examples::add_constant().program);
  ASSERT_TRUE(w.ok()) << w.status().message();
  const pte::ByteRange constant = w->layout.constants[first];
  EXPECT_EQ(constant.offset % 128, 0u);
  ASSERT_EQ(w->file.named_data.size(), 4u);
  EXPECT_EQ(w->file.named_data[0].range, constant);
  EXPECT_TRUE(w->file.named_data[0].inside_constants);
  EXPECT_EQ(w->file.named_data[1].range, (pte::ByteRange{constant.offset + 100, 200}));
  EXPECT_EQ(w->file.named_data[2].range, w->file.named_data[3].range);
  EXPECT_FALSE(w->file.named_data[2].inside_constants);
  EXPECT_EQ(w->layout.named_data_size, 1u);
  EXPECT_EQ(w->layout.aliased_size, 1200u);
  EXPECT_TRUE(std::ranges::is_sorted(w->file.segments, {}, &pte::ByteRange::offset));
  EXPECT_EQ(*w->file.find_named_data("c")->data(), 7);
  EXPECT_FALSE(w->file.find_named_data("e").has_value());
}

TEST(PteWriter, CopiesPiecesOfMappedFilesAndProducedBytes) {
  const std::string path = scratch("source");
  std::vector<uint8_t> source(10000);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 7);
  ASSERT_TRUE(write_file(path, source).ok());
  auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped.ok());
  Blob blob = Blob::mapped(*mapped, 100, 5000);
  blob.append(Blob::zeros(3));
  blob.append(Blob::owned({1, 2}));
  blob.append(Blob::produced(4, [](OutputFile& out) { return out.write(as_bytes("made")); }));
  PteBuilder builder;
  builder.add_constant(Blob::zeros(64));
  const uint32_t index = builder.add_constant(blob);
  EXPECT_EQ(builder.add_constant(Blob(blob)), index);
  auto w = write_and_read(builder, examples::add_constant().program);
  ASSERT_TRUE(w.ok()) << w.status().message();
  std::vector<uint8_t> expected(source.begin() + 100, source.begin() + 5100);
  for (const uint8_t b : {0, 0, 0, 1, 2, int{'m'}, int{'a'}, int{'d'}, int{'e'}}) {
    expected.push_back(b);
  }
  EXPECT_TRUE(std::ranges::equal(w->file.bytes(w->layout.constants[index]), expected));
  ::unlink(path.c_str());
}

TEST(PteWriter, RefusesAProducerThatWritesAnotherSize) {
  PteBuilder builder;
  builder.add_constant(Blob::zeros(64));
  builder.add_payload(Blob::produced(5, [](OutputFile& out) { return out.write_zeros(4); }));
  auto w = write_and_read(builder, examples::add_constant().program);
  ASSERT_FALSE(w.ok());
  EXPECT_EQ(w.status().message(), "a blob of 5 bytes was written with 4 bytes");
}

TEST(PteWriter, RefusesAProgramThatDoesNotFitItsBlobs) {
  const Example e = examples::add_constant();
  auto w = write_and_read(PteBuilder(), e.program);
  ASSERT_FALSE(w.ok());
  EXPECT_EQ(w.status().kind(), ErrorKind::kInvalidGraph);
  EXPECT_EQ(w.status().message(),
            "plan 'forward': value 0 (Tensor): constant 1, but the file has 0");
}

// ---- programs that must be refused ----

struct BadProgram {
  std::string name;
  std::function<void(pte::Plan&)> spoil;  // of examples::every_feature, second plan
  std::string message;                    // its end
};

pte::Tensor& tensor_at(pte::Plan& plan, size_t id) {
  return std::get<pte::Tensor>(plan.values[id]);
}

template <typename Call>
Call& call_at(pte::Plan& plan, size_t index) {
  return std::get<Call>(plan.chains[0].instructions[index]);
}

std::vector<BadProgram> bad_programs() {
  // Values 0-5 as in examples::tied_table, then Null Double String IntList(9) DoubleList BoolList
  // TensorList(12) OptionalTensorList(13) state(14) elsewhere image(16) condition(17).
  return {
      {"input id", [](auto& p) { p.inputs = {18}; },
       "inputs[0]: value id 18, but there are 18 values"},
      {"output id", [](auto& p) { p.outputs = {-1}; },
       "outputs[0]: value id -1, but there are 18 values"},
      {"kernel argument", [](auto& p) { call_at<pte::KernelCall>(p, 0).args[2] = -1; },
       "instruction 0: argument [2]: value id -1, but there are 18 values"},
      {"delegate argument", [](auto& p) { call_at<pte::DelegateCall>(p, 1).args[1] = 18; },
       "instruction 1: argument [1]: value id 18, but there are 18 values"},
      {"operator", [](auto& p) { call_at<pte::KernelCall>(p, 0).op_index = 3; },
       "instruction 0: operator 3, but there are 3"},
      {"delegate", [](auto& p) { call_at<pte::DelegateCall>(p, 1).delegate_index = -1; },
       "instruction 1: delegate -1, but there are 2"},
      {"payload", [](auto& p) { p.delegates[1].payload = 1; },
       "delegate 1: payload 1, but there are 1"},
      {"jump out", [](auto& p) { call_at<pte::JumpFalseCall>(p, 2).destination = 6; },
       "instruction 2: jump to instruction 6, but the chain has 5"},
      {"jump to itself", [](auto& p) { call_at<pte::JumpFalseCall>(p, 2).destination = 2; },
       "instruction 2: jump to itself, an endless loop"},
      {"condition", [](auto& p) { call_at<pte::JumpFalseCall>(p, 2).condition = 2; },
       "instruction 2: jump condition is value 2, a Int, expected a Bool or a Tensor"},
      {"move", [](auto& p) { call_at<pte::MoveCall>(p, 3).to = 99; },
       "instruction 3: move destination: value id 99, but there are 18 values"},
      {"free", [](auto& p) { call_at<pte::FreeCall>(p, 4).value = 2; },
       "instruction 4: frees value 2, a Int, expected a Tensor"},
      {"negative buffer", [](auto& p) { p.non_const_buffer_sizes[1] = -96; },
       "planned buffer 1: size -96, expected 0 to 1099511627776"},
      {"huge buffer", [](auto& p) { p.non_const_buffer_sizes[1] = int64_t{1} << 62; },
       "planned buffer 1: size 4611686018427387904, expected 0 to 1099511627776"},
      {"no buffers", [](auto& p) { p.non_const_buffer_sizes.clear(); },
       "non_const_buffer_sizes is empty, expected [0, ...]"},
      {"past the buffer", [](auto& p) { tensor_at(p, 5).allocation->offset = 64; },
       "value 5 (Tensor): allocation of 40 bytes at 64 lies outside planned buffer 1 of 96"},
      {"wrapping offset", [](auto& p) { tensor_at(p, 5).allocation->offset = ~uint64_t{15}; },
       "lies outside planned buffer 1 of 96"},
      {"memory id 0", [](auto& p) { tensor_at(p, 5).allocation->memory_id = 0; },
       "value 5 (Tensor): memory id 0, expected 1 to 1"},
      {"memory id", [](auto& p) { tensor_at(p, 5).allocation->memory_id = 2; },
       "value 5 (Tensor): memory id 2, expected 1 to 1"},
      {"constant", [](auto& p) { tensor_at(p, 0).data_index = 3; },
       "value 0 (Tensor): constant 3, but the file has 2"},
      {"short constant", [](auto& p) { tensor_at(p, 0).sizes[0] = 6; },
       "value 0 (Tensor): constant 2 has 80 bytes, the tensor needs 96"},
      {"initial content", [](auto& p) { tensor_at(p, 14).data_index = 2; },
       "value 14 (Tensor): initial content 2, but the file has 1"},
      {"dim_order twice", [](auto& p) { tensor_at(p, 16).dim_order = {0, 0, 2, 3}; },
       "value 16 (Tensor): dim_order [0,0,2,3] is no permutation of the 4 dimensions"},
      {"dim_order past", [](auto& p) { tensor_at(p, 16).dim_order = {0, 1, 2, 4}; },
       "dim_order [0,1,2,4] is no permutation of the 4 dimensions"},
      {"dim_order length", [](auto& p) { tensor_at(p, 16).dim_order = {0, 1, 2}; },
       "value 16 (Tensor): dim_order of 3 entries for a tensor of rank 4"},
      {"negative size", [](auto& p) { tensor_at(p, 16).sizes[2] = -4; },
       "sizes [1,3,-4,4] are negative or their product is too large"},
      {"wrapping sizes", [](auto& p) { tensor_at(p, 16).sizes = {1 << 30, 1 << 30, 1 << 30, 0}; },
       "are negative or their product is too large"},
      {"dtype", [](auto& p) { tensor_at(p, 16).dtype = static_cast<pte::ScalarType>(8); },
       "value 16 (Tensor): unknown scalar type 8"},
      {"dynamism", [](auto& p) { tensor_at(p, 16).dynamism = static_cast<pte::Dynamism>(-1); },
       "value 16 (Tensor): unknown shape dynamism -1"},
      {"rank", [](auto& p) { tensor_at(p, 16).sizes.resize(17); }, "rank 17, at most 16"},
      {"int list", [](auto& p) { std::get<pte::IntList>(p.values[9]).items = {2, 3}; },
       "value 9 (IntList): item 3 is a Bool, expected an Int"},
      {"int list id", [](auto& p) { std::get<pte::IntList>(p.values[9]).items = {1LL << 40}; },
       "value 9 (IntList): item: value id 1099511627776, but there are 18 values"},
      {"list before member", [](auto& p) { std::get<pte::TensorList>(p.values[12]).items = {14}; },
       "value 12 (TensorList): item 14 comes after its list"},
      {"list of others", [](auto& p) { std::get<pte::TensorList>(p.values[12]).items = {6}; },
       "value 12 (TensorList): item 6 is a Null, expected a Tensor"},
      {"absent in a full list",
       [](auto& p) { std::get<pte::TensorList>(p.values[12]).items = {-1}; },
       "value 12 (TensorList): item: value id -1, but there are 18 values"},
      {"optional list",
       [](auto& p) { std::get<pte::OptionalTensorList>(p.values[13]).items = {-2}; },
       "value 13 (OptionalTensorList): item: value id -2, but there are 18 values"},
      {"operator name", [](auto& p) { p.operators[0].name = std::string(97, 'n'); },
       "operator 0: name of 101 characters, at most 99 expected"},
      {"no chain", [](auto& p) { p.chains.clear(); }, "no chain of instructions"},
  };
}

TEST(PteVerify, RefusesEveryNumberThatPointsOutside) {
  auto e = examples::every_feature();
  ASSERT_TRUE(e.ok());
  const pte::StorageLimits limits{
      .constants = {0, 12, 80}, .initial_contents = {0, 16}, .num_payloads = 1};
  ASSERT_TRUE(pte::verify_program(e->program, limits).ok());
  for (const BadProgram& bad : bad_programs()) {
    SCOPED_TRACE(bad.name);
    pte::Program program = e->program;
    bad.spoil(program.plans[1]);
    const Status status = pte::verify_program(program, limits);
    ASSERT_FALSE(status.ok());
    EXPECT_TRUE(status.message().starts_with("plan 'second': ")) << status.message();
    EXPECT_TRUE(status.message().ends_with(bad.message)) << status.message();
  }
  EXPECT_FALSE(pte::verify_program({}, limits).ok());
}

// ---- files that must be refused ----

std::vector<uint8_t> example_bytes(const Example& e) {
  auto w = write_and_read(e.builder, e.program);
  DH_CHECK(w.ok());
  return w->bytes;
}

template <typename T>
void patch(std::vector<uint8_t>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// Position of the only place where `value` stands.
template <typename T>
size_t find_only(const std::vector<uint8_t>& bytes, T value, size_t limit) {
  std::vector<size_t> places;
  for (size_t at = 40; at + sizeof(T) <= limit; at += 4) {
    if (std::memcmp(bytes.data() + at, &value, sizeof(T)) == 0) places.push_back(at);
  }
  DH_CHECK(places.size() == 1);
  return places[0];
}

void expect_refused(const std::vector<uint8_t>& bytes, const std::string& message) {
  auto file = read_bytes(bytes);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().kind(), ErrorKind::kInvalidFile);
  EXPECT_NE(file.status().message().find("x.pte'"), std::string::npos);
  EXPECT_NE(file.status().message().find(message), std::string::npos) << file.status().message();
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
}

TEST(PteReader, TellsWrongFilesApart) {
  std::vector<uint8_t> bytes = example_bytes(examples::add_constant());
  std::vector<uint8_t> other_magic = bytes;
  std::memcpy(other_magic.data() + 4, "ET99", 4);
  std::vector<uint8_t> jpeg(200, 0x20);
  std::copy_n("\xff\xd8\xff\xe0\0\x10JFIF", 10, jpeg.begin());
  expect_refused({}, "empty");
  expect_refused(other_magic, "file identifier is 'ET99', expected 'ET12'");
  expect_refused(jpeg, "JPEG");
}

TEST(PteReader, RefusesBadHeaders) {
  const std::vector<uint8_t> good = example_bytes(examples::add_constant());
  struct Row {
    size_t at;
    uint64_t value;
    size_t width;
    std::string message;
  };
  const std::vector<Row> rows = {
      {12, 20, 4, "extended header of 20 bytes, expected at least 24"},
      {16, 1u << 20, 8, "the program has 1048576 bytes, the file"},
      {16, 8, 8, "program_size is 8, less than the header"},
      {24, 1u << 20, 8, "segments start at 1048576, the file has"},
      {24, 64, 8, "segments start at 64, inside the program of"},
      {24, 0, 8, "but the header does not say where they start"},
      {32, 1u << 20, 8, "segments of 1048576 bytes start at"},
      {32, ~uint64_t{0}, 8, "segments of 18446744073709551615 bytes start at"},
      {32, 20, 8, "segment 0: 24 bytes at offset 0, but the segments have 20 bytes"},
      {0, 1u << 30, 4, "flatbuffer"},
      {0, 61, 4, "flatbuffer"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.message);
    std::vector<uint8_t> bytes = good;
    std::memcpy(bytes.data() + row.at, &row.value, row.width);
    expect_refused(bytes, row.message);
  }
}

TEST(PteReader, RefusesSegmentsOutsideTheFileAndOverlaps) {
  auto tied = examples::tied_table();
  ASSERT_TRUE(tied.ok());
  auto w = write_and_read(tied->builder, tied->program);
  ASSERT_TRUE(w.ok());
  const size_t limit = w->file.program_size;
  const uint64_t base = w->file.segment_base;
  // Segments: constants, the table inside them, the payload.
  const pte::ByteRange payload = w->file.payloads[0];
  const size_t at = find_only<uint64_t>(w->bytes, payload.offset - base, limit);
  const size_t size_at = find_only<uint64_t>(w->bytes, payload.size, limit);
  {
    std::vector<uint8_t> bytes = w->bytes;
    patch<uint64_t>(bytes, at, ~uint64_t{0} - 100);
    expect_refused(bytes, "segment 2: ");
  }
  {
    std::vector<uint8_t> bytes = w->bytes;
    patch<uint64_t>(bytes, size_at, payload.size + 1);
    expect_refused(bytes, "segment 2: ");
  }
  {
    std::vector<uint8_t> bytes = w->bytes;
    patch<uint64_t>(bytes, at, 128);
    expect_refused(bytes, "segments 0 and 2 overlap");
  }
}

TEST(PteReader, ReadsTheOldHeaderAndFilesWithoutSegments) {
  // Without segment_data_size.
  const Example e = examples::add_constant();
  std::vector<uint8_t> bytes = example_bytes(e);
  patch<uint32_t>(bytes, 12, 24);
  patch<uint64_t>(bytes, 32, ~uint64_t{0});
  auto old = read_bytes(bytes);
  ASSERT_TRUE(old.ok()) << old.status().message();
  EXPECT_EQ(old->segment_data_size, 0u);
  EXPECT_EQ(old->program, e.program);
  EXPECT_EQ(check_parts(old->parts), bytes.size());
  // Bytes after the last segment are ignored, and accounted for.
  bytes.resize(bytes.size() + 100, 0xaa);
  auto longer = read_bytes(bytes);
  ASSERT_TRUE(longer.ok());
  EXPECT_EQ(longer->parts.back().kind, PtePart::Kind::kTrailing);
  EXPECT_EQ(check_parts(longer->parts), bytes.size());
}

TEST(PteReader, GivesTheBytesOfConstantsAndState) {
  auto e = examples::every_feature();
  ASSERT_TRUE(e.ok());
  auto w = write_and_read(e->builder, e->program);
  ASSERT_TRUE(w.ok()) << w.status().message();
  const auto& values = w->file.program.plans[1].values;
  const auto state = w->file.data_range(std::get<pte::Tensor>(values[14]));
  ASSERT_TRUE(state.has_value());
  EXPECT_TRUE(std::ranges::equal(w->file.bytes(*state), examples::bytes_of<float>({1, 2, 3, 4})));
  const auto table = w->file.data_range(std::get<pte::Tensor>(values[0]));
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(*table, w->file.named_data[0].range);
  EXPECT_FALSE(w->file.data_range(std::get<pte::Tensor>(values[15])).has_value());
  EXPECT_FALSE(w->file.data_range(std::get<pte::Tensor>(values[16])).has_value());
}

}  // namespace
}  // namespace downhaul
