// When a private coordinator exits, and when it must not.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "coordinator/base/work_pool.h"
#include "coordinator/periodic/lifetime.h"

namespace muster::coordinator {
namespace {

class LifetimeTest : public ::testing::Test {
 protected:
  bool Left(std::chrono::milliseconds within) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within, [this] { return left_ > 0; });
  }
  // Long enough for a wrong exit to show, short enough for a test.
  bool LeftSoon() { return Left(std::chrono::milliseconds(100)); }
  bool LeftAtLast() { return Left(std::chrono::seconds(20)); }

  std::unique_ptr<Lifetime> Make(bool is_private) {
    auto lifetime = std::make_unique<Lifetime>(
        is_private, pool_,
        [this] {
          std::lock_guard lock(mutex_);
          ++left_;
          changed_.notify_all();
        },
        [this] { return undrained_.load(); });
    lifetime->Begin();
    return lifetime;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int left_ = 0;
  std::atomic<size_t> undrained_ = 0;
  WorkPool pool_{1};
};

TEST_F(LifetimeTest, LeavesWithItsLastClient) {
  auto lifetime = Make(true);
  lifetime->ClientCame();
  lifetime->ClientCame();
  lifetime->ClientLeft();
  EXPECT_FALSE(LeftSoon());
  lifetime->ClientLeft();
  EXPECT_TRUE(LeftAtLast());
  pool_.Stop();
}

TEST_F(LifetimeTest, StaysWhileAJobLivesOrSomebodySaidUp) {
  auto lifetime = Make(true);
  lifetime->ClientCame();
  lifetime->SetLiveJobs(1);
  lifetime->SetStay(true);
  lifetime->ClientLeft();
  EXPECT_FALSE(LeftSoon());
  lifetime->SetLiveJobs(0);
  EXPECT_FALSE(LeftSoon());
  lifetime->SetStay(false);
  EXPECT_TRUE(LeftAtLast());
  pool_.Stop();
}

TEST_F(LifetimeTest, WaitsForTheLastOutputOfFinishedJobs) {
  auto lifetime = Make(true);
  undrained_ = 2;
  lifetime->ClientCame();
  lifetime->ClientLeft();
  EXPECT_FALSE(LeftSoon());
  undrained_ = 0;
  EXPECT_TRUE(LeftAtLast());
  pool_.Stop();
}

TEST_F(LifetimeTest, AClusterCoordinatorStaysWithoutClients) {
  auto lifetime = Make(false);
  lifetime->ClientCame();
  lifetime->ClientLeft();
  EXPECT_FALSE(LeftSoon());
  pool_.Stop();
}

}  // namespace
}  // namespace muster::coordinator
