#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/app_model.h"
#include "apps/text_model.h"
#include "base/status.h"

/// What the web service can do with a model: one task each, described so that the page can build a
/// form for it.
namespace downhaul {

/// A field of a task's form and of its request.
struct TaskField {
  enum class Kind { kText, kLongText, kNumber, kReal, kImage };
  std::string name;  ///< in the request
  Kind kind = Kind::kText;
  std::string label;  ///< for people
  std::string value;  ///< what the form begins with
};

/// A request's fields: texts by name, and the bytes of the image, if there is one.
struct TaskInput {
  std::map<std::string, std::string, std::less<>> texts;
  std::string image;

  std::string text(std::string_view name) const;
  /// `otherwise` when absent. Errors: kInvalidArgument naming the field and its range.
  Result<int64_t> number(std::string_view name, int64_t otherwise, int64_t low, int64_t high) const;
  /// As number, with a fraction.
  Result<double> real(std::string_view name, double otherwise, double low, double high) const;
};

/// A likely answer.
struct TaskItem {
  std::string label;
  double probability = 0;  ///< or what TaskOutput::measure says
};
struct TaskPicture {
  std::string name;  ///< "cutout"
  std::vector<uint8_t> png;
};
/// What every task answers with; the page shows whatever is there.
struct TaskOutput {
  std::string text;
  std::string note;                     ///< about how the answer was made
  std::string measure = "probability";  ///< what the items' numbers are: or "cosine"
  std::vector<TaskItem> items;
  std::vector<TaskPicture> pictures;
  double forward_ms = 0;  ///< time in the model
};

class Task {
 public:
  virtual ~Task() = default;
  virtual std::string_view name() const = 0;     ///< "segment"
  virtual std::string_view summary() const = 0;  ///< "Cut an object out of a photo"
  virtual std::vector<TaskField> fields() const = 0;
  /// Not for several callers at a time. Errors: kInvalidArgument, kInvalidFile, kUnsupported for
  /// what the client sent; others are the server's.
  virtual Result<TaskOutput> run(const TaskInput& input) = 0;
};

struct TaskOptions {
  AppModelOptions model;
  TextModelOptions text;
};

/// The task of a model's file, by its spec's `task` or else by what it takes and gives.
/// Errors: those of loading; kUnsupported saying which tasks there are.
Result<std::unique_ptr<Task>> make_task(const std::string& path, const TaskOptions& options,
                                        std::string* name);

}  // namespace downhaul
