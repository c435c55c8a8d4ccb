#include "coordinator/identity/enrolment.h"

#include <utility>

#include "common/base/status.h"
#include "common/hash/hex.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "identity/enroll.h"
#include "identity/keys.h"
#include "identity/names.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

constexpr size_t kPemMax = 16 * 1024;
constexpr size_t kHostMax = 255;

absl::Status NotThisToken(std::string why, std::string fix = "") {
  return MakeProblem(absl::StatusCode::kPermissionDenied, {.code = "JC1335",
                                                           .what = "the token is not accepted",
                                                           .why = std::move(why),
                                                           .fix = std::move(fix)});
}

absl::Status NotThisRenewal(std::string why) {
  return MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1352", .what = "the certificate is not renewed", .why = std::move(why)});
}

absl::Status NotInTheList(const identity::CertificateFacts& old) {
  const std::string& name = old.subject.name;
  const bool is_worker = old.subject.kind == identity::Kind::kWorker;
  return MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1352",
       .what = StrCat("the certificate of ", identity::PrincipalOf(old.subject), " is not renewed"),
       .why = "this coordinator has not issued it, or was restored from a backup that is older",
       .fix = is_worker ? StrCat("join again: jobctl token create worker ", name,
                                 ", then muster-worker join --again with it")
                        : StrCat("sign in again: jobctl token create person ", name,
                                 ", then jobctl login with it")});
}

absl::StatusOr<identity::KeyHandle> KeyOfRequest(const std::string& csr_pem) {
  absl::StatusOr<identity::KeyHandle> key = csr_pem.size() > kPemMax
                                                ? absl::InvalidArgumentError("it is too long")
                                                : identity::ReadRequest(csr_pem);
  if (key.ok()) return key;
  return MakeProblem(absl::StatusCode::kInvalidArgument,
                     {.code = "JC1353",
                      .what = "the request for a certificate cannot be used",
                      .why = std::string(key.status().message())});
}

// A token of another cluster, used here by mistake or not, is not looked up.
absl::StatusOr<identity::TokenText> ReadToken(const std::string& text,
                                              const identity::Authority& authority) {
  ASSIGN_OR_RETURN(identity::TokenText token, identity::ParseToken(text));
  if (token.authority != authority.Fingerprint())
    return NotThisToken("it was made by another cluster");
  return token;
}

std::string UseOf(v1::TokenKind kind) {
  switch (kind) {
    case v1::TOKEN_KIND_JOIN:
      return "a node joins with it (muster-worker join)";
    case v1::TOKEN_KIND_SIGN_IN:
      return "a person signs in with it (jobctl login)";
    default:
      return "a machine becomes a coordinator with it (muster-coordinator init --join)";
  }
}

std::string CommandFor(v1::TokenKind kind) {
  switch (kind) {
    case v1::TOKEN_KIND_JOIN:
      return "jobctl token create worker";
    case v1::TOKEN_KIND_SIGN_IN:
      return "jobctl token create person USER";
    default:
      return "jobctl token create coordinator";
  }
}

std::string TokenName(const identity::TokenText& token) { return StrCat("token:", token.id); }

}  // namespace

absl::StatusOr<v1::Token> Enrolment::CheckToken(const identity::TokenText& text, v1::TokenKind kind,
                                                int64_t now_ms) {
  ASSIGN_OR_RETURN(const std::optional<v1::Token> token, records_.FindToken(text.id));
  // A caller who does not know the secret learns nothing about the token.
  if (!token.has_value() || token->secret_sha256() != identity::HashOfSecret(text.secret)) {
    return NotThisToken(
        "there is no such token; it may have been revoked, or forgotten after its "
        "end");
  }
  if (token->expires_ms() <= now_ms) {
    return NotThisToken(
        StrCat("it expired ", common::HumanDuration(now_ms - token->expires_ms()), " ago"));
  }
  if (token->uses_left() == 0) return NotThisToken("it was used before");
  if (token->kind() != kind) {
    return NotThisToken(StrCat(UseOf(token->kind()), ", and nothing else is done with it"),
                        StrCat("ask an administrator for one of: ", CommandFor(kind)));
  }
  return *token;
}

// Called last: a request that was refused for another reason does not use up the token.
absl::Status Enrolment::TakeUse(const identity::TokenText& text, v1::TokenKind kind,
                                const std::string& subject) {
  ASSIGN_OR_RETURN(const std::optional<v1::Token> taken,
                   records_.UseToken({.id = text.id,
                                      .secret_sha256 = identity::HashOfSecret(text.secret),
                                      .kind = kind,
                                      .subject = subject}));
  return taken.has_value() ? absl::OkStatus() : NotThisToken("it was used before");
}

