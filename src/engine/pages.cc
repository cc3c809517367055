#include "engine/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace downhaul::engine {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLargestPage = size_t{64} << 10;  // of any system's ordinary ones
constexpr size_t kChunk = size_t{64} << 20;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

void* map_memory(size_t bytes) {
  const size_t size = round_up(bytes, kLargestPage);
  // Huge pages begin at multiples of their size: what is before and behind goes back.
  const size_t spare = size >= kHugePage ? kHugePage : 0;
  void* mapped =
      ::mmap(nullptr, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (spare == 0) return mapped;
  auto* begin = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  const size_t before = round_up(address, kHugePage) - address;
  if (before > 0) ::munmap(begin, before);
  if (before < spare) ::munmap(begin + before + size, spare - before);
#ifdef MADV_HUGEPAGE
  ::madvise(begin + before, size, MADV_HUGEPAGE);
#endif
  return begin + before;
}

void unmap_memory(void* memory, size_t bytes) { ::munmap(memory, round_up(bytes, kLargestPage)); }

Pages::~Pages() {
  for (const Chunk& chunk : chunks_) unmap_memory(chunk.data, chunk.bytes);
}

void* Pages::take(size_t bytes) {
  const size_t size = round_up(bytes, 64);
  if (chunks_.empty() || chunks_.back().bytes - used_ < size) {
    const size_t chunk = std::max(size, kChunk);
    void* data = map_memory(chunk);
    if (data == nullptr) throw std::bad_alloc();
    chunks_.push_back({data, chunk});
    used_ = 0;
  }
  void* block = static_cast<std::byte*>(chunks_.back().data) + used_;
  used_ += size;
  return block;
}

}  // namespace downhaul::engine
