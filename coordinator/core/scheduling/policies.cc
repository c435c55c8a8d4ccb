#include "coordinator/core/scheduling/policies.h"

namespace muster::coordinator {

// Each is defined in the file of its name.
std::unique_ptr<Policy> MakeBackfill(Ground& ground);
std::unique_ptr<Policy> MakeCheckpointPlace(Ground& ground);
std::unique_ptr<Policy> MakeProjectLimit(Ground& ground);
std::unique_ptr<Policy> MakePersonLimit(Ground& ground);
std::unique_ptr<Policy> MakeDevices(Ground& ground);

std::span<const MakePolicy> Policies() {
  static constexpr MakePolicy kPolicies[] = {
      MakeBackfill, MakeCheckpointPlace, MakeProjectLimit, MakePersonLimit,
      MakeDevices,  // last, because it places jobs, which only makes sense if no other policy keeps them back
  };
  return kPolicies;
}

}  // namespace muster::coordinator
