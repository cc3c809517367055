#pragma once

#include <memory>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "formats/mlpackage/mil.h"
#include "formats/mlpackage/weights.h"

/// Core ML packages (`.mlpackage` folders) that hold a program. Layout: README.md in this folder.
namespace downhaul::mil {

struct Package {
  Model model;
  std::shared_ptr<const WeightFile> weights;  ///< null when the package has none
  uint64_t model_bytes = 0;                   ///< size of the model file
  uint64_t weight_bytes = 0;                  ///< size of the weight file
};

/// Reads a package and checks what does not depend on the operations' meaning: types, sizes of
/// values, blobs inside the weight file and of their declared types, names defined once and before
/// their use, outputs that exist.
/// Errors: kNotFound, kIo; kInvalidFile naming file, place, what was expected and found;
/// kUnsupported for models that are no program (neural networks, pipelines, …).
Result<Package> read_mlpackage(const std::string& path);

/// The checks of read_mlpackage on a model and its weights. Errors: kInvalidFile.
Status check_package(const Package& package);

/// Elements of a value, immediate or in the weight file: little-endian, row-major, dense.
/// Errors: kInvalidFile for strings, lists and blobs that do not fit.
Result<Bytes> value_bytes(const Package& package, const Value& value);

/// Writes a package; an old one at `path` stays until the new one is whole. Equal models and
/// weights give equal bytes. Errors: those of writing.
Status write_mlpackage(const std::string& path, const Model& model, const WeightWriter& weights);

/// How blobs name the weight file.
inline constexpr std::string_view kWeightFile = "@model_path/weights/weight.bin";

/// The model file's bytes, and back. For tests and tools.
std::string encode_model(const Model& model);
Result<Model> decode_model(Bytes bytes);

}  // namespace downhaul::mil
