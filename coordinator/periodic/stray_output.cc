#include "coordinator/periodic/stray_output.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "coordinator/contexts/contexts.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::minutes kFirstAfter{10};
constexpr std::chrono::hours kEvery{6};

// Of these, which are not live, those that no finished job has either. What cannot be looked up is not among them.
std::vector<uint64_t> Gone(JobIndex& index, const std::vector<uint64_t>& not_live) {
  std::vector<uint64_t> gone;
  for (const uint64_t job : not_live) {
    const auto found = index.FindIdentity(job);
    if (found.ok() && !found->has_value()) gone.push_back(job);
  }
  return gone;
}

void Remove(JobStores& stores, const std::vector<uint64_t>& gone) {
  if (gone.empty()) return;
  common::LogInfo(common::StrCat("removing what jobs left that were removed jobs=", gone.size(),
                                 " first=", gone.front(), " last=", gone.back()));
  for (const uint64_t job : gone) {
    stores.logs.Remove(job);
    stores.metrics.Remove(job);
  }
}

}  // namespace

void SweepStrayOutput(Jobs& jobs, JobStores& stores, Process& process, std::function<void()> done) {
  // First what is stored, then the jobs: what a new one writes meanwhile is not among it.
  std::set<uint64_t> stored;
  for (const uint64_t job : stores.logs.Jobs()) stored.insert(job);
  for (const uint64_t job : stores.metrics.Jobs()) stored.insert(job);
  jobs.loop.Ask(
      [&jobs, &stores, &process, stored, done](const LoopView& view) -> std::function<void()> {
        std::vector<uint64_t> not_live;
        std::copy_if(stored.begin(), stored.end(), std::back_inserter(not_live), [&](uint64_t job) {
          // A number that no job has had yet is of a state that is newer than this one.
          return job != 0 && job < view.state.next_job_id && !view.state.jobs.contains(job);
        });
        return [&jobs, &stores, &process, not_live, done] {
          process.reads.Post([&jobs, &stores, not_live, done] {
            Remove(stores, Gone(jobs.index, not_live));
            done();
          });
        };
      },
      [done](const absl::Status&) { done(); });
}

void KeepSweepingOutput(Jobs& jobs, JobStores& stores, Process& process) {
  process.reads.PostAfter(kFirstAfter, [&jobs, &stores, &process] {
    SweepStrayOutput(jobs, stores, process, [&jobs, &stores, &process] {
      process.reads.PostAfter(
          kEvery, [&jobs, &stores, &process] { KeepSweepingOutput(jobs, stores, process); });
    });
  });
}

}  // namespace muster::coordinator
