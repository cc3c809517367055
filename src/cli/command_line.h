#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

/// The command line: verbs, each with its options, declared once.
namespace downhaul {

/// What the process ends with.
enum ExitCode : int {
  kExitDone = 0,
  kExitFault = 1,       ///< the model or a file is at fault
  kExitUsage = 2,       ///< the command line is
  kExitDifference = 3,  ///< a comparison found a difference
};

/// Declares the options of one verb; the addressed variables must live until the verb has run.
class Options {
 public:
  virtual ~Options() = default;
  virtual void flag(bool* target, const std::string& name, const std::string& help) = 0;
  virtual void text(std::string* target, const std::string& name, const std::string& value,
                    const std::string& help) = 0;
  virtual void number(int64_t* target, const std::string& name, const std::string& value,
                      const std::string& help, int64_t low, int64_t high) = 0;
  /// A number from 0, with a fraction or an exponent.
  virtual void real(double* target, const std::string& name, const std::string& value,
                    const std::string& help) = 0;
  virtual void choice(std::string* target, const std::string& name,
                      const std::vector<std::string>& values, const std::string& help) = 0;
  /// May be given several times, and several at once separated by commas.
  virtual void list(std::vector<std::string>* target, const std::string& name,
                    const std::string& value, const std::string& help) = 0;
  virtual void positional(std::string* target, const std::string& name,
                          const std::string& help) = 0;
  virtual void positionals(std::vector<std::string>* target, const std::string& name,
                           const std::string& help, bool required = true) = 0;
};

/// One verb of the program.
class Verb {
 public:
  virtual ~Verb() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;
  /// Shown below the options by --help: examples.
  virtual std::string_view details() const { return ""; }
  virtual void declare(Options& options) = 0;
  /// The exit code, or what went wrong.
  virtual Result<int> run() = 0;
};

using VerbList = std::vector<std::unique_ptr<Verb>>;

/// Every verb, in the order of the help.
VerbList make_verbs();

/// Parses the arguments, runs the verb, prints the error if there is one, returns the exit code.
int run_command_line(int argc, char** argv);

/// A completion script for "bash", "zsh" or "fish", made from the verbs' own declarations.
Result<std::string> completion_script(const std::string& shell, const VerbList& verbs);

}  // namespace downhaul
