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
#include "report/runner.h"

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

/// A file that is loaded and has run once; its model, its session and its memory.
class Prepared {
 public:
  static Result<std::unique_ptr<Prepared>> load(const std::string& path,
                                                const BenchmarkOptions& options,
                                                FileBenchmark& out) {
    auto begin = Clock::now();
    DH_ASSIGN(Artifact artifact, load_artifact(path, {.keep_outputs = {}, .model = options.model}));
    out.load_ms = milliseconds(Clock::now() - begin);
    out.inputs.clear();
    out.outputs.clear();
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
    DH_ASSIGN(auto model, EngineModel::prepare(*artifact.graph, options.cache, options.precision));
    std::unique_ptr<Prepared> made(new Prepared(std::move(artifact), std::move(model), options));
    DH_ASSIGN(const Bindings bindings, bind_symbols(made->model_->graph(), *inputs));
    DH_TRY(made->session_.reshape(bindings));
    out.prepare_ms = milliseconds(Clock::now() - begin);
    made->buffers_.emplace(*inputs, made->session_);
    made->inputs_ = *inputs;
    DH_ASSIGN(out.first_ms, made->run());
    for (int64_t i = 0; i < options.warmups; ++i) {
      DH_ASSIGN([[maybe_unused]] const double ms, made->run());
    }
    return made;
  }

  Result<double> run() { return buffers_->run(session_); }

  /// What does not depend on the time. Reads the file once more, so after all that is timed.
  Status describe(const BenchmarkOptions& options, FileBenchmark& out) {
    describe_plan(*session_.plan(), out);
    out.packed_bytes = model_->weights().total_bytes();
    out.blocks_from_cache = model_->weights().num_from_cache();
    if (options.profile) DH_TRY(profile(session_, *buffers_, out));
    if (options.precision != engine::Precision::kF32) DH_TRY(compare_with_f32(options, out));
    out.weight_bytes = distinct_constant_bytes(*artifact_.graph);
    if (artifact_.pte != nullptr) {
      const DelegationReport delegation = delegation_report(*artifact_.pte, nullptr);
      out.coverage = cat(counted(delegation.call_sites, "delegate call site"), ", ",
                         counted(delegation.kernel_calls, "kernel call"), " outside");
    } else {
      out.coverage = counted(static_cast<int64_t>(artifact_.graph->nodes().size()), "node");
    }
    return {};
  }

 private:
  Status compare_with_f32(const BenchmarkOptions& options, FileBenchmark& out) {
    session_.reset_state();
    DH_ASSIGN(const auto coarse, session_.run(inputs_));
    auto model = model_;
    if (model->is_in_f16()) {
      DH_ASSIGN(model, EngineModel::prepare(*artifact_.graph, options.cache));
    }
    Session session(model, EngineOptions{.num_threads = options.threads});
    DH_ASSIGN(const auto exact, session.run(inputs_));
    for (size_t i = 0; i < exact.size(); ++i) {
      out.to_f32.emplace_back(model_->graph().outputs()[i].name,
                              compare_tensors(exact[i], coarse[i]));
    }
    return {};
  }

  Prepared(Artifact artifact, std::shared_ptr<EngineModel> model, const BenchmarkOptions& options)
      : artifact_(std::move(artifact)),
        model_(std::move(model)),
        session_(model_,
                 EngineOptions{.num_threads = options.threads, .precision = options.precision}) {}

  Artifact artifact_;
  std::shared_ptr<EngineModel> model_;
  Session session_;
  std::optional<Buffers> buffers_;
  std::vector<Tensor> inputs_;
};

/// The steady runs of all files in turns, in an order that rotates: whatever else the machine does
/// falls on all alike.
Status take_turns(const std::vector<std::unique_ptr<Prepared>>& files,
                  const BenchmarkOptions& options, std::vector<FileBenchmark>& out) {
  constexpr size_t kRunsInTurn = 5;
  const auto budget =
      std::chrono::duration<double>(options.seconds * static_cast<double>(files.size()));
  const auto until = Clock::now() + budget;
  const auto left = [&](size_t done) -> size_t {
    if (options.seconds > 0) return done < 3 || Clock::now() < until ? kRunsInTurn : 0;
    return static_cast<size_t>(options.runs) - done;
  };
  const auto waited = core_wait_ms();
  const auto begin = Clock::now();
  for (size_t round = 0; left(out[0].runs_ms.size()) > 0; ++round) {
    const size_t runs = std::min(kRunsInTurn, left(out[0].runs_ms.size()));
    for (size_t i = 0; i < files.size(); ++i) {
      const size_t at = (i + round) % files.size();
      // The others have emptied the caches meanwhile, and what is asked is steady use.
      if (files.size() > 1) {
        DH_ASSIGN([[maybe_unused]] const double ms, files[at]->run());
      }
      for (size_t r = 0; r < runs; ++r) {
        DH_ASSIGN(const double ms, files[at]->run());
        out[at].runs_ms.push_back(ms);
      }
    }
  }
  const double all_ms = milliseconds(Clock::now() - begin);
  if (const auto now = core_wait_ms(); now && waited) {
    for (FileBenchmark& f : out) f.waited = (*now - *waited) / (all_ms * options.threads);
  }
  return {};
}

Status named(Status status, const std::string& path) {
  if (status.ok()) return status;
  if (status.message().find(path) == std::string::npos) {
    status = std::move(status).with_context(cat("'", printable(path), "'"));
  }
  return status.kind() == ErrorKind::kInvalidArgument
             ? Status(ErrorKind::kInvalidFile, status.message())
             : status;
}

}  // namespace

Result<std::vector<FileBenchmark>> benchmark_files(const std::vector<std::string>& paths,
                                                   const BenchmarkOptions& options) {
  set_num_threads(options.threads);  // of operators that have only their reference kernel
  std::vector<FileBenchmark> out(paths.size());
  std::vector<std::unique_ptr<Prepared>> files;
  // Load, first run and memory of each file with nothing of the others in the process.
  for (size_t i = 0; i < paths.size(); ++i) {
    out[i].file = paths[i];
    out[i].peak_is_of_file = reset_peak_memory();
    out[i].before = resident_memory();
    auto file = Prepared::load(paths[i], options, out[i]);
    if (!file.ok()) return named(std::move(file).status(), paths[i]);
    out[i].after = resident_memory();
    if (paths.size() == 1) files.push_back(*std::move(file));
  }
  for (size_t i = 0; paths.size() > 1 && i < paths.size(); ++i) {
    FileBenchmark again;
    auto file = Prepared::load(paths[i], options, again);
    if (!file.ok()) return named(std::move(file).status(), paths[i]);
    files.push_back(*std::move(file));
  }
  DH_TRY(take_turns(files, options, out));
  for (size_t i = 0; i < paths.size(); ++i) {
    DH_TRY(named(files[i]->describe(options, out[i]), paths[i]));
  }
  return out;
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
