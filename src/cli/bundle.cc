#include "apps/bundle.h"

#include <cstdio>

#include "base/strings.h"
#include "cli/verbs.h"
#include "formats/json/json.h"

namespace downhaul {
namespace {

class BundleVerb final : public Verb {
 public:
  std::string_view name() const override { return "bundle"; }
  std::string_view summary() const override { return "Hand a lowered model over to an app"; }
  std::string_view details() const override {
    return "Writes the program, model_spec.json, labels.json, tokenizer files and SHA256SUMS, and\n"
           "reads them back.\n"
           "Example:\n"
           "  downhaul bundle artifacts/lraspp_xnnpack.pte --android MyApp --name model.pte";
  }
  void declare(Options& o) override {
    o.positional(&options_.program, "FILE", "a .pte file");
    o.text(&options_.folder, "--android", "DIR",
           "an Android project (its app/src/main/assets is used), a module (src/main/assets), or "
           "the folder of assets itself");
    o.text(&options_.spec, "--spec", "FILE",
           "the model's model_spec.json (default: the one beside FILE)");
    o.text(&options_.name, "--name", "NAME", "the program's name in the app (default: its own)");
    o.flag(&json_, "--json", "print JSON");
  }
  Result<int> run() override {
    if (options_.program.empty() || options_.folder.empty()) {
      return invalid_argument("bundle: give FILE and --android DIR");
    }
    DH_ASSIGN(const Bundle bundle, write_bundle(options_));
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("folder", bundle.folder);
      json.key("files").begin_array();
      for (const BundledFile& f : bundle.files) {
        json.begin_object();
        json.field("name", f.name);
        json.field("bytes", f.bytes);
        json.field("sha256", f.sha256);
        json.end_object();
      }
      json.end_array();
      json.end_object();
      std::printf("%s\n", json.take().c_str());
      return kExitDone;
    }
    for (const BundledFile& f : bundle.files) {
      std::printf("wrote %s/%s  %s MB\n", printable(bundle.folder).c_str(),
                  printable(f.name).c_str(), fixed(static_cast<double>(f.bytes) / 1e6, 2).c_str());
    }
    std::printf("wrote %s/SHA256SUMS\nread back: checksums, program and spec agree\n",
                printable(bundle.folder).c_str());
    return kExitDone;
  }

 private:
  BundleOptions options_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_bundle() { return std::make_unique<BundleVerb>(); }

}  // namespace downhaul
