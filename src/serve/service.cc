#include "serve/service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/strings.h"
#include "formats/json/json.h"
#include "serve/page.h"

namespace downhaul {
namespace {

constexpr std::string_view kRun = "/api/run/";

std::string_view kind_name(TaskField::Kind kind) {
  switch (kind) {
    case TaskField::Kind::kText:
      return "text";
    case TaskField::Kind::kLongText:
      return "long_text";
    case TaskField::Kind::kNumber:
      return "number";
    case TaskField::Kind::kReal:
      return "real";
    case TaskField::Kind::kImage:
      return "image";
  }
  return "";
}

std::string base64(const std::vector<uint8_t>& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) {
      out.push_back(i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=');
    }
  }
  return out;
}

/// A JSON object's members as texts, or the bytes of an image with the rest in the query.
Result<TaskInput> read_input(const HttpRequest& request) {
  TaskInput input;
  input.texts.insert(request.query.begin(), request.query.end());
  if (!request.content_type.starts_with("application/json")) {
    input.image = request.body;
    return input;
  }
  DH_ASSIGN(const JsonValue body, JsonValue::parse(request.body));
  if (!body.is_object()) return invalid_argument("the body: expected a JSON object");
  for (const auto& [key, value] : body.members()) {
    if (value.as_string() != nullptr) {
      input.texts[key] = *value.as_string();
    } else if (value.as_int().has_value()) {
      input.texts[key] = cat(*value.as_int());
    } else if (value.as_double().has_value()) {
      input.texts[key] = cat(*value.as_double());
    } else if (!value.is_null()) {
      return invalid_argument(
          cat(printable(key, 40), ": expected a string or a number, found ", value.kind_name()));
    }
  }
  return input;
}

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kInvalidFile:
    case ErrorKind::kUnsupported:
      return 400;
    default:
      return 500;
  }
}

HttpResponse print(const std::string& model, const Task& task, const TaskOutput& out, double ms) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.begin_object();
  json.field("model", model);
  json.field("task", task.name());
  json.field("forward_ms", out.forward_ms);
  json.field("total_ms", ms);
  if (!out.text.empty()) json.field("text", out.text);
  if (!out.note.empty()) json.field("note", out.note);
  json.key("items").begin_array();
  for (const TaskItem& i : out.items) {
    json.begin_object();
    json.field("label", i.label);
    json.field(out.measure, i.probability);
    json.end_object();
  }
  json.end_array();
  json.key("pictures").begin_array();
  for (const TaskPicture& p : out.pictures) {
    json.begin_object();
    json.field("name", p.name);
    json.field("png", base64(p.png));
    json.end_object();
  }
  json.end_array();
  json.end_object();
  HttpResponse response;
  response.body = json.take();
  return response;
}

}  // namespace

void Service::add(std::string name, std::unique_ptr<Task> task) {
  const auto taken = [&](const std::string& wanted) {
    return std::any_of(models_.begin(), models_.end(),
                       [&](const auto& m) { return m->name == wanted; });
  };
  std::string unique = name;
  for (int i = 2; taken(unique); ++i) unique = cat(name, "-", i);
  auto model = std::make_unique<Model>();
  model->name = std::move(unique);
  model->task = std::move(task);
  models_.push_back(std::move(model));
}

HttpResponse Service::answer(const HttpRequest& request) {
  const bool get = request.method == "GET" || request.method == "HEAD";
  const auto only = [](std::string_view methods) {
    HttpResponse wrong = http_error(405, cat("expected ", methods));
    wrong.headers.emplace_back("Allow", methods);
    return wrong;
  };
  if (request.path == "/") {
    if (!get) return only("GET");
    HttpResponse page;
    page.content_type = "text/html; charset=utf-8";
    page.body = kPage;
    // Everything the page needs is in it; pictures come as data from its own requests.
    page.headers.emplace_back("Content-Security-Policy",
                              "default-src 'none'; style-src 'unsafe-inline'; script-src "
                              "'unsafe-inline'; img-src data: blob:; connect-src 'self'; "
                              "form-action 'none'; base-uri 'none'");
    return page;
  }
  if (request.path == "/api/models") return get ? list_models() : only("GET");
  if (request.path.starts_with(kRun)) return request.method == "POST" ? run(request) : only("POST");
  return http_error(404, "expected /, /api/models or /api/run/MODEL");
}

HttpResponse Service::list_models() const {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.begin_object();
  json.key("models").begin_array();
  for (const auto& m : models_) {
    json.begin_object();
    json.field("name", m->name);
    json.field("task", m->task->name());
    json.field("summary", m->task->summary());
    json.key("fields").begin_array();
    for (const TaskField& f : m->task->fields()) {
      json.begin_object();
      json.field("name", f.name);
      json.field("kind", kind_name(f.kind));
      json.field("label", f.label);
      json.field("value", f.value);
      json.end_object();
    }
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.end_object();
  HttpResponse response;
  response.body = json.take();
  return response;
}

HttpResponse Service::run(const HttpRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string name = request.path.substr(kRun.size());
  const auto model =
      std::find_if(models_.begin(), models_.end(), [&](const auto& m) { return m->name == name; });
  if (model == models_.end()) {
    return http_error(404, cat("no model '", printable(name, 60), "'; see /api/models"));
  }
  const auto input = read_input(request);
  if (!input.ok()) return http_error(status_of(input.status().kind()), input.status().message());
  const std::lock_guard lock((*model)->busy);
  const auto output = (*model)->task->run(*input);
  if (!output.ok()) {
    return http_error(status_of(output.status().kind()), output.status().message());
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return print((*model)->name, *(*model)->task, *output, took.count());
}

}  // namespace downhaul
