#include <charconv>
#include <cstdio>

#include "apps/text_generator.h"
#include "base/parallel.h"
#include "base/strings.h"
#include "cli/model_flags.h"
#include "cli/verbs.h"
#include "formats/json/json.h"
#include "kernels/isa.h"
#include "report/runner.h"

namespace downhaul {
namespace {

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
    o.number(&how_.max_tokens, "--max-tokens", "N", "how many tokens to add at most", 1, 1000000);
    o.list(&stops_, "--stop-id", "IDS",
           "tokens after which to end (default: the tokenizer's end of text, if any)");
    o.real(&how_.sampling.temperature, "--temperature", "T",
           "draw tokens, from scores divided by T (default 0: always the best)");
    o.number(&how_.sampling.top_k, "--top-k", "K", "draw among the K best only", 0, 1000000);
    o.real(&how_.sampling.top_p, "--top-p", "P",
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
    DH_ASSIGN(how_.stop_ids, numbers("--stop-id", stops_));
    if (!stop_texts_.empty() && prompt_.empty() && tokenizer_.empty()) {
      return invalid_argument("generate: --stop needs a tokenizer: give a PROMPT or --tokenizer");
    }
    how_.stop_texts = stop_texts_;
    how_.sampling.seed = static_cast<uint64_t>(seed_);
    DH_TRY(Sampler::make(how_.sampling).status());
    set_num_threads(static_cast<int>(threads_));
    TextGeneratorOptions options;
    options.tokenizer = tokenizer_;
    options.needs_tokenizer = !prompt_.empty();
    DH_ASSIGN(options.model, model_.options());
    options.decoder.engine.num_threads = static_cast<int>(threads_);
    options.decoder.engine.precision = precision_of(weights_);
    options.decoder.whole_sequence = whole_;
    DH_ASSIGN(const auto generator, TextGenerator::load(file_, options));
    for (const std::string& w : generator->warnings()) {
      std::fprintf(stderr, "downhaul: warning: %s\n", w.c_str());
    }
    if (!prompt_.empty()) {
      DH_ASSIGN(prompt, generator->encode(prompt_));
    }
    const Decoder& decoder = generator->decoder();
    if (const std::string& why = decoder.whole_sequence_reason(); !why.empty() && !whole_) {
      std::fprintf(stderr, "downhaul: warning: the whole sequence is run for every token: %s\n",
                   printable(why).c_str());
    }
    bool began = false;
    const bool texts = generator->tokenizer() != nullptr;
    DH_ASSIGN(
        const GeneratedText out,
        generator->generate(std::move(prompt), how_, [&](int64_t token, std::string_view text) {
          if (json_) return;
          if (texts) {
            std::fwrite(text.data(), 1, text.size(), stdout);
          } else {
            std::printf(began ? " %lld" : "%lld", static_cast<long long>(token));
          }
          began = true;
          std::fflush(stdout);
        }));
    const double prefill_rate = static_cast<double>(out.prompt.size()) / out.prefill_seconds;
    if (!json_) {
      std::printf("\n");
      std::fflush(stdout);
      std::fprintf(stderr,
                   "%zu tokens read at %s tokens/s, %zu added at %s tokens/s (%s); ended by %s\n",
                   out.prompt.size(), fixed(prefill_rate, 1).c_str(), out.tokens.size(),
                   fixed(out.tokens_per_second, 2).c_str(), describe_run().c_str(),
                   std::string(out.ended_by).c_str());
      return kExitDone;
    }
    JsonWriter json;
    json.begin_object();
    json.field("model", file_);
    json.field("prompt", out.prompt);
    json.field("tokens", out.tokens);
    if (texts) json.field("text", out.text);
    json.field("ended_by", out.ended_by);
    json.field("prefill_seconds", out.prefill_seconds);
    json.field("prefill_tokens_per_second", prefill_rate);
    json.field("decode_seconds", out.decode_seconds);
    json.field("decode_tokens_per_second", out.tokens_per_second);
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
    how.precision = precision_of(weights_);
    return describe(how);
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
  GenerateOptions how_;
  int64_t seed_ = 0;
  int64_t threads_ = 1;
  std::string weights_ = "f32";
  bool whole_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_generate() { return std::make_unique<Generate>(); }

}  // namespace downhaul
