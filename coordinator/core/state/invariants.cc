#include "coordinator/core/state/invariants.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/core/state/timers.h"

namespace muster::coordinator {
namespace {

std::string OfJob(const v1::JobRecord& job, const std::string& what) {
  return absl::StrCat("job ", job.id(), ", ", StateName(job.state()), ": ", what);
}

// ---------------------------------------------------------------- one job

bool MayHaveRanks(v1::JobState state) {
  return state == v1::JOB_STATE_QUEUED ||  // its attempt has started, and its state will follow
         state == v1::JOB_STATE_STARTING || state == v1::JOB_STATE_RUNNING ||
         state == v1::JOB_STATE_STOPPING;
}

// A job is in the index of its state, and in no other.
std::string BrokenIndex(const ClusterState& state, const v1::JobRecord& job) {
  const bool waits = job.state() == v1::JOB_STATE_QUEUED && !job.held();
  const bool is_active = job.state() != v1::JOB_STATE_QUEUED && !IsFinal(job.state());
  const bool is_finished = std::count(state.finished.begin(), state.finished.end(), job.id()) > 0;
  if (state.queue.contains(PlaceOf(job)) != waits) return "the queue disagrees";
  if (state.active.contains(job.id()) != is_active) return "the active jobs disagree";
  if (is_finished != IsFinal(job.state())) return "the finished jobs disagree";
  if (state.told.contains(job.id()) != (waits && IsFoundByPass(job.reason()))) {
    return absl::StrCat("what it was told disagrees: ", job.reason());
  }
  if (state.asides.jobs.contains(job.id()) && !waits) return "it steps aside outside of the queue";
  return state.timers.contains(job.id()) ? "" : "it has no timers";
}

std::string BrokenRanks(const v1::Attempt& attempt) {
  uint32_t ranks = 0;
  for (int i = 0; i < attempt.parts_size(); ++i) {
    const v1::NodePart& part = attempt.parts(i);
    if (part.group_rank() != static_cast<uint32_t>(i) || part.first_rank() != ranks) {
      return absl::StrCat("the ranks on ", part.node(), " are out of order");
    }
    ranks += part.local_world_size();
  }
  return ranks == attempt.world_size() && ranks > 0 ? "" : "its parts do not make up its ranks";
}

std::string BrokenAttempts(const v1::JobRecord& job) {
  const v1::Attempt* live = LiveAttempt(job);
  uint32_t next = 0;
  for (const v1::Attempt& attempt : job.attempts()) {
    if (attempt.number() < next) return "its attempts are out of order";
    next = attempt.number() + 1;
    if (attempt.ended_ms() == 0 && &attempt != live) return "an older attempt is alive";
  }
  // A restored backup leaves a gap.
  if (next > job.next_attempt()) return "its next attempt's number is taken";
  if (live == nullptr) return "";
  return MayHaveRanks(job.state()) ? BrokenRanks(*live) : "it has a live attempt";
}

std::string BrokenJob(const ClusterState& state, uint64_t id, const v1::JobRecord& job) {
  if (job.id() != id || id >= state.next_job_id) return "its number is not its own";
  if (std::string broken = BrokenIndex(state, job); !broken.empty()) return broken;
  if (std::string broken = BrokenAttempts(job); !broken.empty()) return broken;
  std::string files;
  ForEachSaved(job, [&](const v1::Checkpoint& checkpoint) {
    if (!checkpoint.files().empty()) files = "its record has the files of a checkpoint";
  });
  return files;
}

// ---------------------------------------------------------------- sums and indexes

std::string BrokenIndexes(const ClusterState& state) {
  size_t waiting = 0, active = 0;
  for (const auto& [id, job] : state.jobs) {
    if (std::string broken = BrokenJob(state, id, job); !broken.empty()) return OfJob(job, broken);
    waiting += state.queue.contains(PlaceOf(job));
    active += state.active.contains(id);
  }
  if (waiting != state.queue.size()) return "the queue has a job that is not there";
  size_t in_lines = 0;
  for (const auto& [of, line] : state.lines) {
    if (line.empty()) return "a line is empty";
    for (const QueuePlace& place : line) {
      if (!state.queue.contains(place)) return "a line has a job that does not wait";
      const v1::JobRecord& job = state.jobs.at(place.job);
      if (of != std::pair(ProjectOf(job), job.spec().shape().device().kind()))
        return "a job is in the line of others";
    }
    in_lines += line.size();
  }
  if (in_lines != state.queue.size()) return "a job that waits is in no line";
  if (active != state.active.size()) return "a job that is not there is active";
  for (const uint64_t id : state.told) {
    if (!state.jobs.contains(id)) return "a job that is not there was told a reason";
  }
  for (const uint64_t id : state.asides.others) {
    if (!state.jobs.contains(id)) return "a job that is not there is known to fit";
  }
  for (const uint64_t id : state.asides.jobs) {
    if (!state.jobs.contains(id)) return "a job that is not there steps aside";
  }
  if (state.timers.size() != state.jobs.size()) return "there are timers without a job";
  for (const auto& [id, files] : state.checkpoint_files) {
    if (!state.jobs.contains(id.job)) return absl::StrCat("files of job ", id.job, " are left");
  }
  return "";
}

std::string BrokenHoldings(const ClusterState& state) {
  uint64_t of_jobs = 0, of_owners = 0;
  size_t owned = 0;
  for (const auto& [id, held] : state.holdings.jobs) {
    of_jobs += held.bytes;
    if (!state.jobs.contains(id)) return absl::StrCat("bytes of job ", id, " are left");
  }
  for (const auto& [owner, held] : state.holdings.owners) {
    of_owners += held.bytes;
    owned += held.jobs.size();
    for (const uint64_t id : held.jobs) {
      if (!state.jobs.contains(id) || OwnerKey(state.jobs.at(id)) != owner) {
        return absl::StrCat("job ", id, " is not one of ", owner);
      }
    }
  }
  if (state.holdings.jobs.size() != state.jobs.size() || owned != state.jobs.size()) {
    return "a job's bytes are not counted";
  }
  return of_jobs == state.holdings.bytes && of_owners == of_jobs ? ""
                                                                 : "the jobs' bytes do not add up";
}

DevicesByKind Sorted(DevicesByKind used) {
  for (auto& [kind, devices] : used) std::sort(devices.begin(), devices.end());
  return used;
}

DevicesByKind UsedOn(const ClusterState& state, const std::string& node) {
  DevicesByKind used;
  ForEachLivePart(state, node,
                  [&](const auto&, const auto&, const auto& part) { Take(used, part); });
  return Sorted(std::move(used));
}

std::string BrokenNodes(const ClusterState& state) {
  int64_t silent = 0, lost = 0;
  uint64_t bytes = 0;
  std::map<std::string, int64_t> kinds;
  for (const auto& [name, node] : state.nodes) {
    silent += node.record.state() == v1::NODE_STATE_SUSPECT;
    lost += node.record.state() == v1::NODE_STATE_LOST;
    bytes += node.record.facts().ByteSizeLong();
    if (UsedOn(state, name) != Sorted(node.used))
      return absl::StrCat("the devices in use on ", name, " are miscounted");
    if (DevicesOf(node.record.facts()) != node.devices)
      return absl::StrCat("node ", name, " has other devices");
    for (const auto& [kind, devices] : node.devices) ++kinds[kind];
    if (node.record.facts().name() != name) return absl::StrCat("node ", name, " has other facts");
    if (node.record.connected() != (node.session != 0)) {
      return absl::StrCat("node ", name, " is connected without a session, or the reverse");
    }
  }
  if (silent != state.silent_nodes || lost != state.lost_nodes) return "nodes are miscounted";
  if (kinds != state.kinds) return "kinds of devices are miscounted";
  return bytes == state.node_facts_bytes ? "" : "the nodes' facts do not add up";
}

// What is set may be early, because contact with a node moves what is due away.
bool IsLate(const std::optional<int64_t>& set, const std::optional<int64_t>& due) {
  return due.has_value() && (!set.has_value() || *set > *due);
}

std::string BrokenDue(const ClusterState& state) {
  for (const auto& [id, job] : state.jobs) {
    if (IsLate(state.due_jobs.At(id), JobDueMonoMs(state, job))) return OfJob(job, "it is due");
  }
  for (const auto& [name, node] : state.nodes) {
    if (IsLate(state.due_nodes.At(name), NodeDueMonoMs(state, node)))
      return absl::StrCat("node ", name, " is due");
  }
  const bool has_others =
      state.due_jobs.size() > state.jobs.size() || state.due_nodes.size() > state.nodes.size();
  return has_others ? "what is not there is due" : "";
}

// ---------------------------------------------------------------- gangs

std::string BrokenLiveParts(const ClusterState& state) {
  LiveParts found;
  for (const auto& [id, job] : state.jobs) {
    if (const v1::Attempt* attempt = LiveAttempt(job)) found.Add(id, *attempt);
  }
  return found == state.live_parts ? "" : "the parts of live attempts are miscounted";
}

// A host's processors may be shared, if its worker reports it.
std::string SharedDevice(const ClusterState& state) {
  std::map<std::tuple<std::string, std::string, uint32_t>, uint64_t> users;
  for (const uint64_t id : state.active) {
    const v1::Attempt* attempt = LiveAttempt(state.jobs.at(id));
    if (attempt == nullptr) continue;
    for (const v1::NodePart& part : attempt->parts()) {
      if (part.ended()) continue;
      if (!state.nodes.contains(part.node())) return absl::StrCat("job ", id, " runs on no node");
      if (common::IsHostKind(part.device_kind())) continue;
      for (const uint32_t device : part.device_indexes()) {
        const auto [at, fresh] = users.try_emplace({part.node(), part.device_kind(), device}, id);
        if (!fresh) {
          return absl::StrCat(part.device_kind(), " ", device, " of ", part.node(), " is in job ",
                              at->second, " and job ", id);
        }
      }
    }
  }
  return "";
}

}  // namespace

std::string BrokenInvariant(const ClusterState& state) {
  for (const auto check :
       {BrokenIndexes, BrokenHoldings, BrokenLiveParts, BrokenNodes, BrokenDue, SharedDevice}) {
    if (std::string broken = check(state); !broken.empty()) return broken;
  }
  return "";
}

void CheckInvariants(const ClusterState& state) {
  const std::string broken = BrokenInvariant(state);  // a debugger shows which one
  // Only the rules and Apply make states, and replay refuses what does not follow from them.
  CHECK(broken.empty());
}

}  // namespace muster::coordinator
