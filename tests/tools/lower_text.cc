// lower_text FILE.dh FOLDER [--portable]
//
// For each graph NAME of the file FOLDER/NAME gets model.pte, model_spec.json with the names of its
// inputs and outputs, inputs.safetensors and expected.safetensors (from the reference kernels), and
// cases/K/ with such a pair for each further sample of its dynamic sizes. With --portable the graph
// is legalized first.
//
// lower_text --random N FOLDER: the same for N random graphs.
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "formats/json/json.h"
#include "formats/safetensors/safetensors.h"
#include "ops/evaluate.h"
#include "targets/executorch/emit.h"
#include "targets/portable/portable.h"
#include "tests/tools/graph_file.h"
#include "tests/tools/random_graph.h"

namespace downhaul {
namespace {

constexpr const char* kInput = "input_";
constexpr const char* kOutput = "output_";

Status write_tensors(const std::string& path, const char* prefix,
                     const std::vector<Tensor>& tensors) {
  const auto dtype = [](DType d) {
    std::string upper(name(d));
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return *safetensors::dtype_from_name(upper);
  };
  std::vector<safetensors::Writer::Declaration> declared;
  for (size_t i = 0; i < tensors.size(); ++i)
    declared.push_back({cat(prefix, i), dtype(tensors[i].dtype()), tensors[i].sizes()});
  DH_ASSIGN(auto writer, safetensors::Writer::create(path, std::move(declared)));
  for (const Tensor& t : tensors) DH_TRY(writer.append(t.bytes()));
  return writer.commit();
}

std::string spec(const Graph& graph) {
  JsonWriter json;
  const auto list = [&](std::string_view key, const char* prefix, size_t count) {
    json.key(key).begin_array();
    for (size_t i = 0; i < count; ++i)
      json.begin_object().field("name", cat(prefix, i)).end_object();
    json.end_array();
  };
  json.begin_object().field("name", graph.name);
  list("inputs", kInput, graph.inputs().size());
  list("outputs", kOutput, graph.outputs().size());
  json.end_object();
  return json.take();
}

Status lower(Graph& graph, const std::string& parent, bool portable) {
  const std::string folder = cat(parent, "/", graph.name);
  DH_TRY(make_directories(folder));
  DH_TRY(write_file(folder + "/model_spec.json", as_bytes(spec(graph))));
  int sample = 0;
  for (const Bindings& bindings : testing::sample_bindings(graph)) {
    const std::string place = sample == 0 ? folder : cat(folder, "/cases/", sample);
    DH_TRY(make_directories(place));
    const std::vector<Tensor> inputs =
        testing::random_inputs(graph, bindings, static_cast<uint64_t>(sample) + 1);
    DH_ASSIGN(const std::vector<Tensor> outputs, evaluate(graph, inputs));
    DH_TRY(write_tensors(place + "/inputs.safetensors", kInput, inputs));
    DH_TRY(write_tensors(place + "/expected.safetensors", kOutput, outputs));
    ++sample;
  }
  graph.name = "forward";
  EmittedProgram program;
  if (portable) {
    DH_ASSIGN(Lowered lowered, lower_portable(graph));
    program = std::move(lowered.program);
  } else {
    DH_ASSIGN(program, emit_program(graph, {}));
  }
  DH_ASSIGN(OutputFile file, OutputFile::create(folder + "/model.pte"));
  DH_TRY(write_program(program, file));
  return file.commit();
}

int run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: lower_text FILE.dh FOLDER [--portable] | --random N FOLDER\n");
    return 2;
  }
  if (std::strcmp(argv[1], "--random") == 0 && argc == 4) {
    for (int seed = 1; seed <= std::atoi(argv[2]); ++seed) {
      const Status status =
          lower(*testing::random_graph(static_cast<uint64_t>(seed)), argv[3], false);
      if (!status.ok()) {
        std::fprintf(stderr, "%d: %s\n", seed, status.message().c_str());
        return 1;
      }
    }
    return 0;
  }
  const bool portable = argc > 3 && std::strcmp(argv[3], "--portable") == 0;
  auto graphs = testing::read_graphs(argv[1]);
  if (!graphs.ok()) {
    std::fprintf(stderr, "%s\n", graphs.status().message().c_str());
    return 1;
  }
  int failed = 0;
  for (const auto& graph : *graphs) {
    const std::string name = graph->name;
    if (const Status status = lower(*graph, argv[2], portable); !status.ok()) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), status.message().c_str());
      failed = 1;
    }
  }
  return failed;
}

}  // namespace
}  // namespace downhaul

int main(int argc, char** argv) { return downhaul::run(argc, argv); }
