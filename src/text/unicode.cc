#include "text/unicode.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>

#include "base/status.h"

namespace downhaul::text {
namespace {

struct Range {
  uint32_t first, last;
};
#include "text/late_unicode.inc"

template <size_t N>
bool contains(const Range (&ranges)[N], uint32_t c) {
  const Range* after = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                        [](uint32_t value, Range r) { return value < r.first; });
  return after != std::begin(ranges) && c <= (after - 1)->last;
}

// Major version in the high byte, minor in the low one; 0 for unassigned characters.
uint32_t age(uint32_t c) {
  UVersionInfo version;
  u_charAge(static_cast<UChar32>(c), version);
  return static_cast<uint32_t>(version[0]) << 8 | version[1];
}
constexpr uint32_t kCategoryAge = 8 << 8;
constexpr uint32_t kDecompositionAge = 9 << 8;
// What the oldest supported ICU (72) knows; later characters come from late_unicode.inc.
constexpr uint32_t kCommonAge = 15 << 8;

bool assigned_by(uint32_t c, uint32_t limit) {
  const uint32_t a = age(c);
  return a != 0 && a <= limit;
}

// The category in Unicode 8. Later versions changed a few.
int8_t old_category(uint32_t c) {
  switch (c) {
    case 0x166D:
    case 0x111C9:
      return U_OTHER_PUNCTUATION;
    case 0x1734:
      return U_NON_SPACING_MARK;
    case 0x1885:
    case 0x1886:
      return U_OTHER_LETTER;
    case 0xA9BD:
      return U_COMBINING_SPACING_MARK;
    default:
      return assigned_by(c, kCategoryAge) ? u_charType(static_cast<UChar32>(c))
                                          : static_cast<int8_t>(U_UNASSIGNED);
  }
}

const UNormalizer2* nfd() {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* result = unorm2_getNFDInstance(&error);
  DH_CHECK(U_SUCCESS(error));
  return result;
}

bool is_ideograph(uint32_t c) {
  static constexpr Range kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                      {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
                                      {0x2F800, 0x2FA1F}};
  return contains(kBlocks, c);
}

uint16_t compute_flags(uint32_t c) {
  uint16_t flags = 0;
  const auto code = static_cast<UChar32>(c);
  const auto set = [&](bool on, uint16_t flag) { flags |= on ? flag : uint16_t{0}; };
  set(u_isUWhiteSpace(code), kSpace);
  set(is_ideograph(c), kIdeograph);

  const uint32_t old = U_MASK(old_category(c));
  set((old & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0 && c != '\t' && c != '\n' &&
          c != '\r',
      kControl);
  set(c == 0xFFFD, kControl);
  const bool ascii_symbol = c > 0x20 && c < 0x7F && !u_isalnum(code);
  set((old & U_GC_P_MASK) != 0 || ascii_symbol, kPunctuation);
  set((old & U_GC_MN_MASK) != 0, kNonspacing);

  if (assigned_by(c, kCommonAge)) {
    const uint32_t now = U_GET_GC_MASK(code);
    set((now & U_GC_L_MASK) != 0, kLetter);
    set((now & U_GC_N_MASK) != 0, kNumber);
    set((now & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
            u_hasBinaryProperty(code, UCHAR_ALPHABETIC) ||
            u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL),
        kWord);
  } else {
    set(contains(kLateLetters, c), kLetter);
    set(contains(kLateNumbers, c), kNumber);
    set(contains(kLateWord, c), kWord);
  }

  uint32_t out[kMaxDecomposition];
  set(combining_class(c) != 0 || decompose(c, out) != 1 || out[0] != c, kNfdActive);
  set(lower_case(c, out) != 1 || out[0] != c, kHasLower);
  return flags;
}

constexpr uint32_t kPageSize = 256;
struct Page {
  std::array<uint16_t, kPageSize> flags;
};

}  // namespace

uint16_t char_flags(uint32_t c) {
  // Pages are made when first asked for: the whole table would cost tens of milliseconds.
  static std::array<std::atomic<const Page*>, 0x110000 / kPageSize> pages{};
  std::atomic<const Page*>& slot = pages[c / kPageSize];
  const Page* page = slot.load(std::memory_order_acquire);
  if (page == nullptr) {
    auto* made = new Page;
    const uint32_t base = c / kPageSize * kPageSize;
    for (uint32_t i = 0; i < kPageSize; ++i) made->flags[i] = compute_flags(base + i);
    if (slot.compare_exchange_strong(page, made, std::memory_order_acq_rel)) {
      page = made;
    } else {
      delete made;
    }
  }
  return page->flags[c % kPageSize];
}

int lower_case(uint32_t c, uint32_t out[3]) {
  if (c == 0x130) {  // the only character whose full lower case is longer than one
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  out[0] = c;
  if (assigned_by(c, kCommonAge)) {
    out[0] = static_cast<uint32_t>(u_tolower(static_cast<UChar32>(c)));
    return 1;
  }
  for (const LowerRange& r : kLateLower) {
    if (c >= r.first && c <= r.last) {
      out[0] = static_cast<uint32_t>(static_cast<int32_t>(c) + r.offset);
    }
  }
  return 1;
}

uint8_t combining_class(uint32_t c) {
  return assigned_by(c, kDecompositionAge) ? u_getCombiningClass(static_cast<UChar32>(c))
                                           : uint8_t{0};
}

int decompose(uint32_t c, uint32_t out[kMaxDecomposition]) {
  UChar units[2 * kMaxDecomposition];
  UErrorCode error = U_ZERO_ERROR;
  int32_t length = -1;
  if (assigned_by(c, kDecompositionAge)) {
    length =
        unorm2_getDecomposition(nfd(), static_cast<UChar32>(c), units, std::size(units), &error);
    DH_CHECK(U_SUCCESS(error));
  }
  if (length < 0) {
    out[0] = c;
    return 1;
  }
  int count = 0;
  for (int32_t i = 0; i < length;) {
    DH_CHECK(count < kMaxDecomposition);
    UChar32 code;
    U16_NEXT(units, i, length, code);
    out[count++] = static_cast<uint32_t>(code);
  }
  return count;
}

}  // namespace downhaul::text
