#include "formats/mlpackage/package.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/hash.h"
#include "base/strings.h"
#include "formats/json/json.h"

namespace downhaul::mil {
namespace {

constexpr std::string_view kManifest = "Manifest.json";
constexpr std::string_view kAuthor = "com.apple.CoreML";
constexpr std::string_view kModelPath = "com.apple.CoreML/model.mlmodel";
constexpr std::string_view kWeightsPath = "com.apple.CoreML/weights";

struct Item {
  std::string id, path, name, author, description;
};

Result<std::vector<Item>> read_manifest(const std::string& folder, std::string& root) {
  DH_ASSIGN(const std::string text, read_text_file(cat(folder, "/", kManifest), 1u << 20));
  DH_ASSIGN(const JsonValue manifest, JsonValue::parse(text));
  const JsonValue* version = manifest.find("fileFormatVersion");
  if (version == nullptr || version->as_string() == nullptr ||
      !version->as_string()->starts_with("1.")) {
    return invalid_file("fileFormatVersion: expected \"1.…\"");
  }
  const JsonValue* identifier = manifest.find("rootModelIdentifier");
  const JsonValue* entries = manifest.find("itemInfoEntries");
  if (identifier == nullptr || identifier->as_string() == nullptr || entries == nullptr ||
      !entries->is_object()) {
    return invalid_file("expected rootModelIdentifier and itemInfoEntries");
  }
  root = *identifier->as_string();
  std::vector<Item> items;
  for (const auto& [id, entry] : entries->members()) {
    const JsonValue* path = entry.is_object() ? entry.find("path") : nullptr;
    if (path == nullptr || path->as_string() == nullptr) {
      return invalid_file(cat("item '", printable(id, 60), "' has no path"));
    }
    items.push_back({id, *path->as_string(), "", "", ""});
  }
  return items;
}

/// The place of an item in the package. Errors: kInvalidFile for paths that leave the package, by
/// their text or by links.
Result<std::string> place_of(const std::string& folder, const std::string& item) {
  const std::filesystem::path relative(item);
  bool leaves = item.empty() || relative.is_absolute() || item.find('\0') != std::string::npos;
  for (const auto& part : relative) leaves = leaves || part == "..";
  if (leaves) return invalid_file(cat("item path '", printable(item), "' leaves the package"));
  std::error_code error;
  const auto inside = std::filesystem::canonical(cat(folder, "/Data"), error);
  if (error) return invalid_file("there is no folder Data");
  const auto place = std::filesystem::canonical(inside / relative, error);
  if (error) return invalid_file(cat("item '", printable(item), "' does not exist"));
  const auto end = std::mismatch(inside.begin(), inside.end(), place.begin(), place.end()).first;
  if (end != inside.end()) {
    return invalid_file(cat("item '", printable(item), "' is a link that leaves the package"));
  }
  return place.string();
}

/// Names and blobs of one function.
class Checker {
 public:
  explicit Checker(const Package& package) : package_(package) {}

  Status check(const Function& function) {
    for (const NamedType& i : function.inputs) DH_TRY(define(i.name));
    return check(function.block);
  }

 private:
  Status define(const std::string& name) {
    if (name.empty()) return invalid_file("a value without a name");
    if (!defined_.insert(name).second) {
      return invalid_file(cat("'", printable(name), "' is defined twice"));
    }
    return {};
  }
  Status check(const Value& value) const {
    if (std::holds_alternative<BlobRef>(value.content)) {
      return value_bytes(package_, value).status();
    }
    if (const auto* parts = std::get_if<std::vector<Value>>(&value.content)) {
      for (const Value& p : *parts) DH_TRY(check(p));
    }
    return {};
  }
  Status check_operation(const Operation& o) {
    if (o.type == "const") {
      const Value* val = o.attribute("val");
      if (val == nullptr || o.outputs.size() != 1 || !o.inputs.empty()) {
        return invalid_file("expected a value, one output and no inputs");
      }
      if (!(val->type == o.outputs[0].type)) {
        return invalid_file("the output is declared with another type than the value");
      }
    }
    for (const auto& [name, value] : o.attributes) DH_TRY(check(value));
    for (const Argument& a : o.inputs) {
      for (const Binding& b : a.bindings) {
        if (const auto* value = std::get_if<Value>(&b)) {
          DH_TRY(check(*value));
        } else if (!defined_.contains(std::get<std::string>(b))) {
          return invalid_file(cat("input ", printable(a.name), ": '",
                                  printable(std::get<std::string>(b)),
                                  "' is not defined before its use"));
        }
      }
    }
    for (const Block& b : o.blocks) {
      for (const NamedType& i : b.inputs) DH_TRY(define(i.name));
      DH_TRY(check(b));
    }
    for (const NamedType& out : o.outputs) DH_TRY(define(out.name));
    return {};
  }
  Status check(const Block& block) {
    for (size_t i = 0; i < block.operations.size(); ++i) {
      const Operation& o = block.operations[i];
      Status status = check_operation(o);
      if (!status.ok()) {
        const std::string name = o.outputs.empty() ? std::string() : o.outputs[0].name;
        return std::move(status).with_context(
            cat("operation ", i, " (", printable(o.type, 60), " '", printable(name, 60), "')"));
      }
    }
    for (const std::string& name : block.outputs) {
      if (!defined_.contains(name)) {
        return invalid_file(cat("output '", printable(name), "' is not defined"));
      }
    }
    return {};
  }

