#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/status.h"

/// ZIP archives whose stored entries are used in place, inside the mapped file. Layout and the
/// checks: README.md in this folder.
namespace downhaul {

struct ZipEntry {
  std::string name;          ///< as in the archive; never a path to open
  uint16_t method = 0;       ///< 0 stored, 8 deflated
  uint32_t crc32 = 0;        ///< stated by the central directory
  uint64_t stored_size = 0;  ///< bytes in the archive
  uint64_t size = 0;         ///< bytes after inflating
  uint64_t data_offset = 0;  ///< from the start of the archive
};

/// Bytes of an entry, and what keeps them alive beside the archive itself.
struct ZipBytes {
  Bytes bytes;
  /// Offset in the mapped file; nullopt for inflated bytes, or when the archive is not in a file.
  std::optional<uint64_t> file_offset;
  std::shared_ptr<const std::vector<uint8_t>> inflated;
};

/// A checked archive: opening reads the directory and the local headers by plain reads, so that no
/// page of the payloads is touched. Cheap to copy. Not thread-safe for
/// deflated entries.
class ZipArchive {
 public:
  /// An archive that is `size` bytes of `file` from `offset`.
  static Result<ZipArchive> open(std::shared_ptr<const MappedFile> file);
  static Result<ZipArchive> open(std::shared_ptr<const MappedFile> file, uint64_t offset,
                                 uint64_t size);
  /// An archive in memory: a deflated entry of another one.
  static Result<ZipArchive> open(std::shared_ptr<const std::vector<uint8_t>> bytes);
  /// An archive that is an entry of another one, in place where it can be.
  static Result<ZipArchive> open(const ZipArchive& outer, const ZipEntry& entry);

  /// In the order of the directory. Names are unique.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;

  /// The content: in place when stored, else inflated. Errors: kInvalidFile for bad compressed
  /// data, for a size unlike the declared one, and for more inflated bytes in all than the archive
  /// can explain (README.md); kUnsupported for another method.
  Result<ZipBytes> read(const ZipEntry& entry) const;

  /// Compares the stated CRC-32 with the stored bytes, by plain reads in small pieces.
  Status verify_crc(const ZipEntry& entry) const;

 private:
  /// How much may still be inflated; shared with the archives inside this one.
  struct Budget {
    uint64_t used = 0;
    uint64_t limit = 0;
  };
  struct Directory;  ///< where the central directory lies

  Status load();
  Result<Directory> find_directory() const;
  Status read_directory(const Directory& directory);
  Status check_local_header(ZipEntry& entry, uint64_t header_offset, uint16_t flags) const;
  Result<std::vector<uint8_t>> inflate(const ZipEntry& entry) const;
  Status read_at(uint64_t offset, std::span<uint8_t> out) const;

  std::shared_ptr<const MappedFile> file_;
  std::shared_ptr<const std::vector<uint8_t>> memory_;
  uint64_t offset_ = 0;
  uint64_t size_ = 0;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, size_t> index_;
  std::shared_ptr<Budget> budget_;
};

/// CRC-32 of `size` bytes of `file` from `offset`, by plain reads: no page is mapped in.
Result<uint32_t> crc32_of_range(const MappedFile& file, uint64_t offset, uint64_t size);

}  // namespace downhaul
