#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace downhaul {

/// Bytes that a writer is to put into a file later: pieces in memory, stretches of mapped files
/// (copied by the kernel, no page of them is touched here), or bytes made on the fly. Copying a
/// Blob copies pointers.
class Blob {
 public:
  /// Writes exactly the promised number of bytes. Called once per writing, in file order.
  using Producer = std::function<Status(OutputFile&)>;

  struct Piece {
    std::shared_ptr<const MappedFile> file;  ///< or null
    uint64_t offset = 0;                     ///< in `file`
    Bytes memory;                            ///< when neither file nor producer
    std::shared_ptr<const void> owner;       ///< keeps `memory` alive; null for static storage
    std::shared_ptr<const Producer> producer;
    uint64_t size = 0;
  };

  Blob() = default;
  static Blob owned(std::vector<uint8_t> bytes);
  /// `bytes` must stay as they are while `owner` lives.
  static Blob shared(Bytes bytes, std::shared_ptr<const void> owner);
  /// The stretch must lie inside the file (DH_CHECK).
  static Blob mapped(std::shared_ptr<const MappedFile> file, uint64_t offset, uint64_t size);
  static Blob produced(uint64_t size, Producer producer);
  static Blob zeros(uint64_t size);

  /// Appends the pieces of `other` (also from itself).
  Blob& append(const Blob& other);

  uint64_t size() const { return size_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  /// Appends the bytes to `out`. Errors: those of `out`; kInvalidArgument when a producer wrote
  /// another number of bytes than promised.
  Status write(OutputFile& out) const;

  /// True when both are surely the same bytes: equal memory, the same stretch of the same mapping,
  /// the same producer. Reads memory pieces, never mapped ones.
  bool same_as(const Blob& other) const;
  /// Equal for blobs that are `same_as` each other.
  uint64_t hash() const;

 private:
  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

}  // namespace downhaul
