#include "coordinator/core/state/holdings.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/units.h"
#include "coordinator/core/state/owner.h"

namespace muster::coordinator {
namespace {

using common::HumanBytes;

// The overhead of a file in a list and of a checkpoint in its record, in addition to their texts.
constexpr uint64_t kFileOverhead = 32;

uint64_t BytesOf(const v1::CheckpointFile& file) { return file.ByteSizeLong() + kFileOverhead; }

void Add(ClusterState& state, const v1::JobRecord& job, int64_t bytes) {
  const uint64_t change = static_cast<uint64_t>(bytes);  // wraps around where it is negative
  Holdings& all = state.holdings;
  all.bytes += change;
  all.jobs[job.id()].bytes += change;
  all.owners[OwnerKey(job)].bytes += change;
}

absl::Status Exhausted(std::string what, std::string fix) {
  return common::MakeProblem(absl::StatusCode::kResourceExhausted,
                             {.code = "JC1209", .what = std::move(what), .fix = std::move(fix)});
}

uint64_t BytesOf(const SubmitInput& input) {
  uint64_t bytes = input.request.ByteSizeLong();
  if (input.resume_from.has_value()) {
    for (const v1::CheckpointFile& file : input.resume_from->files()) bytes += BytesOf(file);
  }
  return bytes;
}

}  // namespace

void Weigh(ClusterState& state, const v1::JobRecord& job) {
  HeldByJob& held = state.holdings.jobs[job.id()];
  const uint64_t bytes = job.ByteSizeLong();
  state.holdings.owners[OwnerKey(job)].jobs.insert(job.id());
  Add(state, job, static_cast<int64_t>(bytes) - static_cast<int64_t>(held.record_bytes));
  held.record_bytes = bytes;
}

void WeighFile(ClusterState& state, const v1::JobRecord& job, const v1::CheckpointFile& file,
               bool forget) {
  const auto bytes = static_cast<int64_t>(BytesOf(file));
  Add(state, job, forget ? -bytes : bytes);
}

void Unweigh(ClusterState& state, const v1::JobRecord& job) {
  const auto held = state.holdings.jobs.find(job.id());
  if (held == state.holdings.jobs.end()) return;
  Add(state, job, -static_cast<int64_t>(held->second.bytes));
  state.holdings.jobs.erase(held);
  const auto owner = state.holdings.owners.find(OwnerKey(job));
  CHECK(owner != state.holdings.owners.end());  // Weigh has made it, and a job keeps its owner
  owner->second.jobs.erase(job.id());
  if (owner->second.jobs.empty()) state.holdings.owners.erase(owner);
}

void Slim(const Settings& settings, v1::JobRecord& job) {
  for (int i = 0; i + 1 < job.attempts_size(); ++i) {
    if (job.ByteSizeLong() <= settings.record_bytes_max) return;
    LeaveOutExits(*job.mutable_attempts(i));
  }
}

uint64_t NewestOf(const ClusterState& state, const Caller& caller) {
  const auto found = state.holdings.owners.find(OwnerKey(caller));
  return found == state.holdings.owners.end() ? 0 : *found->second.jobs.rbegin();
}

absl::Status MayHold(const ClusterState& state, const SubmitInput& input) {
  const Settings& settings = state.settings;
  if (state.jobs.size() >= settings.live_jobs_max) {
    return Exhausted(
        absl::StrCat(settings.live_jobs_max, " jobs are queued or running, which is the limit"),
        "try again later");
  }
  const uint64_t bytes = BytesOf(input);
  const auto owner = state.holdings.owners.find(OwnerKey(input.caller));
  const uint64_t own = owner == state.holdings.owners.end() ? 0 : owner->second.bytes;
  if (own + bytes > settings.owner_live_bytes_max) {
    return Exhausted(
        absl::StrCat("the queued and running jobs of ", input.caller.principal, " have ",
                     HumanBytes(own), " of specs and file lists, and this one has ",
                     HumanBytes(bytes), "; the limit is ",
                     HumanBytes(settings.owner_live_bytes_max)),
        "wait for some to end or cancel them, or submit smaller ones: most of a spec is often its "
        "environment");
  }
  if (state.holdings.bytes + bytes > settings.live_bytes_max) {
    return Exhausted(
        absl::StrCat("all queued and running jobs have ", HumanBytes(state.holdings.bytes),
                     " of specs and file lists, and this one has ", HumanBytes(bytes),
                     "; the limit is ", HumanBytes(settings.live_bytes_max)),
        "try again later");
  }
  return absl::OkStatus();
}

absl::Status MayHold(const ClusterState& state, const v1::CheckpointPartReady& part) {
  const Settings& settings = state.settings;
  uint64_t bytes = 0;
  for (const v1::CheckpointFile& file : part.files()) bytes += BytesOf(file);
  const auto job = state.holdings.jobs.find(part.job());
  const uint64_t own = job == state.holdings.jobs.end() ? 0 : job->second.bytes;
  const bool job_is_full = own + bytes > settings.job_live_bytes_max;
  // Running jobs take what they need from a reserve that no submit may use.
  const uint64_t most = settings.live_bytes_max + settings.live_bytes_max / 4;
  if (!job_is_full && state.holdings.bytes + bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the file lists of ", job_is_full ? "the job's checkpoints" : "all jobs' checkpoints",
      " would take ", HumanBytes((job_is_full ? own : state.holdings.bytes) + bytes),
      "; the limit is ", HumanBytes(job_is_full ? settings.job_live_bytes_max : most),
      "; fix: keep fewer checkpoints, or save fewer files"));
}

}  // namespace muster::coordinator
