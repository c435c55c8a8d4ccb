// Every decision of the worker: inputs and actions as values, and the function between them.
//
// The shell turns what happens (commands, shim events, finished transfers, time) into inputs,
// carries out the returned actions in order, and feeds their results back as inputs. It decides
// nothing itself. Every command may be repeated: it is then answered by the attempt's status.
// Reports are whole statuses; those that cannot be sent because there is no link are dropped,
// because the next registration says everything.
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

// Time passed. Due when NextDeadlineMonoMs says so.
struct TickInput {
  uint64_t spool_bytes = 0;
};
// The control stream is open (nothing was sent on it yet), or ended.
struct LinkUpInput {};
struct LinkDownInput {};
struct CommandInput {
  v1::CoordinatorMessage message;
};
// Answers HoldPortsAction.
struct PortsHeldInput {
  AttemptKey key;
  uint32_t port = 0;              // 0: none was asked for
  std::string failure;            // empty: checked and held
  bool would_fail_again = false;  // the job is to blame: a missing command or directory
};
// Answers PrepareAction.
struct PreparedInput {
  AttemptKey key;
  std::string failure;
};
// Answers FetchAction. `damaged`: the coordinator's bytes do not match their hashes, or are gone.
struct FetchedInput {
  AttemptKey key;
  std::string failure;
  bool damaged = false;
};
// From the shim of one attempt.
struct RanksStartedInput {
  AttemptKey key;
  uint32_t count = 0;
  int64_t since_mono_ms = 0;  // when the last of them was started, on the boot-time clock
};
struct RankExitedInput {
  AttemptKey key;
  v1::RankExit exit;
};
// Proof that nothing of the attempt is alive here. `failure` is set when it could not be launched
// or lost its shim.
struct AttemptEndedInput {
  AttemptKey key;
  std::string how;  // "empty", "new boot", "killed after its shim was lost"
  std::string failure;
  v1::StopCause failure_cause = v1::STOP_CAUSE_UNSPECIFIED;
};
// An attempt found in the state directory when the worker starts; ended ones are followed by
// AttemptEndedInput.
struct RestoredInput {
  AttemptKey key;
  v1::LaunchAttempt launch;
  uint32_t ranks_started = 0;
};
// Answers ClearHostAction: nothing of any attempt that is not held here is alive on the host.
struct HostClearedInput {};
// Processes of an attempt whose record is gone were found on this host and killed.
struct LeftoverInput {
  AttemptKey key;
  std::string failure;
};
// A finished directory step-N appeared. `part`/`parts` from its part file; parts 0: it has none.
struct CheckpointFoundInput {
  AttemptKey key;
  int64_t step = 0;
  uint32_t part = 0;
  uint32_t parts = 0;
};
// A step-N that may not be taken (symbolic link, two part files, …).
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
};
struct UploadFailedInput {
  AttemptKey key;
  int64_t step = 0;
  uint32_t part = 0;
  std::string reason;
};
// Answers FinalScanAction; checkpoints that it found came before.
struct FinalScanDoneInput {
  AttemptKey key;
};
// A rank says what it is doing; `number` is the request's, 0 for one of this worker's own.
struct DiagnosisInput {
  AttemptKey key;
  uint32_t rank = 0;
  uint64_t number = 0;
  std::string record;
};
// The streams are closed and every log byte and metric is durable at the coordinator, or refused by
// it.
struct OutputDrainedInput {
  AttemptKey key;
};

using Input =
    std::variant<TickInput, LinkUpInput, LinkDownInput, CommandInput, PortsHeldInput, PreparedInput,
                 FetchedInput, RanksStartedInput, RankExitedInput, AttemptEndedInput, RestoredInput,
                 HostClearedInput, LeftoverInput, CheckpointFoundInput, CheckpointRefusedInput,
                 UploadProgressInput, UploadDoneInput, UploadFailedInput, FinalScanDoneInput,
                 DiagnosisInput, OutputDrainedInput>;

