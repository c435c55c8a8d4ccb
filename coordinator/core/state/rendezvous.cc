#include "coordinator/core/state/rendezvous.h"

#include "common/node_shortage.h"

namespace muster::coordinator {

bool HostsRendezvous(const v1::NodePart& part) { return part.group_rank() == 0; }

namespace {

v1::RendezvousKind KindFor(const SchedulingState& state, const v1::JobSpec& spec,
                           const v1::Attempt& attempt) {
  if (spec.rendezvous() == v1::RENDEZVOUS_KIND_RANK0 ||
      spec.rendezvous() == v1::RENDEZVOUS_KIND_MUSTER) {
    return spec.rendezvous();
  }
  if (attempt.world_size() <= kRanksAtRankZeroMax) return v1::RENDEZVOUS_KIND_RANK0;
  for (const v1::NodePart& part : attempt.parts()) {
    const Node* node = FindNode(state, part.node());
    if (node == nullptr || node->record.facts().protocol() < kProtocolHasStore) {
      return v1::RENDEZVOUS_KIND_RANK0;
    }
  }
  return v1::RENDEZVOUS_KIND_MUSTER;
}

}  // namespace

void PlaceRendezvous(const SchedulingState& state, const v1::JobSpec& spec, v1::Attempt* attempt) {
  attempt->set_rendezvous(KindFor(state, spec, *attempt));
  for (const v1::NodePart& part : attempt->parts()) {
    if (HostsRendezvous(part)) attempt->set_master_addr(part.advertise());
  }
}

void FillRendezvous(const v1::Attempt& attempt, const v1::NodePart& part,
                    v1::PrepareAttempt* order) {
  order->set_purpose(attempt.parts_size() > 1 ? common::kMasterPort : common::kMasterPortOfOneNode);
  order->set_count(HostsRendezvous(part) ? 1 : 0);
  order->set_rendezvous(attempt.rendezvous());
}

void FillRendezvous(const v1::Attempt& attempt, const v1::NodePart& part,
                    v1::LaunchAttempt* order) {
  order->set_master_addr(attempt.master_addr());
  order->set_master_port(attempt.master_port());
  order->set_is_master(HostsRendezvous(part));
  order->set_rendezvous(attempt.rendezvous());
  order->set_rendezvous_secret(attempt.rendezvous_secret());
}

}  // namespace muster::coordinator
