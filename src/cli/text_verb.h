#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "apps/text_tasks.h"
#include "base/strings.h"
#include "cli/verbs.h"
#include "kernels/isa.h"

namespace downhaul {

/// What the verbs of text models have in common: their options, loading, the line about the time.
class TextVerb : public Verb {
 protected:
  void declare_model(Options& o) {
    o.positional(&path_, "MODEL", "a .pt2 or .pte file, a checkpoint or its spec");
  }
  void declare_common(Options& o) {
    o.text(&text_options_.tokenizer, "--tokenizer", "PATH",
           "the tokenizer's folder or file (default: the spec's, or the model's folder)");
    o.text(&options_.spec, "--spec", "FILE",
           "the model's model_spec.json (default: the one beside it)");
    o.flag(&text_options_.truncate, "--truncate", "cut texts that are too long");
    o.number(&threads_, "--threads", "N", "threads to use; results do not depend on it", 1, 1024);
    o.flag(&json_, "--json", "print JSON");
  }
  Result<TextModel> load() {
    DH_TRY(lower_isa_by_environment());
    if (path_.empty()) return invalid_argument(cat(name(), ": give MODEL"));
    options_.how.threads = static_cast<int>(threads_);
    DH_ASSIGN(TextModel model, TextModel::load(path_, options_, text_options_));
    for (const std::string& w : model.model().warnings()) {
      std::fprintf(stderr, "downhaul: warning: %s\n", w.c_str());
    }
    return model;
  }
  void print_time(const TextRun& run) const {
    if (run.truncated) std::printf("the text was cut to fit\n");
    std::printf("forward: %s ms (%s)\n", fixed(run.forward_ms, 1).c_str(),
                describe(options_.how).c_str());
  }
  static std::string percent(double probability) { return fixed(100 * probability, 2); }

  std::string path_;
  AppModelOptions options_;
  TextModelOptions text_options_;
  int64_t threads_ = 1;
  bool json_ = false;
};

}  // namespace downhaul
