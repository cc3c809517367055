#include "formats/weight_index.h"

#include <unordered_map>

#include "base/file.h"
#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/sniff.h"

namespace downhaul {
namespace {

std::string quoted(std::string_view name) { return cat("'", printable(name), "'"); }

Result<WeightIndex> parse_index(const std::string& path) {
  DH_ASSIGN(const std::string text, read_text_file(path));
  DH_ASSIGN(const JsonValue index, JsonValue::parse(text));
  const JsonValue* map = index.find("weight_map");
  if (!map || !map->is_object()) return invalid_file("weight_map is missing or no object");
  WeightIndex out;
  const size_t slash = path.rfind('/');
  out.folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  std::unordered_map<std::string, size_t> known;
  for (const auto& [name, value] : map->members()) {
    const std::string* shard = value.as_string();
    if (!shard) return invalid_file(cat("weight_map: the shard of ", quoted(name), " is no text"));
    if (shard->empty() || shard->find_first_of(std::string("/\\\0", 3)) != std::string::npos ||
        *shard == "..") {
      return invalid_file(
          cat("shard name ", quoted(*shard), " of ", quoted(name), " is no file beside the index"));
    }
    const auto [it, fresh] = known.emplace(*shard, out.shards.size());
    if (fresh) out.shards.push_back(*shard);
    out.entries.push_back({name, it->second});
  }
  return out;
}

}  // namespace

Status WeightIndex::check(const std::vector<std::pair<std::string, size_t>>& found) const {
  std::unordered_map<std::string_view, size_t> places;
  for (const auto& [name, shard] : found) {
    if (!places.emplace(name, shard).second) {
      return invalid_file(cat("tensor ", quoted(name), " is in two shards"));
    }
  }
  for (const Entry& entry : entries) {
    const auto place = places.find(entry.tensor);
    if (place == places.end()) {
      return invalid_file(cat("tensor ", quoted(entry.tensor), " is in no shard, expected in ",
                              quoted(shards[entry.shard])));
    }
    if (place->second != entry.shard) {
      return invalid_file(cat("tensor ", quoted(entry.tensor), " is in shard ",
                              quoted(shards[place->second]), ", expected in ",
                              quoted(shards[entry.shard])));
    }
    places.erase(place);
  }
  for (const auto& [name, shard] : found) {
    if (places.contains(name)) {
      return invalid_file(cat("tensor ", quoted(name), " of shard ", quoted(shards[shard]),
                              " is not in the index"));
    }
  }
  return {};
}

Result<WeightIndex> read_weight_index(const std::string& path) {
  const FileType type = sniff(path);
  if (type != FileType::kJson && type != FileType::kModelSpec) {
    return unexpected_file(path, "an index of weights (JSON)");
  }
  auto index = parse_index(path);
  if (index.ok()) return index;
  return std::move(index).status().with_context(cat("while reading ", quoted(path)));
}

}  // namespace downhaul
