#include "formats/pte/blob.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/strings.h"

namespace downhaul {
namespace {

uint64_t combine(uint64_t seed, uint64_t value) {
  return (seed ^ value) * 0x9e3779b97f4a7c15u + (seed >> 29);
}

bool same_piece(const Blob::Piece& a, const Blob::Piece& b) {
  if (a.size != b.size || a.file != b.file || a.producer != b.producer) return false;
  if (a.file) return a.offset == b.offset;
  if (a.producer) return true;
  return std::ranges::equal(a.memory, b.memory);
}

}  // namespace

Blob Blob::owned(std::vector<uint8_t> bytes) {
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return shared(*owner, owner);
}

Blob Blob::shared(Bytes bytes, std::shared_ptr<const void> owner) {
  Blob blob;
  if (bytes.empty()) return blob;
  blob.pieces_.push_back({.memory = bytes, .owner = std::move(owner), .size = bytes.size()});
  blob.size_ = bytes.size();
  return blob;
}

Blob Blob::mapped(std::shared_ptr<const MappedFile> file, uint64_t offset, uint64_t size) {
  DH_CHECK(in_range(offset, size, file->bytes().size()));
  Blob blob;
  if (size == 0) return blob;
  blob.pieces_.push_back({.file = std::move(file), .offset = offset, .size = size});
  blob.size_ = size;
  return blob;
}

Blob Blob::produced(uint64_t size, Producer producer) {
  Blob blob;
  if (size == 0) return blob;
  blob.pieces_.push_back(
      {.producer = std::make_shared<const Producer>(std::move(producer)), .size = size});
  blob.size_ = size;
  return blob;
}

Blob Blob::zeros(uint64_t size) {
  Blob blob;
  if (size == 0) return blob;
  blob.pieces_.push_back({.size = size});
  blob.size_ = size;
  return blob;
}

Blob& Blob::append(const Blob& other) {
  const std::vector<Piece> added = other.pieces_;
  pieces_.insert(pieces_.end(), added.begin(), added.end());
  size_ += other.size_;
  return *this;
}

Status Blob::write(OutputFile& out) const {
  for (const Piece& piece : pieces_) {
    const uint64_t start = out.position();
    if (piece.file) {
      DH_TRY(out.copy_from(*piece.file, piece.offset, piece.size));
    } else if (piece.producer) {
      DH_TRY((*piece.producer)(out));
    } else if (!piece.memory.empty()) {
      DH_TRY(out.write(piece.memory));
    } else {
      DH_TRY(out.write_zeros(piece.size));
    }
    if (out.position() - start != piece.size) {
      return invalid_argument(cat("a blob of ", piece.size, " bytes was written with ",
                                  out.position() - start, " bytes"));
    }
  }
  return {};
}

bool Blob::same_as(const Blob& other) const {
  return size_ == other.size_ && std::ranges::equal(pieces_, other.pieces_, same_piece);
}

uint64_t Blob::hash() const {
  uint64_t h = size_;
  for (const Piece& piece : pieces_) {
    h = combine(h, piece.size);
    h = combine(h, std::hash<const void*>{}(piece.file.get()));
    h = combine(h, std::hash<const void*>{}(piece.producer.get()));
    h = combine(h, piece.offset);
    h = combine(h, std::hash<std::string_view>{}(as_text(piece.memory)));
  }
  return h;
}

}  // namespace downhaul
