// A world that is small enough to go through all of it: two projects, two nodes with two devices each, and four jobs, which
// are submitted, save, end, and wait in every order, three things deep from several states (seven with MUSTER_TEST_FULL=1). What is looked at in each state: that the
// invariants hold; and, once nothing happens any more but time, that giving way comes to an end, and that no project's first job
// waits that its quota has room for while others borrow what it needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/scheduling/fit.h"
#include "coordinator/core/scheduling/project_use.h"
#include "coordinator/core/state/invariants.h"
#include "tests/support/cluster_script.h"

namespace muster::coordinator {
namespace {

// MUSTER_TEST_FULL=1: all seven, which takes minutes.
int Depth() {
#ifdef __SANITIZE_ADDRESS__
  return 1;
#endif
  const char* full = std::getenv("MUSTER_TEST_FULL");
  return full != nullptr && full == std::string_view("1") ? 7 : 3;
}

constexpr int64_t kMinRunMs = 30 * 60'000;
constexpr std::array kJobs = {"n=2 kind=gpu project=red", "n=4 kind=gpu project=red",
                              "n=2 kind=gpu project=blue", "n=1 kind=gpu project=blue priority=1"};

class SmallWorld {
 public:
  SmallWorld() {
    Run("node a gpu:2");
    Run("node b gpu:2");
    Share();
  }

  const ClusterState& state() const { return script_.state(); }
  int gave_way() const { return gave_way_; }

