#pragma once

#include <optional>
#include <string>

#include "cli/command_line.h"
#include "models/models.h"

namespace downhaul {

/// The options of every verb that takes a checkpoint: what is to be built from it.
class ModelFlags {
 public:
  void declare(Options& o);
  /// Errors: kInvalidArgument naming the flag.
  Result<models::BuildOptions> options() const;

 private:
  std::string head_, model_id_, seq_len_, batch_, image_size_;
  int64_t choices_ = 4;
  int64_t mask_token_id_ = -1;
  bool token_types_ = false;
};

}  // namespace downhaul
