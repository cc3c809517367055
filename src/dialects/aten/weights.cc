#include "dialects/aten/weights.h"

#include <cstring>

#include "base/checked.h"
#include "base/strings.h"
#include "dialects/aten/call.h"

namespace downhaul::aten {

Result<std::shared_ptr<const Storage>> Weights::storage(uint32_t payload) {
  if (payload >= archive_.payloads.size()) {
    return invalid_file(cat("payload ", payload, " of ", archive_.payloads.size()));
  }
  auto [it, fresh] = storages_.try_emplace(payload);
  if (!fresh) return it->second;
  const pt2::Payload& p = archive_.payloads[payload];
  // Kernels read whole elements, so they must lie at addresses that the widest one divides.
  constexpr uint64_t kAlignment = 8;
  if (p.file_offset && *p.file_offset % kAlignment == 0) {
    it->second = Storage::map(archive_.file, *p.file_offset, p.bytes.size(), p.crc32);
    return it->second;
  }
  auto copy = Storage::allocate(p.bytes.size());
  if (!p.bytes.empty()) {
    std::memcpy(copy->mutable_bytes().data(), p.bytes.data(), p.bytes.size());
  }
  it->second = std::move(copy);
  return it->second;
}

Result<Tensor> Weights::tensor(const std::string& fqn, const pt2::StoredTensor& stored) {
  const std::string context = cat("weight '", printable(fqn), "'");
  const std::optional<DType> dtype = to_dtype(stored.dtype);
  if (!dtype) {
    return unsupported(cat(context, ": dtype ", pt2::name(stored.dtype), " is not supported"));
  }
  auto bytes = storage(stored.payload);
  if (!bytes.ok()) return std::move(bytes).status().with_context(context);
  auto tensor = strided_tensor(*dtype, stored.sizes, stored.strides, stored.storage_offset, *bytes);
  if (!tensor.ok()) return std::move(tensor).status().with_context(context);
  return tensor;
}

uint64_t bytes_of(const pt2::StoredTensor& stored) {
  const std::optional<int64_t> count = checked_num_elements(stored.sizes);
  if (!count) return 0;
  const auto bytes =
      checked_mul<uint64_t>(static_cast<uint64_t>(*count), pt2::item_size(stored.dtype));
  return bytes.value_or(0);
}

}  // namespace downhaul::aten
