// Tokens, certificates and secrets of the directory.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/identity/directory.h"
#include "coordinator/identity/directory_checks.h"
#include "coordinator/identity/enrolment.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

constexpr uint32_t kCredentialsAtOnce = 1'000;
// For a day, lists show whether a token was used.
constexpr int64_t kTokensShownMs = 24 * 3'600'000;
constexpr std::string_view kUserSubject = "user/";

bool IsUsable(const v1::Token& token, int64_t now_ms) {
  return token.uses_left() > 0 && token.expires_ms() > now_ms;
}

// The user who has it can become anyone in the cluster.
absl::Status CheckCoordinatorsToken(const v1::CreateTokenRequest& request) {
  if (request.uses() > 1) {
    return BadIdentity("a coordinator's token can be used once",
                       "create one for each further coordinator");
  }
  if (request.lives_ms() > Directory::kCoordinatorsTokenLivesMaxMs) {
    return BadIdentity("a coordinator's token lives at most 24 hours",
                       "choose a shorter --expires");
  }
  if (request.role() != v1::ROLE_UNSPECIFIED || !request.subject().empty()) {
    return BadIdentity("a coordinator's token has no role and no name", "leave them out");
  }
  return absl::OkStatus();
}

absl::Status CheckCreateToken(const v1::CreateTokenRequest& request) {
  if (request.lives_ms() < 0 || request.lives_ms() > Directory::kTokenLivesMaxMs) {
    return BadIdentity("a token lives at most 30 days", "choose a shorter --expires");
  }
  switch (request.kind()) {
    case v1::TOKEN_KIND_JOIN:
      if (request.uses() > Directory::kTokenUsesMax) {
        return BadIdentity(
            StrCat("a token can be used at most ", Directory::kTokenUsesMax, " times"),
            "choose fewer --uses");
      }
      if (request.role() != v1::ROLE_UNSPECIFIED) {
        return BadIdentity("a token for workers has no role", "leave the role out");
      }
      return request.subject().empty() ? absl::OkStatus()
                                       : CheckEntryName("a node", request.subject());
    case v1::TOKEN_KIND_SIGN_IN:
      if (request.uses() > 1) {
        return BadIdentity("a person's token can be used once",
                           "create one for each of the person's machines");
      }
      if (request.role() != v1::ROLE_UNSPECIFIED &&
          (request.role() < v1::ROLE_VIEWER || request.role() > v1::ROLE_ADMIN)) {
        return BadIdentity(StrCat("a person cannot have the role ", v1::Role_Name(request.role())),
                           "choose viewer, user, operator or admin");
      }
      return CheckEntryName("a user who signs in", request.subject());
    case v1::TOKEN_KIND_COORDINATOR:
      return CheckCoordinatorsToken(request);
    default:
      return BadIdentity("the request does not state what the token is for",
                         "ask for a worker's, a person's or a coordinator's");
  }
}

// A token is not the way to change a user.
absl::Status CheckKnownUser(const v1::User& user, const v1::CreateTokenRequest& request) {
  if (user.disabled()) {
    return BadIdentity(StrCat("user ", user.name(), " is disabled"),
                       StrCat("enable it first: jobctl user enable ", user.name()));
  }
  if (request.role() == v1::ROLE_UNSPECIFIED || request.role() == user.role()) {
    return absl::OkStatus();
  }
  return BadIdentity(
      StrCat("user ", user.name(), " exists with another role, ", v1::Role_Name(user.role())),
      StrCat("change it with jobctl user set ", user.name(), " --role ROLE"));
}

absl::Status NotUsableFor() {
  return MakeProblem(absl::StatusCode::kUnauthenticated,
                     {.code = "JC1335",
                      .what = "the token is unknown, expired, used up, or for something else",
                      .fix = "ask an administrator for another one: jobctl token create"});
}

}  // namespace

absl::Status Directory::CheckTokenRoom(int64_t now_ms) {
  ASSIGN_OR_RETURN(const std::vector<v1::Token> tokens, store_.Tokens());
  const auto usable = std::count_if(tokens.begin(), tokens.end(), [&](const v1::Token& token) {
    return IsUsable(token, now_ms);
  });
  if (static_cast<size_t>(usable) < kTokensMax) return absl::OkStatus();
  return TooManyEntries("tokens that can still be used", kTokensMax,
                        "revoke some: jobctl token revoke ID");
}

