#include "formats/pickle/pickle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"
#include "base/strings.h"
#include "formats/pickle/machine.h"
#include "formats/strided.h"

namespace downhaul::torch_save {
namespace {

// Protocol 2, then a ten-byte integer: the mark of the form before 1.6.
constexpr std::array<uint8_t, 14> kLegacyMark = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                                 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
constexpr int64_t kLegacyProtocol = 1001;

std::string quoted(std::string_view name) { return cat("'", printable(name), "'"); }

bool storage_bytes(const StorageRef& ref, uint64_t& out) {
  const auto bytes = checked_mul<uint64_t>(static_cast<uint64_t>(ref.count), item_size(ref.dtype));
  out = bytes.value_or(0);
  return bytes.has_value();
}

/// The value of `key`, or null.
const Value* find_member(const Machine& machine, const Value& dict, std::string_view key) {
  const std::vector<Value>& items = machine.items(dict);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == Value::Kind::kText && machine.text(items[i]) == key) return &items[i + 1];
  }
  return nullptr;
}

bool has_tensor(const Machine& machine, const Value& dict) {
  const std::vector<Value>& items = machine.items(dict);
  for (size_t i = 1; i < items.size(); i += 2) {
    if (items[i].kind == Value::Kind::kTensor) return true;
  }
  return false;
}

/// Names and tensors of the top value, with the storages already in `out`.
Status collect(const Machine& machine, Value top, File& out) {
  if (top.kind != Value::Kind::kDict) {
    return unsupported("the file holds no dictionary of tensors");
  }
  if (!has_tensor(machine, top)) {
    for (const std::string_view key : {"state_dict", "model_state_dict", "model"}) {
      const Value* nested = find_member(machine, top, key);
      if (nested && nested->kind == Value::Kind::kDict) {
        top = *nested;
        break;
      }
    }
  }
  const std::vector<Value>& items = machine.items(top);
  std::unordered_set<std::string> names;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind != Value::Kind::kText) continue;
    const std::string name(machine.text(items[i]));
    if (items[i + 1].kind != Value::Kind::kTensor) {
      out.other_names.push_back(name);
      continue;
    }
    if (!names.insert(name).second) {
      return invalid_file(cat("two tensors are named ", quoted(name)));
    }
    TensorInfo tensor = machine.tensor(items[i + 1]);
    tensor.name = name;
    const auto extent = strided_extent(tensor.sizes, tensor.strides, tensor.storage_offset,
                                       item_size(tensor.dtype));
    if (!extent.ok()) {
      return Status(extent.status()).with_context(cat("tensor ", quoted(name)));
    }
    const uint64_t found = out.storages[tensor.storage].bytes.size();
    if (*extent > found) {
      return invalid_file(cat("tensor ", quoted(name), " needs ", *extent,
                              " bytes of its storage, which has ", found));
    }
    out.tensors.push_back(std::move(tensor));
  }
  return {};
}

Result<File> read_legacy(std::shared_ptr<const MappedFile> file) {
  const Bytes bytes = file->bytes();
  Machine machine(bytes);
  DH_TRY(machine.run());  // the mark
  DH_ASSIGN(const Value protocol, machine.run());
  if (protocol.kind != Value::Kind::kInt || protocol.integer != kLegacyProtocol) {
    return invalid_file(cat("expected protocol ", kLegacyProtocol));
  }
  DH_ASSIGN(const Value system, machine.run());
  if (system.kind != Value::Kind::kDict) return invalid_file("expected a dictionary of type sizes");
  const Value* little = find_member(machine, system, "little_endian");
  if (!little || little->kind != Value::Kind::kBool) {
    return invalid_file("little_endian is not stated");
  }
  if (little->integer == 0) return unsupported("the file is big-endian");
  DH_ASSIGN(const Value top, machine.run());
  DH_ASSIGN(const Value keys, machine.run());
  if (keys.kind != Value::Kind::kList) return invalid_file("expected the list of storage keys");

  File out;
  out.storages.resize(machine.storages().size());
  uint64_t at = machine.position();
  std::vector<bool> seen(out.storages.size());
  std::unordered_map<std::string_view, size_t> by_key;
  for (size_t i = 0; i < seen.size(); ++i) by_key.emplace(machine.storages()[i].key, i);
  for (const Value& key : machine.items(keys)) {
    if (key.kind != Value::Kind::kText) return invalid_file("a storage key that is no text");
    const std::string_view name = machine.text(key);
    const auto known = by_key.find(name);
    if (known == by_key.end() || seen[known->second]) {
      return invalid_file(cat("storage ", quoted(name), " is unknown or comes twice"));
    }
    const size_t index = known->second;
    seen[index] = true;
    const StorageRef& ref = machine.storages()[index];
    int64_t count = 0;
    uint64_t size = 0;
    if (!in_range(at, sizeof(count), bytes.size())) return invalid_file("the data ends");
    std::memcpy(&count, bytes.data() + at, sizeof(count));
    at += sizeof(count);
    if (count != ref.count || !storage_bytes(ref, size) || !in_range(at, size, bytes.size())) {
      return invalid_file(cat("storage ", quoted(name), " declares ", ref.count,
                              " elements, the file has ", count, " in ", bytes.size() - at,
                              " bytes"));
    }
    out.storages[index] = {ref.key, bytes.subspan(at, size), at, nullptr};
    at += size;
  }
  if (std::find(seen.begin(), seen.end(), false) != seen.end()) {
    return invalid_file("a storage without data");
  }
  DH_TRY(collect(machine, top, out));
  out.file = std::move(file);
  return out;
}

}  // namespace

