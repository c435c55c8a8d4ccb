// What the decide_*.cc files share: one decision in progress, and the consequences that several
// inputs share. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "worker/core/decide.h"

namespace muster::worker {

// One call of Decide.
struct Step {
  WorkerState& state;
  Now now;
  Actions actions;

  template <typename A>
  void Do(A action) {
    actions.emplace_back(std::move(action));
  }
  Attempt* Find(const AttemptKey& key);
  // The existing one, or a new one with the ids in its status filled in.
  Attempt& FindOrAdd(const AttemptKey& key);
};

// Sends the attempt's full status, if there is a link.
void Report(Step& step, const Attempt& attempt);
void Send(Step& step, v1::WorkerMessage message);
AttemptKey KeyOf(const Attempt& attempt);

// Ends an attempt that has no shim, or whose end the shim proved.
struct End {
  std::string how;
  std::string failure;
  v1::StopCause cause = v1::STOP_CAUSE_UNSPECIFIED;
};
void EndAttempt(Step& step, Attempt& attempt, const End& end);
// Deletes the attempt once the coordinator has asked for it and nothing of it is needed anymore.
void MaybeForget(Step& step, const AttemptKey& key);

struct Stop {
  uint32_t grace_ms = 0;
  v1::StopCause cause = v1::STOP_CAUSE_UNSPECIFIED;
  std::string reason;
};
// Ends it immediately if no shim can exist, otherwise asks the shim. A repeated stop can only
// shorten the grace.
void StopAttemptHere(Step& step, Attempt& attempt, const Stop& stop);

// Launches, once no older attempt of the job is alive here.
void PrepareOrWait(Step& step, Attempt& attempt);
void SpawnNow(Step& step, Attempt& attempt);

// decide_clearing.cc. Before its host is cleared, a worker cannot tell whether an attempt that it
// does not hold is alive here: such commands are deferred.
bool Defer(Step& step, const v1::CoordinatorMessage& message);
void BeginClearing(Step& step, bool again);
void AbandonClearing(Step& step);

// decide_command.cc, decide_shim.cc, decide_checkpoint.cc, decide_contact.cc
void OnCommand(Step& step, const v1::CoordinatorMessage& message);
// One that was accepted: the coordinator is not older than the newest known.
void Obey(Step& step, const v1::CoordinatorMessage& message);
void OnPreparing(Step& step, const PreparingInput& input);
void OnAttemptPrepared(Step& step, const AttemptPreparedInput& input);
void OnLaunchRecorded(Step& step, const LaunchRecordedInput& input);
void OnFetched(Step& step, const FetchedInput& input);
void OnRanksStarted(Step& step, const RanksStartedInput& input);
void OnRankExited(Step& step, const RankExitedInput& input);
void OnAttemptEnded(Step& step, const AttemptEndedInput& input);
void OnRestored(Step& step, const RestoredInput& input);
void OnHostCleared(Step& step);
void OnLeftover(Step& step, const LeftoverInput& input);
void OnOutputDrained(Step& step, const OutputDrainedInput& input);
void OnCheckpointFound(Step& step, const CheckpointFoundInput& input);
void OnCheckpointRefused(Step& step, const CheckpointRefusedInput& input);
void OnUploadProgress(Step& step, const UploadProgressInput& input);
void OnUploadDone(Step& step, const UploadDoneInput& input);
void OnUploadFailed(Step& step, const UploadFailedInput& input);
void OnDiagnosis(Step& step, const DiagnosisInput& input);
void OnFrameworkSeen(Step& step, const FrameworkSeenInput& input);
void OnNotifyEnded(Step& step, const NotifyEndedInput& input);
void OnFinalScanDone(Step& step, const FinalScanDoneInput& input);
void OnCheckpointAck(Step& step, const v1::CheckpointAck& ack);
void OnTick(Step& step, const TickInput& input);
void OnLinkUp(Step& step);
void OnLinkDown(Step& step);
// When this node stops the attempt on its own unless the lease is renewed, or nullopt: never.
std::optional<int64_t> FenceDeadlineMs(const WorkerState& state, const Attempt& attempt);
// Stops the attempt if that time has come. False: not yet.
bool FenceIfDue(Step& step, Attempt& attempt);
// True if no other worker can have taken this node's name since the newest answered request.
bool IsContactFresh(const WorkerState& state, Now now);
// Until the next heartbeat's answer, which starts it.
void WaitForContact(Step& step, Attempt& attempt);
void OnHeartbeatReply(Step& step, const v1::HeartbeatReply& reply);
void OnRegistered(Step& step, const v1::Registered& registered);

}  // namespace muster::worker
