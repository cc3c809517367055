#include "serve/task.h"

#include <charconv>
#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "serve/text_tasks.h"
#include "serve/vision_tasks.h"

namespace downhaul {

std::string TaskInput::text(std::string_view name) const {
  const auto found = texts.find(name);
  return found != texts.end() ? found->second : "";
}

Result<int64_t> TaskInput::number(std::string_view name, int64_t otherwise, int64_t low,
                                  int64_t high) const {
  const std::string given = text(name);
  if (given.empty()) return otherwise;
  int64_t value = 0;
  const char* end = given.data() + given.size();
  const auto parsed = std::from_chars(given.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < low || value > high) {
    return invalid_argument(cat(name, ": expected a number from ", low, " to ", high, ", found '",
                                printable(given, 40), "'"));
  }
  return value;
}

Result<double> TaskInput::real(std::string_view name, double otherwise, double low,
                               double high) const {
  const std::string given = text(name);
  if (given.empty()) return otherwise;
  double value = 0;
  const char* end = given.data() + given.size();
  const auto parsed = std::from_chars(given.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(value >= low && value <= high)) {
    return invalid_argument(cat(name, ": expected a number from ", low, " to ", high, ", found '",
                                printable(given, 40), "'"));
  }
  return value;
}

Result<std::unique_ptr<Task>> make_task(const std::string& path, const TaskOptions& options,
                                        std::string* name) {
  DH_ASSIGN(AppModel model, AppModel::load(path, options.model));
  *name = model.spec().has_value() && !model.spec()->name.empty()
              ? model.spec()->name
              : std::filesystem::path(path).stem().string();
  if (!TextModel::takes_text(model.graph())) {
    DH_ASSIGN(ImageInput input, find_image_input(model.graph(), model.spec(), model.path()));
    return make_vision_task(std::move(model), std::move(input));
  }
  if (model.task() == "text-generation") {
    TextGeneratorOptions how;
    how.tokenizer = options.text.tokenizer;
    how.decoder.engine.num_threads = options.model.how.threads;
    const std::string file = model.path();
    DH_ASSIGN(auto generator, TextGenerator::load(file, how));
    return make_generate_task(std::move(generator));
  }
  DH_ASSIGN(TextModel text, TextModel::make(std::move(model), options.text));
  return make_text_task(std::move(text));
}

}  // namespace downhaul
