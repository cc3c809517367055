#include <algorithm>

#include "base/strings.h"
#include "report/benchmark.h"

namespace downhaul {
namespace {

/// "Release", "2", … : a scalar as text, to compare and to show.
std::string text_of(const JsonValue* value) {
  if (value == nullptr) return "nothing";
  if (const std::string* s = value->as_string()) return *s;
  return to_json(*value, JsonWriter::Style::kCompact);
}

Result<std::vector<double>> series_of(const JsonValue& file) {
  const JsonValue* runs = file.find("runs_ms");
  std::vector<double> out;
  if (runs != nullptr) {
    for (const JsonValue& v : runs->elements()) {
      const auto ms = v.as_double();
      if (!ms || !(*ms > 0)) return invalid_file("runs_ms: expected positive numbers");
      out.push_back(*ms);
    }
  }
  if (out.size() < 3) return invalid_file("runs_ms: expected at least 3 times");
  return out;
}

Result<const JsonValue::Array*> files_of(const JsonValue& report) {
  const JsonValue* files = report.find("files");
  if (files == nullptr || files->as_array() == nullptr) {
    return invalid_file("expected what `downhaul bench --json` writes");
  }
  return files->as_array();
}

/// Says which of the two results is at fault.
template <typename T>
Result<T> in(std::string_view which, Result<T> result) {
  if (result.ok()) return result;
  return std::move(result).status().with_context(cat("the ", which, " result"));
}

}  // namespace

Result<std::vector<BenchmarkDifference>> compare_benchmarks(const JsonValue& old_report,
                                                            const JsonValue& new_report) {
  DH_ASSIGN(const JsonValue::Array* old_files, in("old", files_of(old_report)));
  DH_ASSIGN(const JsonValue::Array* new_files, in("new", files_of(new_report)));
  for (const char* key : {"cpu", "isa", "precision", "threads", "build"}) {
    const std::string before = text_of(old_report.find(key));
    const std::string after = text_of(new_report.find(key));
    if (before == after) continue;
    return invalid_file(
        cat("not comparable: ", key, " was ", printable(before), ", is ", printable(after)));
  }
  std::vector<BenchmarkDifference> out;
  for (const JsonValue& file : *new_files) {
    const std::string name = text_of(file.find("name"));
    const auto same = std::find_if(old_files->begin(), old_files->end(), [&](const JsonValue& f) {
      return text_of(f.find("name")) == name;
    });
    if (same == old_files->end()) continue;
    for (const char* key : {"inputs", "outputs"}) {
      if (text_of(same->find(key)) == text_of(file.find(key))) continue;
      return invalid_file(cat("not comparable: ", printable(name), " had the ", key, " ",
                              printable(text_of(same->find(key))), ", has ",
                              printable(text_of(file.find(key)))));
    }
    DH_ASSIGN(const std::vector<double> before, in("old", series_of(*same)));
    DH_ASSIGN(const std::vector<double> after, in("new", series_of(file)));
    out.push_back({name, median_of(before), median_of(after), estimate_ratio(before, after)});
  }
  if (out.empty()) {
    const auto names = [](const JsonValue::Array& files) {
      std::vector<std::string> list;
      for (const JsonValue& f : files) list.push_back(printable(text_of(f.find("name"))));
      return join(list, ", ");
    };
    return invalid_file(cat("not comparable: no file name is in both; the old result has ",
                            names(*old_files), ", the new one ", names(*new_files)));
  }
  return out;
}

std::string print(const std::vector<BenchmarkDifference>& differences) {
  std::string out;
  for (const BenchmarkDifference& d : differences) {
    out += cat(printable(d.file), ": ", fixed(d.old_ms, 3), " -> ", fixed(d.new_ms, 3),
               " ms (medians), ratio ", fixed(d.ratio.ratio, 3), ", with 95 % confidence in [",
               fixed(d.ratio.low, 3), ", ", fixed(d.ratio.high, 3), "]: ");
    if (!d.ratio.beyond_noise) {
      out += "no difference beyond the noise\n";
    } else {
      out += d.ratio.ratio < 1 ? "FASTER\n" : "SLOWER\n";
    }
  }
  return out;
}

void write_json(const std::vector<BenchmarkDifference>& differences, JsonWriter& json) {
  json.begin_object();
  json.key("files").begin_array();
  for (const BenchmarkDifference& d : differences) {
    json.begin_object();
    json.field("name", d.file);
    json.field("old_median_ms", d.old_ms);
    json.field("new_median_ms", d.new_ms);
    json.field("ratio", d.ratio.ratio);
    json.field("ratio_low", d.ratio.low);
    json.field("ratio_high", d.ratio.high);
    json.field("beyond_noise", d.ratio.beyond_noise);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

}  // namespace downhaul
