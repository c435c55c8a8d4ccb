#include "coordinator/http/api/allowed.h"

#include <nlohmann/json.hpp>

#include "common/calls.h"
#include "coordinator/core/state/input.h"
#include "coordinator/identity/ownership.h"
#include "coordinator/identity/roles.h"

namespace muster::coordinator::http {

using common::Call;
using common::Calls;

std::string AllowedDocument(const Caller& caller) {
  nlohmann::ordered_json document = {{"principal", caller.principal},
                                     {"role", std::string(RoleName(caller.role))},
                                     {"calls", nlohmann::ordered_json::array()}};
  if (!caller.user_id.empty()) document["userId"] = caller.user_id;
  for (const Call& call : Calls()) {
    if (call.service == "JobService" && MayCall(caller.role, call.action, call.object)) {
      document["calls"].push_back(std::string(call.name));
    }
  }
  // A job without an owner is not the caller's.
  document["othersJobs"] = CheckMayChange(caller, v1::JobRecord()).ok();
  return document.dump() + "\n";
}

}  // namespace muster::coordinator::http
