#include "coordinator/rpc/job_gate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/limits.h"
#include "coordinator/rpc/lookup.h"

namespace muster::coordinator {
namespace {

// The maximum number of ranks that an attempt of this shape can have.
uint32_t RanksOf(const v1::Shape& shape) {
  if (shape.processes() > 0) return std::min(shape.processes(), common::kRanksMax);
  if (shape.per_node() == 0) return common::kRanksMax;
  const uint32_t named = std::max(shape.min_nodes(), shape.max_nodes());
  const uint64_t nodes = named > 0 ? named : common::kNodesMax;
  return static_cast<uint32_t>(
      std::min<uint64_t>(nodes * shape.per_node(), uint64_t{common::kRanksMax}));
}

}  // namespace

bool JobGate::Known::Has(uint32_t attempt, uint32_t rank) const {
  if (attempt >= attempts) return false;
  const auto world_size = world_sizes.find(attempt);
  return rank < (world_size == world_sizes.end() ? ranks_max : world_size->second);
}

JobGate::Known JobGate::Learn(const v1::JobRecord& record) {
  Known known{.attempts = record.next_attempt(), .ranks_max = RanksOf(record.spec().shape())};
  for (const v1::Attempt& started : record.attempts()) {
    known.attempts = std::max(known.attempts, started.number() + 1);
    if (started.world_size() > 0) known.world_sizes[started.number()] = started.world_size();
  }
  return known;
}

void JobGate::Check(Daemon& daemon, uint64_t job, uint32_t attempt, uint32_t rank,
                    std::function<void(bool)> answer) {
  {
    std::unique_lock lock(mutex_);
    const auto known = jobs_.find(job);
    // An unknown attempt may have started since.
    if (known != jobs_.end() && attempt < known->second.attempts) {
      const bool may = known->second.Has(attempt, rank);
      lock.unlock();
      return answer(may);
    }
  }
  FindJob(daemon, Caller{}, std::to_string(job),
          [this, job, attempt, rank, answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(false);
            Known known = Learn(*found->record);
            const bool may = known.Has(attempt, rank);
            {
              std::lock_guard lock(mutex_);
              if (jobs_.size() >= kRememberedMax) jobs_.clear();
              jobs_[job] = std::move(known);
            }
            answer(may);
          });
}

void JobGate::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

}  // namespace muster::coordinator
