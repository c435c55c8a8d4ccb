// Connections to coordinators that replace each other: which one is found, what is reported if none
// leads, and which calls are made again at the next one.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "client/command_line/errors.h"
#include "client/connection/connection.h"
#include "common/problem.h"
#include "tests/client/fake_coordinator.h"
#include "tests/client/fake_head.h"

namespace muster::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kTimeoutMs = 10'000;
constexpr int64_t kBriefMs = 300;

absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& addresses,
                                                 int64_t patience_ms = 20'000) {
  return Connection::Open(addresses, kTimeoutMs, nullptr, patience_ms);
}

// A port at which nothing listens while this lives; with `listens`, connections are made and no one
// ever answers on them.
class Port {
 public:
  explicit Port(bool listens = false) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    if (listens) {
      EXPECT_EQ(listen(fd_, 16), 0);
    }
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~Port() { close(fd_); }
  Port(const Port&) = delete;
  const std::string& address() const { return address_; }

 private:
  int fd_;
  std::string address_;
};

TEST(HeadSearchTest, TheOneThatLeadsIsFoundAmongThoseThatDoNot) {
  const Port dead;
  FakeHead a, b;
  a.StandBy();
  const auto found = Open(dead.address() + "," + a.address() + "," + b.address());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->endpoint(), b.address());
  EXPECT_EQ((*found)->addresses().front(), b.address());
}

TEST(HeadSearchTest, AnyThatAnswersIsFoundAtOnceWhileNoneLeads) {
  const Port dead;
  FakeHead a;
  a.StandBy();
  a.coordinators.set_answered_by("a");
  const auto begin = steady_clock::now();
  const auto found = Connection::OpenToAny(dead.address() + "," + a.address(), kTimeoutMs);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE((*found)->server().stands_by());
  const auto list = (*found)->ListCoordinators(v1::ListCoordinatorsRequest());
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->answered_by(), "a");
  EXPECT_EQ(common::CodeOf((*found)->GetJob("1").status()), "JC1630");
  EXPECT_LT(steady_clock::now() - begin, milliseconds(5'000));
}

TEST(HeadSearchTest, AnAddressAloneIsFollowedToTheOneThatLeads) {
  FakeHead a, b;
  a.StandBy(b.address());
  const auto found = Open(a.address());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->endpoint(), b.address());
}

TEST(HeadSearchTest, HeadsThatOneNamesAreTried) {
  FakeHead a, b;
  a.StandBy();
  a.NameHeads({a.address(), b.address()});
  const auto found = Open(a.address());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->endpoint(), b.address());
}

TEST(HeadSearchTest, WhileAllStandByTheNextLeaderIsWaitedFor) {
  FakeHead a, b;
  a.StandBy();
  b.LeadFrom(4);
  const auto found = Open(a.address() + "," + b.address());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->endpoint(), b.address());
  EXPECT_EQ(b.questions(), 4);
}

TEST(HeadSearchTest, ALeaderThatIsNamedAndDeadIsWaitedFor) {
  const Port dead;
  FakeHead a;
  a.StandBy(dead.address());
  a.LeadFrom(3);
  std::thread later([&] {
    while (a.questions() < 3) std::this_thread::yield();
    a.Lead();
  });
  const auto found = Open(a.address());
  later.join();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->endpoint(), a.address());
}

