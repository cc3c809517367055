#pragma once

#include <deque>
#include <string>

#include "ir/graph.h"

/// Functionalisation: programs that write into tensors, as values that are never written.
///
/// Every tensor of the program is a View: a whole storage, or a view of another View through one
/// reshape, permute, expand or slice. A storage has a version that each write raises; a view knows
/// the version that its value belongs to, and is derived again from its parent when it is read
/// after a newer write. A write through a view becomes a scatter into its parent, up to the
/// storage.
namespace downhaul::aten {

struct StorageInfo;

struct View {
  StorageInfo* storage = nullptr;
  View* parent = nullptr;      ///< null for the whole storage
  const Node* node = nullptr;  ///< how it is derived from the parent; null: the same elements
  Value* value = nullptr;      ///< content as of `version`
  int version = 0;
  TensorType type;  ///< never changes
};

/// Memory that views share.
struct StorageInfo {
  enum class Source { kIntermediate, kUserInput, kWeight };
  Source source = Source::kIntermediate;
  int placeholder = -1;  ///< index of the graph input it came from
  View* whole = nullptr;
  Value* initial = nullptr;
  int version = 0;  ///< number of writes so far
  /// Its initial content decided something while reading, so it must not change.
  bool content_used = false;
};

class Aliases {
 public:
  /// A storage of its own for `value`.
  View* fresh(Value* value);
  /// A view of `parent` whose current content is `value`, which `value->producer()` computed from
  /// the parent's content; or, when `value` is the parent's content, another name for it.
  View* derive(View* parent, Value* value);

  /// Current content. Adds nodes when a write since made the last one stale.
  /// Null after an error of `b`.
  Value* read(View* view, Builder& b);
  /// Makes `value` (of the view's type) the content of `view`, seen by every alias.
  void write(View* view, Value* value, Builder& b);

  const std::deque<StorageInfo>& storages() const { return storages_; }

 private:
  Value* scattered(const View& view, Value* value, Builder& b);
  std::deque<View> views_;
  std::deque<StorageInfo> storages_;
};

}  // namespace downhaul::aten
