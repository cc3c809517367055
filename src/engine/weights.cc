#include "engine/weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/strings.h"
#include "engine/pages.h"

// A file of the cache holds one block: a page of header, then the packed floats. Its name and its
// header state the key (what was packed, how, by which version); its payload has a checksum. It is
// written under another name and renamed, so a reader sees a whole file or none; what does not fit
// in every field is packed anew and written over.
namespace downhaul::engine {
namespace {

constexpr std::array<char, 8> kMagic = {'D', 'H', 'P', 'A', 'C', 'K', 'E', 'D'};
// To be raised whenever a packed layout changes.
constexpr uint64_t kLayoutVersion = 2;
constexpr size_t kHeaderBytes = 4096;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint64_t version = kLayoutVersion;
  uint64_t key = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

/// All pages of a part of a mapped file with one call instead of a fault for every few.
void map_pages([[maybe_unused]] Bytes bytes) {
#ifdef MADV_POPULATE_READ
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / kHeaderBytes * kHeaderBytes;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size();
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
#endif
}

/// The container's checksum when it states one: then the source need not be read.
uint64_t content_of(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  const Storage& storage = *tensor.storage();
  const uint64_t place = hash_text(cat(describe(tensor), " ", tensor.byte_offset()));
  if (storage.crc32()) return hash_text(cat(*storage.crc32(), " ", storage.bytes().size()), place);
  return hash_bytes(tensor.bytes(), place);
}

std::string hex(uint64_t number) {
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(number));
  return text.data();
}

/// Of pieces that threads share: reading a payload from other memory is most of what a load costs.
uint64_t checksum_of(Bytes payload, ThreadPool& pool) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<uint64_t> pieces((payload.size() + kPiece - 1) / kPiece);
  pool.run(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const Bytes piece =
          payload.subspan(i * kPiece, std::min(kPiece, payload.size() - i * kPiece));
      map_pages(piece);
      pieces[i] = hash_bytes(piece);
    }
  });
  return hash_bytes(
      Bytes(reinterpret_cast<const uint8_t*>(pieces.data()), pieces.size() * sizeof(uint64_t)));
}

/// A cache that cannot be written is no reason to fail: the next process packs again.
void write_cached(const std::string& folder, const std::string& path, uint64_t key, Bytes payload,
                  ThreadPool& pool) {
  if (!make_directories(folder).ok()) return;
  auto file = OutputFile::create(path);
  if (!file.ok()) return;
  Header header;
  header.key = key;
  header.bytes = payload.size();
  header.checksum = checksum_of(payload, pool);
  const Bytes head(reinterpret_cast<const uint8_t*>(&header), sizeof header);
  if (file->write(head).ok() && file->write_zeros(kHeaderBytes - sizeof header).ok() &&
      file->write(payload).ok()) {
    (void)file->commit();
  }
}

}  // namespace

std::shared_ptr<const MappedFile> Weights::find_cached(const std::string& path, uint64_t key,
                                                       size_t bytes, ThreadPool& pool) const {
  auto file = MappedFile::open(path);
  if (!file.ok()) return nullptr;
  const Bytes all = (*file)->bytes();
  if (all.size() != kHeaderBytes + bytes) return nullptr;
  Header header;
  std::memcpy(&header, all.data(), sizeof header);
  if (header.magic != kMagic || header.version != kLayoutVersion || header.key != key ||
      header.bytes != bytes || header.checksum != checksum_of(all.subspan(kHeaderBytes), pool)) {
    return nullptr;
  }
  return *file;
}

const float* Weights::packed(const Tensor& source, const Tensor& companion,
                             const std::string& layout, size_t bytes, ThreadPool& pool,
                             const std::function<void(float*)>& pack) {
  const std::lock_guard lock(mutex_);
  const Key key{source.storage().get(), source.byte_offset(), companion.storage().get(),
                companion.byte_offset(), layout};
  const auto found = blocks_.find(key);
  if (found != blocks_.end()) return static_cast<const float*>(found->second.data);
  Block block;
  block.bytes = std::max<size_t>(bytes, 1);
  block.source = source;
  block.companion = companion;
  std::string path;
  uint64_t content = 0;
  if (!cache_folder_.empty()) {
    content = hash_text(layout, content_of(source) ^ (content_of(companion) * 3));
    path = cat(cache_folder_, "/", hex(content), ".packed");
    block.file = find_cached(path, content, block.bytes, pool);
  }
  if (block.file != nullptr) {
    // Nobody writes through it: the map is read-only.
    block.data = const_cast<uint8_t*>(block.file->bytes().data() + kHeaderBytes);
    ++from_cache_;
  } else {
    if (path.empty()) {
      block.data = pages_.take(block.bytes);
      pack(static_cast<float*>(block.data));
    } else {
      Pages memory;
      block.data = memory.take(block.bytes);
      pack(static_cast<float*>(block.data));
      write_cached(cache_folder_, path, content,
                   Bytes(static_cast<const uint8_t*>(block.data), block.bytes), pool);
      // From now on as a later process would: the pages are the file's, and shared.
      if (auto file = find_cached(path, content, block.bytes, pool)) {
        block.data = const_cast<uint8_t*>(file->bytes().data() + kHeaderBytes);
        block.file = std::move(file);
      } else {
        const void* packed = std::exchange(block.data, pages_.take(block.bytes));
        std::memcpy(block.data, packed, block.bytes);
      }
    }
  }
  source.storage()->release_pages();
  const auto* data = static_cast<const float*>(block.data);
  blocks_.emplace(key, std::move(block));
  return data;
}

size_t Weights::total_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& [key, block] : blocks_) total += block.bytes;
  return total;
}

int Weights::num_from_cache() const {
  const std::lock_guard lock(mutex_);
  return from_cache_;
}

}  // namespace downhaul::engine
