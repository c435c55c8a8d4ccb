// From a command line to a JobSpec: job file, launcher command line, flags, environment and working
// directory, completed and checked (common/job) before anything is sent; the coordinator checks
// again, by the same rules.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/code/code_choice.h"
#include "client/launchers/launchers.h"
#include "muster/v1/job.pb.h"

namespace muster::client {

class Arguments;
class Session;

struct Submission {
  v1::JobSpec spec;  // complete but for `code`
  CodeChoice code;   // what SendCode (code_sync.h) has to send
};

// Builds the job that `run` and `submit` ask for. Notices (about overridden launcher settings) go to stderr.
// May ask the coordinator how many devices a node has (`--nproc-per-node gpu`), and its version.
absl::StatusOr<Submission> BuildSubmission(Session& session, const Arguments& arguments);
// The same for commands that start nothing: no code has to be sent.
absl::StatusOr<v1::JobSpec> BuildSpec(Session& session, const Arguments& arguments);

// Call before a spec is sent. Errors: JC1413, JC1715: the coordinator would ignore a part of it. If a private
// coordinator may just have started, waits for its node: without a registered worker the coordinator refuses
// nothing, and a job that its one node can never hold would wait forever.
absl::Status AwaitNodesFor(Session& session, const v1::JobSpec& spec);
// Waits for any spec until the node of a private coordinator accepts jobs, because a plan names
// nodes.
absl::Status AwaitNodes(Session& session);

}  // namespace muster::client
