#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>

#include "base/strings.h"
#include "report/benchmark.h"

namespace downhaul {
namespace {

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string megabytes(uint64_t bytes) {
  return cat(fixed(static_cast<double>(bytes) / 1e6, 1), " MB");
}

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

double gflops(int64_t multiply_adds, double ms) {
  return ms > 0 ? 2e-6 * static_cast<double>(multiply_adds) / ms : 0;
}
double gb_per_s(int64_t bytes, double ms) {
  return ms > 0 ? 1e-6 * static_cast<double>(bytes) / ms : 0;
}
double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

bool is_optimised(const std::string& build) {
  return build == "Release" || build == "RelWithDebInfo" || build == "MinSizeRel";
}

/// More than what an idle system's own work takes.
bool is_disturbed(const FileBenchmark& f) { return f.waited.value_or(0) > 0.02; }

/// As a field of a line of comma-separated values (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    out += c;
    if (c == '"') out += c;
  }
  return out + "\"";
}

template <typename... Fields>
std::string csv_line(const Fields&... fields) {
  const std::vector<std::string> all = {csv_field(cat(fields))...};
  return join(all, ",") + "\n";
}

}  // namespace

std::string print_header(const Machine& m) {
  std::string out;
  if (!is_optimised(m.build)) {
    out += cat("*** ", m.build.empty() ? "unnamed" : m.build,
               " BUILD: not optimised, the times below say nothing about downhaul ***\n");
  }
  if (m.precision != "f32") {
    out += cat("*** ", m.precision == "f16" ? "every result rounded to " : "linear layers in ",
               m.precision, ": results change, by what stands below ***\n");
  }
  return out + cat(m.cpu, "; ", m.isa, "; ", m.threads, m.threads == 1 ? " thread" : " threads",
                   "; ", m.build, " build of downhaul ", m.downhaul, "\n");
}

std::string print_coverage(const FileBenchmark& f) {
  int64_t slow = 0;
  std::vector<std::string> names;
  for (const auto& [op, count] : f.reference) {
    slow += count;
    names.push_back(cat(op, " ", count));
  }
  std::string out = cat(printable(f.file, 1000), "\n  in the file: ", f.coverage,
                        "; in the engine: ", f.steps, " kernel calls, ");
  out += slow == 0 ? std::string("none of them by a reference kernel")
                   : cat(slow, " of them by REFERENCE kernels (slow): ", join(names, ", "));
  return out + "\n";
}

std::string print_figures(const FileBenchmark& f, const Machine& m) {
  const TimeSummary s = summarise(f.runs_ms);
  std::string out =
      cat("  load ", fixed(f.load_ms, 2), " ms, prepare ", fixed(f.prepare_ms, 2),
          " ms, first run ", fixed(f.first_ms, 2),
          " ms: ", fixed(f.load_ms + f.prepare_ms + f.first_ms, 2), " ms to the first output (",
          s.median > 0 ? fixed((f.load_ms + f.prepare_ms + f.first_ms) / s.median, 2)
                       : std::string("-"),
          " x the median)\n");
  out += cat("  steady, ", f.runs_ms.size(), " runs: median ", fixed(s.median, 3), "  mean ",
             fixed(s.mean, 3), "  min ", fixed(s.min, 3), "  max ", fixed(s.max, 3), "  p95 ",
             fixed(s.p95, 3), "  MAD ", fixed(s.mad, 3), " ms\n");
  if (is_disturbed(f)) {
    out += cat("  *** DISTURBED: for ", fixed(100 * *f.waited, 1),
               " % of these runs the threads waited for a core that other processes had; measure "
               "again on an idle machine ***\n");
  }
  const double rate = gflops(f.multiply_adds, s.median);
  const double traffic = gb_per_s(f.bytes, s.median);
  out +=
      cat("  ", fixed(static_cast<double>(f.multiply_adds) / 1e6, 1),
          " M multiply-adds: ", fixed(rate, 1), " GFLOP/s, ", fixed(percent(rate, m.fma_gflops), 1),
          " % of this machine's measured ", fixed(m.fma_gflops, 1), "; at least ",
          megabytes(static_cast<uint64_t>(f.bytes)), " touched: ", fixed(traffic, 1), " GB/s, ",
          fixed(percent(traffic, m.read_gb_per_s), 1), " % of its measured ",
          fixed(m.read_gb_per_s, 1), "\n");
  out += cat("  weights ", megabytes(f.weight_bytes), ", of them packed anew ",
             megabytes(f.packed_bytes),
             f.blocks_from_cache > 0 ? cat(" (", f.blocks_from_cache, " blocks out of the cache)")
                                     : std::string(),
             "; activations ", megabytes(f.arena_bytes), "\n");
  for (const auto& [output, metrics] : f.to_f32) {
    out += cat("  ", printable(output), " against f32: max abs ", scientific(metrics.max_abs),
               ", relative ", scientific(metrics.relative), ", cosine ", fixed(metrics.cosine, 6));
    if (metrics.argmax) {
      out += cat(", same largest entry ", metrics.argmax->equal, " of ", metrics.argmax->rows);
    }
    out += "\n";
  }
  if (f.before && f.after) {
    out += cat("  resident memory: ", megabytes(f.after->now), " steady (of that ",
               megabytes(f.after->mapped_files), " pages of files), ", megabytes(f.after->peak),
               f.peak_is_of_file ? " at the peak" : " at the peak of the whole process", ", ",
               megabytes(f.before->now), " before loading\n");
  }
  return out;
}

