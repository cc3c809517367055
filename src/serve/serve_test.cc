#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/strings.h"
#include "formats/json/json.h"
#include "serve/http_server.h"
#include "serve/service.h"

namespace downhaul {
namespace {

using std::chrono::milliseconds;

/// A client that sends what it likes.
class Client {
 public:
  explicit Client(uint16_t port) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool send(std::string_view text) const {
    return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  /// All that comes until the server closes.
  std::string rest() const {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::recv(fd_, buffer, sizeof(buffer), 0)) > 0;) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  int fd_;
};

std::string post(std::string_view path, std::string_view body) {
  return cat("POST ", path,
             " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ", body.size(),
             "\r\n\r\n", body);
}

HttpResponse echo(const HttpRequest& r) {
  HttpResponse response;
  response.body = cat(r.method, " ", r.path, " ", r.body.size());
  return response;
}

std::unique_ptr<HttpServer> started(HttpServerOptions options, HttpHandler handler = echo) {
  options.port = 0;
  auto server = HttpServer::start(options, std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status().message();
  return *std::move(server);
}

TEST(HttpServer, Answers) {
  const auto server = started({});
  const Client client(server->port());
  ASSERT_TRUE(client.send(post("/a%20b?q=1", "hello")));
  const std::string got = client.rest();
  EXPECT_TRUE(got.starts_with("HTTP/1.1 200")) << got;
  EXPECT_TRUE(got.ends_with("POST /a b 5")) << got;
}

TEST(HttpServer, RefusesALargeBodyStatedOrNot) {
  const auto server = started({.max_body_bytes = 1000});
  {
    const Client client(server->port());
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n");
    EXPECT_TRUE(client.rest().starts_with("HTTP/1.1 413"));
  }
  {
    const Client client(server->port());
    client.send(post("/", std::string(1001, 'x')));
    EXPECT_TRUE(client.rest().starts_with("HTTP/1.1 413"));
  }
  const Client client(server->port());
  client.send(
      "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) client.send(cat("200\r\n", std::string(512, 'x'), "\r\n"));
  client.send("0\r\n\r\n");
  const std::string got = client.rest();
  EXPECT_TRUE(got.starts_with("HTTP/1.1 413")) << got;
}

TEST(HttpServer, EndsClientsThatTrickle) {
  const auto server = started({.deadline = milliseconds(400)});
  // A byte every 50 ms never stops, and never is an idle connection either.
  const Client slow(server->port());
  const auto begin = std::chrono::steady_clock::now();
  std::string request = post("/", std::string(1000, 'x'));
  bool alive = true;
  for (size_t i = 0; alive && i < request.size(); ++i) {
    alive = slow.send(request.substr(i, 1));
    std::this_thread::sleep_for(milliseconds(50));
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(10)) break;
  }
  EXPECT_FALSE(alive);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  // Others are served all the while.
  const Client client(server->port());
  client.send(post("/", "x"));
  EXPECT_TRUE(client.rest().starts_with("HTTP/1.1 200"));
}

TEST(HttpServer, DoesNotCountItsOwnWorkAgainstTheClient) {
  const auto server = started({.deadline = milliseconds(200)}, [](const HttpRequest& r) {
    std::this_thread::sleep_for(milliseconds(700));
    return echo(r);
  });
  const Client client(server->port());
  client.send(post("/", "x"));
  EXPECT_TRUE(client.rest().starts_with("HTTP/1.1 200"));
}

TEST(HttpServer, SaysThatItIsBusy) {
  std::atomic<bool> go = false;
  const auto server = started({.max_waiting = 1}, [&](const HttpRequest& r) {
    while (!go) std::this_thread::sleep_for(milliseconds(5));
    return echo(r);
  });
  // One is computed, one waits; the third is turned away at once.
  const Client first(server->port());
  first.send(post("/", "x"));
  std::this_thread::sleep_for(milliseconds(200));
  const Client second(server->port());
  second.send(post("/", "x"));
  std::this_thread::sleep_for(milliseconds(200));
  const Client third(server->port());
  third.send(post("/", "x"));
  EXPECT_TRUE(third.rest().starts_with("HTTP/1.1 503"));
  go = true;
  EXPECT_TRUE(first.rest().starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(second.rest().starts_with("HTTP/1.1 200"));
}

TEST(HttpServer, SurvivesClientsThatMakeNoSense) {
  const auto server = started({});
  for (const std::string& text :
       {std::string("\0\0\0\0", 4), std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\n\r\n"), std::string(100000, 'A'),
        std::string("POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n")}) {
    const Client client(server->port());
    client.send(text);
  }
  const Client client(server->port());
  client.send(post("/", "x"));
  EXPECT_TRUE(client.rest().starts_with("HTTP/1.1 200"));
}

TEST(HttpServer, StopsWhileRequestsWait) {
  auto server = started({}, [](const HttpRequest& r) {
    std::this_thread::sleep_for(milliseconds(100));
    return echo(r);
  });
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(std::make_unique<Client>(server->port()));
    clients.back()->send(post("/", "x"));
  }
  std::this_thread::sleep_for(milliseconds(150));
  server.reset();  // must not hang
}

TEST(HttpServer, NamesAnAddressThatIsTaken) {
  const auto server = started({});
  const auto second = HttpServer::start({.port = server->port()}, echo);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().kind(), ErrorKind::kIo);
  EXPECT_FALSE(HttpServer::start({.host = "example"}, echo).ok());
}

class Upper final : public Task {
 public:
  std::string_view name() const override { return "upper"; }
  std::string_view summary() const override { return "Counts"; }
  std::vector<TaskField> fields() const override {
    return {{"text", TaskField::Kind::kText, "Text", ""}};
  }
  Result<TaskOutput> run(const TaskInput& input) override {
    DH_ASSIGN(const int64_t n, input.number("n", 1, 1, 9));
    TaskOutput out;
    out.text = cat(input.text("text"), " ", n, " ", input.image.size());
    out.pictures.push_back({"p", {1, 2, 3, 4}});
    return out;
  }
};

TEST(Service, RunsAModelAndSaysWhatIsWrong) {
  Service service;
  service.add("a", std::make_unique<Upper>());
  service.add("a", std::make_unique<Upper>());
  HttpRequest request{.method = "POST", .path = "/api/run/a-2"};
  request.content_type = "application/json";
  request.body = R"({"text": "x", "n": 7})";
  const HttpResponse good = service.answer(request);
  EXPECT_EQ(good.status, 200);
  const auto json = JsonValue::parse(good.body);
  ASSERT_TRUE(json.ok()) << good.body;
  EXPECT_EQ(*json->find("text")->as_string(), "x 7 0");
  EXPECT_EQ(*json->find("pictures")->elements()[0].find("png")->as_string(), "AQIDBA==");
  request.body = R"({"n": 70})";
  EXPECT_EQ(service.answer(request).status, 400);
  request.body = "{";
  EXPECT_EQ(service.answer(request).status, 400);
  request.body = "[]";
  EXPECT_EQ(service.answer(request).status, 400);
  request.content_type = "image/png";
  request.query["n"] = "2";
  EXPECT_NE(service.answer(request).body.find(" 2 2"), std::string::npos);
  request.path = "/api/run/b";
  EXPECT_EQ(service.answer(request).status, 404);
  request.path = "/";
  EXPECT_EQ(service.answer(request).status, 405);
  request.method = "GET";
  EXPECT_TRUE(service.answer(request).body.starts_with("<!doctype html>"));
  request.path = "/api/models";
  EXPECT_EQ(JsonValue::parse(service.answer(request).body)->find("models")->elements().size(), 2u);
}

}  // namespace
}  // namespace downhaul
