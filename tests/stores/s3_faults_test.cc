// S3 behind a network and a server that fail in all ways that its documentation names: what was asked is done or
// reported, and never twice or by half. A real SeaweedFS behind a proxy; what that does not do, a scripted server.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/http/transfers.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/s3/objects.h"
#include "coordinator/s3/retry.h"
#include "tests/stores/fault_proxy.h"
#include "tests/stores/object_servers.h"
#include "tests/support/scripted_server.h"

namespace muster::coordinator {
namespace {

using absl::StatusCode;
using common::StrCat;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Fault;
using testing::FaultProxy;
using testing::HttpAnswer;
using testing::ScriptedServer;
using testing::ServedRequest;

Fault Answers(const std::string& status, const std::string& code) {
  return {.answer = HttpAnswer(
              status, code.empty() ? "" : StrCat("<Error><Code>", code, "</Code></Error>"))};
}

class ShiftedClock final : public common::Clock {
 public:
  explicit ShiftedClock(int64_t shift_ms) : shift_ms_(shift_ms) {}
  common::Now Read() const override {
    common::Now now = common::SystemClock().Read();
    now.wall_ms += shift_ms_;
    return now;
  }

 private:
  const int64_t shift_ms_;
};

s3::ClientOptions Quick(s3::ClientOptions options) {
  options.retry.first = milliseconds(5);
  options.retry.most = milliseconds(20);
  options.retry.within = seconds(20);
  options.silent_for = seconds(1);
  return options;
}

class S3Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SeaweedFs().skipped.empty()) GTEST_SKIP() << SeaweedFs().skipped;
    proxy_ = std::make_unique<FaultProxy>(SeaweedFs().port);
    static std::atomic<int> number = 0;
    prefix_ = StrCat("faults-", ++number);
    store_ = *s3::S3Objects::Open(Quick(OptionsOf(proxy_->port(), prefix_)));
  }
  std::string All(const std::string& key) {
    return store_->Read(key, {.size = Objects::kReadBytesMax}).value_or("(error)");
  }

  std::unique_ptr<FaultProxy> proxy_;
  std::string prefix_;
  std::unique_ptr<Objects> store_;
};

TEST_F(S3Faults, ThatPassArePassedOver) {
  const std::string bytes(300'000, 'p');
  const std::vector<Fault> faults = {
      Answers("500 Internal Server Error", "InternalError"),
      Answers("500 Internal Server Error", ""),
      Answers("503 Service Unavailable", "SlowDown"),
      Answers("502 Bad Gateway", ""),
      Answers("504 Gateway Timeout", ""),
      Answers("400 Bad Request", "RequestTimeout"),
      {.answer = "HTTP/1.1 503 Slow"},
      {.body_bytes = 0, .then = Fault::Then::kReset, .with_head = false},
      {.body_bytes = 0, .then = Fault::Then::kClose, .with_head = false}};
  proxy_->Plan(faults);
  const absl::Status put = store_->Put("a", std::string_view(bytes));
  EXPECT_TRUE(put.ok()) << put;
  EXPECT_EQ(proxy_->Left(), 0u);
  proxy_->Plan(faults);
  EXPECT_EQ(All("a"), bytes);
  EXPECT_EQ(proxy_->Left(), 0u);
}

TEST_F(S3Faults, AConnectionIsKeptForTheNextCalls) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(store_->Put(StrCat("k", i), std::string_view("x")).ok());
    EXPECT_EQ(All(StrCat("k", i)), "x");
  }
  EXPECT_EQ(proxy_->Connections(), 1u);
}

