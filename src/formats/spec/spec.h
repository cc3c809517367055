#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/json/json.h"

/// `model_spec.json`: what a model's files are and how its inputs are made. Keys: README.md in this
/// folder.
namespace downhaul {

struct Preprocessing {
  /// Height and width after resizing; for one number, the length of the shorter side.
  struct Resize {
    int64_t height = 0;
    int64_t width = 0;
    bool shorter_side = false;
  };
  std::optional<Resize> resize;
  std::optional<std::array<int64_t, 2>> center_crop;  ///< height, width
  bool letterbox = false;
  std::optional<std::array<double, 3>> mean;
  std::optional<std::array<double, 3>> std;
  std::string interpolation;  ///< "" when not stated
  JsonValue::Object other;    ///< keys that are not known here
};

struct TensorSpec {
  std::string name;            ///< "" when not stated
  std::vector<int64_t> shape;  ///< empty when not stated
  std::string dtype;           ///< as written ("float32"); "" when not stated
  std::string layout;          ///< "nchw" …; "" when not stated
  Preprocessing preprocessing;
  JsonValue::Object other;  ///< keys that are not known here
};

/// A path in a spec: as written, and where the file was found.
struct SpecPath {
  std::string written;
  std::string found;  ///< "" when it does not exist; error() says where it was looked for
  std::string error;  ///< kNotFound message naming both places, when `found` is empty
};

struct ModelSpec {
  std::string path;    ///< of the spec itself
  std::string folder;  ///< the spec's own; default output folder
  std::string name;    ///< base of output names
  std::string model_id;
  std::string task;  ///< "fill-mask", …; "" when neither stated nor clear
  std::optional<int64_t> seq_len;
  std::optional<int64_t> batch;
  std::optional<SpecPath> exported_program;
  std::optional<SpecPath> weights;
  std::optional<SpecPath> labels;
  std::optional<SpecPath> sample;
  SpecPath tokenizer;  ///< the spec's folder unless stated
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  /// The whole document, for keys that are not known here and for rewriting.
  JsonValue document;
};

/// Errors: kNotFound, kIo; kInvalidFile naming the key, what was expected and what was found.
/// Files that the spec names need not exist; see require().
Result<ModelSpec> read_model_spec(const std::string& path);
/// `text` as if read from `path`.
Result<ModelSpec> parse_model_spec(std::string_view text, const std::string& path);

/// The found path, or the error of a spec that lacks the key or names a missing file.
Result<std::string> require(const ModelSpec& spec, const std::optional<SpecPath>& entry,
                            std::string_view key);

/// The labels file in class-id order: a JSON list, or an object id -> label without holes.
Result<std::vector<std::string>> read_labels(const std::string& path);

/// The spec in the first spelling of each key, with the unknown keys of the document behind.
std::string write_model_spec(const ModelSpec& spec);

}  // namespace downhaul
