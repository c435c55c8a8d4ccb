// The coordinator's whole state, and the settings its decisions depend on.
//
// Pure: no I/O, clock, thread, random number or log. Changed only by Apply (apply.h), read by all
// decisions. Owned by the control loop's thread. Finished jobs leave it (Turn::finished); their
// idempotency keys stay.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/copy_on_write.h"
#include "common/base/limits.h"
#include "common/job/rules.h"
#include "coordinator/core/state/asides.h"
#include "coordinator/core/state/due.h"
#include "coordinator/core/state/earlier_runs.h"
#include "coordinator/core/state/job_keys.h"
#include "coordinator/core/state/job_records.h"
#include "coordinator/core/state/live_parts.h"
#include "coordinator/core/state/order.h"
#include "coordinator/core/state/project_shares.h"
#include "coordinator/core/state/usage_book.h"
#include "muster/v1/event.pb.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

using common::Now;

// Durations and budgets that decisions depend on. Fixed when the daemon starts.
struct Settings {
  int64_t heartbeat_ms = 5'000;
  int64_t suspect_after_ms = 30'000;
  // Added to stop_after + grace before a silent node's part counts as ended.
  int64_t fence_margin_ms = 5'000;
  // Devices assigned, but a worker has not launched its part (a fetch counts); from the newest
  // progress of a node that prepares it.
  int64_t start_timeout_ms = 600'000;
  // A job runs so long before it may be asked to give way (scheduling/reclaim.h), and has so long to save then.
  int64_t min_run_ms = 30 * 60'000;
  uint32_t notice_ms = 120'000;
  int64_t reclaim_after_ms = 30'000;  // a job waits so long before others are asked
  int64_t quick_failure_ms = 10'000;  // an attempt that failed this soon after its start …
  int64_t backoff_first_ms = 1'000;   // … is followed by a pause that doubles
  int64_t backoff_max_ms = 60'000;
  // Identical quick failures in a row that end the job regardless of its budget.
  int same_quick_failures_max = 2;
  uint32_t supervisor_restarts = 3;       // for a job whose supervisor was lost, each after a pause
  uint32_t node_losses_in_a_row_max = 3;  // attempts in a row that lost a node: the job is held
  uint32_t default_grace_ms = job::kDefaultGraceMs;
  uint32_t default_keep = job::kDefaultCheckpointsKept;
  uint32_t default_node_loss_restarts = job::kDefaultNodeLossRestarts;
  uint32_t default_stop_after_ms = job::kDefaultStopAfterMs;
  bool backfill =
      true;  // false: jobs behind the first that waits wait, too, for comparisons (tests/sim/schedule_replay.cc)
  uint64_t live_jobs_max = common::kLiveJobsMax;
  // Limits for live jobs (holdings.h): of all jobs, which are in memory twice while a snapshot is taken; of one owner;
  // of one job including its checkpoints' file lists, which is one value in the database; of one record without these
  // lists.
  // limit: jobs: specs and file lists of all live jobs; refused (JC1209)
  uint64_t live_bytes_max = 640ull << 20;
  // limit: jobs: the same of one owner; refused (JC1209)
  uint64_t owner_live_bytes_max = 384ull << 20;
  // limit: jobs: the same of one job; its checkpoint's part is refused
  uint64_t job_live_bytes_max = 128ull << 20;
  // limit: jobs: one record; older attempts lose their ranks' exits
  uint64_t record_bytes_max = 8ull << 20;
  // Of all nodes; what the live jobs leave in a snapshot.
  // limit: nodes: what all nodes report of themselves; a new or larger node is refused (JC1408)
  uint64_t node_facts_bytes_max = 48ull << 20;
  uint64_t job_outputs_bytes_max = 0;  // of all outputs of a job; 0: no limit
  uint64_t spool_quota_bytes = common::kSpoolQuotaBytes;
  std::string cluster_id;  // of the data directory; sent to workers
  std::string head;        // the name of this coordinator among several; empty: it is alone
};

// The coordinators besides this one that have files of the checkpoint: "h1, h2"; empty: none.
std::string OtherHeads(const v1::Checkpoint& checkpoint, const std::string& head);

// Device indexes by kind. A processor that ranks share is in it once for each of them.
using DevicesByKind = std::map<std::string, std::vector<uint32_t>>;
void Take(DevicesByKind& used, const v1::NodePart& part);
void GiveBack(DevicesByKind& used, const v1::NodePart& part);
DevicesByKind DevicesOf(const v1::NodeFacts& facts);

