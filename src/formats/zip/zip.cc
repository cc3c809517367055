#include "formats/zip/zip.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/checked.h"
#include "base/strings.h"
#include "formats/zip/records.h"

namespace downhaul {
namespace {

using namespace zip;  // NOLINT: the record constants are this file's vocabulary

constexpr size_t kMaxNameBytes = 1024;
// Deflate cannot do much better than 1032:1, and no file that is meant to be read comes near.
constexpr uint64_t kMaxRatio = 1000;
constexpr uint64_t kRatioFreeBytes = 1u << 20;
// All inflated bytes together: text shrinks about 15:1, and small archives get some room.
constexpr uint64_t kBudgetRatio = 16;
constexpr uint64_t kBudgetFreeBytes = 64u << 20;
constexpr size_t kPieceBytes = 1u << 20;

std::string quoted(std::string_view name) { return cat("'", printable(name), "'"); }

std::string_view unsafe_name_reason(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kMaxNameBytes) return "is too long";
  if (name.find('\0') != std::string_view::npos) return "holds a NUL byte";
  if (name.find('\\') != std::string_view::npos) return "holds a backslash";
  if (name.front() == '/') return "is absolute";
  if (name.size() >= 2 && name[1] == ':') return "names a drive";
  for (const std::string_view part : split(name, '/')) {
    if (part == "..") return "leads out of the archive";
  }
  return {};
}

Status read_file_at(const MappedFile& file, uint64_t offset, std::span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(file.fd(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(cat("cannot read: ", std::generic_category().message(errno)));
    if (n == 0) return invalid_file("file became shorter while being read");
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

/// The fields of a ZIP64 extra block, in the order in which they are present.
class Zip64Fields {
 public:
  explicit Zip64Fields(Bytes extra) {
    while (extra.size() >= 4) {
      const auto id = read_le<uint16_t>(extra.data());
      const auto size = read_le<uint16_t>(extra.data() + 2);
      if (size > extra.size() - 4) return;
      if (id == kZip64Extra) {
        left_ = extra.subspan(4, size);
        return;
      }
      extra = extra.subspan(4u + size);
    }
  }
  /// Replaces a saturated `value`. False when the block lacks it.
  bool resolve(uint64_t& value) {
    if (value != kIn64) return true;
    if (left_.size() < 8) return false;
    value = read_le<uint64_t>(left_.data());
    left_ = left_.subspan(8);
    return true;
  }

 private:
  Bytes left_;
};

}  // namespace

struct ZipArchive::Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t count = 0;
};

Result<ZipArchive> ZipArchive::open(std::shared_ptr<const MappedFile> file) {
  const uint64_t size = file->bytes().size();
  return open(std::move(file), 0, size);
}

Result<ZipArchive> ZipArchive::open(std::shared_ptr<const MappedFile> file, uint64_t offset,
                                    uint64_t size) {
  DH_CHECK(in_range(offset, size, file->bytes().size()));
  ZipArchive archive;
  archive.file_ = std::move(file);
  archive.offset_ = offset;
  archive.size_ = size;
  DH_TRY(archive.load());
  return archive;
}

Result<ZipArchive> ZipArchive::open(std::shared_ptr<const std::vector<uint8_t>> bytes) {
  ZipArchive archive;
  archive.size_ = bytes->size();
  archive.memory_ = std::move(bytes);
  DH_TRY(archive.load());
  return archive;
}

Result<ZipArchive> ZipArchive::open(const ZipArchive& outer, const ZipEntry& entry) {
  ZipArchive archive;
  archive.budget_ = outer.budget_;
  archive.size_ = entry.size;
  if (entry.method == kStored) {
    archive.file_ = outer.file_;
    archive.memory_ = outer.memory_;
    archive.offset_ = outer.offset_ + entry.data_offset;
  } else {
    DH_ASSIGN(ZipBytes content, outer.read(entry));
    archive.memory_ = std::move(content.inflated);
  }
  DH_TRY(archive.load());
  return archive;
}

Status ZipArchive::read_at(uint64_t offset, std::span<uint8_t> out) const {
  if (!in_range(offset, out.size(), size_)) return invalid_file("archive is truncated");
  if (!memory_) return read_file_at(*file_, offset_ + offset, out);
  if (!out.empty()) std::memcpy(out.data(), memory_->data() + offset_ + offset, out.size());
  return {};
}

Status ZipArchive::load() {
  if (!budget_) {
    budget_ = std::make_shared<Budget>();
    budget_->limit = kBudgetFreeBytes + kBudgetRatio * size_;
  }
  DH_ASSIGN(const Directory directory, find_directory());
  return read_directory(directory);
}

Result<ZipArchive::Directory> ZipArchive::find_directory() const {
  // The end record is followed by a comment of at most 64 KiB that says its own length; nearly
  // always there is none.
  const uint64_t longest = std::min<uint64_t>(size_, kEndBytes + 0xFFFF);
  std::vector<uint8_t> tail;
  uint64_t end = size_;
  for (const uint64_t length : {std::min<uint64_t>(size_, kEndBytes), longest}) {
    tail.resize(length);
    DH_TRY(read_at(size_ - length, tail));
    for (uint64_t back = kEndBytes; back <= length; ++back) {
      const uint8_t* p = tail.data() + (length - back);
      if (read_le<uint32_t>(p) == kEndSignature && read_le<uint16_t>(p + 20) == back - kEndBytes) {
        end = size_ - back;
        std::copy(p, p + kEndBytes, tail.begin());
        break;
      }
    }
    if (end < size_) break;
  }
  if (end == size_) {
    return invalid_file("no end record of a ZIP archive (not a ZIP, or truncated)");
  }

  const uint8_t* p = tail.data();
  const auto disk = read_le<uint16_t>(p + 4);
  Directory directory;
  directory.count = read_le<uint16_t>(p + 10);
  directory.size = read_le<uint32_t>(p + 12);
  directory.offset = read_le<uint32_t>(p + 16);
  uint64_t limit = end;
  if (disk != 0 && disk != 0xFFFF) return unsupported("ZIP archive in several parts");
  uint8_t locator[kZip64LocatorBytes];
  const bool has_locator = end >= sizeof(locator) && read_at(end - sizeof(locator), locator).ok() &&
                           read_le<uint32_t>(locator) == kZip64LocatorSignature;
  if (has_locator) {
    const auto position = read_le<uint64_t>(locator + 8);
    uint8_t record[kZip64EndBytes];
    if (!in_range(position, sizeof(record), end - sizeof(locator))) {
      return invalid_file(cat("ZIP64 end record at ", position, ", archive has ", size_, " bytes"));
    }
    DH_TRY(read_at(position, record));
    if (read_le<uint32_t>(record) != kZip64EndSignature) {
      return invalid_file(cat("no ZIP64 end record at ", position));
    }
    directory.count = read_le<uint64_t>(record + 32);
    directory.size = read_le<uint64_t>(record + 40);
    directory.offset = read_le<uint64_t>(record + 48);
    limit = position;
  } else if (directory.count == kIn64Count || directory.size == kIn64 ||
             directory.offset == kIn64) {
    return invalid_file("ZIP64 end record is missing");
  }
  if (!in_range(directory.offset, directory.size, limit)) {
    return invalid_file(cat("central directory at ", directory.offset, " of ", directory.size,
                            " bytes does not fit, archive has ", size_, " bytes"));
  }
  if (directory.count > directory.size / kCentralBytes) {
    return invalid_file(cat("central directory of ", directory.size, " bytes cannot hold ",
                            directory.count, " entries"));
  }
  return directory;
}

Status ZipArchive::read_directory(const Directory& directory) {
  std::vector<uint8_t> bytes(directory.size);
  DH_TRY(read_at(directory.offset, bytes));
  struct Extent {
    uint64_t begin;
    size_t entry;
  };
  std::vector<Extent> extents;
  entries_.reserve(directory.count);
  extents.reserve(directory.count);
  Bytes left(bytes);
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (left.size() < kCentralBytes || read_le<uint32_t>(left.data()) != kCentralSignature) {
      return invalid_file(
          cat("central directory: entry ", i, " of ", directory.count, " is malformed"));
    }
    const uint8_t* p = left.data();
    const auto flags = read_le<uint16_t>(p + 8);
    ZipEntry entry;
    entry.method = read_le<uint16_t>(p + 10);
    entry.crc32 = read_le<uint32_t>(p + 16);
    entry.stored_size = read_le<uint32_t>(p + 20);
    entry.size = read_le<uint32_t>(p + 24);
    const uint64_t name_size = read_le<uint16_t>(p + 28);
    const uint64_t extra_size = read_le<uint16_t>(p + 30);
    const uint64_t comment_size = read_le<uint16_t>(p + 32);
    uint64_t header_offset = read_le<uint32_t>(p + 42);
    const uint64_t total = kCentralBytes + name_size + extra_size + comment_size;
    if (total > left.size()) {
      return invalid_file(cat("central directory: entry ", i, " is truncated"));
    }
    entry.name.assign(as_text(left.subspan(kCentralBytes, name_size)));
    if (const std::string_view reason = unsafe_name_reason(entry.name); !reason.empty()) {
      return invalid_file(cat("entry name '", printable(entry.name, 80), "' ", reason));
    }
    Zip64Fields fields(left.subspan(kCentralBytes + name_size, extra_size));
    if (!fields.resolve(entry.size) || !fields.resolve(entry.stored_size) ||
        !fields.resolve(header_offset)) {
      return invalid_file(cat("entry ", quoted(entry.name), ": ZIP64 sizes are missing"));
    }
    if ((flags & kFlagEncrypted) != 0) {
      return unsupported(cat("entry ", quoted(entry.name), " is encrypted"));
    }
    if (entry.method == kStored && entry.size != entry.stored_size) {
      return invalid_file(cat("record ", quoted(entry.name), " declares ", entry.size,
                              " bytes, archive has ", entry.stored_size));
    }
    if (entry.size > kRatioFreeBytes && entry.size / kMaxRatio > entry.stored_size) {
      return invalid_file(cat("record ", quoted(entry.name), " declares ", entry.size,
                              " bytes out of ", entry.stored_size, " compressed ones, at most ",
                              kMaxRatio, ":1 is accepted"));
    }
    if (!in_range(header_offset, kLocalBytes + name_size, directory.offset)) {
      return invalid_file(cat("entry ", quoted(entry.name), ": local header at ", header_offset,
                              " does not fit in front of the central directory at ",
                              directory.offset));
    }
    DH_TRY(check_local_header(entry, header_offset, flags));
    if (!in_range(entry.data_offset, entry.stored_size, directory.offset)) {
      return invalid_file(cat("record ", quoted(entry.name), " declares ", entry.stored_size,
                              " bytes, archive has ",
                              directory.offset - std::min(directory.offset, entry.data_offset)));
    }
    if (!index_.emplace(entry.name, entries_.size()).second) {
      return invalid_file(cat("two entries are named ", quoted(entry.name)));
    }
    extents.push_back({header_offset, entries_.size()});
    entries_.push_back(std::move(entry));
    left = left.subspan(total);
  }
  // Entries that share bytes are how small archives pretend to hold much.
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i) {
    const ZipEntry& before = entries_[extents[i - 1].entry];
    if (before.data_offset + before.stored_size > extents[i].begin) {
      return invalid_file(cat("entries ", quoted(before.name), " and ",
                              quoted(entries_[extents[i].entry].name), " overlap"));
    }
  }
  return {};
}

