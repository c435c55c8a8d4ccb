#include "coordinator/periodic/stray_output.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "coordinator/contexts/contexts.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::minutes kFirstAfter{10};
constexpr std::chrono::hours kEvery{6};

struct Sweep {
  Jobs& jobs;
  JobStores& stores;
  WorkPool& pool;
  std::deque<uint64_t> left;  // that are not live
  std::function<void()> done;
};

// One job at a time: the pool has other work, too.
void SweepNext(const std::shared_ptr<Sweep>& sweep) {
  if (sweep->left.empty()) return sweep->done();
  const uint64_t job = sweep->left.front();
  sweep->left.pop_front();
  const auto found = sweep->jobs.index.FindIdentity(job);
  // What cannot be looked up stays.
  if (found.ok() && !found->has_value()) {
    common::LogInfo(common::StrCat("removing what a job left that was removed job=", job));
    sweep->stores.logs.Remove(job);
    sweep->stores.metrics.Remove(job);
  }
  sweep->pool.Post([sweep] { SweepNext(sweep); });
}

}  // namespace

void SweepStrayOutput(Jobs& jobs, JobStores& stores, Process& process, std::function<void()> done) {
  // First what is stored, then the jobs: what a new one writes meanwhile is not among it.
  std::set<uint64_t> stored;
  for (const uint64_t job : stores.logs.Jobs()) stored.insert(job);
  for (const uint64_t job : stores.metrics.Jobs()) stored.insert(job);
  jobs.loop.Ask(
      [&jobs, &stores, &process, stored, done](const LoopView& view) -> std::function<void()> {
        const auto sweep = std::make_shared<Sweep>(
            Sweep{.jobs = jobs, .stores = stores, .pool = process.reads, .left = {}, .done = done});
        std::copy_if(
            stored.begin(), stored.end(), std::back_inserter(sweep->left), [&](uint64_t job) {
              // A number that no job has had yet is of a state that is newer than this one.
              return job != 0 && job < view.state.next_job_id && !view.state.jobs.contains(job);
            });
        return [sweep] { sweep->pool.Post([sweep] { SweepNext(sweep); }); };
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
