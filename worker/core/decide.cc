// Decide: dispatches one input to its function. Pure.
#include "worker/core/decide.h"

#include "common/base/overloaded.h"
#include "common/base/status.h"
#include "worker/core/invariants.h"
#include "worker/core/steps.h"

namespace muster::worker {

Actions Decide(WorkerState& state, const Input& input, Now now) {
  Step step{state, now, {}};
  std::visit(common::Overloaded{
                 [&](const TickInput& in) { OnTick(step, in); },
                 [&](const LinkUpInput&) { OnLinkUp(step); },
                 [&](const LinkDownInput&) { OnLinkDown(step); },
                 [&](const CommandInput& in) { OnCommand(step, in.message); },
                 [&](const PreparingInput& in) { OnPreparing(step, in); },
                 [&](const AttemptPreparedInput& in) { OnAttemptPrepared(step, in); },
                 [&](const LaunchRecordedInput& in) { OnLaunchRecorded(step, in); },
                 [&](const FetchedInput& in) { OnFetched(step, in); },
                 [&](const RanksStartedInput& in) { OnRanksStarted(step, in); },
                 [&](const RankExitedInput& in) { OnRankExited(step, in); },
                 [&](const AttemptEndedInput& in) { OnAttemptEnded(step, in); },
                 [&](const RestoredInput& in) { OnRestored(step, in); },
                 [&](const HostClearedInput&) { OnHostCleared(step); },
                 [&](const LeftoverInput& in) { OnLeftover(step, in); },
                 [&](const CheckpointFoundInput& in) { OnCheckpointFound(step, in); },
                 [&](const CheckpointRefusedInput& in) { OnCheckpointRefused(step, in); },
                 [&](const UploadProgressInput& in) { OnUploadProgress(step, in); },
                 [&](const UploadDoneInput& in) { OnUploadDone(step, in); },
                 [&](const UploadFailedInput& in) { OnUploadFailed(step, in); },
                 [&](const FinalScanDoneInput& in) { OnFinalScanDone(step, in); },
                 [&](const DiagnosisInput& in) { OnDiagnosis(step, in); },
                 [&](const FrameworkSeenInput& in) { OnFrameworkSeen(step, in); },
                 [&](const NotifyEndedInput& in) { OnNotifyEnded(step, in); },
                 [&](const OutputDrainedInput& in) { OnOutputDrained(step, in); },
             },
             input);
#ifndef NDEBUG
  // Whatever a coordinator, a shim or a job says, the decision keeps it so.
  CHECK(BrokenInvariant(state).empty());
#endif
  return std::move(step.actions);
}

}  // namespace muster::worker
