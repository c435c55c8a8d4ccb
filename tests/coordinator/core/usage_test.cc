// Device time: months, and what a hostile owner or a broken clock can do to the book.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/state/usage_book.h"
#include "coordinator/core/views/usage_view.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kNovemberMs = 1'793'491'200'000;  // 2026-11-01T00:00:00Z

using Parts = std::vector<std::pair<uint32_t, uint64_t>>;

Parts MonthsOf(int64_t from_ms, int64_t until_ms) {
  Parts parts;
  ForEachMonth(from_ms, until_ms, [&](uint32_t month, uint64_t ms) {
    parts.push_back({month, ms});
  });
  return parts;
}

v1::Attempt AttemptOf(int64_t started_ms, int64_t ended_ms, v1::StopCause cause) {
  v1::Attempt attempt;
  attempt.set_number(1);
  attempt.set_started_ms(started_ms);
  attempt.set_ended_ms(ended_ms);
  attempt.set_cause(cause);
  v1::NodePart& part = *attempt.add_parts();
  part.set_device_kind("gpu");
  part.add_device_indexes(0);
  part.add_device_indexes(1);
  part.set_ended(true);
  return attempt;
}

uint64_t AllUsed(const UsageBook& book) {
  uint64_t used_ms = 0;
  book.ForEachRow([&](const auto&, const UsedTime& time) { used_ms += time.used_ms; });
  return used_ms;
}

std::vector<UsedTime> RowsOf(const UsageBook& book) {
  std::vector<UsedTime> rows;
  book.ForEachRow([&](const auto&, const UsedTime& time) { rows.push_back(time); });
  return rows;
}

TEST(UsageTest, TimeIsSplitWhereMonthsEnd) {
  EXPECT_EQ(MonthsOf(kNovemberMs - kHourMs, kNovemberMs + 2 * kHourMs),
            (Parts{{202610, kHourMs}, {202611, 2 * kHourMs}}));
  EXPECT_EQ(MonthsOf(kNovemberMs, kNovemberMs + 61 * 24 * kHourMs),
            (Parts{{202611, 30 * 24 * kHourMs}, {202612, 31 * 24 * kHourMs}}));
  EXPECT_EQ(MonthsOf(kNovemberMs, kNovemberMs), Parts{});
  EXPECT_EQ(MonthsOf(kNovemberMs, kNovemberMs - 1), Parts{}) << "a clock that was set back";
}

