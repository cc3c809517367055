#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/xnn/emit.h"

namespace downhaul::xnn {

/// Names and collects the values of a payload while its nodes are emitted in order.
class PayloadBuilder {
 public:
  /// Declares the external inputs and remembers which results are outputs.
  PayloadBuilder(std::span<Value* const> inputs, std::span<Value* const> outputs);

  /// Id of an operand: an input, an earlier result, or a constant (added on first use).
  uint32_t use(const Value* value);
  /// Id of a constant as a filter or bias, kXnnNoId when absent. The runtime packs what these nodes
  /// take and then lets go of the bytes of the payload's value; what other nodes read of the same
  /// constant must be a value of its own.
  uint32_t use_packed(const Value* constant);
  /// Id of a constant whose bytes the format stores otherwise. `spelling` tells the orders of one
  /// constant apart; `make` runs once for each. It may return the same bytes under other sizes.
  uint32_t use_as(const Value* constant, std::string_view spelling,
                  const std::function<Tensor(const Tensor&)>& make);
  /// Declares a result (an external output when it is one) and returns its id.
  uint32_t define(const Value* result);
  /// A value between two payload nodes that the IR has no name for.
  uint32_t define_internal(std::vector<uint32_t> dims);

  /// Appends a node; its inputs must be defined.
  XnnNode& add(XnnNodeKind kind, std::vector<uint32_t> inputs, uint32_t output,
               XnnParams params = {});

  /// From now on nodes belong to `node`: its origin, and the range that its results are cut to.
  void begin(const Node& node);
  /// The next result of `producer` is called `alias` instead, and is cut to [min, max].
  void fuse(const Node& producer, const Value* alias, float min, float max);

  Result<XnnPayload> finish() &&;

 private:
  struct Fused {
    const Value* alias;
    float min;
    float max;
  };
  uint32_t add_value(XnnValue value);
  uint32_t add_constant(const Tensor& data, const std::string& key);

  XnnPayload payload_;
  std::vector<const Value*> outputs_;
  std::map<const Value*, uint32_t> ids_;
  std::map<std::pair<const Value*, std::string>, uint32_t> respelled_;
  std::map<const Node*, Fused> fused_;
  const Node* node_ = nullptr;
};

/// Dims as the payload writes them: rank 0 is [1], dynamic sizes are their upper bounds.
std::vector<uint32_t> payload_dims(const TensorType& type);

}  // namespace downhaul::xnn
