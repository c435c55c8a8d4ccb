// The worker's whole state, and the life of one attempt on one node.
//
//   PrepareAttempt    Launch              recorded,            all ranks          end
//                                        fresh start          started            proven
//   ──────▶ PREPARING ──────▶ RECORDING ────────────▶ SPAWNING ────────▶ RUNNING ──────▶ ENDED
//                 │             ▲    │                    ▲
//          Launch │             │    └─────▶ FETCHING ────┘
//                 ▼             │    recorded,      checkpoint
//              WAITING ─────────┘    resumes        fetched
//                  older attempt ended
//
// A Launch for an attempt that this worker did not prepare, or no longer knows to have prepared,
// enters at RECORDING. Launch leads to WAITING, from either place, while an older attempt of the
// same job is still alive on this node. An attempt whose shim a restarted worker adopts enters at
// SPAWNING or RUNNING.
//
// Any stage may go straight to ENDED, which is final and means that nothing of the attempt is alive
// on this node. A stop ends an attempt without a shim immediately; otherwise the shim, or a kill of
// everything it owned, has to prove the end. The transitions are in stages.cc.
//
// Pure: no I/O, clock, thread, random number or log. Owned by the control loop's thread, changed
// only by Decide.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "muster/v1/event.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

using common::Now;

// The fence: identifies everything that belongs to one gang.
struct AttemptKey {
  uint64_t job = 0;
  uint32_t attempt = 0;
  auto operator<=>(const AttemptKey&) const = default;
};

// "42-0", as in directory and socket names.
std::string KeyText(const AttemptKey& key);

enum class Stage : uint8_t {
  kNew,  // only inside one Decide
  kPreparing,
  kWaiting,
  kRecording,
  kFetching,
  kSpawning,
  kRunning,
  kEnded,
};

// One checkpoint part found on this node.
enum class PartState : uint8_t {
  kUploading,     // found; being hashed and sent
  kReady,         // durable at the coordinator; resent at each registration until acknowledged
  kAcknowledged,  // the coordinator knows the part
  kCommitted,     // the whole checkpoint is committed
  kFailed,        // refused here or by the coordinator, or could not be uploaded
};

struct CheckpointPart {
  PartState state = PartState::kUploading;
  v1::CheckpointPartReady ready;
};

struct Attempt {
  Stage stage = Stage::kNew;
  v1::LaunchAttempt launch;  // empty until launched
  bool prepares = false;     // PrepareAttempt brought a spec: code, setup or a container
  bool spawned = false;      // a shim was started: output and checkpoints need handling
  bool spawn_waits = false;  // nothing is missing but fresh contact with the coordinator
  v1::AttemptStatus status;  // as reported to the coordinator; phase follows stage
  bool stop_wanted = false;
  uint32_t stop_grace_ms = 0;
  v1::StopCause stop_cause = v1::STOP_CAUSE_UNSPECIFIED;
  std::string stop_reason;
  int64_t running_since_mono_ms = 0;  // when all ranks here were running; 0: not yet
  uint32_t failed_ranks = 0;
  bool fenced_itself = false;  // stopped because contact was lost for too long
  int64_t kill_mono_ms = 0;    // then what is left of it is killed; 0: never, or already done
  bool forget_wanted = false;
  bool output_drained = false;   // every log byte and metric is durable at the coordinator
  bool final_scan_done = false;  // the checkpoint directory was scanned once more after the end
  int64_t upload_progress_mono_ms = 0;
  std::map<std::pair<int64_t, uint32_t>, CheckpointPart> parts;  // by (step, part)
};

enum class LinkStage : uint8_t { kDown, kRegistering, kUp };

