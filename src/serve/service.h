#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/http_server.h"
#include "serve/task.h"

/// The web service: a page, and JSON endpoints beside it. docs/serve.md describes them.
namespace downhaul {

/// Thread-safe; each model answers one request at a time.
class Service {
 public:
  /// `name` is how requests call the model; taken names get a number.
  void add(std::string name, std::unique_ptr<Task> task);
  /// Any request. Errors are responses: 400 for what the client sent, 404 and 405, 500.
  HttpResponse answer(const HttpRequest& request);

 private:
  struct Model {
    std::string name;
    std::unique_ptr<Task> task;
    std::mutex busy;
  };
  HttpResponse list_models() const;
  HttpResponse run(const HttpRequest& request);

  std::vector<std::unique_ptr<Model>> models_;
};

}  // namespace downhaul
