#include "apps/text_generator.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "apps/app_model.h"
#include "base/strings.h"

namespace downhaul {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Text as its tokens come.
class TextStream {
 public:
  TextStream(const text::Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : tokenizer_(tokenizer), stops_(stops) {}

  /// True when a stop has appeared; the text then ends before it.
  bool add(int64_t token) {
    ids_.push_back(static_cast<uint32_t>(token));
    text_ = tokenizer_.decode(ids_);
    for (const std::string& stop : stops_) {
      const size_t at = text_.find(stop);
      if (at == std::string::npos) continue;
      text_.resize(at);
      certain_ = at;
      return true;
    }
    size_t end = text_.size();
    // Bytes of a character whose others are still to come read as U+FFFD.
    while (end >= 3 && text_.compare(end - 3, 3, "\xEF\xBF\xBD") == 0) end -= 3;
    for (const std::string& stop : stops_) {
      for (size_t n = std::min(stop.size(), text_.size()); n > 0; --n) {
        if (text_.compare(text_.size() - n, n, stop, 0, n) != 0) continue;
        end = std::min(end, text_.size() - n);
        break;
      }
    }
    certain_ = end;
    return false;
  }
  void finish() { certain_ = text_.size(); }
  /// What has become certain since the last call.
  std::string_view take() {
    if (certain_ <= taken_) return {};
    const std::string_view fresh = std::string_view(text_).substr(taken_, certain_ - taken_);
    taken_ = certain_;
    return fresh;
  }
  const std::string& text() const { return text_; }

 private:
  const text::Tokenizer& tokenizer_;
  const std::vector<std::string>& stops_;
  std::vector<uint32_t> ids_;
  std::string text_;
  size_t certain_ = 0, taken_ = 0;
};

}  // namespace

Result<std::unique_ptr<TextGenerator>> TextGenerator::load(const std::string& path,
                                                           const TextGeneratorOptions& options) {
  std::unique_ptr<TextGenerator> out(new TextGenerator());
  if (options.needs_tokenizer || !options.tokenizer.empty()) {
    DH_ASSIGN(out->tokenizer_,
              text::Tokenizer::load(options.tokenizer.empty() ? folder_of_model(path)
                                                              : options.tokenizer));
  }
  LoadOptions load;
  load.model = options.model;
  load.model.open_sizes = true;
  DH_ASSIGN(Artifact artifact, load_artifact(path, load));
  out->warnings_ = std::move(artifact.warnings);
  auto made = Decoder::make(*artifact.graph, options.decoder);
  if (!made.ok()) return std::move(made).status().with_context(cat("'", printable(path), "'"));
  out->decoder_ = *std::move(made);
  return out;
}

Result<std::vector<int64_t>> TextGenerator::encode(std::string_view prompt) const {
  if (!tokenizer_) return invalid_argument("a text needs a tokenizer");
  DH_ASSIGN(const text::Encoding encoded, tokenizer_->encode(prompt));
  if (encoded.size() == 0) return invalid_argument("the text has no tokens");
  return std::vector<int64_t>(encoded.ids.begin(), encoded.ids.end());
}

Result<GeneratedText> TextGenerator::generate(std::vector<int64_t> prompt,
                                              const GenerateOptions& options,
                                              const OnToken& on_token) {
  const std::vector<std::string>& texts = options.stop_texts;
  if (std::find(texts.begin(), texts.end(), "") != texts.end()) {
    return invalid_argument("a text to stop at: expected a text");
  }
  if (!texts.empty() && !tokenizer_) {
    return invalid_argument("a text to stop at needs a tokenizer");
  }
  std::vector<int64_t> stops = options.stop_ids;
  if (stops.empty() && tokenizer_ && tokenizer_->eos_id()) stops.push_back(*tokenizer_->eos_id());
  DH_ASSIGN(Sampler sampler, Sampler::make(options.sampling));
  decoder_->clear();
  GeneratedText out;
  out.prompt = std::move(prompt);
  auto begin = Clock::now();
  DH_ASSIGN(std::span<const float> scores, decoder_->append(out.prompt));
  out.prefill_seconds = seconds_since(begin);
  std::optional<TextStream> stream;
  if (tokenizer_) stream.emplace(*tokenizer_, texts);
  const auto tell = [&](int64_t token) {
    if (on_token) on_token(token, stream ? stream->take() : std::string_view());
  };
  double first = 0;
  begin = Clock::now();
  while (out.ended_by.empty()) {
    DH_ASSIGN(const int64_t token, sampler.pick(scores));
    const bool ends = std::find(stops.begin(), stops.end(), token) != stops.end();
    out.tokens.push_back(token);
    // The token that ends a text is none of it.
    const bool stopped = ends || (stream && stream->add(token));
    if (stopped) {
      out.ended_by = "stop";
    } else if (static_cast<int64_t>(out.tokens.size()) >= options.max_tokens) {
      out.ended_by = "max-tokens";
    } else if (decoder_->length() >= decoder_->max_length()) {
      out.ended_by = "length";
    } else if (options.max_seconds > 0 && seconds_since(begin) >= options.max_seconds) {
      out.ended_by = "time";
    }
    if (stream && !out.ended_by.empty()) stream->finish();
    tell(token);
    if (!out.ended_by.empty()) break;
    DH_ASSIGN(scores, decoder_->append(std::span(&token, 1)));
    if (out.tokens.size() == 1) first = seconds_since(begin);
  }
  out.decode_seconds = seconds_since(begin);
  if (stream) out.text = stream->text();
  const auto steps = static_cast<double>(out.tokens.size() - 1);
  out.tokens_per_second = steps > 1 ? (steps - 1) / (out.decode_seconds - first) : 0;
  return out;
}

}  // namespace downhaul
