#include "serve/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/strings.h"
#include "formats/json/json.h"

namespace downhaul {
namespace {

using Clock = std::chrono::steady_clock;

/// One request on its way. The connection thread owns it, but while it is `working`.
struct Exchange {
  MHD_Connection* connection = nullptr;
  HttpRequest request;
  std::optional<HttpResponse> response;
  bool too_large = false;
  bool working = false;
};

/// What the watch knows of a connection. Times are those of the last change of phase.
struct Watched {
  MHD_socket socket = MHD_INVALID_SOCKET;
  Clock::time_point since;
  bool working = false;  ///< computing an answer is not the client's fault
};

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

Result<Address> parse_address(const std::string& host, uint16_t port) {
  Address address;
  std::memset(&address, 0, sizeof(address));
  if (inet_pton(AF_INET, host.c_str(), &address.v4.sin_addr) == 1) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(port);
    return address;
  }
  if (inet_pton(AF_INET6, host.c_str(), &address.v6.sin6_addr) == 1) {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(port);
    return address;
  }
  if (host == "localhost") return parse_address("127.0.0.1", port);
  return invalid_argument(cat("--host '", printable(host), "': expected an IP address"));
}

class Server final : public HttpServer {
 public:
  Server(const HttpServerOptions& options, HttpHandler handler)
      : options_(options), handler_(std::move(handler)) {}

  ~Server() override {
    if (daemon_ == nullptr) return;
    {
      const std::lock_guard lock(jobs_mutex_);
      stopping_ = true;
    }
    jobs_ready_.notify_all();
    for (std::thread& w : workers_) w.join();
    // Suspended connections must go on before the daemon may end.
    for (Exchange* e : jobs_) {
      e->response = http_error(503, "the server is stopping");
      resume(*e);
    }
    {
      const std::lock_guard lock(watch_mutex_);
      watch_over_ = true;
    }
    watch_wake_.notify_all();
    if (watch_.joinable()) watch_.join();
    MHD_stop_daemon(daemon_);
  }

  Status open() {
    DH_ASSIGN(Address address, parse_address(options_.host, options_.port));
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           (address.any.sa_family == AF_INET6 ? unsigned{MHD_USE_IPv6} : 0u);
    constexpr size_t kHeaderBytes = size_t{32} << 10;
    daemon_ = MHD_start_daemon(flags, options_.port, nullptr, nullptr, &on_access, this,  //
                               MHD_OPTION_SOCK_ADDR, &address.any,                        //
                               MHD_OPTION_CONNECTION_LIMIT,
                               static_cast<unsigned>(options_.max_connections),
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, kHeaderBytes,  //
                               MHD_OPTION_NOTIFY_CONNECTION, &on_connection, this,
                               MHD_OPTION_NOTIFY_COMPLETED, &on_completed, this,  //
                               MHD_OPTION_END);
    if (daemon_ == nullptr) {
      return io_error(cat("cannot listen on ", options_.host, " port ", options_.port, ": ",
                          std::strerror(errno)));
    }
    const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
    port_ = info != nullptr ? info->port : options_.port;
    for (int i = 0; i < options_.workers; ++i) workers_.emplace_back([this] { work(); });
    watch_ = std::thread([this] { watch(); });
    return {};
  }

  uint16_t port() const override { return port_; }

 private:
  static MHD_Result on_access(void* self, MHD_Connection* connection, const char* url,
                              const char* method, const char*, const char* data, size_t* size,
                              void** state) {
    return static_cast<Server*>(self)->access(connection, url, method, data, size, state);
  }

  MHD_Result access(MHD_Connection* connection, const char* url, const char* method,
                    const char* data, size_t* size, void** state) {
    if (*state == nullptr) {
      auto* e = new Exchange;  // freed by on_completed
      *state = e;
      e->connection = connection;
      e->request.method = method;
      e->request.path = url;
      const auto header = [&](const char* name) {
        const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
        return std::string(value != nullptr ? value : "");
      };
      e->request.content_type = header("Content-Type");
      MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &add_argument,
                                &e->request.query);
      const std::string length = header("Content-Length");
      uint64_t bytes = 0;
      const char* end = length.data() + length.size();
      if (!length.empty() && std::from_chars(length.data(), end, bytes).ec == std::errc() &&
          bytes > options_.max_body_bytes) {
        // Clients read no answer before they have sent everything: what is not much too large is
        // swallowed, unkept, so that they see why. The rest is cut off.
        e->too_large = true;
        if (bytes / 8 > options_.max_body_bytes) return refuse_body(*e);
      }
      return MHD_YES;
    }
    auto* e = static_cast<Exchange*>(*state);
    if (*size > 0) {
      // A body without a stated length shows its size only as it comes.
      e->too_large = e->too_large || e->request.body.size() + *size > options_.max_body_bytes;
      if (e->too_large) e->request.body = std::string();
      if (!e->too_large) e->request.body.append(data, *size);
      *size = 0;
      return MHD_YES;
    }
    if (e->too_large) return refuse_body(*e);
    if (e->response.has_value()) return answer(*e, *std::exchange(e->response, std::nullopt));
    set_working(connection, true);
    MHD_suspend_connection(connection);
    {
      const std::lock_guard lock(jobs_mutex_);
      if (!stopping_ && jobs_.size() < static_cast<size_t>(options_.max_waiting)) {
        jobs_.push_back(e);
        jobs_ready_.notify_one();
        return MHD_YES;
      }
    }
    e->response = http_error(503, "too many requests are waiting; try again in a moment");
    e->response->headers.emplace_back("Retry-After", "1");
    resume(*e);
    return MHD_YES;
  }

