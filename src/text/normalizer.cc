#include "text/normalizer.h"

#include <algorithm>
#include <array>

#include "formats/json/utf8.h"
#include "text/unicode.h"

namespace downhaul::text {
namespace {

using Item = NormalizerScratch::Item;

// What becomes of each ASCII character; 0 when it is removed.
using AsciiTable = std::array<char, 128>;

AsciiTable make_table(const BertNormalizer& how) {
  AsciiTable table;
  for (uint32_t c = 0; c < 128; ++c) {
    const uint16_t flags = char_flags(c);
    uint32_t to = c;
    if (how.clean_text && (flags & kControl) != 0) {
      to = 0;
    } else if (how.clean_text && (flags & kSpace) != 0) {
      to = ' ';
    } else if (how.lowercase && c >= 'A' && c <= 'Z') {
      to = c + ('a' - 'A');
    }
    table[c] = static_cast<char>(to);
  }
  return table;
}

const AsciiTable& ascii_table(const BertNormalizer& how) {
  static const std::array<AsciiTable, 4> tables = [] {
    std::array<AsciiTable, 4> t;
    for (int i = 0; i < 4; ++i) {
      t[static_cast<size_t>(i)] = make_table({.clean_text = i >= 2, .lowercase = i % 2 == 1});
    }
    return t;
  }();
  return tables[(how.clean_text ? 2u : 0u) + (how.lowercase ? 1u : 0u)];
}

// Canonical decomposition and order. Offsets follow the reference: characters of the result that a
// decomposition inserted share the origin of what stands before them, all others take the origins
// of the characters before, one after the other.
void decompose_items(std::vector<Item>& items, std::vector<Item>& out) {
  out.clear();
  for (const Item& item : items) {
    uint32_t parts[kMaxDecomposition];
    const int count = decompose(item.c, parts);
    for (int i = 0; i < count; ++i) {
      out.push_back({parts[i], item.origin, combining_class(parts[i]), i > 0});
    }
  }
  for (auto run = out.begin(); run != out.end();) {
    if (run->combining == 0) {
      ++run;
      continue;
    }
    const auto end = std::find_if(run, out.end(), [](const Item& i) { return i.combining == 0; });
    std::stable_sort(run, end,
                     [](const Item& a, const Item& b) { return a.combining < b.combining; });
    run = end;
  }
  size_t taken = 0;
  for (Item& item : out) {
    if (!item.inserted) ++taken;
    item.origin = items[std::max<size_t>(taken, 1) - 1].origin;
  }
  items.swap(out);
}

// A run without ASCII: the four steps one after the other.
void normalize_run(const BertNormalizer& how, std::string_view text, uint32_t begin, uint32_t end,
                   NormalizerScratch& scratch, NormalizedText& out) {
  std::vector<Item>& items = scratch.items;
  items.clear();
  bool active = false;
  for (size_t at = begin; at < end;) {
    const auto origin = static_cast<uint32_t>(at);
    uint32_t c = decode_utf8(text, at);
    const uint16_t flags = char_flags(c);
    if (how.clean_text) {
      if ((flags & kControl) != 0) continue;
      if ((flags & kSpace) != 0) c = ' ';
    }
    if ((flags & kNfdActive) != 0) active = true;
    if (how.handle_chinese_chars && (flags & kIdeograph) != 0) {
      items.push_back({' ', origin, 0, false});
      // The character counts as inserted behind its space, but its origin is the same.
      items.push_back({c, origin, 0, false});
      items.push_back({' ', origin, 0, false});
    } else {
      items.push_back({c, origin, 0, false});
    }
  }
  if (how.strip_accents && active) decompose_items(items, scratch.decomposed);
  for (const Item& item : items) {
    const uint16_t flags = char_flags(item.c);
    if (how.strip_accents && (flags & kNonspacing) != 0) continue;
    uint32_t lower[3] = {item.c};
    const int count = how.lowercase && (flags & kHasLower) != 0 ? lower_case(item.c, lower) : 1;
    for (int i = 0; i < count; ++i) append_utf8(out.text, lower[i]);
    out.origin.resize(out.text.size(), item.origin);
  }
}

}  // namespace

void normalize(const BertNormalizer& how, std::string_view text, uint32_t begin, uint32_t end,
               NormalizerScratch& scratch, NormalizedText& out) {
  const AsciiTable& table = ascii_table(how);
  uint32_t at = begin;
  while (at < end) {
    // ASCII: no character decomposes or moves, so that runs of other characters stand alone.
    uint32_t stop = at;
    while (stop < end && static_cast<uint8_t>(text[stop]) < 0x80) ++stop;
    const size_t base = out.text.size();
    out.text.resize(base + (stop - at));
    out.origin.resize(base + (stop - at));
    char* to = out.text.data() + base;
    uint32_t* from = out.origin.data() + base;
    size_t count = 0;
    for (; at < stop; ++at) {
      const auto c = static_cast<uint8_t>(text[at]);
      to[count] = table[c];
      from[count] = at;
      // Without clean_text a NUL stays.
      count += to[count] != 0 || (c == 0 && !how.clean_text) ? 1 : 0;
    }
    out.text.resize(base + count);
    out.origin.resize(base + count);
    // Characters that vanish do not end a run: what is on both sides of them comes together.
    while (stop < end && (static_cast<uint8_t>(text[stop]) >= 0x80 ||
                          (how.clean_text && table[static_cast<uint8_t>(text[stop])] == 0))) {
      ++stop;
    }
    if (stop > at) normalize_run(how, text, at, stop, scratch, out);
    at = stop;
  }
}

}  // namespace downhaul::text
