#include "text/post_processor.h"

#include <algorithm>

#include "base/strings.h"

namespace downhaul::text {
namespace {

bool continues(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

void cut(std::vector<RawToken>& tokens, size_t keep, Side side) {
  if (tokens.size() <= keep) return;
  const auto drop = static_cast<ptrdiff_t>(tokens.size() - keep);
  if (side == Side::kRight) {
    tokens.resize(keep);
  } else {
    tokens.erase(tokens.begin(), tokens.begin() + drop);
  }
}

Status truncate(const Truncation& how, size_t added, std::vector<RawToken>& first,
                std::vector<RawToken>* second, bool& truncated) {
  if (how.max_length < added) {
    return invalid_argument(cat("truncation to ", how.max_length, " tokens: the ", added,
                                " special tokens alone are more"));
  }
  const size_t limit = how.max_length - added;
  const size_t total = first.size() + (second != nullptr ? second->size() : 0);
  if (total <= limit) return {};
  truncated = true;
  if (limit == 0) {
    first.clear();
    if (second != nullptr) second->clear();
    return {};
  }
  if (how.strategy == TruncationStrategy::kLongestFirst) {
    if (second == nullptr) return cut(first, limit, how.side), Status();
    // The shorter text keeps its tokens as long as they are less than half of what fits.
    size_t shorter = std::min(first.size(), second->size());
    size_t longer = shorter > limit ? shorter : std::max(shorter, limit - shorter);
    if (shorter + longer > limit) {
      shorter = limit / 2;
      longer = shorter + limit % 2;
    }
    const bool swapped = first.size() > second->size();
    cut(first, swapped ? longer : shorter, how.side);
    cut(*second, swapped ? shorter : longer, how.side);
    return {};
  }
  const bool of_second = how.strategy == TruncationStrategy::kOnlySecond;
  if (of_second && second == nullptr) {
    return invalid_argument("truncation of the second text only, but there is one text");
  }
  std::vector<RawToken>& target = of_second ? *second : first;
  const size_t excess = total - limit;
  if (target.size() <= excess) {
    return invalid_argument(cat("truncation to ", how.max_length, " tokens: ", excess,
                                " tokens too many, but the ", of_second ? "second" : "first",
                                " text, the only one to be cut, has ", target.size()));
  }
  cut(target, target.size() - excess, how.side);
  return {};
}

// Walks through a text and says at which character a byte is. Targets mostly rise.
class CharCounter {
 public:
  explicit CharCounter(std::string_view text) : text_(text) {}
  uint32_t at(uint32_t byte) {
    for (; byte_ < byte; ++byte_) chars_ += continues(text_[byte_]) ? 0 : 1;
    for (; byte_ > byte; --byte_) chars_ -= continues(text_[byte_ - 1]) ? 0 : 1;
    return chars_;
  }

 private:
  std::string_view text_;
  uint32_t byte_ = 0, chars_ = 0;
};

// Takes spaces off both ends, characters at a time; `chars` and `bytes` stay in step.
void trim_spaces(std::string_view text, size_t leading, size_t trailing, Span& bytes, Span& chars) {
  for (; leading > 0 && bytes.begin < bytes.end; --leading) {
    ++chars.begin;
    do {
      ++bytes.begin;
    } while (bytes.begin < bytes.end && continues(text[bytes.begin]));
  }
  if (chars.end < trailing) return;
  for (; trailing > 0 && bytes.begin < bytes.end; --trailing) {
    --chars.end;
    do {
      --bytes.end;
    } while (bytes.end > bytes.begin && continues(text[bytes.end]));
  }
}

void append_sequence(const TokenizerDefinition& definition, const RawSequence& from, int number,
                     uint32_t type_id, Encoding& out) {
  CharCounter counter(from.text);
  const bool trim = definition.trim_offsets;
  for (size_t i = 0; i < from.tokens.size(); ++i) {
    const RawToken& token = from.tokens[i];
    Span bytes = token.bytes;
    Span chars = {counter.at(bytes.begin), 0};
    chars.end = counter.at(bytes.end);
    if (trim && (token.leading_spaces > 0 || token.trailing_spaces > 0)) {
      size_t leading = token.leading_spaces;
      const bool first = i == 0 || chars.begin == 0;
      // One space in front of the text is the one that add_prefix_space put there.
      if (leading == 1 && first && definition.trim_keeps_first_space) leading = 0;
      trim_spaces(from.text, leading, token.trailing_spaces, bytes, chars);
    }
    out.ids.push_back(token.id);
    out.byte_offsets.push_back(bytes);
    out.offsets.push_back(chars);
  }
  const size_t size = out.ids.size();
  out.type_ids.resize(size, type_id);
  out.attention_mask.resize(size, 1);
  out.special_mask.resize(size, 0);
  out.sequence.resize(size, static_cast<int8_t>(number));
}

void append_added(uint32_t id, uint32_t type_id, uint8_t attention, Encoding& out) {
  out.ids.push_back(id);
  out.type_ids.push_back(type_id);
  out.attention_mask.push_back(attention);
  out.special_mask.push_back(1);
  out.sequence.push_back(-1);
  out.byte_offsets.push_back({});
  out.offsets.push_back({});
}

}  // namespace

void pad(const Padding& how, Encoding& out) {
  size_t target = how.length > 0 ? how.length : out.size();
  if (how.multiple_of > 0) {
    target = (target + how.multiple_of - 1) / how.multiple_of * how.multiple_of;
  }
  if (target <= out.size()) return;
  const size_t count = target - out.size();
  const size_t before = out.size();
  for (size_t i = 0; i < count; ++i) append_added(how.id, how.type_id, 0, out);
  if (how.side == Side::kRight) return;
  const auto to_front = [&](auto& v) {
    std::rotate(v.begin(), v.begin() + static_cast<ptrdiff_t>(before), v.end());
  };
  to_front(out.ids);
  to_front(out.type_ids);
  to_front(out.attention_mask);
  to_front(out.special_mask);
  to_front(out.sequence);
  to_front(out.byte_offsets);
  to_front(out.offsets);
}

size_t count_added(const TokenizerDefinition& definition, bool pair) {
  size_t count = 0;
  for (const TemplatePiece& piece : pair ? definition.pair : definition.single) {
    count += piece.ids.size();
  }
  return count;
}

Status post_process(const TokenizerDefinition& definition, const EncodeOptions& options,
                    RawSequence& first, RawSequence* second, Encoding& out) {
  out.clear();
  const bool pair = second != nullptr;
  const auto& truncation = options.truncation ? options.truncation : definition.truncation;
  if (truncation) {
    const size_t added = options.add_special_tokens ? count_added(definition, pair) : 0;
    DH_TRY(truncate(*truncation, added, first.tokens, pair ? &second->tokens : nullptr,
                    out.truncated));
  }
  const auto& pieces = pair ? definition.pair : definition.single;
  if (pieces.empty()) {
    append_sequence(definition, first, 0, 0, out);
    if (pair) append_sequence(definition, *second, 1, 1, out);
  }
  for (const TemplatePiece& piece : pieces) {
    if (piece.sequence >= 0) {
      append_sequence(definition, piece.sequence == 0 ? first : *second, piece.sequence,
                      piece.type_id, out);
    } else if (options.add_special_tokens) {
      for (const uint32_t id : piece.ids) append_added(id, piece.type_id, 1, out);
    }
  }
  const auto& padding = options.padding ? options.padding : definition.padding;
  if (padding) pad(*padding, out);
  return {};
}

}  // namespace downhaul::text
