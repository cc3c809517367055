#include "report/benchmark.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "base/parallel.h"
#include "base/strings.h"
#include "engine/engine.h"
#include "kernels/isa.h"
#include "kernels/peak.h"
#include "ops/evaluate.h"
#include "report/artifact.h"
#include "report/delegation.h"

namespace downhaul {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

std::string counted(int64_t n, std::string_view what) {
  return cat(n, " ", what, n == 1 ? "" : "s");
}

uint64_t distinct_constant_bytes(const Graph& graph) {
  std::set<std::pair<const Storage*, uint64_t>> seen;
  uint64_t bytes = 0;
  for (const Value* c : graph.constants()) {
    const Tensor& t = c->constant();
    if (seen.emplace(t.storage().get(), t.byte_offset()).second) bytes += t.num_bytes();
  }
  return bytes;
}

std::string place_of(const Node& node) {
  if (node.origins().empty()) return node.result()->name();
  const Origin& origin = node.graph().origins[static_cast<size_t>(node.origins().back())];
  return origin.module_path.empty() ? origin.name : cat(origin.name, " in ", origin.module_path);
}

/// Inputs and outputs of a session, allocated before the clock runs.
class Buffers {
 public:
  Buffers(const std::vector<Tensor>& inputs, const Session& session) : inputs_(inputs) {
    for (Tensor& input : inputs_) {
      const uint8_t* data = input.bytes().data();
      if (reinterpret_cast<uintptr_t>(data) % item_size(input.dtype()) != 0) {
        Tensor copy(input.dtype(), input.sizes());
        std::copy_n(data, input.num_bytes(), copy.mutable_data<uint8_t>());
        input = std::move(copy);
      }
      in_.push_back(input.bytes().data());
    }
    const Graph& graph = session.model().graph();
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      outputs_.emplace_back(graph.outputs()[i].value->dtype(), session.plan()->output_sizes[i]);
      out_.push_back(outputs_.back().mutable_data<uint8_t>());
    }
  }
  Result<double> run(Session& session) const {
    const auto begin = Clock::now();
    DH_TRY(session.run(in_, out_));
    return milliseconds(Clock::now() - begin);
  }

