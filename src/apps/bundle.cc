#include "apps/bundle.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "apps/app_model.h"
#include "base/file.h"
#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/spec/spec.h"
#include "report/artifact.h"

namespace downhaul {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSums = "SHA256SUMS";
constexpr std::string_view kSpec = "model_spec.json";
constexpr std::string_view kLabels = "labels.json";

Status copy_file(const std::string& from, const std::string& to) {
  DH_ASSIGN(const auto source, MappedFile::open(from));
  DH_ASSIGN(OutputFile out, OutputFile::create(to));
  DH_TRY(out.copy_from(*source, 0, source->bytes().size()));
  return out.commit();
}

/// The spec with the paths of the bundle; what names files that stay behind is left out.
std::string bundled_spec(const ModelSpec& spec, const std::string& program, bool labels,
                         const std::vector<std::string>& tokenizer) {
  constexpr std::string_view kPaths[] = {
      "exported_program", "pt2",    "weights",      "checkpoint", "state_dict", "labels",
      "labels_path",      "sample", "sample_image", "tokenizer",  "pte"};
  JsonWriter json;
  json.begin_object();
  for (const auto& [key, value] : spec.document.members()) {
    const bool path = std::find(std::begin(kPaths), std::end(kPaths), key) != std::end(kPaths);
    if (!path) json.field(key, value);
  }
  json.field("pte", program);
  if (labels) json.field("labels", kLabels);
  if (!tokenizer.empty()) json.field("tokenizer", tokenizer.front());
  json.end_object();
  return json.take() + "\n";
}

/// The files of the spec's tokenizer, those that tokenizers are made of.
std::vector<std::string> tokenizer_files(const ModelSpec& spec) {
  std::vector<std::string> found;
  if (spec.tokenizer.found.empty()) return found;
  const fs::path at(spec.tokenizer.found);
  const fs::path folder = is_directory(at.string()) ? at : at.parent_path();
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json",
                           "merges.txt", "special_tokens_map.json"}) {
    const std::string path = (folder / name).string();
    if (file_exists(path)) found.push_back(path);
  }
  return found;
}

/// Program and spec against each other.
Status check_fit(const Artifact& artifact, const ModelSpec& spec, size_t num_labels) {
  const Graph& graph = *artifact.graph;
  for (size_t i = 0; i < spec.inputs.size() && !spec.inputs[i].shape.empty(); ++i) {
    const TensorSpec& stated = spec.inputs[i];
    if (i >= graph.inputs().size()) {
      return invalid_file(cat(kSpec, ": names ", spec.inputs.size(), " inputs, the program takes ",
                              graph.inputs().size()));
    }
    const Value& input = *graph.inputs()[i];
    bool fits = input.rank() == static_cast<int64_t>(stated.shape.size());
    for (int64_t d = 0; fits && d < input.rank(); ++d) {
      const int64_t size = stated.shape[static_cast<size_t>(d)];
      fits = input.dim(d).min() <= size && size <= input.dim(d).max();
    }
    if (!fits) {
      return invalid_file(cat(kSpec, ": input ", i, " is [", join(stated.shape, ","),
                              "], the program takes ", input.type().str()));
    }
  }
  if (num_labels == 0 || graph.outputs().empty()) return {};
  const Value& output = *graph.outputs()[0].value;
  const auto classes = output.rank() >= 2 ? output.dim(1).maybe_value() : std::nullopt;
  if ((output.rank() == 2 || output.rank() == 4) && classes.has_value() &&
      *classes != static_cast<int64_t>(num_labels)) {
    return invalid_file(
        cat(kLabels, ": ", num_labels, " labels, the program's output is ", output.type().str()));
  }
  return {};
}

}  // namespace

