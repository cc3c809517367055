#include "engine/weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/hash.h"
#include "base/strings.h"

// A file of the cache holds one block: a page of header, then the packed floats. Its name and its
// header state the key (what was packed, how, by which version); its payload has a checksum. It is
// written under another name and renamed, so a reader sees a whole file or none; what does not fit
// in every field is packed anew and written over.
namespace downhaul::engine {
namespace {

constexpr std::array<char, 8> kMagic = {'D', 'H', 'P', 'A', 'C', 'K', 'E', 'D'};
// To be raised whenever a packed layout changes.
constexpr uint64_t kLayoutVersion = 1;
constexpr size_t kHeaderBytes = 4096;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint64_t version = kLayoutVersion;
  uint64_t key = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

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

void* allocate_pages(size_t bytes) {
  // Pages of their own: packed weights are most of a process's memory, and the heap would keep
  // holes where they were.
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  ::madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return data;
}

/// A cache that cannot be written is no reason to fail: the next process packs again.
void write_cached(const std::string& folder, const std::string& path, uint64_t key, Bytes payload) {
  if (!make_directories(folder).ok()) return;
  auto file = OutputFile::create(path);
  if (!file.ok()) return;
  Header header;
  header.key = key;
  header.bytes = payload.size();
  header.checksum = hash_bytes(payload);
  const Bytes head(reinterpret_cast<const uint8_t*>(&header), sizeof header);
  if (file->write(head).ok() && file->write_zeros(kHeaderBytes - sizeof header).ok() &&
      file->write(payload).ok()) {
    (void)file->commit();
  }
}

}  // namespace

Weights::~Weights() {
  for (auto& [key, block] : blocks_) {
    if (block.file == nullptr) ::munmap(block.data, block.bytes);
  }
}

std::shared_ptr<const MappedFile> Weights::find_cached(const std::string& path, uint64_t key,
                                                       size_t bytes) const {
  auto file = MappedFile::open(path);
  if (!file.ok()) return nullptr;
  const Bytes all = (*file)->bytes();
  if (all.size() != kHeaderBytes + bytes) return nullptr;
  Header header;
  std::memcpy(&header, all.data(), sizeof header);
  if (header.magic != kMagic || header.version != kLayoutVersion || header.key != key ||
      header.bytes != bytes || header.checksum != hash_bytes(all.subspan(kHeaderBytes))) {
    return nullptr;
  }
  return *file;
}

const float* Weights::packed(const Tensor& source, const Tensor& companion,
                             const std::string& layout, size_t bytes,
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
    block.file = find_cached(path, content, block.bytes);
  }
  if (block.file != nullptr) {
    // Nobody writes through it: the map is read-only.
    block.data = const_cast<uint8_t*>(block.file->bytes().data() + kHeaderBytes);
    ++from_cache_;
  } else {
    block.data = allocate_pages(block.bytes);
    pack(static_cast<float*>(block.data));
    if (!path.empty()) {
      write_cached(cache_folder_, path, content,
                   Bytes(static_cast<const uint8_t*>(block.data), block.bytes));
      // From now on as a later process would: the pages are the file's, and shared.
      if (auto file = find_cached(path, content, block.bytes)) {
        ::munmap(block.data, block.bytes);
        block.data = const_cast<uint8_t*>(file->bytes().data() + kHeaderBytes);
        block.file = std::move(file);
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
