#include "coordinator/calls/coordinators.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/base/version.h"
#include "coordinator/base/machine_name.h"
#include "coordinator/calls/handlers.h"

namespace muster::coordinator {
namespace {

v1::CoordinatorView ViewOf(const v1::HeadRecord& head) {
  v1::CoordinatorView view;
  view.set_name(head.name());
  view.set_endpoint(head.endpoint());
  view.set_http(head.http());
  view.set_version(head.version());
  view.set_position(head.position());
  return view;
}

// Where the one that leads is; if none does, the one that has most.
uint64_t Furthest(const v1::ListCoordinatorsResponse& list) {
  uint64_t position = 0;
  for (const v1::CoordinatorView& each : list.coordinators()) {
    if (each.leads()) return each.position();
    position = std::max(position, each.position());
  }
  return position;
}

// One whose state is on its own disk.
v1::ListCoordinatorsResponse Alone(const Instance& instance, const common::Now& now) {
  v1::ListCoordinatorsResponse list;
  v1::CoordinatorView& self = *list.add_coordinators();
  self.set_name(MachineName());
  self.set_leads(true);
  self.set_endpoint(instance.tcp_endpoint.empty() ? instance.endpoint : instance.tcp_endpoint);
  std::string_view http = instance.http_address;
  if (const size_t scheme = http.find("://"); scheme != http.npos) http.remove_prefix(scheme + 3);
  self.set_http(std::string(http));
  self.set_version(common::kVersion);
  list.set_answered_by(self.name());
  list.set_seen_ms(now.wall_ms);
  list.set_alone(true);
  return list;
}

}  // namespace

v1::ListCoordinatorsResponse CoordinatorsIn(const HeadsView& view, const std::string& name,
                                            const common::Now& now) {
  v1::ListCoordinatorsResponse list;
  const bool one_leads = !view.leader.name().empty();
  bool is_registered = false;
  for (const v1::HeadRecord& head : view.heads) {
    v1::CoordinatorView& each = *list.add_coordinators() = ViewOf(head);
    // An earlier run of the same name does not lead.
    each.set_leads(one_leads && head.instance() == view.leader.instance());
    is_registered = is_registered || each.leads();
  }
  if (one_leads && !is_registered) {
    *list.add_coordinators() = ViewOf(view.leader);
    list.mutable_coordinators()->rbegin()->set_leads(true);
  }
  const uint64_t furthest = Furthest(list);
  for (v1::CoordinatorView& each : *list.mutable_coordinators()) {
    if (each.leads()) each.set_term(view.term);
    each.set_lag(furthest - std::min(furthest, each.position()));
  }
  std::sort(list.mutable_coordinators()->begin(), list.mutable_coordinators()->end(),
            [](const auto& one, const auto& other) { return one.name() < other.name(); });
  list.set_answered_by(name);
  if (view.seen_ms != 0) list.set_seen_ms(now.wall_ms - (now.mono_ms - view.seen_ms));
  return list;
}

void ListCoordinators(Instance& instance, Process& process, const Caller&,
                      const v1::ListCoordinatorsRequest&,
                      Answer<v1::ListCoordinatorsResponse> answer) {
  const common::Now now = process.clock.Read();
  if (instance.leading == nullptr) return answer(Alone(instance, now));
  answer(CoordinatorsIn(instance.leading->view(), instance.leading->name, now));
}
MUSTER_HANDLER(ListCoordinators)

}  // namespace muster::coordinator
