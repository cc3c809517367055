#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "formats/pte/pte.h"

/// Between the flatbuffer and structs. Internal to this folder: keeps the generated code in one
/// translation unit.
namespace downhaul::pte {

/// Bytes between the identifier and the rest of the flatbuffer, and what stands before them.
constexpr uint64_t kLeadingBytes = 8;
constexpr uint64_t kExtendedHeaderBytes = 32;

/// The root table, nothing resolved and nothing checked beyond the flatbuffer itself.
struct RawProgram {
  struct PayloadReference {
    bool in_segment = true;
    uint32_t index = 0;
  };
  struct Subsegments {
    uint32_t segment = 0;
    std::vector<uint64_t> offsets;
  };
  struct NamedSegment {
    std::string key;
    uint32_t segment = 0;
  };

  uint32_t version = 0;
  Program program;                          ///< Delegate::payload counts through `payloads`
  std::vector<PayloadReference> payloads;   ///< one per delegate, over all plans
  std::vector<ByteRange> inline_constants;  ///< in the flatbuffer
  std::vector<ByteRange> inline_payloads;   ///< in the flatbuffer
  std::vector<ByteRange> segments;          ///< from the segment base
  Subsegments constants;                    ///< no offsets: absent
  std::vector<Subsegments> initial_contents;
  std::vector<NamedSegment> named_data;
};

/// `flatbuffer`: from the start of the file, extended header included; below 2^31 bytes (DH_CHECK).
/// `max_bytes`: what the result may take in memory; tables and vectors that are referred to many
/// times cannot blow it up.
/// Errors: kInvalidFile.
Result<RawProgram> decode_program(Bytes flatbuffer, uint64_t max_bytes);

/// The flatbuffer with room for the extended header (zeros) after the identifier. Inline constants
/// and payloads are not written.
/// Errors: kUnsupported above the 2 GiB that a flatbuffer can have.
Result<std::vector<uint8_t>> encode_program(const RawProgram& raw);

}  // namespace downhaul::pte
