#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "formats/zip/zip.h"

/// Tensors in `torch.save` files (`.pth`, `.pt`, `pytorch_model.bin`, parts of older `.pt2`
/// archives). The pickle inside is interpreted with a closed set of names; nothing is imported or
/// called. Layout and the set: README.md in this folder.
namespace downhaul::torch_save {

enum class DType : uint8_t {
  kBool,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kComplex32,
  kComplex64,
  kComplex128,
  kFloat8E4m3fn,
  kFloat8E5m2,
  kFloat8E4m3fnuz,
  kFloat8E5m2fnuz,
  kFloat8E8m0fnu,
};
/// "float32".
std::string_view name(DType dtype);
uint32_t item_size(DType dtype);

/// One block of bytes. Tensors that name the same storage are tied or views of each other.
struct Storage {
  std::string key;  ///< the file's own name for it
  Bytes bytes;
  /// Where `bytes` begin in the mapped file; nullopt when they were compressed.
  std::optional<uint64_t> file_offset;
  std::shared_ptr<const std::vector<uint8_t>> inflated;
};

/// A strided view of a storage, checked to lie inside it.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  ///< in elements, >= 0
  int64_t storage_offset = 0;    ///< in elements
  uint32_t storage = 0;          ///< index into File::storages
};

struct File {
  std::shared_ptr<const MappedFile> file;
  /// In file order. When the top value is a dictionary that nests the tensors under `state_dict`,
  /// `model` or `model_state_dict`, those of the nested one.
  std::vector<TensorInfo> tensors;
  std::vector<Storage> storages;
  /// Names beside the tensors that hold something else.
  std::vector<std::string> other_names;

  /// nullptr when absent.
  const TensorInfo* find(std::string_view name) const;
};

/// Both the ZIP form and the form before torch 1.6.
/// Errors: kInvalidFile for damaged files; kUnsupported for a pickle that wants anything outside
/// the closed set (named), for TorchScript and big-endian files.
Result<File> read(const std::string& path);
Result<File> read(std::shared_ptr<const MappedFile> file);
/// A nested archive; `file` is what it is mapped from.
Result<File> read(const ZipArchive& archive, std::shared_ptr<const MappedFile> file);

}  // namespace downhaul::torch_save
