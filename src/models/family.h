#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/config.h"
#include "models/models.h"
#include "models/net.h"
#include "models/weights.h"

namespace downhaul::models {

/// What a family gets to build a model: its weights renamed, its configuration read.
struct Job {
  const BuildOptions& options;
  Config& config;
  Weights& weights;
  Net& net;
  std::string folder;  ///< of the checkpoint, for the tokenizer's files
  BuiltModel& out;     ///< head, task, max_length and facts are the family's to fill

  Graph& graph() const { return *out.graph; }
  /// Adds outputs under the names that the caller wants, or else `names`.
  /// Errors: kInvalidArgument when another number of names was given.
  Status finish(const std::vector<Value*>& values, const std::vector<std::string>& names) const;
  /// The name of input `index`, or `usual`.
  std::string input_name(size_t index, std::string_view usual) const;
};

// Each builds the whole graph. Errors: as build_checkpoint.
Status build_distilbert(Job& job);
Status build_bert(Job& job);  ///< also RoBERTa
Status build_gpt2(Job& job);
Status build_mobilenet_v2(Job& job);
Status build_mobilenet_v3(Job& job);  ///< small and large
Status build_lraspp(Job& job);
Status build_resnet(Job& job);

}  // namespace downhaul::models
