// What a node does before the ranks of a job that brings something along can start, as a short list of
// steps. A thread that may block.
#pragma once

#include <optional>
#include <string>

#include "common/kernel/shim_protocol.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/confinement/rank_account.h"
#include "worker/launch/launch_environment.h"
#include "worker/preparation/preparation_context.h"
#include "worker/preparation/progress.h"

namespace muster::worker {

struct PreparedNode {
  std::string failure;            // empty: it is prepared. A sentence: node, value, reason, fix
  bool would_fail_again = false;  // the job's fault
  bool stopped = false;           // no attempt waits for it any more
  v1::Preparation preparation;    // of one that failed: only if its setup ran
  RankAccount account;
  common::RankLaunch command;                 // of a rank, as far as the launch check looks at it
  bool in_image = false;                      // it runs in one, and was checked there
  std::optional<LaunchProblem> problem = {};  // … with this result
};

PreparedNode PrepareNode(PreparationContext& context, const v1::PrepareAttempt& order,
                         const Progress& progress);

}  // namespace muster::worker