Status ZipArchive::check_local_header(ZipEntry& entry, uint64_t header_offset,
                                      uint16_t flags) const {
  const auto disagree = [&](std::string_view what) {
    return invalid_file(cat("entry ", quoted(entry.name),
                            ": local header and central directory disagree about the ", what));
  };
  uint8_t header[kLocalBytes + kMaxNameBytes];
  const uint64_t length = kLocalBytes + entry.name.size();
  DH_TRY(read_at(header_offset, {header, length}));
  if (read_le<uint32_t>(header) != kLocalSignature) {
    return invalid_file(cat("entry ", quoted(entry.name), ": no local header at ", header_offset));
  }
  constexpr uint16_t kCompared = kFlagEncrypted | kFlagDescriptor;
  if ((read_le<uint16_t>(header + 6) & kCompared) != (flags & kCompared)) return disagree("flags");
  if (read_le<uint16_t>(header + 8) != entry.method) return disagree("method");
  if (read_le<uint16_t>(header + 26) != entry.name.size() ||
      std::memcmp(header + kLocalBytes, entry.name.data(), entry.name.size()) != 0) {
    return disagree("name");
  }
  const uint64_t extra_size = read_le<uint16_t>(header + 28);
  entry.data_offset = header_offset + length + extra_size;

  uint64_t crc32 = read_le<uint32_t>(header + 14);
  uint64_t stored_size = read_le<uint32_t>(header + 18);
  uint64_t size = read_le<uint32_t>(header + 22);
  if (stored_size == kIn64 || size == kIn64) {
    std::vector<uint8_t> extra(extra_size);
    DH_TRY(read_at(header_offset + length, extra));
    Zip64Fields fields(extra);
    if (!fields.resolve(size) || !fields.resolve(stored_size)) return disagree("size");
  }
  // With a descriptor behind the data, writers leave zeros here.
  const bool may_be_zero = (flags & kFlagDescriptor) != 0;
  const auto differs = [&](uint64_t local, uint64_t central) {
    return local != central && !(may_be_zero && local == 0);
  };
  if (differs(size, entry.size) || differs(stored_size, entry.stored_size)) return disagree("size");
  if (differs(crc32, entry.crc32)) return disagree("checksum");
  return {};
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &entries_[found->second];
}

