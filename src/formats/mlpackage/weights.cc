#include "formats/mlpackage/weights.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "base/strings.h"

namespace downhaul::mil {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kHeaderBytes = 64;
constexpr uint64_t kMetadataBytes = 64;
constexpr uint32_t kVersion = 2;
constexpr uint32_t kSentinel = 0xDEADBEEF;

struct Code {
  DType dtype;
  uint32_t code;
};
constexpr Code kCodes[] = {{DType::kF16, 1},  {DType::kF32, 2},  {DType::kU8, 3},  {DType::kI8, 4},
                           {DType::kBF16, 5}, {DType::kI16, 6},  {DType::kU16, 7}, {DType::kI4, 8},
                           {DType::kU1, 9},   {DType::kU2, 10},  {DType::kU4, 11}, {DType::kU3, 12},
                           {DType::kU6, 13},  {DType::kI32, 14}, {DType::kU32, 15}};

// Every machine that this runs on is little-endian, as the file is.
template <typename T>
T read_at(Bytes bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}
template <typename T>
void put_at(std::array<uint8_t, 64>& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

}  // namespace

uint64_t bytes_of(DType dtype, uint64_t elements) {
  return (elements * static_cast<uint64_t>(bits_of(dtype)) + 7) / 8;
}

Result<std::shared_ptr<const WeightFile>> WeightFile::open(const std::string& path) {
  auto out = std::make_shared<WeightFile>();
  DH_ASSIGN(out->file_, MappedFile::open(path));
  const Bytes bytes = out->file_->bytes();
  if (bytes.size() < kHeaderBytes) {
    return invalid_file(cat("'", printable(path), "': expected a header of ", kHeaderBytes,
                            " bytes, the file has ", bytes.size()));
  }
  const auto version = read_at<uint32_t>(bytes, 4);
  if (version != kVersion) {
    return invalid_file(
        cat("'", printable(path), "': storage version ", version, ", expected ", kVersion));
  }
  return std::shared_ptr<const WeightFile>(std::move(out));
}

Result<Blob> WeightFile::blob(uint64_t offset) const {
  const Bytes bytes = file_->bytes();
  const auto fault = [&](const auto&... what) {
    return invalid_file(cat("'", printable(file_->path()), "': blob at ", offset, ": ", what...));
  };
  if (offset % kAlignment != 0) return fault("the offset is no multiple of ", kAlignment);
  if (offset < kHeaderBytes || !in_range(offset, kMetadataBytes, bytes.size())) {
    return fault("outside the file of ", bytes.size(), " bytes");
  }
  const auto sentinel = read_at<uint32_t>(bytes, offset);
  if (sentinel != kSentinel) return fault("expected the mark 0xDEADBEEF, found ", sentinel);
  const auto code = read_at<uint32_t>(bytes, offset + 4);
  const auto known = std::find_if(std::begin(kCodes), std::end(kCodes),
                                  [&](const Code& c) { return c.code == code; });
  if (known == std::end(kCodes)) return fault("unknown element type ", code);
  const auto size = read_at<uint64_t>(bytes, offset + 8);
  const auto data = read_at<uint64_t>(bytes, offset + 16);
  if (data % kAlignment != 0) return fault("data at ", data, ", no multiple of ", kAlignment);
  if (data < kHeaderBytes || !in_range(data, size, bytes.size())) {
    return fault("data of ", size, " bytes at ", data, " reach outside the file of ", bytes.size(),
                 " bytes");
  }
  return Blob{known->dtype, bytes.subspan(data, size), data};
}

Result<uint64_t> WeightWriter::add(DType dtype, uint64_t elements, Writer write) {
  const auto known = std::find_if(std::begin(kCodes), std::end(kCodes),
                                  [&](const Code& c) { return c.dtype == dtype; });
  if (known == std::end(kCodes)) {
    return unsupported(cat("weight files hold no elements of ", dtype_name(dtype)));
  }
  const uint64_t offset = align_up(end_, kAlignment);
  const uint64_t bytes = bytes_of(dtype, elements);
  blobs_.push_back({dtype, elements, bytes, offset, std::move(write)});
  end_ = offset + kMetadataBytes + bytes;
  return offset;
}

Status WeightWriter::write(OutputFile& out) const {
  std::array<uint8_t, 64> block{};
  put_at(block, 0, static_cast<uint32_t>(blobs_.size()));
  put_at(block, 4, kVersion);
  DH_TRY(out.write(block));
  for (const Planned& b : blobs_) {
    DH_TRY(out.write_zeros(b.offset - out.position()));
    block = {};
    put_at(block, 0, kSentinel);
    put_at(block, 4, std::find_if(std::begin(kCodes), std::end(kCodes), [&](const Code& c) {
                       return c.dtype == b.dtype;
                     })->code);
    put_at(block, 8, b.bytes);
    put_at(block, 16, b.offset + kMetadataBytes);
    // Bits of the last byte that belong to no element.
    const uint64_t bits = b.elements * static_cast<uint64_t>(bits_of(b.dtype));
    put_at(block, 24, 8 * b.bytes - bits);
    DH_TRY(out.write(block));
    const uint64_t before = out.position();
    DH_TRY(b.write(out));
    DH_CHECK(out.position() - before == b.bytes);
  }
  return {};
}

}  // namespace downhaul::mil
