// The result of the job's `setup` on this node: from the cache, or made by running the command as the
// job's account. A thread that may block.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "muster/v1/job.pb.h"
#include "worker/confinement/rank_account.h"
#include "worker/preparation/image_step.h"
#include "worker/preparation/preparation_context.h"
#include "worker/preparation/tree_step.h"

namespace muster::worker {

struct CachedSetup {
  CodeCache::Pin pin;
  std::string path;  // of the entry
};

// `tree`: null if the job brought no code; setup then runs in an empty directory. `image`: null if the
// job names none. `record` gets what setup printed and how long it took, even if it fails.
// FAILED_PRECONDITION: it failed, and would fail again.
absl::StatusOr<CachedSetup> GetSetup(PreparationContext& context, const v1::JobSpec& spec,
                                     const CachedTree* tree, const ReadyImage* image,
                                     const RankAccount& account, const Progress& progress,
                                     v1::Preparation* record);

// Kills the processes that are left of an earlier worker's setups, if it had this state directory and was
// killed.
void KillOlderSetups(const Paths& paths);

}  // namespace muster::worker
