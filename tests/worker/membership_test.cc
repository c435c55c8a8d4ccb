// When a worker renews its certificate.
#include "worker/membership/membership.h"

#include <gtest/gtest.h>

namespace muster::worker {
namespace {

constexpr int64_t kHourMs = 3'600'000;

TEST(WorkerMembership, RenewsAtTwoThirdsOfTheLifeAndNotAllNodesAtOnce) {
  const Validity week{.from_ms = 1'000, .until_ms = 1'000 + 168 * kHourMs};
  EXPECT_EQ(RenewAtMs(week, 0), 1'000 + 112 * kHourMs);
  EXPECT_EQ(RenewAtMs(week, 1), 1'000 + 112 * kHourMs - 168 * kHourMs / 20);
}

TEST(WorkerMembership, RenewsAtOnceWhatCannotBeReadOrHasExpired) {
  EXPECT_EQ(RenewAtMs({}, 0.5), 0);
  EXPECT_EQ(RenewAtMs({.from_ms = 10, .until_ms = 5}, 0.5), 10);
}

TEST(WorkerMembership, TriesAgainSoonAndThenSeldom) {
  EXPECT_EQ(RenewalPauseMs(0), 5'000);
  EXPECT_EQ(RenewalPauseMs(1), 10'000);
  EXPECT_EQ(RenewalPauseMs(6), 300'000);
  EXPECT_EQ(RenewalPauseMs(1'000'000), 300'000);
}

TEST(WorkerMembership, ANodeThatHasNotJoinedHasNone) {
  EXPECT_TRUE(absl::IsNotFound(Membership::Open("/nonexistent/credentials", 1).status()));
}

}  // namespace
}  // namespace muster::worker