  MHD_Result refuse_body(Exchange& e) {
    return answer(e, http_error(413, cat("the body is too large, expected at most ",
                                         options_.max_body_bytes, " bytes")));
  }

  MHD_Result answer(Exchange& e, const HttpResponse& response) {
    MHD_Response* made = MHD_create_response_from_buffer(
        response.body.size(), const_cast<char*>(response.body.data()),  // NOLINT: copied
        MHD_RESPMEM_MUST_COPY);
    if (made == nullptr) return MHD_NO;
    MHD_add_response_header(made, "Content-Type", response.content_type.c_str());
    MHD_add_response_header(made, "X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : response.headers) {
      MHD_add_response_header(made, name.c_str(), value.c_str());
    }
    const MHD_Result queued =
        MHD_queue_response(e.connection, static_cast<unsigned>(response.status), made);
    MHD_destroy_response(made);
    return queued;
  }

  static MHD_Result add_argument(void* query, MHD_ValueKind, const char* key, const char* value) {
    (*static_cast<decltype(HttpRequest::query)*>(query))[key] = value != nullptr ? value : "";
    return MHD_YES;
  }

  static void on_completed(void* self, MHD_Connection* connection, void** state,
                           MHD_RequestTerminationCode) {
    delete static_cast<Exchange*>(*state);
    *state = nullptr;
    // The next request on this connection has its own time.
    static_cast<Server*>(self)->set_working(connection, false);
  }

  static void on_connection(void* self, MHD_Connection* connection, void**,
                            MHD_ConnectionNotificationCode code) {
    auto* server = static_cast<Server*>(self);
    const std::lock_guard lock(server->watch_mutex_);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      const MHD_ConnectionInfo* info =
          MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
      if (info != nullptr) server->watched_[connection] = {info->connect_fd, Clock::now(), false};
    } else {
      // Told before the socket is closed, so that the watch never shuts a stranger's.
      server->watched_.erase(connection);
    }
  }

  void set_working(MHD_Connection* connection, bool working) {
    const std::lock_guard lock(watch_mutex_);
    const auto found = watched_.find(connection);
    if (found == watched_.end()) return;
    found->second.working = working;
    found->second.since = Clock::now();
  }

  void resume(Exchange& e) {
    set_working(e.connection, false);
    MHD_resume_connection(e.connection);
  }

  void work() {
    while (true) {
      Exchange* e = nullptr;
      {
        std::unique_lock lock(jobs_mutex_);
        jobs_ready_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
        if (stopping_) return;
        e = jobs_.front();
        jobs_.pop_front();
      }
      e->response = handler_(e->request);
      resume(*e);
    }
  }

  void watch() {
    const auto tick =
        std::min<std::chrono::milliseconds>(options_.deadline / 4, std::chrono::milliseconds(250));
    std::unique_lock lock(watch_mutex_);
    while (!watch_over_) {
      watch_wake_.wait_for(lock, tick);
      const auto now = Clock::now();
      for (auto& [connection, w] : watched_) {
        if (w.working || now - w.since <= options_.deadline) continue;
        // The connection thread sees the end of the stream and cleans up.
        ::shutdown(w.socket, SHUT_RDWR);
      }
    }
  }

  const HttpServerOptions options_;
  const HttpHandler handler_;
  MHD_Daemon* daemon_ = nullptr;
  uint16_t port_ = 0;

  std::mutex jobs_mutex_;
  std::condition_variable jobs_ready_;
  std::deque<Exchange*> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;

  std::mutex watch_mutex_;
  std::condition_variable watch_wake_;
  std::unordered_map<MHD_Connection*, Watched> watched_;
  bool watch_over_ = false;
  std::thread watch_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                      HttpHandler handler) {
  auto server = std::make_unique<Server>(options, std::move(handler));
  DH_TRY(server->open());
  return std::unique_ptr<HttpServer>(std::move(server));
}

HttpResponse http_error(int status, std::string_view message) {
  JsonWriter json;
  json.begin_object();
  json.field("error", message);
  json.end_object();
  HttpResponse response;
  response.status = status;
  response.body = json.take();
  return response;
}

}  // namespace downhaul
