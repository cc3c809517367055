#include <algorithm>
#include <charconv>

#include "base/strings.h"
#include "formats/pickle/pickle.h"
#include "formats/pt2/internal.h"
#include "formats/sniff.h"
#include "formats/strided.h"
#include "formats/zip/zip.h"

namespace downhaul::pt2 {
namespace {

constexpr int64_t kArchiveVersion = 0;

constexpr std::string_view kFlatProgram = "serialized_exported_program.json";

std::string quoted(std::string_view name) { return cat("'", printable(name), "'"); }

ScalarType from_torch_save(torch_save::DType dtype) {
  using D = torch_save::DType;
  switch (dtype) {
    case D::kBool:
      return ScalarType::kBool;
    case D::kUint8:
      return ScalarType::kUint8;
    case D::kInt8:
      return ScalarType::kInt8;
    case D::kUint16:
      return ScalarType::kUint16;
    case D::kInt16:
      return ScalarType::kInt16;
    case D::kUint32:
      return ScalarType::kUint32;
    case D::kInt32:
      return ScalarType::kInt32;
    case D::kUint64:
      return ScalarType::kUint64;
    case D::kInt64:
      return ScalarType::kInt64;
    case D::kFloat16:
      return ScalarType::kFloat16;
    case D::kBfloat16:
      return ScalarType::kBfloat16;
    case D::kFloat32:
      return ScalarType::kFloat32;
    case D::kFloat64:
      return ScalarType::kFloat64;
    case D::kComplex32:
      return ScalarType::kComplex32;
    case D::kComplex64:
      return ScalarType::kComplex64;
    case D::kComplex128:
      return ScalarType::kComplex128;
    case D::kFloat8E4m3fn:
      return ScalarType::kFloat8E4m3fn;
    case D::kFloat8E5m2:
      return ScalarType::kFloat8E5m2;
    case D::kFloat8E4m3fnuz:
      return ScalarType::kFloat8E4m3fnuz;
    case D::kFloat8E5m2fnuz:
      return ScalarType::kFloat8E5m2fnuz;
    case D::kFloat8E8m0fnu:
      return ScalarType::kFloat8E8m0fnu;
  }
  return ScalarType::kUnknown;
}

/// One entry of a payload config.
struct PayloadConfig {
  std::string path_name;
  bool use_pickle = false;
  std::optional<TensorMeta> meta;
};

Result<std::vector<int64_t>> plain_numbers(const std::vector<Dim>& dims) {
  std::vector<int64_t> out;
  for (const Dim& dim : dims) {
    if (dim.symbolic || !dim.value) return invalid_file("a stored tensor has a symbolic size");
    out.push_back(*dim.value);
  }
  return out;
}

class ArchiveReader {
 public:
  ArchiveReader(ZipArchive zip, std::shared_ptr<const MappedFile> file)
      : zip_(std::move(zip)), file_(std::move(file)) {}

  Result<Archive> read() {
    if (zip_.entries().empty()) return invalid_file("the archive is empty");
    if (zip_.find(kFlatProgram)) {
      DH_TRY(read_flat());
    } else {
      DH_TRY(read_rooted());
    }
    DH_TRY(check_reach());
    archive_.file = file_;
    return std::move(archive_);
  }

 private:
  /// All entries below one folder; models, weights and constants side by side.
  Status read_rooted() {
    const std::string& first = zip_.entries().front().name;
    root_ = first.substr(0, first.find('/') + 1);
    if (root_.empty()) return no_program();
    std::vector<std::string> names;
    for (const ZipEntry& entry : zip_.entries()) {
      const std::string_view name = entry.name;
      if (!name.starts_with(root_)) {
        return invalid_file(
            cat("entry ", quoted(name), " lies outside of the archive's folder ", quoted(root_)));
      }
      std::string_view rest = name.substr(root_.size());
      if (!rest.starts_with("models/") || !rest.ends_with(".json")) continue;
      rest = rest.substr(7, rest.size() - 12);
      if (!rest.empty() && rest.find('/') == std::string_view::npos) names.emplace_back(rest);
    }
    if (names.empty()) return no_program();
    DH_TRY(check_markers());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      Status status = read_model(name);
      if (!status.ok()) return std::move(status).with_context(cat("model ", quoted(name)));
    }
    warn_about_unnamed_payloads();
    return {};
  }

