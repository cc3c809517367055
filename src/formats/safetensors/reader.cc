#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/checked.h"
#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/safetensors/header.h"
#include "formats/sniff.h"

namespace downhaul::safetensors {
namespace {

std::string quoted(std::string_view name) { return cat("'", printable(name), "'"); }

Result<std::string_view> header_text(Bytes bytes) {
  if (bytes.size() < kLengthBytes) {
    return invalid_file(cat("file has ", bytes.size(), " bytes, expected a header length of ",
                            kLengthBytes, " bytes and a header"));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMaxHeaderBytes) {
    return invalid_file(cat("header length is ", length, ", at most ", kMaxHeaderBytes,
                            " bytes (100 MB) are accepted"));
  }
  if (length > bytes.size() - kLengthBytes) {
    return invalid_file(cat("header length is ", length, ", the file has ",
                            bytes.size() - kLengthBytes, " bytes left"));
  }
  if (length == 0) return invalid_file("header length is 0, expected a JSON object");
  const std::string_view text = as_text(bytes.subspan(kLengthBytes, length));
  if (text.front() != '{') {
    return invalid_file(
        cat("header starts with '", printable(text.substr(0, 1)), "', expected '{'"));
  }
  return text;
}

Status read_tensor(JsonReader& reader, TensorInfo& out) {
  std::string dtype;
  std::vector<uint64_t> offsets;
  bool has_shape = false;
  DH_TRY(reader.object([&](std::string_view key) -> Status {
    if (key == "dtype") return reader.read(dtype);
    if (key == "data_offsets") return reader.read(offsets);
    if (key != "shape") return reader.error(cat("key ", quoted(key), " is not known"));
    has_shape = true;
    return reader.read(out.shape);
  }));
  const auto known = dtype_from_name(dtype);
  if (!known) return unsupported(cat("dtype ", quoted(dtype), " is not known"));
  out.dtype = *known;
  if (!has_shape) return invalid_file("shape is missing");
  if (offsets.size() != 2) return invalid_file("data_offsets: expected [begin, end]");
  if (offsets[0] > offsets[1]) {
    return invalid_file(
        cat("data_offsets [", offsets[0], ", ", offsets[1], "]: begin is behind ", "the end"));
  }
  out.offset = offsets[0];
  out.size = offsets[1] - offsets[0];
  const auto wanted = tensor_bytes(out.dtype, out.shape);
  if (!wanted) {
    return invalid_file(cat("shape [", join(out.shape, ", "), "] of ", dtype,
                            " is negative, overflows, or does not end on a byte"));
  }
  if (*wanted != out.size) {
    return invalid_file(cat("shape [", join(out.shape, ", "), "] of ", dtype, " has ", *wanted,
                            " bytes, data_offsets have ", out.size));
  }
  return {};
}

Status read_header(std::string_view text, std::vector<TensorInfo>& tensors,
                   std::vector<std::pair<std::string, std::string>>& metadata,
                   std::unordered_map<std::string, size_t>& names) {
  // NUL padding is what strict readers refuse without saying why.
  const size_t content = text.find_last_not_of('\0') + 1;
  if (content != text.size()) {
    return invalid_file(cat("header is padded with ", text.size() - content,
                            " NUL bytes; pad with spaces instead"));
  }
  JsonOptions options;
  options.max_depth = 8;
  options.non_finite = false;
  options.leading_whitespace = false;
  JsonReader reader(text, options);
  bool has_metadata = false;
  DH_TRY(reader.object([&](std::string_view key) -> Status {
    const std::string name(key);
    if (name == kMetadataKey) {
      if (std::exchange(has_metadata, true)) {
        return invalid_file(cat("duplicate key ", quoted(name)));
      }
      return reader.object([&](std::string_view entry) -> Status {
        metadata.emplace_back(std::string(entry), "");
        return reader.read(metadata.back().second);
      });
    }
    if (!names.emplace(name, tensors.size()).second) {
      return invalid_file(cat("duplicate key ", quoted(name)));
    }
    TensorInfo& tensor = tensors.emplace_back();
    tensor.name = name;
    Status status = read_tensor(reader, tensor);
    if (status.ok()) return status;
    return std::move(status).with_context(cat("tensor ", quoted(name)));
  }));
  return reader.finish();
}

/// Sorts by offset; the intervals must cover the data exactly.
Status check_cover(std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.size, a.name) < std::tie(b.offset, b.size, b.name);
  });
  uint64_t end = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset < end) {
      return invalid_file(cat("tensors ", quoted(before->name), " and ", quoted(tensor.name),
                              " overlap: the first ends at ", end, ", the second begins at ",
                              tensor.offset));
    }
    if (tensor.offset > end) {
      return invalid_file(cat("hole in the data: ", before ? quoted(before->name) : "the header",
                              " ends at ", end, ", ", quoted(tensor.name), " begins at ",
                              tensor.offset));
    }
    end = tensor.offset + tensor.size;
    if (end > data_bytes) {
      return invalid_file(cat("tensor ", quoted(tensor.name), " ends at ", end, ", the data has ",
                              data_bytes, " bytes"));
    }
    before = &tensor;
  }
  if (end != data_bytes) {
    return invalid_file(
        cat(data_bytes - end, " bytes follow the last tensor, which ends at ", end));
  }
  return {};
}

}  // namespace

std::optional<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape) {
  uint64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
  }
  if (empty) return 0;
  for (const int64_t size : shape) {
    const auto product = checked_mul(count, static_cast<uint64_t>(size));
    if (!product) return std::nullopt;
    count = *product;
  }
  const auto bits = checked_mul<uint64_t>(count, item_bits(dtype));
  if (!bits || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

const TensorInfo* File::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

Result<File> read(std::shared_ptr<const MappedFile> file) {
  const auto read_all = [&]() -> Result<File> {
    File out;
    DH_ASSIGN(const std::string_view text, header_text(file->bytes()));
    DH_TRY(read_header(text, out.tensors_, out.metadata_, out.index_));
    const uint64_t data = kLengthBytes + text.size();
    DH_TRY(check_cover(out.tensors_, file->bytes().size() - data));
    for (size_t i = 0; i < out.tensors_.size(); ++i) {
      out.tensors_[i].offset += data;
      out.index_[out.tensors_[i].name] = i;
    }
    out.file_ = file;
    return out;
  };
  auto out = read_all();
  if (out.ok()) return out;
  Status status = std::move(out).status();
  // A file of another kind gives a length that makes no sense; say what it is instead.
  const FileType type = sniff(file->path());
  if (type != FileType::kSafetensors && type != FileType::kUnknown && type != FileType::kText &&
      type != FileType::kPickle && type != FileType::kMlModel) {
    return unexpected_file(file->path(), "a safetensors file");
  }
  return std::move(status).with_context(cat("while reading ", quoted(file->path())));
}

Result<File> read(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file.ok()) return unexpected_file(path, "a safetensors file");
  return read(*std::move(file));
}

}  // namespace downhaul::safetensors