Result<ZipBytes> ZipArchive::read(const ZipEntry& entry) const {
  ZipBytes out;
  if (entry.method == kStored) {
    const uint64_t offset = offset_ + entry.data_offset;
    if (memory_) {
      out.bytes = Bytes(*memory_).subspan(offset, entry.size);
      out.inflated = memory_;
    } else {
      out.bytes = file_->bytes().subspan(offset, entry.size);
      out.file_offset = offset;
    }
    return out;
  }
  if (entry.method != kDeflated) {
    return unsupported(cat("entry ", quoted(entry.name), ": compression method ", entry.method,
                           ", expected 0 (stored) or 8 (deflated)"));
  }
  DH_ASSIGN(std::vector<uint8_t> inflated, inflate(entry));
  out.inflated = std::make_shared<const std::vector<uint8_t>>(std::move(inflated));
  out.bytes = *out.inflated;
  return out;
}

Result<std::vector<uint8_t>> ZipArchive::inflate(const ZipEntry& entry) const {
  if (entry.size > budget_->limit - std::min(budget_->limit, budget_->used)) {
    return invalid_file(cat("entry ", quoted(entry.name), ": inflating ", entry.size,
                            " bytes more would exceed the ", budget_->limit,
                            " that are accepted for an archive of this size"));
  }
  budget_->used += entry.size;
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return io_error("cannot start inflating");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);

  // One byte of room more than declared shows data that goes on.
  std::vector<uint8_t> out(entry.size + 1);
  std::vector<uint8_t> piece(std::min<uint64_t>(entry.stored_size, kPieceBytes));
  uint64_t done_in = 0;
  uint64_t done_out = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    if (stream.avail_in == 0) {
      const uint64_t n = std::min<uint64_t>(entry.stored_size - done_in, piece.size());
      if (n == 0) break;
      DH_TRY(read_at(entry.data_offset + done_in, {piece.data(), n}));
      done_in += n;
      stream.next_in = piece.data();
      stream.avail_in = static_cast<uInt>(n);
    }
    const uint64_t room = std::min<uint64_t>(out.size() - done_out, 1u << 30);
    if (room == 0) break;
    stream.next_out = out.data() + done_out;
    stream.avail_out = static_cast<uInt>(room);
    state = ::inflate(&stream, Z_NO_FLUSH);
    done_out += room - stream.avail_out;
  }
  if (state != Z_STREAM_END || done_out != entry.size) {
    return invalid_file(cat("entry ", quoted(entry.name), ": compressed data is damaged or does ",
                            "not inflate to the declared ", entry.size, " bytes"));
  }
  out.resize(entry.size);
  const auto found = crc32_z(0, out.data(), out.size());
  if (found != entry.crc32) {
    return invalid_file(cat("entry ", quoted(entry.name), ": checksum of the content is ", found,
                            ", expected ", entry.crc32));
  }
  return out;
}

Status ZipArchive::verify_crc(const ZipEntry& entry) const {
  if (entry.method != kStored) return read(entry).status();  // inflating compares it
  uint32_t found = 0;
  if (memory_) {
    found = static_cast<uint32_t>(
        crc32_z(0, memory_->data() + offset_ + entry.data_offset, entry.size));
  } else {
    DH_ASSIGN(found, crc32_of_range(*file_, offset_ + entry.data_offset, entry.size));
  }
  if (found != entry.crc32) {
    return invalid_file(cat("entry ", quoted(entry.name), ": checksum of the content is ", found,
                            ", expected ", entry.crc32));
  }
  return {};
}

Result<uint32_t> crc32_of_range(const MappedFile& file, uint64_t offset, uint64_t size) {
  if (!in_range(offset, size, file.bytes().size())) return invalid_file("range outside the file");
  std::vector<uint8_t> piece;
  uLong crc = 0;
  for (uint64_t done = 0; done < size; done += piece.size()) {
    piece.resize(std::min<uint64_t>(size - done, kPieceBytes));
    DH_TRY(read_file_at(file, offset + done, piece));
    crc = crc32_z(crc, piece.data(), piece.size());
  }
  return static_cast<uint32_t>(crc);
}

}  // namespace downhaul
