#include "ops/allocate.h"

#include "base/checked.h"
#include "base/strings.h"

namespace downhaul {

Result<Tensor> allocate_tensor(std::string_view what, DType dtype, const Sizes& sizes) {
  constexpr int64_t kMaxBytes = int64_t{1} << 32;
  const auto count = checked_num_elements(sizes);
  const auto bytes =
      count ? checked_mul(*count, static_cast<int64_t>(item_size(dtype))) : std::nullopt;
  if (!bytes) {
    return invalid_argument(
        cat(what, ": sizes of ", describe(dtype, sizes), " are negative or overflow"));
  }
  if (*bytes > kMaxBytes) {
    return unsupported(cat(what, ": ", describe(dtype, sizes), " needs ", *bytes,
                           " bytes, at most ", kMaxBytes, " are supported"));
  }
  return Tensor(dtype, sizes);
}

}  // namespace downhaul
