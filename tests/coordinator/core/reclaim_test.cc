// Giving way over many random clusters, quotas and jobs: who is asked, that it suffices, that none is asked in vain, and
// that it comes to an end.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/scheduling/fit.h"
#include "coordinator/core/scheduling/pass.h"
#include "tests/support/cluster_script.h"

namespace muster::coordinator {
namespace {

constexpr const char* kProjects[] = {"red", "blue", "green"};

// Jobs that run until they are asked to leave. Some save when they are asked, some do not.
class World {
 public:
  explicit World(uint32_t seed) : random_(seed) {
    const int nodes = Draw(2, 4);
    for (int i = 0; i < nodes; ++i) {
      const int devices = Draw(1, 4);
      all_ += devices;
      Run(absl::StrCat("node ", std::string(1, static_cast<char>('a' + i)), " gpu:", devices));
    }
    ShareOut();
  }

  // Quotas that all projects can have at once.
  void ShareOut() {
    int left = all_;
    std::string line = "projects";
    for (const char* project : kProjects) {
      quotas_[project] = Draw(0, left);
      left -= quotas_[project];
      absl::StrAppend(&line, " ", project, ":gpu:", quotas_[project]);
    }
    Run(line);
  }
  void Submit() {
    Run(absl::StrCat("submit n=", Draw(1, 4), " kind=gpu anyway=1 project=", kProjects[Draw(0, 2)],
                     Draw(0, 3) == 0 ? " preemptible=0" : "", " priority=", Draw(0, 1)));
    const uint64_t id = state().next_job_id - 1;
    if (WhyNever(state(), state().jobs.at(id), script_.now()).has_value())
      Run(absl::StrCat("cancel ", id));
  }
  void Wait(int64_t minutes) { Run(absl::StrCat("wait ", minutes * 60'000)); }
  void EndOne() {
    for (const auto& [id, job] : state().jobs) {
      if (job.state() == v1::JOB_STATE_RUNNING) return Run(absl::StrCat("finish ", id));
    }
  }

  void CancelOneThatClaims() {
    for (const auto& [id, job] : state().jobs) {
      if (job.claims()) return Run(absl::StrCat("cancel ", id));
    }
  }

  const ClusterState& state() const { return script_.state(); }
  Now now() const { return script_.now(); }
  int gave_way() const { return gave_way_; }
  int within() const { return within_; }  // to one of their own project
  bool AnyClaims() const { return !claims_.empty(); }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void Run(const std::string& line) {
    for (const std::string& out : script_.Run(line))
      EXPECT_FALSE(out.starts_with("SCRIPT ERROR")) << line << "\n" << out;
    CheckClaims();
    Play();
  }

  uint64_t DevicesOf(const v1::JobRecord& job) const {
    uint64_t devices = 0;
    const v1::Attempt* attempt = LiveAttempt(job);
    for (int i = 0; attempt != nullptr && i < attempt->parts_size(); ++i)
      devices += static_cast<uint64_t>(attempt->parts(i).device_indexes_size());
    return devices;
  }

  // The jobs of a project that made up its quota before a job claimed: what leaves comes last, what may not be asked
  // first.
  std::set<uint64_t> InQuota(const std::string& project, uint64_t claims) const {
    std::map<std::tuple<bool, bool, int32_t, int64_t, uint64_t>, uint64_t> runners;
    for (const uint64_t id : state().active) {
      const v1::JobRecord& job = state().jobs.at(id);
      const v1::Attempt* attempt = LiveAttempt(job);
      if (attempt == nullptr || ProjectOf(job) != project) continue;
      const bool leaves =
          attempt->stopping() || (attempt->has_notice() && attempt->notice().by() != claims);
      runners[{leaves, !job.spec().has_preemptible(), -job.spec().priority(),
               state().timers.at(id).attempt_since_mono_ms, id}] = DevicesOf(job);
    }
    std::set<uint64_t> in_quota;
    uint64_t used = 0;
    for (const auto& [place, devices] : runners) {
      if (used + devices > static_cast<uint64_t>(quotas_.at(project))) continue;
      used += devices;
      in_quota.insert(std::get<4>(place));
    }
    return in_quota;
  }

  // What holds of each claim when it is made.
  void CheckClaims() {
    for (const uint64_t id : state().active) {
      const v1::Attempt* attempt = LiveAttempt(state().jobs.at(id));
      if (attempt == nullptr || attempt->stopping() || !attempt->has_notice()) continue;
      const auto owner = state().jobs.find(attempt->notice().by());
      EXPECT_TRUE(owner != state().jobs.end() && owner->second.claims())
          << "job " << id << " is asked for a job that claims nothing";
    }
    for (const auto& [id, job] : state().jobs) {
      if (!job.claims() || !claims_.insert(id).second) continue;
      std::map<std::string, uint64_t> used;
      std::vector<const v1::JobRecord*> asked;
      for (const uint64_t active : state().active) {
        const v1::JobRecord& other = state().jobs.at(active);
        const v1::Attempt* attempt = LiveAttempt(other);
        if (attempt == nullptr) continue;
        used[ProjectOf(other)] += DevicesOf(other);
        if (attempt->has_notice() && attempt->notice().by() == id) asked.push_back(&other);
      }
      ASSERT_FALSE(asked.empty());
      EXPECT_TRUE(StaysWithin(job, used[ProjectOf(job)], asked))
          << "job " << id << " borrows more than its project has now";
      for (const v1::JobRecord* victim : asked) {
        EXPECT_FALSE(victim->spec().has_preemptible()) << "it may not be asked";
        if (ProjectOf(*victim) == ProjectOf(job)) {
          EXPECT_LT(victim->spec().priority(), job.spec().priority());
          ++within_;
          continue;
        }
        EXPECT_LE(LeastDevices(job.spec().shape()), static_cast<uint64_t>(quotas_[ProjectOf(job)]));
        EXPECT_GT(used[ProjectOf(*victim)], static_cast<uint64_t>(quotas_[ProjectOf(*victim)]));
        EXPECT_FALSE(InQuota(ProjectOf(*victim), id).contains(victim->id()))
            << "job " << victim->id() << " is asked, and was within its project's quota";
      }
      EXPECT_TRUE(FitsWithout(job, asked)) << "job " << id << " does not fit after all";
      // What is free may be held for another that claims, or have become free since.
      if (claims_.size() > 1 || std::any_of(asked.begin(), asked.end(), [](const auto* each) {
            return LiveAttempt(*each)->stopping();
          })) {
        continue;
      }
      for (const v1::JobRecord* spared : asked) {
        std::vector<const v1::JobRecord*> fewer = asked;
        std::erase(fewer, spared);
        EXPECT_FALSE(FitsWithout(job, fewer) && StaysWithin(job, used[ProjectOf(job)], fewer))
            << "job " << spared->id() << " is asked in vain";
      }
    }
    std::erase_if(claims_, [&](uint64_t id) {
      const auto job = state().jobs.find(id);
      return job == state().jobs.end() || !job->second.claims();
    });
  }

  // Of its own project, those that give way free what the project may not have more of.
  bool StaysWithin(const v1::JobRecord& job, uint64_t used,
                   const std::vector<const v1::JobRecord*>& gone) const {
    uint64_t with = used + LeastDevices(job.spec().shape());
    for (const v1::JobRecord* each : gone) {
      if (ProjectOf(*each) == ProjectOf(job)) with -= DevicesOf(*each);
    }
    return with <= std::max(used, static_cast<uint64_t>(quotas_.at(ProjectOf(job))));
  }

  bool FitsWithout(const v1::JobRecord& job, const std::vector<const v1::JobRecord*>& gone) const {
    Usage usage = Usage::Of(state());
    for (const v1::JobRecord* each : gone) usage.Remove(*LiveAttempt(*each));
    return Fit(state(), usage, DemandOf(job.spec()), "gpu", Which::kFreeNow, {}).has_value();
  }

  // What nodes and programs do.
  void Play() {
    for (bool any = true; any;) {
      any = false;
      for (const auto& [id, job] : state().jobs) {
        const v1::Attempt* attempt = LiveAttempt(job);
        if (attempt == nullptr) continue;
        any = PlayOne(id, job, *attempt);
        if (any) break;  // the jobs may have changed
      }
    }
  }

  bool PlayOne(uint64_t id, const v1::JobRecord& job, const v1::Attempt& attempt) {
    const std::string key = absl::StrCat(id, ".", attempt.number());
    if (job.state() == v1::JOB_STATE_STARTING && !attempt.parts(0).launched()) {
      Say(absl::StrCat("launch ", id));
      return true;
    }
    if (attempt.stopping()) {
      gave_way_ += attempt.cause() == v1::STOP_CAUSE_PREEMPTED && ended_.insert(key).second;
      for (const v1::NodePart& part : attempt.parts()) {
        if (part.ended()) continue;
        Say(absl::StrCat("status ", part.node(), " ", key, " phase=ended"));
        return true;
      }
    }
    if (job.state() == v1::JOB_STATE_RUNNING && saved_.insert(key).second && Draw(0, 2) != 0) {
      Say(absl::StrCat("checkpoint ", attempt.parts(0).node(), " ", key, " ", ++step_, " 0/1"));
      return true;
    }
    if (NoticeStands(state(), attempt) && asked_.insert(key).second && Draw(0, 2) != 0) {
      Say(absl::StrCat("checkpoint ", attempt.parts(0).node(), " ", key, " ", ++step_, " 0/1"));
      return true;
    }
    return false;
  }

  void Say(const std::string& line) {
    for (const std::string& out : script_.Run(line))
      EXPECT_FALSE(out.starts_with("SCRIPT ERROR")) << line << "\n" << out;
    CheckClaims();
  }

  std::mt19937 random_;
  testing::ClusterScript script_;
  int all_ = 0, gave_way_ = 0, within_ = 0;
  int64_t step_ = 0;
  std::map<std::string, int> quotas_;
  std::set<uint64_t> claims_;
  std::set<std::string> saved_, asked_, ended_;
};

TEST(ReclaimTest, WhatIsAskedIsBorrowedSufficesAndComesToAnEnd) {
  int gave_way = 0, within = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    World world(seed);
    for (int job = 0; job < 20; ++job) {
      world.Submit();
      world.Wait(job % 3 == 0 ? 45 : 1);
      if (job % 5 == 4 || world.AnyClaims()) world.EndOne();
      if (job == 9) world.ShareOut();
      if (job % 6 == 5) world.CancelOneThatClaims();
    }
    // Nothing ends, comes or changes any more: what can still give way has done so after some hours.
    for (int hour = 0; hour < 3; ++hour) world.Wait(60);
    const int before = world.gave_way();
    for (int hour = 0; hour < 3; ++hour) world.Wait(60);
    EXPECT_EQ(world.gave_way(), before) << "seed " << seed << ": it does not come to an end";
    for (const auto& [id, job] : world.state().jobs) EXPECT_FALSE(job.claims()) << "seed " << seed;
    gave_way += world.gave_way();
    within += world.within();
  }
  EXPECT_GT(gave_way, 10) << "these worlds hardly make a job give way";
  EXPECT_GT(within, 5) << "hardly one gives way within its project";
}

}  // namespace
}  // namespace muster::coordinator