absl::StatusOr<v1::Token> Directory::CreateToken(const v1::CreateTokenRequest& request,
                                                 NewToken made, const std::string& by) {
  RETURN_IF_ERROR(CheckCreateToken(request));
  const int64_t now_ms = clock_.Read().wall_ms;
  std::lock_guard lock(changing_);
  RETURN_IF_ERROR(CheckTokenRoom(now_ms));
  v1::Token token;
  token.set_id(std::move(made.id));
  token.set_secret_sha256(std::move(made.secret_sha256));
  token.set_kind(request.kind());
  token.set_subject(request.subject());
  token.set_created_ms(now_ms);
  token.set_expires_ms(now_ms + (request.lives_ms() == 0 ? kTokenLivesMs : request.lives_ms()));
  token.set_created_by(by);
  token.set_uses_left(std::max<uint32_t>(request.uses(), 1));
  std::optional<v1::User> added;
  if (request.kind() == v1::TOKEN_KIND_SIGN_IN) {
    if (const auto known = FindUser(request.subject()); known.has_value()) {
      RETURN_IF_ERROR(CheckKnownUser(*known, request));
    } else if (view_.load()->users.size() >= kUsersMax) {
      return TooManyEntries("users", kUsersMax, "remove some: jobctl user rm NAME");
    } else {
      added = NewUser(request.subject(),
                      request.role() == v1::ROLE_UNSPECIFIED ? v1::ROLE_USER : request.role(),
                      now_ms, by);
    }
  }
  RETURN_IF_ERROR(store_.AddToken(token, added));
  if (added.has_value()) Publish([&](View& view) { view.users[added->name()] = *added; });
  return token;
}

absl::StatusOr<std::vector<v1::Token>> Directory::Tokens() { return store_.Tokens(); }

absl::Status Directory::RevokeToken(const std::string& id) {
  std::lock_guard lock(changing_);
  ASSIGN_OR_RETURN(const bool removed, store_.RemoveToken(id));
  if (removed) return absl::OkStatus();
  return NoSuchEntry("token", id, "jobctl token ls lists them");
}

absl::StatusOr<v1::Token> Directory::UseToken(const Claim& claim) {
  const int64_t now_ms = clock_.Read().wall_ms;
  std::lock_guard lock(changing_);
  ASSIGN_OR_RETURN(const std::vector<v1::Token> tokens, store_.Tokens());
  const auto found = std::find_if(tokens.begin(), tokens.end(),
                                  [&](const v1::Token& token) { return token.id() == claim.id; });
  if (found == tokens.end() || found->kind() != claim.kind) return NotUsableFor();
  if (claim.kind == v1::TOKEN_KIND_JOIN && !found->subject().empty() &&
      found->subject() != claim.subject) {
    return NotUsableFor();
  }
  if (claim.kind == v1::TOKEN_KIND_SIGN_IN) {
    const auto user = FindUser(found->subject());
    if (!user.has_value() || user->disabled()) return NotUsableFor();
  }
  ASSIGN_OR_RETURN(
      std::optional<v1::Token> used,
      store_.UseToken({.id = claim.id, .secret_sha256 = claim.secret_sha256, .now_ms = now_ms}));
  if (!used.has_value()) return NotUsableFor();
  return *std::move(used);
}

absl::Status Directory::AddCredential(const v1::Credential& credential) {
  std::lock_guard lock(changing_);
  if (credential.subject().starts_with(kUserSubject)) {
    // Since the proof of identity, the name may have become another person's.
    const std::string name = credential.subject().substr(kUserSubject.size());
    RETURN_IF_ERROR(CheckIsStill(PrincipalOfUser(name), credential.user_id()));
  }
  ASSIGN_OR_RETURN(const uint64_t count, store_.CountCredentials());
  if (count >= kCredentialsMax) {
    return TooManyEntries("certificates", kCredentialsMax,
                          "expired ones are forgotten after 30 days; revoke tokens that are used "
                          "too often");
  }
  return store_.AddCredential(credential);
}

absl::StatusOr<std::optional<v1::Credential>> Directory::FindCredential(const std::string& serial) {
  return store_.FindCredential(serial);
}

absl::StatusOr<std::vector<v1::Credential>> Directory::Credentials(
    const IdentityStore::CredentialPage& page) {
  return store_.Credentials(page);
}

absl::Status Directory::ForEachCredential(const std::string& subject,
                                          const std::function<void(const v1::Credential&)>& each) {
  IdentityStore::CredentialPage page{.subject = subject, .after = "", .limit = kCredentialsAtOnce};
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<v1::Credential> credentials, store_.Credentials(page));
    for (const v1::Credential& credential : credentials) each(credential);
    if (credentials.size() < kCredentialsAtOnce) return absl::OkStatus();
    page.after = credentials.back().serial();
  }
}

absl::StatusOr<std::vector<v1::Credential>> Directory::RevokeOne(
    const IdentityStore::Revocation& revocation) {
  ASSIGN_OR_RETURN(std::vector<v1::Credential> revoked, store_.Revoke(revocation));
  Publish([&](View& view) {
    for (const v1::Credential& credential : revoked) view.revoked.insert(credential.serial());
  });
  return revoked;
}

