#include "worker/core/invariants.h"

#include <string_view>

#include "common/text/strings.h"
#include "worker/core/stages.h"

namespace muster::worker {
namespace {

bool IsLaunched(const Attempt& attempt) { return attempt.launch.job() != 0; }

bool NeedsLaunch(Stage stage) {
  return stage == Stage::kWaiting || stage == Stage::kRecording || stage == Stage::kFetching ||
         stage == Stage::kSpawning || stage == Stage::kRunning;
}

// One sentence per line, of one attempt.
std::string_view BrokenOf(const WorkerState& state, const AttemptKey& key, const Attempt& attempt) {
  const auto forgotten = state.forgotten.find(key.job);
  const struct {
    bool holds;
    std::string_view sentence;
  } sentences[] = {
      {attempt.stage != Stage::kNew, "it has entered its life"},
      {attempt.status.job() == key.job && attempt.status.attempt() == key.attempt,
       "its status is its own"},
      {!IsLaunched(attempt) ||
           (attempt.launch.job() == key.job && attempt.launch.attempt() == key.attempt),
       "its launch is its own"},
      {!NeedsLaunch(attempt.stage) || IsLaunched(attempt), "nothing starts without its launch"},
      {attempt.stage != Stage::kPreparing || !attempt.spawned, "what is prepared has no shim"},
      {!HasShim(attempt) || attempt.spawned, "a shim was started for what runs"},
      {attempt.stage != Stage::kRunning || attempt.status.ranks_started() > 0,
       "what runs has ranks"},
      {!attempt.spawn_waits || !HasShim(attempt), "what waits for contact has not started"},
      {attempt.kill_mono_ms == 0 || attempt.fenced_itself, "only a fence kills"},
      {attempt.failed_ranks <= static_cast<uint32_t>(attempt.status.exits_size()),
       "a rank that failed has exited"},
      {attempt.final_scan_done || attempt.spawned || !IsLive(attempt) || attempt.parts.empty(),
       "checkpoints are of ranks that ran"},
      {!attempt.final_scan_done || !IsLive(attempt), "the last scan is after the end"},
      // An older one may outlive it.
      {forgotten == state.forgotten.end() || key.attempt != forgotten->second,
       "what was forgotten is not here again"},
  };
  for (const auto& [holds, sentence] : sentences) {
    if (!holds) return sentence;
  }
  return "";
}

std::string_view BrokenOf(const CheckpointPart& part, const AttemptKey& key, int64_t step) {
  if (part.state != PartState::kReady && part.state != PartState::kAcknowledged) return "";
  const bool is_own = part.ready.job() == key.job && part.ready.attempt() == key.attempt &&
                      part.ready.step() == step;
  return is_own ? "" : "what is reported of a checkpoint is of this one";
}

std::string_view BrokenOf(const Contact& contact) {
  if (!contact.heartbeats_sent_mono_ms.empty() &&
      contact.heartbeats_sent_mono_ms.rbegin()->first > contact.heartbeat_number)
    return "no heartbeat was sent that has no number yet";
  if (contact.heartbeat_ms == 0) return "heartbeats have an interval";
  return "";
}

}  // namespace

std::string BrokenInvariant(const WorkerState& state) {
  uint64_t job_with_shim = 0;
  for (const auto& [key, attempt] : state.attempts) {
    if (const std::string_view broken = BrokenOf(state, key, attempt); !broken.empty()) {
      return common::StrCat("attempt ", KeyText(key), " (", StageName(attempt.stage),
                            "): ", broken);
    }
    for (const auto& [at, part] : attempt.parts) {
      if (const std::string_view broken = BrokenOf(part, key, at.first); !broken.empty())
        return common::StrCat("attempt ", KeyText(key), " step ", at.first, ": ", broken);
    }
    // The map has a job's attempts next to each other. After a restart of the worker all of them may
    // have a shim, until the clearing of the host has found out which have ended.
    if (state.cleared && HasShim(attempt) && key.job == job_with_shim)
      return common::StrCat("job ", key.job, ": only one attempt of a job has a shim here");
    if (HasShim(attempt)) job_with_shim = key.job;
  }
  if (state.cleared && state.clearing) return "a host that is cleared is not being cleared";
  if (!state.deferred.empty() && state.cleared) return "nothing waits for a host that is cleared";
  if (state.deferred.size() > kDeferredMax) return "what waits for the host has a bound";
  if (state.forgotten.size() > kForgottenMax) return "what is forgotten has a bound";
  return std::string(BrokenOf(state.contact));
}

}  // namespace muster::worker