const TensorInfo* File::find(std::string_view wanted) const {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name == wanted) return &tensor;
  }
  return nullptr;
}

Result<File> read(const ZipArchive& archive, std::shared_ptr<const MappedFile> file) {
  if (archive.entries().empty()) return invalid_file("the archive is empty");
  const std::string& first = archive.entries().front().name;
  const std::string root = first.substr(0, first.find('/') + 1);
  const ZipEntry* pickle = archive.find(root + "data.pkl");
  if (!pickle) return invalid_file(cat("entry ", quoted(root + "data.pkl"), " is missing"));
  if (archive.find(root + "constants.pkl")) {
    return unsupported("the file is a TorchScript program, not saved tensors");
  }
  if (const ZipEntry* order = archive.find(root + "byteorder")) {
    DH_ASSIGN(const ZipBytes text, archive.read(*order));
    if (as_text(text.bytes) != "little") {
      return unsupported(cat("byte order ", quoted(as_text(text.bytes)), ", expected 'little'"));
    }
  }
  DH_ASSIGN(const ZipBytes code, archive.read(*pickle));
  Machine machine(code.bytes);
  DH_ASSIGN(const Value top, machine.run());
  File out;
  for (const StorageRef& ref : machine.storages()) {
    const std::string entry_name = cat(root, "data/", ref.key);
    const ZipEntry* entry = archive.find(entry_name);
    if (!entry) return invalid_file(cat("storage ", quoted(entry_name), " is missing"));
    uint64_t size = 0;
    if (!storage_bytes(ref, size) || size != entry->size) {
      return invalid_file(cat("storage ", quoted(entry_name), ": the pickle declares ", ref.count,
                              " elements of ", item_size(ref.dtype), " bytes, the entry has ",
                              entry->size, " bytes"));
    }
    DH_ASSIGN(const ZipBytes data, archive.read(*entry));
    out.storages.push_back({ref.key, data.bytes, data.file_offset, data.inflated});
  }
  DH_TRY(collect(machine, top, out));
  if (code.file_offset) file->release(code.bytes);
  out.file = std::move(file);
  return out;
}

Result<File> read(std::shared_ptr<const MappedFile> file) {
  const std::string path = file->path();
  const auto context = [&](Result<File> result) -> Result<File> {
    if (result.ok()) return result;
    return std::move(result).status().with_context(cat("while reading ", quoted(path)));
  };
  const Bytes bytes = file->bytes();
  if (bytes.size() >= kLegacyMark.size() &&
      std::equal(kLegacyMark.begin(), kLegacyMark.end(), bytes.begin())) {
    return context(read_legacy(std::move(file)));
  }
  const auto archive = ZipArchive::open(file);
  if (!archive.ok()) return context(archive.status());
  return context(read(*archive, std::move(file)));
}

Result<File> read(const std::string& path) {
  DH_ASSIGN(auto file, MappedFile::open(path));
  return read(std::move(file));
}

}  // namespace downhaul::torch_save
