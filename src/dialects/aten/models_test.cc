// Imports every model under the folder that DOWNHAUL_MODELS names and compares its outputs with the
// stored ones: FOLDER/*/{model.pt2, inputs.safetensors, expected.safetensors, model_spec.json}.
// Skipped when the variable is not set.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/strings.h"
#include "dialects/aten/aten.h"
#include "formats/json/json.h"
#include "formats/safetensors/safetensors.h"
#include "ir/verify.h"
#include "ops/evaluate.h"

namespace downhaul::aten {
namespace {

namespace fs = std::filesystem;

Tensor tensor_of(const safetensors::File& file, const safetensors::TensorInfo& info) {
  std::string dtype(safetensors::name(info.dtype));
  std::transform(dtype.begin(), dtype.end(), dtype.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::optional<DType> d = parse_dtype(dtype);
  DH_CHECK(d.has_value());
  return Tensor(*d, info.shape, Storage::map(file.mapped(), info.offset, info.size), 0);
}

// Names of the inputs or outputs in order, from the spec beside the model.
std::vector<std::string> spec_names(const fs::path& folder, const char* key) {
  std::vector<std::string> names;
  const auto text = read_text_file((folder / "model_spec.json").string());
  if (!text.ok()) return names;
  const auto spec = JsonValue::parse(*text);
  if (!spec.ok()) return names;
  const JsonValue* list = spec->find(key);
  if (list == nullptr) return names;
  for (const JsonValue& o : list->elements()) {
    if (const JsonValue* name = o.find("name")) names.push_back(*name->as_string());
  }
  return names;
}

void check_model(const fs::path& folder) {
  SCOPED_TRACE(folder.filename().string());
  const auto start = std::chrono::steady_clock::now();
  const auto archive = pt2::read_pt2((folder / "model.pt2").string());
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  const auto model = archive->model();
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto read = std::chrono::steady_clock::now();
  const auto imported = import_program(*archive, **model);
  const auto end = std::chrono::steady_clock::now();
  ASSERT_TRUE(imported.ok()) << imported.status().message();
  const Graph& graph = *imported->graph;
  const Status verified = verify(graph);
  ASSERT_TRUE(verified.ok()) << verified.message();

  const auto inputs = safetensors::read((folder / "inputs.safetensors").string());
  ASSERT_TRUE(inputs.ok()) << inputs.status().message();
  std::vector<Tensor> operands;
  const std::vector<std::string> input_names = spec_names(folder, "inputs");
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value* input = graph.inputs()[i];
    const safetensors::TensorInfo* info = inputs->find(input->name());
    if (info == nullptr && i < input_names.size()) info = inputs->find(input_names[i]);
    ASSERT_NE(info, nullptr) << "no input " << input->name();
    operands.push_back(tensor_of(*inputs, *info));
  }
  const auto results = evaluate(graph, operands);
  ASSERT_TRUE(results.ok()) << results.status().message();
  const auto expected = safetensors::read((folder / "expected.safetensors").string());
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const std::vector<std::string> names = spec_names(folder, "outputs");
  double worst = 0;
  for (size_t i = 0; i < results->size(); ++i) {
    const std::string& own = graph.outputs()[i].name;
    const safetensors::TensorInfo* info = expected->find(own);
    if (info == nullptr && i < names.size()) info = expected->find(names[i]);
    ASSERT_NE(info, nullptr) << "no expected output for " << own;
    const Tensor want = tensor_of(*expected, *info);
    const Tensor& found = (*results)[i];
    ASSERT_EQ(describe(found), describe(want)) << own;
    for (int64_t n = 0; n < want.num_elements(); ++n) {
      const double a = found.at(n);
      const double b = want.at(n);
      if (std::isnan(a) && std::isnan(b)) continue;
      const double error = a == b ? 0 : std::abs(a - b);
      worst = std::max(worst, error);
      ASSERT_LE(error, 1e-4 * std::max(1.0, std::abs(b)))
          << own << " element " << n << ": " << a << ", expected " << b;
    }
  }
  const auto ms = [](auto a, auto b) {
    return std::chrono::duration<double, std::milli>(b - a).count();
  };
  std::printf("%-36s %4zu nodes of %4lld  archive %7.2f ms  import %7.2f ms  max error %.2g\n",
              folder.filename().c_str(), graph.nodes().size(),
              static_cast<long long>(imported->num_source_nodes), ms(start, read), ms(read, end),
              worst);
}

TEST(Models, GiveTheStoredOutputs) {
  const char* root = std::getenv("DOWNHAUL_MODELS");
  if (root == nullptr)
    GTEST_SKIP()
        << "DOWNHAUL_MODELS is not set; tests/peers/test_import.py exports models and sets it";
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / "model.pt2")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  ASSERT_FALSE(folders.empty());
  const char* only = std::getenv("DOWNHAUL_MODEL");
  for (const fs::path& folder : folders) {
    if (only == nullptr || folder.filename() == only) check_model(folder);
  }
}

}  // namespace
}  // namespace downhaul::aten
