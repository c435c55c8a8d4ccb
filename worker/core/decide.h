// Every decision of the worker: inputs and actions as values, and the function between them.
//
// The shell turns events (commands, shim events, finished transfers, time) into inputs, carries out
// the returned actions in order, and feeds their results back as inputs. It makes no decisions.
// Every command may be repeated; the answer is then the attempt's status. Reports are full
// statuses; those that cannot be sent for lack of a link are dropped, because the next registration
// reports everything.
//
// Pure: see state.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/v1/worker_service.pb.h"
#include "worker/core/state.h"

namespace muster::worker {

// ---------------------------------------------------------------- inputs

// Time has passed. Due at NextDeadlineMonoMs.
struct TickInput {
  uint64_t spool_bytes = 0;
  uint64_t disk_bytes = 0;  // of the state directory's file system; 0: not known
  uint64_t disk_free_bytes = 0;
};
// The control stream is open (nothing has been sent on it yet), or ended.
struct LinkUpInput {};
struct LinkDownInput {};
struct CommandInput {
  v1::CoordinatorMessage message;
};
// What PrepareAttemptAction is preparing, whenever that changes; at most once a second per attempt.
struct PreparingInput {
  AttemptKey key;
  std::string doing;
};
// Answers PrepareAttemptAction.
struct AttemptPreparedInput {
  AttemptKey key;
  uint32_t port = 0;                 // of the rendezvous; 0: this node offers nothing
  std::string failure;               // empty: prepared, checked and offered
  bool would_fail_again = false;     // caused by the job: a missing command or directory
  v1::Preparation preparation = {};  // of an order with a spec; of a failed one: if its setup ran
  bool is_short = false;             // others use up what the node has: common/node_shortage.h
  std::string secret = {};           // with `port`: what other nodes show it
};
// Answers RecordLaunchAction.
struct LaunchRecordedInput {
  AttemptKey key;
  std::string failure;
  bool would_fail_again = false;  // its owner has no account here, or a secret of it is gone
  bool is_short = false;          // others use up what the node has: common/node_shortage.h
};
// Answers FetchAction. `damaged`: the coordinator's files do not match their hashes, or are gone.
struct FetchedInput {
  AttemptKey key;
  std::string failure;
  bool damaged = false;
};
// From the shim of one attempt.
struct RanksStartedInput {
  AttemptKey key;
  uint32_t count = 0;
  int64_t since_mono_ms = 0;  // when the last of them started, on the boot-time clock
};
struct RankExitedInput {
  AttemptKey key;
  v1::RankExit exit;
};
// Proof that nothing of the attempt is alive here. `failure` is set if it could not be launched or
// lost its shim.
struct AttemptEndedInput {
  AttemptKey key;
  std::string how;  // "empty", "new boot", "killed after its shim was lost"
  std::string failure;
  v1::StopCause failure_cause = v1::STOP_CAUSE_UNSPECIFIED;
};
// An attempt found in the state directory at startup; for ended ones an AttemptEndedInput follows.
struct RestoredInput {
  AttemptKey key;
  v1::LaunchAttempt launch;
  uint32_t ranks_started = 0;
};
// Answers ClearHostAction: nothing of any attempt that this worker does not hold is alive on the
// host.
struct HostClearedInput {};
// Processes of an attempt without a record were found on this host and killed.
struct LeftoverInput {
  AttemptKey key;
  std::string failure;
};
// A finished directory step-N appeared. `part`/`parts` come from its part file; parts 0: it has
// none.
struct CheckpointFoundInput {
  AttemptKey key;
  int64_t step = 0;
  uint32_t part = 0;
  uint32_t parts = 0;
};
// A step-N that must not be uploaded (symbolic link, two part files, …).
struct CheckpointRefusedInput {
  AttemptKey key;
  int64_t step = 0;
  std::string reason;
};
// Some bytes of an attempt's checkpoints were hashed or accepted.
struct UploadProgressInput {
  AttemptKey key;
};
struct UploadDoneInput {
  v1::CheckpointPartReady ready;
  std::string left_out = {};  // of outputs: what was not taken, and why; empty: nothing
};
struct UploadFailedInput {
  AttemptKey key;
  int64_t step = 0;
  uint32_t part = 0;
  std::string reason;
};
// Answers FinalScanAction; the checkpoints it found were sent before.
struct FinalScanDoneInput {
  AttemptKey key;
};
// A rank reports what it is doing; `number` is the request's, 0 for one made by this worker.
struct DiagnosisInput {
  AttemptKey key;
  uint32_t rank = 0;
  uint64_t number = 0;
  std::string record;
};
// A rank has loaded a framework; texts as in v1::Versions.
struct FrameworkSeenInput {
  AttemptKey key;
  std::string framework;
  std::string toolkit;
};
// Answers RunNotifyAction.
struct NotifyEndedInput {
  v1::NotifyEnded ended;
};
// The streams are closed, and every log byte and metric is durable at the coordinator or was
// refused by it.
struct OutputDrainedInput {
  AttemptKey key;
};

using Input =
    std::variant<TickInput, LinkUpInput, LinkDownInput, CommandInput, PreparingInput,
                 AttemptPreparedInput, LaunchRecordedInput, FetchedInput, RanksStartedInput,
                 RankExitedInput, AttemptEndedInput, RestoredInput, HostClearedInput, LeftoverInput,
                 CheckpointFoundInput, CheckpointRefusedInput, UploadProgressInput, UploadDoneInput,
                 UploadFailedInput, FinalScanDoneInput, DiagnosisInput, FrameworkSeenInput,
                 NotifyEndedInput, OutputDrainedInput>;

// ---------------------------------------------------------------- actions

struct SendAction {
  v1::WorkerMessage message;
};
// Close the control stream and redial.
struct ResetLinkAction {
  std::string reason;
};
// Bulk data may go to this endpoint (empty: the control endpoint).
struct RegisteredAction {
  std::string bulk_endpoint;
  std::string cluster_id;
  std::vector<std::string> heads = {};  // unchecked
  std::vector<std::string> https = {};  // the same
};
// Coordinators have come or gone; unchecked.
struct HeadsAction {
  std::vector<std::string> heads, https;
};
// Kill every process on this host that belongs to an attempt of this node that is not held, and
// settle attempts in the state directory without a living shim. `live`: attempts whose shim may
// start meanwhile; all others are recognized by their shims. A newer one replaces it.
struct ClearHostAction {
  std::vector<AttemptKey> live;
};
// Another worker may have the node's name by now: leave alone what has not been killed yet.
struct AbandonClearingAction {};
// Must be durable before anything that follows.
struct PersistEpochAction {
  uint64_t epoch = 0;
};
// Prepare the job's code, setup and image (for an order with a spec), check what the launch will need,
// and open what this node offers to the ranks' rendezvous.
struct PrepareAttemptAction {
  AttemptKey key;
  v1::PrepareAttempt order;
};
// Stop preparing: the attempt has ended.
struct CancelPreparationAction {
  AttemptKey key;
};
// What this node offered to the ranks' rendezvous is no longer needed.
struct ReleaseRendezvousAction {
  AttemptKey key;
};
// Create the attempt's directory and write launch.pb: a worker that dies after that never launches
// the attempt again.
struct RecordLaunchAction {
  AttemptKey key;
  v1::LaunchAttempt launch;
};
struct FetchAction {
  AttemptKey key;
};
struct CancelFetchAction {
  AttemptKey key;
};
// Start the shim, which starts the ranks. It stops them on its own at `fence_mono_ms` (0: never),
// so that the fence holds even if this worker is dead by then.
struct SpawnAction {
  AttemptKey key;
  int64_t fence_mono_ms = 0;
};
// The lease was renewed: move the shim's fence.
struct MoveFenceAction {
  AttemptKey key;
  int64_t fence_mono_ms = 0;
};
struct StopShimAction {
  AttemptKey key;
  uint32_t grace_ms = 0;
};
// Send SIGKILL to the ranks directly: their shim was ordered to stop them, but may not be running.
struct KillRanksAction {
  AttemptKey key;
};
struct SignalShimAction {
  AttemptKey key;
  int32_t signal = 0;
};
// Send a line to an attempt's trainers (docs/protocol.md).
struct NotifyStopAction {
  AttemptKey key;
  std::string reason;
  uint32_t grace_ms = 0;
};
// Make the ranks write down what they are doing, and answer with this number.
struct DiagnoseAction {
  AttemptKey key;
  uint64_t number = 0;
  std::string reason;
};
// Ask them for a checkpoint.
struct RequestSaveAction {
  AttemptKey key;
};
// Run a notify command of a job; this node need not hold an attempt of it.
struct RunNotifyAction {
  v1::RunNotify order;
};
struct NotifyCommittedAction {
  AttemptKey key;
  int64_t step = 0;
};
struct NotifyErrorAction {
  AttemptKey key;
  std::string message;
};
// Hash and upload one part of a checkpoint, or with common::kOutputsStep this node's outputs.
struct UploadAction {
  AttemptKey key;
  int64_t step = 0;
  uint32_t part = 0;
  uint32_t parts = 0;
  // Of outputs: what they are, where, and LaunchAttempt.outputs_quota_bytes.
  v1::JobSpec spec = {};
  uint64_t quota_bytes = 0;
};
struct DeleteStepAction {
  AttemptKey key;
  int64_t step = 0;
};
struct FinalScanAction {
  AttemptKey key;
};
// Stop tracking it and remove its directory.
struct DeleteAttemptAction {
  AttemptKey key;
};
// One line for the daemon's log.
struct NoteAction {
  std::string line;
};

using Action =
    std::variant<SendAction, ResetLinkAction, RegisteredAction, HeadsAction, ClearHostAction,
                 AbandonClearingAction, PersistEpochAction, PrepareAttemptAction,
                 CancelPreparationAction, ReleaseRendezvousAction, RecordLaunchAction, FetchAction,
                 CancelFetchAction, SpawnAction, MoveFenceAction, StopShimAction, KillRanksAction,
                 SignalShimAction, NotifyStopAction, RequestSaveAction, DiagnoseAction,
                 RunNotifyAction, NotifyCommittedAction, NotifyErrorAction, UploadAction,
                 DeleteStepAction, FinalScanAction, DeleteAttemptAction, NoteAction>;

using Actions = std::vector<Action>;

Actions Decide(WorkerState& state, const Input& input, Now now);

// When the next TickInput is due (monotonic), or nullopt if only inputs can change anything.
std::optional<int64_t> NextDeadlineMonoMs(const WorkerState& state);

}  // namespace muster::worker
