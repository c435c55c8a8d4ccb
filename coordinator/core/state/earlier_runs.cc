#include "coordinator/core/state/earlier_runs.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace muster::coordinator {
namespace {

// limit: jobs: names of jobs whose running time is remembered; any other is forgotten for a new one
constexpr size_t kNamesMax = 4'096;

std::string NameKeyOf(const v1::JobRecord& job) {
  const v1::JobSpec& spec = job.spec();
  v1::Shape shape = spec.shape();
  shape.clear_limits();
  return absl::StrCat(job.owner_id().empty() ? job.owner() : job.owner_id(), "\n", spec.project(),
                      "\n", spec.name(), "\n", shape.SerializeAsString());
}

}  // namespace

std::optional<int64_t> EarlierRuns::Find(const v1::JobRecord& job) const {
  if (job.spec().name().empty()) return std::nullopt;
  const auto found = ms_.find(NameKeyOf(job));
  if (found == ms_.end()) return std::nullopt;
  return found->second;
}

void EarlierRuns::Learn(const v1::JobRecord& job) {
  if (job.spec().name().empty() || job.attempts().empty()) return;
  const v1::Attempt& newest = *job.attempts().rbegin();
  const int64_t took_ms = job.ran_ms() - newest.ran_ms() +
                          std::max(newest.ran_ms(), newest.ended_ms() - newest.started_ms());
  if (took_ms <= 0) return;
  const auto [at, fresh] = ms_.try_emplace(NameKeyOf(job), took_ms);
  if (!fresh) {
    at->second = (at->second + took_ms) / 2;
    return;
  }
  names_.push_back(at->first);
  if (names_.size() <= kNamesMax) return;
  ms_.erase(names_.front());
  names_.pop_front();
}

}  // namespace muster::coordinator
