#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace downhaul {

/// Sizes of a concrete tensor, outermost dimension first.
using Sizes = std::vector<int64_t>;

/// Product of the sizes; nullopt when negative or above 2^63-1.
std::optional<int64_t> checked_num_elements(std::span<const int64_t> sizes);
/// Row-major strides in elements.
std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes);

/// A block of bytes that tensors point into. Its address is its identity: tensors that share a
/// Storage are tied. The bytes are on the heap or inside a mapped file; mapped bytes cost no memory
/// until someone reads them.
class Storage {
 public:
  /// Zero-filled heap bytes.
  static std::shared_ptr<Storage> allocate(uint64_t bytes);
  /// `bytes` of `file` from `offset`, which the caller has checked. `crc32`: the checksum that the
  /// container states for exactly these bytes, if it does (a cheap hint that two may be equal).
  static std::shared_ptr<Storage> map(std::shared_ptr<const MappedFile> file, uint64_t offset,
                                      uint64_t bytes, std::optional<uint32_t> crc32 = {});

  Bytes bytes() const { return bytes_; }
  /// Only for heap storage.
  std::span<uint8_t> mutable_bytes();

  /// The mapped file and the offset in it, or null and 0 for heap storage.
  const MappedFile* file() const { return file_.get(); }
  uint64_t file_offset() const { return file_offset_; }
  std::optional<uint32_t> crc32() const { return crc32_; }
  /// After a mapped storage was read once: gives its pages back (see MappedFile::release).
  void release_pages() const;

 private:
  std::vector<uint8_t> heap_;
  std::shared_ptr<const MappedFile> file_;
  uint64_t file_offset_ = 0;
  Bytes bytes_;
  std::optional<uint32_t> crc32_;
};

/// A concrete row-major tensor that shares its storage; copying copies a pointer. Data of a tensor
/// that may be shared is never written: allocate a new one.
class Tensor {
 public:
  Tensor() = default;
  /// Zero-filled. Sizes must have a product (DH_CHECK).
  Tensor(DType dtype, Sizes sizes);
  /// A view of `storage` at `byte_offset`; must lie inside it (DH_CHECK).
  Tensor(DType dtype, Sizes sizes, std::shared_ptr<const Storage> storage, uint64_t byte_offset);

  /// Values in row-major order; count must equal the product of the sizes (DH_CHECK).
  template <typename T>
  static Tensor from(Sizes sizes, std::span<const T> values);
  template <typename T>
  static Tensor from(Sizes sizes, const std::vector<T>& values) {
    return from<T>(std::move(sizes), std::span<const T>(values));
  }
  /// Rank 0.
  static Tensor scalar(DType dtype, double value);

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Sizes& sizes() const { return sizes_; }
  int64_t rank() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t size(int64_t dim) const { return sizes_[static_cast<size_t>(dim)]; }
  int64_t num_elements() const;
  uint64_t num_bytes() const;

  Bytes bytes() const;
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes().data());
  }
  /// Writable data of a tensor made by Tensor(dtype, sizes) and not yet handed out.
  template <typename T>
  T* mutable_data() {
    return reinterpret_cast<T*>(mutable_bytes());
  }

  /// Element `index` (row-major) converted to double / int64, whatever the dtype.
  double at(int64_t index) const;
  int64_t int_at(int64_t index) const;
  /// Stores `value` converted as torch does (truncation towards zero, != 0 for bool).
  void set(int64_t index, double value);
  void set_int(int64_t index, int64_t value);

  const std::shared_ptr<const Storage>& storage() const { return storage_; }
  uint64_t byte_offset() const { return byte_offset_; }

  /// Same data under other sizes; the products must agree (DH_CHECK).
  Tensor reshaped(Sizes sizes) const;
  /// Converted copy (or the same tensor when the dtype does not change).
  Tensor cast(DType dtype) const;
  /// True when all elements are equal; `value` receives it. Empty tensors are not.
  bool is_splat(double* value = nullptr) const;

 private:
  uint8_t* mutable_bytes();
  DType dtype_ = DType::kF32;
  Sizes sizes_;
  std::shared_ptr<const Storage> storage_;
  uint64_t byte_offset_ = 0;
};

/// Copies a strided view (strides and offset in elements) into a new contiguous tensor, or returns
/// a view of the same storage when it is contiguous already.
/// Errors: kInvalidFile when an element lies outside the storage, sizes are negative or overflow.
Result<Tensor> strided_tensor(DType dtype, std::span<const int64_t> sizes,
                              std::span<const int64_t> strides, int64_t storage_offset,
                              std::shared_ptr<const Storage> storage);

/// True when dtype, sizes and bytes agree. Does not read anything when both share storage/offset.
bool same_bytes(const Tensor& a, const Tensor& b);

/// "f32[1,128,768]".
std::string describe(DType dtype, std::span<const int64_t> sizes);
inline std::string describe(const Tensor& t) { return describe(t.dtype(), t.sizes()); }

/// C++ type of each DType; half types are their bit pattern in a struct of their own.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};

template <typename T>
Tensor Tensor::from(Sizes sizes, std::span<const T> values) {
  Tensor t(DTypeOf<T>::value, std::move(sizes));
  DH_CHECK(static_cast<int64_t>(values.size()) == t.num_elements());
  T* out = t.mutable_data<T>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return t;
}

// std::vector<bool> has no span.
inline Tensor bool_tensor(Sizes sizes, const std::vector<bool>& values) {
  Tensor t(DType::kBool, std::move(sizes));
  DH_CHECK(static_cast<int64_t>(values.size()) == t.num_elements());
  bool* out = t.mutable_data<bool>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return t;
}

}  // namespace downhaul
