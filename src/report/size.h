#pragma once

#include <string>
#include <vector>

#include "formats/pte/pte.h"
#include "formats/zip/zip.h"

/// Where the bytes of an ExecuTorch program or of an exported PyTorch program are.
namespace downhaul {

struct SizePart {
  std::string name;  ///< "flatbuffer", "constants", "delegate payloads", "named data", "padding" …
  uint64_t bytes = 0;
};

/// Stretches of the file with the same content.
struct DuplicateBytes {
  uint64_t bytes = 0;               ///< of one copy
  std::vector<std::string> owners;  ///< one per copy, at least two
};

struct FileSizeReport {
  uint64_t file_size = 0;
  std::vector<SizePart> parts;  ///< sums to file_size
  std::vector<DuplicateBytes> duplicates;
  uint64_t duplicated_bytes = 0;  ///< what storing each block once would save
};

/// Reads constants and named blobs to find duplicates of at least `min_duplicate` bytes.
FileSizeReport size_report(const PteFile& file, uint64_t min_duplicate = 1024);

/// The same of a `.pt2`, an archive of `file_size` bytes, by the folders inside.
Result<FileSizeReport> size_report(const ZipArchive& archive, uint64_t file_size,
                                   uint64_t min_duplicate = 1024);

std::string print(const FileSizeReport& report);

}  // namespace downhaul
