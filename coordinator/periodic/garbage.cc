#include "coordinator/periodic/garbage.h"

#include "coordinator/periodic/assessor.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/base/number_file.h"
#include "coordinator/code/job_code.h"
#include "coordinator/gates/code_gate.h"
#include "coordinator/gates/gates.h"
#include "coordinator/gates/job_gate.h"
#include "coordinator/gates/resume_gate.h"
#include "coordinator/gates/sample_gate.h"
#include "coordinator/identity/directory.h"
#include "coordinator/periodic/code_garbage.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::minutes kHousekeepingEvery{5};
constexpr std::chrono::minutes kPromisedAgainAfter{11};
constexpr size_t kNamedInLogMax = 20;
constexpr size_t kAskedAtOnce = 256;  // other queries of the index wait meanwhile

// On a pool thread, once the removal is durable.
void DeleteFiles(Jobs& jobs, JobStores& stores, Gates& gates,
                 const std::vector<uint64_t>& removed) {
  for (const uint64_t job : removed) {
    gates.jobs.Forget(job);
    gates.samples.Forget(job);
    gates.resume.Forget(job);
    gates.code.Forget(job);
    stores.logs.Remove(job);
    stores.metrics.Remove(job);
    jobs.assessor.Forget(job);
    stores.samples.Remove(job);
    if (const absl::Status done = stores.blobs.ForgetJob(job); !done.ok())
      common::LogWarning(common::StrCat(
          "what job ", job, " sent to the object store is kept: ", common::MessageOf(done)));
  }
}

std::vector<uint64_t> RemovedJobs(const RemoveInput& input, const Reply& reply) {
  std::vector<uint64_t> removed;
  for (size_t i = 0; i < reply.results.size() && i < input.jobs.size(); ++i) {
    if (reply.results[i].status_code() == 0) removed.push_back(input.jobs[i].id);
  }
  return removed;
}

std::string NameSome(const std::vector<RemoveInput::Job>& jobs) {
  std::string names;
  for (size_t i = 0; i < jobs.size() && i < kNamedInLogMax; ++i) {
    common::StrAppend(&names, i == 0 ? "" : ", ", jobs[i].id, " ", common::Printable(jobs[i].name));
  }
  if (jobs.size() > kNamedInLogMax) {
    common::StrAppend(&names, " and ", jobs.size() - kNamedInLogMax, " more");
  }
  return names;
}

// Age is measured only on the lived clock. Removals are counted on disk before they happen, so that
// restarts do not add shares.
void RemoveExpired(Jobs& jobs, JobStores& stores, JobCode& job_code, Gates& gates, Process& process,
                   const Retention& retention) {
  const int64_t lived_ms = process.clock.Read().lived_ms;
  const std::string path = process.paths.RetentionShare();
  RetentionShare share(ReadNumbers(path, RetentionShare::kCount));
  const auto counts = jobs.index.CountFinished(lived_ms - retention.days * RetentionShare::kDayMs,
                                               share.CountedUntil());
  if (!counts.ok()) return;
  const RetentionShare::Removal removal = share.Take(*counts, retention, lived_ms);
  const absl::Status kept = WriteNumbers(path, share.Numbers());
  if (!kept.ok() || removal.count == 0) return;
  auto expired = jobs.index.Oldest(static_cast<uint32_t>(removal.count));
  if (!expired.ok() || expired->empty()) return;
  common::LogInfo(common::StrCat(
      "retention: removing finished jobs count=", expired->size(), " of=", counts->all,
      " older_than_", retention.days, "_days=", removal.aged, " beyond_the_newest_", retention.jobs,
      "=", removal.surplus, " removed_today=", share.Removed(), " share_of_a_day=", removal.share,
      " jobs=\"", NameSome(*expired), "\""));
  RemoveWithBelongings(jobs, stores, job_code, gates, process,
                       RemoveInput{Caller{"retention"}, *std::move(expired)}, [](const Reply&) {});
}

