#include "coordinator/identity/admission.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/identity/roles.h"

namespace muster::coordinator {
namespace {

using common::Call;
using common::StrCat;

constexpr std::string_view kUserPrefix = "user:";
constexpr std::string_view kLocalPrefix = "uid:";

absl::Status NotAccepted(std::string what, std::string why, std::string fix = "") {
  return common::MakeProblem(
      absl::StatusCode::kUnauthenticated,
      {.code = "JC1324", .what = std::move(what), .why = std::move(why), .fix = std::move(fix)});
}

// "10.0.0.7:41180" without the port, which may be missing; an IPv6 address keeps its brackets.
std::string_view HostOf(std::string_view from) {
  const size_t close = from.find(']');
  return close == std::string_view::npos ? from.substr(0, from.find(':'))
                                         : from.substr(0, close + 1);
}

// A local caller, or one on a port that anyone may use, may also be a worker: nothing tells the two
// apart.
bool IsUncertified(const Caller& caller) {
  return caller.serial.empty() && !caller.principal.starts_with(kUserPrefix);
}

std::string WhatIsNeeded(const Call& call) {
  const v1::Role least = LeastRoleFor(call.action, call.object);
  return least == v1::ROLE_UNSPECIFIED ? std::string("it is for workers")
                                       : StrCat("it needs the role ", RoleName(least));
}

}  // namespace

Caller Admission::OfLocal(uint32_t uid) const {
  Caller caller{
      .principal = StrCat(kLocalPrefix, uid), .role = v1::ROLE_USER, .from = "unix", .serial = ""};
  if (uid == 0 || uid == options_.own_uid) {
    caller.role = v1::ROLE_ADMIN;
  } else if (options_.is_private) {
    caller.role = v1::ROLE_UNSPECIFIED;
  } else if (options_.people.user != nullptr) {
    if (const auto user = options_.people.user(caller.principal); user.has_value()) {
      caller.role = user->disabled() ? v1::ROLE_UNSPECIFIED : user->role();
    }
  }
  return caller;
}

Caller Admission::OfPlaintext(std::string_view from) const {
  return {.principal = StrCat("peer:", HostOf(from)),
          .role = options_.cluster.empty() ? v1::ROLE_ADMIN : v1::ROLE_UNSPECIFIED,
          .from = std::string(from),
          .serial = ""};
}

absl::StatusOr<identity::CertificateFacts> Admission::Read(std::string_view pem) const {
  {
    std::lock_guard lock(mutex_);
    if (const auto* known = read_.Find(pem); known != nullptr) return *known;
  }
  const std::string text(pem);
  ASSIGN_OR_RETURN(identity::CertificateFacts facts, identity::FactsOfPem(text));
  std::lock_guard lock(mutex_);
  read_.Put(text, facts);
  return facts;
}

absl::StatusOr<Caller> Admission::OfCertificate(std::string_view pem, std::string from,
                                                int64_t now_ms) const {
  const absl::StatusOr<identity::CertificateFacts> facts = Read(pem);
  if (!facts.ok()) {
    return NotAccepted("the certificate is not a member's", std::string(facts.status().message()));
  }
  const std::string who = identity::PrincipalOf(facts->subject);
  const std::string what = StrCat("the certificate of ", who, " is not accepted");
  if (facts->cluster != options_.cluster) {
    return NotAccepted(what, StrCat("it is for the cluster ", facts->cluster));
  }
  // TLS checked it when the connection began, which may be days ago.
  if (now_ms >= facts->not_after_ms) return NotAccepted(what, "it has expired");
  if (options_.people.is_revoked != nullptr && options_.people.is_revoked(facts->serial)) {
    return NotAccepted(what, "it was revoked");
  }
  absl::StatusOr<Caller> caller =
      Caller{.principal = who, .role = v1::ROLE_UNSPECIFIED, .from = from, .serial = ""};
  switch (facts->subject.kind) {
    case identity::Kind::kWorker:
      caller->role = v1::ROLE_WORKER;
      break;
    case identity::Kind::kCoordinator:
      caller->role = v1::ROLE_COORDINATOR;
      break;
    case identity::Kind::kUser:
      caller = OfUser(facts->subject.name, std::move(from));
      break;
  }
  if (!caller.ok()) return caller;
  caller->serial = facts->serial;
  caller->until_ms = facts->not_after_ms;
  return caller;
}

absl::StatusOr<Caller> Admission::OfUser(const std::string& name, std::string from) const {
  std::optional<v1::User> user;
  if (options_.people.user != nullptr) user = options_.people.user(name);
  const std::string what = StrCat("user:", name, " may not sign in");
  if (!user.has_value())
    return NotAccepted(what, "an administrator removed the user",
                       StrCat("an administrator adds it: jobctl user set ", name));
  if (user->disabled())
    return NotAccepted(what, "an administrator disabled the user",
                       StrCat("an administrator enables it: jobctl user enable ", name));
  return Caller{.principal = StrCat(kUserPrefix, name),
                .role = user->role(),
                .from = std::move(from),
                .serial = "",
                .user_id = user->id()};
}

absl::StatusOr<Caller> Admission::OfPrincipal(std::string_view principal, std::string from) const {
  if (principal.starts_with(kUserPrefix)) {
    return OfUser(std::string(principal.substr(kUserPrefix.size())), std::move(from));
  }
  uint32_t uid = 0;
  if (principal.starts_with(kLocalPrefix) &&
      absl::SimpleAtoi(common::ToAbsl(principal.substr(kLocalPrefix.size())), &uid)) {
    Caller caller = OfLocal(uid);
    caller.from = std::move(from);
    return caller;
  }
  return NotAccepted(
      StrCat("\"", common::Printable(principal), "\" is not a user or a local account"), "");
}

namespace {

// "drain node" of DrainNode, "run jobs" of Run.
std::string InWords(std::string_view name) {
  std::string words;
  for (const char c : name) {
    if (absl::ascii_isupper(static_cast<unsigned char>(c)) && !words.empty()) words += ' ';
    words += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  if (name == "Exec") return "run commands in jobs";
  return words.find(' ') == std::string::npos ? words + " jobs" : words;
}

}  // namespace

absl::Status Admission::Admit(const Call& call, const Caller& caller) const {
  if (MayCall(caller.role, call.action, call.object)) return absl::OkStatus();
  const bool is_both = caller.role == v1::ROLE_ADMIN && IsUncertified(caller);
  if (is_both && MayCall(v1::ROLE_WORKER, call.action, call.object)) return absl::OkStatus();
  return common::MakeProblem(absl::StatusCode::kPermissionDenied,
                             {.code = "JC1320",
                              .what = StrCat(caller.principal, " (", RoleName(caller.role),
                                             ") may not ", InWords(call.name)),
                              .why = WhatIsNeeded(call)});
}

}  // namespace muster::coordinator
