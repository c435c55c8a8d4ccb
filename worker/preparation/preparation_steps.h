// What a node does before it can start the ranks of a job that brings code, a setup or an image: a short
// list of steps. A thread that may block.
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
  v1::Preparation preparation;    // if it failed, only when its setup ran
  RankAccount account;
  common::RankLaunch command;                 // of a rank, as far as the launch check needs it
  bool in_image = false;                      // it runs in an image, and was checked there
  std::optional<LaunchProblem> problem = {};  // … with this result
};

PreparedNode PrepareNode(PreparationContext& context, const v1::PrepareAttempt& order,
                         const Progress& progress);

}  // namespace muster::worker
