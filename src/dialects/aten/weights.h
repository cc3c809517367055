#pragma once

#include <memory>
#include <unordered_map>

#include "formats/pt2/pt2.h"
#include "tensor/tensor.h"

namespace downhaul::aten {

/// The archive's tensors as tensors. Those that share a payload share one Storage; nothing is read
/// but what has to be copied because of its strides.
class Weights {
 public:
  explicit Weights(const pt2::Archive& archive) : archive_(archive) {}

  /// Errors: kUnsupported for a dtype outside the IR, kInvalidFile for a payload that is too short;
  /// both name `fqn`.
  Result<Tensor> tensor(const std::string& fqn, const pt2::StoredTensor& stored);

 private:
  Result<std::shared_ptr<const Storage>> storage(uint32_t payload);
  const pt2::Archive& archive_;
  std::unordered_map<uint32_t, std::shared_ptr<const Storage>> storages_;
};

/// Bytes of the tensor's own elements; 0 when they do not fit a number.
uint64_t bytes_of(const pt2::StoredTensor& stored);

}  // namespace downhaul::aten
