// The queue between training and the trackers: order, bounds, errors, ranks, shutdown.
#include "tracking/tracker_set.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>

#include "support/temporary_directory.h"

namespace muster {
namespace {

// Records its input as text; can be made to throw or hang.
class RecordingTracker : public Tracker {
 public:
  explicit RecordingTracker(bool main_only = true, std::string name = "recording")
      : main_only_(main_only), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  bool main_process_only() const override { return main_only_; }
  void start(const Run& run) override {
    add("start " + run.project + " rank " + std::to_string(run.rank));
    if (throws_at_start) throw std::runtime_error("no room for a run");
  }
  void scalars(std::span<const ScalarValue> values, int64_t step, double wall_time) override {
    EXPECT_GT(wall_time, 1.6e9);
    if (hang.valid()) {
      entered.set_value();
      std::exchange(hang, {}).wait();
    }
    std::string text = std::to_string(step) + ":";
    for (const ScalarValue& value : values) {
      text += " " + std::string(value.name) + "=" + std::to_string(std::lround(value.value));
    }
    add(text);
    if (throws) throw std::runtime_error("the cable is out");
  }
  void histogram(std::string_view name, const HistogramData& data, int64_t step, double) override {
    add(std::to_string(step) + ": histogram " + std::string(name) + " of " +
        std::to_string(std::lround(data.num)));
  }
  void text(std::string_view name, const std::string& text, int64_t step, double) override {
    add(std::to_string(step) + ": text " + std::string(name) + " " + text);
  }
  void finish() override {
    add("finish");
    finished.set_value();
  }

  std::vector<std::string> lines() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

  bool throws = false;
  bool throws_at_start = false;
  std::promise<void> entered;  // set when it hangs
  std::shared_future<void> hang;
  std::promise<void> finished;

 private:
  void add(std::string line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(std::move(line));
  }
  const bool main_only_;
  const std::string name_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

using Lines = std::vector<std::string>;

TEST(TrackerSet, HandsEverythingOverInTheOrderOfTheCalls) {
  auto tracker = std::make_shared<RecordingTracker>();
  TrackerSet set({.log_with = {tracker}});
  set.log({{"too early", 1}}, {0});
  set.start("run");
  set.log({{"loss", 1}, {"lr", 2}}, {1});
  set.text("sample", "abc", {1});
  set.histogram("weights", [] { return HistogramData{.num = 7}; }, 100, {2});
  set.log({{"loss", 3}}, {2});
  set.finish();
  set.log({{"too late", 1}}, {3});
  EXPECT_EQ(tracker->lines(), Lines({"start run rank 0", "1: loss=1 lr=2", "1: text sample abc",
                                     "2: histogram weights of 7", "2: loss=3", "finish"}));
  EXPECT_EQ(set.dropped(), 0u);
}

TEST(TrackerSet, DropsAndCountsWhatDoesNotFitAndNeverWaits) {
  auto tracker = std::make_shared<RecordingTracker>();
  std::promise<void> go_on;
  tracker->hang = go_on.get_future().share();
  TrackerSet set({.log_with = {tracker}, .queued_values_max = 10, .queued_bytes_max = 1000});
  set.start("run");
  set.log({{"a", 0}}, {0});
  tracker->entered.get_future().wait();  // from now on nothing leaves the queue
  for (int step = 1; step <= 15; ++step) set.log({{"a", 1}}, {step});
  EXPECT_EQ(set.dropped(), 6u);  // the tracker has one, nine are queued
  set.log({{"a", 1}, {"b", 2}, {"c", 3}}, {16});
  EXPECT_EQ(set.dropped(), 9u);  // all of them or none
  go_on.set_value();
  ::testing::internal::CaptureStderr();
  set.finish();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("9 logged values were dropped"),
            std::string::npos);
  const Lines lines = tracker->lines();
  ASSERT_EQ(lines.size(), 12u);  // start, steps 0 to 9, finish
  EXPECT_EQ(lines[10], "9: a=1");
}

TEST(TrackerSet, BoundsTheBytesOfPicturesAndHistograms) {
  auto tracker = std::make_shared<RecordingTracker>();
  std::promise<void> go_on;
  tracker->hang = go_on.get_future().share();
  TrackerSet set({.log_with = {tracker}, .queued_bytes_max = 1000});
  set.start("run");
  set.log({{"a", 0}}, {0});
  tracker->entered.get_future().wait();
  const auto make = [] { return HistogramData{}; };
  set.histogram("fits", make, 900, {1});
  set.histogram("does not", make, 101, {1});
  set.histogram("fits too", make, 100, {1});
  EXPECT_EQ(set.dropped(), 1u);
  go_on.set_value();
  set.finish();
  EXPECT_EQ(tracker->lines().size(), 5u);
}

TEST(TrackerSet, NamesATrackerThatThrowsOnceAndKeepsTheOthersGoing) {
  auto bad = std::make_shared<RecordingTracker>();
  auto good = std::make_shared<RecordingTracker>(true, "good");
  bad->throws = true;
  ::testing::internal::CaptureStderr();
  TrackerSet set({.log_with = {bad, good}});
  set.start("run");
  for (int step = 0; step < 5; ++step) set.log({{"a", 1}}, {step});
  set.finish();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("rank 0: the recording tracker: the cable is out"), std::string::npos);
  EXPECT_EQ(set.failures(), 5u);
  EXPECT_EQ(bad->lines(), good->lines());
}

TEST(TrackerSet, LeavesATrackerAloneThatDidNotStart) {
  auto bad = std::make_shared<RecordingTracker>();
  bad->throws_at_start = true;
  ::testing::internal::CaptureStderr();
  TrackerSet set({.log_with = {bad}});
  set.start("run");
  set.log({{"a", 1}}, {1});
  set.finish();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("no room for a run"), std::string::npos);
  EXPECT_EQ(bad->lines(), Lines({"start run rank 0"}));
}