  Status read_model(const std::string& name) {
    Model& model = archive_.models.emplace_back();
    DH_TRY(read_json_program(cat(root_, "models/", name, ".json"), name, model));
    for (const std::string_view kind : {"weights", "constants"}) {
      const std::string folder = cat(root_, "data/", kind, "/");
      const std::string config = cat(folder, name, "_", kind, "_config.json");
      const std::string nested = cat(folder, name, ".pt");
      if (const ZipEntry* entry = zip_.find(config)) {
        DH_TRY(read_config(*entry, folder, model).with_context(quoted(config)));
      } else if (zip_.find(nested)) {
        DH_TRY(read_nested(nested, model));
      }
    }
    return verify_tensors(model.program, model.tensors, archive_.warnings);
  }

  /// Everything at the top, weights and constants as nested torch.save files.
  Status read_flat() {
    Model& model = archive_.models.emplace_back();
    DH_TRY(read_json_program(std::string(kFlatProgram), "model", model));
    for (const std::string_view part : {"serialized_state_dict.pt", "serialized_constants.pt"}) {
      DH_TRY(read_nested(std::string(part), model));
    }
    return verify_tensors(model.program, model.tensors, archive_.warnings);
  }

  Status no_program() const {
    for (const ZipEntry& entry : zip_.entries()) {
      if (entry.name.find("data/aotinductor/") != std::string::npos) {
        return unsupported("the package holds only compiled code (data/aotinductor), no model");
      }
      if (entry.name.ends_with("data.pkl")) {
        return invalid_file("expected a .pt2 archive, this is a torch.save file");
      }
    }
    return invalid_file("no models/NAME.json: not a .pt2 archive");
  }

  /// Small text entry, or nothing.
  Result<std::optional<std::string>> text_entry(std::string_view name) const {
    const ZipEntry* entry = zip_.find(root_ + std::string(name));
    if (!entry) return std::optional<std::string>();
    constexpr uint64_t kMaxBytes = 64;
    if (entry->size > kMaxBytes) {
      return invalid_file(cat("entry ", quoted(name), " has ", entry->size, " bytes, at most ",
                              kMaxBytes, " expected"));
    }
    DH_ASSIGN(const ZipBytes content, zip_.read(*entry));
    return std::optional<std::string>(trim(as_text(content.bytes)));
  }

  Status check_markers() const {
    DH_ASSIGN(const auto format, text_entry("archive_format"));
    if (format && *format != "pt2") {
      return invalid_file(cat("archive_format is ", quoted(*format), ", expected 'pt2'"));
    }
    DH_ASSIGN(const auto version, text_entry("archive_version"));
    if (version) {
      int64_t number = 0;
      const char* const end = version->data() + version->size();
      const auto r = std::from_chars(version->data(), end, number);
      if (r.ec != std::errc() || r.ptr != end) {
        return invalid_file(
            cat("archive_version is ", quoted(*version), ", expected ", kArchiveVersion));
      }
      if (number != kArchiveVersion) {
        return unsupported(cat("archive_version is ", number, ", expected ", kArchiveVersion));
      }
    }
    DH_ASSIGN(const auto order, text_entry("byteorder"));
    if (order && *order != "little") {
      return unsupported(cat("byteorder is ", quoted(*order), ", expected 'little'"));
    }
    return {};
  }

  Status read_json_program(const std::string& entry_name, const std::string& name, Model& model) {
    const ZipEntry* entry = zip_.find(entry_name);
    DH_ASSIGN(const ZipBytes content, zip_.read(*entry));
    const bool mapped = content.file_offset.has_value();
    auto program =
        read_program({as_text(content.bytes), mapped ? file_.get() : nullptr}, archive_.warnings);
    if (mapped) file_->release(content.bytes);
    if (!program.ok()) return std::move(program).status().with_context(quoted(entry_name));
    model.program = *std::move(program);
    model.program.name = name;
    return verify_graph(model.program).with_context("graph");
  }

