// The calls about users, tokens and certificates.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/revocation.h"
#include "coordinator/code/code_uploads.h"
#include "coordinator/contexts/on_pool.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/identity/cluster.h"
#include "coordinator/identity/directory.h"
#include "coordinator/identity/issue_token.h"
#include "coordinator/identity/roles.h"
#include "coordinator/periodic/log_usage.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr uint32_t kCredentialsPage = 1'000;

absl::Status NeedsCluster(const Access& access, std::string_view what) {
  if (access.cluster != nullptr) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1330",
       .what =
           StrCat(what, " needs a cluster with identities, which this coordinator does not have"),
       .fix = access.no_cluster_fix});
}

// The address where its token is used: HTTP's port, under a name in the certificate.
std::string AddressOf(const Access& access, const Instance& instance) {
  const std::string& http = instance.http_address;
  const size_t host = http.find("//");
  const size_t port = http.rfind(':');
  if (host == std::string::npos || port == std::string::npos || port < host) return http;
  const auto& names = access.cluster->host_names();
  return names.empty() ? http.substr(host + 2) : StrCat(names.front(), http.substr(port));
}

bool IsOfThisMachine(std::string_view name) { return name.starts_with("uid:"); }

// Closes the connections of a user who may do nothing any more. The certificates are refused from now on, but not
// revoked.
absl::Status CutUser(Access& access, Process& process, const Caller& caller,
                     const std::string& name) {
  if (IsOfThisMachine(name)) {
    if (access.cut_local && name != caller.principal) access.cut_local(name);
    return absl::OkStatus();
  }
  std::vector<v1::Credential> credentials;
  const absl::Status read = access.directory.ForEachCredential(
      StrCat("user/", name), [&](const v1::Credential& each) { credentials.push_back(each); });
  // Also if the others cannot be read.
  Cut(access, process, caller, credentials);
  return read;
}

// An administrator may revoke any certificate, every other user only their own. A user who may not learns nothing
// about others' serials.
absl::Status CheckMayRevoke(Directory& directory, const Caller& caller,
                            const v1::RevokeCredentialsRequest& request) {
  if (caller.role == v1::ROLE_ADMIN) return absl::OkStatus();
  std::string subject = request.subject();
  if (!request.serial().empty()) {
    ASSIGN_OR_RETURN(const auto known, directory.FindCredential(request.serial()));
    subject = known.has_value() && subject.empty() ? known->subject() : "";
  }
  const std::string_view user = UserOf(caller.principal);
  if (!user.empty() && subject == StrCat("user/", user)) return absl::OkStatus();
  return common::MakeProblem(absl::StatusCode::kPermissionDenied,
                             {.code = "JC1320",
                              .what = StrCat(caller.principal, " (", RoleName(caller.role),
                                             ") may revoke only its own certificates"),
                              .fix = "ask an administrator"});
}

std::string RoleReason(const Access& access, const Instance& instance, const Caller& caller) {
  if (!caller.serial.empty()) return "its certificate, and what the cluster knows of it";
  if (instance.is_private) return "this coordinator is private, and yours";
  if (!caller.principal.starts_with("uid:")) {
    return "connections without TLS are not told apart (--insecure-plaintext)";
  }
  return access.directory.FindUser(caller.principal).has_value()
             ? StrCat("user ", caller.principal, ", a local account")
             : "a local account of the coordinator's machine";
}

}  // namespace

void WhoAmI(Access& access, Instance& instance, Process& process, const Caller& caller,
            const v1::WhoAmIRequest&, Answer<v1::WhoAmIResponse> answer) {
  AnswerOnPool<v1::WhoAmIResponse>(
      process, std::move(answer),
      [&access, &instance, caller]() -> absl::StatusOr<v1::WhoAmIResponse> {
        v1::WhoAmIResponse response;
        response.set_principal(caller.principal);
        response.set_user_id(caller.user_id);
        response.set_role(caller.role);
        response.set_serial(caller.serial);
        response.set_because(RoleReason(access, instance, caller));
        if (access.cluster != nullptr) response.set_cluster(access.cluster->name());
        if (const auto user = access.directory.FindUser(UserOf(caller.principal))) {
          response.set_account(user->account());
        }
        if (caller.serial.empty()) return response;
        ASSIGN_OR_RETURN(const auto credential, access.directory.FindCredential(caller.serial));
        if (credential.has_value()) response.set_expires_ms(credential->expires_ms());
        return response;
      });
}
MUSTER_HANDLER(WhoAmI)

