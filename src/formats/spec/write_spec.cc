#include <algorithm>

#include "formats/spec/spec.h"

namespace downhaul {
namespace {

// Every spelling that the known members replace.
constexpr std::string_view kKnownKeys[] = {
    "name",   "model",       "model_id", "task",         "seq_len",
    "batch",  "pt2",         "weights",  "checkpoint",   "state_dict",
    "labels", "labels_path", "sample",   "sample_image", "tokenizer",
    "input",  "inputs",      "output",   "outputs",      "exported_program",
};

void write_extent(JsonWriter& out, std::string_view key, int64_t height, int64_t width,
                  bool one_number) {
  out.key(key);
  if (one_number) {
    out.value(height);
  } else {
    out.value(std::vector<int64_t>{height, width});
  }
}

void write_three(JsonWriter& out, std::string_view key,
                 const std::optional<std::array<double, 3>>& v) {
  if (v) out.field(key, std::vector<double>(v->begin(), v->end()));
}

void write_preprocessing(JsonWriter& out, const Preprocessing& p) {
  const bool any = p.resize || p.center_crop || p.letterbox || p.mean || p.std ||
                   !p.interpolation.empty() || !p.other.empty();
  if (!any) return;
  out.key("preprocessing").begin_object();
  if (p.resize) {
    write_extent(out, "resize", p.resize->height, p.resize->width, p.resize->shorter_side);
  }
  if (p.center_crop) {
    write_extent(out, "center_crop", (*p.center_crop)[0], (*p.center_crop)[1],
                 (*p.center_crop)[0] == (*p.center_crop)[1]);
  }
  if (p.letterbox) out.field("letterbox", true);
  write_three(out, "mean", p.mean);
  write_three(out, "std", p.std);
  if (!p.interpolation.empty()) out.field("interpolation", p.interpolation);
  for (const auto& [key, value] : p.other) out.field(key, value);
  out.end_object();
}

void write_tensors(JsonWriter& out, std::string_view key, const std::vector<TensorSpec>& specs) {
  if (specs.empty()) return;
  out.key(key).begin_array();
  for (const TensorSpec& spec : specs) {
    out.begin_object();
    if (!spec.name.empty()) out.field("name", spec.name);
    if (!spec.shape.empty()) out.field("shape", spec.shape);
    if (!spec.dtype.empty()) out.field("dtype", spec.dtype);
    if (!spec.layout.empty()) out.field("layout", spec.layout);
    write_preprocessing(out, spec.preprocessing);
    for (const auto& [name, value] : spec.other) out.field(name, value);
    out.end_object();
  }
  out.end_array();
}

}  // namespace

std::string write_model_spec(const ModelSpec& spec) {
  JsonWriter out;
  out.begin_object();
  out.field("name", spec.name);
  if (!spec.model_id.empty()) out.field("model_id", spec.model_id);
  if (!spec.task.empty()) out.field("task", spec.task);
  if (spec.seq_len) out.field("seq_len", *spec.seq_len);
  if (spec.batch) out.field("batch", *spec.batch);
  const auto write_path = [&](std::string_view key, const std::optional<SpecPath>& path) {
    if (path && !path->written.empty()) out.field(key, path->written);
  };
  write_path("exported_program", spec.exported_program);
  write_path("weights", spec.weights);
  write_path("labels", spec.labels);
  write_path("sample", spec.sample);
  write_path("tokenizer", spec.tokenizer);
  write_tensors(out, "inputs", spec.inputs);
  write_tensors(out, "outputs", spec.outputs);
  for (const auto& [key, value] : spec.document.members()) {
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), key) == std::end(kKnownKeys)) {
      out.field(key, value);
    }
  }
  out.end_object();
  return out.take();
}

}  // namespace downhaul