absl::Status Enrolment::CheckNodeName(const v1::Token& token, const std::string& node,
                                      const Asked& asked) {
  RETURN_IF_ERROR(identity::CheckName("the node", node));
  if (!token.subject().empty()) {
    if (token.subject() == node) return absl::OkStatus();
    return NotThisToken(StrCat("it is for the node ", token.subject(), ", not for ", node),
                        StrCat("join under that name: --name ", token.subject(),
                               "; or ask an administrator for another one"));
  }
  const identity::Subject subject{.kind = identity::Kind::kWorker, .name = node};
  ASSIGN_OR_RETURN(const size_t valid,
                   records_.CountValid(identity::PathOf(subject), asked.now_ms));
  if (!asked.is_known && valid == 0) return absl::OkStatus();
  return MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1351",
       .what = StrCat("there is a node ", node, " already"),
       .why = "a token for any node cannot take the place of one that the cluster knows",
       .fix = StrCat("join with another --name, or with a token for this one: jobctl token create "
                     "worker ",
                     node)});
}

absl::StatusOr<v1::User> Enrolment::CheckUser(const std::string& name) {
  const std::optional<v1::User> user = records_.FindUser(name);
  if (user.has_value() && !user->disabled()) return *user;
  return MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1355",
       .what = StrCat("the user ", name, user.has_value() ? " is disabled" : " does not exist")});
}

absl::StatusOr<v1::Enrolled> Enrolment::JoinWith(const identity::TokenText& text,
                                                 const v1::JoinRequest& request,
                                                 const Asked& asked) {
  ASSIGN_OR_RETURN(const v1::Token token, CheckToken(text, v1::TOKEN_KIND_JOIN, asked.now_ms));
  ASSIGN_OR_RETURN(identity::KeyHandle key, KeyOfRequest(request.csr_pem()));
  const std::lock_guard lock(issuing_);
  RETURN_IF_ERROR(CheckNodeName(token, request.node(), asked));
  RETURN_IF_ERROR(TakeUse(text, v1::TOKEN_KIND_JOIN, request.node()));
  const identity::Subject subject{.kind = identity::Kind::kWorker, .name = request.node()};
  if (!token.subject().empty()) {
    // The node was set up again, or is another machine now: its old key no longer identifies it.
    RETURN_IF_ERROR(records_.Revoke({.subject = identity::PathOf(subject),
                                     .by = TokenName(text),
                                     .reason = "the node has joined again",
                                     .now_ms = asked.now_ms}));
  }
  return IssueLocked(
      {.subject = subject, .key = std::move(key), .issued_for = text.id, .now_ms = asked.now_ms});
}

Enrolment::Outcome Enrolment::Join(const v1::JoinRequest& request, const Asked& asked) {
  const auto text = ReadToken(request.token(), authority_);
  if (!text.ok()) return {.answer = text.status(), .who = "token", .object = ""};
  return {.answer = JoinWith(*text, request, asked),
          .who = TokenName(*text),
          .object = StrCat("worker/", common::Printable(request.node()))};
}

absl::StatusOr<v1::CoordinatorKeys> Enrolment::KeysFor(const identity::TokenText& text,
                                                       const Asked& asked) {
  RETURN_IF_ERROR(CheckToken(text, v1::TOKEN_KIND_COORDINATOR, asked.now_ms).status());
  if (place_.state.empty()) {
    return MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1631",
         .what = "the cluster can have no further coordinator",
         .why = "the state of this one is on its own disk alone",
         .fix = "move it to etcd first: stop it, muster-coordinator migrate --from DIR --to "
                "etcd://…/NAME, and start it with --state (docs/operating.md)"});
  }
  RETURN_IF_ERROR(TakeUse(text, v1::TOKEN_KIND_COORDINATOR, ""));
  v1::CoordinatorKeys keys;
  keys.set_cluster(authority_.cluster());
  keys.set_ca_pem(authority_.certificate_pem());
  keys.set_ca_key_pem(authority_.key().ToPem());
  keys.set_secrets_key(place_.secrets_key);
  keys.set_state(place_.state);
  return keys;
}

Enrolment::OutcomeOf<v1::CoordinatorKeys> Enrolment::ShareKeys(
    const v1::CoordinatorJoinRequest& request, const Asked& asked) {
  const auto text = ReadToken(request.token(), authority_);
  if (!text.ok()) return {.answer = text.status(), .who = "token", .object = ""};
  return {.answer = KeysFor(*text, asked),
          .who = TokenName(*text),
          .object = StrCat("coordinator/", common::Printable(request.host().substr(0, kHostMax)))};
}

