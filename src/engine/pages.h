#pragma once

#include <cstddef>
#include <vector>

namespace downhaul::engine {

/// Zeroed memory of its own, in huge pages where the system has them and `bytes` fill some: what
/// weights and activations cost in address translation is felt. Null when there is none.
void* map_memory(size_t bytes);
/// Gives back what map_memory(bytes) gave.
void unmap_memory(void* memory, size_t bytes);

/// Memory for blocks that live as long as this, side by side in huge pages. Pages that no block
/// was written to take no memory.
class Pages {
 public:
  Pages() = default;
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  /// 64-byte aligned; throws std::bad_alloc when there is no memory.
  void* take(size_t bytes);

 private:
  struct Chunk {
    void* data;
    size_t bytes;
  };
  std::vector<Chunk> chunks_;
  size_t used_ = 0;  ///< of the last chunk
};

}  // namespace downhaul::engine
