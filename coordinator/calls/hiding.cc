#include "coordinator/calls/hiding.h"

#include "coordinator/calls/sealed_environment.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/identity/directory.h"
#include "coordinator/identity/ownership.h"

namespace muster::coordinator {

bool MaySeeCode(const Access& access, const Caller& caller, const v1::JobRecord& job) {
  return IsOwner(caller, job) || caller.role == v1::ROLE_ADMIN ||
         access.directory.CheckProject(job.spec().project(), caller.principal).ok();
}

void HideFromCaller(const Access& access, const Caller& caller, v1::JobRecord& job) {
  // What cannot be decrypted is left out; the launch reports why.
  if (!job.spec().sealed_env().empty())
    OpenEnvironment(access.cluster, job.mutable_spec()).IgnoreError();
  HideFromOthers(caller, job);
  for (v1::Attempt& attempt : *job.mutable_attempts()) attempt.clear_rendezvous_secret();
  if (job.spec().has_code() && !MaySeeCode(access, caller, job)) HideCode(job);
}

void HideFromCaller(const Access& access, const Caller& caller, v1::Event& event) {
  if (event.has_job_submitted())
    HideFromCaller(access, caller, *event.mutable_job_submitted()->mutable_record());
  if (event.has_master_port_held()) event.mutable_master_port_held()->clear_rendezvous_secret();
}

}  // namespace muster::coordinator
