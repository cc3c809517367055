#pragma once

#include <string>
#include <vector>

#include "base/status.h"

/// What an app needs of a model, in one folder: the program, its spec and labels, and the checksums
/// that tell a whole copy from a damaged one.
namespace downhaul {

struct BundleOptions {
  std::string program;  ///< a .pte
  std::string spec;     ///< model_spec.json; "" means the one beside the program
  std::string folder;   ///< an Android project, one of its modules, or the folder of assets itself
  std::string name;     ///< of the program there; "" keeps its own
};

struct BundledFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;  ///< 64 hexadecimal digits
};
struct Bundle {
  std::string folder;  ///< where the files lie
  std::vector<BundledFile> files;
};

/// The assets folder of `folder`: app/src/main/assets or src/main/assets where the sources of an
/// app or a module lie there, else `folder` itself.
std::string assets_folder(const std::string& folder);

/// Copies the program, labels.json (where the spec names labels), tokenizer files (where the spec's
/// folder has them) and model_spec.json, whose paths then name the copies; the spec's other keys
/// stay as they are. Last comes SHA256SUMS, which `sha256sum -c` reads. Then reads everything back:
/// the checksums, that the program loads, that its inputs have the shapes and types that the spec
/// states, and that there is a label for each class.
/// Errors: as the readers; kInvalidFile where program and spec do not fit.
Result<Bundle> write_bundle(const BundleOptions& options);

/// SHA-256 as 64 hexadecimal digits. Errors: as MappedFile::open.
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace downhaul
