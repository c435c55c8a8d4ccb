// HTTP of a coordinator that stands by: where it sends requests, and what it answers itself.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "coordinator/http/admission/guard.h"
#include "coordinator/http/http_standby.h"
#include "coordinator/http/standby_site.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator::http {
namespace {

constexpr int64_t kSeenMs = 1'000'000;
const Peer kFromNetwork = {.principal = "peer:10.0.0.7", .local_address = "10.0.0.1"};
const Peer kFromLoopback = {.principal = "peer:127.0.0.1", .local_address = "127.0.0.1"};

class StillClock final : public common::Clock {
 public:
  common::Now Read() const override { return {.mono_ms = mono_ms, .wall_ms = 1'790'000'000'000}; }
  int64_t mono_ms = kSeenMs;
};

class StandbySiteTest : public ::testing::Test {
 protected:
  StandbySiteTest() {
    view_.seen_ms = kSeenMs;
    view_.leader.set_name("h2");
    view_.leader.set_http("h2.example:7701");
    for (const auto& [name, position] : {std::pair("h1", 41), std::pair("h2", 42)}) {
      v1::HeadRecord& head = view_.heads.emplace_back();
      head.set_name(name);
      head.set_position(position);
    }
  }

  StandbySite& Site() {
    if (site_ != nullptr) return *site_;
    site_ = std::make_unique<StandbySite>(StandbySite::Options{
        .name = "h1",
        .host_names = {"jobs.example"},
        .is_encrypted = is_encrypted_,
        .authority_pem = "AUTHORITY",
        .view = [this] { return view_; },
        .secrets = [this]() -> absl::StatusOr<Sessions::Secrets> { return secrets_; },
        .counts = [] { return Server::Counts(); },
        .clock = clock_});
    return *site_;
  }

  static RequestHead Head(std::string method, std::string target, Fields fields = {},
                          Peer peer = kFromNetwork) {
    if (CountFields(fields, "host") == 0) fields.emplace_back("host", "jobs.example:7701");
    return {.peer = std::move(peer),
            .method = std::move(method),
            .target = std::move(target),
            .fields = std::move(fields)};
  }
  static std::string FieldIn(const Response& response, std::string_view name) {
    for (const auto& [field, value] : response.fields) {
      if (field == name) return value;
    }
    return "";
  }
  Response Ask(const RequestHead& head) {
    std::optional<Response> answer = Site().Check(head);
    if (answer.has_value()) return *std::move(answer);
    std::mutex mutex;
    std::condition_variable came;
    Site().Handle({.head = head, .body = ""}, [&](Response response) {
      std::lock_guard lock(mutex);
      answer = std::move(response);
      came.notify_all();
    });
    std::unique_lock lock(mutex);
    came.wait(lock, [&] { return answer.has_value(); });
    return *std::move(answer);
  }
  Response Get(std::string target) { return Ask(Head("GET", std::move(target))); }
  // Where a request of the leader's addresses is sent; empty: nowhere, with 503.
  std::string SentTo(const std::string& http, const Peer& peer = kFromNetwork) {
    view_.leader.set_http(http);
    const Response response = Ask(Head("GET", "/jobs/7?tab=logs", {}, peer));
    const std::string to = FieldIn(response, "Location");
    EXPECT_EQ(response.status, to.empty() ? 503u : 307u) << http;
    EXPECT_EQ(FieldIn(response, "Retry-After").empty(), !to.empty()) << http;
    return to;
  }

