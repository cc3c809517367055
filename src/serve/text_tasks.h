#pragma once

#include <memory>
#include <string>

#include "apps/text_generator.h"
#include "apps/text_model.h"
#include "serve/task.h"

namespace downhaul {

/// The task of a text model that does not go on with texts: by its spec's `task`, or else by its
/// outputs. Errors: kUnsupported for outputs that belong to no task.
Result<std::unique_ptr<Task>> make_text_task(TextModel model);

/// Goes on with a text.
std::unique_ptr<Task> make_generate_task(std::unique_ptr<TextGenerator> generator);

}  // namespace downhaul
