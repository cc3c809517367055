#pragma once

#include <cstdint>
#include <cstring>

/// Sizes, signatures and field offsets of the ZIP records, shared by reader and writer.
/// Source: APPNOTE.TXT sections 4.3 and 4.5.
namespace downhaul::zip {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kZip64EndSignature = 0x06064b50;
constexpr uint32_t kZip64LocatorSignature = 0x07064b50;
constexpr uint32_t kDescriptorSignature = 0x08074b50;

constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kCentralBytes = 46;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kZip64EndBytes = 56;
constexpr uint64_t kZip64LocatorBytes = 20;

constexpr uint16_t kZip64Extra = 0x0001;
constexpr uint16_t kPaddingExtra = 0x4246;  // "FB", as torch.save fills it

constexpr uint16_t kFlagEncrypted = 1u << 0;
constexpr uint16_t kFlagDescriptor = 1u << 3;
constexpr uint16_t kFlagUtf8 = 1u << 11;

constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;

constexpr uint32_t kIn64 = 0xFFFFFFFF;  // "see the ZIP64 field"
constexpr uint16_t kIn64Count = 0xFFFF;

template <typename T>
T read_le(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

}  // namespace downhaul::zip