void CreateToken(Access& access, Instance& instance, Process& process, const Caller& caller,
                 const v1::CreateTokenRequest& request, Answer<v1::CreateTokenResponse> answer) {
  AnswerOnPool<v1::CreateTokenResponse>(
      process, std::move(answer),
      [&access, &instance, caller, request]() -> absl::StatusOr<v1::CreateTokenResponse> {
        RETURN_IF_ERROR(NeedsCluster(access, "a token"));
        ASSIGN_OR_RETURN(IssuedToken made,
                         IssueToken(access.directory, *access.cluster, request, caller.principal));
        v1::CreateTokenResponse response;
        response.set_text(std::move(made.text));
        response.set_address(AddressOf(access, instance));
        *response.mutable_token() = std::move(made.token);
        return response;
      });
}
MUSTER_HANDLER(CreateToken)

void ListTokens(Access& access, Process& process, const Caller&,
                const v1::ListTokensRequest& request, Answer<v1::ListTokensResponse> answer) {
  AnswerOnPool<v1::ListTokensResponse>(
      process, std::move(answer),
      [&access, after = request.after()]() -> absl::StatusOr<v1::ListTokensResponse> {
        ASSIGN_OR_RETURN(const std::vector<v1::Token> tokens, access.directory.Tokens());
        v1::ListTokensResponse response;
        FillPage(
            response, tokens, after, common::kAnswerBytesMax,
            [](const v1::Token& token) { return token.id(); },
            [&](const v1::Token& token) {
              *response.add_tokens() = token;
              response.mutable_tokens(response.tokens_size() - 1)->clear_secret_sha256();
            });
        return response;
      });
}
MUSTER_HANDLER(ListTokens)

void RevokeToken(Access& access, Process& process, const Caller&,
                 const v1::RevokeTokenRequest& request, Answer<v1::RevokeTokenResponse> answer) {
  AnswerOnPool<v1::RevokeTokenResponse>(
      process, std::move(answer),
      [&access, id = request.id()]() -> absl::StatusOr<v1::RevokeTokenResponse> {
        RETURN_IF_ERROR(access.directory.RevokeToken(id));
        return v1::RevokeTokenResponse();
      });
}
MUSTER_HANDLER(RevokeToken)

void SetUser(Access& access, Process& process, const Caller& caller,
             const v1::SetUserRequest& request, Answer<v1::User> answer) {
  AnswerOnPool<v1::User>(
      process, std::move(answer),
      [&access, &process, caller, request]() -> absl::StatusOr<v1::User> {
        const auto before = access.directory.FindUser(request.name());
        ASSIGN_OR_RETURN(v1::User user, access.directory.SetUser(request, caller.principal));
        // A connection has the role that its user had when it was made.
        // A local account is a user before it is recorded.
        const bool changed = !before.has_value() || before->role() != user.role() ||
                             before->disabled() != user.disabled();
        if (changed) RETURN_IF_ERROR(CutUser(access, process, caller, user.name()));
        return user;
      });
}
MUSTER_HANDLER(SetUser)

namespace {

// `usage` has what the live jobs take; adds code and output. Waits for the disk.
absl::StatusOr<v1::ListUsersResponse> WithUsage(JobStores& stores, JobCode& job_code,
                                                Access& access, v1::ListUsersResponse response,
                                                std::map<std::string, v1::Usage> usage) {
  ASSIGN_OR_RETURN(const auto given, job_code.store.Given());
  for (const auto& [owner, bytes] : given) {
    if (!owner.empty()) usage[owner].set_code_bytes(bytes);
  }
  for (const auto& [owner, bytes] : job_code.uploads.Begun())
    usage[owner].set_code_bytes(usage[owner].code_bytes() + bytes);
  for (const auto& [owner, bytes] : stores.log_usage.ByOwner()) usage[owner].set_log_bytes(bytes);
  std::vector<v1::Usage> all;
  for (auto& [key, each] : usage) {
    const Owner owner = OwnerOfKey(key);
    each.set_owner(owner.name);
    each.set_owner_id(owner.id);
    each.set_owner_is_gone(access.directory.IsGone(owner.name, owner.id));
    all.push_back(std::move(each));
  }
  const auto bytes = [](const v1::Usage& each) { return each.log_bytes() + each.code_bytes(); };
  std::stable_sort(all.begin(), all.end(),
                   [&](const v1::Usage& a, const v1::Usage& b) { return bytes(a) > bytes(b); });
  all.resize(std::min(all.size(), Directory::kUsersMax));
  for (v1::Usage& each : all) *response.add_usage() = std::move(each);
  response.mutable_most()->set_code_bytes(job_code.person_quota_bytes);
  response.mutable_most()->set_log_bytes(stores.log_usage.quota_bytes());
  return response;
}

void AddUsage(Jobs& jobs, JobStores& stores, JobCode& job_code, Access& access, Process& process,
              v1::ListUsersResponse response, Answer<v1::ListUsersResponse> answer) {
  jobs.loop.Ask(
      [&stores, &job_code, &access, &process, response = std::move(response),
       answer](const LoopView& view) {
        std::map<std::string, v1::Usage> usage;
        for (const auto& [owner, held] : view.state.holdings.owners) {
          usage[owner].set_live_jobs(static_cast<uint32_t>(held.jobs.size()));
          usage[owner].set_live_bytes(held.bytes);
        }
        v1::ListUsersResponse begun = response;
        begun.mutable_most()->set_live_bytes(view.state.settings.owner_live_bytes_max);
        return [&stores, &job_code, &access, &process, begun, usage = std::move(usage), answer] {
          process.pool.Post([&stores, &job_code, &access, begun, usage, answer] {
            answer(WithUsage(stores, job_code, access, begun, usage));
          });
        };
      },
      answer);
}

}  // namespace

