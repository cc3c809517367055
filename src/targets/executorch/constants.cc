#include "targets/executorch/constants.h"

#include <algorithm>
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

}  // namespace

Result<Tensor> ConstantWriter::representative(const Tensor& data) {
  const Storage& storage = *data.storage();
  const bool whole = data.byte_offset() == 0 && data.num_bytes() == storage.bytes().size();
  if (!whole || !storage.crc32().has_value() || data.num_bytes() == 0) return data;
  std::vector<Tensor>& known = by_checksum_[{data.num_bytes(), *storage.crc32()}];
  for (const Tensor& other : known)
    if (other.storage() == data.storage() || equal_bytes(other, data)) return other;
  known.push_back(data);
  return data;
}

Result<uint32_t> ConstantWriter::add(const Tensor& data, const std::string& owner) {
  DH_ASSIGN(const Tensor same, representative(data));
  const uint32_t index = builder_.add_constant(blob_of(same));
  if (index >= owners_.size()) owners_.resize(index + 1);
  std::vector<std::string>& owners = owners_[index];
  if (std::find(owners.begin(), owners.end(), owner) == owners.end()) owners.push_back(owner);
  return index;
}

Status ConstantWriter::add_named(const std::string& key, const Tensor& data) {
  DH_ASSIGN(const Tensor same, representative(data));
  if (builder_.has_named_data(key)) return {};
  builder_.add_named_data(key, blob_of(same));
  keys_.push_back(key);
  return {};
}

void ConstantWriter::take_owners(EmittedProgram& out) {
  out.constant_owners = std::move(owners_);
  out.named_keys = std::move(keys_);
}

}  // namespace downhaul