  // What may happen now; each is a text that Do takes.
  std::vector<std::string> Choices() const {
    std::vector<std::string> choices = {"soon", "later", "quota"};
    for (size_t i = 0; i < kJobs.size(); ++i) {
      if (std::find(order_.begin(), order_.end(), i) == order_.end())
        choices.push_back(absl::StrCat("submit ", i));
    }
    for (size_t at = 0; at < order_.size(); ++at) {
      const auto job = state().jobs.find(at + 1);
      if (job == state().jobs.end() || job->second.state() != v1::JOB_STATE_RUNNING) continue;
      choices.push_back(absl::StrCat("finish ", at + 1));
      if (!saved_.contains(KeyOfAttempt(job->second)))
        choices.push_back(absl::StrCat("save ", at + 1));
    }
    return choices;
  }
  void Do(const std::string& choice) {
    const uint64_t number = choice.back() - '0';
    if (choice == "soon") Run("wait 30000");
    if (choice == "later") Run(absl::StrCat("wait ", kMinRunMs + 60'000));
    if (choice == "quota") {
      red_ = red_ == 2 ? 3 : 2;
      Share();
    }
    if (choice.starts_with("submit")) {
      order_.push_back(number);
      Run(absl::StrCat("submit ", kJobs[number]));
    }
    if (choice.starts_with("finish")) Run(choice);
    if (choice.starts_with("save")) Save(number);
  }
  void Wait(int hours) {
    for (int i = 0; i < hours; ++i) Run("wait 3600000");
  }

  // Two states with the same key lead to the same, but for how long something has lasted beyond what rules look at.
  std::string Key() const {
    std::string key = absl::StrCat(red_, " ", absl::StrJoin(order_, ","));
    for (const auto& [id, job] : state().jobs) {
      const Now now = script_.now();
      const JobTimers& timers = state().timers.at(id);
      absl::StrAppend(&key, "|", id, " ", job.state(), job.claims() ? "c" : "",
                      job.gave_way() ? "g" : "",
                      now.mono_ms - timers.state_since_mono_ms >= 30'000 ? "w" : "");
      const v1::Attempt* attempt = LiveAttempt(job);
      if (attempt == nullptr) continue;
      const int64_t ran_ms = now.mono_ms - timers.running_since_mono_ms;
      absl::StrAppend(&key, " r", std::min<int64_t>(4, ran_ms / kMinRunMs),
                      saved_.contains(KeyOfAttempt(job)) ? "s" : "", " by", attempt->notice().by());
      for (const v1::NodePart& part : attempt->parts())
        absl::StrAppend(&key, " ", part.node(), absl::StrJoin(part.device_indexes(), ""));
    }
    return key;
  }

  // No job waits, so that nothing will give way.
  bool IsQuiet() const { return state().queue.empty(); }
  // Of the first jobs of the projects: others wait for those. "": none does.
  std::string WhoStarves() const {
    const ProjectUse use(state());
    std::set<std::string> projects;
    for (const QueuePlace& place : state().queue) {
      const v1::JobRecord& job = state().jobs.at(place.job);
      const std::string& project = ProjectOf(job);
      if (!projects.insert(project).second) continue;
      const uint64_t needs = LeastDevices(job.spec().shape());
      if (use.Of(project, "gpu") + needs > QuotaOf(state().projects, project, "gpu")) continue;
      if (WouldFitBesideQuotas(job)) return job.name();
    }
    return "";
  }

 private:
  static std::string KeyOfAttempt(const v1::JobRecord& job) {
    return absl::StrCat(job.id(), ".", job.attempts().rbegin()->number());
  }
  // With everything of other projects gone that their quota does not cover.
  bool WouldFitBesideQuotas(const v1::JobRecord& job) const {
    Usage usage = Usage::Of(state());
    std::vector<const v1::JobRecord*> others;
    for (const uint64_t id : state().active) {
      if (ProjectOf(state().jobs.at(id)) != ProjectOf(job)) others.push_back(&state().jobs.at(id));
    }
    std::sort(others.begin(), others.end(), [&](const auto* x, const auto* y) {
      return std::pair(-x->spec().priority(), state().timers.at(x->id()).attempt_since_mono_ms) <
             std::pair(-y->spec().priority(), state().timers.at(y->id()).attempt_since_mono_ms);
    });
    uint64_t in_quota = 0;
    for (const v1::JobRecord* other : others) {
      const uint64_t has = LeastDevices(other->spec().shape());
      if (in_quota + has <= QuotaOf(state().projects, ProjectOf(*other), "gpu")) {
        in_quota += has;
      } else {
        usage.Remove(*LiveAttempt(*other));
      }
    }
    return Fit(state(), usage, DemandOf(job.spec()), "gpu", Which::kFreeNow, {}).has_value();
  }

  void Share() { Run(absl::StrCat("projects red:gpu:", red_, " blue:gpu:", 4 - red_)); }
  void Save(uint64_t id) {
    const v1::JobRecord& job = state().jobs.at(id);
    saved_.insert(KeyOfAttempt(job));
    const std::string key = KeyOfAttempt(job);
    const v1::Attempt attempt = *LiveAttempt(job);
    ++step_;
    for (int i = 0; i < attempt.parts_size(); ++i) {
      Run(absl::StrCat("checkpoint ", attempt.parts(i).node(), " ", key, " ", step_, " ", i, "/",
                       attempt.parts_size()));
    }
  }
  void Run(const std::string& line) {
    for (const std::string& out : script_.Run(line))
      EXPECT_FALSE(out.starts_with("SCRIPT ERROR")) << line << "\n" << out;
    while (PlayOne()) continue;
  }
  void CheckClaimer(const v1::JobRecord& victim, const v1::JobRecord& claimer) const {
    if (ProjectOf(victim) == ProjectOf(claimer)) {
      EXPECT_LT(victim.spec().priority(), claimer.spec().priority());
    } else {
      EXPECT_LE(LeastDevices(claimer.spec().shape()),
                QuotaOf(state().projects, ProjectOf(claimer), "gpu"))
          << "job " << victim.id() << " gives way to one that is not within its quota any more";
    }
  }
  // Nodes do what they are told.
  bool PlayOne() {
    for (const auto& [id, job] : state().jobs) {
      const v1::Attempt* attempt = LiveAttempt(job);
      if (attempt == nullptr) continue;
      if (job.state() == v1::JOB_STATE_STARTING) {
        script_.Run(absl::StrCat("launch ", id));
        return true;
      }
      if (!attempt->stopping()) continue;
      if (attempt->cause() == v1::STOP_CAUSE_PREEMPTED && left_.insert(KeyOfAttempt(job)).second) {
        ++gave_way_;
        CheckClaimer(job, state().jobs.at(attempt->notice().by()));
      }
      for (const v1::NodePart& part : attempt->parts()) {
        if (part.ended()) continue;
        script_.Run(absl::StrCat("status ", part.node(), " ", KeyOfAttempt(job), " phase=ended"));
        return true;
      }
    }
    return false;
  }

  testing::ClusterScript script_;
  std::vector<size_t> order_;           // of kJobs, as they were submitted: numbers 1, 2, …
  std::set<std::string> saved_, left_;  // attempts
  int red_ = 2, gave_way_ = 0;
  int64_t step_ = 0;
};

using Path = std::vector<std::string>;

SmallWorld WorldAfter(const Path& path) {
  SmallWorld world;
  for (const std::string& choice : path) world.Do(choice);
  return world;
}

// Once nothing happens any more but time.
void CheckWhatFollows(SmallWorld& world, const std::string& how) {
  if (world.IsQuiet()) return;
  world.Wait(4);
  const int before = world.gave_way();
  world.Wait(3);
  ASSERT_EQ(world.gave_way(), before) << "it does not come to an end: " << how;
  ASSERT_EQ(world.WhoStarves(), "") << how;
}

TEST(SmallWorldTest, InEveryOrderGivingWayEndsAndNoFirstJobStarvesWithinItsQuota) {
  std::set<std::string> seen;
  // Also from where a borrower may be asked, and is.
  std::vector<Path> level = {
      {}, {"submit 1", "save 1", "later"}, {"submit 1", "save 1", "later", "submit 2", "soon"}};
  int gave_way = 0;
  const int most = Depth();
  for (int depth = 0; depth <= most; ++depth) {
    std::vector<Path> next;
    for (const Path& path : level) {
      SmallWorld world = WorldAfter(path);
      if (!seen.insert(world.Key()).second) continue;
      const std::string how = absl::StrJoin(path, ", ");
      ASSERT_EQ(BrokenInvariant(world.state()), "") << how;
      for (const std::string& choice : world.Choices()) {
        if (depth == most) break;
        next.push_back(path);
        next.back().push_back(choice);
      }
      CheckWhatFollows(world, how);
      ASSERT_FALSE(HasFailure()) << how;
      gave_way += world.gave_way();
    }
    level = std::move(next);
  }
  EXPECT_GT(gave_way, 0);
  printf("%zu states, %d jobs gave way\n", seen.size(), gave_way);
}

}  // namespace
}  // namespace muster::coordinator
