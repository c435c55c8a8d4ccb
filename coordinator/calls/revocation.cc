#include "coordinator/calls/revocation.h"

#include <chrono>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/identity/directory.h"

namespace muster::coordinator {
namespace {

// The time for the answer to leave when callers revoke their own certificates.
constexpr std::chrono::seconds kAnswerLeavesWithin{1};

}  // namespace

uint32_t Cut(Access& access, Process& process, const Caller& caller,
             const std::vector<v1::Credential>& revoked) {
  std::vector<std::string> serials;
  for (const v1::Credential& credential : revoked) {
    if (credential.serial() != caller.serial) {
      serials.push_back(credential.serial());
    } else if (access.cut) {
      process.pool.PostAfter(kAnswerLeavesWithin,
                             [&access, serial = caller.serial] { access.cut({serial}); });
    }
  }
  return access.cut && !serials.empty() ? access.cut(serials) : 0;
}

absl::Status RevokeNode(Access& access, Process& process, const Caller& caller,
                        const std::string& node) {
  v1::RevokeCredentialsRequest request;
  request.set_subject(common::StrCat("worker/", node));
  request.set_reason("the node was removed");
  ASSIGN_OR_RETURN(const std::vector<v1::Credential> revoked,
                   access.directory.Revoke(request, caller.principal));
  Cut(access, process, caller, revoked);
  return absl::OkStatus();
}

}  // namespace muster::coordinator
