#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/plan.h"
#include "formats/json/json.h"
#include "models/models.h"
#include "report/metrics.h"
#include "report/process.h"
#include "report/statistics.h"

/// How fast the engine runs a file, and what has to be known to believe the figures.
namespace downhaul {

struct BenchmarkOptions {
  int threads = 1;
  int64_t warmups = 10;
  int64_t runs = 50;
  double seconds = 0;  ///< above 0: as many runs as fit, instead of `runs`; at least 3
  std::string inputs;  ///< file; empty: random ones
  uint64_t seed = 1;
  /// Other than f32: the results' distance to f32 is measured too.
  engine::Precision precision = engine::Precision::kF32;
  bool profile = false;
  std::string cache;           ///< folder for packed weights; empty: none
  models::BuildOptions model;  ///< for checkpoints
};

/// One kernel call of the plan, timed over the profiled runs.
struct ProfiledStep {
  std::string kernel;  ///< "gemm + gelu"
  std::string place;   ///< the source's name of its last operator, or the graph's; and the module
  std::string type;    ///< of its result
  double ms = 0;       ///< median
  int64_t multiply_adds = 0;
  int64_t bytes = 0;  ///< that it must touch at least once
  bool reference = false;
};

struct FileBenchmark {
  std::string file;
  std::vector<std::string> inputs, outputs;  ///< "name: type"
  std::string coverage;                      ///< of the file: delegates and kernel calls, or nodes
  int64_t steps = 0;                         ///< kernel calls of the engine's plan
  std::map<std::string, int> reference;      ///< operators on reference kernels, how many each

  double load_ms = 0;     ///< from the path to a graph
  double prepare_ms = 0;  ///< rewrites, plan, packing of weights
  double first_ms = 0;    ///< first run
  std::vector<double> runs_ms;
  /// Share of these runs that the threads waited for a core, ready to run, because others had it.
  std::optional<double> waited;

  uint64_t weight_bytes = 0;                    ///< distinct constants of the file
  uint64_t packed_bytes = 0;                    ///< copies of them in the kernels' order
  int blocks_from_cache = 0;                    ///< packed weights that a cache folder had
  uint64_t arena_bytes = 0;                     ///< planned activations
  std::optional<ResidentMemory> before, after;  ///< peak of `after`: load to warm-ups
  bool peak_is_of_file = false;  ///< the peak was reset before; else it is the process's

  /// Of each output in another precision to that in f32, on the same inputs; empty in f32.
  std::vector<std::pair<std::string, TensorMetrics>> to_f32;

  int64_t multiply_adds = 0;
  int64_t bytes = 0;
  std::vector<ProfiledStep> profile;  ///< in the order of execution; empty when not asked for
};

/// Load, first run and memory of each file by itself, before any other is loaded; then all are
/// loaded and take turns at their steady runs, five in a row after one that does not count (of a
/// single file all runs follow each other). Errors: those of loading and of the engine, with the
/// path.
Result<std::vector<FileBenchmark>> benchmark_files(const std::vector<std::string>& paths,
                                                   const BenchmarkOptions& options);

/// What figures depend on besides the file.
struct Machine {
  std::string cpu;
  std::string isa;
  int threads = 1;
  std::string precision = "f32";
  std::string build;     ///< "Release"
  std::string downhaul;  ///< version
  // Measured with `threads` threads:
  double fma_gflops = 0;     ///< multiply-adds in registers, two operations each
  double read_gb_per_s = 0;  ///< from memory beyond the caches
};
/// Name and ISA of this machine.
Machine this_machine(int threads, std::string build, std::string version);
/// Adds the measured peaks; takes about a quarter of a second and 192 MiB of memory.
void measure_peaks(Machine& machine);

struct BenchmarkReport {
  Machine machine;
  std::vector<FileBenchmark> files;
};

/// The lines that come before any figure.
std::string print_header(const Machine& machine);
std::string print_coverage(const FileBenchmark& file);
std::string print_figures(const FileBenchmark& file, const Machine& machine);
std::string print_profile(const FileBenchmark& file, const Machine& machine);
void write_json(const BenchmarkReport& report, JsonWriter& json);
/// A line per file, or with `profile` a line per kernel call; with a line of names first.
std::string to_csv(const BenchmarkReport& report, bool profile);

struct BenchmarkDifference {
  std::string file;
  double old_ms = 0, new_ms = 0;  ///< medians
  RatioEstimate ratio;
};

/// Two results of `write_json`, file by file. Errors: kInvalidFile for what is no such result;
/// kInvalidFile when they come from another CPU, ISA, precision, number of threads or build type,
/// have no file name in common, or a file of one name has other inputs or outputs: such times say
/// nothing about each other.
Result<std::vector<BenchmarkDifference>> compare_benchmarks(const JsonValue& old_report,
                                                            const JsonValue& new_report);
std::string print(const std::vector<BenchmarkDifference>& differences);
void write_json(const std::vector<BenchmarkDifference>& differences, JsonWriter& json);

}  // namespace downhaul
