#include "base/strings.h"
#include "cli/command_line.h"

namespace downhaul {
namespace {

/// Collects what a verb declares, without binding anything.
class Recorder final : public Options {
 public:
  struct Option {
    std::string name;
    std::string help;
    std::vector<std::string> values;
    bool takes_value = false;
  };

  void flag(bool*, const std::string& name, const std::string& help) override {
    options.push_back({name, help, {}, false});
  }
  void text(std::string*, const std::string& name, const std::string&,
            const std::string& help) override {
    options.push_back({name, help, {}, true});
  }
  void number(int64_t*, const std::string& name, const std::string&, const std::string& help,
              int64_t, int64_t) override {
    options.push_back({name, help, {}, true});
  }
  void real(double*, const std::string& name, const std::string&,
            const std::string& help) override {
    options.push_back({name, help, {}, true});
  }
  void choice(std::string*, const std::string& name, const std::vector<std::string>& values,
              const std::string& help) override {
    options.push_back({name, help, values, true});
  }
  void list(std::vector<std::string>*, const std::string& name, const std::string&,
            const std::string& help) override {
    options.push_back({name, help, {}, true});
  }
  void positional(std::string*, const std::string&, const std::string&) override {}
  void positionals(std::vector<std::string>*, const std::string&, const std::string&,
                   bool) override {}

  std::vector<Option> options;
};

std::string bash(const VerbList& verbs) {
  std::string verb_names;
  std::string cases = "    completion:completion) words='bash zsh fish' ;;\n";
  for (const auto& verb : verbs) {
    verb_names += cat(verb->name(), " ");
    Recorder recorder;
    verb->declare(recorder);
    std::string names = "--help";
    for (const auto& o : recorder.options) {
      names += cat(" ", o.name);
      if (o.values.empty()) continue;
      cases += cat("    ", verb->name(), ":", o.name, ") words='", join(o.values, " "), "' ;;\n");
    }
    cases += cat("    ", verb->name(), ":*) [[ $word == -* ]] && words='", names, "' ;;\n");
  }
  return cat(
      "_downhaul() {\n  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}",
      " words=''\n  if [[ $COMP_CWORD -eq 1 ]]; then words='", verb_names,
      "--help --version'; fi\n  case \"${COMP_WORDS[1]}:$previous\" in\n", cases,
      "  esac\n  if [[ -n $words ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  else COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\n"
      "complete -o filenames -F _downhaul downhaul\n");
}

/// Single-quoted for fish and zsh.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fish(const VerbList& verbs) {
  std::string out =
      "complete -c downhaul -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
  for (const auto& verb : verbs) {
    out += cat("complete -c downhaul -n __fish_use_subcommand -a ", verb->name(), " -d ",
               quoted(verb->summary()), "\n");
    Recorder recorder;
    verb->declare(recorder);
    for (const auto& o : recorder.options) {
      out += cat("complete -c downhaul -n '__fish_seen_subcommand_from ", verb->name(), "' -l ",
                 o.name.substr(2), o.takes_value ? " -r" : "",
                 o.values.empty() ? "" : cat(" -f -a ", quoted(join(o.values, " "))), " -d ",
                 quoted(o.help), "\n");
    }
  }
  return out;
}

}  // namespace

Result<std::string> completion_script(const std::string& shell, const VerbList& verbs) {
  if (shell == "bash") return bash(verbs);
  // zsh runs bash completions through its own compatibility layer.
  if (shell == "zsh") return cat("autoload -U +X bashcompinit && bashcompinit\n", bash(verbs));
  if (shell == "fish") return fish(verbs);
  return invalid_argument(
      cat("completion: expected bash, zsh or fish; found '", printable(shell), "'"));
}

}  // namespace downhaul
