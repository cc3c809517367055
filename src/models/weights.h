#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "tensor/tensor.h"

namespace downhaul::models {

/// A size that a tensor must have, and where it comes from: {"vocab_size", 30522}.
struct Extent {
  std::string name;
  int64_t size = 0;
};
using Extents = std::vector<Extent>;

/// The tensors of a checkpoint, whatever files hold them, under the names that models know them by.
/// What a model asks for and does not get is noted, so that one message can name it all.
class Weights {
 public:
  /// `path`: .safetensors, torch.save file, or an index file of either. Errors: those of the
  /// readers, with the path.
  static Result<Weights> open(const std::string& path);

  /// Drops `prefix` ("bert.") from the names that have it; likewise the wrappers "module." and
  /// "_orig_mod.", and the old names LayerNorm.gamma and .beta. Call once, before any other.
  /// Errors: kInvalidFile when two tensors come to have one name.
  Status rename(std::string_view prefix);

  bool has(std::string_view name) const;
  /// Null when absent.
  const Sizes* sizes(std::string_view name) const;

  /// The tensor, f32: f16, bf16 and f64 are converted; an undefined one after noting that it is
  /// missing, has another shape, or is of another kind. Equal regions of a file share a Storage.
  Tensor take(const std::string& name, const Extents& extents);
  /// The weight of an output projection, which may be tied to `source`: missing, stored twice with
  /// equal bytes, or stored as an alias.
  Tensor take_tied(const std::string& name, const std::string& source, bool tied,
                   const Extents& extents);
  /// Marks a tensor as dealt with.
  void ignore(std::string_view name);
  /// The name in the file.
  const std::string& stored_name(const std::string& name) const;

  /// Every noted problem in one line, or fine.
  Status problems() const;
  /// Tensors never asked for, apart from buffers that hold no weights.
  std::vector<std::string> unused() const;
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// "f32" or "f16 and f32", of what was taken.
  std::string stored_types() const;
  const std::string& path() const { return path_; }
  size_t num_tensors() const { return entries_.size(); }

 private:
  struct Block {
    std::shared_ptr<const MappedFile> file;
    std::optional<uint64_t> offset;  ///< in the file; absent when the bytes are inflated
    Bytes bytes;
    std::shared_ptr<const std::vector<uint8_t>> inflated;
    std::shared_ptr<const Storage> storage;  ///< made when first used
  };
  struct Entry {
    std::string stored_name;
    std::optional<DType> dtype;  ///< absent when the IR has no such type
    std::string dtype_name;
    Sizes sizes;
    std::vector<int64_t> strides;
    int64_t offset = 0;  ///< in elements
    size_t block = 0;
    bool used = false;
  };

  Status add_safetensors(const std::string& path);
  Status add_torch_save(const std::string& path);
  Status add_shards(const std::string& index_path);
  Result<Tensor> load(const Entry& entry);
  bool fits(const std::string& name, const Entry& entry, const Extents& extents);
  bool same_region(const Entry& a, const Entry& b) const;

  std::string path_;
  std::vector<Block> blocks_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
  /// Converted tensors by region, so that tied weights stay tied.
  std::map<std::tuple<size_t, int64_t, Sizes, std::vector<int64_t>>, Tensor> converted_;
  std::unordered_set<std::string> missed_;  // what missing_ holds
  std::vector<std::string> missing_, wrong_, warnings_;
  std::vector<std::string> types_;
};

}  // namespace downhaul::models