Result<std::string> sha256_of_file(const std::string& path) {
  DH_ASSIGN(const auto file, MappedFile::open(path));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  const Bytes bytes = file->bytes();
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    return io_error(cat("'", printable(path), "': SHA-256 is not available"));
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text.push_back(kDigits[digest[i] >> 4]);
    text.push_back(kDigits[digest[i] & 15]);
  }
  return text;
}

std::string assets_folder(const std::string& folder) {
  for (const char* sources : {"app/src/main", "src/main"}) {
    const fs::path at = fs::path(folder) / sources;
    if (is_directory(at.string())) return (at / "assets").string();
  }
  return folder;
}

Result<Bundle> write_bundle(const BundleOptions& options) {
  DH_ASSIGN(const Artifact source, load_artifact(options.program));
  if (source.kind != Artifact::Kind::kPte) {
    return invalid_file(cat("'", printable(options.program),
                            "': expected an ExecuTorch program (.pte); lower the model first"));
  }
  std::optional<ModelSpec> spec;
  if (options.spec.empty()) {
    DH_ASSIGN(spec, spec_beside(options.program));
    if (!spec.has_value()) {
      return not_found(
          cat("no ", kSpec, " beside '", printable(options.program), "'; name one with --spec"));
    }
  } else {
    DH_ASSIGN(spec, read_model_spec(options.spec));
  }
  std::string name =
      options.name.empty() ? fs::path(options.program).filename().string() : options.name;
  if (name.empty() || name.find('/') != std::string::npos || name == kSpec || name == kSums ||
      name == kLabels) {
    return invalid_argument(cat("--name '", printable(name), "': expected the name of a file"));
  }

  std::vector<std::pair<std::string, std::string>> copies = {{options.program, name}};
  size_t num_labels = 0;
  if (spec->labels.has_value()) {
    DH_ASSIGN(const std::string labels, require(*spec, spec->labels, "labels"));
    DH_ASSIGN(const auto read, read_labels(labels));
    num_labels = read.size();
    copies.emplace_back(labels, kLabels);
  }
  std::vector<std::string> tokenizer;
  for (const std::string& file : tokenizer_files(*spec)) {
    tokenizer.push_back(fs::path(file).filename().string());
    copies.emplace_back(file, tokenizer.back());
  }
  // Before anything is written, so that a bundle that cannot work leaves the app's old one alone.
  DH_TRY(check_fit(source, *spec, num_labels));

  Bundle bundle;
  bundle.folder = assets_folder(options.folder);
  DH_TRY(make_directories(bundle.folder));
  const auto path_of = [&](std::string_view file) {
    return (fs::path(bundle.folder) / file).string();
  };
  for (const auto& [from, to] : copies) {
    std::error_code same;
    if (fs::equivalent(from, path_of(to), same)) continue;  // bundled where it lies
    DH_TRY(copy_file(from, path_of(to)));
  }
  const std::string text = bundled_spec(*spec, name, num_labels > 0, tokenizer);
  DH_TRY(write_file(path_of(kSpec), as_bytes(text)));
  copies.emplace_back("", kSpec);

  std::string sums;
  for (const auto& [from, to] : copies) {
    DH_ASSIGN(const std::string sum, sha256_of_file(path_of(to)));
    if (!from.empty()) {
      DH_ASSIGN(const std::string original, sha256_of_file(from));
      if (original != sum) {
        return io_error(cat("'", printable(path_of(to)), "' differs from '", printable(from),
                            "' after copying"));
      }
    }
    DH_ASSIGN(const auto file, MappedFile::open(path_of(to)));
    bundle.files.push_back({to, file->bytes().size(), sum});
    sums += cat(sum, "  ", to, "\n");
  }
  DH_TRY(write_file(path_of(kSums), as_bytes(sums)));

  DH_ASSIGN(const Artifact copied, load_artifact(path_of(name)));
  DH_ASSIGN(const ModelSpec written, read_model_spec(path_of(kSpec)));
  DH_TRY(check_fit(copied, written, num_labels));
  return bundle;
}

}  // namespace downhaul