TEST_F(S3Faults, BodiesThatAreCutAreReadOnFromThere) {
  std::string bytes(2'000'000, ' ');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('a' + i * 7 / 3 % 23);
  ASSERT_TRUE(store_->Put("a", std::string_view(bytes)).ok());
  proxy_->Plan({{.body_bytes = 100'000, .then = Fault::Then::kClose},
                {.body_bytes = 1, .then = Fault::Then::kReset},
                {.body_bytes = 500'000, .then = Fault::Then::kReset},
                {.body_bytes = 0, .then = Fault::Then::kStall}});
  EXPECT_EQ(All("a"), bytes);
  EXPECT_EQ(proxy_->Left(), 0u);
}

TEST_F(S3Faults, AnAnswerThatIsLostDoesNotMakeAPutFail) {
  proxy_->Plan({{.body_bytes = 0, .then = Fault::Then::kReset, .with_head = false}});
  const absl::Status put = store_->Put("a", std::string_view("mine"));
  EXPECT_TRUE(put.ok()) << "it was put by the first try: " << put;
  EXPECT_EQ(All("a"), "mine");
  proxy_->Plan({Answers("500 Internal Server Error", "InternalError")});
  EXPECT_EQ(store_->Put("a", std::string_view("another's")).code(), StatusCode::kAlreadyExists);
}

// SeaweedFS makes an object of what has arrived.
TEST_F(S3Faults, APutThatBreaksOffIsNotTakenForTheWholeOne) {
  const std::string bytes(200'000, 'w');
  proxy_->Plan({{.request_bytes = 2'000}, {.request_bytes = 150'000}});
  const absl::Status put = store_->Put("a", std::string_view(bytes));
  EXPECT_TRUE(put.ok()) << put;
  EXPECT_EQ(proxy_->Left(), 0u);
  EXPECT_TRUE(All("a") == bytes);
}

TEST_F(S3Faults, AnAnswerThatIsLostDoesNotMakeACompletionFail) {
  const auto upload = store_->BeginUpload("a");
  ASSERT_TRUE(upload.ok()) << upload.status();
  const auto part = store_->PutPart(*upload, 1, std::string_view("bytes"));
  proxy_->Plan({{.body_bytes = 0, .then = Fault::Then::kReset, .with_head = false}});
  const absl::Status completed = store_->Complete(*upload, {*part});
  EXPECT_TRUE(completed.ok()) << completed;
  EXPECT_EQ(All("a"), "bytes");
}

TEST_F(S3Faults, AStoreThatIsDownIsReportedInTime) {
  s3::ClientOptions options = Quick(OptionsOf(1, ""));
  options.retry.within = milliseconds(300);
  const auto store = *s3::S3Objects::Open(options);
  const auto begun = std::chrono::steady_clock::now();
  const absl::Status put = store->Put("a", std::string_view("x"));
  EXPECT_EQ(put.code(), StatusCode::kUnavailable) << put;
  EXPECT_NE(put.message().find("127.0.0.1:1"), std::string::npos) << put;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(10));
}

TEST_F(S3Faults, ACoordinatorThatStopsDoesNotWait) {
  std::atomic<bool> stop = false;
  s3::ClientOptions options = Quick(OptionsOf(1, ""));
  options.stop = &stop;
  options.retry = {.within = seconds(300)};
  const auto store = *s3::S3Objects::Open(options);
  std::thread stopper([&stop] { stop = true; });
  EXPECT_EQ(store->Put("a", std::string_view("x")).code(), StatusCode::kCancelled);
  stopper.join();
}

TEST_F(S3Faults, WrongCredentialsAreToldWithTheFixAndWithoutTheSecret) {
  for (const auto& [key, secret] :
       {std::pair{kServerKey, "wrong-secret"}, std::pair{"nobody's", kServerSecret}}) {
    s3::ClientOptions options = Quick(OptionsOf(SeaweedFs().port, prefix_));
    options.environment = [key = key, secret = secret](const char* name) -> std::string {
      if (name == std::string_view("AWS_ACCESS_KEY_ID")) return key;
      return name == std::string_view("AWS_SECRET_ACCESS_KEY") ? secret : "";
    };
    const auto store = *s3::S3Objects::Open(options);
    const absl::Status put = store->Put("a", std::string_view("x"));
    EXPECT_EQ(put.code(), StatusCode::kPermissionDenied) << put;
    EXPECT_EQ(common::CodeOf(put), "JC1640");
    EXPECT_NE(common::ProblemOf(put).fix.find("AWS_ACCESS_KEY_ID"), std::string::npos);
    EXPECT_EQ(put.ToString().find(secret), std::string::npos);
    EXPECT_EQ(store->Head("a").status().code(), StatusCode::kPermissionDenied);
  }
}

TEST_F(S3Faults, ABucketThatIsNotThereIsNamed) {
  s3::ClientOptions options = Quick(OptionsOf(SeaweedFs().port, ""));
  options.address.bucket = "no-such-bucket";
  const auto store = *s3::S3Objects::Open(options);
  const absl::Status listed = store->List("", "").status();
  EXPECT_EQ(listed.code(), StatusCode::kFailedPrecondition) << listed;
  EXPECT_NE(listed.message().find("no-such-bucket"), std::string::npos) << listed;
}

TEST_F(S3Faults, AClockThatIsTwentyMinutesWrongIsCorrected) {
  for (const int64_t shift_ms : {-1'200'000, 1'200'000}) {
    const ShiftedClock clock(shift_ms);
    s3::ClientOptions options = Quick(OptionsOf(SeaweedFs().port, prefix_));
    options.clock = &clock;
    const auto store = *s3::S3Objects::Open(options);
    const std::string key = shift_ms < 0 ? "behind" : "ahead";
    const absl::Status put = store->Put(key, std::string_view("x"));
    EXPECT_TRUE(put.ok()) << put;
    EXPECT_EQ(store->Head(key)->size, 1u);
    const auto url = store->PresignGet(key, seconds(60));
    ASSERT_TRUE(url.ok()) << url.status();
    const auto transfers = *common::Transfers::Open("");
    EXPECT_EQ(transfers->Run({.url = url->url})->body, "x");
  }
}

TEST_F(S3Faults, APresignedUrlThatHasExpiredIsRefused) {
  ASSERT_TRUE(store_->Put("a", std::string_view("x")).ok());
  const ShiftedClock clock(-120'000);
  s3::ClientOptions options = Quick(OptionsOf(SeaweedFs().port, prefix_));
  options.clock = &clock;
  const auto store = *s3::S3Objects::Open(options);
  const auto transfers = *common::Transfers::Open("");
  const auto expired = store->PresignGet("a", seconds(60));
  const auto valid = store->PresignGet("a", seconds(600));
  EXPECT_EQ(transfers->Run({.url = expired->url})->status, 403);
  EXPECT_EQ(transfers->Run({.url = valid->url})->body, "x");
}

// What S3 does and SeaweedFS does not.
class S3Scripted : public ::testing::Test {
 protected:
  std::unique_ptr<Objects> Open(const ScriptedServer& server, std::string_view more = "") {
    s3::ClientOptions options = Quick(OptionsOf(server.port(), "p"));
    options.address = *s3::ParseAddress(StrCat("s3://runs/p?endpoint=", server.Url(), more));
    return *s3::S3Objects::Open(options);
  }
};

TEST_F(S3Scripted, ATimeThatIsTooFarIsSignedAgainWithTheServers) {
  std::vector<std::string> dates;
  ScriptedServer server([&dates](const ServedRequest& request) {
    dates.push_back(request.head.substr(request.head.find("x-amz-date: ") + 12, 16));
    if (dates.back() == "20300101T000000Z") return HttpAnswer("200 OK", "");
    return HttpAnswer("403 Forbidden", "<Error><Code>RequestTimeTooSkewed</Code></Error>",
                      "Date: Tue, 01 Jan 2030 00:00:00 GMT\r\n");
  });
  // The clock stands still, so that the test does not depend on how fast it runs.
  struct Still final : common::Clock {
    common::Now Read() const override { return {.wall_ms = 1'700'000'000'000}; }
  } still;
  s3::ClientOptions options = Quick(OptionsOf(server.port(), "p"));
  options.clock = &still;
  const auto store = *s3::S3Objects::Open(options);
  EXPECT_TRUE(store->Put("a", std::string_view("x")).ok());
  EXPECT_TRUE(store->Put("b", std::string_view("x")).ok());
  EXPECT_EQ(dates.size(), 3u);
}

TEST_F(S3Scripted, ATwoHundredWithAnErrorIsAnError) {
  int completions = 0;
  ScriptedServer server([&completions](const ServedRequest& request) {
    if (request.method == "HEAD")
      return std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n");
    ++completions;
    if (completions < 3) return HttpAnswer("200 OK", "<Error><Code>InternalError</Code></Error>");
    return HttpAnswer("200 OK", "<CompleteMultipartUploadResult/>");
  });
  EXPECT_TRUE(
      Open(server)->Complete({.key = "a", .id = "u"}, {{.number = 1, .size = 1, .tag = "t"}}).ok());
  EXPECT_EQ(completions, 3);
}

TEST_F(S3Scripted, ACompletedObjectOfAnotherSizeIsDamage) {
  ScriptedServer server([](const ServedRequest& request) {
    if (request.method == "HEAD")
      return std::string("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n");
    return HttpAnswer("200 OK", "<CompleteMultipartUploadResult/>");
  });
  EXPECT_EQ(Open(server)
                ->Complete({.key = "a", .id = "u"}, {{.number = 1, .size = 1, .tag = "t"}})
                .code(),
            StatusCode::kDataLoss);
}

TEST_F(S3Scripted, AStoreThatRefusesConditionsIsAskedWithout) {
  ScriptedServer server([](const ServedRequest& request) {
    if (request.head.find("if-none-match") != std::string::npos)
      return HttpAnswer("501 Not Implemented", "<Error><Code>NotImplemented</Code></Error>");
    return HttpAnswer("200 OK", "");
  });
  const auto store = Open(server);
  EXPECT_TRUE(store->Put("a", std::string_view("x")).ok());
  EXPECT_TRUE(store->Put("b", std::string_view("x")).ok());
  EXPECT_EQ(server.Asked().size(), 3u);
}

TEST_F(S3Scripted, ARedirectIsNotFollowed) {
  ScriptedServer server([](const ServedRequest&) {
    return HttpAnswer("307 Temporary Redirect", "<Error><Code>TemporaryRedirect</Code></Error>",
                      "Location: http://127.0.0.1:1/x\r\n");
  });
  const absl::Status put = Open(server)->Put("a", std::string_view("x"));
  EXPECT_EQ(put.code(), StatusCode::kFailedPrecondition) << put;
  EXPECT_EQ(server.Asked().size(), 1u);
}

TEST_F(S3Scripted, AnswersToRangesThatAreNotTheRangeAreRefused) {
  std::string answer;
  ScriptedServer server([&answer](const ServedRequest&) { return answer; });
  const auto store = Open(server);
  const auto read = [&store] { return store->Read("a", {.offset = 4, .size = 4}).status().code(); };
  answer = HttpAnswer("200 OK", "01234567");
  EXPECT_EQ(read(), StatusCode::kFailedPrecondition);
  answer = HttpAnswer("200 OK", std::string(5 << 20, 'x'));
  EXPECT_EQ(read(), StatusCode::kFailedPrecondition);
  answer = HttpAnswer("206 Partial Content", "0123", "Content-Range: bytes 0-3/8\r\n");
  EXPECT_EQ(read(), StatusCode::kFailedPrecondition);
  answer = HttpAnswer("206 Partial Content", "4567890", "Content-Range: bytes 4-10/11\r\n");
  EXPECT_EQ(read(), StatusCode::kDataLoss);
  answer = HttpAnswer("206 Partial Content", "4567", "Content-Range: bytes 4-7/8\r\n");
  EXPECT_EQ(read(), StatusCode::kOk);
}

TEST_F(S3Scripted, PagesAreFollowedAndOthersObjectsLeftOut) {
  ScriptedServer server([](const ServedRequest& request) {
    const bool is_first = request.target.find("marker=&") != std::string::npos;
    const std::string truncated =
        StrCat("<IsTruncated>", is_first ? "true" : "false", "</IsTruncated>");
    const std::string names =
        is_first
            ? "<Contents><Key>p/a</Key><Size>1</Size></Contents><Contents><Key>p/%2Fodd+name</Key>"
              "<Size>1</Size></Contents>"
            : "<Contents><Key>p/z</Key><Size>2</Size></Contents>";
    return HttpAnswer("200 OK", StrCat("<ListBucketResult><EncodingType>url</EncodingType>",
                                       truncated, names, "</ListBucketResult>"));
  });
  const auto store = Open(server);
  const auto first = store->List("", "");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->objects.size(), 1u);
  EXPECT_EQ(first->objects[0].key, "a");
  EXPECT_EQ(first->next, "p//odd+name");
  const auto second = store->List("", first->next);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->objects[0].key, "z");
  EXPECT_EQ(second->next, "");
}

TEST_F(S3Scripted, WhatIsPutIsEncryptedAsToldAndObsGetsWhatItKnows) {
  std::string head;
  ScriptedServer server([&head](const ServedRequest& request) {
    head = request.head;
    return HttpAnswer("200 OK", "<DeleteResult/>");
  });
  EXPECT_TRUE(Open(server, "&sse=aws:kms&kms-key=k1")->Put("a", std::string_view("x")).ok());
  EXPECT_NE(head.find("x-amz-server-side-encryption: aws:kms\r\n"), std::string::npos) << head;
  EXPECT_NE(head.find("x-amz-server-side-encryption-aws-kms-key-id: k1\r\n"), std::string::npos)
      << head;
  EXPECT_TRUE(Open(server)->Delete({"a"}).ok());
  EXPECT_NE(head.find("content-md5: "), std::string::npos) << head;
  for (const char* unknown : {"aws-chunked", "x-amz-checksum", "x-amz-sdk"})
    EXPECT_EQ(head.find(unknown), std::string::npos);
}

TEST(S3Retry, WaitsLongerEachTimeAndEnds) {
  s3::Retry retry({.first = milliseconds(1), .most = milliseconds(4), .within = milliseconds(60)},
                  nullptr);
  int tries = 0;
  while (retry.Again()) ++tries;
  EXPECT_GT(tries, 5);
  s3::Retry slow({.first = milliseconds(1), .most = milliseconds(1), .within = milliseconds(20)},
                 nullptr);
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < begun + milliseconds(25)) std::this_thread::yield();
  EXPECT_TRUE(slow.Again()) << "a first try may take longer than all later ones";
  std::atomic<bool> stop = true;
  s3::Retry stopped({.first = seconds(100), .most = seconds(100), .within = seconds(1'000)}, &stop);
  EXPECT_FALSE(stopped.Again());
}

}  // namespace
}  // namespace muster::coordinator
