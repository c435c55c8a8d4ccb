#include "coordinator/etcd/refusals.h"

#include <string_view>
#include <utility>

#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator::etcd {
namespace {

using common::StrCat;

bool Contains(const grpc::Status& status, std::string_view words) {
  return status.error_message().find(words) != std::string::npos;
}

// The transport's words name no flag. Empty: they tell enough.
std::string FixOfConnection(const Access& access, const grpc::Status& status) {
  if (!access.address.is_tls) {
    return Contains(status, "Socket closed")
               ? "; fix: if etcd speaks TLS, write etcds:// in --state"
               : "";
  }
  if (Contains(status, "certificate verify failed") || Contains(status, "is not in peer")) {
    return "; fix: name the authority of etcd's certificates with --etcd-ca, and etcd's members in "
           "--state as their certificates do";
  }
  if (Contains(status, "alert handshake failure"))
    return "; fix: use an etcd that speaks TLS 1.3, which is all that Muster does";
  // How a handshake ends that the other side refuses.
  if (Contains(status, "Endpoint read failed") || Contains(status, "Socket closed") ||
      Contains(status, "reset by peer")) {
    return "; fix: if etcd asks for certificates, --etcd-cert must be one that etcd's "
           "--trusted-ca-file signed";
  }
  if (Contains(status, "empty address list")) {
    return "; fix: --etcd-ca and --etcd-cert must be certificates in PEM, and --etcd-key the "
           "unencrypted key of --etcd-cert";
  }
  return "";
}

// Its text names what etcd refuses, and what ends that; no text: another error.
common::Problem ProblemOfUser(const Access& access, const grpc::Status& status) {
  const std::string keys = StrCat("/", access.address.name, "/");
  const std::string user =
      access.user.empty() ? "the user that --etcd-cert names" : StrCat("the user ", access.user);
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    return {.what = StrCat("etcd does not let ", user, " read and write the keys ", keys),
            .fix = StrCat("etcdctl role grant-permission ROLE --prefix=true readwrite ", keys,
                          ", for a role of that user")};
  }
  if (Contains(status, "authentication failed")) {
    return {.what = StrCat("etcd does not accept the password of ", user),
            .fix = StrCat("write it into the first line of ", access.password_file,
                          ", or set it: etcdctl user passwd ", access.user)};
  }
  if (Contains(status, "user name is empty")) {
    return {.what = "etcd asks for a user",
            .fix = "name one with --etcd-user and --etcd-password-file"};
  }
  return {};
}

}  // namespace

bool MayPass(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:
      return true;
    default:
      return Contains(status, "too many requests");
  }
}

bool NeedsToken(const grpc::Status& status, bool had_token) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         Contains(status, "invalid auth token") || Contains(status, "user name is empty") ||
         // A JWT is of the users and roles that there were.
         Contains(status, "revision of auth store is old") ||
         (!had_token && status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
}

absl::Status StatusOf(const Access& access, const grpc::Status& status,
                      const std::string& endpoint) {
  const std::string text = StrCat("etcd at ", endpoint, ": ", status.error_message());
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED && !MayPass(status))
    return absl::ResourceExhaustedError(text);
  if (MayPass(status) && status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED)
    return absl::UnavailableError(text + FixOfConnection(access, status));
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  common::Problem problem = ProblemOfUser(access, status);
  if (problem.what.empty()) return {code, text};
  problem.code = "JC1631";
  problem.why = text;
  return common::MakeProblem(code, std::move(problem));
}

}  // namespace muster::coordinator::etcd