TEST(HeadSearchTest, IfNoneLeadsTheErrorNamesWhatEachAnswered) {
  const Port dead;
  FakeHead a, b;
  a.StandBy();
  b.StandBy(dead.address());
  const auto begin = steady_clock::now();
  const auto found = Open(a.address() + "," + b.address() + "," + dead.address(), kBriefMs);
  ASSERT_FALSE(found.ok());
  EXPECT_GE(steady_clock::now() - begin, milliseconds(kBriefMs));
  EXPECT_EQ(found.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(common::CodeOf(found.status()), "JC1630");
  EXPECT_EQ(Sentence(found.status()), "none of the coordinators at " + a.address() + ", " +
                                          b.address() + ", " + dead.address() +
                                          " leads: " + a.address() + " stands by; " + b.address() +
                                          " stands by and names " + dead.address() + "; " +
                                          dead.address() + " does not answer (Connection refused)");
}

TEST(HeadSearchTest, IfNoneAnswersThatIsReportedAtOnce) {
  const Port one, other;
  const auto begin = steady_clock::now();
  const auto found = Open(one.address() + "," + other.address());
  ASSERT_FALSE(found.ok());
  EXPECT_LT(steady_clock::now() - begin, milliseconds(5'000));
  EXPECT_EQ(common::CodeOf(found.status()), "JC1301");
  EXPECT_EQ(Sentence(found.status()),
            "none of the coordinators at " + one.address() + ", " + other.address() +
                " answers: " + one.address() + " does not answer (Connection refused); " +
                other.address() + " does not answer (Connection refused)");
}

TEST(HeadSearchTest, ALeaderThatCannotRecordSaysSoAtOnce) {
  FakeHead a, b;
  a.StandBy(b.address());
  b.Refuse(common::MakeProblem(absl::StatusCode::kResourceExhausted,
                               {.code = "JC1605", .what = "etcd has no space left"}));
  const auto found = Open(a.address() + "," + b.address(), 3'600'000);
  EXPECT_EQ(common::CodeOf(found.status()), "JC1605") << found.status();
}

TEST(HeadSearchTest, AnAddressAloneIsNotWaitedFor) {
  const Port dead;
  auto found = Open(dead.address());
  EXPECT_EQ(Sentence(found.status()),
            "the coordinator at " + dead.address() + " does not answer: Connection refused");
  FakeHead a;
  a.StandBy();
  found = Open(a.address());
  EXPECT_EQ(common::CodeOf(found.status()), "JC1630");
  EXPECT_EQ(Sentence(found.status()),
            "the coordinator at " + a.address() + " stands by: none leads at the moment");
  EXPECT_EQ(a.questions(), 1);
}

TEST(HeadSearchTest, OneThatNeverAnswersDelaysNothing) {
  const Port silent(/*listens=*/true);
  FakeHead b;
  const auto begin = steady_clock::now();
  const auto found = Open(silent.address() + "," + b.address());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->endpoint(), b.address());
  EXPECT_LT(steady_clock::now() - begin, milliseconds(kTimeoutMs / 2));
}

TEST(HeadSearchTest, AddressesThatAreNoneAreNotDialed) {
  FakeCoordinator socket;
  FakeHead a;
  a.StandBy(socket.endpoint());
  a.NameHeads({"unix:/nowhere", "dns:" + a.address()});
  const auto found = Open(a.address(), kBriefMs);
  EXPECT_EQ(common::CodeOf(found.status()), "JC1630");
  EXPECT_EQ(a.questions(), 1);
}

TEST(HeadSearchTest, TheCertificateIsCheckedOfEachAddressThatIsDialed) {
  const FakeAuthority ours, theirs;  // of the same name
  FakeHead false_one(theirs.Head(ours.pem())), true_one(ours.Head(ours.pem()));
  const identity::Credentials credentials = ours.Person();
  const auto found = Connection::Open(false_one.address() + "," + true_one.address(), kTimeoutMs,
                                      &credentials, kBriefMs);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->endpoint(), true_one.address());
  EXPECT_EQ(false_one.questions(), 0);
  // One that stands by cannot lead elsewhere, either.
  true_one.StandBy(false_one.address());
  EXPECT_FALSE(Connection::Open(true_one.address(), kTimeoutMs, &credentials, kBriefMs).ok());
  EXPECT_EQ(false_one.questions(), 0);
}

// Two heads, of which the first one leads and then no longer does.
class FailoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    b_.StandBy(a_.address());
    auto opened = Open(a_.address() + "," + b_.address());
    ASSERT_TRUE(opened.ok()) << opened.status();
    connection_ = *std::move(opened);
    ASSERT_EQ(connection_->endpoint(), a_.address());
  }
  void StepDown() {
    a_.StandBy(b_.address());
    b_.Lead();
  }
  // In a call, as Die waits for its handlers.
  grpc::Status BreakAndStepDown() {
    StepDown();
    return FakeHead::Broken();
  }

  FakeHead a_, b_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(FailoverTest, WhatOneThatStandsByDidNotDoIsDoneByTheOneThatLeads) {
  int cancelled = 0;
  b_.on_cancel = [&](const v1::CancelJobsRequest& request, v1::BulkResponse* response) {
    ++cancelled;
    response->add_results()->set_subject(request.jobs(0));
    return grpc::Status::OK;
  };
  StepDown();
  v1::CancelJobsRequest request;
  request.add_jobs("calm-otter-3");
  const auto done = connection_->CancelJobs(request);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->results_size(), 1);
  EXPECT_EQ(cancelled, 1);
  // The next call goes there at once.
  EXPECT_TRUE(connection_->CancelJobs(request).ok());
  EXPECT_EQ(cancelled, 2);
}

