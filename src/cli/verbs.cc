#include "cli/verbs.h"

#include <cstdio>

namespace downhaul {
namespace {

class Completion final : public Verb {
 public:
  std::string_view name() const override { return "completion"; }
  std::string_view summary() const override { return "Print a completion script for a shell"; }
  std::string_view details() const override {
    return "Example:\n  source <(downhaul completion bash)";
  }
  void declare(Options& o) override {
    o.positional(&shell_, "SHELL", "bash (the default), zsh or fish");
  }
  Result<int> run() override {
    DH_ASSIGN(const std::string script, completion_script(shell_, make_verbs()));
    std::fputs(script.c_str(), stdout);
    return kExitDone;
  }

 private:
  std::string shell_ = "bash";
};

}  // namespace

std::unique_ptr<Verb> make_completion() { return std::make_unique<Completion>(); }

VerbList make_verbs() {
  VerbList verbs;
  verbs.push_back(make_lower());
  verbs.push_back(make_run());
  verbs.push_back(make_inspect());
  verbs.push_back(make_compare());
  verbs.push_back(make_bench());
  verbs.push_back(make_check());
  verbs.push_back(make_classify());
  verbs.push_back(make_segment());
  verbs.push_back(make_generate());
  verbs.push_back(make_serve());
  verbs.push_back(make_bundle());
  verbs.push_back(make_fill_mask());
  verbs.push_back(make_answer());
  verbs.push_back(make_tag());
  verbs.push_back(make_choose());
  verbs.push_back(make_embed());
  verbs.push_back(make_similarity());
  verbs.push_back(make_tokenize());
  verbs.push_back(make_completion());
  return verbs;
}

}  // namespace downhaul
