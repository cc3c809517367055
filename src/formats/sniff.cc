#include "formats/sniff.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/strings.h"

namespace downhaul {
namespace {

constexpr size_t kHeadBytes = 4096;

struct TypeRow {
  FileType type;
  std::string_view text;
};
constexpr TypeRow kDescriptions[] = {
    {FileType::kMissing, "a path that does not exist"},
    {FileType::kUnreadable, "a file without read permission"},
    {FileType::kSpecial, "a pipe, socket or device"},
    {FileType::kEmpty, "an empty file"},
    {FileType::kPt2, "a .pt2 archive"},
    {FileType::kPte, "a .pte program"},
    {FileType::kSafetensors, "a safetensors file"},
    {FileType::kTorchSave, "a torch.save file"},
    {FileType::kTorchSaveLegacy, "a torch.save file in the form before 1.6"},
    {FileType::kPickle, "a pickle"},
    {FileType::kZip, "a ZIP archive"},
    {FileType::kJson, "a JSON file"},
    {FileType::kModelSpec, "a model spec"},
    {FileType::kJpeg, "a JPEG image"},
    {FileType::kPng, "a PNG image"},
    {FileType::kMlPackage, "an .mlpackage folder"},
    {FileType::kMlModelCompiled, "a compiled .mlmodelc folder"},
    {FileType::kMlModel, "an .mlmodel file"},
    {FileType::kCheckpointFolder, "a checkpoint folder"},
    {FileType::kFolder, "a folder"},
    {FileType::kText, "a text file"},
    {FileType::kUnknown, "a file of an unknown format"},
};

FileType sniff_folder(const std::string& path) {
  const auto has = [&](const char* name) { return file_exists(cat(path, "/", name)); };
  if (has("Manifest.json")) return FileType::kMlPackage;
  if (has("coremldata.bin") || has("model.mil")) return FileType::kMlModelCompiled;
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json",
                           "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (has(name)) return FileType::kCheckpointFolder;
  }
  return FileType::kFolder;
}

/// `tail`: the end of the file, where a ZIP lists its entries.
FileType sniff_zip(std::string_view tail) {
  const auto lists = [&](std::string_view name) {
    return tail.find(name) != std::string_view::npos;
  };
  if (lists("archive_format") || lists("serialized_exported_program.json") ||
      (lists("models/") && lists(".json"))) {
    return FileType::kPt2;
  }
  if (lists("data.pkl")) return FileType::kTorchSave;
  return FileType::kZip;
}

FileType sniff_json(std::string_view head) {
  for (const std::string_view key :
       {"\"exported_program\"", "\"model_id\"", "\"pt2\"", "\"preprocessing\""}) {
    if (head.find(key) != std::string_view::npos) return FileType::kModelSpec;
  }
  return FileType::kJson;
}

/// The first field of a serialized model is its version, a small number under tag 8, and then comes
/// the description, a message under tag 18.
bool looks_like_mlmodel(std::string_view head) {
  return head.size() > 2 && head[0] == 0x08 && head[1] > 0 && head[1] < 0x20 && head[2] == 0x12;
}

FileType sniff_content(std::string_view head, std::string_view tail, uint64_t file_size) {
  const auto at = [&](size_t offset, std::string_view magic) {
    return head.size() >= offset + magic.size() && head.substr(offset, magic.size()) == magic;
  };
  if (at(0, "PK\x03\x04") || at(0, "PK\x05\x06")) return sniff_zip(tail);
  if (at(0, "\xff\xd8\xff")) return FileType::kJpeg;
  if (at(0, "\x89PNG\r\n\x1a\n")) return FileType::kPng;
  // FlatBuffers put the file identifier behind the root offset.
  if (at(4, "ET12") || (at(4, "ET") && head.size() > 7 && head[6] >= '0' && head[6] <= '9')) {
    return FileType::kPte;
  }
  if (at(0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")) {
    return FileType::kTorchSaveLegacy;
  }
  if (head.size() > 9 && head[8] == '{') {
    uint64_t header = 0;
    std::memcpy(&header, head.data(), sizeof(header));
    if (header > 1 && header <= file_size - 8) return FileType::kSafetensors;
  }
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return FileType::kPickle;
  }
  if (looks_like_mlmodel(head)) return FileType::kMlModel;
  const std::string_view text = trim(head);
  if (text.starts_with('{') || text.starts_with('[')) return sniff_json(head);
  const bool plain = std::all_of(head.begin(), head.end(), [](char c) {
    return c == '\n' || c == '\r' || c == '\t' || static_cast<unsigned char>(c) >= 0x20;
  });
  return plain ? FileType::kText : FileType::kUnknown;
}

std::string read_part(int fd, uint64_t offset, uint64_t size) {
  std::string out(size, '\0');
  const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
  out.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return out;
}

}  // namespace

FileType sniff(const std::string& path) {
  // O_NONBLOCK: a FIFO without a writer must not hang.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return FileType::kMissing;
    return errno == ENXIO ? FileType::kSpecial : FileType::kUnreadable;
  }
  FileType type = FileType::kUnknown;
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    type = FileType::kUnreadable;
  } else if (S_ISDIR(info.st_mode)) {
    type = sniff_folder(path);
  } else if (!S_ISREG(info.st_mode)) {
    type = FileType::kSpecial;
  } else if (info.st_size == 0) {
    type = FileType::kEmpty;
  } else {
    const auto size = static_cast<uint64_t>(info.st_size);
    const uint64_t part = std::min<uint64_t>(size, kHeadBytes);
    const std::string head = read_part(fd, 0, part);
    type = sniff_content(head, read_part(fd, size - part, part), size);
  }
  ::close(fd);
  return type;
}

std::string_view describe(FileType type) {
  for (const TypeRow& row : kDescriptions) {
    if (row.type == type) return row.text;
  }
  return "a file of an unknown format";
}

Status unexpected_file(const std::string& path, std::string_view expected) {
  const std::string place = cat("'", printable(path), "'");
  const FileType type = sniff(path);
  switch (type) {
    case FileType::kMissing:
      return not_found(cat(place, " does not exist, expected ", expected));
    case FileType::kUnreadable:
      return io_error(cat(place, ": no permission to read, expected ", expected));
    default:
      return invalid_file(cat(place, ": expected ", expected, ", this is ", describe(type)));
  }
}

}  // namespace downhaul
