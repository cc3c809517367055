#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/verify.h"
#include "rewrite/rewrite.h"

namespace downhaul {

namespace {

Status check_pass_name(std::span<const Pass> passes, const std::string& name,
                       std::string_view option, bool rewrites_too) {
  for (const Pass& pass : passes) {
    if (name == pass.name) return {};
    if (!rewrites_too) continue;
    for (const Rewrite* rewrite : pass.rewrites) {
      if (name == rewrite->name) return {};
    }
  }
  return invalid_argument(cat(option, ": no pass ", rewrites_too ? "or rewrite " : "", "named '",
                              printable(name), "'"));
}

Status check_names(std::span<const Pass> passes, const PipelineOptions& options) {
  if (!options.stop_after.empty()) {
    DH_TRY(check_pass_name(passes, options.stop_after, "stop-after", false));
  }
  for (const std::string& name : options.disabled) {
    DH_TRY(check_pass_name(passes, name, "disable", true));
  }
  for (const std::string& name : options.print_after) {
    if (name != "all") DH_TRY(check_pass_name(passes, name, "print-after", false));
  }
  return {};
}

Status run_pass(Graph& graph, const Pass& pass, const PipelineOptions& options, PassLog* log) {
  if (options.disabled.contains(pass.name)) return {};
  if (pass.run != nullptr) {
    DH_ASSIGN(const int count, pass.run(graph));
    if (log != nullptr && count > 0) log->entries.push_back({pass.name, pass.name, count});
  }
  if (pass.rewrites.empty()) return {};
  std::vector<const Rewrite*> enabled;
  for (const Rewrite* rewrite : pass.rewrites) {
    if (!options.disabled.contains(rewrite->name)) enabled.push_back(rewrite);
  }
  DH_TRY(apply_rewrites(graph, enabled, log, pass.name, pass.only));
  return {};
}

}  // namespace

Status run_pipeline(Graph& graph, std::span<const Pass> passes, const PipelineOptions& options,
                    PassLog* log, bool* stopped) {
  if (stopped != nullptr) *stopped = false;
  DH_TRY(check_names(passes, options));
  for (const Pass& pass : passes) {
    Status status = run_pass(graph, pass, options, log);
    if (status.ok() && options.verify) status = verify(graph);
    if (!status.ok()) return std::move(status).with_context(cat("pass '", pass.name, "'"));
    if (options.print &&
        (options.print_after.contains(pass.name) || options.print_after.contains("all"))) {
      options.print(pass.name, graph);
    }
    if (options.stop_after == pass.name) {
      if (stopped != nullptr) *stopped = true;
      break;
    }
  }
  return {};
}

}  // namespace downhaul
