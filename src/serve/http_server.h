#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

/// A small HTTP/1.1 server that slow or hostile clients cannot stall.
namespace downhaul {

struct HttpRequest {
  std::string method;        ///< "GET", "POST", …
  std::string path;          ///< decoded, without the query: "/api/models"
  std::string content_type;  ///< "" when the client states none
  std::map<std::string, std::string, std::less<>> query;  ///< decoded
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Computes an answer; called on a worker thread, from as many at a time as there are workers.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

struct HttpServerOptions {
  std::string host = "127.0.0.1";  ///< a numeric IPv4 or IPv6 address
  uint16_t port = 8092;            ///< 0: any that is free
  int workers = 1;
  /// A larger body is answered with 413, and not kept.
  uint64_t max_body_bytes = uint64_t{32} << 20;
  /// A request has to arrive whole within this time of the connection's opening or of the answer
  /// before it, and its answer has to leave within the same time; however steadily its bytes come.
  std::chrono::milliseconds deadline{30'000};
  /// Further ones wait in the system's queue until one ends.
  int max_connections = 200;
  /// Requests that wait for a worker; more are answered with 503.
  int max_waiting = 64;
};

/// Runs from start until destruction. One thread serves all connections, `workers` threads compute,
/// one watches the deadlines.
class HttpServer {
 public:
  /// Errors: kInvalidArgument for an address that is none, kIo when it cannot be bound (in use).
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                   HttpHandler handler);
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
};

/// {"error": message} with a status.
HttpResponse http_error(int status, std::string_view message);

}  // namespace downhaul
