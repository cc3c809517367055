#include "ops/elementwise.h"

namespace downhaul {

TypesResult infer_binary(const Node& node) {
  DH_TRY(require_same_dtype(node, {"self", "other"}));
  DH_ASSIGN(Shape shape,
            broadcast_shapes("self", node.type("self").shape, "other", node.type("other").shape));
  return one_type(node.type("self").dtype, std::move(shape));
}

TypesResult infer_binary_number(const Node& node) {
  DH_TRY(require_number(node, "self"));
  return infer_binary(node);
}

TypesResult infer_binary_float(const Node& node) {
  DH_TRY(require_float(node, "self"));
  return infer_binary(node);
}

TypesResult infer_binary_integer(const Node& node) {
  if (is_float(node.type("self").dtype)) {
    return invalid_graph(
        cat("self: expected an integer dtype or bool, found ", node.type("self").str()));
  }
  return infer_binary(node);
}

TypesResult infer_compare(const Node& node) {
  DH_ASSIGN(auto types, infer_binary(node));
  types[0].dtype = DType::kBool;
  return types;
}

}  // namespace downhaul
