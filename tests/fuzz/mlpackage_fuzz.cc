// Reads bytes as the model file and the weight file of a Core ML package, and raises the program.
// The first eight bytes are the model file's length.
#include <cstring>

#include "dialects/mil/raise.h"
#include "fuzz_lower.h"
#include "fuzz_target.h"
#include "targets/coreml/coreml.h"

namespace downhaul {
namespace {

std::vector<uint8_t> package_bytes(const std::string& path, bool neural_engine,
                                   coreml::Compression compression) {
  auto loaded = fuzz::load_bytes(fuzz::read_bytes(path));
  DH_CHECK(loaded.ok());
  DH_CHECK(run_pipeline(*loaded->graph, canonical_passes(), {}, nullptr, nullptr).ok());
  CoreMlOptions options;
  options.neural_engine = neural_engine;
  options.emit.compression = compression;
  if (compression != coreml::Compression::kNone) options.emit.target.ios = 16;
  auto lowered = lower_coreml(*loaded->graph, options);
  if (!lowered.ok()) return {};
  const std::string model = mil::encode_model(lowered->program.model);
  const std::string file = cat("/tmp/downhaul-fuzz-", ::getpid(), ".bin");
  auto out = OutputFile::create(file);
  DH_CHECK(out.ok() && lowered->program.weights.write(*out).ok() && out->commit().ok());
  const std::vector<uint8_t> weights = fuzz::read_bytes(file);
  ::unlink(file.c_str());
  std::vector<uint8_t> bytes(sizeof(uint64_t));
  const uint64_t length = model.size();
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes.insert(bytes.end(), model.begin(), model.end());
  bytes.insert(bytes.end(), weights.begin(), weights.end());
  return bytes;
}

}  // namespace

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string& path : fuzz::lowerable()) {
    for (const bool neural_engine : {false, true}) {
      for (const auto compression : {coreml::Compression::kNone, coreml::Compression::kInt8,
                                     coreml::Compression::kPalette6}) {
        std::vector<uint8_t> bytes = package_bytes(path, neural_engine, compression);
        if (!bytes.empty()) seeds.push_back(std::move(bytes));
      }
    }
  }
  DH_CHECK(seeds.size() > 6);
  return seeds;
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downhaul;
  uint64_t length = 0;
  if (size < sizeof(length)) return 0;
  std::memcpy(&length, data, sizeof(length));
  const Bytes rest(data + sizeof(length), size - sizeof(length));
  length = std::min<uint64_t>(length, rest.size());
  auto model = mil::decode_model(rest.first(length));
  if (!model.ok()) {
    check_message(model.status());
    return 0;
  }
  mil::Package package;
  package.model = *std::move(model);
  const auto weights = map_bytes(rest.subspan(length));
  auto file = mil::WeightFile::open(cat("/proc/self/fd/", weights->fd()));
  if (file.ok()) package.weights = *std::move(file);
  Status status = mil::check_package(package);
  if (!status.ok()) {
    check_message(status);
    return 0;
  }
  const auto graph = coreml::raise_program(package);
  if (!graph.ok()) {
    check_message(graph.status());
    return 0;
  }
  DH_CHECK(verify(**graph).ok());
  return 0;
}
