#include "formats/zip/zip_writer.h"

#include <zlib.h>

#include "base/checked.h"
#include "base/status.h"
#include "formats/zip/records.h"

namespace downhaul {
namespace {

using namespace zip;  // NOLINT: the record constants are this file's vocabulary

// 1980-01-01, the earliest date there is.
constexpr uint16_t kDate = (1u << 5) | 1u;
constexpr uint16_t kVersion = 45;

template <typename T>
void put(std::vector<uint8_t>& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

void put_text(std::vector<uint8_t>& out, std::string_view text) {
  out.insert(out.end(), text.begin(), text.end());
}

std::vector<uint8_t> deflate_raw(Bytes content) {
  z_stream stream{};
  DH_CHECK(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                        Z_DEFAULT_STRATEGY) == Z_OK);
  std::vector<uint8_t> out(deflateBound(&stream, content.size()));
  stream.next_in = const_cast<uint8_t*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  DH_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

void ZipWriter::add(std::string_view name, Bytes content) {
  Entry entry;
  entry.name = name;
  entry.size = content.size();
  entry.crc32 = static_cast<uint32_t>(crc32_z(0, content.data(), content.size()));
  entry.header_offset = out_.size();
  std::vector<uint8_t> compressed;
  if (options_.deflate) {
    compressed = deflate_raw(content);
    content = compressed;
  }
  entry.stored_size = content.size();

  const bool behind = options_.data_descriptor;
  const bool saturated = options_.zip64 && !behind;
  std::vector<uint8_t> extra;
  if (saturated) {
    put<uint16_t>(extra, kZip64Extra);
    put<uint16_t>(extra, 16);
    put<uint64_t>(extra, entry.size);
    put<uint64_t>(extra, entry.stored_size);
  }
  const uint64_t unpadded = out_.size() + kLocalBytes + name.size() + extra.size();
  if (unpadded % options_.alignment != 0) {
    const uint64_t padding = align_up(unpadded + 4, options_.alignment) - unpadded - 4;
    put<uint16_t>(extra, kPaddingExtra);
    put<uint16_t>(extra, static_cast<uint16_t>(padding));
    extra.insert(extra.end(), padding, 'Z');
  }

  put<uint32_t>(out_, kLocalSignature);
  put<uint16_t>(out_, kVersion);
  put<uint16_t>(out_, static_cast<uint16_t>(kFlagUtf8 | (behind ? kFlagDescriptor : 0)));
  put<uint16_t>(out_, options_.deflate ? kDeflated : kStored);
  put<uint16_t>(out_, 0);
  put<uint16_t>(out_, kDate);
  put<uint32_t>(out_, behind ? 0 : entry.crc32);
  put<uint32_t>(out_, behind ? 0 : saturated ? kIn64 : static_cast<uint32_t>(entry.stored_size));
  put<uint32_t>(out_, behind ? 0 : saturated ? kIn64 : static_cast<uint32_t>(entry.size));
  put<uint16_t>(out_, static_cast<uint16_t>(name.size()));
  put<uint16_t>(out_, static_cast<uint16_t>(extra.size()));
  put_text(out_, name);
  out_.insert(out_.end(), extra.begin(), extra.end());
  last_offset_ = out_.size();
  out_.insert(out_.end(), content.begin(), content.end());
  if (behind) {
    put<uint32_t>(out_, kDescriptorSignature);
    put<uint32_t>(out_, entry.crc32);
    put<uint32_t>(out_, static_cast<uint32_t>(entry.stored_size));
    put<uint32_t>(out_, static_cast<uint32_t>(entry.size));
  }
  entries_.push_back(std::move(entry));
}

std::vector<uint8_t> ZipWriter::finish() {
  const uint64_t directory = out_.size();
  const bool wide = options_.zip64;
  for (const Entry& entry : entries_) {
    put<uint32_t>(out_, kCentralSignature);
    put<uint16_t>(out_, kVersion);
    put<uint16_t>(out_, kVersion);
    put<uint16_t>(
        out_, static_cast<uint16_t>(kFlagUtf8 | (options_.data_descriptor ? kFlagDescriptor : 0)));
    put<uint16_t>(out_, options_.deflate ? kDeflated : kStored);
    put<uint16_t>(out_, 0);
    put<uint16_t>(out_, kDate);
    put<uint32_t>(out_, entry.crc32);
    put<uint32_t>(out_, wide ? kIn64 : static_cast<uint32_t>(entry.stored_size));
    put<uint32_t>(out_, wide ? kIn64 : static_cast<uint32_t>(entry.size));
    put<uint16_t>(out_, static_cast<uint16_t>(entry.name.size()));
    put<uint16_t>(out_, wide ? 28 : 0);
    put<uint16_t>(out_, 0);
    put<uint16_t>(out_, 0);
    put<uint16_t>(out_, 0);
    put<uint32_t>(out_, 0);
    put<uint32_t>(out_, wide ? kIn64 : static_cast<uint32_t>(entry.header_offset));
    put_text(out_, entry.name);
    if (wide) {
      put<uint16_t>(out_, kZip64Extra);
      put<uint16_t>(out_, 24);
      put<uint64_t>(out_, entry.size);
      put<uint64_t>(out_, entry.stored_size);
      put<uint64_t>(out_, entry.header_offset);
    }
  }
  const uint64_t directory_size = out_.size() - directory;
  const uint64_t count = entries_.size();
  if (wide) {
    const uint64_t record = out_.size();
    put<uint32_t>(out_, kZip64EndSignature);
    put<uint64_t>(out_, kZip64EndBytes - 12);
    put<uint16_t>(out_, kVersion);
    put<uint16_t>(out_, kVersion);
    put<uint32_t>(out_, 0);
    put<uint32_t>(out_, 0);
    put<uint64_t>(out_, count);
    put<uint64_t>(out_, count);
    put<uint64_t>(out_, directory_size);
    put<uint64_t>(out_, directory);
    put<uint32_t>(out_, kZip64LocatorSignature);
    put<uint32_t>(out_, 0);
    put<uint64_t>(out_, record);
    put<uint32_t>(out_, 1);
  }
  put<uint32_t>(out_, kEndSignature);
  put<uint16_t>(out_, 0);
  put<uint16_t>(out_, 0);
  put<uint16_t>(out_, wide ? kIn64Count : static_cast<uint16_t>(count));
  put<uint16_t>(out_, wide ? kIn64Count : static_cast<uint16_t>(count));
  put<uint32_t>(out_, wide ? kIn64 : static_cast<uint32_t>(directory_size));
  put<uint32_t>(out_, wide ? kIn64 : static_cast<uint32_t>(directory));
  put<uint16_t>(out_, 0);
  entries_.clear();
  return std::exchange(out_, {});
}

}  // namespace downhaul
