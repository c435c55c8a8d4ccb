// Finds the job that a person named: by a number, a name, a unique prefix of a name, or "@last".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/contexts/sink.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {

// A copy of the job's record for the caller, which may modify it.
struct FoundJob {
  std::shared_ptr<v1::JobRecord> record;
  bool live = false;
};

// How much of a live job's record is copied: what a change needs (FindJobs), all, or also its checkpoints' files,
// which may be many. A finished job's record always has them.
enum class Want { kIdentity, kRecord, kRecordWithFiles };

// NOT_FOUND, or INVALID_ARGUMENT if a prefix matches several. Answers on the control loop's thread
// or a pool thread.
void FindJob(Jobs& jobs, Process& process, const Caller& caller, const std::string& reference,
             Answer<FoundJob> answer, Want want = Want::kRecord);
// Results in the order of the references. Each has only what a change needs: the job's id, name, owner, idempotency
// key and state. A record may have megabytes, and a request may name thousands of jobs.
void FindJobs(Jobs& jobs, Process& process, const Caller& caller,
              const std::vector<std::string>& references,
              std::function<void(std::vector<absl::StatusOr<FoundJob>>)> answer);

// For a bulk response: the result for one subject.
v1::BulkResult BulkResultOf(const std::string& subject, const absl::Status& status,
                            const v1::JobRecord* job = nullptr);

}  // namespace muster::coordinator
