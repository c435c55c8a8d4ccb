#include "coordinator/findings/evidence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

const v1::Attempt* Evidence::Running() const {
  const v1::Attempt* attempt = LiveAttempt(job);
  const bool runs = attempt != nullptr && attempt->running_ms() > 0 && !attempt->stopping();
  return runs ? attempt : nullptr;
}

const AttemptHistory* Evidence::Newest() const {
  return job.attempts().empty() ? nullptr : history.Find(job.attempts().rbegin()->number());
}

int64_t Evidence::RanMs() const {
  const v1::Attempt* attempt = Running();
  return attempt == nullptr ? 0 : std::max<int64_t>(0, now.wall_ms - attempt->running_ms());
}

int64_t Evidence::QuietMs() const {
  if (history.advanced_mono_ms() == 0) return 0;
  return std::max<int64_t>(0, now.mono_ms - history.advanced_mono_ms());
}

int64_t DevicesOf(const v1::Attempt& attempt) {
  int64_t devices = 0;
  for (const v1::NodePart& part : attempt.parts()) devices += part.device_indexes_size();
  return devices > 0 ? devices : std::max<int64_t>(1, attempt.world_size());
}

int64_t DevicesOf(const v1::JobRecord& job) {
  if (!job.attempts().empty()) return DevicesOf(*job.attempts().rbegin());
  const v1::Shape& shape = job.spec().shape();
  return std::max<int64_t>(1, WantedRanks(shape)) *
         std::max<int64_t>(1, shape.device().count_per_rank());
}

const v1::NodePart* PartOf(const v1::Attempt& attempt, uint32_t rank) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (rank >= part.first_rank() && rank < part.first_rank() + part.local_world_size()) {
      return &part;
    }
  }
  return nullptr;
}

std::string RankOnNode(const v1::Attempt& attempt, uint32_t rank) {
  const v1::NodePart* part = PartOf(attempt, rank);
  return part == nullptr ? absl::StrCat("rank ", rank)
                         : absl::StrCat("rank ", rank, " on ", part->node());
}

std::vector<std::string> DevicesOfRank(const v1::NodePart& part, uint32_t rank) {
  std::vector<std::string> devices;
  if (part.local_world_size() == 0 || rank < part.first_rank()) return devices;
  const int each = part.device_indexes_size() / static_cast<int>(part.local_world_size());
  const int first = static_cast<int>(rank - part.first_rank()) * each;
  for (int i = first; i < first + each && i < part.device_indexes_size(); ++i) {
    devices.push_back(absl::StrCat(part.device_kind(), ":", part.device_indexes(i)));
  }
  return devices;
}

}  // namespace muster::coordinator