TEST(UsageTest, AClockOutOfRangeBooksNothingEndless) {
  EXPECT_EQ(MonthsOf(INT64_MIN, -1), Parts{});
  EXPECT_LE(MonthsOf(0, INT64_MAX).size(), 12u * 9'999);
}

TEST(UsageTest, WhatWasNotSavedIsLostToItsCause) {
  for (const auto& [cause, failed_ms, left_ms] :
       {std::tuple(v1::STOP_CAUSE_COMPLETED, int64_t{0}, int64_t{0}),
        std::tuple(v1::STOP_CAUSE_CANCELLED, int64_t{0}, int64_t{0}),
        std::tuple(v1::STOP_CAUSE_RANK_FAILED, 2 * kHourMs, int64_t{0}),
        std::tuple(v1::STOP_CAUSE_NODE_LOST, 2 * kHourMs, int64_t{0}),
        std::tuple(v1::STOP_CAUSE_PREEMPTED, int64_t{0}, 2 * kHourMs),
        std::tuple(v1::STOP_CAUSE_HELD, int64_t{0}, 2 * kHourMs)}) {
    UsageBook book;
    v1::JobRecord job;
    book.AttemptEnded(job, AttemptOf(kNovemberMs, kNovemberMs + 3 * kHourMs, cause),
                      kNovemberMs + 2 * kHourMs);
    ASSERT_EQ(RowsOf(book).size(), 1u);
    const UsedTime time = RowsOf(book).front();
    EXPECT_EQ(time.used_ms, static_cast<uint64_t>(6 * kHourMs));
    EXPECT_EQ(time.failed_ms, static_cast<uint64_t>(failed_ms)) << cause;
    EXPECT_EQ(time.left_ms, static_cast<uint64_t>(left_ms)) << cause;
    EXPECT_EQ(time.attempts, 1u);
  }
}

TEST(UsageTest, OneOwnersLabelsDoNotFillTheBook) {
  UsageBook book;
  v1::JobRecord job;
  job.set_owner("user:eve");
  const v1::Attempt attempt =
      AttemptOf(kNovemberMs, kNovemberMs + kHourMs, v1::STOP_CAUSE_COMPLETED);
  constexpr size_t kJobs = UsageBook::kLabeledRowsOfOwnerMax + 500;
  for (size_t i = 0; i < kJobs; ++i) {
    (*job.mutable_spec()->mutable_labels())["run"] = absl::StrCat(i);
    book.AttemptEnded(job, attempt, 0);
  }
  EXPECT_EQ(RowsOf(book).size(), UsageBook::kLabeledRowsOfOwnerMax + 1);
  EXPECT_EQ(AllUsed(book), kJobs * 2 * kHourMs) << "no time is lost";
  job.set_owner("user:anna");
  (*job.mutable_spec()->mutable_labels())["run"] = std::string(300, 'x');
  book.AttemptEnded(job, attempt, 0);
  EXPECT_EQ(RowsOf(book).size(), UsageBook::kLabeledRowsOfOwnerMax + 2);
  UsageBook again;
  again.Restore(book.Snapshot());
  EXPECT_EQ(RowsOf(again).size(), RowsOf(book).size());
  EXPECT_EQ(AllUsed(again), AllUsed(book));
}

TEST(UsageTest, LabelsAreKeptForAYearAndTimeForever) {
  UsageBook book;
  v1::JobRecord job;
  constexpr uint64_t kMonths = 40;
  for (uint64_t month = 0; month < kMonths; ++month) {
    const int64_t begin_ms = kNovemberMs + static_cast<int64_t>(month) * 31 * 24 * kHourMs;
    for (const char* label : {"x", "y"}) {
      (*job.mutable_spec()->mutable_labels())["team"] = label;
      book.AttemptEnded(job, AttemptOf(begin_ms, begin_ms + kHourMs, v1::STOP_CAUSE_COMPLETED), 0);
    }
  }
  EXPECT_EQ(AllUsed(book), kMonths * 4 * kHourMs);
  size_t labeled = 0;
  book.ForEachRow([&](const UsageBook::Row& row, const auto&) { labeled += !row.labels.empty(); });
  EXPECT_EQ(labeled, 2 * UsageBook::kLabeledMonthsMax);
}

TEST(UsageTest, AClockThatWasDecadesBehindBooksAYear) {
  UsageBook book;
  book.AttemptEnded({}, AttemptOf(1'000, kNovemberMs, v1::STOP_CAUSE_COMPLETED), 0);
  EXPECT_EQ(AllUsed(book), 2 * 366ull * 24 * kHourMs);
}

TEST(UsageTest, WhatIsNoGroupOrMonthIsRefused) {
  ClusterState state;
  const auto ask = [&](const std::string& by, const std::string& since) {
    v1::ListUsageRequest request;
    request.add_by(by);
    request.set_since(since);
    return ViewUsage(state, request, Now{}).status();
  };
  EXPECT_TRUE(ask("label:team", "2026-11").ok());
  for (const char* by : {"", "label:", "owner", "month "})
    EXPECT_EQ(ask(by, "").code(), absl::StatusCode::kInvalidArgument) << by;
  for (const char* month : {"2026", "2026-13", "2026-00", "2026-1", "26-11-01", "abcd-ef"})
    EXPECT_EQ(ask("user", month).code(), absl::StatusCode::kInvalidArgument) << month;
}

}  // namespace
}  // namespace muster::coordinator
