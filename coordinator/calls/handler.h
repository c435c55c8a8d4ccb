// Gives a handler what its signature names. A handler is a function with the name of its call. It takes, in any order,
// the contexts that the call uses (contexts.h), its caller, its request, and where the answer goes:
//
//   void WhyJob(Jobs& jobs, Process& process, const Caller& caller, const v1::JobReference& request,
//               Answer<v1::WhyResponse> answer) { … }
//   MUSTER_HANDLER(WhyJob)
//
// The line below it binds it to the call's row, whose types it must have (handlers.h).
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "coordinator/calls/daemon.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {

// Picks the argument of the wanted type; what a handler takes by value is moved.
template <typename Wanted, typename... Given>
Wanted&& PickFrom(const std::tuple<Given&...>& given) {
  using Plain = std::remove_cvref_t<Wanted>;
  constexpr bool kIsGiven = (std::is_same_v<Plain, std::remove_cv_t<Given>> || ...);
  static_assert(kIsGiven,
                "a handler may take contexts (contexts.h), const Caller&, and the request and the "
                "Answer or Sink of its call's row (common/calls.h)");
  if constexpr (kIsGiven) {
    constexpr bool kIsMutable = (std::is_same_v<Plain, Given> || ...);
    using Element = std::conditional_t<kIsMutable, Plain, const Plain>;
    return static_cast<Wanted&&>(std::get<Element&>(given));
  }
}

// handler(…) with what it takes.
template <typename... Wanted, typename Request, typename Reply>
void HandTo(void (*handler)(Wanted...), Daemon& daemon, const Caller& caller,
            const Request& request, Reply reply) {
  const std::tuple<Jobs&, JobStores&, JobCode&, Gates&, Access&, Traffic&, Instance&, Process&,
                   const Caller&, const Request&, Reply&>
      given(daemon.jobs, daemon.stores, daemon.job_code, daemon.gates, daemon.access,
            daemon.traffic, daemon.instance, daemon.process, caller, request, reply);
  handler(PickFrom<Wanted>(given)...);
}

#define MUSTER_HANDLER(name)                                                            \
  void call::name::Handle(Daemon& daemon, const Caller& caller, const Request& request, \
                          Reply reply) {                                                \
    HandTo(&coordinator::name, daemon, caller, request, std::move(reply));              \
  }

}  // namespace muster::coordinator