// ---------------------------------------------------------------- actions

struct SendAction {
  v1::WorkerMessage message;
};
// Cut the control stream and dial again.
struct ResetLinkAction {
  std::string reason;
};
// Bulk data may flow to this endpoint (empty: the control endpoint).
struct RegisteredAction {
  std::string bulk_endpoint;
  std::string cluster_id;
};
// End every process on this host that belongs to an attempt of this node and is not held, and
// settle what the state directory says of attempts without a living shim. `live`: attempts that may
// get their shim meanwhile; all others are known by their shims. A newer one replaces it.
struct ClearHostAction {
  std::vector<AttemptKey> live;
};
// Another worker may speak for the node by now: what has not been ended yet is left alone.
struct AbandonClearingAction {};
// Durable before anything that follows.
struct PersistEpochAction {
  uint64_t epoch = 0;
};
// Check what the launch will need and hold the ports.
struct HoldPortsAction {
  AttemptKey key;
  v1::HoldPorts order;
};
struct ReleasePortsAction {
  AttemptKey key;
};
// Make the attempt's directory and write launch.pb: a worker that dies after it never launches the
// attempt again.
struct PrepareAction {
  AttemptKey key;
  v1::LaunchAttempt launch;
};
struct FetchAction {
  AttemptKey key;
};
struct CancelFetchAction {
  AttemptKey key;
};
// Start the shim, which starts the ranks. It stops them itself at `fence_mono_ms` (0: never), so
// that the fence holds even when this worker is dead by then.
struct SpawnAction {
  AttemptKey key;
  int64_t fence_mono_ms = 0;
};
// The lease was renewed: the shim's fence moves.
struct MoveFenceAction {
  AttemptKey key;
  int64_t fence_mono_ms = 0;
};
struct StopShimAction {
  AttemptKey key;
  uint32_t grace_ms = 0;
};
struct SignalShimAction {
  AttemptKey key;
  int32_t signal = 0;
};
// A line to the trainers of an attempt (docs/protocol.md).
struct NotifyStopAction {
  AttemptKey key;
  std::string reason;
  uint32_t grace_ms = 0;
};
// The ranks write down what they are doing, and answer under this number.
struct DiagnoseAction {
  AttemptKey key;
  uint64_t number = 0;
  std::string reason;
};
struct NotifyCommittedAction {
  AttemptKey key;
  int64_t step = 0;
};
struct NotifyErrorAction {
  AttemptKey key;
  std::string message;
};
// Hash and upload one part.
struct UploadAction {
  AttemptKey key;
  int64_t step = 0;
  uint32_t part = 0;
  uint32_t parts = 0;
};
struct DeleteStepAction {
  AttemptKey key;
  int64_t step = 0;
};
struct FinalScanAction {
  AttemptKey key;
};
// Stop looking after it and remove its directory.
struct DeleteAttemptAction {
  AttemptKey key;
};
// One line for the daemon's log.
struct NoteAction {
  std::string line;
};

using Action =
    std::variant<SendAction, ResetLinkAction, RegisteredAction, ClearHostAction,
                 AbandonClearingAction, PersistEpochAction, HoldPortsAction, ReleasePortsAction,
                 PrepareAction, FetchAction, CancelFetchAction, SpawnAction, MoveFenceAction,
                 StopShimAction, SignalShimAction, NotifyStopAction, DiagnoseAction,
                 NotifyCommittedAction, NotifyErrorAction, UploadAction, DeleteStepAction,
                 FinalScanAction, DeleteAttemptAction, NoteAction>;

using Actions = std::vector<Action>;

Actions Decide(WorkerState& state, const Input& input, Now now);

// When the next TickInput is due (monotonic), or nullopt when only inputs can change anything.
std::optional<int64_t> NextDeadlineMonoMs(const WorkerState& state);

}  // namespace muster::worker
