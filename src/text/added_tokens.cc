#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace downhaul::text {
namespace {

// Where the character before text[end] begins.
size_t char_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool has_flag_before(std::string_view text, size_t end, uint16_t flag) {
  size_t at = char_before(text, end);
  return (char_flags(decode_utf8(text, at)) & flag) != 0;
}

bool has_flag_at(std::string_view text, size_t at, uint16_t flag) {
  return (char_flags(decode_utf8(text, at)) & flag) != 0;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<std::pair<std::string, uint32_t>>& patterns,
                                     const std::vector<AddedToken>& added)
    : trie_({patterns.begin(), patterns.end()}), added_(&added) {
  for (const auto& [pattern, token] : patterns) starts_[static_cast<uint8_t>(pattern[0])] = true;
}

void AddedTokenMatcher::split(std::string_view text, uint32_t begin, uint32_t end,
                              std::vector<Match>& out) const {
  const std::string_view part = text.substr(begin, end - begin);
  const auto add = [&](std::optional<uint32_t> token, size_t from, size_t to) {
    if (from < to) {
      out.push_back(
          {token, begin + static_cast<uint32_t>(from), begin + static_cast<uint32_t>(to)});
    }
  };
  size_t done = 0;
  for (size_t at = 0; at < part.size();) {
    if (!starts_[static_cast<uint8_t>(part[at])]) {
      ++at;
      continue;
    }
    uint32_t token = ByteTrie::kNone;
    size_t stop = at;
    uint32_t node = ByteTrie::kRoot;
    for (size_t i = at; i < part.size(); ++i) {
      node = trie_.child(node, static_cast<uint8_t>(part[i]));
      if (node == ByteTrie::kRoot) break;
      if (trie_.value(node) != ByteTrie::kNone) {
        token = trie_.value(node);
        stop = i + 1;
      }
    }
    if (token == ByteTrie::kNone) {
      ++at;
      continue;
    }
    size_t start = at;
    at = stop;  // a match that is given up still takes its place
    const AddedToken& found = (*added_)[token];
    if (found.single_word && ((start > 0 && has_flag_before(part, start, kWord)) ||
                              (stop < part.size() && has_flag_at(part, stop, kWord)))) {
      continue;
    }
    if (found.lstrip) {
      start = std::max(start, done);
      while (start > done && has_flag_before(part, start, kSpace)) start = char_before(part, start);
    }
    if (found.rstrip) {
      while (stop < part.size() && has_flag_at(part, stop, kSpace)) {
        (void)decode_utf8(part, stop);
      }
    }
    add(std::nullopt, done, start);
    add(token, start, stop);
    done = stop;
  }
  add(std::nullopt, done, part.size());
}

}  // namespace downhaul::text
