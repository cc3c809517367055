// Runs a model on inputs of zeros and says what came out:
//
//     run_model model.pt2 [threads]
#include <downhaul/engine.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace downhaul::api;

namespace {

int fail(const Status& status) {
  std::fprintf(stderr, "run_model: %s\n", status.message().c_str());
  return 1;
}

void print(const char* kind, const TensorInfo& info) {
  std::printf("%s %s: %.*s [", kind, info.name.c_str(), static_cast<int>(name(info.dtype).size()),
              name(info.dtype).data());
  for (size_t d = 0; d < info.shape.size(); ++d) {
    std::printf("%s%s", d > 0 ? ", " : "", info.shape[d].text.c_str());
  }
  std::printf("]\n");
}

size_t num_bytes(std::span<const int64_t> sizes, DType dtype) {
  size_t bytes = item_size(dtype);
  for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: run_model FILE [threads]\n");
    return 2;
  }
  const auto model = Model::load(argv[1]);
  if (!model.ok()) return fail(model.status());
  for (const TensorInfo& info : model->inputs()) print("input", info);
  for (const TensorInfo& info : model->outputs()) print("output", info);

  // The caller owns all memory: inputs at the smallest sizes the model takes, here all zeros.
  std::vector<std::vector<int64_t>> sizes;
  std::vector<std::vector<std::byte>> memory;
  std::vector<Input> inputs;
  for (const TensorInfo& info : model->inputs()) {
    auto& of_input = sizes.emplace_back();
    for (const Dim& dim : info.shape) of_input.push_back(dim.min);
    memory.emplace_back(num_bytes(of_input, info.dtype));
  }
  for (size_t i = 0; i < model->inputs().size(); ++i) {
    const TensorInfo& info = model->inputs()[i];
    inputs.push_back(
        {.name = info.name, .data = memory[i].data(), .dtype = info.dtype, .sizes = sizes[i]});
  }

  auto session = model->new_session({.num_threads = argc > 2 ? std::atoi(argv[2]) : 1});
  if (!session.ok()) return fail(session.status());
  if (const Status status = session->reshape(inputs); !status.ok()) return fail(status);

  // Now the sizes of the outputs are known.
  std::vector<std::vector<std::byte>> results;
  std::vector<Output> outputs;
  for (size_t i = 0; i < model->outputs().size(); ++i) {
    results.emplace_back(num_bytes(session->output_sizes(i), model->outputs()[i].dtype));
  }
  for (auto& result : results) outputs.push_back({.data = result.data(), .bytes = result.size()});

  for (int run = 0; run < 3; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    if (const Status status = session->run(inputs, outputs); !status.ok()) return fail(status);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    std::printf("run %d: %.2f ms\n", run, ms.count());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (model->outputs()[i].dtype != DType::kF32) continue;
    const auto* values = reinterpret_cast<const float*>(results[i].data());
    std::printf("%s begins with", model->outputs()[i].name.c_str());
    for (size_t k = 0; k < 4 && k < results[i].size() / sizeof(float); ++k) {
      std::printf(" %g", values[k]);
    }
    std::printf("\n");
  }
  return 0;
}