Enrolment::Outcome Enrolment::SignIn(const v1::EnrollPersonRequest& request, const Asked& asked) {
  const auto text = ReadToken(request.token(), authority_);
  if (!text.ok()) return {.answer = text.status(), .who = "token", .object = ""};
  Outcome outcome{.answer = absl::UnknownError(""), .who = TokenName(*text), .object = ""};
  outcome.answer = [&]() -> absl::StatusOr<v1::Enrolled> {
    ASSIGN_OR_RETURN(const v1::Token token,
                     CheckToken(*text, v1::TOKEN_KIND_SIGN_IN, asked.now_ms));
    outcome.object = StrCat("user/", token.subject());
    ASSIGN_OR_RETURN(identity::KeyHandle key, KeyOfRequest(request.csr_pem()));
    // As long as the token can be used, the name is that of the person whom it was made for.
    ASSIGN_OR_RETURN(const v1::User user, CheckUser(token.subject()));
    const identity::Subject subject{.kind = identity::Kind::kUser, .name = token.subject()};
    const std::lock_guard lock(issuing_);
    // Before the token is used up.
    RETURN_IF_ERROR(CheckRoom(subject, asked.now_ms));
    RETURN_IF_ERROR(TakeUse(*text, v1::TOKEN_KIND_SIGN_IN, token.subject()));
    absl::StatusOr<v1::Enrolled> enrolled = IssueLocked({.subject = subject,
                                                         .key = std::move(key),
                                                         .issued_for = text->id,
                                                         .now_ms = asked.now_ms,
                                                         .user_id = user.id()});
    // The user may have been removed meanwhile: then the certificate is not handed out.
    if (enrolled.ok()) RETURN_IF_ERROR(CheckUser(token.subject()).status());
    return enrolled;
  }();
  return outcome;
}

absl::Status Enrolment::CheckRoom(const identity::Subject& subject, int64_t now_ms) {
  const std::string path = identity::PathOf(subject);
  ASSIGN_OR_RETURN(const size_t valid, records_.CountValid(path, now_ms));
  if (valid < kValidMost) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kFailedPrecondition,
                     {.code = "JC1359",
                      .what = StrCat(valid, " certificates of ", path, " are valid already"),
                      .why = "one node or person may not have more valid ones at once",
                      .fix = StrCat("an administrator revokes them: jobctl cert revoke ", path,
                                    "; otherwise wait until some have expired")});
}

absl::StatusOr<v1::User> Enrolment::UserOf(const Proven& proven) {
  const std::string subject = StrCat(proven.issuer, " ", proven.subject);
  const std::optional<v1::User> user = records_.FindUserByOidc(subject);
  if (user.has_value()) return *user;
  return MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1366",
       .what = StrCat("no user of this cluster signs in as \"", subject, "\""),
       .why = "the identity provider knows this person, the cluster does not",
       .fix = StrCat("an administrator runs: jobctl user set NAME --oidc \"", subject, "\"")});
}

absl::StatusOr<std::string> Enrolment::KeyHashOf(const std::string& csr_pem) {
  ASSIGN_OR_RETURN(const identity::KeyHandle key, KeyOfRequest(csr_pem));
  return identity::PublicKeyHash(key.get());
}

Enrolment::Outcome Enrolment::SignInAs(const Proven& proven, const Asked& asked) {
  Outcome outcome{.answer = absl::UnknownError(""),
                  .who = StrCat("oidc:", proven.issuer, " ", proven.subject),
                  .object = ""};
  outcome.answer = [&]() -> absl::StatusOr<v1::Enrolled> {
    ASSIGN_OR_RETURN(const v1::User user, UserOf(proven));
    outcome.object = StrCat("user/", user.name());
    ASSIGN_OR_RETURN(identity::KeyHandle key, KeyOfRequest(proven.csr_pem));
    RETURN_IF_ERROR(CheckUser(user.name()).status());
    absl::StatusOr<v1::Enrolled> enrolled =
        Issue({.subject = {.kind = identity::Kind::kUser, .name = user.name()},
               .key = std::move(key),
               .issued_for = StrCat("oidc ", proven.issuer),
               .now_ms = asked.now_ms,
               .user_id = user.id()});
    // As above: the user may have been removed or unlinked meanwhile.
    if (enrolled.ok()) {
      RETURN_IF_ERROR(CheckUser(user.name()).status());
      RETURN_IF_ERROR(UserOf(proven).status());
    }
    return enrolled;
  }();
  return outcome;
}

