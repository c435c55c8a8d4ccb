// Which checkpoints are listed and which are kept.
#include "checkpoint/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>

#include "base/files.h"
#include "checkpoint/checkpoint_directory.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

constexpr int64_t kNoWorker = std::numeric_limits<int64_t>::max();
using Steps = std::vector<int64_t>;
using Metrics = std::map<std::string, double>;

std::string make_checkpoint(const TemporaryDirectory& directory, int64_t step,
                            const Metrics& metrics = {}) {
  const std::string path = directory / step_name(step);
  std::filesystem::create_directory(path);
  Manifest manifest;
  manifest.step = step;
  manifest.metrics = metrics;
  manifest.created_ms = 1000 + step;
  manifest.shards = {{"shard", 3, std::string(64, '0'), 0, 0}};
  std::ofstream(path + "/shard") << "abc";
  std::ofstream(path + "/" + kManifestName) << format_manifest(manifest);
  return path;
}

std::vector<CheckpointInfo> infos(const Steps& steps) {
  std::vector<CheckpointInfo> all;
  for (const int64_t step : steps) {
    CheckpointInfo info;
    info.step = step;
    all.push_back(info);
  }
  return all;
}

TEST(CheckpointPolicy, KeepsEverythingByDefault) {
  EXPECT_TRUE(checkpoints_to_remove(infos({1, 2, 3}), {}, kNoWorker).empty());
  EXPECT_TRUE(checkpoints_to_remove({}, {.keep_last = 1}, kNoWorker).empty());
}

TEST(CheckpointPolicy, KeepsTheNewestAndEveryNth) {
  EXPECT_EQ(checkpoints_to_remove(infos({30, 10, 20, 40}), {.keep_last = 2}, kNoWorker),
            (Steps{10, 20}));
  EXPECT_EQ(checkpoints_to_remove(infos({10, 20, 30, 40, 50}), {.keep_last = 1, .keep_every = 20},
                                  kNoWorker),
            (Steps{10, 30}));
}

TEST(CheckpointPolicy, KeepsTheBestByMetricInEitherDirection) {
  auto all = infos({1, 2, 3, 4, 5, 6});
  const double values[] = {0.5, 0.2, std::nan(""), 0.9, 0.2, 0.7};
  for (size_t i = 0; i < all.size(); ++i) all[i].metrics["loss"] = values[i];
  all[5].metrics.clear();
  CheckpointPolicy policy{.keep_last = 1, .best_metric = "loss"};
  EXPECT_EQ(checkpoints_to_remove(all, policy, kNoWorker), (Steps{1, 3, 4, 5}));
  policy.best_mode = MetricMode::max;
  policy.keep_best = 2;
  EXPECT_EQ(checkpoints_to_remove(all, policy, kNoWorker), (Steps{2, 3, 5}));
  policy.best_metric = "unheard of";
  EXPECT_EQ(checkpoints_to_remove(all, policy, kNoWorker), (Steps{1, 2, 3, 4, 5}));
}

TEST(CheckpointPolicy, NeverRemovesWhatTheCoordinatorLacksNorTheNewestThatItHolds) {
  const auto all = infos({10, 20, 30, 40});
  EXPECT_TRUE(checkpoints_to_remove(all, {.keep_last = 1}, -1).empty());
  EXPECT_TRUE(checkpoints_to_remove(all, {.keep_last = 1}, 10).empty());
  EXPECT_EQ(checkpoints_to_remove(all, {.keep_last = 1}, 25), (Steps{10}));
  EXPECT_EQ(checkpoints_to_remove(all, {.keep_last = 1}, 40), (Steps{10, 20, 30}));
}

TEST(CheckpointPolicy, WithNegativeNumbersIsRefused) {
  EXPECT_THROW(checkpoints_to_remove({}, {.keep_last = -1}, 0), std::invalid_argument);
  EXPECT_THROW(Retention({.keep_every = -5}), std::invalid_argument);
  EXPECT_THROW(Retention({.keep_best = -5}), std::invalid_argument);
}

struct Case {
  std::vector<CheckpointInfo> checkpoints;
  CheckpointPolicy policy;
  int64_t removable_up_to;
};

Case random_case(std::mt19937& random) {
  Case one;
  std::set<int64_t> steps;
  for (unsigned i = random() % 12; i > 0; --i) steps.insert(random() % 40);
  for (const int64_t step : steps) {
    CheckpointInfo info;
    info.step = step;
    if (random() % 4 > 0) info.metrics["m"] = static_cast<double>(random() % 5);
    one.checkpoints.push_back(info);
  }
  std::shuffle(one.checkpoints.begin(), one.checkpoints.end(), random);
  one.policy = {.keep_last = static_cast<int>(random() % 4),
                .keep_every = static_cast<int64_t>(random() % 6),
                .best_metric = random() % 2 > 0 ? "m" : "",
                .best_mode = random() % 2 > 0 ? MetricMode::max : MetricMode::min,
                .keep_best = static_cast<int>(random() % 3)};
  one.removable_up_to = random() % 3 > 0 ? kNoWorker : static_cast<int64_t>(random() % 45) - 2;
  return one;
}

