#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "formats/pte/blob.h"
#include "formats/pte/pte.h"

namespace downhaul {

/// Where everything came to lie. `parts` is as in PteFile: sorted, sums to `file_size`.
struct PteLayout {
  uint64_t file_size = 0;
  uint64_t flatbuffer_size = 0;    ///< with the header
  uint64_t constants_size = 0;     ///< constant segment, padding between entries included
  uint64_t constants_padding = 0;  ///< of that, padding
  uint64_t initial_size = 0;       ///< initial contents of mutable state
  uint64_t payloads_size = 0;      ///< delegate payloads
  uint64_t named_data_size = 0;    ///< named blobs that have bytes of their own
  uint64_t aliased_size = 0;       ///< named blobs inside the constant segment: cost nothing
  uint64_t padding = 0;            ///< between and before segments
  std::vector<PtePart> parts;
  std::vector<pte::ByteRange> constants;   ///< in the file, by data_index; element 0 is empty
  std::vector<pte::ByteRange> payloads;    ///< in the file, by payload number
  std::vector<pte::ByteRange> named_data;  ///< in the file, in the order of first mention
};

/// Collects the bytes that a program refers to, then writes the file:
/// header and flatbuffer, constants, initial contents, delegate payloads, named data.
/// The same calls give the same bytes. Blobs that are `same_as` each other are stored once.
class PteBuilder {
 public:
  /// Bytes of a constant; returns the data_index for pte::Tensor (>= 1, the same for the same
  /// blob). `alignment`: power of two, 16 to 4096, of its offset in the constant segment.
  uint32_t add_constant(const Blob& blob, uint32_t alignment = 16);
  /// Initial content of mutable state; returns the data_index for a Tensor with an allocation.
  uint32_t add_initial_content(const Blob& blob);
  /// Bytes handed to a delegate; returns the number for pte::Delegate::payload.
  uint32_t add_payload(const Blob& blob);

  /// A blob that delegates find by `key`. Stored once for all keys; when a constant is the same
  /// blob, the key names the constant's bytes, which then start at a multiple of 128. A key may be
  /// added again with the same blob (DH_CHECK that it is the same).
  void add_named_data(const std::string& key, const Blob& blob);
  /// `key` names bytes [offset, offset + size) of constant `data_index`. Must lie inside
  /// (DH_CHECK).
  void add_named_constant(const std::string& key, uint32_t data_index, uint64_t offset,
                          uint64_t size);
  bool has_named_data(const std::string& key) const { return named_by_key_.contains(key); }

  /// Verifies `program` against what was added (an error there is kInvalidGraph) and appends the
  /// whole file to `out`, whose position must be 0. The caller commits.
  Result<PteLayout> write(const pte::Program& program, OutputFile& out) const;

 private:
  class Placement;
  struct Entry {
    Blob blob;
    uint32_t alignment = 16;
  };
  struct Named {
    std::string key;
    Blob blob;                ///< unless it names a constant
    uint32_t data_index = 0;  ///< > 0: a stretch of that constant
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  using ByHash = std::unordered_multimap<uint64_t, uint32_t>;

  static uint32_t find_or_add(std::vector<Entry>& entries, ByHash& by_hash, const Blob& blob,
                              uint32_t alignment);

  std::vector<Entry> constants_;         ///< data_index - 1
  std::vector<Entry> initial_contents_;  ///< data_index - 1
  std::vector<Entry> payloads_;
  std::vector<Named> named_;
  ByHash constants_by_hash_;
  ByHash initial_by_hash_;
  ByHash payloads_by_hash_;
  std::unordered_map<std::string, size_t> named_by_key_;
};

}  // namespace downhaul
