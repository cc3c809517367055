#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/strings.h"
#include "cli/version.h"

namespace downhaul {
namespace {

// CLI11 reads a value in brackets, such as the text "[MASK]", as a list. A mark in front prevents
// it.
constexpr char kMark = '\x01';
bool looks_like_list(std::string_view value) {
  return value.size() > 1 && value.front() == '[' && value.back() == ']';
}
std::string without_mark(std::string value) {
  if (!value.empty() && value.front() == kMark && looks_like_list(value.substr(1)))
    value.erase(0, 1);
  return value;
}

class AppOptions final : public Options {
 public:
  explicit AppOptions(CLI::App* app) : app_(app) {}

  void flag(bool* target, const std::string& name, const std::string& help) override {
    app_->add_flag(name, *target, help);
  }
  void text(std::string* target, const std::string& name, const std::string& value,
            const std::string& help) override {
    app_->add_option(name, *target, help)->type_name(value)->transform(without_mark);
  }
  void number(int64_t* target, const std::string& name, const std::string& value,
              const std::string& help, int64_t low, int64_t high) override {
    const auto check = [low, high](const std::string& text) -> std::string {
      int64_t v = 0;
      const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
      if (r.ec != std::errc() || r.ptr != text.data() + text.size() || v < low || v > high) {
        return cat("expected an integer from ", low, " to ", high, ", found '", printable(text),
                   "'");
      }
      return {};
    };
    app_->add_option(name, *target, help)->type_name(value)->check(check);
  }
  void real(double* target, const std::string& name, const std::string& value,
            const std::string& help) override {
    const auto check = [](const std::string& text) -> std::string {
      double v = 0;
      const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
      if (r.ec != std::errc() || r.ptr != text.data() + text.size() || !(v >= 0) || std::isinf(v)) {
        return cat("expected a number that is not negative, found '", printable(text), "'");
      }
      return {};
    };
    app_->add_option(name, *target, help)->type_name(value)->check(check);
  }
  void choice(std::string* target, const std::string& name, const std::vector<std::string>& values,
              const std::string& help) override {
    const auto check = [values](const std::string& text) -> std::string {
      for (const std::string& v : values) {
        if (v == text) return {};
      }
      return cat("expected ", join(values, ", "), "; found '", printable(text), "'");
    };
    app_->add_option(name, *target, help)->type_name(join(values, "|"))->check(check);
  }
  void list(std::vector<std::string>* target, const std::string& name, const std::string& value,
            const std::string& help) override {
    app_->add_option(name, *target, help)
        ->type_name(value)
        ->delimiter(',')
        ->allow_extra_args(false);
  }
  void positional(std::string* target, const std::string& name, const std::string& help) override {
    app_->add_option(name, *target, help)->transform(without_mark);
  }
  void positionals(std::vector<std::string>* target, const std::string& name,
                   const std::string& help, bool required) override {
    app_->add_option(name, *target, help)->required(required)->transform(without_mark);
  }

 private:
  CLI::App* app_;
};

/// What the standard library throws when the system gives no more becomes an error of one line.
Result<int> run_guarded(Verb& verb) {
  try {
    return verb.run();
  } catch (const std::bad_alloc&) {
    return io_error(cat(verb.name(), ": out of memory"));
  } catch (const std::length_error&) {
    return io_error(cat(verb.name(), ": out of memory"));
  } catch (const std::system_error& error) {
    return io_error(cat(verb.name(), ": the system refuses a thread: ", error.what()));
  }
}

/// What was printed has arrived, or the exit code says that it has not.
Status flush_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return io_error(cat("cannot write to the standard output: ", std::strerror(errno)));
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app("downhaul lowers trained models onto devices: PyTorch programs to ExecuTorch files.",
               "downhaul");
  app.set_version_flag("--version", version_line());
  app.require_subcommand(1);
  const VerbList verbs = make_verbs();
  const std::string first = argc > 1 ? argv[1] : "";
  const bool known_verb = std::any_of(verbs.begin(), verbs.end(),
                                      [&](const auto& verb) { return verb->name() == first; });
  app.failure_message([&](const CLI::App*, const CLI::Error& e) {
    return cat("downhaul: ", e.what(), "\nTry 'downhaul ", known_verb ? first + " " : "",
               "--help'.\n");
  });
  app.footer(
      "Exit codes: 0 done, 1 a model or file is at fault, 2 bad usage, 3 a difference found.");
  for (const auto& verb : verbs) {
    CLI::App* sub = app.add_subcommand(std::string(verb->name()), std::string(verb->summary()));
    sub->footer(std::string(verb->details()));
    AppOptions options(sub);
    verb->declare(options);
  }
  if (!known_verb && first != "--help" && first != "-h" && first != "--version") {
    // The parser would say that a command is missing, not that this one does not exist.
    std::vector<std::string> names;
    for (const auto& verb : verbs) names.emplace_back(verb->name());
    std::fprintf(stderr, "downhaul: expected a command (%s), found %s\nTry 'downhaul --help'.\n",
                 join(names, ", ").c_str(),
                 argc > 1 ? cat("'", printable(first), "'").c_str() : "none");
    return kExitUsage;
  }
  try {
    std::vector<std::string> marked(argv, argv + argc);
    for (std::string& value : marked) {
      if (looks_like_list(value)) value.insert(value.begin(), kMark);
    }
    std::vector<char*> given;
    for (std::string& value : marked) given.push_back(value.data());
    app.parse(argc, given.data());
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    return kExitUsage;
  }
  for (const auto& verb : verbs) {
    if (!app.got_subcommand(std::string(verb->name()))) continue;
    Result<int> result = run_guarded(*verb);
    if (Status written = flush_output(); result.ok() && !written.ok()) result = written;
    if (result.ok()) return *result;
    std::fprintf(stderr, "downhaul: %s\n", result.status().message().c_str());
    return result.status().kind() == ErrorKind::kInvalidArgument ? kExitUsage : kExitFault;
  }
  return kExitUsage;
}

}  // namespace downhaul
