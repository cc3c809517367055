#pragma once

#include "serve/task.h"

namespace downhaul {

/// segment for models that give scores for each pixel, classify for those that give one row.
/// Errors: kUnsupported for other outputs.
Result<std::unique_ptr<Task>> make_vision_task(AppModel model, ImageInput input);

}  // namespace downhaul
