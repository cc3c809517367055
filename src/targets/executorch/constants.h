#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/pte/pte_writer.h"
#include "targets/executorch/emit.h"
#include "tensor/tensor.h"

namespace downhaul {

/// Gives constants and named blobs to the file's builder, equal bytes once. Bytes in mapped files
/// are compared only when size, a few samples and the checksums (where known) agree, and their
/// pages are given back at once.
class ConstantWriter {
 public:
  explicit ConstantWriter(PteBuilder& builder) : builder_(builder) {}

  /// Returns the data_index for pte::Tensor.
  Result<uint32_t> add(const Tensor& data, const std::string& owner);
  /// Initial content of a state buffer. Returns the data_index for a pte::Tensor with memory.
  uint32_t add_initial(const Tensor& data, const std::string& owner);
  Status add_named(const std::string& key, const Tensor& data);
  void take_owners(EmittedProgram& out);

 private:
  /// The tensor that was added first among those with the same bytes.
  Tensor representative(const Tensor& data);

  PteBuilder& builder_;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Tensor>> by_sample_;
  std::vector<std::vector<std::string>> owners_;          // by data_index
  std::vector<std::vector<std::string>> initial_owners_;  // by data_index
  std::vector<std::string> keys_;
};

}  // namespace downhaul