void ListUsers(Jobs& jobs, JobStores& stores, JobCode& job_code, Access& access, Process& process,
               const Caller&, const v1::ListUsersRequest& request,
               Answer<v1::ListUsersResponse> answer) {
  v1::ListUsersResponse response;
  FillPage(
      response, access.directory.Users(), request.after(), common::kAnswerBytesMax,
      [](const v1::User& user) { return user.name(); },
      [&](const v1::User& user) { *response.add_users() = user; });
  if (request.usage() && request.after().empty())
    return AddUsage(jobs, stores, job_code, access, process, std::move(response),
                    std::move(answer));
  answer(std::move(response));
}
MUSTER_HANDLER(ListUsers)

void RemoveUser(Access& access, Process& process, const Caller& caller,
                const v1::RemoveUserRequest& request, Answer<v1::RemoveUserResponse> answer) {
  AnswerOnPool<v1::RemoveUserResponse>(
      process, std::move(answer),
      [&access, &process, caller,
       name = request.name()]() -> absl::StatusOr<v1::RemoveUserResponse> {
        ASSIGN_OR_RETURN(const std::vector<v1::Credential> revoked,
                         access.directory.RemoveUser(name, caller.principal));
        Cut(access, process, caller, revoked);
        if (IsOfThisMachine(name)) RETURN_IF_ERROR(CutUser(access, process, caller, name));
        return v1::RemoveUserResponse();
      });
}
MUSTER_HANDLER(RemoveUser)

void ListCredentials(Access& access, Process& process, const Caller&,
                     const v1::ListCredentialsRequest& request,
                     Answer<v1::ListCredentialsResponse> answer) {
  AnswerOnPool<v1::ListCredentialsResponse>(
      process, std::move(answer),
      [&access, request]() -> absl::StatusOr<v1::ListCredentialsResponse> {
        ASSIGN_OR_RETURN(std::vector<v1::Credential> page,
                         access.directory.Credentials({.subject = request.subject(),
                                                       .after = request.after(),
                                                       .limit = kCredentialsPage + 1}));
        v1::ListCredentialsResponse response;
        response.set_more(page.size() > kCredentialsPage);
        if (response.more()) page.pop_back();
        for (v1::Credential& credential : page) {
          *response.add_credentials() = std::move(credential);
        }
        return response;
      });
}
MUSTER_HANDLER(ListCredentials)

void RevokeCredentials(Access& access, Process& process, const Caller& caller,
                       const v1::RevokeCredentialsRequest& request,
                       Answer<v1::RevokeCredentialsResponse> answer) {
  AnswerOnPool<v1::RevokeCredentialsResponse>(
      process, std::move(answer),
      [&access, &process, caller, request]() -> absl::StatusOr<v1::RevokeCredentialsResponse> {
        RETURN_IF_ERROR(CheckMayRevoke(access.directory, caller, request));
        ASSIGN_OR_RETURN(const std::vector<v1::Credential> revoked,
                         access.directory.Revoke(request, caller.principal));
        v1::RevokeCredentialsResponse response;
        response.set_revoked(static_cast<uint32_t>(revoked.size()));
        response.set_connections_cut(Cut(access, process, caller, revoked));
        return response;
      });
}
MUSTER_HANDLER(RevokeCredentials)

}  // namespace muster::coordinator
