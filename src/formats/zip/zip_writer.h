#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace downhaul {

/// Builds a ZIP archive in memory, with the habits of `torch.save` where asked for: aligned
/// payloads, sizes behind the data.
class ZipWriter {
 public:
  struct Options {
    bool deflate = false;
    uint32_t alignment = 1;        ///< of the payload, from the start of the archive
    bool data_descriptor = false;  ///< CRC and sizes are 0 in the local header and follow the data
    bool zip64 = false;            ///< ZIP64 records even where they are not needed
  };

  ZipWriter() = default;
  explicit ZipWriter(Options options) : options_(options) {}

  void add(std::string_view name, Bytes content);
  void add(std::string_view name, std::string_view content) { add(name, as_bytes(content)); }
  /// Offset of the payload that was added last.
  uint64_t last_offset() const { return last_offset_; }
  /// Closes the archive and hands its bytes over.
  std::vector<uint8_t> finish();

 private:
  struct Entry {
    std::string name;
    uint32_t crc32 = 0;
    uint64_t stored_size = 0;
    uint64_t size = 0;
    uint64_t header_offset = 0;
  };
  Options options_;
  std::vector<uint8_t> out_;
  std::vector<Entry> entries_;
  uint64_t last_offset_ = 0;
};

}  // namespace downhaul
