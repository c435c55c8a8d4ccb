// The HTTP server's limits, over a real socket, with a client that misbehaves.
#include "coordinator/http/server/server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "common/text/strings.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/net/listener.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;
using std::chrono::milliseconds;

constexpr milliseconds kShort{60};
constexpr milliseconds kLong{60'000};

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(TimeLimits limits, size_t connections = 64) {
    auto fd = ListenOnSocket(path_);
    ASSERT_TRUE(fd.ok()) << fd.status();
    std::vector<Listener> listeners;
    listeners.push_back({.fd = *std::move(fd), .is_unix = true, .own_uid_only = true});
    server_ = std::make_unique<Server>(
        Server::Options{
            .listeners = std::move(listeners), .connections = connections, .limits = limits},
        Handlers{.check = [](const RequestHead& head) -> std::optional<Response> {
                   if (head.target == "/refused") return Refusal(403, "no", "do not");
                   return std::nullopt;
                 },
                 .handle = [this](Request request,
                                  Respond respond) { Handle(request, std::move(respond)); },
                 .caller =
                     [](const RequestHead& head) {
                       return std::string(FieldOf(head.fields, "x-caller"));
                     },
                 .before_sending = before_sending_});
    server_->Begin();
  }

  // Says each text once.
  class Texts : public TextSource {
   public:
    explicit Texts(HttpServerTest& test) : test_(test) {}
    std::string Take() override {
      std::lock_guard lock(test_.mutex_);
      return std::exchange(test_.news_, "");
    }

   private:
    HttpServerTest& test_;
  };
  void Tell(const std::string& news) {
    {
      std::lock_guard lock(mutex_);
      news_ += news;
    }
    server_->PullStreams();
  }
  // Until `text` has come; false if the server closes first.
  static bool ReadUntil(int fd, const std::string& text) {
    std::string all;
    char bytes[4096];
    while (all.find(text) == std::string::npos) {
      const ssize_t got = read(fd, bytes, sizeof bytes);
      if (got <= 0) return false;
      all.append(bytes, static_cast<size_t>(got));
    }
    return true;
  }

  void Handle(const Request& request, Respond respond) {
    if (request.head.target == "/stream") {
      return respond({.content_type = "text/event-stream",
                      .body = "",
                      .fields = {},
                      .stream = std::make_shared<Texts>(*this)});
    }
    if (request.head.target == "/never") {
      std::lock_guard lock(mutex_);
      unanswered_.push_back(std::move(respond));
      asked_.notify_all();
      return;
    }
    const size_t size = request.head.target == "/large" ? 32 << 20 : 0;
    respond(JsonResponse(StrCat(request.head.method, " ", request.head.target, " ",
                                request.body.size(), std::string(size, 'x'))));
  }

  int Connect() {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  // All that comes until the server closes.
  static std::string ReadAll(int fd) {
    std::string all;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) all.append(bytes, static_cast<size_t>(got));
    close(fd);
    return all;
  }
  static bool Send(int fd, const std::string& text) {
    return send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Of a whole exchange on a connection that the client does not keep.
  std::string Ask(const std::string& text) {
    const int fd = Connect();
    Send(fd, text);
    return ReadAll(fd);
  }
  static std::string BodyOf(const std::string& response) {
    const size_t end = response.find("\r\n\r\n");
    return end == std::string::npos ? "" : response.substr(end + 4);
  }
  static std::string StatusOf(const std::string& response) { return response.substr(9, 3); }
  // By the server.
  static bool IsClosedWithin(int fd, int ms) {
    pollfd source = {.fd = fd, .events = POLLRDHUP, .revents = 0};
    return poll(&source, 1, ms) > 0;
  }
  // Including all that the server had noticed before this was called.
  uint64_t TimedOut() {
    Ask("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return server_->Read().timed_out;
  }

  const TempDir dir_;
  const std::string path_ = dir_.path() + "/h.sock";
  std::mutex mutex_;  // guards what follows
  std::condition_variable asked_;
  std::vector<Respond> unanswered_;
  std::string news_;
  std::function<void()> before_sending_;
  std::unique_ptr<Server> server_;
};

const std::string kClose = "Host: localhost\r\nConnection: close\r\n\r\n";

TEST_F(HttpServerTest, AnswersRequestsOneAfterAnotherOnOneConnection) {
  Start({});
  const std::string all =
      Ask("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"
          "POST /b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
          "GET /c HTTP/1.1\r\n" +
          kClose);
  EXPECT_LT(all.find("GET /a 0"), all.find("POST /b 3"));
  EXPECT_NE(all.find("GET /c 0"), std::string::npos);
}

TEST_F(HttpServerTest, NothingIsSentBeforeItIsAllowed) {
  std::atomic<int> asked = 0;
  std::atomic<int> client = -1;
  std::atomic<bool> may_send = true;
  before_sending_ = [&] {
    ++asked;
    if (may_send) return;
    // As a coordinator whose term is over, which does not come back: nothing has left it before.
    pollfd source = {.fd = client, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&source, 1, 0), 0);
    may_send = true;
  };
  Start({});
  const auto was_asked = [&](int fd, const std::string& text, const std::string& until) {
    client = fd;
    const int before = asked;
    may_send = false;
    if (!text.empty()) Send(fd, text);
    EXPECT_TRUE(ReadUntil(fd, until));
    EXPECT_TRUE(may_send);
    return asked - before;
  };
  const int fd = Connect();
  EXPECT_EQ(was_asked(fd, "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /a 0"), 1);
  EXPECT_EQ(was_asked(fd, "GET /refused HTTP/1.1\r\nHost: localhost\r\n\r\n", "do not"), 1);
  // Not once for all pieces of a long one.
  const int before = asked;
  EXPECT_GT(Ask("GET /large HTTP/1.1\r\n" + kClose).size(), size_t{32} << 20);
  EXPECT_GT(asked - before, 2);
  EXPECT_GE(was_asked(fd, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n", "event-stream"), 1);
  client = fd;
  may_send = false;
  Tell("news 1");
  EXPECT_TRUE(ReadUntil(fd, "news 1"));
  EXPECT_TRUE(may_send);
  close(fd);
}

TEST_F(HttpServerTest, EveryResponseHasTheSecurityFields) {
  Start({});
  for (const char* target : {"/", "/refused"}) {
    const std::string response = Ask(StrCat("GET ", target, " HTTP/1.1\r\n", kClose));
    for (const auto& [name, value] : SecurityFields())
      EXPECT_NE(response.find(StrCat(name, ": ", value, "\r\n")), std::string::npos) << name;
    EXPECT_EQ(response.find("Access-Control"), std::string::npos);
  }
}

TEST_F(HttpServerTest, HeadGetsTheLengthWithoutTheBody) {
  Start({});
  const std::string response = Ask("HEAD /a HTTP/1.1\r\n" + kClose);
  EXPECT_EQ(StatusOf(response), "200");
  EXPECT_NE(response.find("Content-Length: 9\r\n"), std::string::npos);
  EXPECT_EQ(BodyOf(response), "");
}

TEST_F(HttpServerTest, WhatIsTooLargeOrMalformedIsRefusedByStatus) {
  Start({});
  const std::string host = "Host: localhost\r\n";
  EXPECT_EQ(StatusOf(Ask("GET / HTTP/1.1\r\nX: " + std::string(kHeadBytesMax, 'x') + "\r\n\r\n")),
            "431");
  EXPECT_EQ(StatusOf(Ask(StrCat("GET /", std::string(kHeadBytesMax, 'x'), " HTTP/1.1\r\n\r\n"))),
            "431");
  EXPECT_EQ(StatusOf(Ask(StrCat("POST / HTTP/1.1\r\n", host, "Content-Length: ", kBodyBytesMax + 1,
                                "\r\n\r\n"))),
            "413");
  EXPECT_EQ(
      StatusOf(Ask("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
      "411");
  for (const char* text :
       {"hello\r\n\r\n", "GET / HTTP/9.1\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"})
    EXPECT_EQ(StatusOf(Ask(text)), "400") << text;
  EXPECT_EQ(StatusOf(Ask("GET / HTTP/1.1\r\n" + kClose)), "200");
}

TEST_F(HttpServerTest, ARefusalIsReadByAClientThatIsStillSending) {
  Start({});
  const int fd = Connect();
  Send(fd, StrCat("POST /refused HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", 1 << 20,
                  "\r\n\r\n"));
  // More than the socket's buffer: the server has to take it.
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(Send(fd, std::string(1 << 16, 'x'))) << i;
  EXPECT_EQ(StatusOf(ReadAll(fd)), "403");
}

TEST_F(HttpServerTest, AClientThatTricklesItsHeadIsClosedAsIfItSentNothing) {
  Start({.first_head = kShort});
  const int silent = Connect();
  const int slow = Connect();
  // As long as the server listens, one more byte.
  while (!IsClosedWithin(slow, 5)) Send(slow, "G");
  EXPECT_EQ(ReadAll(slow), "");
  EXPECT_EQ(ReadAll(silent), "");
  EXPECT_EQ(TimedOut(), 2u);
}

TEST_F(HttpServerTest, AClientThatTricklesItsBodyOrLeavesAConnectionIdleIsClosed) {
  Start({.next_head = kShort, .body = kShort});
  const std::string begun =
      Ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(begun, "");
  const std::string idle = Ask("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(BodyOf(idle), "GET /a 0");
  EXPECT_EQ(TimedOut(), 2u);
}

TEST_F(HttpServerTest, AClientThatDoesNotReadItsResponseIsClosed) {
  Start({.write = kShort});
  const int fd = Connect();
  ASSERT_TRUE(Send(fd, "GET /large HTTP/1.1\r\n" + kClose));
  ASSERT_TRUE(IsClosedWithin(fd, 20'000));
  EXPECT_LT(ReadAll(fd).size(), size_t{32 << 20});
}

TEST_F(HttpServerTest, WhatIsNotAnsweredInTimeIsRefusedAndLateAnswersAreDropped) {
  Start({.answer = kShort});
  const int fd = Connect();
  ASSERT_TRUE(Send(fd, "GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  char bytes[4096];
  const ssize_t got = read(fd, bytes, sizeof bytes);
  ASSERT_GT(got, 12);
  EXPECT_EQ(StatusOf(std::string(bytes, static_cast<size_t>(got))), "504");
  {
    std::lock_guard lock(mutex_);
    unanswered_.front()(JsonResponse("late"));
  }
  ASSERT_TRUE(Send(fd, "GET /next HTTP/1.1\r\n" + kClose));
  const std::string next = ReadAll(fd);
  EXPECT_EQ(next.find("late"), std::string::npos);
  EXPECT_NE(next.find("GET /next 0"), std::string::npos);
}

TEST_F(HttpServerTest, ForANewClientTheOneThatIdlesLongestIsClosed) {
  Start({.first_head = kLong}, 8);
  const int asking = Connect();
  ASSERT_TRUE(Send(asking, "GET /never HTTP/1.1\r\n" + kClose));
  {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [this] { return !unanswered_.empty(); });
  }
  std::vector<int> silent;
  for (int i = 0; i < 500; ++i) silent.push_back(Connect());
  EXPECT_EQ(StatusOf(Ask("GET / HTTP/1.1\r\n" + kClose)), "200");
  const Server::Counts counts = server_->Read();
  EXPECT_LE(counts.connections, 8u);
  EXPECT_GE(counts.turned_away, 490u);
  EXPECT_EQ(ReadAll(silent.front()), "");
  for (size_t i = 1; i < silent.size(); ++i) close(silent[i]);
  // A request that waits for its answer is not idle.
  unanswered_.front()(JsonResponse("at last"));
  EXPECT_EQ(BodyOf(ReadAll(asking)), "at last");
}

TEST_F(HttpServerTest, AStreamSaysWhatThereIsAndAliveWhileThereIsNothing) {
  Start({.first_head = kLong, .heartbeat = kShort});
  const int fd = Connect();
  ASSERT_TRUE(Send(fd, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  ASSERT_TRUE(ReadUntil(fd, "Content-Type: text/event-stream\r\n\r\n"));
  Tell("data: one\n\n");
  ASSERT_TRUE(ReadUntil(fd, "data: one\n\n"));
  ASSERT_TRUE(ReadUntil(fd, ": alive\n\n"));
  Tell("data: two\n\n");
  ASSERT_TRUE(ReadUntil(fd, "data: two\n\n"));
  close(fd);
}

TEST_F(HttpServerTest, AFloodOfNewsIsToldInRounds) {
  Start({.first_head = kLong, .pace = kLong});
  const int fd = Connect();
  ASSERT_TRUE(Send(fd, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  ASSERT_TRUE(ReadUntil(fd, "Content-Type: text/event-stream\r\n\r\n"));
  // Each answer shows that the server's thread has done what came before.
  const auto settle = [&] { EXPECT_EQ(StatusOf(Ask("GET / HTTP/1.1\r\n" + kClose)), "200"); };
  settle();
  Tell("data: one\n\n");
  ASSERT_TRUE(ReadUntil(fd, "data: one\n\n"));
  settle();
  Tell("data: two\n\n");
  settle();
  char byte = 0;
  EXPECT_EQ(recv(fd, &byte, 1, MSG_DONTWAIT), -1) << "the next round is not due";
  close(fd);
}

TEST_F(HttpServerTest, StreamsTakeHalfOfTheConnectionsAtMostAndGiveThemBack) {
  Start({.first_head = kLong}, 8);
  const std::string ask = "GET /stream HTTP/1.1\r\n" + kClose;
  std::vector<int> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(Connect());
    ASSERT_TRUE(Send(streams.back(), ask));
    ASSERT_TRUE(ReadUntil(streams.back(), "\r\n\r\n"));
  }
  EXPECT_EQ(StatusOf(Ask(ask)), "429");
  for (const int fd : streams) close(fd);
  // The server sees them leave before it sees this.
  EXPECT_EQ(StatusOf(Ask("GET / HTTP/1.1\r\n" + kClose)), "200");
  const int again = Connect();
  ASSERT_TRUE(Send(again, ask));
  EXPECT_TRUE(ReadUntil(again, "200 OK"));
  close(again);
}

TEST_F(HttpServerTest, WhoHasAllStreamsGivesTheOldestUpForAnother) {
  Start({.first_head = kLong}, 8);
  const auto ask = [](const std::string& caller) {
    return StrCat("GET /stream HTTP/1.1\r\nX-Caller: ", caller, "\r\n", kClose);
  };
  std::vector<int> greedy;
  for (int i = 0; i < 4; ++i) {
    greedy.push_back(Connect());
    ASSERT_TRUE(Send(greedy.back(), ask("greedy")));
    ASSERT_TRUE(ReadUntil(greedy.back(), "\r\n\r\n"));
  }
  const std::string refused = Ask(ask("greedy"));
  EXPECT_EQ(StatusOf(refused), "429");
  EXPECT_NE(refused.find("greedy has 4 of the 4 event streams"), std::string::npos) << refused;
  EXPECT_NE(refused.find("close a page"), std::string::npos) << refused;
  const int other = Connect();
  ASSERT_TRUE(Send(other, ask("other")));
  EXPECT_TRUE(ReadUntil(other, "200 OK"));
  EXPECT_EQ(ReadAll(greedy.front()), "") << "its oldest ends";
  for (size_t i = 1; i < greedy.size(); ++i) EXPECT_FALSE(IsClosedWithin(greedy[i], 0));
  for (size_t i = 1; i < greedy.size(); ++i) close(greedy[i]);
  close(other);
}

TEST_F(HttpServerTest, WhoReadsNoResponseLeavesTheOthersTheirs) {
  Start({.write = kLong}, 32);
  const auto ask = [](const std::string& caller, const std::string& target) {
    return StrCat("GET ", target, " HTTP/1.1\r\nX-Caller: ", caller, "\r\n", kClose);
  };
  std::vector<int> unread;
  for (int i = 0; i < 3; ++i) {
    unread.push_back(Connect());
    ASSERT_TRUE(Send(unread.back(), ask("greedy", "/never")));
  }
  {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [this] { return unanswered_.size() == 3; });
  }
  // 96 MiB, more than the server holds of all.
  for (const Respond& respond : unanswered_) respond(JsonResponse(std::string(32 << 20, 'x')));
  for (const int fd : unread) ASSERT_TRUE(ReadUntil(fd, "HTTP/1.1"));
  const std::string refused = Ask(ask("greedy", "/"));
  EXPECT_EQ(StatusOf(refused), "429") << refused;
  EXPECT_NE(refused.find("read the pending responses"), std::string::npos) << refused;
  const std::string body =
      StrCat("POST / HTTP/1.1\r\nX-Caller: other\r\nContent-Length: 2097152\r\n", kClose,
             std::string(kBodyBytesMax, 'x'));
  EXPECT_EQ(StatusOf(Ask(body)), "200");
  for (const int fd : unread) close(fd);
}

TEST_F(HttpServerTest, StopsWithRequestsUnderWayAndIgnoresTheirAnswers) {
  Start({});
  const int fd = Connect();
  ASSERT_TRUE(Send(fd, "GET /never HTTP/1.1\r\n" + kClose));
  {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [this] { return !unanswered_.empty(); });
  }
  server_->Stop();
  EXPECT_EQ(ReadAll(fd), "");
  unanswered_.front()(JsonResponse("too late"));
  server_.reset();
  unanswered_.front()(JsonResponse("much too late"));
}

}  // namespace
}  // namespace muster::coordinator::http
