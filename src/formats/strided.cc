#include "formats/strided.h"

#include "base/checked.h"
#include "base/strings.h"

namespace downhaul {
namespace {

constexpr size_t kMaxRank = 64;  // as in torch

}  // namespace

Result<uint64_t> strided_extent(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                                int64_t storage_offset, uint32_t item_bytes) {
  if (sizes.size() > kMaxRank) {
    return invalid_file(cat("rank ", sizes.size(), ", at most ", kMaxRank, " expected"));
  }
  if (sizes.size() != strides.size()) {
    return invalid_file(cat(sizes.size(), " sizes but ", strides.size(), " strides"));
  }
  if (storage_offset < 0) return invalid_file(cat("negative storage offset ", storage_offset));
  const auto overflow = [&] {
    return invalid_file(
        cat("sizes [", join(sizes, ", "), "] with strides [", join(strides, ", "), "] overflow"));
  };
  bool empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) return invalid_file(cat("negative size ", sizes[i]));
    if (strides[i] < 0) return invalid_file(cat("negative stride ", strides[i]));
    empty = empty || sizes[i] == 0;
  }
  if (empty) return uint64_t{0};
  // The product matters too: a stride of 0 makes a huge tensor of few bytes.
  uint64_t count = 1;
  uint64_t last = static_cast<uint64_t>(storage_offset);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto size = static_cast<uint64_t>(sizes[i]);
    const auto product = checked_mul(count, size);
    const auto reach = checked_mul(size - 1, static_cast<uint64_t>(strides[i]));
    const auto next = reach ? checked_add(last, *reach) : std::nullopt;
    if (!product || !next) return overflow();
    count = *product;
    last = *next;
  }
  const auto elements = checked_add<uint64_t>(last, 1);
  const auto bytes = elements ? checked_mul<uint64_t>(*elements, item_bytes) : std::nullopt;
  const auto dense = checked_mul<uint64_t>(count, item_bytes);
  if (!bytes || !dense || *dense > INT64_MAX) return overflow();
  return *bytes;
}

}  // namespace downhaul
