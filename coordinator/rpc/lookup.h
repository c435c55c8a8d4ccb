// Resolves what a person typed to a job: a number, a name, a unique prefix of a name, "@last".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/input.h"
#include "coordinator/rpc/daemon.h"
#include "coordinator/rpc/sink.h"

namespace muster::coordinator {

struct FoundJob {
  std::shared_ptr<const v1::JobRecord> record;
  bool live = false;
};

// Whether a live job's record includes its checkpoints' files, which may be many; a finished job's
// always does.
enum class Want { kRecord, kRecordWithFiles };

// NOT_FOUND, or INVALID_ARGUMENT if a prefix matches several. Answers on the control loop's thread
// or a pool thread.
void FindJob(Daemon& daemon, const Caller& caller, const std::string& reference,
             Answer<FoundJob> answer, Want want = Want::kRecord);
// Results in the order of the references.
void FindJobs(Daemon& daemon, const Caller& caller, const std::vector<std::string>& references,
              std::function<void(std::vector<absl::StatusOr<FoundJob>>)> answer);

// For a bulk response: the result for one subject.
v1::BulkResult BulkResultOf(const std::string& subject, const absl::Status& status,
                            const v1::JobRecord* job = nullptr);

}  // namespace muster::coordinator