// A certificate that is not in the list, because another coordinator with the same authority issued it or a
// restored backup is older, is not renewed: this coordinator cannot tell whether it was revoked.
absl::StatusOr<v1::Credential> Enrolment::CheckMayRenew(const identity::CertificateFacts& old,
                                                        int64_t now_ms) {
  ASSIGN_OR_RETURN(const std::optional<v1::Credential> known, records_.FindCredential(old.serial));
  if (!known.has_value()) return NotInTheList(old);
  if (known->revoked_ms() != 0) return NotThisRenewal("it was revoked");
  const bool is_worker = old.subject.kind == identity::Kind::kWorker;
  if (!is_worker && old.subject.kind != identity::Kind::kUser)
    return NotThisRenewal("it is a coordinator's");
  const int64_t until_ms = old.not_after_ms + (is_worker ? kRenewableForMs : 0);
  if (now_ms >= until_ms) {
    return NotThisRenewal(
        StrCat("it expired ", common::HumanDuration(now_ms - old.not_after_ms), " ago"));
  }
  if (!is_worker) RETURN_IF_ERROR(CheckUser(old.subject.name).status());
  return *known;
}

absl::StatusOr<v1::Enrolled> Enrolment::RenewFrom(const identity::CertificateFacts& old,
                                                  const v1::RenewRequest& request, int64_t now_ms) {
  ASSIGN_OR_RETURN(const identity::CertificateHandle certificate,
                   identity::ReadCertificate(request.certificate_pem()));
  if (!identity::IsSignedBy(identity::KeyOf(certificate).get(),
                            identity::RenewalText(request.at_ms(), request.csr_pem()),
                            request.signature())) {
    return NotThisRenewal("the request is not signed with its key");
  }
  if (request.at_ms() < now_ms - kClockOffByMs || request.at_ms() > now_ms + kClockOffByMs) {
    return NotThisRenewal(StrCat("the clocks of the two machines differ by more than ",
                                 common::HumanDuration(kClockOffByMs)));
  }
  ASSIGN_OR_RETURN(identity::KeyHandle key, KeyOfRequest(request.csr_pem()));
  const std::lock_guard lock(issuing_);
  ASSIGN_OR_RETURN(const v1::Credential known, CheckMayRenew(old, now_ms));
  absl::StatusOr<v1::Enrolled> enrolled = IssueLocked({.subject = old.subject,
                                                       .key = std::move(key),
                                                       .issued_for = StrCat(kRenewalOf, old.serial),
                                                       .now_ms = now_ms,
                                                       .user_id = known.user_id()});
  // A revocation that came in between did not cover the new certificate: do not hand it out.
  if (enrolled.ok() && records_.IsRevoked(old.serial)) return NotThisRenewal("it was revoked");
  return enrolled;
}

Enrolment::Outcome Enrolment::Renew(const v1::RenewRequest& request, const Asked& asked) {
  const auto old = request.certificate_pem().size() > kPemMax
                       ? absl::InvalidArgumentError("it is too long")
                       : authority_.FactsIfIssued(request.certificate_pem());
  if (!old.ok()) {
    return {.answer = NotThisRenewal(std::string(old.status().message())),
            .who = "certificate",
            .object = ""};
  }
  absl::StatusOr<v1::Enrolled> answer = RenewFrom(*old, request, asked.now_ms);
  // Anyone may present a certificate.
  std::string who =
      answer.ok() ? identity::PrincipalOf(old->subject) : StrCat("certificate:", old->serial);
  return {
      .answer = std::move(answer), .who = std::move(who), .object = identity::PathOf(old->subject)};
}

// Records a certificate before handing it out: one that is not in the list could not be revoked.
absl::StatusOr<v1::Enrolled> Enrolment::Issue(const Order& order) {
  const std::lock_guard lock(issuing_);
  return IssueLocked(order);
}

absl::StatusOr<v1::Enrolled> Enrolment::IssueLocked(const Order& order) {
  RETURN_IF_ERROR(CheckRoom(order.subject, order.now_ms));
  const bool is_worker = order.subject.kind == identity::Kind::kWorker;
  const identity::Authority::Issued issued =
      authority_.Issue({.key = order.key,
                        .subject = order.subject,
                        .now_ms = order.now_ms,
                        .lives_ms = is_worker ? place_.worker_lives_ms : place_.user_lives_ms,
                        .dns_names = {}});
  v1::Credential credential;
  credential.set_serial(issued.facts.serial);
  credential.set_subject(identity::PathOf(order.subject));
  credential.set_key_sha256(issued.facts.key_sha256);
  credential.set_issued_ms(order.now_ms);
  credential.set_expires_ms(issued.facts.not_after_ms);
  credential.set_issued_for(order.issued_for);
  credential.set_user_id(order.user_id);
  RETURN_IF_ERROR(records_.Record(credential));
  v1::Enrolled enrolled;
  enrolled.set_certificate_pem(issued.pem);
  enrolled.set_ca_pem(authority_.certificate_pem());
  enrolled.set_cluster(authority_.cluster());
  enrolled.set_name(order.subject.name);
  enrolled.set_endpoint(place_.endpoint);
  enrolled.set_expires_ms(issued.facts.not_after_ms);
  return enrolled;
}

}  // namespace muster::coordinator
