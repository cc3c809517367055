#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/sampling.h"
#include "base/parallel.h"
#include "base/strings.h"
#include "cli/model_flags.h"
#include "cli/verbs.h"
#include "engine/decoder.h"
#include "formats/json/json.h"
#include "kernels/isa.h"
#include "report/artifact.h"
#include "report/runner.h"
#include "text/tokenizer.h"

namespace downhaul {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Text as its tokens come: whole characters only, and nothing of what a stop may begin with.
class TextStream {
 public:
  TextStream(const text::Tokenizer& tokenizer, const std::vector<std::string>& stops, bool print)
      : tokenizer_(tokenizer), stops_(stops), print_(print) {}

  /// True when a stop has appeared.
  bool add(int64_t token) {
    ids_.push_back(static_cast<uint32_t>(token));
    text_ = tokenizer_.decode(ids_);
    for (const std::string& stop : stops_) {
      const size_t at = text_.find(stop);
      if (at == std::string::npos) continue;
      text_.resize(at);
      show(text_.size());
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
    show(end);
    return false;
  }
  void finish() { show(text_.size()); }
  const std::string& text() const { return text_; }

 private:
  void show(size_t end) {
    if (end <= shown_) return;
    if (print_) {
      std::fwrite(text_.data() + shown_, 1, end - shown_, stdout);
      std::fflush(stdout);
    }
    shown_ = end;
  }
  const text::Tokenizer& tokenizer_;
  const std::vector<std::string>& stops_;
  bool print_;
  std::vector<uint32_t> ids_;
  std::string text_;
  size_t shown_ = 0;
};

class Generate final : public Verb {
 public:
  std::string_view name() const override { return "generate"; }
  std::string_view summary() const override { return "Go on with a text, token by token"; }
  std::string_view details() const override {
    return "Takes any causal language model whose length is open. Keys and values of what came\n"
           "before are kept, so that a token costs one reading of the weights.\n"
           "The tokenizer is the one beside the model (tokenizer.json, or vocab.json and "
           "merges.txt).\n"
           "Examples:\n"
           "  downhaul generate gpt2/ \"The quick brown fox\" --max-tokens 20\n"
           "  downhaul generate gpt2/ --ids 464,2068,7586 --max-tokens 20";
  }
  void declare(Options& o) override {
    o.positional(&file_, "MODEL", "a .pt2 or .pte of open length, or a GPT-2 checkpoint");
    o.positional(&prompt_, "PROMPT", "the text to go on from");
    o.list(&ids_, "--ids", "IDS", "the tokens to go on from instead, separated by commas");
    o.text(&tokenizer_, "--tokenizer", "PATH",
           "folder or file of the tokenizer (default: beside the model)");
    o.list(&stop_texts_, "--stop", "TEXT", "end before this text; may be repeated");
    o.number(&max_tokens_, "--max-tokens", "N", "how many tokens to add at most", 1, 1000000);
    o.list(&stops_, "--stop-id", "IDS",
           "tokens after which to end (default: the tokenizer's end of text, if any)");
    o.real(&sampling_.temperature, "--temperature", "T",
           "draw tokens, from scores divided by T (default 0: always the best)");
    o.number(&sampling_.top_k, "--top-k", "K", "draw among the K best only", 0, 1000000);
    o.real(&sampling_.top_p, "--top-p", "P",
           "draw among the best that have this probability together");
    o.number(&seed_, "--seed", "N", "of the draws (default 0)", 0, INT64_MAX);
    o.number(&threads_, "--threads", "N", "threads to use; results do not depend on it", 1, 1024);
    o.choice(&weights_, "--weights", {"f32", "bf16"}, "of linear layers (default f32)");
    o.flag(&whole_, "--whole-sequence", "keep nothing: run the whole sequence for every token");
    o.flag(&json_, "--json", "print JSON at the end instead of tokens as they come");
    model_.declare(o);
  }

