#include "cli/model_flags.h"

#include <charconv>

#include "base/strings.h"

namespace downhaul {
namespace {

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

/// "128", or "2..512" for a size that stays open.
Result<std::optional<models::SizeRange>> range(std::string_view flag, const std::string& text) {
  if (text.empty()) return std::optional<models::SizeRange>();
  const size_t dots = text.find("..");
  const auto low = number(std::string_view(text).substr(0, dots));
  const auto high =
      dots == std::string::npos ? low : number(std::string_view(text).substr(dots + 2));
  if (low && high && *low <= *high) return std::optional(models::SizeRange{*low, *high});
  return invalid_argument(
      cat(flag, ": expected a number, or MIN..MAX; found '", printable(text, 60), "'"));
}

}  // namespace

void ModelFlags::declare(Options& o) {
  o.choice(&head_, "--head", models::known_heads(),
           "what a checkpoint's model computes (default: what its configuration says)");
  o.text(&seq_len_, "--seq-len", "N", "tokens a row of a checkpoint's model, or MIN..MAX (128)");
  o.text(&batch_, "--batch", "N", "rows of a checkpoint's model, or MIN..MAX (1)");
  o.number(&choices_, "--choices", "N", "answers of a multiple-choice question", 1, 1024);
  o.number(&mask_token_id_, "--mask-token-id", "ID",
           "the mask token of --head fill-mask (default: the tokenizer's)", 0, INT32_MAX);
  o.flag(&token_types_, "--token-types", "take token_type_ids as third input (BERT)");
  o.choice(&model_id_, "--model-id", models::known_model_ids(),
           "architecture of a state dict without config.json");
  o.text(&image_size_, "--image-size", "HxW", "picture that a state dict's model takes");
}

Result<models::BuildOptions> ModelFlags::options() const {
  models::BuildOptions out;
  out.head = head_;
  out.model_id = model_id_;
  DH_ASSIGN(out.seq_len, range("--seq-len", seq_len_));
  DH_ASSIGN(out.batch, range("--batch", batch_));
  out.choices = choices_;
  if (mask_token_id_ >= 0) out.mask_token_id = mask_token_id_;
  out.token_types = token_types_;
  if (!image_size_.empty()) {
    const size_t x = image_size_.find('x');
    const auto height = number(std::string_view(image_size_).substr(0, x));
    const auto width =
        x == std::string::npos ? height : number(std::string_view(image_size_).substr(x + 1));
    constexpr int64_t kMaxSide = 16384;
    if (!height || !width || *height > kMaxSide || *width > kMaxSide) {
      return invalid_argument(cat("--image-size: expected HEIGHTxWIDTH, up to ", kMaxSide,
                                  " each; found '", printable(image_size_, 60), "'"));
    }
    out.image = {{*height, *width}};
  }
  return out;
}

}  // namespace downhaul
