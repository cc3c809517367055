#include "serve/task.h"

#include <charconv>
#include <utility>

#include "base/strings.h"
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

Result<std::unique_ptr<Task>> make_task(AppModel model) {
  const auto input = find_image_input(model.graph(), model.spec(), model.path());
  if (input.ok()) return make_vision_task(std::move(model), *input);
  return input.status();
}

}  // namespace downhaul