  StillClock clock_;
  bool is_encrypted_ = false;
  HeadsView view_;
  absl::StatusOr<Sessions::Secrets> secrets_ =
      Sessions::Secrets{.token = std::string(64, 'a'), .metrics_token = std::string(64, 'b')};
  std::unique_ptr<StandbySite> site_;
};

TEST_F(StandbySiteTest, APageIsSentToTheLeadersSameAddress) {
  const Response page = Get("/jobs/train%207?tab=logs&x=%2F");
  EXPECT_EQ(page.status, 307u);
  EXPECT_EQ(FieldIn(page, "Location"), "http://h2.example:7701/jobs/train%207?tab=logs&x=%2F");
  EXPECT_NE(page.content_type.find("text/html"), std::string::npos);
  EXPECT_NE(page.body.find("h2 leads, at http://h2.example:7701"), std::string::npos) << page.body;
}

TEST_F(StandbySiteTest, ACallIsSentThereToo_WithTheErrorThatGrpcHas) {
  is_encrypted_ = true;
  const Response call = Ask(Head("POST", "/api/v1/CancelJobs", {{"content-length", "16"}}));
  EXPECT_EQ(call.status, 307u);
  EXPECT_EQ(FieldIn(call, "Location"), "https://h2.example:7701/api/v1/CancelJobs");
  EXPECT_EQ(call.content_type, "application/json");
  EXPECT_NE(call.body.find("\"code\":\"JC1630\""), std::string::npos) << call.body;
  EXPECT_NE(call.body.find("\"what\":\"the coordinator h1 stands by\""), std::string::npos);
  EXPECT_NE(call.body.find("\"status\":307"), std::string::npos) << call.body;
}

TEST_F(StandbySiteTest, WithoutAKnownLeaderTheAnswerIsToAskAgain) {
  view_.leader.clear_name();
  for (const char* target : {"/", "/api/v1/ListJobs", "/events"}) {
    const Response response = Get(target);
    EXPECT_EQ(response.status, 503u) << target;
    EXPECT_EQ(FieldIn(response, "Location"), "") << target;
    EXPECT_EQ(FieldIn(response, "Retry-After"), "2") << target;
    EXPECT_NE(response.body.find("none leads at the moment"), std::string::npos) << target;
  }
  EXPECT_EQ(FieldIn(Get("/"), "Refresh"), "2");  // a person need not press a key
}

TEST_F(StandbySiteTest, ARecordThatNamesThisCoordinatorIsNotFollowed) {
  view_.leader.set_name("h1");
  EXPECT_EQ(SentTo("h1.example:7701"), "");
}

TEST_F(StandbySiteTest, AnOldViewIsNotFollowed) {
  clock_.mono_ms = kSeenMs + kViewFreshMs - 1;
  EXPECT_NE(SentTo("h2:7701"), "");
  clock_.mono_ms = kSeenMs + kViewFreshMs;
  EXPECT_EQ(SentTo("h2:7701"), "");
}

TEST_F(StandbySiteTest, NoRecordSendsABrowserAnywhereButToAHostAndAPort) {
  const std::string rest = "/jobs/7?tab=logs";
  EXPECT_EQ(SentTo("h2:7701"), "http://h2:7701" + rest);
  EXPECT_EQ(SentTo("H2.Example:80"), "http://h2.example:80" + rest);
  EXPECT_EQ(SentTo("10.0.0.2:7701"), "http://10.0.0.2:7701" + rest);
  EXPECT_EQ(SentTo("[fd00::2]:7701"), "http://[fd00::2]:7701" + rest);
  for (const char* wrong : {"",
                            "h2",
                            ":7701",
                            "h2:",
                            "h2:0",
                            "h2:65536",
                            "h2:0801",
                            "h2:7701/",
                            "h2:7701@evil.example",
                            "me@evil.example:80",
                            "evil.example:80/x:1",
                            "h2:7701\r\nSet-Cookie: a=b:1",
                            "h2 evil:7701",
                            "//evil.example:80",
                            "http://evil.example:80",
                            "evil.example#:80",
                            "evil.example?:80",
                            "evil\\example:80",
                            "fd00::2:7701",
                            "[fd00::2:7701",
                            "[fd00::2]7701"})
    EXPECT_EQ(SentTo(wrong), "") << wrong;
  // The zone is not shown.
  EXPECT_EQ(SentTo("[fe80::1%/@evil.example]:7701"), "http://[fe80::1]:7701" + rest);
}

TEST_F(StandbySiteTest, TheLeadersLoopbackIsForClientsOnItsMachine) {
  EXPECT_EQ(SentTo("127.0.0.1:7701"), "");
  EXPECT_EQ(SentTo("127.0.0.1:7701", kFromLoopback), "http://127.0.0.1:7701/jobs/7?tab=logs");
  EXPECT_EQ(SentTo("[::1]:7701"), "");
}

TEST_F(StandbySiteTest, ARequestThatWasSentToThatAddressAlreadyIsNotSentInACircle) {
  EXPECT_EQ(SentTo("jobs.example:7701"), "");
  EXPECT_EQ(SentTo("jobs.example:7702"), "http://jobs.example:7702/jobs/7?tab=logs");
  // A browser leaves out its scheme's port.
  view_.leader.set_http("jobs.example:443");
  EXPECT_EQ(Ask(Head("GET", "/", {{"host", "jobs.example"}})).status, 503u);
}

TEST_F(StandbySiteTest, OnlyALeaderIsALeader) {
  const Response response = Get("/leader");
  EXPECT_EQ(response.status, 503u);
  EXPECT_EQ(FieldIn(response, "Location"), "");
  EXPECT_NE(response.body.find("JC1630"), std::string::npos);
  EXPECT_EQ(Ask(Head("HEAD", "/leader")).status, 503u);
  EXPECT_EQ(Ask(Head("POST", "/leader")).status, 405u);
}

TEST_F(StandbySiteTest, ItIsAliveAndReadyToTakeOver) {
  EXPECT_EQ(Get("/healthz").body, "alive\n");
  EXPECT_EQ(Get("/readyz").status, 200u);
  EXPECT_EQ(Get("/readyz").body, "ready\nstands by\n");
  view_.leader.clear_name();  // it is not this one that fails
  EXPECT_EQ(Get("/readyz").status, 200u);
  clock_.mono_ms += kViewFreshMs;
  EXPECT_EQ(Get("/healthz").status, 200u);
  EXPECT_EQ(Get("/readyz").status, 503u);
  EXPECT_NE(Get("/readyz").body.find("etcd"), std::string::npos);
}

TEST_F(StandbySiteTest, WhatIsAddressedToOthersOrComesFromAForeignPageIsRefused) {
  EXPECT_EQ(Ask(Head("GET", "/", {{"host", "evil.example"}})).status, 421u);
  EXPECT_EQ(Ask(Head("GET", "/leader", {{"host", "evil.example"}})).status, 421u);
  EXPECT_EQ(Ask(Head("GET", "/", {{"host", "a"}, {"host", "a"}})).status, 400u);
  EXPECT_EQ(Ask(Head("GET", "//x#y")).status, 400u);
  const Fields foreign = {{"origin", "http://evil.example"}};
  EXPECT_EQ(Ask(Head("POST", "/api/v1/CancelJobs", foreign)).status, 403u);
  EXPECT_EQ(Ask(Head("GET", "/events", foreign)).status, 403u);
  EXPECT_EQ(Ask(Head("GET", "//evil.example/x")).status, 307u);
  EXPECT_EQ(FieldIn(Get("//evil.example/x"), "Location"), "http://h2.example:7701//evil.example/x");
}

TEST_F(StandbySiteTest, WhoWantsToJoinIsToldToAskTheOthers) {
  const Response join = Ask(Head("POST", "/enroll/join", {{"content-length", "2"}}));
  EXPECT_EQ(join.status, 503u);
  EXPECT_NE(join.body.find("JC1630"), std::string::npos);
  Peer secure = kFromNetwork;
  secure.is_encrypted = true;
  const Response authority = Ask(Head("GET", "/enroll/ca", {}, secure));
  EXPECT_EQ(authority.status, 200u);
  EXPECT_EQ(authority.body, "AUTHORITY");
  EXPECT_EQ(Get("/enroll/ca").status, 503u);
}

TEST_F(StandbySiteTest, MetricsNeedATokenAndTellTheRole) {
  EXPECT_EQ(Get("/metrics").status, 401u);
  const auto scrape = [&](char token, std::string accept = "") {
    return Ask(Head("GET", "/metrics",
                    {{"authorization", "Bearer " + std::string(64, token)}, {"accept", accept}}));
  };
  EXPECT_EQ(scrape('c').status, 401u);
  EXPECT_EQ(scrape('a').status, 200u);
  const Response page = scrape('b');
  EXPECT_EQ(page.status, 200u);
  for (const char* line : {"# TYPE muster_head_leads gauge\nmuster_head_leads 0\n",
                           "# TYPE muster_head_position gauge\nmuster_head_position 41\n",
                           "muster_http_responses_total{status=\"401\"} 2\n", "muster_build_info{"})
    EXPECT_NE(page.body.find(line), std::string::npos) << line << page.body;
  EXPECT_TRUE(scrape('b', "application/openmetrics-text;version=1.0.0").body.ends_with("# EOF\n"));
}

TEST_F(StandbySiteTest, BeforeAnyCoordinatorHasLedThereIsNoTokenYet) {
  const Fields token = {{"authorization", "Bearer " + std::string(64, 'b')}};
  const absl::StatusOr<Sessions::Secrets> later =
      std::exchange(secrets_, absl::NotFoundError("no"));
  EXPECT_EQ(Ask(Head("GET", "/metrics", token)).status, 503u);
  secrets_ = later;
  EXPECT_EQ(Ask(Head("GET", "/metrics", token)).status, 200u);
}

TEST(HttpStandbyTest, AnswersOnItsSocketAndFreesIt) {
  const TempDir dir;
  const std::string path = dir.path() + "/h.sock";
  auto opened =
      HttpStandby::Open({.listen = {"unix:" + path}, .host_names = {}, .data_dir = dir.path()});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->Address(), "");
  (*opened)->Serve({.name = "h1",
                    .advertised = "",
                    .view =
                        [] {
                          HeadsView view{
                              .leader = {}, .heads = {}, .seen_ms = common::MonotonicMs()};
                          view.leader.set_name("h2");
                          view.leader.set_http("h2:7701");
                          return view;
                        },
                    .secrets = [] { return absl::NotFoundError("none"); }});
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  // The body is not waited for: the answer is the same whatever it is.
  const std::string request =
      "POST /api/v1/Submit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
  ASSERT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  shutdown(fd, SHUT_WR);
  std::string all;
  char bytes[4096];
  ssize_t got = 0;
  while ((got = read(fd, bytes, sizeof bytes)) > 0) all.append(bytes, static_cast<size_t>(got));
  close(fd);
  EXPECT_TRUE(all.starts_with("HTTP/1.1 307 ")) << all;
  EXPECT_NE(all.find("Location: http://h2:7701/api/v1/Submit\r\n"), std::string::npos) << all;
  EXPECT_NE(all.find("Cache-Control: no-store"), std::string::npos) << all;
  opened->reset();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace muster::coordinator::http
