#include <algorithm>

#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/safetensors/safetensors.h"
#include "formats/sniff.h"

namespace downhaul::safetensors {
namespace {

std::string quoted(std::string_view name) { return cat("'", printable(name), "'"); }

Status add_file(File file, Checkpoint& out) {
  out.files.push_back(std::move(file));
  const size_t index = out.files.size() - 1;
  for (const TensorInfo& tensor : out.files.back().tensors()) {
    if (!out.tensors.emplace(tensor.name, Checkpoint::Location{index, &tensor}).second) {
      return invalid_file(cat("tensor ", quoted(tensor.name), " is in two shards"));
    }
  }
  return {};
}

Status add_shards(const std::string& index_path, Checkpoint& out) {
  DH_ASSIGN(const std::string text, read_text_file(index_path));
  DH_ASSIGN(const JsonValue index, JsonValue::parse(text));
  const JsonValue* map = index.find("weight_map");
  if (!map || !map->is_object()) return invalid_file("weight_map is missing or no object");
  const size_t slash = index_path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : index_path.substr(0, slash + 1);

  std::unordered_map<std::string, size_t> shards;
  std::vector<std::string> order;
  for (const auto& [name, value] : map->members()) {
    const std::string* shard = value.as_string();
    if (!shard) return invalid_file(cat("weight_map: the shard of ", quoted(name), " is no text"));
    if (shard->empty() || shard->find_first_of(std::string("/\\\0", 3)) != std::string::npos ||
        *shard == "..") {
      return invalid_file(
          cat("shard name ", quoted(*shard), " of ", quoted(name), " is no file beside the index"));
    }
    if (shards.emplace(*shard, order.size()).second) order.push_back(*shard);
  }
  out.files.reserve(order.size());
  for (const std::string& shard : order) {
    DH_ASSIGN(File file, read(folder + shard));
    DH_TRY(add_file(std::move(file), out));
  }
  for (const auto& [name, value] : map->members()) {
    const auto found = out.tensors.find(name);
    const std::string& shard = *value.as_string();
    if (found == out.tensors.end()) {
      return invalid_file(
          cat("tensor ", quoted(name), " is in no shard, expected in ", quoted(shard)));
    }
    if (found->second.file != shards[shard]) {
      return invalid_file(cat("tensor ", quoted(name), " is in shard ",
                              quoted(order[found->second.file]), ", expected in ", quoted(shard)));
    }
  }
  if (out.tensors.size() != map->members().size()) {
    for (const auto& [name, location] : out.tensors) {
      if (!map->find(name)) {
        return invalid_file(cat("tensor ", quoted(name), " of shard ", quoted(order[location.file]),
                                " is not in the index"));
      }
    }
  }
  return {};
}

}  // namespace

Result<Checkpoint> read_checkpoint(const std::string& path) {
  Checkpoint out;
  if (!path.ends_with(".json")) {
    DH_ASSIGN(File file, read(path));
    DH_TRY(add_file(std::move(file), out));
    return out;
  }
  const FileType type = sniff(path);
  if (type != FileType::kJson && type != FileType::kModelSpec) {
    return unexpected_file(path, "a safetensors index (JSON)");
  }
  DH_TRY(add_shards(path, out).with_context(cat("while reading ", quoted(path))));
  return out;
}

}  // namespace downhaul::safetensors
