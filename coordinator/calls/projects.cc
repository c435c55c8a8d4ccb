// The calls about projects and secrets.
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/secrets.h"
#include "coordinator/contexts/on_pool.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/core/views/project_views.h"
#include "coordinator/identity/cluster.h"
#include "coordinator/identity/directory.h"
#include "coordinator/identity/directory_checks.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// The name is part of it, so that another secret's value cannot be put in its place.
std::string PurposeOf(const std::string& owner_key, const std::string& name) {
  return StrCat("secret ", name, " of ", owner_key);
}

}  // namespace

void SetProject(Access& access, Process& process, const Caller& caller,
                const v1::SetProjectRequest& request, Answer<v1::Project> answer) {
  AnswerOnPool<v1::Project>(process, std::move(answer), [&access, caller, request] {
    return access.directory.SetProject(request, caller.principal);
  });
}
MUSTER_HANDLER(SetProject)

void SetQuota(Jobs& jobs, Access& access, Process& process, const Caller& caller,
              const v1::SetQuotaRequest& request, Answer<v1::SetQuotaResponse> answer) {
  process.pool.Post([&jobs, &access, caller, request, answer = std::move(answer)] {
    const absl::StatusOr<v1::Project> project =
        access.directory.SetQuota(request, caller.principal);
    if (!project.ok()) return answer(project.status());
    jobs.project_mirror.Mirror(jobs, access.directory);
    // Answered once the scheduler has it.
    jobs.loop.Ask(
        [project = *project, answer](const LoopView& view) {
          v1::SetQuotaResponse response;
          *response.mutable_project() = project;
          for (std::string& warning : QuotaWarnings(view.state, view.state.projects))
            response.add_warnings(std::move(warning));
          return [answer, response = std::move(response)] { answer(response); };
        },
        answer);
  });
}
MUSTER_HANDLER(SetQuota)

void ListProjects(Jobs& jobs, Access& access, Process& process, const Caller& caller,
                  const v1::ListProjectsRequest& request, Answer<v1::ListProjectsResponse> answer) {
  v1::ListProjectsResponse response;
  FillPage(
      response, access.directory.Projects(), request.after(), common::kAnswerBytesMax,
      [](const v1::Project& project) { return project.name(); },
      [&](const v1::Project& project) { *response.add_projects() = project; });
  jobs.plans.Look(
      jobs, process,
      {.owner = caller.principal,
       .look =
           [answer, listed = std::move(response)](const Planner::View& view) {
             v1::ListProjectsResponse response = listed;
             std::set<std::string> names;
             for (const v1::Project& project : response.projects()) names.insert(project.name());
             for (v1::ProjectUse& use : ViewProjects(view.state)) {
               if (names.contains(use.project())) *response.add_uses() = std::move(use);
             }
             const std::map<std::string, uint32_t> in_service = DevicesInService(view.state);
             response.mutable_in_service()->insert(in_service.begin(), in_service.end());
             answer(std::move(response));
           },
       .refuse = answer});
}
MUSTER_HANDLER(ListProjects)

void RemoveProject(Jobs& jobs, Access& access, Process& process, const Caller&,
                   const v1::RemoveProjectRequest& request,
                   Answer<v1::RemoveProjectResponse> answer) {
  AnswerOnPool<v1::RemoveProjectResponse>(
      process, std::move(answer),
      [&jobs, &access, name = request.name()]() -> absl::StatusOr<v1::RemoveProjectResponse> {
        RETURN_IF_ERROR(access.directory.RemoveProject(name));
        jobs.project_mirror.Mirror(jobs, access.directory);
        return v1::RemoveProjectResponse();
      });
}
MUSTER_HANDLER(RemoveProject)

