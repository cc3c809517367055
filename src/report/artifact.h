#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dialects/edge/raise_program.h"
#include "formats/mlpackage/mil.h"
#include "formats/pte/pte.h"
#include "formats/safetensors/safetensors.h"
#include "formats/spec/spec.h"
#include "ir/graph.h"
#include "models/models.h"

/// Any model file that downhaul understands, as a graph that can be evaluated.
namespace downhaul {

struct Artifact {
  enum class Kind { kPt2, kPte, kCheckpoint, kMlPackage };
  Kind kind = Kind::kPt2;
  std::string path;
  std::unique_ptr<Graph> graph;
  std::vector<std::string> warnings;
  std::vector<std::pair<std::string, std::string>> facts;  ///< "torch version" -> "2.13.0", …

  // .pte only
  std::shared_ptr<const PteFile> pte;
  std::unordered_map<const Node*, RaisedFrom> sources;

  // .mlpackage only: the program that `graph` was raised from
  std::shared_ptr<const mil::Function> mil;

  // checkpoints only
  std::string task;                 ///< as in a model_spec.json
  std::vector<std::string> labels;  ///< id2label
  std::vector<std::string> unused_weights;
};

struct LoadOptions {
  std::vector<std::string> keep_outputs;  ///< empty: all
  models::BuildOptions model;             ///< for checkpoints, which leave it open
};

/// Reads a `.pt2`, a `.pte`, an `.mlpackage`, or a checkpoint (see models/models.h) as far as a
/// graph. A model_spec.json stands for the program or the weights that it names. Errors: those of
/// the readers, with the path; kInvalidFile saying what the path looks like when it is none of
/// them.
Result<Artifact> load_artifact(const std::string& path, const LoadOptions& options = {});

/// What the spec says about a model that is built from its weights: architecture, head by task,
/// sizes, names of inputs and outputs. What `options` state already stays.
models::BuildOptions build_options(const ModelSpec& spec, models::BuildOptions options = {});

/// Tensors by name, in file order.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// All tensors of a safetensors file, mapped. Errors: as the reader; kUnsupported for an element
/// type that the IR does not have (named).
Result<NamedTensors> read_tensors(const std::string& path);
Status write_tensors(const std::string& path, const NamedTensors& tensors);

/// Inputs from a JSON object, name -> nested lists of numbers, in the types of `graph`'s inputs.
/// Errors: kInvalidFile for malformed text, ragged lists, or a number that the type cannot hold.
Result<NamedTensors> read_json_tensors(const std::string& path, const Graph& graph);

/// Arranges `named` in the order of the graph's inputs: by name, or by position when the keys are
/// "0", "1", …; a single input needs no name. Integers of
/// another width are converted where they fit, floats for an input of f16 are rounded.
/// Errors: kInvalidArgument naming the missing or unknown input.
Result<std::vector<Tensor>> match_inputs(const Graph& graph, const NamedTensors& named);

/// The inputs that `path` holds, whichever of the two kinds it is, in the order of the graph's.
/// Errors: as the readers and match_inputs, with the path; all kInvalidFile, or kNotFound.
Result<std::vector<Tensor>> read_inputs(const std::string& path, const Graph& graph);

/// Inputs drawn from a generator with `seed`, the same on every machine: floats uniform in [-1, 1);
/// integers uniform in [0, bound) with bound the rows of the embedding table that the input
/// indexes, or 2; dynamic sizes at their upper bound.
std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed);

/// As random_inputs, but integers and booleans that index no table are 0: masks that let nothing
/// through.
std::vector<Tensor> masked_inputs(const Graph& graph, uint64_t seed);

/// Inputs that are not noise: floats a smooth wave in [-2, 2] that is slower along every further
/// dimension from the last; integers ascending, modulo the bound that random_inputs uses.
std::vector<Tensor> structured_inputs(const Graph& graph);

}  // namespace downhaul
