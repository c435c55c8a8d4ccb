#include "coordinator/core/state/rendezvous.h"

#include "common/node_shortage.h"

namespace muster::coordinator {

bool HostsRendezvous(const v1::NodePart& part) { return part.group_rank() == 0; }

void PlaceRendezvous(v1::Attempt* attempt) {
  for (const v1::NodePart& part : attempt->parts()) {
    if (HostsRendezvous(part)) attempt->set_master_addr(part.advertise());
  }
}

void FillRendezvous(const v1::Attempt& attempt, const v1::NodePart& part,
                    v1::PrepareAttempt* order) {
  order->set_purpose(attempt.parts_size() > 1 ? common::kMasterPort : common::kMasterPortOfOneNode);
  order->set_count(HostsRendezvous(part) ? 1 : 0);
}

void FillRendezvous(const v1::Attempt& attempt, const v1::NodePart& part,
                    v1::LaunchAttempt* order) {
  order->set_master_addr(attempt.master_addr());
  order->set_master_port(attempt.master_port());
  order->set_is_master(HostsRendezvous(part));
}

}  // namespace muster::coordinator
