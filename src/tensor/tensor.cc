#include "tensor/tensor.h"

#include <cmath>

#include "base/checked.h"
#include "base/strings.h"

namespace downhaul {

std::optional<int64_t> checked_num_elements(std::span<const int64_t> sizes) {
  int64_t n = 1;
  bool empty = false;
  for (const int64_t s : sizes) {
    if (s < 0) return std::nullopt;
    if (s == 0) {
      empty = true;
      continue;
    }
    const auto product = checked_mul(n, s);
    if (!product) return std::nullopt;
    n = *product;
  }
  return empty ? 0 : n;
}

std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  return strides;
}

std::shared_ptr<Storage> Storage::allocate(uint64_t bytes) {
  auto storage = std::make_shared<Storage>();
  storage->heap_.resize(bytes);
  storage->bytes_ = storage->heap_;
  return storage;
}

std::shared_ptr<Storage> Storage::map(std::shared_ptr<const MappedFile> file, uint64_t offset,
                                      uint64_t bytes, std::optional<uint32_t> crc32) {
  DH_CHECK(in_range(offset, bytes, file->bytes().size()));
  auto storage = std::make_shared<Storage>();
  storage->bytes_ = file->bytes().subspan(offset, bytes);
  storage->file_ = std::move(file);
  storage->file_offset_ = offset;
  storage->crc32_ = crc32;
  return storage;
}

std::span<uint8_t> Storage::mutable_bytes() {
  DH_CHECK(!file_);
  return heap_;
}

void Storage::release_pages() const {
  if (file_) file_->release(bytes_);
}

Tensor::Tensor(DType dtype, Sizes sizes) : dtype_(dtype), sizes_(std::move(sizes)) {
  const auto n = checked_num_elements(sizes_);
  DH_CHECK(n.has_value());
  storage_ = Storage::allocate(static_cast<uint64_t>(*n) * item_size(dtype));
}

Tensor::Tensor(DType dtype, Sizes sizes, std::shared_ptr<const Storage> storage,
               uint64_t byte_offset)
    : dtype_(dtype),
      sizes_(std::move(sizes)),
      storage_(std::move(storage)),
      byte_offset_(byte_offset) {
  DH_CHECK(checked_num_elements(sizes_).has_value());
  DH_CHECK(in_range(byte_offset_, num_bytes(), storage_->bytes().size()));
}

int64_t Tensor::num_elements() const { return checked_num_elements(sizes_).value_or(0); }

uint64_t Tensor::num_bytes() const {
  return static_cast<uint64_t>(num_elements()) * item_size(dtype_);
}

Bytes Tensor::bytes() const { return storage_->bytes().subspan(byte_offset_, num_bytes()); }

uint8_t* Tensor::mutable_bytes() {
  return const_cast<Storage*>(storage_.get())->mutable_bytes().data() + byte_offset_;
}

Tensor Tensor::scalar(DType dtype, double value) {
  Tensor t(dtype, {});
  t.set(0, value);
  return t;
}

namespace {

/// Reads a possibly unaligned element.
template <typename T>
T load(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}
template <typename T>
void store(uint8_t* p, T v) {
  std::memcpy(p, &v, sizeof(T));
}

/// double -> integer as C++ converts where that is defined; otherwise the nearest bound (NaN: 0).
int64_t to_int64(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return INT64_MAX;
  if (v < -0x1p63) return INT64_MIN;
  return static_cast<int64_t>(v);
}

}  // namespace

double Tensor::at(int64_t index) const {
  const uint8_t* p = bytes().data() + static_cast<size_t>(index) * item_size(dtype_);
  switch (dtype_) {
    case DType::kBool:
      return *p != 0;
    case DType::kU8:
      return *p;
    case DType::kI8:
      return load<int8_t>(p);
    case DType::kI16:
      return load<int16_t>(p);
    case DType::kI32:
      return load<int32_t>(p);
    case DType::kI64:
      return static_cast<double>(load<int64_t>(p));
    case DType::kF16:
      return half_to_float(load<uint16_t>(p));
    case DType::kBF16:
      return bf16_to_float(load<uint16_t>(p));
    case DType::kF32:
      return load<float>(p);
    case DType::kF64:
      return load<double>(p);
  }
  return 0;
}

int64_t Tensor::int_at(int64_t index) const {
  if (dtype_ == DType::kI64) {
    return load<int64_t>(bytes().data() + static_cast<size_t>(index) * sizeof(int64_t));
  }
  return to_int64(at(index));
}

void Tensor::set(int64_t index, double v) {
  uint8_t* p = mutable_bytes() + static_cast<size_t>(index) * item_size(dtype_);
  switch (dtype_) {
    case DType::kBool:
      *p = v != 0;
      break;
    case DType::kF16:
      store(p, float_to_half(static_cast<float>(v)));
      break;
    case DType::kBF16:
      store(p, float_to_bf16(static_cast<float>(v)));
      break;
    case DType::kF32:
      store(p, static_cast<float>(v));
      break;
    case DType::kF64:
      store(p, v);
      break;
    default:
      set_int(index, to_int64(v));
  }
}

