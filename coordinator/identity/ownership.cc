#include "coordinator/identity/ownership.h"

#include <string>
#include <utility>

#include "common/job/notify.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/identity/roles.h"

namespace muster::coordinator {
namespace {

// "user:alice's"; if the caller has that name now, that it is an earlier person's.
std::string Whose(const Caller& caller, const v1::JobRecord& job) {
  return caller.principal != job.owner()
             ? common::StrCat(job.owner(), "'s")
             : common::StrCat("that of an earlier ", job.owner(), ", who was removed");
}

}  // namespace

bool IsOwner(const Caller& caller, const v1::JobRecord& job) {
  return caller.principal == job.owner() && caller.user_id == job.owner_id();
}

absl::Status CheckMayChange(const Caller& caller, const v1::JobRecord& job) {
  if (IsOwner(caller, job) || caller.role == v1::ROLE_OPERATOR || caller.role == v1::ROLE_ADMIN) {
    return absl::OkStatus();
  }
  return common::MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1320",
       .what = common::StrCat("job ", job.name(), " is ", Whose(caller, job), ", and ",
                              caller.principal, " (", RoleName(caller.role), ") may not change it"),
       .fix = "ask its owner or an operator"});
}

absl::Status CheckMayRunCommands(const Caller& caller, uint32_t own_uid, const v1::JobRecord& job) {
  const bool is_anybody = caller.role == v1::ROLE_ADMIN && caller.principal.starts_with("peer:");
  const bool is_this_machine =
      caller.principal == "uid:0" || caller.principal == common::StrCat("uid:", own_uid);
  if (IsOwner(caller, job) || is_anybody || is_this_machine) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1320",
       .what = common::StrCat("job ", job.name(), " is ", Whose(caller, job), ", and ",
                              caller.principal, " (", RoleName(caller.role),
                              ") may not run commands in it"),
       .fix = "ask its owner: no one else sees the values of its environment"});
}

void HideFromOthers(const Caller& caller, v1::JobRecord& job) {
  if (IsOwner(caller, job) || !job.has_spec()) return;
  // It covers the whole environment: guesses of the values could be compared with it.
  job.clear_spec_hash();
  for (auto& [name, value] : *job.mutable_spec()->mutable_env()) value = kHiddenValue;
  job::HideWebhooks(*job.mutable_spec());
}

void HideCode(v1::JobRecord& job) {
  if (!job.spec().has_code()) return;
  v1::CodeTree& code = *job.mutable_spec()->mutable_code();
  v1::CodeTree shown;
  shown.set_files(code.files());
  shown.set_bytes(code.bytes());
  code = std::move(shown);
}

}  // namespace muster::coordinator