 private:
  std::vector<Tensor> inputs_, outputs_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

void describe_plan(const engine::Plan& plan, FileBenchmark& out) {
  out.steps = static_cast<int64_t>(plan.steps.size());
  out.arena_bytes = plan.arena_bytes;
  for (const engine::Step& step : plan.steps) {
    out.multiply_adds += step.multiply_adds;
    out.bytes += step.bytes;
    if (step.is_reference && !step.nodes.empty()) {
      ++out.reference[std::string(step.nodes.back()->op_name())];
    }
  }
}

Status profile(Session& session, const Buffers& buffers, FileBenchmark& out) {
  constexpr int kRuns = 11;
  const engine::Plan& plan = *session.plan();
  std::vector<std::vector<double>> times(plan.steps.size());
  session.set_profiling(true);
  for (int i = 0; i < kRuns; ++i) {
    DH_ASSIGN([[maybe_unused]] const double ms, buffers.run(session));
    for (size_t s = 0; s < times.size(); ++s) {
      times[s].push_back(static_cast<double>(session.step_nanoseconds()[s]) * 1e-6);
    }
  }
  session.set_profiling(false);
  for (size_t s = 0; s < times.size(); ++s) {
    const engine::Step& step = plan.steps[s];
    ProfiledStep p{.kernel = step.kernel, .place = {}, .type = {}};
    if (!step.nodes.empty()) {
      p.place = place_of(*step.nodes.back());
      p.type = step.nodes.back()->result()->type().str();
    }
    p.ms = median_of(std::move(times[s]));
    p.multiply_adds = step.multiply_adds;
    p.bytes = step.bytes;
    p.reference = step.is_reference;
    out.profile.push_back(std::move(p));
  }
  return {};
}

Status measure(const std::string& path, const BenchmarkOptions& options, FileBenchmark& out) {
  auto begin = Clock::now();
  DH_ASSIGN(Artifact artifact, load_artifact(path));
  out.load_ms = milliseconds(Clock::now() - begin);
  for (const Value* v : artifact.graph->inputs()) {
    out.inputs.push_back(cat(v->name(), ": ", v->type().str()));
  }
  for (const Output& o : artifact.graph->outputs()) {
    out.outputs.push_back(cat(o.name, ": ", o.value->type().str()));
  }
  const auto inputs = options.inputs.empty() ? random_inputs(*artifact.graph, options.seed)
                                             : read_inputs(options.inputs, *artifact.graph);
  if (!inputs.ok()) return inputs.status();

  begin = Clock::now();
  DH_ASSIGN(const auto model, EngineModel::prepare(*artifact.graph, options.cache));
  Session session(model, EngineOptions{.num_threads = options.threads});
  DH_ASSIGN(const Bindings bindings, bind_symbols(model->graph(), *inputs));
  DH_TRY(session.reshape(bindings));
  out.prepare_ms = milliseconds(Clock::now() - begin);
  const Buffers buffers(*inputs, session);
  DH_ASSIGN(out.first_ms, buffers.run(session));
  for (int64_t i = 0; i < options.warmups; ++i) {
    DH_ASSIGN([[maybe_unused]] const double ms, buffers.run(session));
  }
  const auto until = Clock::now() + std::chrono::duration<double>(options.seconds);
  const auto more = [&](size_t done) {
    if (options.seconds > 0) return done < 3 || Clock::now() < until;
    return done < static_cast<size_t>(options.runs);
  };
  const auto waited = core_wait_ms();
  begin = Clock::now();
  while (more(out.runs_ms.size())) {
    DH_ASSIGN(const double ms, buffers.run(session));
    out.runs_ms.push_back(ms);
  }
  const double steady_ms = milliseconds(Clock::now() - begin);
  if (const auto now = core_wait_ms(); now && waited) {
    out.waited = (*now - *waited) / (steady_ms * options.threads);
  }
  out.after = resident_memory();
  describe_plan(*session.plan(), out);
  out.packed_bytes = model->weights().total_bytes();
  if (options.profile) DH_TRY(profile(session, buffers, out));
  // What follows reads the file once more, after all that is timed.
  out.weight_bytes = distinct_constant_bytes(*artifact.graph);
  if (artifact.pte != nullptr) {
    const DelegationReport delegation = delegation_report(*artifact.pte, nullptr);
    out.coverage = cat(counted(delegation.call_sites, "delegate call site"), ", ",
                       counted(delegation.kernel_calls, "kernel call"), " outside");
  } else {
    out.coverage = counted(static_cast<int64_t>(artifact.graph->nodes().size()), "node");
  }
  return {};
}

}  // namespace

Result<FileBenchmark> benchmark_file(const std::string& path, const BenchmarkOptions& options) {
  set_num_threads(options.threads);  // of operators that have only their reference kernel
  FileBenchmark out;
  out.file = path;
  out.peak_is_of_file = reset_peak_memory();
  out.before = resident_memory();
  Status status = measure(path, options, out);
  if (status.ok()) return out;
  if (status.message().find(path) == std::string::npos) {
    status = std::move(status).with_context(cat("'", printable(path), "'"));
  }
  return status.kind() == ErrorKind::kInvalidArgument
             ? Status(ErrorKind::kInvalidFile, status.message())
             : status;
}

Machine this_machine(int threads, std::string build, std::string version) {
  return {.cpu = cpu_name(),
          .isa = std::string(name(active_isa())),
          .threads = threads,
          .build = std::move(build),
          .downhaul = std::move(version)};
}

void measure_peaks(Machine& machine) {
  std::vector<double> each(static_cast<size_t>(machine.threads), 0);
  std::vector<std::thread> threads;
  for (double& own : each) {
    threads.emplace_back([&own] { own = kernels::measure_fma_peak(); });
  }
  for (std::thread& t : threads) t.join();
  machine.fma_gflops = 0;
  for (const double own : each) machine.fma_gflops += own;
  machine.read_gb_per_s = kernels::measure_read_bandwidth(machine.threads);
}

}  // namespace downhaul