TEST_F(FailoverTest, AReadIsMadeAgainWhereTheNextOneLeads) {
  a_.on_list = [&](const v1::ListJobsRequest&, v1::ListJobsResponse*) {
    return BreakAndStepDown();
  };
  b_.on_list = [](const v1::ListJobsRequest&, v1::ListJobsResponse* response) {
    response->set_more(true);
    return grpc::Status::OK;
  };
  const auto jobs = connection_->ListJobs(v1::ListJobsRequest());
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  EXPECT_TRUE(jobs->more());
}

TEST_F(FailoverTest, ASubmitWithAKeyIsMadeAgainAndOneWithoutIsNot) {
  a_.on_submit = [&](const v1::SubmitRequest&, v1::SubmitResponse*) { return BreakAndStepDown(); };
  std::vector<std::string> keys;
  b_.on_submit = [&](const v1::SubmitRequest& request, v1::SubmitResponse*) {
    keys.push_back(request.idempotency_key());
    return grpc::Status::OK;
  };
  v1::SubmitRequest request;
  EXPECT_EQ(common::CodeOf(connection_->Submit(request).status()), "JC1301");
  EXPECT_EQ(keys, std::vector<std::string>());
  // Back to the first.
  b_.StandBy();
  a_.Lead();
  request.set_idempotency_key("once");
  const auto done = connection_->Submit(request);
  EXPECT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(keys, std::vector<std::string>({"once"}));
}

TEST_F(FailoverTest, AChangeWhoseAnswerIsLostIsReportedAndTheNextCallFindsTheLeader) {
  int cancelled = 0;
  a_.on_cancel = [&](const v1::CancelJobsRequest&, v1::BulkResponse*) {
    ++cancelled;
    return BreakAndStepDown();
  };
  b_.on_cancel = [&](const v1::CancelJobsRequest&, v1::BulkResponse*) {
    cancelled += 10;
    return grpc::Status::OK;
  };
  v1::CancelJobsRequest request;
  request.add_jobs("calm-otter-3");
  EXPECT_EQ(common::CodeOf(connection_->CancelJobs(request).status()), "JC1301");
  EXPECT_EQ(cancelled, 1);
  EXPECT_TRUE(connection_->CancelJobs(request).ok());
  EXPECT_EQ(cancelled, 11);
}

TEST_F(FailoverTest, AStreamThatHasNotBegunIsOpenedAgainAndOneThatHasIsNot) {
  a_.on_logs = [&](const v1::StreamLogsRequest&, const FakeHead::Send<v1::LogRecord>&) {
    return BreakAndStepDown();
  };
  int streams = 0;
  b_.on_logs = [&](const v1::StreamLogsRequest&, const FakeHead::Send<v1::LogRecord>& send) {
    ++streams;
    send(v1::LogRecord());
    return FakeHead::Broken();
  };
  int records = 0;
  const absl::Status ended =
      connection_->StreamLogs(v1::StreamLogsRequest(), [&](const v1::LogRecord&) {
        ++records;
        return true;
      });
  EXPECT_EQ(common::CodeOf(ended), "JC1301");
  EXPECT_EQ(records, 1);
  EXPECT_EQ(streams, 1);
}

TEST_F(FailoverTest, ADeadLeaderIsReplacedWithinAnOpenConnection) {
  b_.on_list = [](const v1::ListJobsRequest&, v1::ListJobsResponse* response) {
    response->set_more(true);
    return grpc::Status::OK;
  };
  a_.Die();
  std::thread later([&] {
    const int before = b_.questions();
    while (b_.questions() < before + 3) std::this_thread::yield();
    b_.Lead();
  });
  const auto jobs = connection_->ListJobs(v1::ListJobsRequest());
  later.join();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  EXPECT_TRUE(jobs->more());
}

TEST_F(FailoverTest, WaitingForALeaderEndsWithTheConnection) {
  a_.StandBy();
  std::thread closes([&] {
    const int before = b_.questions();
    while (b_.questions() < before + 2) std::this_thread::yield();
    connection_->CancelStreams();
  });
  const auto begin = steady_clock::now();
  const absl::Status ended =
      connection_->StreamLogs(v1::StreamLogsRequest(), [](const v1::LogRecord&) { return true; });
  closes.join();
  EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
  EXPECT_LT(steady_clock::now() - begin, milliseconds(15'000));
}

TEST_F(FailoverTest, SeveralThreadsLookOnceForTheNextLeader) {
  std::atomic<int> listed{0};
  b_.on_list = [&](const v1::ListJobsRequest&, v1::ListJobsResponse*) {
    ++listed;
    return grpc::Status::OK;
  };
  a_.StandBy();
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { done += connection_->ListJobs({}).ok() ? 1 : 0; });
  }
  b_.Lead();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 4);
  EXPECT_EQ(listed, 4);
}

}  // namespace
}  // namespace muster::client
