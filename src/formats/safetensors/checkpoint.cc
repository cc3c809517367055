#include "base/strings.h"
#include "formats/safetensors/safetensors.h"
#include "formats/weight_index.h"

namespace downhaul::safetensors {
namespace {

Status add_shards(const std::string& index_path, Checkpoint& out) {
  DH_ASSIGN(const WeightIndex index, read_weight_index(index_path));
  out.files.reserve(index.shards.size());
  std::vector<std::pair<std::string, size_t>> found;
  for (const std::string& shard : index.shards) {
    DH_ASSIGN(File file, read(index.folder + shard));
    out.files.push_back(std::move(file));
    for (const TensorInfo& tensor : out.files.back().tensors()) {
      found.emplace_back(tensor.name, out.files.size() - 1);
      out.tensors.emplace(tensor.name, Checkpoint::Location{out.files.size() - 1, &tensor});
    }
  }
  return index.check(found).with_context(cat("while reading '", printable(index_path), "'"));
}

}  // namespace

Result<Checkpoint> read_checkpoint(const std::string& path) {
  Checkpoint out;
  if (!path.ends_with(".json")) {
    DH_ASSIGN(File file, read(path));
    out.files.push_back(std::move(file));
    for (const TensorInfo& tensor : out.files.back().tensors()) {
      out.tensors.emplace(tensor.name, Checkpoint::Location{0, &tensor});
    }
    return out;
  }
  DH_TRY(add_shards(path, out));
  return out;
}

}  // namespace downhaul::safetensors