  Status read_config(const ZipEntry& entry, const std::string& folder, Model& model) {
    DH_ASSIGN(const ZipBytes content, zip_.read(entry));
    JsonReader reader(as_text(content.bytes));
    const auto read_entry = [&](std::string_view member) -> Status {
      const std::string fqn(member);
      PayloadConfig config;
      DH_TRY(read_payload_config(reader, config).with_context(quoted(fqn)));
      Status status = add_configured(fqn, config, folder, model);
      if (!status.ok()) return std::move(status).with_context(cat("weight ", quoted(fqn)));
      return {};
    };
    DH_TRY(reader.object([&](std::string_view key) -> Status {
      return key == "config" ? reader.object(read_entry) : reader.skip();
    }));
    DH_TRY(reader.finish());
    if (content.file_offset) file_->release(content.bytes);
    return {};
  }

  static Status read_payload_config(JsonReader& reader, PayloadConfig& out) {
    return reader.object([&](std::string_view key) -> Status {
      if (key == "path_name") return reader.read(out.path_name);
      if (key == "use_pickle") return reader.read(out.use_pickle);
      if (key == "tensor_meta" && reader.kind() == JsonReader::Kind::kObject) {
        return read_tensor_meta(reader, out.meta.emplace());
      }
      return reader.skip();
    });
  }

  Status add_configured(const std::string& fqn, const PayloadConfig& config,
                        const std::string& folder, Model& model) {
    if (config.use_pickle || !config.meta) {
      return unsupported("is stored as a pickled object (a tensor subclass or script object)");
    }
    const ZipEntry* entry = zip_.find(folder + config.path_name);
    if (!entry)
      return invalid_file(cat("record ", quoted(folder + config.path_name), " is missing"));
    DH_ASSIGN(const uint32_t payload, payload_index(*entry));
    StoredTensor tensor;
    tensor.payload = payload;
    tensor.dtype = config.meta->dtype;
    DH_ASSIGN(tensor.sizes, plain_numbers(config.meta->sizes));
    DH_ASSIGN(tensor.strides, plain_numbers(config.meta->strides));
    DH_ASSIGN(const std::vector<int64_t> offset, plain_numbers({config.meta->storage_offset}));
    tensor.storage_offset = offset.front();
    if (config.meta->layout != Layout::kStrided) {
      return unsupported(
          cat("layout ", static_cast<int>(config.meta->layout), ", expected 7 (strided)"));
    }
    return add_tensor(fqn, std::move(tensor), model);
  }

  Result<uint32_t> payload_index(const ZipEntry& entry) {
    const auto [known, added] =
        payload_by_entry_.try_emplace(entry.name, static_cast<uint32_t>(archive_.payloads.size()));
    if (added) {
      DH_ASSIGN(const ZipBytes content, zip_.read(entry));
      archive_.payloads.push_back(
          {entry.name, content.bytes, content.file_offset, entry.crc32, content.inflated});
    }
    return known->second;
  }

  Status add_tensor(const std::string& fqn, StoredTensor tensor, Model& model) {
    const uint32_t item = item_size(tensor.dtype);
    if (item == 0) return invalid_file("dtype is unknown");
    const uint64_t found = archive_.payloads[tensor.payload].bytes.size();
    DH_ASSIGN(const uint64_t needed,
              strided_extent(tensor.sizes, tensor.strides, tensor.storage_offset, item));
    if (needed > found) {
      return invalid_file(cat("needs ", needed, " bytes, its record has ", found));
    }
    if (found % item != 0) {
      return invalid_file(cat("its record has ", found, " bytes, expected a multiple of ", item));
    }
    reach_.resize(archive_.payloads.size());
    Reach& reach = reach_[tensor.payload];
    if (reach.fqn.empty() || needed > reach.bytes) reach = {needed, fqn};
    if (!model.tensors.emplace(fqn, std::move(tensor)).second) {
      return invalid_file("is stored twice");
    }
    return {};
  }