// One registered node: the journaled record, plus what is known only while the daemon runs.
struct Node {
  v1::NodeRecord record;
  uint64_t session = 0;  // of the control stream; 0: none
  // Proven in this session: no process of an older attempt is alive there except those that the
  // worker holds.
  bool cleared = false;
  // The worker process that cleared it last and has been its only one since; 0: none known.
  uint64_t cleared_by = 0;
  int64_t last_contact_mono_ms = 0;
  v1::NodeHealth health;  // newest, while connected
  DevicesByKind devices;  // of its facts, ascending
  DevicesByKind used;     // by live attempts; no list is empty
};

// Identifies a checkpoint of a job.
struct CheckpointId {
  uint64_t job = 0;
  uint32_t attempt = 0;
  int64_t step = 0;
  auto operator<=>(const CheckpointId&) const = default;
};
using CheckpointFileList = google::protobuf::RepeatedPtrField<v1::CheckpointFile>;
using CheckpointList = google::protobuf::RepeatedPtrField<v1::Checkpoint>;

// When an attempt will be done, from the steps that its trainer reports (JobProgress). Lost with the coordinator, until
// the next report.
struct TrainerProgress {
  uint32_t attempt = 0;
  int64_t ends_mono_ms = 0;  // 0: not known
};

// Volatile companions of a live job, rebuilt by Apply on replay from Event.lived_ms: coordinator
// downtime does not count, except for running time, which the nodes report (PartAge).
struct JobTimers {
  int64_t state_since_mono_ms = 0;    // the job's current state
  int64_t attempt_since_mono_ms = 0;  // the newest attempt's assignment
  int64_t prepared_mono_ms = 0;  // the newest progress of a node that prepares it (PartPreparing)
  int64_t running_since_mono_ms = 0;  // the newest attempt's RUNNING, if Attempt.running_ms is set
  // Notice.given_ms of the newest attempt. After a restart it has all its time to save once more.
  int64_t noticed_mono_ms = 0;
  int64_t asked_mono_ms = 0;         // the same of Asked.given_ms
  int64_t saved_before_notice = -1;  // the step that the attempt had committed by then; -1: none
  TrainerProgress progress;
};

// What live jobs take, in bytes: holdings.h.
struct HeldByJob {
  uint64_t bytes = 0;         // with its checkpoints' file lists
  uint64_t record_bytes = 0;  // the part of it that is the record
};
struct HeldByOwner {
  uint64_t bytes = 0;
  std::set<uint64_t> jobs;
};
struct Holdings {
  uint64_t bytes = 0;
  std::unordered_map<uint64_t, HeldByJob> jobs;
  std::map<std::string, HeldByOwner> owners;
};

// What the scheduler decides from. Its policies see nothing else, and a plan copies all of it (plan.h), so a plan has
// everything that a policy reads.
struct SchedulingState {
  Settings settings;
  uint64_t next_job_id = 1;
  JobRecords jobs;  // live jobs, and those that finished in this turn
  std::map<uint64_t, JobTimers> timers;
  std::map<std::string, Node> nodes;
  int64_t silent_nodes = 0;              // SUSPECT ones
  int64_t lost_nodes = 0;                // LOST ones
  std::map<std::string, int64_t> kinds;  // of devices: how many nodes have one; none is 0
  std::set<QueuePlace> queue;            // QUEUED jobs in queue order; held ones are not in it
  // The same, by project and kind of device as the job names it; no line is empty.
  std::map<std::pair<std::string, std::string>, std::set<QueuePlace>> lines;
  uint64_t left_out = 0;      // in a copy for plans: queued jobs that are not in it
  std::set<uint64_t> told;    // queued jobs whose reason a pass has found (IsFoundByPass)
  Asides asides;              // about the queue, not journaled
  std::set<uint64_t> active;  // live jobs that are not QUEUED
  ProjectShares projects;
  common::CopyOnWrite<UsageBook> usage;
  EarlierRuns earlier_runs;     // not journaled
  bool schedule_needed = true;  // something that placement depends on has changed
  int64_t all_looked_at_mono_ms =
      0;  // the last pass that did not stop at the front of the queue (pass.h)
  // When the next pass is due although nothing has changed: expected ends move as time passes. 0: never.
  int64_t look_again_mono_ms = 0;
};

struct ClusterState : SchedulingState {
  uint64_t next_seq = 1;                                        // of the next journaled event
  std::map<CheckpointId, CheckpointFileList> checkpoint_files;  // of live jobs: checkpoint_files.h
  Holdings holdings;
  uint64_t node_facts_bytes = 0;  // of all nodes
  JobKeys keys;
  std::vector<uint64_t> finished;  // final since TakeFinished
  std::set<uint64_t> unsettled;    // jobs with more consequences than one turn takes: turn.cc
  LiveParts live_parts;
  // When time alone may have consequences for them (timers.h).
  Due<uint64_t> due_jobs;
  Due<std::string> due_nodes;
  v1::DiskSpace disk;  // of the data directory, when it last became almost full or had space again
};

