#include "coordinator/rpc/garbage.h"

#include <chrono>
#include <set>
#include <utility>

#include "common/log.h"
#include "common/strings.h"
#include "coordinator/rpc/job_gate.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::minutes kHousekeepingEvery{5};
constexpr std::chrono::minutes kPromisedAgainAfter{11};
constexpr uint32_t kRemovedAtOnceMax = 1'000;
constexpr int64_t kDayMs = 24 * 3'600'000;

// On a pool thread, when the removal is durable.
void DeleteFiles(Daemon& daemon, const std::vector<uint64_t>& jobs) {
  for (const uint64_t job : jobs) {
    daemon.gate.Forget(job);
    daemon.logs.Remove(job);
    daemon.metrics.Remove(job);
  }
}

std::vector<uint64_t> RemovedJobs(const RemoveInput& input, const Reply& reply) {
  std::vector<uint64_t> removed;
  for (size_t i = 0; i < reply.results.size() && i < input.jobs.size(); ++i) {
    if (reply.results[i].status_code() == 0) removed.push_back(input.jobs[i].id);
  }
  return removed;
}

void RemoveExpired(Daemon& daemon, const Retention& retention) {
  const int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  auto expired =
      daemon.index.Expired(retention.jobs, now_ms - retention.days * kDayMs, kRemovedAtOnceMax);
  if (!expired.ok() || expired->empty()) return;
  common::LogInfo(
      common::StrCat("removing finished jobs beyond the retention count=", expired->size()));
  RemoveWithBelongings(daemon, RemoveInput{Caller{"retention"}, *std::move(expired)},
                       [](const Reply&) {});
}

}  // namespace

void RemoveWithBelongings(Daemon& daemon, RemoveInput input,
                          std::function<void(const Reply&)> done) {
  daemon.pool.Post([&daemon, input = std::move(input), done = std::move(done)] {
    std::vector<std::string> blobs;
    for (const RemoveInput::Job& job : input.jobs) {
      const auto of_job = daemon.index.BlobsOf(job.id);
      if (of_job.ok()) blobs.insert(blobs.end(), of_job->begin(), of_job->end());
    }
    const absl::Status queued =
        daemon.loop.Submit(input, [&daemon, input, blobs, done](const Reply& reply) {
          daemon.pool.Post([&daemon, removed = RemovedJobs(input, reply), blobs, done, reply] {
            DeleteFiles(daemon, removed);
            done(reply);
            CollectBlobs(daemon, blobs);
          });
        });
    if (!queued.ok()) done(Reply{.status = queued});
  });
}

void CollectBlobs(Daemon& daemon, std::vector<std::string> blobs) {
  if (blobs.empty()) return;
  daemon.loop.Ask([&daemon, blobs = std::move(blobs)](const LoopView& view) {
    std::set<std::string> unused(blobs.begin(), blobs.end());
    for (const auto& [id, files] : view.state.checkpoint_files) {
      for (const v1::CheckpointFile& file : files) unused.erase(file.sha256());
    }
    return [&daemon, unused = std::vector<std::string>(unused.begin(), unused.end())] {
      daemon.pool.Post([&daemon, unused] {
        const auto referenced = daemon.index.Referenced(unused);
        if (!referenced.ok()) return;
        const std::set<std::string> kept(referenced->begin(), referenced->end());
        std::vector<std::string> promised;
        for (const std::string& blob : unused) {
          if (!kept.contains(blob) && !daemon.blobs.RemoveUnlessPromised(blob)) {
            promised.push_back(blob);
          }
        }
        std::erase_if(promised, [&](const auto& blob) { return !daemon.blobs.Size(blob).ok(); });
        if (promised.empty()) return;
        daemon.pool.PostAfter(kPromisedAgainAfter,
                              [&daemon, promised] { CollectBlobs(daemon, promised); });
      });
    };
  });
}

void KeepHouse(Daemon& daemon, const Retention& retention) {
  daemon.pool.Post([&daemon, retention] {
    RemoveExpired(daemon, retention);
    CollectBlobs(daemon, daemon.blobs.OldBlobs());
    daemon.pool.PostAfter(kHousekeepingEvery,
                          [&daemon, retention] { KeepHouse(daemon, retention); });
  });
}

}  // namespace muster::coordinator