// The promises of the header, each checked on its own.
void expect_promises(const Case& one, const Steps& removed) {
  const std::set<int64_t> gone(removed.begin(), removed.end());
  EXPECT_TRUE(std::is_sorted(removed.begin(), removed.end()));
  EXPECT_TRUE(one.policy.keep_last > 0 || gone.empty());
  int64_t newest = -1, newest_held = -1;
  double best = HUGE_VAL;
  const double sign = one.policy.best_mode == MetricMode::min ? 1 : -1;
  for (const CheckpointInfo& info : one.checkpoints) {
    newest = std::max(newest, info.step);
    if (info.step <= one.removable_up_to) newest_held = std::max(newest_held, info.step);
    EXPECT_FALSE(info.step > one.removable_up_to && gone.contains(info.step));
    if (one.policy.keep_every > 0 && info.step % one.policy.keep_every == 0) {
      EXPECT_FALSE(gone.contains(info.step));
    }
    if (info.metrics.contains("m")) best = std::min(best, sign * info.metrics.at("m"));
  }
  EXPECT_FALSE(gone.contains(newest));
  EXPECT_FALSE(gone.contains(newest_held));
  int newer = 0, best_kept = 0;
  for (const CheckpointInfo& info : one.checkpoints) {
    newer += gone.contains(info.step) ? 0 : 1;
    if (info.metrics.contains("m") && sign * info.metrics.at("m") == best) {
      best_kept += gone.contains(info.step) ? 0 : 1;
    }
  }
  EXPECT_GE(newer, std::min<int>(one.policy.keep_last, static_cast<int>(one.checkpoints.size())));
  if (best < HUGE_VAL && one.policy.best_metric == "m" && one.policy.keep_best > 0) {
    EXPECT_GE(best_kept, 1);
  }
}

TEST(CheckpointPolicy, KeepsItsPromisesOnRandomDirectories) {
  std::mt19937 random(7);
  size_t removed_in_all = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Case one = random_case(random);
    const Steps removed = checkpoints_to_remove(one.checkpoints, one.policy, one.removable_up_to);
    expect_promises(one, removed);
    removed_in_all += removed.size();
    // Applying the policy again to what is left removes nothing more.
    Case rest = one;
    std::erase_if(rest.checkpoints, [&](const CheckpointInfo& info) {
      return std::binary_search(removed.begin(), removed.end(), info.step);
    });
    EXPECT_TRUE(checkpoints_to_remove(rest.checkpoints, rest.policy, rest.removable_up_to).empty());
    if (HasFailure()) return;
  }
  EXPECT_GT(removed_in_all, 10'000u);
}

TEST(Retention, RemovesWholeDirectoriesButNeverTheStepJustSaved) {
  const TemporaryDirectory directory;
  for (const int64_t step : {10, 20, 30, 99}) make_checkpoint(directory, step);
  Retention retention({.keep_last = 1});
  retention.apply(directory.path(), 30, kNoWorker);
  EXPECT_EQ(list_steps(directory.path()), (Steps{30, 99}));
  EXPECT_FALSE(path_exists(directory / "step-10.tmp"));
}

TEST(Retention, FollowsTheMetricsOfManifestsAndOfPartFiles) {
  const TemporaryDirectory directory;
  Retention retention({.keep_last = 1, .best_metric = "loss"});
  const double losses[] = {3, 1, 2, 0.5, 4};
  for (int64_t step = 1; step <= 5; ++step) {
    const std::string path = make_checkpoint(directory, step, {{"loss", losses[step - 1]}});
    Manifest manifest = parse_manifest(read_file(path + "/" + kManifestName, 10'000), "m");
    if (step % 2 == 0) {  // as on a node without rank 0
      std::filesystem::remove(path + "/" + kManifestName);
      std::ofstream(path + "/" + part_name(1, 2)) << format_part(1, 2, manifest, {});
    }
    retention.apply(directory.path(), step, kNoWorker);
  }
  EXPECT_EQ(list_steps(directory.path()), (Steps{4, 5}));
}

TEST(Checkpoints, AreListedOnlyWhenComplete) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(list_checkpoints(directory / "missing").empty());
  EXPECT_FALSE(latest_checkpoint(directory.path()));
  for (const int64_t step : {5, 6, 7, 8, 9}) {
    make_checkpoint(directory, step, {{"accuracy", 10.0 - static_cast<double>(step)}});
  }
  std::filesystem::remove(directory / "step-9/manifest.json");
  std::filesystem::remove(directory / "step-8/shard");
  std::ofstream(directory / "step-7/shard") << "too long";
  std::filesystem::rename(directory / "step-5",
                          directory / "step-50");  // wrong name
  std::filesystem::create_directory(directory / "step-10.tmp");
  make_checkpoint(directory, 2, {{"accuracy", 1}});
  const auto listed = list_checkpoints(directory.path());
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].step, 2);
  EXPECT_EQ(listed[1].step, 6);
  EXPECT_EQ(listed[1].path, directory / "step-6");
  EXPECT_EQ(listed[1].created_ms, 1006);
  EXPECT_EQ(latest_checkpoint(directory.path())->step, 6);
  EXPECT_EQ(best_checkpoint(directory.path(), "accuracy", MetricMode::max)->step, 6);
  EXPECT_EQ(best_checkpoint(directory.path(), "accuracy")->step, 2);
  EXPECT_FALSE(best_checkpoint(directory.path(), "loss"));
}

}  // namespace
}  // namespace muster
