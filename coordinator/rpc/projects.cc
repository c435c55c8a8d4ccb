// Projects and secrets: the calls.
#include <utility>

#include "common/limits.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/core/owner.h"
#include "coordinator/identity/cluster.h"
#include "coordinator/identity/directory.h"
#include "coordinator/identity/directory_checks.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/rpc/on_pool.h"
#include "coordinator/rpc/secrets.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// So that no other secret's value can be put in its place.
std::string PurposeOf(const std::string& owner_key, const std::string& name) {
  return StrCat("secret ", name, " of ", owner_key);
}

}  // namespace

void SetProject(Daemon& daemon, const Caller& caller, const v1::SetProjectRequest& request,
                Answer<v1::Project> answer) {
  AnswerOnPool<v1::Project>(daemon, std::move(answer), [&daemon, caller, request] {
    return daemon.directory.SetProject(request, caller.principal);
  });
}

void ListProjects(Daemon& daemon, const Caller&, const v1::ListProjectsRequest& request,
                  Answer<v1::ListProjectsResponse> answer) {
  v1::ListProjectsResponse response;
  FillPage(
      response, daemon.directory.Projects(), request.after(), common::kAnswerBytesMax,
      [](const v1::Project& project) { return project.name(); },
      [&](const v1::Project& project) { *response.add_projects() = project; });
  answer(std::move(response));
}

void RemoveProject(Daemon& daemon, const Caller&, const v1::RemoveProjectRequest& request,
                   Answer<v1::RemoveProjectResponse> answer) {
  AnswerOnPool<v1::RemoveProjectResponse>(
      daemon, std::move(answer),
      [&daemon, name = request.name()]() -> absl::StatusOr<v1::RemoveProjectResponse> {
        RETURN_IF_ERROR(daemon.directory.RemoveProject(name));
        return v1::RemoveProjectResponse();
      });
}

void SetSecret(Daemon& daemon, const Caller& caller, const v1::SetSecretRequest& request,
               Answer<v1::Secret> answer) {
  AnswerOnPool<v1::Secret>(
      daemon, std::move(answer), [&daemon, caller, request]() -> absl::StatusOr<v1::Secret> {
        RETURN_IF_ERROR(CheckEntryName("a secret", request.name()));
        if (request.value().empty() || request.value().size() > Directory::kSecretBytesMax) {
          return BadIdentity(
              StrCat("secret ", request.name(), " has ", request.value().size(), " bytes"),
              StrCat("a secret has 1 to ", Directory::kSecretBytesMax, " bytes"));
        }
        if (daemon.cluster == nullptr) return NoKeyForSecrets(daemon);
        v1::Secret secret;
        secret.set_name(request.name());
        secret.set_owner(caller.principal);
        secret.set_owner_id(caller.user_id);
        secret.set_size(request.value().size());
        secret.set_sealed(
            daemon.cluster->Seal(PurposeOf(OwnerKey(caller), request.name()), request.value()));
        return daemon.directory.SetSecret(std::move(secret));
      });
}

void ListSecrets(Daemon& daemon, const Caller& caller, const v1::ListSecretsRequest& request,
                 Answer<v1::ListSecretsResponse> answer) {
  AnswerOnPool<v1::ListSecretsResponse>(
      daemon, std::move(answer),
      [&daemon, caller, after = request.after()]() -> absl::StatusOr<v1::ListSecretsResponse> {
        ASSIGN_OR_RETURN(const std::vector<v1::Secret> secrets,
                         daemon.directory.Secrets(OwnerKey(caller)));
        v1::ListSecretsResponse response;
        FillPage(
            response, secrets, after, common::kAnswerBytesMax,
            [](const v1::Secret& secret) { return secret.name(); },
            [&](const v1::Secret& secret) { *response.add_secrets() = secret; });
        return response;
      });
}

void RemoveSecret(Daemon& daemon, const Caller& caller, const v1::RemoveSecretRequest& request,
                  Answer<v1::RemoveSecretResponse> answer) {
  AnswerOnPool<v1::RemoveSecretResponse>(
      daemon, std::move(answer),
      [&daemon, caller, name = request.name()]() -> absl::StatusOr<v1::RemoveSecretResponse> {
        RETURN_IF_ERROR(daemon.directory.RemoveSecret(OwnerKey(caller), name));
        return v1::RemoveSecretResponse();
      });
}

absl::Status NoKeyForSecrets(const Daemon& daemon) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1330",
       .what = "secrets need a cluster with identities, whose key encrypts them; this coordinator "
               "has none",
       .fix = daemon.is_private ? std::string("choose a cluster's context: jobctl context ls")
                                : StrCat("make one: muster-coordinator init --data-dir ",
                                         daemon.paths.Root(), " --name CLUSTER")});
}

void AddSecrets(Daemon& daemon, v1::LaunchAttempt* launch) {
  const auto& names = launch->spec().secrets();
  auto values = OpenSecrets(daemon, OwnerKey(launch->owner(), launch->owner_id()),
                            {names.begin(), names.end()});
  if (!values.ok()) {
    return common::LogWarning(StrCat("a launch goes without secrets job=", launch->job(),
                                     " attempt=", launch->attempt(), " reason=\"",
                                     common::MessageOf(values.status()), "\""));
  }
  for (auto& [name, value] : *values) (*launch->mutable_secrets())[name] = std::move(value);
}

absl::StatusOr<std::map<std::string, std::string>> OpenSecrets(
    Daemon& daemon, const std::string& owner_key, const std::vector<std::string>& names) {
  if (daemon.cluster == nullptr) return NoKeyForSecrets(daemon);
  ASSIGN_OR_RETURN(const std::vector<v1::Secret> secrets,
                   daemon.directory.FindSecrets(owner_key, names));
  std::map<std::string, std::string> values;
  for (const v1::Secret& secret : secrets) {
    ASSIGN_OR_RETURN(values[secret.name()],
                     daemon.cluster->Unseal(PurposeOf(owner_key, secret.name()), secret.sealed()));
  }
  return values;
}

}  // namespace muster::coordinator