  Result<int> run() override {
    DH_TRY(lower_isa_by_environment());
    if (file_.empty()) return invalid_argument("generate: give a MODEL");
    DH_ASSIGN(std::vector<int64_t> prompt, numbers("--ids", ids_));
    if (prompt.empty() == prompt_.empty()) {
      return invalid_argument("generate: give a PROMPT or --ids");
    }
    DH_ASSIGN(std::vector<int64_t> stops, numbers("--stop-id", stops_));
    std::optional<text::Tokenizer> tokenizer;
    if (!prompt_.empty() || !tokenizer_.empty()) {
      DH_ASSIGN(tokenizer, text::Tokenizer::load(tokenizer_path()));
      if (stops.empty() && tokenizer->eos_id()) stops.push_back(*tokenizer->eos_id());
    } else if (!stop_texts_.empty()) {
      return invalid_argument("generate: --stop needs a tokenizer: give a PROMPT or --tokenizer");
    }
    if (std::find(stop_texts_.begin(), stop_texts_.end(), "") != stop_texts_.end()) {
      return invalid_argument("generate: --stop: expected a text");
    }
    if (!prompt_.empty()) {
      DH_ASSIGN(const text::Encoding encoded, tokenizer->encode(prompt_));
      prompt.assign(encoded.ids.begin(), encoded.ids.end());
    }
    sampling_.seed = static_cast<uint64_t>(seed_);
    DH_ASSIGN(Sampler sampler, Sampler::make(sampling_));
    LoadOptions load;
    DH_ASSIGN(load.model, model_.options());
    load.model.open_sizes = true;
    DH_ASSIGN(const Artifact artifact, load_artifact(file_, load));
    for (const std::string& w : artifact.warnings) {
      std::fprintf(stderr, "downhaul: warning: %s\n", w.c_str());
    }
    set_num_threads(static_cast<int>(threads_));
    DecoderOptions options;
    options.engine.num_threads = static_cast<int>(threads_);
    options.engine.precision = precision_of(weights_ == "bf16");
    options.whole_sequence = whole_;
    auto made = Decoder::make(*artifact.graph, options);
    if (!made.ok()) {
      return std::move(made).status().with_context(cat("'", printable(file_), "'"));
    }
    Decoder& decoder = **made;
    if (const std::string& why = decoder.whole_sequence_reason(); !why.empty() && !whole_) {
      std::fprintf(stderr, "downhaul: warning: the whole sequence is run for every token: %s\n",
                   printable(why).c_str());
    }
    const auto prompt_size = static_cast<int64_t>(prompt.size());
    auto begin = Clock::now();
    DH_ASSIGN(std::span<const float> scores, decoder.append(prompt));
    const double prefill = seconds_since(begin);
    std::vector<int64_t> added;
    std::optional<TextStream> stream;
    if (tokenizer) stream.emplace(*tokenizer, stop_texts_, !json_);
    const char* ended = "max-tokens";
    double first = 0;  // the first step also lays out its plan
    begin = Clock::now();
    while (true) {
      DH_ASSIGN(const int64_t token, sampler.pick(scores));
      const bool ends = std::find(stops.begin(), stops.end(), token) != stops.end();
      added.push_back(token);
      if (stream) {
        // The token that ends a text is none of it.
        if (!ends && stream->add(token)) {
          ended = "stop";
          break;
        }
      } else if (!json_) {
        std::printf(added.size() == 1 ? "%lld" : " %lld", static_cast<long long>(token));
        std::fflush(stdout);
      }
      if (ends) {
        ended = "stop";
        break;
      }
      if (static_cast<int64_t>(added.size()) >= max_tokens_) break;
      if (decoder.length() >= decoder.max_length()) {
        ended = "length";
        break;
      }
      DH_ASSIGN(scores, decoder.append(std::span(&token, 1)));
      if (added.size() == 1) first = seconds_since(begin);
    }
    const double decode = seconds_since(begin);
    if (stream) stream->finish();
    const auto steps = static_cast<double>(added.size() - 1);
    const double steady = steps > 1 ? (steps - 1) / (decode - first) : 0;
    const double prefill_rate = static_cast<double>(prompt_size) / prefill;
    if (!json_) {
      std::printf("\n");
      std::fflush(stdout);
      std::fprintf(stderr,
                   "%lld tokens read at %s tokens/s, %zu added at %s tokens/s (%s); ended by %s\n",
                   static_cast<long long>(prompt_size), fixed(prefill_rate, 1).c_str(),
                   added.size(), fixed(steady, 2).c_str(), describe_run().c_str(), ended);
      return kExitDone;
    }
    JsonWriter json;
    json.begin_object();
    json.field("model", file_);
    json.field("prompt", prompt);
    json.field("tokens", added);
    if (stream) json.field("text", stream->text());
    json.field("ended_by", ended);
    json.field("prefill_seconds", prefill);
    json.field("prefill_tokens_per_second", prefill_rate);
    json.field("decode_seconds", decode);
    json.field("decode_tokens_per_second", steady);
    json.field("cache_bytes", decoder.cache_bytes());
    json.field("whole_sequence", decoder.whole_sequence_reason());
    json.field("weights", weights_);
    json.field("isa", downhaul::name(active_isa()));
    json.field("threads", threads_);
    json.end_object();
    std::fputs(json.take().c_str(), stdout);
    return kExitDone;
  }

 private:
  std::string describe_run() const {
    RunnerOptions how;
    how.threads = static_cast<int>(threads_);
    how.bf16 = weights_ == "bf16";
    return describe(how);
  }

  /// A folder's own, or that of the folder that a file lies in.
  std::string tokenizer_path() const {
    if (!tokenizer_.empty()) return tokenizer_;
    std::error_code error;
    if (std::filesystem::is_directory(file_, error)) return file_;
    const std::string folder = std::filesystem::path(file_).parent_path().string();
    return folder.empty() ? "." : folder;
  }

  static Result<std::vector<int64_t>> numbers(const char* flag,
                                              const std::vector<std::string>& texts) {
    std::vector<int64_t> out;
    for (const std::string& text : texts) {
      int64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size() || value < 0) {
        return invalid_argument(
            cat(flag, ": expected a token's number, found '", printable(text, 40), "'"));
      }
      out.push_back(value);
    }
    return out;
  }

  ModelFlags model_;
  std::string file_, prompt_, tokenizer_;
  std::vector<std::string> ids_, stops_, stop_texts_;
  int64_t max_tokens_ = 64;
  SamplingOptions sampling_;
  int64_t seed_ = 0;
  int64_t threads_ = 1;
  std::string weights_ = "f32";
  bool whole_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_generate() { return std::make_unique<Generate>(); }

}  // namespace downhaul
