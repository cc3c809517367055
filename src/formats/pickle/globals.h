#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/pickle/pickle.h"

namespace downhaul::torch_save {

/// The closed set of names that a pickle may use, and what the Machine does for each.
struct Global {
  enum class Meaning : uint8_t {
    kOrderedDict,
    kTuple,
    kRebuildTensor,       ///< _rebuild_tensor_v2: the storage states the dtype
    kRebuildTypedTensor,  ///< _rebuild_tensor_v3: an argument states the dtype
    kRebuildParameter,
    kStorage,
    kUntypedStorage,
    kDType,
  };
  std::string_view module;
  std::string_view name;
  Meaning meaning;
  DType dtype = DType::kUint8;  ///< for kStorage and kDType
};

/// Row number; nullopt for a name outside the set.
std::optional<uint32_t> find_global(std::string_view module, std::string_view name);
const Global& global(uint32_t row);

}  // namespace downhaul::torch_save