std::string print_profile(const FileBenchmark& f, const Machine& m) {
  double total = 0;
  for (const ProfiledStep& p : f.profile) total += p.ms;
  std::vector<const ProfiledStep*> sorted;
  for (const ProfiledStep& p : f.profile) sorted.push_back(&p);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ProfiledStep* a, const ProfiledStep* b) { return a->ms > b->ms; });
  std::string out = cat("  profile: ", f.profile.size(), " kernel calls, ", fixed(total, 3),
                        " ms together, slowest first\n",
                        "       ms  share  M multiply-adds  GFLOP/s  of peak    GB/s  kernel\n");
  for (const ProfiledStep* p : sorted) {
    const double rate = gflops(p->multiply_adds, p->ms);
    out += cat(padded(fixed(p->ms, 3), 9), padded(fixed(percent(p->ms, total), 1), 6), "%",
               padded(fixed(static_cast<double>(p->multiply_adds) / 1e6, 1), 17),
               padded(fixed(rate, 1), 9), padded(fixed(percent(rate, m.fma_gflops), 1), 8), "%",
               padded(fixed(gb_per_s(p->bytes, p->ms), 1), 8), "  ", p->kernel,
               p->reference ? " (REFERENCE)" : "", "  ", printable(p->place), " ", p->type, "\n");
  }
  return out;
}

void write_json(const BenchmarkReport& report, JsonWriter& json) {
  const Machine& m = report.machine;
  json.begin_object();
  json.field("downhaul", m.downhaul);
  json.field("build", m.build);
  json.field("cpu", m.cpu);
  json.field("isa", m.isa);
  json.field("precision", m.precision);
  json.field("threads", m.threads);
  json.field("measured_fma_gflops", m.fma_gflops);
  json.field("measured_read_gb_per_s", m.read_gb_per_s);
  json.key("files").begin_array();
  for (const FileBenchmark& f : report.files) {
    const TimeSummary s = summarise(f.runs_ms);
    json.begin_object();
    json.field("file", f.file);
    json.field("name", file_name(f.file));
    json.field("inputs", f.inputs);
    json.field("outputs", f.outputs);
    json.field("coverage", f.coverage);
    json.field("kernel_calls", f.steps);
    json.key("reference_operators").begin_object();
    for (const auto& [op, count] : f.reference) json.field(op, count);
    json.end_object();
    json.field("load_ms", f.load_ms);
    json.field("prepare_ms", f.prepare_ms);
    json.field("first_run_ms", f.first_ms);
    json.field("median_ms", s.median);
    json.field("mean_ms", s.mean);
    json.field("min_ms", s.min);
    json.field("max_ms", s.max);
    json.field("p95_ms", s.p95);
    json.field("mad_ms", s.mad);
    json.field("waited_share", f.waited);
    json.field("disturbed", is_disturbed(f));
    json.field("multiply_adds", f.multiply_adds);
    json.field("bytes", f.bytes);
    json.field("gflops", gflops(f.multiply_adds, s.median));
    json.field("weight_bytes", f.weight_bytes);
    json.field("packed_bytes", f.packed_bytes);
    json.field("blocks_from_cache", f.blocks_from_cache);
    json.field("activation_bytes", f.arena_bytes);
    if (f.before && f.after) {
      json.field("resident_before_bytes", f.before->now);
      json.field("resident_steady_bytes", f.after->now);
      json.field("resident_mapped_file_bytes", f.after->mapped_files);
      json.field("resident_peak_bytes", f.after->peak);
      json.field("peak_is_of_file", f.peak_is_of_file);
    }
    json.key("outputs_to_f32").begin_array();
    for (const auto& [output, metrics] : f.to_f32) {
      json.begin_object();
      json.field("name", output);
      json.field("max_abs", metrics.max_abs);
      json.field("relative", metrics.relative);
      json.field("cosine", metrics.cosine);
      if (metrics.argmax) {
        json.field("argmax_rows", metrics.argmax->rows);
        json.field("argmax_equal", metrics.argmax->equal);
      }
      json.end_object();
    }
    json.end_array();
    json.field("runs_ms", f.runs_ms);
    json.key("profile").begin_array();
    for (const ProfiledStep& p : f.profile) {
      json.begin_object();
      json.field("kernel", p.kernel);
      json.field("place", p.place);
      json.field("type", p.type);
      json.field("ms", p.ms);
      json.field("multiply_adds", p.multiply_adds);
      json.field("bytes", p.bytes);
      json.field("reference", p.reference);
      json.end_object();
    }
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

std::string to_csv(const BenchmarkReport& report, bool profile) {
  const Machine& m = report.machine;
  std::string out;
  if (profile) {
    out = csv_line("file", "kernel", "place", "type", "ms", "multiply_adds", "bytes", "gflops",
                   "reference");
    for (const FileBenchmark& f : report.files) {
      for (const ProfiledStep& p : f.profile) {
        out += csv_line(f.file, p.kernel, p.place, p.type, p.ms, p.multiply_adds, p.bytes,
                        gflops(p.multiply_adds, p.ms), p.reference);
      }
    }
    return out;
  }
  out = csv_line("file", "cpu", "isa", "threads", "build", "load_ms", "prepare_ms", "first_run_ms",
                 "median_ms", "mean_ms", "min_ms", "max_ms", "p95_ms", "mad_ms", "multiply_adds",
                 "gflops", "measured_fma_gflops", "resident_steady_bytes", "resident_peak_bytes");
  for (const FileBenchmark& f : report.files) {
    const TimeSummary s = summarise(f.runs_ms);
    const ResidentMemory memory = f.after.value_or(ResidentMemory{});
    out += csv_line(f.file, m.cpu, m.isa, m.threads, m.build, f.load_ms, f.prepare_ms, f.first_ms,
                    s.median, s.mean, s.min, s.max, s.p95, s.mad, f.multiply_adds,
                    gflops(f.multiply_adds, s.median), m.fma_gflops, memory.now, memory.peak);
  }
  return out;
}

}  // namespace downhaul
