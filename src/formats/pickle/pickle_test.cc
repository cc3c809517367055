#include "formats/pickle/pickle.h"

#include <cstring>

#include "formats/test_files.h"
#include "formats/zip/zip_writer.h"

namespace downhaul::torch_save {
namespace {

std::string fixture(std::string_view name) {
  return cat(DH_SOURCE_DIR, "/tests/fixtures/formats/", name);
}

/// A torch.save file of the given pickle with one storage of 24 bytes, "0".
std::vector<uint8_t> archive(std::string_view pickle, size_t storage_bytes = 24) {
  ZipWriter out;
  out.add("archive/data.pkl", pickle);
  out.add("archive/byteorder", "little");
  out.add("archive/data/0", std::string(storage_bytes, '\x01'));
  return out.finish();
}

Result<File> read_pickle(std::string_view pickle, size_t storage_bytes = 24) {
  TestFolder folder;
  return read(folder.write("x.pt", archive(pickle, storage_bytes)));
}

std::string text(std::string_view s) {
  std::string out = "X";
  const auto size = static_cast<uint32_t>(s.size());
  out.append(reinterpret_cast<const char*>(&size), 4);
  return out.append(s);
}
std::string number(int32_t n) {
  std::string out = "J";
  return out.append(reinterpret_cast<const char*>(&n), 4);
}
std::string global(std::string_view module, std::string_view name) {
  return cat("c", module, "\n", name, "\n");
}
std::string tuple(std::initializer_list<std::string> items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}
std::string storage(int32_t count = 6, std::string_view type = "FloatStorage") {
  return tuple({text("storage"), global("torch", type), text("0"), text("cpu"), number(count)}) +
         "Q";
}
std::string tensor(const std::string& of, int32_t offset, const std::string& sizes,
                   const std::string& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple({of, number(offset), sizes, strides, "\x89", "}"}) + "R";
}
std::string dict_of(std::string_view name, const std::string& value) {
  return "\x80\x02}" + text(name) + value + "s.";
}

TEST(TorchSave, ReadsEveryForm) {
  for (const char* name : {"zip.pt", "legacy.pt", "nested_protocol_4.pt"}) {
    const auto file = read(fixture(name));
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_EQ(file->tensors.size(), 5u) << name;
    const TensorInfo* b = file->find("b");
    ASSERT_NE(b, nullptr) << name;
    EXPECT_EQ(b->dtype, DType::kFloat32);
    EXPECT_EQ(b->sizes, std::vector<int64_t>{4});
    EXPECT_EQ(b->storage_offset, 2);
    const Storage& bytes = file->storages[b->storage];
    ASSERT_EQ(bytes.bytes.size(), 40u);
    float nine;
    std::memcpy(&nine, bytes.bytes.data() + 36, 4);
    EXPECT_EQ(nine, 9.0f);
    EXPECT_EQ(bytes.bytes.data(), file->file->bytes().data() + *bytes.file_offset);
  }
  const auto zip = *read(fixture("zip.pt"));
  EXPECT_EQ(zip.find("l.weight")->strides, (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(zip.find("n")->sizes.size(), 0u);
}

TEST(TorchSave, ReadsTensorsWhoseDtypeIsAnArgument) {
  const auto file = read(fixture("typed.pt"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(name(file->find("f8")->dtype), "float8_e4m3fn");
  EXPECT_EQ(name(file->find("u16")->dtype), "uint16");
}

TEST(TorchSave, ReadsCraftedPickles) {
  const auto file = read_pickle(dict_of(
      "w", tensor(storage(), 0, tuple({number(2), number(3)}), tuple({number(3), number(1)}))));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->find("w")->sizes, (std::vector<int64_t>{2, 3}));
}

TEST(TorchSave, NothingOutsideTheClosedSetIsTouched) {
  TestFolder folder;
  const std::string marker = folder.file("marker");
  const std::string call =
      "\x80\x02" + global("os", "system") + tuple({text("touch " + marker)}) + "R.";
  EXPECT_TRUE(fails(read_pickle(call), "asks for 'os.system'"));
  EXPECT_FALSE(file_exists(marker));
  EXPECT_TRUE(fails(read_pickle("\x80\x04\x8c\x08"
                                "builtins\x8c\x04"
                                "eval\x93."),
                    "asks for 'builtins.eval'"));
  // INST, OBJ, extension registry, class state.
  for (const char* opcode : {"ios\nsystem\n", "o", "\x82\x01", "\x92"}) {
    EXPECT_TRUE(fails(read_pickle(cat("\x80\x02(", opcode, ".")), "outside the closed set"));
  }
  EXPECT_TRUE(fails(read_pickle("\x80\x02)}b."), "sets the state of an object"));
}

TEST(TorchSave, RefusesTensorsOutsideTheirStorage) {
  const auto with = [](int32_t offset, const std::string& sizes, const std::string& strides) {
    return read_pickle(dict_of("w", tensor(storage(), offset, sizes, strides)));
  };
  EXPECT_TRUE(fails(with(1, tuple({number(6)}), tuple({number(1)})),
                    "tensor 'w' needs 28 bytes of its storage, which has 24"));
  EXPECT_TRUE(fails(with(0, tuple({number(-6)}), tuple({number(1)})), "negative size -6"));
  EXPECT_TRUE(fails(with(0, tuple({number(6)}), tuple({number(-1)})), "negative stride -1"));
  EXPECT_TRUE(fails(with(0, tuple({number(6)}), ")"), "1 sizes but 0 strides"));
  EXPECT_TRUE(fails(with(0, tuple({text("6")}), tuple({number(1)})), "no integer"));
  EXPECT_TRUE(fails(read_pickle(dict_of("w", tensor(storage(7), 0, ")", ")"))),
                    "declares 7 elements of 4 bytes, the entry has 24 bytes"));
  EXPECT_TRUE(
      fails(read_pickle(dict_of("w", tensor(storage(-1), 0, ")", ")"))), "storage of -1 elements"));
}

TEST(TorchSave, RefusesMalformedPickles) {
  for (const char* pickle :
       {"", "\x80", "\x80\x09.", ".", "\x80\x02t.", "\x80\x02s.", "\x80\x02h\x01.",
        "\x80\x02X\xff\xff\xff\x7f.", "\x80\x02R.", "\x80\x02Q.", "\x80\x02q\x01.", "\x80\x02((ee.",
        "\x80\x02]}u.", "\x80\x02(.",
        "\x80\x02"
        "ctorch\n"}) {
    const auto file = read_pickle(pickle);
    EXPECT_FALSE(file.ok());
    EXPECT_EQ(file.status().kind(), ErrorKind::kInvalidFile) << file.status().message();
  }
}

TEST(TorchSave, BoundsWhatAPickleCanMake) {
  // Every byte pushes another value: more than a file of tensors needs.
  std::string pickle = "\x80\x02" + std::string(3'000'000, ']') + ".";
  EXPECT_TRUE(fails(read_pickle(pickle), "more values than a file of this size can hold"));
  // A list that is appended to itself, doubling each time.
  std::string doubling = "\x80\x02]q\x01";
  for (int i = 0; i < 200; ++i)
    doubling +=
        "(h\x01h\x01h\x01h\x01"
        "e";
  const auto self = read_pickle(doubling + ".");
  EXPECT_TRUE(fails(self, "no dictionary of tensors"));
}

TEST(TorchSave, RefusesScriptedAndBigEndianFiles) {
  TestFolder folder;
  ZipWriter scripted;
  scripted.add("m/data.pkl", dict_of("w", "N"));
  scripted.add("m/constants.pkl", "\x80\x02).");
  EXPECT_TRUE(fails(read(folder.write("s.pt", scripted.finish())), "TorchScript"));
  ZipWriter big;
  big.add("m/data.pkl", dict_of("w", "N"));
  big.add("m/byteorder", "big");
  EXPECT_TRUE(fails(read(folder.write("b.pt", big.finish())), "expected 'little'"));
}

}  // namespace
}  // namespace downhaul::torch_save