// Whether the attempt's notice still counts: a person has asked it to leave, or the job that it was given for waits and claims.
bool IsAskedByPerson(const v1::Attempt& attempt);
bool ClaimStands(const SchedulingState& state, const v1::Attempt& attempt);
bool NoticeStands(const SchedulingState& state, const v1::Attempt& attempt);
// The queue and that of the job's project.
void Enqueue(SchedulingState& state, const v1::JobRecord& job);
void Dequeue(SchedulingState& state, const v1::JobRecord& job);
// Node.used: a part, or those of an attempt that have not ended, takes its devices or gives them back.
void Occupy(SchedulingState& state, const v1::NodePart& part, bool takes);
void Occupy(SchedulingState& state, const v1::Attempt& attempt, bool takes);
// Drops the exits of an attempt's ranks, but keeps the culprit.
void LeaveOutExits(v1::Attempt& attempt);
inline constexpr int32_t kSignalsMax = 64;  // Linux's, with the real-time ones
inline bool IsSignal(int32_t signal) { return signal >= 1 && signal <= kSignalsMax; }
bool IsFinal(v1::JobState state);
bool IsFailure(const v1::RankExit& exit);
// How long the newest attempt has run; 0: it is not running.
int64_t RunningMs(const SchedulingState& state, const v1::JobRecord& job, Now now);
// More than half of at least three nodes fell silent for no known reason: more likely our own
// network, so nothing is replaced until a person intervenes or nodes report again.
bool MostNodesSilent(const SchedulingState& state);
// The newest attempt if it has not ended, otherwise null.
const v1::Attempt* LiveAttempt(const v1::JobRecord& job);
const v1::NodePart* FindPart(const v1::Attempt& attempt, const std::string& node);
bool AllPartsLaunched(const v1::Attempt& attempt);
// Of the job's live attempt, which it must have.
const PartCounts& CountsOf(const ClusterState& state, const v1::JobRecord& job);
// Every worker has checked what the launch needs, and the port is held.
inline bool AreReady(const PartCounts& counts) { return counts.ready == counts.parts; }
inline bool AreLaunched(const PartCounts& counts) { return counts.launched == counts.parts; }
inline bool AreOver(const PartCounts& counts) { return counts.ended == counts.parts; }
// Of the job's live attempt. Null: it has none there.
const v1::NodePart* FindLivePart(const ClusterState& state, const v1::JobRecord& job,
                                 const std::string& node);
// The job's outputs if `step` is common::kOutputsStep, otherwise its checkpoints. They are separate lists, so
// that no job resumes from outputs and no policy for checkpoints removes them.
const CheckpointList& ListFor(const v1::JobRecord& job, int64_t step);
CheckpointList& ListFor(v1::JobRecord& job, int64_t step);
// "checkpoint 10", or "its outputs".
std::string NameOfSaved(int64_t step);
// Newest committed checkpoint that is not flagged: by attempt, then step. Null if none, or none of an attempt since the
// job was released to start from the beginning.
const v1::Checkpoint* LatestCheckpoint(const v1::JobRecord& job);
// The latest checkpoint if nodes could not fetch it from this coordinator, `head`, and others have it.
const v1::Checkpoint* AbsentCheckpoint(const v1::JobRecord& job, const std::string& head);
// The checkpoint that the attempt resumed from. Null: it started fresh.
const v1::Checkpoint* ResumedCheckpoint(const v1::JobRecord& job, const v1::Attempt& attempt);
const Node* FindNode(const SchedulingState& state, const std::string& name);
// Calls use(job, attempt, part) for every part of a live attempt that may still have ranks on the
// node.
template <typename Use>
void ForEachLivePart(const ClusterState& state, const std::string& node, Use use) {
  for (const auto& [id, place] : state.live_parts.On(node)) {
    const v1::JobRecord& job = state.jobs.at(id);
    const v1::Attempt& attempt = *job.attempts().rbegin();
    if (!attempt.parts(place).ended()) use(job, attempt, attempt.parts(place));
  }
}
// The job's own values, otherwise the defaults. Kept in one place, because the fence is only safe
// if the coordinator waits for what the node was told.
uint32_t GraceMsOf(const SchedulingState& state, const v1::JobSpec& spec);
uint32_t StopAfterMsOf(const SchedulingState& state, const v1::JobSpec& spec);
// The minimum number of ranks in the job's shape.
uint32_t WantedRanks(const v1::Shape& shape);
// "RUNNING", "QUEUED"…
std::string StateName(v1::JobState state);
std::string NodeStateName(v1::NodeState state);
std::string CauseName(v1::StopCause cause);

}  // namespace muster::coordinator
