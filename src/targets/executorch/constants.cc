#include "targets/executorch/constants.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/strings.h"

namespace downhaul {
namespace {

constexpr uint64_t kCompareStep = 1u << 20;

Blob blob_of(const Tensor& data) {
  const Storage& storage = *data.storage();
  if (storage.file() == nullptr) return Blob::shared(data.bytes(), data.storage());
  // Shares ownership of the storage, which keeps the mapping alive.
  return Blob::mapped(std::shared_ptr<const MappedFile>(data.storage(), storage.file()),
                      storage.file_offset() + data.byte_offset(), data.num_bytes());
}

void release(const Tensor& data, Bytes range) {
  if (const MappedFile* file = data.storage()->file()) file->release(range);
}

/// Equal content. Holds at most a step of each in memory.
bool equal_bytes(const Tensor& a, const Tensor& b) {
  const Bytes x = a.bytes(), y = b.bytes();
  if (x.size() != y.size()) return false;
  for (uint64_t at = 0; at < x.size(); at += kCompareStep) {
    const uint64_t size = std::min<uint64_t>(kCompareStep, x.size() - at);
    const bool same = std::memcmp(x.data() + at, y.data() + at, size) == 0;
    release(a, x.subspan(at, size));
    release(b, y.subspan(at, size));
    if (!same) return false;
  }
  return true;
}

/// FNV-1a over a few short stretches spread over the bytes. Equal bytes have equal samples; weights
/// that differ hardly ever do. Mapped bytes are read by call, so that none of their pages stays.
uint64_t sample(const Tensor& data) {
  constexpr uint64_t kStretches = 4;
  constexpr uint64_t kStretchBytes = 64;
  const Storage& storage = *data.storage();
  const uint64_t size = data.num_bytes();
  const uint64_t length = std::min(size, kStretchBytes);
  std::array<uint8_t, kStretchBytes> stretch{};
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < kStretches; ++i) {
    const uint64_t at = (size - length) / (kStretches - 1) * i;
    const uint64_t offset = data.byte_offset() + at;
    if (const MappedFile* file = storage.file()) {
      const auto place = static_cast<off_t>(storage.file_offset() + offset);
      if (::pread(file->fd(), stretch.data(), length, place) != static_cast<ssize_t>(length)) break;
    } else {
      std::memcpy(stretch.data(), storage.bytes().data() + offset, length);
    }
    for (uint64_t k = 0; k < length; ++k) hash = (hash ^ stretch[k]) * 0x100000001b3u;
  }
  return hash;
}

/// The checksum that the container states for exactly these bytes, if it does.
std::optional<uint32_t> checksum(const Tensor& data) {
  const Storage& storage = *data.storage();
  const bool whole = data.byte_offset() == 0 && data.num_bytes() == storage.bytes().size();
  return whole ? storage.crc32() : std::nullopt;
}

void add_owner(std::vector<std::vector<std::string>>& by_index, uint32_t index,
               const std::string& owner) {
  if (index >= by_index.size()) by_index.resize(index + 1);
  std::vector<std::string>& owners = by_index[index];
  if (std::find(owners.begin(), owners.end(), owner) == owners.end()) owners.push_back(owner);
}

bool same_content(const Tensor& a, const Tensor& b) {
  if (a.storage() == b.storage() && a.byte_offset() == b.byte_offset()) return true;
  const auto x = checksum(a);
  const auto y = checksum(b);
  if (x && y && *x != *y) return false;
  return equal_bytes(a, b);
}

}  // namespace

Tensor ConstantWriter::representative(const Tensor& data) {
  if (data.num_bytes() == 0) return data;
  std::vector<Tensor>& known = by_sample_[{data.num_bytes(), sample(data)}];
  for (const Tensor& other : known) {
    if (same_content(other, data)) return other;
  }
  known.push_back(data);
  return data;
}

Result<uint32_t> ConstantWriter::add(const Tensor& data, const std::string& owner) {
  const Tensor same = representative(data);
  const uint32_t index = builder_.add_constant(blob_of(same));
  add_owner(owners_, index, owner);
  return index;
}

uint32_t ConstantWriter::add_initial(const Tensor& data, const std::string& owner) {
  const uint32_t index = builder_.add_initial_content(blob_of(data));
  add_owner(initial_owners_, index, owner);
  return index;
}

Status ConstantWriter::add_named(const std::string& key, const Tensor& data) {
  const Tensor same = representative(data);
  if (builder_.has_named_data(key)) return {};
  builder_.add_named_data(key, blob_of(same));
  keys_.push_back(key);
  return {};
}

void ConstantWriter::take_owners(EmittedProgram& out) {
  out.constant_owners = std::move(owners_);
  for (const std::vector<std::string>& owners : initial_owners_)
    for (const std::string& owner : owners) out.state_names.push_back(owner);
  out.named_keys = std::move(keys_);
}

}  // namespace downhaul
