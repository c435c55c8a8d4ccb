#include "coordinator/calls/sealed_environment.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/job/precision.h"
#include "common/job/validate.h"
#include "common/problem.h"
#include "coordinator/core/state/spec_hash.h"
#include "coordinator/identity/cluster.h"

namespace muster::coordinator {
namespace {

constexpr char kPurpose[] = "environment of a job";
constexpr char kPath[] = "PATH";

// A node looks for the program with the one, and the core places by the other, whose few values tell
// nothing else.
bool StaysInClear(const std::string& name, const std::string& value) {
  return name == kPath || (name == job::kPrecisionVariable && job::IsPrecision(value));
}

absl::Status Unreadable(const std::string& why) {
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1345",
       .what = "the job's environment cannot be decrypted",
       .why = why,
       .fix = "start the coordinator with the keys that it had when the job was submitted, or "
              "submit it again"});
}

}  // namespace

absl::Status SealEnvironment(const Cluster* cluster, SubmitInput* input) {
  v1::JobSpec& spec = *input->request.mutable_spec();
  if (cluster == nullptr || spec.env().empty()) return absl::OkStatus();
  if (!spec.sealed_env().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(job::Validate(spec));
  // A hash of what was sent: the same request sent again is the same job. Keyed, because it is in backups,
  // where a plain hash would confirm guesses of the values to readers without the key.
  if (!input->request.idempotency_key().empty()) {
    const std::string bytes = CanonicalBytes(spec);
    input->sent = {.keyed = cluster->KeyedHash(kPurpose, bytes),
                   .plain = HashBytes(bytes),
                   .as_020 = HashSpecAs020(spec)};
  }
  v1::JobSpec sealed;
  sealed.mutable_env()->swap(*spec.mutable_env());
  for (const std::string name : {kPath, job::kPrecisionVariable}) {
    const auto found = sealed.env().find(name);
    if (found == sealed.env().end() || !StaysInClear(name, found->second)) continue;
    (*spec.mutable_env())[name] = found->second;
    sealed.mutable_env()->erase(name);
  }
  if (!sealed.env().empty())
    spec.set_sealed_env(cluster->Seal(kPurpose, sealed.SerializeAsString()));
  return absl::OkStatus();
}

absl::Status OpenEnvironment(const Cluster* cluster, v1::JobSpec* spec) {
  if (spec->sealed_env().empty()) return absl::OkStatus();
  const std::string sealed = std::move(*spec->mutable_sealed_env());
  spec->clear_sealed_env();
  if (cluster == nullptr) return Unreadable("this coordinator has no keys");
  const absl::StatusOr<std::string> bytes = cluster->Unseal(kPurpose, sealed);
  if (!bytes.ok()) return Unreadable(std::string(bytes.status().message()));
  v1::JobSpec opened;
  if (!opened.ParseFromString(*bytes)) return Unreadable("it is damaged");
  for (auto& [name, value] : *opened.mutable_env())
    spec->mutable_env()->insert({name, std::move(value)});
  return absl::OkStatus();
}

}  // namespace muster::coordinator
