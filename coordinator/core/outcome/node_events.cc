#include "coordinator/core/outcome/node_events.h"

namespace muster::coordinator {

v1::Event NodeEvent(const std::string& node, Now now) {
  v1::Event event;
  event.set_node(node);
  event.set_at_ms(now.wall_ms);
  return event;
}

v1::Event PartEvent(const v1::JobRecord& job, const v1::Attempt& attempt, const std::string& node,
                    Now now) {
  v1::Event event = NodeEvent(node, now);
  event.set_job(job.id());
  event.set_attempt(attempt.number());
  return event;
}

v1::Event PartEnded(const v1::JobRecord& job, const v1::Attempt& attempt, const std::string& node,
                    const std::string& how, const std::string& failure, v1::StopCause cause,
                    Now now) {
  v1::Event event = PartEvent(job, attempt, node, now);
  event.mutable_part_ended()->set_how(how);
  event.mutable_part_ended()->set_failure(failure);
  event.mutable_part_ended()->set_cause(cause);
  return event;
}

v1::Event NodeChange(const std::string& node, v1::NodeState to, const std::string& reason,
                     Now now) {
  v1::Event event = NodeEvent(node, now);
  event.mutable_node_state_changed()->set_state(to);
  event.mutable_node_state_changed()->set_reason(reason);
  return event;
}

}  // namespace muster::coordinator
