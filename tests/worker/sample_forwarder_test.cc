// When attempts are sampled, and what waits to be sent.
#include "worker/sampling/sample_forwarder.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "common/base/clock.h"
#include "worker/base/mailbox.h"

namespace muster::worker {
namespace {

// The I/O thread's side, on the test's own thread.
class SampleForwarderTest : public ::testing::Test {
 protected:
  // A sample that is being taken uses the forwarder.
  ~SampleForwarderTest() override { threads_.Shutdown(std::chrono::seconds(10)); }
  // Lets one sample be taken, of this very process, and its result arrive.
  void SampleOnce() {
    const int64_t began_ms = common::MonotonicMs();
    while (common::MonotonicMs() == began_ms) std::this_thread::yield();  // rates need time
    now_ms_ += 100'000;
    forwarder_.OnTime(now_ms_);
    pollfd fd{mailbox_.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&fd, 1, 10'000), 1);
    mailbox_.RunWaiting();
  }

  const AttemptKey key_{1, 0};
  bool may_send_ = false;
  std::vector<v1::SampleBatch> sent_;
  int64_t now_ms_ = 0;
  Mailbox mailbox_;
  JobThreads threads_;
  SampleForwarder forwarder_{
      "node1",
      &threads_,
      {.in_loop = [this](std::function<void()> task) { mailbox_.Post(std::move(task)); },
       .can_send = [this] { return may_send_; },
       .send = [this](v1::SampleBatch batch) { sent_.push_back(std::move(batch)); }}};
};

TEST_F(SampleForwarderTest, WithoutRanksThereIsNothingToWakeUpFor) {
  EXPECT_FALSE(forwarder_.NextMs().has_value());
  EXPECT_FALSE(forwarder_.IsNeeded());
  forwarder_.Open(key_, {}, 0);
  EXPECT_FALSE(forwarder_.NextMs().has_value()) << "before its ranks start";
  forwarder_.RankStarted(key_, {0, getpid(), 0});
  EXPECT_TRUE(forwarder_.NextMs().has_value());
  forwarder_.Close(key_);
  EXPECT_FALSE(forwarder_.NextMs().has_value());
  EXPECT_FALSE(forwarder_.IsNeeded()) << "so its stream is closed";
}

TEST_F(SampleForwarderTest, OneSampleATimeAndTheNextASecondLater) {
  forwarder_.Open(key_, {}, 0);
  forwarder_.RankStarted(key_, {0, getpid(), 0});
  SampleOnce();
  ASSERT_TRUE(forwarder_.NextMs().has_value());
  EXPECT_GE(*forwarder_.NextMs(), now_ms_ + SampleForwarder::kEveryMs);
  forwarder_.OnTime(now_ms_ + 1);  // not due
  forwarder_.OnTime(*forwarder_.NextMs());
  EXPECT_FALSE(forwarder_.NextMs().has_value()) << "one is being taken";
}

TEST_F(SampleForwarderTest, OnlyTheNewestWaitForTheCoordinator) {
  forwarder_.Open(key_, {}, 0);
  forwarder_.RankStarted(key_, {0, getpid(), 0});
  for (int64_t step = 0; step < 30; ++step) {
    forwarder_.NoteStep(key_, 0, step, now_ms_);
    SampleOnce();
    forwarder_.Pump();
  }
  EXPECT_TRUE(sent_.empty());
  may_send_ = true;
  forwarder_.Pump();
  ASSERT_EQ(sent_.size(), SampleForwarder::kWaitingMax);
  EXPECT_EQ(sent_.back().ranks(0).step(), 29);
  EXPECT_EQ(sent_.front().ranks(0).step(), 14);
  EXPECT_EQ(sent_.back().node(), "node1");
  EXPECT_GT(sent_.back().ranks(0).resident_bytes(), 0u);
}

}  // namespace
}  // namespace muster::worker
