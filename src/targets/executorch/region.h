#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace downhaul {

/// A weight that a delegate finds by name. Identity is that of the tensor's storage and offset: the
/// same bytes used by a kernel and by a delegate are written once.
struct NamedBlob {
  std::string key;
  Tensor data;
};

/// Nodes that one call to a backend computes. They are contiguous in the order of the graph.
struct DelegatedRegion {
  std::vector<Node*> nodes;
  std::vector<Value*> inputs;   ///< in the order of the payload's external ids
  std::vector<Value*> outputs;  ///< results of `nodes`, in the order of the payload's external ids
  std::string backend = "XnnpackBackend";
  std::vector<uint8_t> payload;
  std::vector<NamedBlob> blobs;
};

}  // namespace downhaul