// A thief of a key may have renewed with it, and then renewed the result; one who copied it before a renewal
// has the older one. Each renewal outlives its predecessor, so that none is forgotten while the first is in
// the list.
absl::StatusOr<std::vector<std::string>> Directory::RenewalsAround(const std::string& serial) {
  std::vector<std::string> found;
  if (serial.empty()) return found;
  ASSIGN_OR_RETURN(const auto first, store_.FindCredential(serial));
  if (!first.has_value()) return found;
  std::multimap<std::string, std::string> renewals;
  std::map<std::string, std::string> made_from;
  RETURN_IF_ERROR(ForEachCredential(first->subject(), [&](const v1::Credential& each) {
    const std::string& from = each.issued_for();
    if (!from.starts_with(kRenewalOf)) return;
    renewals.emplace(from.substr(kRenewalOf.size()), each.serial());
    made_from.emplace(each.serial(), from.substr(kRenewalOf.size()));
  }));
  std::string oldest = serial;
  for (size_t steps = 0; steps < made_from.size() && made_from.contains(oldest); ++steps)
    oldest = made_from.at(oldest);
  found.push_back(oldest);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [begin, end] = renewals.equal_range(found[i]);
    for (auto at = begin; at != end; ++at) found.push_back(at->second);
    renewals.erase(begin, end);  // so that a damaged, circular list ends, too
  }
  std::erase(found, serial);
  return found;
}

absl::StatusOr<std::vector<v1::Credential>> Directory::Revoke(
    const v1::RevokeCredentialsRequest& request, const std::string& by) {
  if (request.serial().empty() == request.subject().empty()) {
    return BadIdentity("the request names neither or both of serial and subject",
                       "name one of the two");
  }
  RETURN_IF_ERROR(CheckRemark("the reason", request.reason()));
  std::lock_guard lock(changing_);
  if (!request.serial().empty()) {
    ASSIGN_OR_RETURN(const auto known, store_.FindCredential(request.serial()));
    if (!known.has_value()) {
      return NoSuchEntry("certificate", request.serial(), "jobctl cert ls lists them");
    }
  }
  IdentityStore::Revocation revocation{.serial = request.serial(),
                                       .subject = request.subject(),
                                       .at_ms = clock_.Read().wall_ms,
                                       .by = by,
                                       .reason = request.reason()};
  ASSIGN_OR_RETURN(std::vector<v1::Credential> revoked, RevokeOne(revocation));
  ASSIGN_OR_RETURN(const std::vector<std::string> renewals, RenewalsAround(request.serial()));
  for (const std::string& serial : renewals) {
    revocation.serial = serial;
    ASSIGN_OR_RETURN(std::vector<v1::Credential> more, RevokeOne(revocation));
    std::move(more.begin(), more.end(), std::back_inserter(revoked));
  }
  return revoked;
}

absl::StatusOr<v1::Secret> Directory::SetSecret(v1::Secret secret) {
  std::lock_guard lock(changing_);
  RETURN_IF_ERROR(CheckIsStill(secret.owner(), secret.owner_id()));
  ASSIGN_OR_RETURN(const std::vector<v1::Secret> secrets,
                   store_.Secrets(OwnerKey(secret.owner(), secret.owner_id())));
  const bool is_known = std::any_of(secrets.begin(), secrets.end(), [&](const v1::Secret& each) {
    return each.name() == secret.name();
  });
  if (!is_known && secrets.size() >= kSecretsMax) {
    return TooManyEntries("secrets of yours", kSecretsMax, "remove some: jobctl secret rm NAME");
  }
  secret.set_changed_ms(clock_.Read().wall_ms);
  RETURN_IF_ERROR(store_.PutSecret(secret));
  secret.clear_sealed();
  return secret;
}

absl::StatusOr<std::vector<v1::Secret>> Directory::Secrets(const std::string& owner_key) {
  return store_.Secrets(owner_key);
}

absl::Status Directory::RemoveSecret(const std::string& owner_key, const std::string& name) {
  std::lock_guard lock(changing_);
  ASSIGN_OR_RETURN(const bool removed, store_.RemoveSecret(owner_key, name));
  if (removed) return absl::OkStatus();
  return NoSuchEntry("secret", name, "jobctl secret ls lists yours");
}

absl::StatusOr<std::vector<v1::Secret>> Directory::FindSecrets(
    const std::string& owner_key, const std::vector<std::string>& names) {
  std::vector<v1::Secret> secrets;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(std::optional<v1::Secret> secret, store_.FindSecret(owner_key, name));
    if (!secret.has_value()) {
      return MakeProblem(absl::StatusCode::kNotFound,
                         {.code = "JC1339",
                          .what = StrCat(OwnerOfKey(owner_key).name, " has no secret ", name),
                          .fix = StrCat("set it first: jobctl secret set ", name)});
    }
    secrets.push_back(*std::move(secret));
  }
  return secrets;
}

absl::Status Directory::ForgetExpired() {
  const int64_t now_ms = clock_.Read().wall_ms;
  std::lock_guard lock(changing_);
  return store_
      .Forget({.tokens_ms = now_ms - kTokensShownMs, .credentials_ms = now_ms - kRenewableMs})
      .status();
}

}  // namespace muster::coordinator
