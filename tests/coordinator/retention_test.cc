// Lived time and the daily share: neither clocks nor damaged files cause finished jobs to be
// removed.
#include "coordinator/base/retention.h"

#include <gtest/gtest.h>

#include "common/files/files.h"
#include "coordinator/base/number_file.h"
#include "coordinator/local/note_store.h"
#include "coordinator/store_parts/file_age.h"
#include "coordinator/store_parts/lived_clock.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kDay = RetentionShare::kDayMs;

TEST(NumberFileTest, GivesBackWhatWasWrittenAndNothingOfADamagedFile) {
  TempDir dir;
  const std::string path = dir.path() + "/numbers";
  EXPECT_TRUE(ReadNumbers(path, 2).empty());
  ASSERT_TRUE(WriteNumbers(path, {1'234'567'890'123, -5}).ok());
  ASSERT_TRUE(WriteNumbers(path, {42, -5}).ok());
  EXPECT_EQ(ReadNumbers(path, 2), (std::vector<int64_t>{42, -5}));
  EXPECT_TRUE(ReadNumbers(path, 3).empty());
  const std::string sound = *common::ReadFile(path);
  for (size_t i = 0; i < sound.size(); ++i) {
    std::string flipped = sound;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    ASSERT_TRUE(common::WriteFileDurably(path, flipped).ok());
    EXPECT_TRUE(ReadNumbers(path, 2).empty()) << i;
    ASSERT_TRUE(common::WriteFileDurably(path, sound.substr(0, i)).ok());
    EXPECT_TRUE(ReadNumbers(path, 2).empty()) << i;
  }
}

TEST(LivedClockTest, GoesOnOverRestartsAndNeverFallsBehindWhatWasRecorded) {
  TempDir dir;
  const Paths paths(dir.path());
  const std::string path = paths.Lived();
  LocalNoteStore notes(paths);
  EXPECT_LT(LivedClock(notes).Read().lived_ms, kDay);
  ASSERT_TRUE(WriteNumbers(path, {5 * kDay}).ok());
  {
    LivedClock clock(notes);
    EXPECT_GE(clock.Read().lived_ms, 5 * kDay);
    EXPECT_GT(clock.Read().wall_ms, 0);
    clock.Keep();
  }
  EXPECT_GE(LivedClock(notes).Read().lived_ms, 5 * kDay);
  ASSERT_TRUE(common::WriteFileDurably(path, "9999999999999999999 garbage\n").ok());
  LivedClock damaged(notes);
  EXPECT_LT(damaged.Read().lived_ms, kDay);
  damaged.RaiseTo(7 * kDay);
  EXPECT_GE(damaged.Read().lived_ms, 7 * kDay);
  damaged.RaiseTo(kDay);
  EXPECT_GE(damaged.Read().lived_ms, 7 * kDay);
}

TEST(FileAgeTest, IsNotJudgedByAClockThatJumped) {
  TempDir dir;
  const std::string path = dir.path() + "/part";
  ASSERT_TRUE(common::WriteFileDurably(path, "x").ok());
  const auto now = FileAge::Steady::now();
  const int64_t wall_s = time(nullptr);
  constexpr std::chrono::hours kAge{24};
  // At a start with a clock that is 40 days ahead: nothing is removed at first.
  EXPECT_FALSE(FileAge(now, wall_s + 40 * 86'400).IsOlderThan(path, kAge));
  // While it runs, only elapsed time counts, whatever the clock shows.
  EXPECT_FALSE(FileAge(now - std::chrono::hours(23), wall_s).IsOlderThan(path, kAge));
  EXPECT_TRUE(FileAge(now - std::chrono::hours(25), wall_s).IsOlderThan(path, kAge));
}

TEST(RetentionShareTest, RemovesATenthOfTheJobsPerLivedDayWhateverIsTooOld) {
  RetentionShare share({});
  const Retention retention;
  auto removal = share.Take({.all = 5'000, .aged = 5'000}, retention, kDay);
  EXPECT_EQ(removal.count, 500);
  EXPECT_EQ(removal.share, 500);
  // A restart on the same day adds nothing.
  RetentionShare again(share.Numbers());
  EXPECT_EQ(again.Take({.all = 4'500, .aged = 4'500}, retention, 2 * kDay - 1).count, 0);
  EXPECT_EQ(again.Take({.all = 4'500, .aged = 4'500}, retention, 2 * kDay).count, 450);
}

TEST(RetentionShareTest, RemovesUpToAHundredOfFewJobs) {
  RetentionShare share({});
  EXPECT_EQ(share.Take({.all = 21, .aged = 20}, {}, kDay).count, 20);
  EXPECT_EQ(share.Take({.all = 121, .aged = 120}, {}, kDay + 1).count, 80);
}

TEST(RetentionShareTest, KeepsPaceWithWhatFinishesWhenTheNumberIsTheLimit) {
  RetentionShare share({});
  const Retention retention{.jobs = 1'000};
  EXPECT_EQ(share.Take({.all = 1'000, .arrived = 0}, retention, 0).count, 0);
  int64_t lived = 0;
  for (int pass = 0; pass < 50; ++pass) {
    EXPECT_EQ(share.Take({.all = 1'300, .arrived = 300}, retention, ++lived).count, 300);
  }
}

TEST(RetentionShareTest, ALimitThatWasLoweredTakesEffectOverDays) {
  RetentionShare share({});
  const Retention retention{.jobs = 10};
  EXPECT_EQ(share.Take({.all = 4'000}, retention, 0).count, 400);
  EXPECT_EQ(share.Take({.all = 3'600}, retention, 1).count, 0);
  EXPECT_EQ(share.Take({.all = 3'600}, retention, kDay).count, 360);
}

}  // namespace
}  // namespace muster::coordinator
