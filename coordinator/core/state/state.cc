#include "coordinator/core/state/state.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/outputs.h"

namespace muster::coordinator {
namespace {

// Workers and disks may contain values that this version does not know; these have no name.
std::string Behind(std::string_view prefix, std::string_view name) {
  return name.size() > prefix.size() ? std::string(name.substr(prefix.size())) : "UNKNOWN";
}

}  // namespace

bool IsFinal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

bool IsFailure(const v1::RankExit& exit) {
  return exit.exit_code() != 0 || exit.signal() != 0 || exit.launch_errno() != 0;
}

int64_t RunningMs(const SchedulingState& state, const v1::JobRecord& job, Now now) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr || attempt->running_ms() == 0) return 0;
  return std::max<int64_t>(now.mono_ms - state.timers.at(job.id()).running_since_mono_ms, 0);
}

bool MostNodesSilent(const SchedulingState& state) {
  constexpr int64_t kNodesMin = 3;  // with fewer, "most" says nothing about our own network
  const int64_t known = static_cast<int64_t>(state.nodes.size()) - state.lost_nodes;
  return known >= kNodesMin && 2 * state.silent_nodes > known;
}

const v1::Attempt* LiveAttempt(const v1::JobRecord& job) {
  if (job.attempts().empty()) return nullptr;
  const v1::Attempt& newest = *job.attempts().rbegin();
  return newest.ended_ms() == 0 ? &newest : nullptr;
}

const v1::NodePart* FindPart(const v1::Attempt& attempt, const std::string& node) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.node() == node) return &part;
  }
  return nullptr;
}

bool AllPartsLaunched(const v1::Attempt& attempt) {
  return std::all_of(attempt.parts().begin(), attempt.parts().end(),
                     [](const v1::NodePart& part) { return part.launched(); });
}

const PartCounts& CountsOf(const ClusterState& state, const v1::JobRecord& job) {
  const PartCounts* counts = state.live_parts.Counts(job.id());
  CHECK(counts != nullptr);  // Apply counts the parts of each attempt that starts
  return *counts;
}

const v1::NodePart* FindLivePart(const ClusterState& state, const v1::JobRecord& job,
                                 const std::string& node) {
  const int place = state.live_parts.Find(job.id(), node);
  return place < 0 ? nullptr : &job.attempts().rbegin()->parts(place);
}

void Take(DevicesByKind& used, const v1::NodePart& part) {
  if (part.device_indexes().empty()) return;
  std::vector<uint32_t>& of_kind = used[part.device_kind()];
  of_kind.insert(of_kind.end(), part.device_indexes().begin(), part.device_indexes().end());
}

void GiveBack(DevicesByKind& used, const v1::NodePart& part) {
  const auto of_kind = used.find(part.device_kind());
  if (of_kind == used.end()) return;
  for (const uint32_t device : part.device_indexes()) {
    const auto at = std::find(of_kind->second.begin(), of_kind->second.end(), device);
    if (at != of_kind->second.end()) of_kind->second.erase(at);
  }
  if (of_kind->second.empty()) used.erase(of_kind);
}

DevicesByKind DevicesOf(const v1::NodeFacts& facts) {
  DevicesByKind devices;
  for (const v1::Device& device : facts.devices()) devices[device.kind()].push_back(device.index());
  for (auto& [kind, indexes] : devices) std::sort(indexes.begin(), indexes.end());
  return devices;
}

void Occupy(SchedulingState& state, const v1::NodePart& part, bool takes) {
  const auto node = state.nodes.find(part.node());
  if (node == state.nodes.end()) return;
  takes ? Take(node->second.used, part) : GiveBack(node->second.used, part);
}

void Occupy(SchedulingState& state, const v1::Attempt& attempt, bool takes) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (!part.ended()) Occupy(state, part, takes);
  }
}

const CheckpointList& ListFor(const v1::JobRecord& job, int64_t step) {
  return step == common::kOutputsStep ? job.outputs() : job.checkpoints();
}

CheckpointList& ListFor(v1::JobRecord& job, int64_t step) {
  return step == common::kOutputsStep ? *job.mutable_outputs() : *job.mutable_checkpoints();
}

std::string NameOfSaved(int64_t step) {
  return step == common::kOutputsStep ? "its outputs" : absl::StrCat("checkpoint ", step);
}

