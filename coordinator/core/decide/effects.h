// The effects of a turn: commands to nodes, and replies to inputs. Values; the control loop sends them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// A message for one node's control stream. Dropped if that node has no stream: registration resends
// what matters.
struct Command {
  std::string node;
  v1::CoordinatorMessage message;  // epoch is filled in by the outbox
};

// The reply to one input. Which fields are set depends on the input's type.
struct Reply {
  absl::Status status;
  v1::SubmitResponse submit;            // SubmitInput
  std::vector<v1::BulkResult> results;  // bulk inputs
  std::vector<std::string>
      blobs_unused;  // SHA-256 of blobs that nothing refers to anymore (checkpoint removal)
};

}  // namespace muster::coordinator
