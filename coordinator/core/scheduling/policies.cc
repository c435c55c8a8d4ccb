#include "coordinator/core/scheduling/policies.h"

namespace muster::coordinator {

// Each in the file of its name.
std::unique_ptr<Policy> MakeStrictOrder(Ground& ground);
std::unique_ptr<Policy> MakeDevices(Ground& ground);

std::span<const MakePolicy> Policies() {
  static constexpr MakePolicy kPolicies[] = {
      MakeStrictOrder,
      MakeDevices,  // last: it finds the place of a job that nothing else keeps back
  };
  return kPolicies;
}

}  // namespace muster::coordinator
