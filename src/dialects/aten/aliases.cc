#include "dialects/aten/aliases.h"

#include <utility>
#include <vector>

#include "ops/ops.h"

namespace downhaul::aten {

View* Aliases::fresh(Value* value) {
  StorageInfo& storage = storages_.emplace_back();
  View& view = views_.emplace_back();
  view.storage = &storage;
  view.value = value;
  view.type = value->type();
  storage.whole = &view;
  storage.initial = value;
  return &view;
}

View* Aliases::derive(View* parent, Value* value) {
  if (value == parent->value) return parent;
  View& view = views_.emplace_back();
  view.storage = parent->storage;
  view.parent = parent;
  view.node = value->producer();
  view.value = value;
  view.version = parent->storage->version;
  view.type = value->type();
  return &view;
}

Value* Aliases::read(View* view, Builder& b) {
  // Chains of views can be as long as the program, so no recursion.
  std::vector<View*> stale;
  View* v = view;
  while (v->parent != nullptr && v->version != v->storage->version) {
    stale.push_back(v);
    v = v->parent;
  }
  Value* content = v->value;
  for (auto it = stale.rbegin(); it != stale.rend(); ++it) {
    content = b.like(*(*it)->node, {content});
    if (content == nullptr) return nullptr;
    (*it)->value = content;
    (*it)->version = (*it)->storage->version;
  }
  return content;
}

// The parent's new content when `value` becomes the content of `view`.
Value* Aliases::scattered(const View& view, Value* value, Builder& b) {
  const Node& node = *view.node;
  const Shape& parent_shape = view.parent->type.shape;
  if (node.is(ops::kReshape)) return b.op(ops::kReshape, {value}, {{"shape", parent_shape}});
  if (node.is(ops::kPermute)) {
    const Ints& dims = node.ints("dims");
    Ints inverse(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      inverse[static_cast<size_t>(dims[i])] = static_cast<int64_t>(i);
    }
    return b.op(ops::kPermute, {value}, {{"dims", inverse}});
  }
  if (node.is(ops::kSlice)) {
    Value* base = read(view.parent, b);
    if (base == nullptr) return nullptr;
    return b.op(ops::kSliceScatter, {base, value},
                {{"dim", node.attr("dim")},
                 {"start", node.attr("start")},
                 {"end", node.attr("end")},
                 {"step", node.attr("step")}});
  }
  if (node.is(ops::kExpand) && num_elements(view.type.shape) == num_elements(parent_shape)) {
    return b.op(ops::kReshape, {value}, {{"shape", parent_shape}});
  }
  b.fail(unsupported("a write through a view in which one element appears several times"));
  return nullptr;
}

void Aliases::write(View* view, Value* value, Builder& b) {
  std::vector<std::pair<View*, Value*>> path = {{view, value}};
  while (path.back().first->parent != nullptr) {
    const auto [v, content] = path.back();
    Value* base = scattered(*v, content, b);
    if (base == nullptr) return;
    path.emplace_back(v->parent, base);
  }
  const int version = ++view->storage->version;
  for (const auto& [v, content] : path) {
    v->value = content;
    v->version = version;
  }
}

}  // namespace downhaul::aten