void SetSecret(Access& access, Process& process, const Caller& caller,
               const v1::SetSecretRequest& request, Answer<v1::Secret> answer) {
  AnswerOnPool<v1::Secret>(
      process, std::move(answer), [&access, caller, request]() -> absl::StatusOr<v1::Secret> {
        RETURN_IF_ERROR(CheckEntryName("a secret", request.name()));
        if (request.value().empty() || request.value().size() > Directory::kSecretBytesMax) {
          return BadIdentity(
              StrCat("secret ", request.name(), " has ", request.value().size(), " bytes"),
              StrCat("a secret has 1 to ", Directory::kSecretBytesMax, " bytes"));
        }
        if (access.cluster == nullptr) return NoKeyForSecrets(access);
        v1::Secret secret;
        secret.set_name(request.name());
        secret.set_owner(caller.principal);
        secret.set_owner_id(caller.user_id);
        secret.set_size(request.value().size());
        secret.set_sealed(
            access.cluster->Seal(PurposeOf(OwnerKey(caller), request.name()), request.value()));
        return access.directory.SetSecret(std::move(secret));
      });
}
MUSTER_HANDLER(SetSecret)

void ListSecrets(Access& access, Process& process, const Caller& caller,
                 const v1::ListSecretsRequest& request, Answer<v1::ListSecretsResponse> answer) {
  AnswerOnPool<v1::ListSecretsResponse>(
      process, std::move(answer),
      [&access, caller, after = request.after()]() -> absl::StatusOr<v1::ListSecretsResponse> {
        ASSIGN_OR_RETURN(const std::vector<v1::Secret> secrets,
                         access.directory.Secrets(OwnerKey(caller)));
        v1::ListSecretsResponse response;
        FillPage(
            response, secrets, after, common::kAnswerBytesMax,
            [](const v1::Secret& secret) { return secret.name(); },
            [&](const v1::Secret& secret) { *response.add_secrets() = secret; });
        return response;
      });
}
MUSTER_HANDLER(ListSecrets)

void RemoveSecret(Access& access, Process& process, const Caller& caller,
                  const v1::RemoveSecretRequest& request, Answer<v1::RemoveSecretResponse> answer) {
  AnswerOnPool<v1::RemoveSecretResponse>(
      process, std::move(answer),
      [&access, caller, name = request.name()]() -> absl::StatusOr<v1::RemoveSecretResponse> {
        RETURN_IF_ERROR(access.directory.RemoveSecret(OwnerKey(caller), name));
        return v1::RemoveSecretResponse();
      });
}
MUSTER_HANDLER(RemoveSecret)

absl::Status NoKeyForSecrets(const Access& access) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1330",
       .what = "secrets need a cluster with identities, whose key encrypts them; this coordinator "
               "has none",
       .fix = access.no_cluster_fix});
}

void AddSecrets(Access& access, v1::LaunchAttempt* launch) {
  const auto& names = launch->spec().secrets();
  auto values = OpenSecrets(access, OwnerKey(launch->owner(), launch->owner_id()),
                            {names.begin(), names.end()});
  if (!values.ok()) {
    return common::LogWarning(StrCat("a launch has no secrets job=", launch->job(),
                                     " attempt=", launch->attempt(), " reason=\"",
                                     common::MessageOf(values.status()), "\""));
  }
  for (auto& [name, value] : *values) (*launch->mutable_secrets())[name] = std::move(value);
}

absl::StatusOr<std::map<std::string, std::string>> OpenSecrets(
    Access& access, const std::string& owner_key, const std::vector<std::string>& names) {
  if (access.cluster == nullptr) return NoKeyForSecrets(access);
  ASSIGN_OR_RETURN(const std::vector<v1::Secret> secrets,
                   access.directory.FindSecrets(owner_key, names));
  std::map<std::string, std::string> values;
  for (const v1::Secret& secret : secrets) {
    ASSIGN_OR_RETURN(values[secret.name()],
                     access.cluster->Unseal(PurposeOf(owner_key, secret.name()), secret.sealed()));
  }
  return values;
}

}  // namespace muster::coordinator
