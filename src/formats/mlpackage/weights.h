#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "formats/mlpackage/mil.h"

/// The weight file of a package (`weight.bin`, storage version 2). Layout: README.md in this
/// folder.
namespace downhaul::mil {

/// Elements in the mapped file.
struct Blob {
  DType dtype = DType::kUnused;
  Bytes bytes;
  uint64_t offset = 0;  ///< of the bytes in the file
};

/// Thread-safe to read.
class WeightFile {
 public:
  /// Errors: kInvalidFile for another version, or a file shorter than its header.
  static Result<std::shared_ptr<const WeightFile>> open(const std::string& path);

  const std::shared_ptr<const MappedFile>& file() const { return file_; }
  /// The blob whose metadata begins at `offset`. Errors: kInvalidFile naming place and fault.
  Result<Blob> blob(uint64_t offset) const;

 private:
  std::shared_ptr<const MappedFile> file_;
};

/// Plans blobs one after another, then writes them all: offsets are known before bytes are.
class WeightWriter {
 public:
  using Writer = std::function<Status(OutputFile&)>;

  /// Offset of the blob's metadata. `write` must append exactly `bytes` bytes.
  /// Errors: kUnsupported for a type that has no code.
  Result<uint64_t> add(DType dtype, uint64_t elements, Writer write);
  bool empty() const { return blobs_.empty(); }
  size_t count() const { return blobs_.size(); }
  uint64_t size() const { return end_; }  ///< of the whole file

  /// Errors: those of writing.
  Status write(OutputFile& out) const;

 private:
  struct Planned {
    DType dtype;
    uint64_t elements;
    uint64_t bytes;
    uint64_t offset;  ///< of the metadata
    Writer write;
  };
  std::vector<Planned> blobs_;
  uint64_t end_ = 64;
};

/// Bytes of `elements` elements, the last one filled up with zero bits.
uint64_t bytes_of(DType dtype, uint64_t elements);

}  // namespace downhaul::mil