// Of these, those that no finished job and no code refers to. An error: it is not known.
absl::StatusOr<std::vector<std::string>> Unreferenced(Jobs& jobs, JobCode& job_code,
                                                      const std::vector<std::string>& blobs) {
  std::vector<std::string> unreferenced;
  for (size_t begin = 0; begin < blobs.size(); begin += kAskedAtOnce) {
    const size_t end = std::min(begin + kAskedAtOnce, blobs.size());
    const std::vector<std::string> some(blobs.begin() + static_cast<std::ptrdiff_t>(begin),
                                        blobs.begin() + static_cast<std::ptrdiff_t>(end));
    ASSIGN_OR_RETURN(const std::vector<std::string> by_job, jobs.index.Referenced(some));
    ASSIGN_OR_RETURN(const std::vector<std::string> as_code, job_code.store.Referenced(some));
    std::set<std::string> kept(by_job.begin(), by_job.end());
    kept.insert(as_code.begin(), as_code.end());
    std::copy_if(some.begin(), some.end(), std::back_inserter(unreferenced),
                 [&](const std::string& blob) { return !kept.contains(blob); });
  }
  return unreferenced;
}

}  // namespace

void RemoveWithBelongings(Jobs& jobs, JobStores& stores, JobCode& job_code, Gates& gates,
                          Process& process, RemoveInput input,
                          std::function<void(const Reply&)> done) {
  process.pool.Post([&jobs, &stores, &job_code, &gates, &process, input = std::move(input),
                     done = std::move(done)] {
    std::vector<std::string> blobs;
    for (const RemoveInput::Job& job : input.jobs) {
      const auto of_job = jobs.index.BlobsOf(job.id);
      if (of_job.ok()) blobs.insert(blobs.end(), of_job->begin(), of_job->end());
    }
    const absl::Status queued = jobs.loop.Submit(
        input,
        [&jobs, &stores, &job_code, &gates, &process, input, blobs, done](const Reply& reply) {
          process.pool.Post([&jobs, &stores, &job_code, &gates, &process,
                             removed = RemovedJobs(input, reply), blobs, done, reply] {
            DeleteFiles(jobs, stores, gates, removed);
            done(reply);
            CollectBlobs(jobs, stores, job_code, process, blobs);
          });
        });
    if (!queued.ok()) done(Reply{.status = queued});
  });
}

void CollectBlobs(Jobs& jobs, JobStores& stores, JobCode& job_code, Process& process,
                  std::vector<std::string> blobs) {
  if (blobs.empty()) return;
  jobs.loop.Ask([&jobs, &stores, &job_code, &process,
                 blobs = std::move(blobs)](const LoopView& view) {
    std::set<std::string> unused(blobs.begin(), blobs.end());
    for (const auto& [id, files] : view.state.checkpoint_files) {
      for (const v1::CheckpointFile& file : files) unused.erase(file.sha256());
    }
    return [&jobs, &stores, &job_code, &process,
            unused = std::vector<std::string>(unused.begin(), unused.end())] {
      process.pool.Post([&jobs, &stores, &job_code, &process, unused] {
        const auto unreferenced = Unreferenced(jobs, job_code, unused);
        if (!unreferenced.ok()) return;
        std::vector<std::string> promised;
        for (const std::string& blob : *unreferenced) {
          if (!stores.blobs.RemoveUnlessPromised(blob)) promised.push_back(blob);
        }
        std::erase_if(promised, [&](const auto& blob) { return !stores.blobs.Size(blob).ok(); });
        if (promised.empty()) return;
        process.pool.PostAfter(kPromisedAgainAfter,
                               [&jobs, &stores, &job_code, &process, promised] {
                                 CollectBlobs(jobs, stores, job_code, process, promised);
                               });
      });
    };
  });
}

void CollectGarbage(Jobs& jobs, JobStores& stores, JobCode& job_code, Gates& gates, Access& access,
                    Process& process, const Retention& retention) {
  process.pool.Post([&jobs, &stores, &job_code, &gates, &access, &process, retention] {
    RemoveExpired(jobs, stores, job_code, gates, process, retention);
    stores.samples.Expire();
    if (const absl::Status done = access.directory.ForgetExpired(); !done.ok()) {
      common::LogWarning(
          common::StrCat("expired tokens and certificates are kept: ", common::MessageOf(done)));
    }
    CollectCode(jobs, stores, job_code, process);
    // Most are of finished jobs, and the loop need not be asked about those.
    CollectBlobs(
        jobs, stores, job_code, process,
        Unreferenced(jobs, job_code, stores.blobs.OldBlobs()).value_or(std::vector<std::string>()));
    process.pool.PostAfter(
        kHousekeepingEvery, [&jobs, &stores, &job_code, &gates, &access, &process, retention] {
          CollectGarbage(jobs, stores, job_code, gates, access, process, retention);
        });
  });
}

}  // namespace muster::coordinator
