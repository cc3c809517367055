#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/status.h"

/// For tests of kernels.
namespace downhaul::kernels {

/// `size` elements between two pages that may not be touched: reading or writing one element too
/// far ends the test at once. The elements end exactly at the second page, so their start is
/// aligned as badly as their number makes it; `kFront` puts them right behind the first page
/// instead. Bytes begin as 0xFF, which is NaN in every float type.
template <typename T>
class GuardedBuffer {
 public:
  enum class Side { kBack, kFront };

  explicit GuardedBuffer(size_t size, Side side = Side::kBack) : size_(size) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t inside = (size * sizeof(T) + page - 1) / page * page;
    mapped_ = inside + 2 * page;
    void* base = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    DH_CHECK(base != MAP_FAILED);
    base_ = static_cast<uint8_t*>(base);
    uint8_t* first = base_ + page;
    if (inside != 0) {
      DH_CHECK(::mprotect(first, inside, PROT_READ | PROT_WRITE) == 0);
      std::memset(first, 0xFF, inside);
    }
    const size_t offset = side == Side::kBack ? inside - size * sizeof(T) : 0;
    data_ = reinterpret_cast<T*>(first + offset);
  }
  ~GuardedBuffer() { ::munmap(base_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  size_t size_;
  size_t mapped_ = 0;
  uint8_t* base_ = nullptr;
  T* data_ = nullptr;
};

}  // namespace downhaul::kernels
