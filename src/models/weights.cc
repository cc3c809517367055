#include "models/weights.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "base/strings.h"
#include "formats/pickle/pickle.h"
#include "formats/safetensors/safetensors.h"
#include "formats/sniff.h"
#include "formats/weight_index.h"

namespace downhaul::models {
namespace {

std::string in_quotes(std::string_view name) { return cat("'", printable(name), "'"); }

// At most this many names in one message.
constexpr size_t kMaxNamed = 24;

std::string some_of(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    out += cat(i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kMaxNamed) out += cat(" and ", names.size() - kMaxNamed, " more");
  return out;
}

std::optional<DType> ir_type(safetensors::DType dtype) {
  switch (dtype) {
    case safetensors::DType::kBool:
      return DType::kBool;
    case safetensors::DType::kU8:
      return DType::kU8;
    case safetensors::DType::kI8:
      return DType::kI8;
    case safetensors::DType::kI16:
      return DType::kI16;
    case safetensors::DType::kI32:
      return DType::kI32;
    case safetensors::DType::kI64:
      return DType::kI64;
    case safetensors::DType::kF16:
      return DType::kF16;
    case safetensors::DType::kBF16:
      return DType::kBF16;
    case safetensors::DType::kF32:
      return DType::kF32;
    case safetensors::DType::kF64:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

std::optional<DType> ir_type(torch_save::DType dtype) {
  switch (dtype) {
    case torch_save::DType::kBool:
      return DType::kBool;
    case torch_save::DType::kUint8:
      return DType::kU8;
    case torch_save::DType::kInt8:
      return DType::kI8;
    case torch_save::DType::kInt16:
      return DType::kI16;
    case torch_save::DType::kInt32:
      return DType::kI32;
    case torch_save::DType::kInt64:
      return DType::kI64;
    case torch_save::DType::kFloat16:
      return DType::kF16;
    case torch_save::DType::kBfloat16:
      return DType::kBF16;
    case torch_save::DType::kFloat32:
      return DType::kF32;
    case torch_save::DType::kFloat64:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

std::string described(const Extents& extents) {
  std::vector<std::string> parts;
  for (const Extent& e : extents) {
    parts.push_back(e.name.empty() ? cat(e.size) : cat(e.name, "=", e.size));
  }
  return cat("[", join(parts, ","), "]");
}

/// Half types by plain loops: a checkpoint may be hundreds of megabytes of them.
Tensor to_f32(const Tensor& source) {
  if (source.dtype() != DType::kF16 && source.dtype() != DType::kBF16) {
    return source.cast(DType::kF32);
  }
  Tensor out(DType::kF32, source.sizes());
  const auto* from = source.data<uint16_t>();
  auto* to = out.mutable_data<float>();
  const bool half = source.dtype() == DType::kF16;
  constexpr int64_t kGrain = int64_t{1} << 16;
  parallel_for(out.num_elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to[i] = half ? half_to_float(from[i]) : bf16_to_float(from[i]);
  });
  source.storage()->release_pages();
  return out;
}

/// Names that hold no weights: positions, masks and counters that older files store.
bool is_buffer(std::string_view name) {
  for (const std::string_view suffix :
       {"position_ids", "token_type_ids", "num_batches_tracked", "attn.bias", "attn.masked_bias"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

}  // namespace

Result<Weights> Weights::open(const std::string& path) {
  Weights out;
  out.path_ = path;
  if (path.ends_with(".json")) {
    DH_TRY(out.add_shards(path));
    return out;
  }
  switch (sniff(path)) {
    case FileType::kTorchSave:
    case FileType::kTorchSaveLegacy:
    case FileType::kZip:
    case FileType::kPickle:
      DH_TRY(out.add_torch_save(path));
      return out;
    case FileType::kSafetensors:
      DH_TRY(out.add_safetensors(path));
      return out;
    default:
      // The reader that the name promises says best what is wrong inside.
      if (path.ends_with(".safetensors")) {
        DH_TRY(out.add_safetensors(path));
      } else {
        DH_TRY(out.add_torch_save(path));
      }
      return out;
  }
}

Status Weights::add_safetensors(const std::string& path) {
  DH_ASSIGN(const safetensors::File file, safetensors::read(path));
  for (const safetensors::TensorInfo& info : file.tensors()) {
    Entry entry;
    entry.stored_name = info.name;
    entry.dtype = ir_type(info.dtype);
    entry.dtype_name = safetensors::name(info.dtype);
    entry.sizes = info.shape;
    entry.strides = contiguous_strides(info.shape);
    entry.block = blocks_.size();
    blocks_.push_back({file.mapped(), info.offset, file.bytes(info), nullptr, nullptr});
    entries_.push_back(std::move(entry));
  }
  return {};
}

Status Weights::add_torch_save(const std::string& path) {
  DH_ASSIGN(const torch_save::File file, torch_save::read(path));
  const size_t first = blocks_.size();
  for (const torch_save::Storage& s : file.storages) {
    blocks_.push_back({file.file, s.file_offset, s.bytes, s.inflated, nullptr});
  }
  for (const torch_save::TensorInfo& info : file.tensors) {
    Entry entry;
    entry.stored_name = info.name;
    entry.dtype = ir_type(info.dtype);
    entry.dtype_name = torch_save::name(info.dtype);
    entry.sizes = info.sizes;
    entry.strides = info.strides;
    entry.offset = info.storage_offset;
    entry.block = first + info.storage;
    entries_.push_back(std::move(entry));
  }
  return {};
}

Status Weights::add_shards(const std::string& index_path) {
  DH_ASSIGN(const WeightIndex index, read_weight_index(index_path));
  std::vector<std::pair<std::string, size_t>> found;
  for (size_t shard = 0; shard < index.shards.size(); ++shard) {
    const std::string path = index.folder + index.shards[shard];
    const size_t first = entries_.size();
    DH_TRY(path.ends_with(".safetensors") ? add_safetensors(path) : add_torch_save(path));
    for (size_t i = first; i < entries_.size(); ++i) {
      found.emplace_back(entries_[i].stored_name, shard);
    }
  }
  return index.check(found).with_context(cat("while reading ", in_quotes(index_path)));
}

Status Weights::rename(std::string_view prefix) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    std::string_view name = entries_[i].stored_name;
    for (bool again = true; again;) {
      again = false;
      for (const std::string_view wrapper : {"module.", "_orig_mod."}) {
        if (name.starts_with(wrapper)) {
          name.remove_prefix(wrapper.size());
          again = true;
        }
      }
    }
    if (!prefix.empty() && name.starts_with(prefix)) name.remove_prefix(prefix.size());
    std::string known(name);
    for (const auto& [old, now] :
         {std::pair<std::string_view, std::string_view>{".gamma", ".weight"}, {".beta", ".bias"}}) {
      if (known.ends_with(cat("LayerNorm", old))) {
        known.replace(known.size() - old.size(), old.size(), now);
      }
    }
    const auto [it, fresh] = index_.emplace(known, i);
    if (fresh) continue;
    return invalid_file(cat(in_quotes(path_), ": the tensors ",
                            in_quotes(entries_[it->second].stored_name), " and ",
                            in_quotes(entries_[i].stored_name), " are both ", in_quotes(known)));
  }
  return {};
}

bool Weights::has(std::string_view name) const { return index_.contains(std::string(name)); }

const Sizes* Weights::sizes(std::string_view name) const {
  const auto it = index_.find(std::string(name));
  return it == index_.end() ? nullptr : &entries_[it->second].sizes;
}

void Weights::ignore(std::string_view name) {
  const auto it = index_.find(std::string(name));
  if (it != index_.end()) entries_[it->second].used = true;
}

const std::string& Weights::stored_name(const std::string& name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? name : entries_[it->second].stored_name;
}

bool Weights::fits(const std::string& name, const Entry& entry, const Extents& extents) {
  const bool same = entry.sizes.size() == extents.size() &&
                    std::equal(extents.begin(), extents.end(), entry.sizes.begin(),
                               [](const Extent& e, int64_t size) { return e.size == size; });
  if (same && entry.dtype && is_float(*entry.dtype)) return true;
  wrong_.push_back(cat(in_quotes(name), " is ", entry.dtype_name, "[", join(entry.sizes, ","),
                       "], expected ", same ? "a float type" : described(extents)));
  return false;
}

Result<Tensor> Weights::load(const Entry& entry) {
  Block& block = blocks_[entry.block];
  if (block.storage == nullptr) {
    // Kernels read whole elements, so they must lie at addresses that the widest one divides.
    constexpr uint64_t kAlignment = 8;
    if (block.offset && *block.offset % kAlignment == 0) {
      block.storage = Storage::map(block.file, *block.offset, block.bytes.size());
    } else {
      auto copy = Storage::allocate(block.bytes.size());
      if (!block.bytes.empty()) {
        std::memcpy(copy->mutable_bytes().data(), block.bytes.data(), block.bytes.size());
        if (block.offset) block.file->release(block.bytes);
      }
      block.storage = std::move(copy);
    }
  }
  const auto count = checked_num_elements(entry.sizes);
  if (!count || static_cast<uint64_t>(*count) > block.bytes.size() / item_size(*entry.dtype)) {
    return unsupported("its elements overlap in the file (an expanded tensor)");
  }
  DH_ASSIGN(Tensor tensor,
            strided_tensor(*entry.dtype, entry.sizes, entry.strides, entry.offset, block.storage));
  return tensor;
}

Tensor Weights::take(const std::string& name, const Extents& extents) {
  const auto it = index_.find(name);
  if (it == index_.end()) {
    if (missed_.insert(name).second) missing_.push_back(name);
    return {};
  }
  Entry& entry = entries_[it->second];
  entry.used = true;
  if (!fits(name, entry, extents)) return {};
  const std::string type(downhaul::name(*entry.dtype));
  if (std::find(types_.begin(), types_.end(), type) == types_.end()) types_.push_back(type);
  Tensor& kept = converted_[{entry.block, entry.offset, entry.sizes, entry.strides}];
  if (kept.defined()) return kept;
  auto tensor = load(entry);
  if (!tensor.ok()) {
    wrong_.push_back(cat(in_quotes(name), ": ", tensor.status().message()));
    return {};
  }
  kept = entry.dtype == DType::kF32 ? *std::move(tensor) : to_f32(*tensor);
  return kept;
}

bool Weights::same_region(const Entry& a, const Entry& b) const {
  if (a.dtype != b.dtype || a.sizes != b.sizes || a.strides != b.strides) return false;
  if (a.block == b.block && a.offset == b.offset) return true;
  const Bytes x = blocks_[a.block].bytes;
  const Bytes y = blocks_[b.block].bytes;
  return a.offset == 0 && b.offset == 0 && x.size() == y.size() &&
         std::equal(x.begin(), x.end(), y.begin());
}

Tensor Weights::take_tied(const std::string& name, const std::string& source, bool tied,
                          const Extents& extents) {
  const auto own = index_.find(name);
  const auto other = index_.find(source);
  if (own == index_.end()) {
    if (tied) return take(source, extents);
    return take(name, extents);
  }
  if (!tied || other == index_.end()) return take(name, extents);
  Entry& entry = entries_[own->second];
  if (same_region(entry, entries_[other->second])) {
    entry.used = true;
    return take(source, extents);
  }
  warnings_.push_back(cat(in_quotes(name), " is to be tied to ", in_quotes(source),
                          " but has other values: both are kept"));
  return take(name, extents);
}

Status Weights::problems() const {
  std::vector<std::string> parts;
  if (!missing_.empty()) {
    std::vector<std::string> names;
    names.reserve(missing_.size());
    for (const std::string& m : missing_) names.push_back(in_quotes(m));
    parts.push_back(cat(missing_.size(), missing_.size() == 1 ? " tensor is" : " tensors are",
                        " missing: ", some_of(names)));
  }
  if (!wrong_.empty()) parts.push_back(some_of(wrong_));
  if (parts.empty()) return {};
  return invalid_file(cat(in_quotes(path_), ": ", join(parts, "; ")));
}

std::vector<std::string> Weights::unused() const {
  std::vector<std::string> out;
  for (const Entry& entry : entries_) {
    if (!entry.used && !is_buffer(entry.stored_name)) out.push_back(entry.stored_name);
  }
  return out;
}

std::string Weights::stored_types() const { return join(types_, " and "); }

}  // namespace downhaul::models
