#include "coordinator/rpc/revocation.h"

#include <chrono>

#include "common/status.h"
#include "common/strings.h"
#include "coordinator/identity/directory.h"

namespace muster::coordinator {
namespace {

// Until the answer to who ends its own certificate has left.
constexpr std::chrono::seconds kAnswerLeavesWithin{1};

}  // namespace

uint32_t Cut(Daemon& daemon, const Caller& caller, const std::vector<v1::Credential>& revoked) {
  std::vector<std::string> serials;
  for (const v1::Credential& credential : revoked) {
    if (credential.serial() != caller.serial) {
      serials.push_back(credential.serial());
    } else if (daemon.cut) {
      daemon.pool.PostAfter(kAnswerLeavesWithin,
                            [&daemon, serial = caller.serial] { daemon.cut({serial}); });
    }
  }
  return daemon.cut && !serials.empty() ? daemon.cut(serials) : 0;
}

absl::Status RevokeNode(Daemon& daemon, const Caller& caller, const std::string& node) {
  v1::RevokeCredentialsRequest request;
  request.set_subject(common::StrCat("worker/", node));
  request.set_reason("the node was removed");
  ASSIGN_OR_RETURN(const std::vector<v1::Credential> revoked,
                   daemon.directory.Revoke(request, caller.principal));
  Cut(daemon, caller, revoked);
  return absl::OkStatus();
}

}  // namespace muster::coordinator