void Tensor::set_int(int64_t index, int64_t v) {
  uint8_t* p = mutable_bytes() + static_cast<size_t>(index) * item_size(dtype_);
  switch (dtype_) {
    case DType::kU8:
      store(p, static_cast<uint8_t>(v));
      break;
    case DType::kI8:
      store(p, static_cast<int8_t>(v));
      break;
    case DType::kI16:
      store(p, static_cast<int16_t>(v));
      break;
    case DType::kI32:
      store(p, static_cast<int32_t>(v));
      break;
    case DType::kI64:
      store(p, v);
      break;
    case DType::kBool:
      *p = v != 0;
      break;
    default:
      set(index, static_cast<double>(v));
  }
}

Tensor Tensor::reshaped(Sizes sizes) const {
  DH_CHECK(checked_num_elements(sizes) == num_elements());
  Tensor t = *this;
  t.sizes_ = std::move(sizes);
  return t;
}

Tensor Tensor::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor out(dtype, sizes_);
  // Whole models of halves are widened when they are loaded.
  if (dtype_ == DType::kF16 && dtype == DType::kF32) {
    const auto* from = data<Half>();
    auto* to = out.mutable_data<float>();
    for (int64_t i = 0, n = num_elements(); i < n; ++i) to[i] = half_to_float(from[i].bits);
    return out;
  }
  const bool by_int = !is_float(dtype_) && !is_float(dtype);
  for (int64_t i = 0, n = num_elements(); i < n; ++i) {
    if (by_int) {
      out.set_int(i, int_at(i));
    } else {
      out.set(i, at(i));
    }
  }
  return out;
}

bool Tensor::is_splat(double* value) const {
  const Bytes all = bytes();
  const size_t step = item_size(dtype_);
  if (all.empty()) return false;
  // Compare with the shifted self, stopping at the first difference.
  if (all.size() > step && std::memcmp(all.data(), all.data() + step, all.size() - step) != 0) {
    return false;
  }
  if (value != nullptr) *value = at(0);
  return true;
}

Result<Tensor> strided_tensor(DType dtype, std::span<const int64_t> sizes,
                              std::span<const int64_t> strides, int64_t storage_offset,
                              std::shared_ptr<const Storage> storage) {
  const auto n = checked_num_elements(sizes);
  if (!n) return invalid_file(cat("sizes [", join(sizes, ","), "] are negative or overflow"));
  if (strides.size() != sizes.size()) {
    return invalid_file(cat(strides.size(), " strides for ", sizes.size(), " sizes"));
  }
  const auto item = static_cast<int64_t>(item_size(dtype));
  if (!checked_mul(*n, item)) return invalid_file("sizes overflow");
  const uint64_t available = storage->bytes().size();
  // First and last element that the view touches.
  int64_t last = storage_offset;
  if (storage_offset < 0) return invalid_file(cat("storage offset ", storage_offset));
  for (size_t i = 0; i < sizes.size() && *n > 0; ++i) {
    if (strides[i] < 0) return invalid_file(cat("negative stride ", strides[i]));
    const auto span = checked_mul(sizes[i] - 1, strides[i]);
    const auto sum = span ? checked_add(last, *span) : std::nullopt;
    if (!sum) return invalid_file("strides overflow");
    last = *sum;
  }
  const auto end = *n > 0 ? checked_add<int64_t>(last, 1) : std::optional<int64_t>(0);
  const auto end_bytes = end ? checked_mul(*end, item) : std::nullopt;
  if (!end_bytes || static_cast<uint64_t>(*end_bytes) > available) {
    return invalid_file(cat("tensor ", describe(dtype, sizes), " at offset ", storage_offset,
                            " needs ", end_bytes ? cat(*end_bytes) : std::string("too many"),
                            " bytes, found ", available));
  }
  Sizes kept(sizes.begin(), sizes.end());
  const uint64_t byte_offset =
      *n > 0 ? static_cast<uint64_t>(storage_offset) * static_cast<uint64_t>(item) : 0;
  bool contiguous = true;
  const auto wanted = contiguous_strides(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    contiguous = contiguous && (sizes[i] <= 1 || strides[i] == wanted[i]);
  }
  if (contiguous || *n == 0) return Tensor(dtype, std::move(kept), std::move(storage), byte_offset);

  // A stride of zero can blow a few bytes up to anything; refuse what no real file holds.
  if (static_cast<uint64_t>(*n) > (1ull << 34)) return invalid_file("expanded tensor is too large");
  Tensor out(dtype, std::move(kept));
  const uint8_t* from = storage->bytes().data();
  auto* to = out.mutable_data<uint8_t>();
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t at = storage_offset;
  for (int64_t i = 0; i < *n; ++i) {
    std::memcpy(to + i * item, from + at * item, static_cast<size_t>(item));
    for (size_t d = sizes.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < sizes[d]) break;
      at -= sizes[d] * strides[d];
      index[d] = 0;
    }
  }
  storage->release_pages();
  return out;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  if (a.storage() == b.storage() && a.byte_offset() == b.byte_offset()) return true;
  return a.num_bytes() == 0 || std::memcmp(a.bytes().data(), b.bytes().data(), a.num_bytes()) == 0;
}

std::string describe(DType dtype, std::span<const int64_t> sizes) {
  return cat(name(dtype), "[", join(sizes, ","), "]");
}

}  // namespace downhaul