  const Package& package_;
  std::set<std::string> defined_;
};

Result<Package> read(const std::string& folder) {
  std::string root;
  auto listed = read_manifest(folder, root);
  if (!listed.ok()) return std::move(listed).status().with_context(kManifest);
  const std::vector<Item> items = *std::move(listed);
  Package out;
  const auto model =
      std::find_if(items.begin(), items.end(), [&](const Item& i) { return i.id == root; });
  if (model == items.end()) return invalid_file("the manifest does not list its root model");
  DH_ASSIGN(const std::string model_path, place_of(folder, model->path));
  DH_ASSIGN(const auto file, MappedFile::open(model_path));
  out.model_bytes = file->bytes().size();
  DH_ASSIGN(out.model, decode_model(file->bytes()));
  for (const Item& item : items) {
    if (item.id == root) continue;
    DH_ASSIGN(const std::string place, place_of(folder, item.path));
    if (item.path != kWeightsPath) continue;
    DH_ASSIGN(const std::string path, place_of(folder, item.path + "/weight.bin"));
    DH_ASSIGN(out.weights, WeightFile::open(path));
    out.weight_bytes = out.weights->file()->bytes().size();
  }
  DH_TRY(check_package(out));
  return out;
}

/// Any string that is unique in the manifest will do; one that comes from the content keeps the
/// bytes the same from run to run. Spelled as such identifiers usually are.
std::string identifier(uint64_t high, uint64_t low) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) out.push_back('-');
    out.push_back(kDigits[(i < 16 ? high >> (60 - 4 * i) : low >> (124 - 4 * i)) & 15]);
  }
  return out;
}

std::string manifest(const std::string& model, bool weights) {
  const uint64_t seed = hash_text(model);
  std::vector<Item> items = {{identifier(hash_text("model", seed), seed), std::string(kModelPath),
                              "model.mlmodel", std::string(kAuthor), "CoreML Model Specification"}};
  if (weights) {
    items.push_back({identifier(hash_text("weights", seed), seed), std::string(kWeightsPath),
                     "weights", std::string(kAuthor), "CoreML Model Weights"});
  }
  JsonWriter json;
  json.begin_object();
  json.field("fileFormatVersion", "1.0.0");
  json.key("itemInfoEntries").begin_object();
  for (const Item& i : items) {
    json.key(i.id).begin_object();
    json.field("author", i.author);
    json.field("description", i.description);
    json.field("name", i.name);
    json.field("path", i.path);
    json.end_object();
  }
  json.end_object();
  json.field("rootModelIdentifier", items[0].id);
  json.end_object();
  return json.take();
}

}  // namespace

Status check_package(const Package& package) {
  for (const Function& f : package.model.program) {
    Status status = Checker(package).check(f);
    if (!status.ok()) {
      return std::move(status).with_context(cat("function '", printable(f.name), "'"));
    }
  }
  return {};
}

Result<Bytes> value_bytes(const Package& package, const Value& value) {
  if (value.type.kind != Type::Kind::kTensor || bits_of(value.type.dtype) == 0) {
    return invalid_file("expected a tensor of numbers");
  }
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&value.content)) return Bytes(*bytes);
  const auto* ref = std::get_if<BlobRef>(&value.content);
  if (ref == nullptr) return invalid_file("expected a tensor of numbers");
  if (ref->file != kWeightFile) {
    return invalid_file(
        cat("weights in '", printable(ref->file), "', expected '", kWeightFile, "'"));
  }
  if (package.weights == nullptr) return invalid_file("the package has no weight file");
  DH_ASSIGN(const Blob blob, package.weights->blob(ref->offset));
  if (blob.dtype != value.type.dtype) {
    return invalid_file(cat("blob at ", ref->offset, " holds ", dtype_name(blob.dtype), ", ",
                            dtype_name(value.type.dtype), " is declared"));
  }
  int64_t elements = 1;
  for (const auto& size : value.type.shape) {
    if (!size) return invalid_file("a value of unknown size");
    const auto product = checked_mul(elements, *size);
    if (!product || *product > INT64_MAX / 64) {
      return invalid_file("a value of more elements than any file has");
    }
    elements = *product;
  }
  const uint64_t expected = bytes_of(value.type.dtype, static_cast<uint64_t>(elements));
  if (blob.bytes.size() != expected) {
    return invalid_file(cat("blob at ", ref->offset, " has ", blob.bytes.size(),
                            " bytes, its declared type ", expected));
  }
  return blob.bytes;
}

Result<Package> read_mlpackage(const std::string& path) {
  auto package = read(path);
  if (!package.ok()) {
    return std::move(package).status().with_context(cat("'", printable(path), "'"));
  }
  return package;
}

Status write_mlpackage(const std::string& path, const Model& model, const WeightWriter& weights) {
  const std::string encoded = encode_model(model);
  std::vector<std::string> folders = {"Data", "Data/com.apple.CoreML"};
  if (!weights.empty()) folders.emplace_back("Data/com.apple.CoreML/weights");
  DH_ASSIGN(OutputFolder out, OutputFolder::create(path, folders));
  std::optional<OutputFile> blobs;
  if (!weights.empty()) {
    DH_ASSIGN(OutputFile file,
              OutputFile::create(out.file("Data/com.apple.CoreML/weights/weight.bin")));
    DH_TRY(weights.write(file));
    blobs.emplace(std::move(file));
  }
  DH_ASSIGN(OutputFile spec, OutputFile::create(out.file("Data/com.apple.CoreML/model.mlmodel")));
  DH_TRY(spec.write(as_bytes(encoded)));
  const std::string listed = manifest(encoded, !weights.empty());
  DH_ASSIGN(OutputFile list, OutputFile::create(out.file(std::string(kManifest))));
  DH_TRY(list.write(as_bytes(listed)));
  // All is written; only names are given from here on.
  if (blobs) DH_TRY(blobs->commit());
  DH_TRY(spec.commit());
  DH_TRY(list.commit());
  return out.commit();
}

}  // namespace downhaul::mil
