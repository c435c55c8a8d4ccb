// The links among several coordinators of which one leads: real gRPC servers that lead, stand by, hang or are dead.
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "tests/worker/fake_head.h"
#include "worker/base/mailbox.h"
#include "worker/links/blob_link.h"
#include "worker/links/bulk_link.h"
#include "worker/links/coordinator_link.h"

namespace muster::worker {
namespace {

using Role = FakeHead::Role;
constexpr int64_t kLongestMs = 20'000;

Route PlainRoute(const std::string& address) {
  return {.endpoint = address, .credentials = nullptr};
}

class HeadsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/mwlXXXXXX";
    directory = mkdtemp(name);
    for (std::unique_ptr<FakeHead>* head : {&a, &b, &c}) {
      *head = std::make_unique<FakeHead>(common::StrCat(directory, "/", all.size(), ".sock"));
      all.push_back((*head)->Address());
    }
  }
  void TearDown() override {
    link.reset();
    common::RemoveTree(directory).IgnoreError();
  }

  void Open(uint64_t seed = 1) {
    link = std::make_unique<CoordinatorLink>(
        CoordinatorLink::Where{[this] { return all; }, PlainRoute}, &mailbox,
        CoordinatorLink::Callbacks{
            .up =
                [this] {
                  v1::WorkerMessage message;
                  message.mutable_register_()->mutable_facts()->set_name("node");
                  link->Send(std::move(message));
                },
            .message =
                [this](const v1::CoordinatorMessage& message) {
                  if (!message.has_registered()) return;
                  link->Confirm();
                  registered = link->Address();
                },
            .down = [this] { registered.clear(); },
            .note = [this](const std::string& line) { notes.push_back(line); }},
        seed);
  }
  // What the control loop does, until then.
  bool RunUntil(const std::function<bool()>& done) {
    const int64_t give_up_ms = common::MonotonicMs() + kLongestMs;
    while (!done()) {
      const int64_t now_ms = common::MonotonicMs();
      if (now_ms >= give_up_ms) return false;
      link->MaybeDial(now_ms);
      const int64_t due_ms = link->NextDialMs().value_or(now_ms + 20);
      pollfd ready{mailbox.fd(), POLLIN, 0};
      poll(&ready, 1, static_cast<int>(std::clamp<int64_t>(due_ms - now_ms, 0, 20)));
      mailbox.RunWaiting();
    }
    return true;
  }
  static int Asked(FakeHead& head) {
    return head.Get([](FakeHead& of) { return of.asked; });
  }
  size_t NotesWith(const std::string& text) const {
    return static_cast<size_t>(std::count_if(
        notes.begin(), notes.end(),
        [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

  std::string directory;
  std::vector<std::string> all;
  std::unique_ptr<FakeHead> a, b, c;
  Mailbox mailbox;
  std::vector<std::string> notes;
  std::string registered;  // where; empty: nowhere
  std::unique_ptr<CoordinatorLink> link;
};

TEST_F(HeadsTest, TheLeaderIsFoundBehindOneThatIsDeadAndOneThatStandsBy) {
  b->Start();
  c->Play(Role::kLeads);
  c->Start();
  Open();
  ASSERT_TRUE(RunUntil([this] { return registered == c->Address(); }));
  EXPECT_LE(Asked(*b), 1) << "within the first round";
}

TEST_F(HeadsTest, OneThatBeginsToLeadLaterIsFound) {
  a->Play(Role::kLeads);
  a->Start();
  b->Start();
  Open();
  ASSERT_TRUE(RunUntil([this] { return registered == a->Address(); }));
  EXPECT_EQ(Asked(*b), 0);
  a->Die();
  ASSERT_TRUE(RunUntil([this] { return Asked(*b) >= 6; })) << "asked again and again";
  EXPECT_TRUE(registered.empty());
  b->Play(Role::kLeads);
  const int64_t since_ms = common::MonotonicMs();
  ASSERT_TRUE(RunUntil([this] { return registered == b->Address(); }));
  EXPECT_LT(common::MonotonicMs() - since_ms, 5'000) << "2 s on a machine that is not busy";
  EXPECT_LE(NotesWith("stands by"), 2u) << "not at each round";
}

TEST_F(HeadsTest, OneThatStepsDownIsLeftForTheNext) {
  a->Play(Role::kLeads);
  for (FakeHead* head : {a.get(), b.get()}) head->Start();
  Open();
  ASSERT_TRUE(RunUntil([this] { return registered == a->Address(); }));
  a->Die();
  a->Start();
  b->Play(Role::kLeads);
  ASSERT_TRUE(RunUntil([this] { return registered == b->Address(); }));
  EXPECT_LE(Asked(*a), 3);
}

TEST_F(HeadsTest, AfterABreakTheOneThatLedIsAskedFirst) {
  b->Play(Role::kLeads);
  for (FakeHead* head : {a.get(), b.get(), c.get()}) head->Start();
  Open();
  ASSERT_TRUE(RunUntil([this] { return registered == b->Address(); }));
  const int others = Asked(*a) + Asked(*c);
  link->Reset("a test");
  ASSERT_TRUE(RunUntil([this] { return registered.empty(); }));
  ASSERT_TRUE(RunUntil([this] { return registered == b->Address(); }));
  EXPECT_EQ(Asked(*a) + Asked(*c), others + 2) << "closed by the worker: the others come first";
  link->Renew();
  ASSERT_TRUE(RunUntil([this] { return registered.empty(); }));
  ASSERT_TRUE(RunUntil([this] { return registered == b->Address(); }));
  EXPECT_EQ(Asked(*a) + Asked(*c), others + 2) << "with a new certificate: the same at once";
}

TEST_F(HeadsTest, OneThatHangsIsLeftWhenTheWorkerGivesUp) {
  a->Play(Role::kHangs);
  b->Play(Role::kLeads);
  for (FakeHead* head : {a.get(), b.get()}) head->Start();
  Open();
  ASSERT_TRUE(RunUntil([this] { return Asked(*a) == 1; }));
  link->Reset("the coordinator is not answering on the control stream");
  ASSERT_TRUE(RunUntil([this] { return registered == b->Address(); }));
  EXPECT_EQ(Asked(*a), 1);
}

TEST_F(HeadsTest, AThousandWorkersDoNotComeInStep) {
  // The pauses alone; what they are is tested in head_rounds_test.cc.
  std::vector<int64_t> due_ms;
  for (uint64_t seed = 0; seed < 1'000; ++seed) {
    HeadRounds rounds(seed);
    int64_t now_ms = 0;
    while (now_ms < 6'000) {
      rounds.Next({"a:1", "b:1"}, now_ms);
      now_ms = rounds.Ended(HeadRounds::End::kStandsBy, now_ms);
    }
    due_ms.push_back(now_ms);
  }
  std::sort(due_ms.begin(), due_ms.end());
  EXPECT_LE(due_ms.back(), 7'000);
  for (size_t i = 0; i + 300 < due_ms.size(); ++i)
    EXPECT_GT(due_ms[i + 300] - due_ms[i], 100) << "300 within 100 ms";
}

TEST_F(HeadsTest, BulkDataGoesToTheNewLeaderFromTheBeginning) {
  a->Play(Role::kHangs);
  b->Play(Role::kLeads);
  for (FakeHead* head : {a.get(), b.get()}) head->Start();
  int streams = 0;
  BulkLink bulk(&mailbox,
                {.logs_up = [&] { ++streams; },
                 .metrics_up = [] {},
                 .log_ack = [](const v1::LogAck&) {},
                 .metric_ack = [](const v1::MetricAck&) {},
                 .writable = [] {}},
                1);
  bulk.SetRoute(PlainRoute(a->Address()));
  bulk.MaybeDial(common::MonotonicMs());
  ASSERT_EQ(streams, 1);
  v1::LogChunk chunk;
  chunk.set_data("bytes");
  bulk.SendLogs(chunk);
  ASSERT_TRUE(a->Wait([this] { return a->log_streams == 1; }));
  bulk.SetRoute(PlainRoute(b->Address()));
  bulk.MaybeDial(common::MonotonicMs());
  ASSERT_EQ(streams, 2) << "whatever is not acknowledged is sent again";
  bulk.SendLogs(chunk);
  ASSERT_TRUE(b->Wait([this] { return b->log == "bytes"; }));
  bulk.Shutdown();
}

TEST_F(HeadsTest, AFileOnItsWayToADeadLeaderGoesToTheNewOne) {
  a->Play(Role::kHangs);
  b->Play(Role::kLeads);
  for (FakeHead* head : {a.get(), b.get()}) head->Start();
  BlobLink blobs;
  blobs.SetRoute(PlainRoute(a->Address()));
  std::atomic<bool> is_done = false;
  absl::Status sent;
  std::thread upload([&] {
    sent = blobs.Upload(-1, {.sha256 = std::string(64, '0'), .size = 1}, {1, 0}, [] {});
    is_done = true;
  });
  ASSERT_TRUE(a->Wait([this] { return a->blob_calls == 1; }));
  EXPECT_FALSE(is_done);
  const int64_t since_ms = common::MonotonicMs();
  blobs.SetRoute(PlainRoute(b->Address()));
  upload.join();
  EXPECT_TRUE(sent.ok()) << sent;
  EXPECT_LT(common::MonotonicMs() - since_ms, 10'000) << "does not wait for the call's deadline";
  EXPECT_EQ(b->Get([](FakeHead& of) { return of.blob_calls; }), 1);
}

}  // namespace
}  // namespace muster::worker