  /// A nested torch.save file; an empty or missing entry holds nothing.
  Status read_nested(const std::string& entry_name, Model& model) {
    const ZipEntry* entry = zip_.find(entry_name);
    if (!entry || entry->size == 0) return {};
    Status status = add_nested(*entry, model);
    return status.ok() ? status : std::move(status).with_context(quoted(entry_name));
  }

  Status add_nested(const ZipEntry& entry, Model& model) {
    DH_ASSIGN(const ZipArchive inner, ZipArchive::open(zip_, entry));
    DH_ASSIGN(const torch_save::File saved, torch_save::read(inner, file_));
    const auto first = static_cast<uint32_t>(archive_.payloads.size());
    for (const torch_save::Storage& storage : saved.storages) {
      // Writers may leave the checksums of the inner archive out.
      archive_.payloads.push_back({cat(entry.name, "/", storage.key), storage.bytes,
                                   storage.file_offset, std::nullopt, storage.inflated});
    }
    for (const torch_save::TensorInfo& info : saved.tensors) {
      StoredTensor tensor{first + info.storage, from_torch_save(info.dtype), info.sizes,
                          info.strides, info.storage_offset};
      Status status = add_tensor(info.name, std::move(tensor), model);
      if (!status.ok()) {
        return std::move(status).with_context(cat("weight ", quoted(info.name)));
      }
    }
    return {};
  }

  void warn_about_unnamed_payloads() {
    for (const ZipEntry& entry : zip_.entries()) {
      const std::string_view rest = std::string_view(entry.name).substr(root_.size());
      const bool payload =
          rest.starts_with("data/weights/weight_") || rest.starts_with("data/constants/tensor_");
      if (payload && !payload_by_entry_.contains(entry.name)) {
        archive_.warnings.push_back(cat("record ", quoted(entry.name), " belongs to no weight"));
      }
    }
  }

  /// Bytes that no tensor reaches are legal (a slice keeps its whole storage) but worth a word.
  Status check_reach() {
    for (size_t i = 0; i < reach_.size(); ++i) {
      const uint64_t found = archive_.payloads[i].bytes.size();
      if (reach_[i].fqn.empty() || reach_[i].bytes == found) continue;
      archive_.warnings.push_back(cat("weight ", quoted(reach_[i].fqn), " needs ", reach_[i].bytes,
                                      " bytes, its record has ", found));
    }
    return {};
  }

  struct Reach {
    uint64_t bytes = 0;
    std::string fqn;
  };

  ZipArchive zip_;
  std::shared_ptr<const MappedFile> file_;
  std::string root_;
  Archive archive_;
  std::unordered_map<std::string, uint32_t> payload_by_entry_;
  std::vector<Reach> reach_;  ///< by payload: how far the furthest tensor goes
};

Result<Archive> read_mapped(const std::shared_ptr<const MappedFile>& file) {
  DH_ASSIGN(ZipArchive zip, ZipArchive::open(file));
  return ArchiveReader(std::move(zip), file).read();
}

}  // namespace

Result<Archive> read_pt2(std::shared_ptr<const MappedFile> file) {
  const std::string_view text = as_text(file->bytes());
  if (!text.starts_with("PK")) return unexpected_file(file->path(), "a .pt2 archive");
  auto archive = read_mapped(file);
  if (archive.ok()) return archive;
  return std::move(archive).status().with_context(cat("while reading ", quoted(file->path())));
}

Result<Archive> read_pt2(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file.ok()) return unexpected_file(path, "a .pt2 archive");
  return read_pt2(*std::move(file));
}

Status verify_payloads(const Archive& archive) {
  for (const Payload& payload : archive.payloads) {
    if (!payload.crc32 || !payload.file_offset) continue;  // inflated ones were compared then
    DH_ASSIGN(const uint32_t found,
              crc32_of_range(*archive.file, *payload.file_offset, payload.bytes.size()));
    if (found != *payload.crc32) {
      return invalid_file(cat("'", printable(archive.file->path()), "': record ",
                              quoted(payload.entry), " has checksum ", found, ", expected ",
                              *payload.crc32));
    }
  }
  return {};
}

}  // namespace downhaul::pt2
