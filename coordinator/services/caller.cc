#include "coordinator/services/caller.h"

#include <grpc/grpc_security_constants.h>

#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/gates/reach.h"
#include "coordinator/identity/admission.h"

namespace muster::coordinator {
namespace {

using common::Action;
using common::Call;

constexpr std::string_view kPeerPrefix = "peer:";

// The peer's certificate in PEM; empty if the connection has none.
std::string_view CertificateOf(const grpc::AuthContext& auth) {
  const std::vector<grpc::string_ref> found =
      auth.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (found.empty()) return {};
  return {found.front().data(), found.front().size()};
}

absl::StatusOr<Caller> CallerOf(const Admission& admission, Peers& peers,
                                const grpc::CallbackServerContext& context, int64_t now_ms) {
  const std::string name = context.peer();
  const std::string principal = peers.PrincipalOf(name);
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  const std::string_view certificate = auth == nullptr ? std::string_view() : CertificateOf(*auth);
  if (!certificate.empty()) {
    const auto ask = [&] {
      return admission.OfCertificate(certificate, principal.substr(kPeerPrefix.size()), now_ms);
    };
    absl::StatusOr<Caller> caller = ask();
    // A revocation closes only the connections that are known to have the certificate. This connection is known
    // only from here on, so check again in case the revocation has just happened.
    if (caller.ok() &&
        peers.SawCertificate(name, {.serial = caller->serial, .until_ms = caller->until_ms})) {
      caller = ask();
    }
    return caller;
  }
  if (std::string_view(principal).starts_with(kPeerPrefix)) {
    return admission.OfPlaintext(std::string_view(principal).substr(kPeerPrefix.size()));
  }
  return admission.OfPrincipal(principal, "unix");
}

}  // namespace

Asker AskerOf(const Admission& admission, Peers& peers, const grpc::CallbackServerContext& context,
              const Call& row, int64_t now_ms) {
  absl::StatusOr<Caller> caller = CallerOf(admission, peers, context, now_ms);
  if (!caller.ok()) {
    const std::string from = peers.PrincipalOf(context.peer());
    return {.caller = {.principal = from,
                       .role = v1::ROLE_UNSPECIFIED,
                       .from = from.substr(from.find(':') + 1),
                       .serial = ""},
            .admitted = caller.status()};
  }
  absl::Status admitted = admission.Admit(row, *caller);
  return {.caller = *std::move(caller), .admitted = std::move(admitted)};
}

Asker AskerOf(const Daemon& daemon, Peers& peers, const grpc::CallbackServerContext& context,
              const Call& row) {
  return AskerOf(daemon.access.admission, peers, context, row, daemon.process.clock.Read().wall_ms);
}

absl::StatusOr<CallBudget::Hold> TakeShare(Daemon& daemon, const Caller& caller, const Call& row) {
  if (row.action != Action::kServe)
    return daemon.traffic.budget.Take(caller.principal, BytesOf(row.cost));
  if (!NodeOf(caller).is_certified) return CallBudget::Hold();
  return daemon.traffic.node_budget.Take(caller.principal, BytesOf(row.cost));
}

}  // namespace muster::coordinator
