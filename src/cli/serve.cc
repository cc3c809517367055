#include <csignal>
#include <cstdio>

#include "base/strings.h"
#include "cli/verbs.h"
#include "kernels/isa.h"
#include "serve/http_server.h"
#include "serve/service.h"

namespace downhaul {
namespace {

class Serve final : public Verb {
 public:
  std::string_view name() const override { return "serve"; }
  std::string_view summary() const override { return "Offer models on a web page and by JSON"; }
  std::string_view details() const override {
    return "Ends with Ctrl-C. Endpoints: GET /api/models, POST /api/run/MODEL.\n"
           "Example:\n  downhaul serve artifacts/lraspp_xnnpack.pte";
  }
  void declare(Options& o) override {
    o.positionals(&models_, "MODEL", "artifacts or model_spec.json files of the models");
    o.text(&options_.host, "--host", "ADDRESS",
           "where to listen; another than 127.0.0.1 lets other machines in");
    o.number(&port_, "--port", "PORT", "port to listen on; 0 for any that is free", 0, 65535);
    o.number(&threads_, "--threads", "N", "threads for each model", 1, 1024);
    o.text(&tokenizer_, "--tokenizer", "PATH",
           "of text models (default: the spec's, or the model's folder)");
    o.flag(&truncate_, "--truncate", "cut texts that are too long");
    o.number(&deadline_, "--deadline", "SECONDS", "time a client has to send a request", 1, 3600);
    o.number(&megabytes_, "--max-body", "MB", "largest request", 1, 1024);
  }

  Result<int> run() override {
    DH_TRY(lower_isa_by_environment());
    Service service;
    TaskOptions how;
    how.model.how.threads = static_cast<int>(threads_);
    how.text.tokenizer = tokenizer_;
    how.text.truncate = truncate_;
    for (const std::string& path : models_) {
      std::string name;
      DH_ASSIGN(auto task, make_task(path, how, &name));
      std::printf("%s: %s (%s)\n", printable(name).c_str(), std::string(task->name()).c_str(),
                  printable(path).c_str());
      service.add(name, std::move(task));
    }
    options_.port = static_cast<uint16_t>(port_);
    options_.deadline = std::chrono::seconds(deadline_);
    options_.max_body_bytes = static_cast<uint64_t>(megabytes_) << 20;
    options_.workers = static_cast<int>(std::min<size_t>(models_.size(), 4));
    // Blocked before the server's threads start, so that they inherit it and the wait below gets
    // it.
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    DH_ASSIGN(const auto server, HttpServer::start(options_, [&](const HttpRequest& request) {
                return service.answer(request);
              }));
    const bool v6 = options_.host.find(':') != std::string::npos;
    std::printf("serving on http://%s%s%s:%d/\n", v6 ? "[" : "", options_.host.c_str(),
                v6 ? "]" : "", static_cast<int>(server->port()));
    std::fflush(stdout);
    int signal = 0;
    sigwait(&ends, &signal);
    return kExitDone;
  }

 private:
  std::vector<std::string> models_;
  std::string tokenizer_;
  bool truncate_ = false;
  HttpServerOptions options_;
  int64_t port_ = 8092;
  int64_t threads_ = 1;
  int64_t deadline_ = 30;
  int64_t megabytes_ = 32;
};

}  // namespace

std::unique_ptr<Verb> make_serve() { return std::make_unique<Serve>(); }

}  // namespace downhaul
