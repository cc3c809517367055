#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status.h"

/// Tensors in safetensors files. Layout: README.md in this folder.
namespace downhaul::safetensors {

enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kF6E2M3,
  kF6E3M2,
  kF4,
};
/// The name in the file: "F32".
std::string_view name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
/// Bits of one element; 6 and 4 for the packed types.
uint32_t item_bits(DType dtype);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  ///< row-major, contiguous; {} is a scalar
  uint64_t offset = 0;         ///< from the start of the file
  uint64_t size = 0;           ///< bytes
};

/// An opened file. The header is checked: offsets cover the data exactly, sizes match the shapes.
class File {
 public:
  const std::shared_ptr<const MappedFile>& mapped() const { return file_; }
  /// In the order of their data in the file.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  /// nullptr when absent.
  const TensorInfo* find(std::string_view name) const;
  Bytes bytes(const TensorInfo& tensor) const {
    return file_->bytes().subspan(tensor.offset, tensor.size);
  }
  /// `__metadata__`, in file order.
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }

 private:
  friend Result<File> read(std::shared_ptr<const MappedFile> file);
  std::shared_ptr<const MappedFile> file_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::unordered_map<std::string, size_t> index_;
};

/// Errors: kInvalidFile with what is wrong and where (README.md lists the checks).
Result<File> read(const std::string& path);
Result<File> read(std::shared_ptr<const MappedFile> file);

/// Several files that together hold one checkpoint (`*.safetensors.index.json`), or a single one.
struct Checkpoint {
  Checkpoint() = default;
  Checkpoint(Checkpoint&&) = default;  // not copyable: locations point into `files`
  Checkpoint& operator=(Checkpoint&&) = default;

  std::vector<File> files;
  struct Location {
    size_t file = 0;
    const TensorInfo* tensor = nullptr;
  };
  std::unordered_map<std::string, Location> tensors;
};
/// `path`: a .safetensors file, or an index file whose shards lie beside it. Errors: as read;
/// kInvalidFile for a shard name with a folder in it, a tensor that is not in the shard the index
/// names; kNotFound for a missing shard.
Result<Checkpoint> read_checkpoint(const std::string& path);

/// Writes a file whose tensors are known beforehand and whose data arrives in order.
class Writer {
 public:
  struct Declaration {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
  };
  /// Writes the header; data order is the order of `tensors`. Errors: kInvalidArgument for a
  /// duplicate or reserved name, a negative size or an overflow; kIo.
  static Result<Writer> create(
      const std::string& path, std::vector<Declaration> tensors,
      const std::vector<std::pair<std::string, std::string>>& metadata = {});

  /// Data of the next tensor, whole or in pieces; pieces may not reach into the following tensor.
  Status append(Bytes bytes);
  /// All data must have been appended.
  Status commit(bool sync = false);

 private:
  Writer(OutputFile out) : out_(std::move(out)) {}
  OutputFile out_;
  std::vector<uint64_t> sizes_;
  std::vector<std::string> names_;
  size_t current_ = 0;
  uint64_t written_ = 0;  ///< of the current tensor
};

}  // namespace downhaul::safetensors