// The control stream, and when the coordinator was last heard from.
struct Contact {
  LinkStage link = LinkStage::kDown;
  int64_t link_since_mono_ms = 0;
  int64_t last_heard_mono_ms = 0;  // any message on any link: a silent link is dead
  // When the newest answered heartbeat or registration was sent: the self-fence counts from here.
  // The coordinator received it later than that, so a late answer never makes this node outlive the
  // coordinator's patience.
  int64_t lease_mono_ms = 0;
  std::map<uint64_t, int64_t> heartbeats_sent_mono_ms;  // by number, unanswered ones of this link
  int64_t next_heartbeat_mono_ms = 0;
  uint64_t heartbeat_number = 0;
  uint32_t heartbeat_ms = 5'000;
  bool has_other_heads = false;  // coordinators that may lead in place of the one that does
  std::optional<int64_t>
      wall_offset_ms;  // of the wall clock from the monotonic one, at the last tick
  int64_t asked_mono_ms =
      0;  // a jump of the clocks: since then, this contact is in doubt; 0: it is not
  int64_t resumed_mono_ms = 0;            // when this worker last noticed that it had stood still
  std::optional<int64_t> clock_ahead_ms;  // of the coordinator's, from the newest prompt answer
};

struct WorkerState {
  v1::NodeFacts facts;  // set once at startup
  // Nothing of any attempt that is not held here is alive on this host. Established after the
  // coordinator has accepted this worker, never before, and again if the coordinator reports that
  // another worker stood in.
  bool cleared = false;
  bool clearing = false;
  std::vector<v1::CoordinatorMessage> deferred;  // about attempts not held; handled once cleared
  std::map<AttemptKey, Attempt> attempts;
  std::map<uint64_t, uint32_t>
      forgotten;  // job → highest attempt deleted here, never to be launched again
  Contact contact;
  uint64_t highest_epoch = 0;
  uint64_t stale_commands = 0;  // refused because of a lower epoch
  // For heartbeats.
  uint64_t spool_bytes = 0;
  uint64_t disk_bytes = 0;
  uint64_t disk_free_bytes = 0;
};

inline constexpr int64_t kUploadStallMs =
    60'000;  // a finished attempt waits this long without upload progress
inline constexpr int64_t kRegisterTimeoutMs = 10'000;  // Register unanswered: the link is dead
inline constexpr int64_t kClockRoundTripMsMax =
    1'000;  // an answer that took longer says too little about the clock
inline constexpr int64_t kClockJumpMs = 1'000;   // less is slewing, or a leap second
inline constexpr int64_t kStandstillMs = 2'000;  // a tick this late: the node stood still
inline constexpr int kHeartbeatsMissed = 3;  // silent for this many heartbeats: the link is dead
inline constexpr int64_t kLinkSilenceMinMs = 2'000;  // … but never sooner than this
// After this many missed heartbeats another worker may have taken the node's name and run its attempts
// (the coordinator's JudgeRegistration): orders from before must not start anything now.
inline constexpr int kHeartbeatsFresh = 2;
// limit: nodes: commands that wait for a host to be cleared; the coordinator resends them
inline constexpr size_t kDeferredMax = 4'096;  // the coordinator resends what is left out
inline constexpr size_t kForgottenMax =
    4'096;  // tombstones; the lowest job numbers are dropped first
inline constexpr size_t kCommittedStepsKept =
    2;  // committed step directories that stay on the node

bool IsLive(const Attempt& attempt);   // launched or holding, not ended
bool HasShim(const Attempt& attempt);  // a shim may exist: ends only by proof
bool UploadsPending(const Attempt& attempt);
bool IsFailure(const v1::RankExit& exit);
// A checkpoint has to be fetched before its ranks can start.
bool Resumes(const v1::LaunchAttempt& launch);
// The status as sent: with phase and checkpoints_pending filled in.
v1::AttemptStatus StatusOf(const Attempt& attempt);
// A port that is still being searched for is not a fact yet.
bool IsToldOf(const Attempt& attempt);
// Everything this worker holds.
v1::Register RegisterMessage(const WorkerState& state, Now now);

}  // namespace muster::worker
