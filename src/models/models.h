#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"

/// Models built from a checkpoint alone: a configuration or the name of an architecture gives the
/// graph, the weights stay in the mapped files. No code of the checkpoint is run.
namespace downhaul::models {

/// A size of the inputs: one number, or a range that the graph keeps open.
struct SizeRange {
  int64_t min = 1;
  int64_t max = 1;
};

struct BuildOptions {
  /// What the model is to compute (known_heads()); empty: what the configuration's `architectures`
  /// says.
  std::string head;
  /// Architecture of a state dict that has no config.json ("mobilenet_v2"); empty: from the file's
  /// name.
  std::string model_id;
  /// Tokens a row; absent: 128, or as many as the model has positions for.
  std::optional<SizeRange> seq_len;
  /// Every length that the model has positions for, and any batch, where no size is given.
  bool open_sizes = false;
  std::optional<SizeRange> batch;               ///< absent: 1
  int64_t choices = 4;                          ///< answers of a multiple-choice question
  std::optional<std::array<int64_t, 2>> image;  ///< height, width; absent: the architecture's own
  std::optional<int64_t> mask_token_id;         ///< absent: from the tokenizer beside the weights
  bool token_types = false;                     ///< BERT: take token_type_ids as third input
  std::vector<std::string> input_names, output_names;  ///< in order; empty: the usual ones
};

struct BuiltModel {
  /// Constants have the names of the checkpoint and share its mapped files. Inputs and outputs are
  /// named as transformers names them (input_ids, attention_mask; logits, start_logits, …).
  std::unique_ptr<Graph> graph;
  std::string family;  ///< "distilbert", "gpt2", "mobilenet_v2", …
  std::string head;    ///< one of known_heads(); "" for images
  std::string task;    ///< as in a model_spec.json: "fill-mask", "classification", …
  /// The configuration's id2label, in order of the ids; empty when it has none.
  std::vector<std::string> labels;
  int64_t max_length = 0;  ///< longest row of tokens; 0 for images
  /// Tensors of the checkpoint that the graph does not need.
  std::vector<std::string> unused;
  std::vector<std::string> warnings;  ///< one line each, for people
  std::vector<std::pair<std::string, std::string>> facts;
};

/// `path`: a folder with config.json and weights (model.safetensors, pytorch_model.bin, or their
/// index files), or a file of weights (.safetensors, .bin, .pt, .pth) with config.json beside it or
/// a `model_id`.
/// Errors: those of the readers; kInvalidFile naming the key of config.json and its constraint, or
/// every tensor that is missing or has another shape; kInvalidArgument for an option that the model
/// cannot follow; kUnsupported for a model that is none of ours.
Result<BuiltModel> build_checkpoint(const std::string& path, const BuildOptions& options = {});

/// The same from two files, wherever they are; `config` may be "".
Result<BuiltModel> build_from_files(const std::string& config, const std::string& weights,
                                    const BuildOptions& options = {});

/// True for what build_checkpoint reads: a folder with a configuration or weights, a file of
/// weights.
bool is_checkpoint(const std::string& path);

/// "base", "mlm", …
std::vector<std::string> known_heads();
/// Architectures that need no config.json.
std::vector<std::string> known_model_ids();
/// The head for a task of a model_spec.json ("question-answering" -> "qa"); empty when it has none.
std::string_view head_of_task(std::string_view task);

}  // namespace downhaul::models