std::string OtherHeads(const v1::Checkpoint& checkpoint, const std::string& head) {
  std::string others;
  for (const std::string& each : checkpoint.heads()) {
    if (each != head) absl::StrAppend(&others, others.empty() ? "" : ", ", each);
  }
  return others;
}

const v1::Checkpoint* LatestCheckpoint(const v1::JobRecord& job) {
  const v1::Checkpoint* latest = nullptr;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.state() != v1::CHECKPOINT_STATE_COMMITTED || checkpoint.flagged_corrupt() ||
        checkpoint.attempt() < job.fresh_from()) {
      continue;
    }
    if (latest == nullptr || std::tuple(checkpoint.attempt(), checkpoint.step()) >
                                 std::tuple(latest->attempt(), latest->step())) {
      latest = &checkpoint;
    }
  }
  return latest;
}

const v1::Checkpoint* AbsentCheckpoint(const v1::JobRecord& job, const std::string& head) {
  const v1::Checkpoint* latest = LatestCheckpoint(job);
  const bool is_here =
      latest == nullptr || latest->absent_at().empty() || latest->absent_at() != head;
  return is_here ? nullptr : latest;
}

const v1::Checkpoint* ResumedCheckpoint(const v1::JobRecord& job, const v1::Attempt& attempt) {
  const v1::Checkpoint* found = nullptr;
  if (attempt.resume_step() < 0) return found;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED &&
        checkpoint.step() == attempt.resume_step() && checkpoint.attempt() <= attempt.number() &&
        (found == nullptr || checkpoint.attempt() > found->attempt())) {
      found = &checkpoint;
    }
  }
  return found;
}

const Node* FindNode(const SchedulingState& state, const std::string& name) {
  const auto found = state.nodes.find(name);
  return found == state.nodes.end() ? nullptr : &found->second;
}

uint32_t GraceMsOf(const SchedulingState& state, const v1::JobSpec& spec) {
  return spec.grace_ms() > 0 ? spec.grace_ms() : state.settings.default_grace_ms;
}

uint32_t StopAfterMsOf(const SchedulingState& state, const v1::JobSpec& spec) {
  return spec.stop_after_ms() > 0 ? spec.stop_after_ms() : state.settings.default_stop_after_ms;
}

uint32_t WantedRanks(const v1::Shape& shape) {
  if (shape.per_node() == 0) return shape.processes();
  return shape.per_node() * std::max<uint32_t>(shape.min_nodes(), 1);
}

std::string StateName(v1::JobState state) { return Behind("JOB_STATE_", v1::JobState_Name(state)); }

std::string NodeStateName(v1::NodeState state) {
  return Behind("NODE_STATE_", v1::NodeState_Name(state));
}

void LeaveOutExits(v1::Attempt& attempt) {
  for (v1::NodePart& part : *attempt.mutable_parts()) {
    attempt.set_exits_left_out(attempt.exits_left_out() + static_cast<uint32_t>(part.exits_size()));
    part.clear_exits();
  }
}

std::string CauseName(v1::StopCause cause) {
  return Behind("STOP_CAUSE_", v1::StopCause_Name(cause));
}

bool IsAskedByPerson(const v1::Attempt& attempt) {
  const v1::Asked& asked = attempt.notice().asked();
  return asked.hold() || !asked.node().empty();
}

bool ClaimStands(const SchedulingState& state, const v1::Attempt& attempt) {
  const auto by = state.jobs.find(attempt.notice().by());
  return by != state.jobs.end() && by->second.claims() &&
         by->second.state() == v1::JOB_STATE_QUEUED;
}

bool NoticeStands(const SchedulingState& state, const v1::Attempt& attempt) {
  return attempt.has_notice() && (IsAskedByPerson(attempt) || ClaimStands(state, attempt));
}

namespace {

std::pair<std::string, std::string> LineOf(const v1::JobRecord& job) {
  return {ProjectOf(job), job.spec().shape().device().kind()};
}

}  // namespace

void Enqueue(SchedulingState& state, const v1::JobRecord& job) {
  state.queue.insert(PlaceOf(job));
  state.lines[LineOf(job)].insert(PlaceOf(job));
}

void Dequeue(SchedulingState& state, const v1::JobRecord& job) {
  if (state.queue.erase(PlaceOf(job)) == 0) return;
  const auto line = state.lines.find(LineOf(job));
  if (line == state.lines.end()) return;
  line->second.erase(PlaceOf(job));
  if (line->second.empty()) state.lines.erase(line);
}

}  // namespace muster::coordinator