TEST(TrackerSet, NamesTheValidEntriesOfLogWith) {
  const TemporaryDirectory directory;
  try {
    TrackerSet({.log_with = {"wandb"}, .logging_dir = directory.path()});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("\"wandb\" is not a tracker"), std::string::npos);
  }
  EXPECT_THROW(TrackerSet({.log_with = {"csv"}}), std::invalid_argument);
  const auto one = std::make_shared<RecordingTracker>(),
             other = std::make_shared<RecordingTracker>();
  EXPECT_THROW(TrackerSet({.log_with = {one, other}}), std::invalid_argument);
  TrackerSet all({.log_with = {"csv", "all", "csv"}, .logging_dir = directory.path()});
  for (const char* name : {"tensorboard", "jsonl", "csv"}) EXPECT_TRUE(all.find(name)) << name;
  EXPECT_EQ(all.find("other"), nullptr);
  EXPECT_TRUE(TrackerSet(TrackerSetOptions{}).empty());
}

TEST(TrackerSet, OtherRanksLogOnlyOnRequest) {
  const TemporaryDirectory directory;
  auto main_only = std::make_shared<RecordingTracker>(true);
  auto every_rank = std::make_shared<RecordingTracker>(false, "every rank");
  TrackerSet set(
      {.log_with = {main_only, every_rank, "jsonl"}, .logging_dir = directory.path(), .rank = 2});
  set.start("run");
  set.log({{"a", 1}}, {1});
  EXPECT_FALSE(std::filesystem::exists(directory / "run"));
  EXPECT_TRUE(every_rank->lines().empty());
  set.log({{"a", 2}}, {.step = 2, .all_ranks = true});
  set.finish();
  EXPECT_EQ(every_rank->lines(), Lines({"start run rank 2", "2: a=2", "finish"}));
  EXPECT_TRUE(main_only->lines().empty());
  EXPECT_TRUE(std::filesystem::exists(directory / "run/rank-2/metrics.jsonl"));
}

TEST(TrackerSet, AFullDiskIsReportedOnceAndTrainingContinues) {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink("/dev/full", directory / "metrics.jsonl");
  auto witness = std::make_shared<RecordingTracker>();
  ::testing::internal::CaptureStderr();
  TrackerSet set({.log_with = {"jsonl", witness}, .logging_dir = directory.path()});
  set.start("");
  for (int step = 0; step < 1000; ++step) set.log({{"a", 1}}, {step});
  set.finish();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the jsonl tracker: cannot write " + directory.path() +
                      "/metrics.jsonl: No space left on device"),
            std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(witness->lines().size(), 1002u);
}

TEST(TrackerSet, SurvivesTheSignalOfAFileThatGrewTooLarge) {
  const TemporaryDirectory directory;
  TrackerSet set({.log_with = {"csv"}, .logging_dir = directory.path()});
  set.start("");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{2048, before.rlim_max};
  ::testing::internal::CaptureStderr();
  ::setrlimit(RLIMIT_FSIZE, &small);  // a write beyond it sends SIGXFSZ, which kills the process
  for (int step = 0; step < 1000; ++step) set.log({{"a", 1}}, {step});
  set.finish();
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("File too large"), std::string::npos);
  EXPECT_GE(set.failures(), 1u);
}

TEST(TrackerSet, EndsInTimeWhenATrackerHangs) {
  auto tracker = std::make_shared<RecordingTracker>();
  std::promise<void> go_on;
  tracker->hang = go_on.get_future().share();
  {
    TrackerSet set({.log_with = {tracker}, .finish_timeout = std::chrono::milliseconds(20)});
    set.start("run");
    set.log({{"a", 1}}, {1});
    ::testing::internal::CaptureStderr();
  }
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("did not finish within"),
            std::string::npos);
  go_on.set_value();
  tracker->finished.get_future().wait();  // the abandoned thread exits on its own
}

TEST(TrackerSet, TakesValuesFromSeveralThreads) {
  constexpr int kThreads = 4, kSteps = 2000;
  auto tracker = std::make_shared<RecordingTracker>();
  TrackerSet set({.log_with = {tracker}});
  set.start("run");
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&set, name = std::string(1, static_cast<char>('a' + i))] {
      for (int step = 0; step < kSteps; ++step) set.log({{name, 1.0 * step}}, {step});
    });
  }
  for (std::thread& thread : threads) thread.join();
  set.finish();
  std::map<char, int> next;
  for (const std::string& line : tracker->lines()) {
    const size_t at = line.find('=');
    if (at == line.npos) continue;
    EXPECT_EQ(line.substr(at + 1), std::to_string(next[line[at - 1]]++));
  }
  for (const auto& [name, count] : next) EXPECT_EQ(count, kSteps) << name;
  EXPECT_EQ(next.size(), static_cast<size_t>(kThreads));
}

TEST(TrackerSet, TheTrackersOfTheLibraryMayBeCalledDirectly) {
  const TemporaryDirectory directory;
  TrackerSet set({.log_with = {"jsonl"}, .logging_dir = directory.path()});
  set.start("");
  const ScalarValue value{"direct", 1};
  for (int step = 0; step < 500; ++step) {
    set.log({{"queued", 1}}, {step});
    set.find("jsonl")->scalars({&value, 1}, step, 1.7e9);
  }
  set.finish();
  std::ifstream file(directory / "metrics.jsonl");
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) ++lines;
  EXPECT_EQ(lines, 1001);
}

}  // namespace
}  // namespace muster
