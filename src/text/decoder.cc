#include "text/decoder.h"

#include "base/strings.h"
#include "text/models.h"
#include "text/unicode.h"

namespace downhaul::text {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  out.append(text, done);
  text = std::move(out);
}

// Spaces that tokens have before them and text has not. In each piece on its own, in this order.
void clean_up(std::string& piece) {
  static constexpr std::string_view kRules[][2] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& rule : kRules) replace_all(piece, rule[0], rule[1]);
}

std::string decode_word_pieces(const TokenizerDefinition& definition,
                               const std::vector<std::string_view>& pieces) {
  std::string out, piece;
  for (size_t i = 0; i < pieces.size(); ++i) {
    piece.clear();
    if (i > 0 && pieces[i].starts_with(definition.decoder_prefix)) {
      piece.append(pieces[i].substr(definition.decoder_prefix.size()));
    } else {
      if (i > 0) piece.push_back(' ');
      piece.append(pieces[i]);
    }
    if (definition.decoder_cleanup) clean_up(piece);
    out.append(piece);
  }
  return out;
}

std::string decode_byte_level(const std::vector<std::string_view>& pieces) {
  std::string out;
  for (const std::string_view piece : pieces) {
    const size_t before = out.size();
    for (size_t at = 0; at < piece.size();) {
      const int byte = char_to_byte(decode_utf8(piece, at));
      if (byte < 0) {  // not a byte-level piece: it stands for itself
        out.resize(before);
        out.append(piece);
        break;
      }
      out.push_back(static_cast<char>(byte));
    }
  }
  return replace_invalid_utf8(out);
}

}  // namespace

std::string decode_pieces(const TokenizerDefinition& definition,
                          const std::vector<std::string_view>& pieces) {
  switch (definition.decoder) {
    case DecoderKind::kWordPiece:
      return decode_word_pieces(definition, pieces);
    case DecoderKind::kByteLevel:
      return decode_byte_level(pieces);
    case DecoderKind::kNone:
      break;
  }
  return join(pieces, " ");
}

}  // namespace downhaul::text
