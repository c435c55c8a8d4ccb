#include "coordinator/core/scheduling/project_use.h"

#include <algorithm>

#include "coordinator/core/scheduling/placement.h"

namespace muster::coordinator {

ProjectUse::ProjectUse(const SchedulingState& state) : shares_(state.projects) {
  if (shares_.empty()) return;
  for (const uint64_t id : state.active) {
    const v1::JobRecord& job = state.jobs.at(id);
    if (const v1::Attempt* attempt = LiveAttempt(job)) Add(job, *attempt);
  }
}

uint64_t ProjectUse::Of(const std::string& project, const std::string& kind) const {
  const auto found = devices_.find({project, kind});
  return found == devices_.end() ? 0 : found->second;
}

uint64_t ProjectUse::OfStaying(const std::string& project, const std::string& kind) const {
  const auto found = staying_.find({project, kind});
  return found == staying_.end() ? 0 : found->second;
}

uint64_t ProjectUse::Borrowed(const std::string& project, const std::string& kind) const {
  const uint64_t used = Of(project, kind), quota = QuotaOf(shares_, project, kind);
  return used > quota ? used - quota : 0;
}

void ProjectUse::CutToShare(const std::string& project, const std::string& kind,
                            v1::Shape& shape) const {
  const uint32_t least_nodes = std::max<uint32_t>(1, shape.min_nodes());
  if (shares_.empty() || shape.per_node() == 0 || shape.max_nodes() <= least_nodes) return;
  const uint64_t used = Of(project, kind), least = LeastDevices(shape);
  const uint64_t quota = QuotaOf(shares_, project, kind);
  uint64_t most = LimitOf(shares_, project, kind);
  if (used + least <= quota) most = quota;
  if (most == 0 || used + least > most) return;
  const uint64_t nodes =
      (most - used) / (uint64_t{shape.per_node()} * DevicesPerRank(shape.device()));
  shape.set_max_nodes(static_cast<uint32_t>(std::min<uint64_t>(shape.max_nodes(), nodes)));
}

void ProjectUse::Add(const v1::JobRecord& job, const v1::Attempt& attempt) {
  const bool stays = !MayBeAskedToGiveWay(job.spec());
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.ended()) continue;
    const std::pair key(ProjectOf(job), part.device_kind());
    const auto devices = static_cast<uint64_t>(part.device_indexes_size());
    devices_[key] += devices;
    if (stays) staying_[key] += devices;
  }
}

uint64_t LeastDevices(const v1::Shape& shape) {
  const uint64_t ranks = shape.per_node() > 0
                             ? uint64_t{shape.per_node()} * std::max<uint32_t>(1, shape.min_nodes())
                             : shape.processes();
  return ranks * DevicesPerRank(shape.device());
}

}  // namespace muster::coordinator
