// Backfill and held places over many random clusters and queues, against what a slow search finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/scheduling/fit.h"
#include "coordinator/core/scheduling/held_place.h"
#include "coordinator/core/scheduling/pass.h"
#include "tests/support/cluster_script.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kMinuteMs = 60'000;

// A small cluster whose jobs take exactly as long as they say, or of which nothing is known.
class World {
 public:
  explicit World(uint32_t seed, bool all_estimates) : random_(seed), all_estimates_(all_estimates) {
    const int nodes = Draw(1, 4);
    for (int i = 0; i < nodes; ++i)
      Run(absl::StrCat("node ", std::string(1, static_cast<char>('a' + i)), " gpu:", Draw(1, 4)));
  }

  void Step() {
    if (submitted_ < 25 && Draw(0, 2) != 0) return Submit();
    EndNext();
  }
  bool IsOver() const { return submitted_ == 25 && state().jobs.empty(); }
  const ClusterState& state() const { return script_.state(); }
  Now now() const { return script_.now(); }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void Run(const std::string& line) {
    for (const std::string& out : script_.Run(line))
      EXPECT_FALSE(out.starts_with("SCRIPT ERROR")) << line << "\n" << out;
    LaunchStarted();
  }

  void LaunchStarted() {
    for (const auto& [id, job] : state().jobs) {
      if (job.state() != v1::JOB_STATE_STARTING || ends_.contains(id)) continue;
      ends_[id] = now().mono_ms + takes_.at(id);
      script_.Run(absl::StrCat("launch ", id));
    }
  }

  void Submit() {
    const uint64_t id = state().next_job_id;
    takes_[id] = Draw(1, 120) * kMinuteMs;
    const bool says = all_estimates_ || Draw(0, 1) == 0;
    ++submitted_;
    Run(absl::StrCat("submit n=", Draw(1, 6), " kind=gpu anyway=1",
                     says ? absl::StrCat(" estimate_ms=", takes_[id]) : ""));
    // It may be larger than the cluster.
    const v1::JobRecord& job = state().jobs.at(id);
    if (WhyNever(state(), job, now()).has_value()) Run(absl::StrCat("cancel ", id));
  }

  void EndNext() {
    if (ends_.empty()) return;
    const auto next =
        std::min_element(ends_.begin(), ends_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const uint64_t id = next->first;
    if (next->second > now().mono_ms) Run(absl::StrCat("wait ", next->second - now().mono_ms));
    ends_.erase(id);
    Run(absl::StrCat("finish ", id));
  }

  std::mt19937 random_;
  const bool all_estimates_;
  testing::ClusterScript script_;
  int submitted_ = 0;
  std::map<uint64_t, int64_t> takes_, ends_;
};

const v1::JobRecord* FirstWaiting(const ClusterState& state) {
  return state.queue.empty() ? nullptr : &state.jobs.at(state.queue.begin()->job);
}

// When the job could start if nothing else started: tries one end after the other.
std::optional<int64_t> EarliestBySearch(const ClusterState& state, const v1::JobRecord& job,
                                        Now now) {
  const Demand demand = DemandOf(job.spec());
  std::vector<Occupant> left = OccupantsOf(state, now);
  std::optional<int64_t> at = now.mono_ms;
  while (true) {
    Usage usage;
    for (const Occupant& occupant : left) usage.Add(*occupant.attempt);
    if (Fit(state, usage, demand, "gpu", Which::kFreeNow, {}).has_value()) return at;
    const auto next = std::min_element(left.begin(), left.end(), [](const auto& a, const auto& b) {
      return a.end.at_mono_ms.value_or(INT64_MAX) < b.end.at_mono_ms.value_or(INT64_MAX);
    });
    if (next == left.end() || !next->end.at_mono_ms.has_value()) return std::nullopt;
    at = next->end.at_mono_ms;
    left.erase(next);
  }
}

TEST(BackfillTest, APlaceIsHeldForTheEarliestStartThereIs) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    World world(seed, seed % 2 == 0);
    for (int step = 0; step < 200 && !world.IsOver(); ++step) {
      world.Step();
      const v1::JobRecord* first = FirstWaiting(world.state());
      if (first == nullptr) continue;
      Asides found;
      Pass pass(world.state(), found, world.now());
      pass.Run();
      const HeldPlace* place = pass.PlaceFor(*first);
      ASSERT_NE(place, nullptr) << "seed " << seed << ", step " << step;
      EXPECT_EQ(place->from_mono_ms, EarliestBySearch(world.state(), *first, world.now()))
          << "seed " << seed << ", step " << step;
    }
  }
}

// Q8, and Q7 without any of its causes: nothing is lost, and all have one priority.
TEST(BackfillTest, IfAllEstimatesAreTrueNoHeldPlaceIsDelayed) {
  int passed = 0;
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    World world(seed, true);
    std::map<uint64_t, int64_t> promised;  // by job: the earliest start that it was ever told
    for (int step = 0; step < 200 && !world.IsOver(); ++step) {
      world.Step();
      for (const auto& [job, by] : promised) {
        if (!world.state().queue.contains({.priority = 0, .job = job})) continue;
        ASSERT_LE(world.now().mono_ms, by) << "seed " << seed << ", job " << job;
      }
      Asides found;
      Pass pass(world.state(), found, world.now());
      pass.Run();
      for (const QueuePlace& queued : world.state().queue) {
        const HeldPlace* place = pass.PlaceFor(world.state().jobs.at(queued.job));
        if (place == nullptr) continue;
        const auto [at, fresh] = promised.try_emplace(queued.job, *place->from_mono_ms);
        ASSERT_LE(*place->from_mono_ms, at->second) << "seed " << seed << ", job " << queued.job;
        at->second = *place->from_mono_ms;
        for (const uint64_t active : world.state().active) passed += active > queued.job;
      }
    }
    EXPECT_TRUE(world.IsOver()) << "seed " << seed << ": a job never ran";
  }
  EXPECT_GT(passed, 200) << "these worlds hardly let a job pass another";
}

// What waits has a reason: its devices are not free, or it would keep the first job from its place.
TEST(BackfillTest, NoJobWaitsThatCouldStartWithoutDelay) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    World world(seed, seed % 2 == 0);
    for (int step = 0; step < 200 && !world.IsOver(); ++step) {
      world.Step();
      const v1::JobRecord* first = FirstWaiting(world.state());
      if (first == nullptr) continue;
      Asides found;
      Pass pass(world.state(), found, world.now());
      pass.Run();
      const HeldPlace* place = pass.PlaceFor(*first);
      ASSERT_NE(place, nullptr);
      for (const QueuePlace& queued : world.state().queue) {
        const v1::JobRecord& job = world.state().jobs.at(queued.job);
        Usage usage = Usage::Of(world.state());
        const auto run_ms = static_cast<int64_t>(job.spec().estimate_ms());
        const bool in_time =
            run_ms > 0 && world.now().mono_ms + run_ms <= place->not_before_mono_ms;
        if (!in_time && job.id() != first->id()) usage.Add("gpu", place->shares);
        EXPECT_FALSE(
            Fit(world.state(), usage, DemandOf(job.spec()), "gpu", Which::kFreeNow, {}).has_value())
            << "seed " << seed << ", step " << step << ", job " << job.id();
      }
    }
  }
}

}  // namespace
}  // namespace muster::coordinator
