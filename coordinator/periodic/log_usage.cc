#include "coordinator/periodic/log_usage.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/core/state/owner.h"

namespace muster::coordinator {
namespace {

using common::HumanBytes;

// limit: logs: jobs looked at per turn, for `--person-log-quota` (JC1628)
constexpr size_t kJobsAtOnce = 50;
// limit: logs: between two looks at how much output each person's jobs keep
constexpr std::chrono::seconds kLookEvery{60};

// Keeps what is known until a look succeeds.
void LookLater(Jobs& jobs, JobStores& stores, Process& process, const absl::Status& why) {
  common::LogWarning(common::StrCat("cannot measure the output that each owner's jobs keep: ",
                                    common::MessageOf(why)));
  process.reads.PostAfter(kLookEvery,
                          [&jobs, &stores, &process] { KeepLogUsage(jobs, stores, process); });
}

void LookOn(Jobs& jobs, JobStores& stores, Process& process, std::shared_ptr<LogUsage::Look> look) {
  process.reads.Post([&jobs, &stores, &process, look = std::move(look)] {
    if (stores.log_usage.Measure(stores.logs, *look)) return LookOn(jobs, stores, process, look);
    stores.log_usage.Publish(std::move(*look));
    process.reads.PostAfter(kLookEvery,
                            [&jobs, &stores, &process] { KeepLogUsage(jobs, stores, process); });
  });
}

}  // namespace

std::map<std::string, uint64_t> LogUsage::ByOwner() const {
  std::lock_guard lock(mutex_);
  return by_owner_;
}

absl::Status LogUsage::CheckRoom(const Caller& caller) const {
  if (quota_bytes_ == 0) return absl::OkStatus();
  uint64_t used = 0;
  {
    std::lock_guard lock(mutex_);
    const auto found = by_owner_.find(OwnerKey(caller));
    if (found != by_owner_.end()) used = found->second;
  }
  if (used <= quota_bytes_) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1628",
       .what =
           common::StrCat("the output of the jobs of ", caller.principal, " takes ",
                          HumanBytes(used), ", and one person may have ", HumanBytes(quota_bytes_)),
       .fix = "remove old jobs (jobctl rm) and try again a minute later; logs_keep in a job file "
              "keeps less of one; an operator raises --person-log-quota"});
}

bool LogUsage::Measure(const LogStore& logs, Look& look) const {
  const size_t end = std::min(look.jobs.size(), look.next + kJobsAtOnce);
  for (; look.next < end; ++look.next) {
    const Job& job = look.jobs[look.next];
    uint64_t bytes = 0;
    bool is_known = false;
    if (job.is_over) {
      std::lock_guard lock(mutex_);
      const auto known = of_finished_.find(job.id);
      is_known = known != of_finished_.end();
      if (is_known) bytes = known->second;
    }
    if (!is_known) bytes = logs.StoredBytes(job.id);
    if (job.is_over) look.of_finished[job.id] = bytes;
    look.by_owner[job.owner_key] += bytes;
  }
  return look.next < look.jobs.size();
}

void LogUsage::Publish(Look look) {
  std::lock_guard lock(mutex_);
  of_finished_ = std::move(look.of_finished);
  by_owner_ = std::move(look.by_owner);
}

void KeepLogUsage(Jobs& jobs, JobStores& stores, Process& process) {
  jobs.loop.Ask(
      [&jobs, &stores, &process](const LoopView& view) {
        auto look = std::make_shared<LogUsage::Look>();
        for (const auto& [id, job] : view.state.jobs)
          look->jobs.push_back({.id = id, .owner_key = OwnerKey(job)});
        return [&jobs, &stores, &process, look] {
          process.reads.Post([&jobs, &stores, &process, look] {
            auto finished = jobs.index.Owners();
            if (!finished.ok()) return LookLater(jobs, stores, process, finished.status());
            for (auto& [id, owner] : *finished)
              look->jobs.push_back({.id = id, .owner_key = std::move(owner), .is_over = true});
            LookOn(jobs, stores, process, look);
          });
        };
      },
      [&jobs, &stores, &process](const absl::Status& why) {
        LookLater(jobs, stores, process, why);
      });
}

}  // namespace muster::coordinator
