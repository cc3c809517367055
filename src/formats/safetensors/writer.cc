#include <unordered_set>

#include "base/checked.h"
#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/json/utf8.h"
#include "formats/safetensors/header.h"

namespace downhaul::safetensors {
namespace {

constexpr uint64_t kHeaderAlignment = 8;

std::string quoted(std::string_view name) { return cat("'", printable(name), "'"); }

}  // namespace

Result<Writer> Writer::create(const std::string& path, std::vector<Declaration> tensors,
                              const std::vector<std::pair<std::string, std::string>>& metadata) {
  JsonWriter header(JsonWriter::Style::kCompact);
  header.begin_object();
  if (!metadata.empty()) {
    header.key(kMetadataKey).begin_object();
    for (const auto& [key, value] : metadata) header.field(key, value);
    header.end_object();
  }
  std::vector<uint64_t> sizes;
  std::unordered_set<std::string> names;
  uint64_t offset = 0;
  for (const Declaration& tensor : tensors) {
    if (tensor.name == kMetadataKey || !is_valid_utf8(tensor.name) ||
        !names.insert(tensor.name).second) {
      return invalid_argument(
          cat("tensor name ", quoted(tensor.name), " is reserved, not UTF-8 or taken"));
    }
    const auto size = tensor_bytes(tensor.dtype, tensor.shape);
    const auto end = size ? checked_add(offset, *size) : std::nullopt;
    if (!end) {
      return invalid_argument(cat("tensor ", quoted(tensor.name), ": shape [",
                                  join(tensor.shape, ", "), "] is negative or overflows"));
    }
    header.key(tensor.name).begin_object();
    header.field("dtype", name(tensor.dtype)).field("shape", tensor.shape);
    header.key("data_offsets").begin_array().value(offset).value(*end).end_array();
    header.end_object();
    sizes.push_back(*size);
    offset = *end;
  }
  header.end_object();
  std::string text = header.take();
  text.resize(align_up(text.size(), kHeaderAlignment), ' ');
  if (text.size() > kMaxHeaderBytes) {
    return invalid_argument(cat("header of ", text.size(), " bytes, at most ", kMaxHeaderBytes));
  }

  DH_ASSIGN(OutputFile out, OutputFile::create(path));
  const uint64_t length = text.size();
  DH_TRY(out.write({reinterpret_cast<const uint8_t*>(&length), sizeof(length)}));
  DH_TRY(out.write(as_bytes(text)));
  Writer writer(std::move(out));
  writer.sizes_ = std::move(sizes);
  for (Declaration& tensor : tensors) writer.names_.push_back(std::move(tensor.name));
  return Result<Writer>(std::move(writer));
}

Status Writer::append(Bytes bytes) {
  if (bytes.empty()) return {};
  while (current_ < sizes_.size() && written_ == sizes_[current_]) {
    ++current_;
    written_ = 0;
  }
  if (current_ == sizes_.size()) {
    return invalid_argument(cat(bytes.size(), " bytes more than the tensors have"));
  }
  if (bytes.size() > sizes_[current_] - written_) {
    return invalid_argument(cat("tensor ", quoted(names_[current_]), " takes ",
                                sizes_[current_] - written_, " bytes more, not ", bytes.size()));
  }
  written_ += bytes.size();
  return out_.write(bytes);
}

Status Writer::commit(bool sync) {
  while (current_ < sizes_.size() && written_ == sizes_[current_]) {
    ++current_;
    written_ = 0;
  }
  if (current_ < sizes_.size()) {
    return invalid_argument(cat("tensor ", quoted(names_[current_]), " still lacks ",
                                sizes_[current_] - written_, " bytes"));
  }
  return out_.commit(sync);
}

}  // namespace downhaul::safetensors
