#include "coordinator/core/scheduling/attempt.h"

#include <string>

#include "common/base/status.h"
#include "coordinator/core/state/rendezvous.h"

namespace muster::coordinator {
namespace {

v1::NodePart MakePart(const SchedulingState& state, const Share& share, const std::string& kind,
                      uint32_t group_rank, uint32_t first_rank) {
  const v1::NodeFacts& facts = state.nodes.at(share.node).record.facts();
  v1::NodePart part;
  part.set_node(share.node);
  part.set_incarnation(facts.incarnation());
  part.set_boot_id(facts.boot_id());
  part.set_advertise(facts.advertise());
  part.set_group_rank(group_rank);
  part.set_first_rank(first_rank);
  part.set_local_world_size(share.ranks);
  part.set_device_kind(kind);
  for (const uint32_t device : share.devices) part.add_device_indexes(device);
  return part;
}

}  // namespace

v1::Attempt MakeAttempt(const SchedulingState& state, Candidate& job, Now now) {
  // All policies have allowed the job, including devices.cc, which sets its shares.
  CHECK(!job.shares.empty());
  v1::Attempt attempt;
  attempt.set_number(job.job.next_attempt());
  attempt.set_started_ms(now.wall_ms);
  attempt.set_resume_step(-1);
  if (!state.settings.head.empty()) attempt.add_heads(state.settings.head);
  if (const v1::Checkpoint* latest = LatestCheckpoint(job.job); latest != nullptr) {
    attempt.set_resume_step(latest->step());
  }
  uint32_t first_rank = 0;
  for (const Share& share : job.shares) {
    *attempt.add_parts() = MakePart(state, share, job.kind(), attempt.parts_size(), first_rank);
    first_rank += share.ranks;
  }
  attempt.set_world_size(first_rank);
  PlaceRendezvous(state, job.job.spec(), &attempt);
  return attempt;
}

}  // namespace muster::coordinator
