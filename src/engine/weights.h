#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/file.h"
#include "base/thread_pool.h"
#include "engine/pages.h"
#include "tensor/tensor.h"

namespace downhaul::engine {

/// Weights in the order in which kernels read them, made once and shared by every session of a
/// model. Thread-safe.
class Weights {
 public:
  Weights() = default;
  /// Keeps packed weights in files of `cache_folder` too, and maps them from there the next time,
  /// in this process or another: see weights.cc for the file. Empty: no cache.
  explicit Weights(std::string cache_folder) : cache_folder_(std::move(cache_folder)) {}
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  /// `bytes` (64-byte aligned) filled by `pack` on the first call for the same source, layout and
  /// companion (the bias that is packed along; may be undefined). Afterwards the pages of a mapped
  /// source are given back. `pool` checks what comes out of the cache.
  const float* packed(const Tensor& source, const Tensor& companion, const std::string& layout,
                      size_t bytes, ThreadPool& pool, const std::function<void(float*)>& pack);

  /// Of everything packed so far, mapped from the cache included.
  size_t total_bytes() const;
  /// Blocks that came out of the cache.
  int num_from_cache() const;

 private:
  struct Key {
    const void* source;
    uint64_t offset;
    const void* companion;
    uint64_t companion_offset;
    std::string layout;
    auto operator<=>(const Key&) const = default;
  };
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
    std::shared_ptr<const MappedFile> file;  ///< of the cache, if it holds `data`
    Tensor source, companion;                ///< keep their storage's address from being used again
  };
  std::shared_ptr<const MappedFile> find_cached(const std::string& path, uint64_t key, size_t bytes,
                                                ThreadPool& pool) const;

  const std::string cache_folder_;
  int from_cache_ = 0;
  mutable std::mutex mutex_;
  Pages pages_;
  std::map<Key, Block> blocks_;
};

}  // namespace downhaul::engine
