// The link to the coordinator, heartbeats, and what happens by the passing of time: the self-fence,
// stalled uploads. Pure.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/rules.h"
#include "common/outputs.h"
#include "worker/core/steps.h"

namespace muster::worker {
namespace {

int64_t LinkSilenceMs(const Contact& contact) {
  const int64_t silence_ms =
      std::max<int64_t>(kLinkSilenceMinMs, int64_t{contact.heartbeat_ms} * kHeartbeatsMissed);
  if (!contact.has_other_heads) return silence_ms;
  // Another coordinator may lead by now, and a machine that lost power closes no connection.
  return std::min<int64_t>(silence_ms, contact.heartbeat_ms + kLinkSilenceMinMs);
}

// When a silent link counts as dead.
int64_t LinkDeadlineMs(const Contact& contact) {
  if (contact.link == LinkStage::kRegistering) {
    return contact.link_since_mono_ms + kRegisterTimeoutMs;
  }
  const int64_t silent_ms =
      std::max(contact.last_heard_mono_ms, contact.link_since_mono_ms) + LinkSilenceMs(contact);
  if (contact.asked_mono_ms == 0) return silent_ms;
  return std::min(silent_ms, contact.asked_mono_ms + kLinkSilenceMinMs);
}

// When uploads of an ended attempt stop delaying the next one. Nothing can progress without a link,
// so time without one does not count.
std::optional<int64_t> StallDeadlineMs(const WorkerState& state, const Attempt& attempt) {
  if (IsLive(attempt) || !UploadsPending(attempt) || state.contact.link != LinkStage::kUp) {
    return std::nullopt;
  }
  return std::max({attempt.upload_progress_mono_ms, state.contact.link_since_mono_ms,
                   state.contact.resumed_mono_ms}) +
         kUploadStallMs;
}

// Its ranks get what is left of their grace: a node that was frozen past its end has none to give, since
// the coordinator has started them elsewhere by then.
void FenceItself(Step& step, Attempt& attempt, int64_t fence_mono_ms) {
  attempt.fenced_itself = true;
  const uint32_t set = attempt.launch.spec().grace_ms();
  const int64_t grace = set > 0 ? set : job::kDefaultGraceMs;
  attempt.kill_mono_ms = fence_mono_ms + grace;
  const int64_t left = std::clamp<int64_t>(attempt.kill_mono_ms - step.now.mono_ms, 0, grace);
  const std::string reason = absl::StrCat(
      "this node stopped the attempt itself: it had no contact with the coordinator for ",
      (step.now.mono_ms - step.state.contact.lease_mono_ms) / 1000, " s");
  attempt.status.set_failure(reason);
  attempt.status.set_failure_cause(v1::STOP_CAUSE_NODE_LOST);
  step.Do(NoteAction{absl::StrCat("self-fence job=", attempt.status.job(), " attempt=",
                                  attempt.status.attempt(), " reason=\"", reason, "\"")});
  StopAttemptHere(step, attempt, {static_cast<uint32_t>(left), v1::STOP_CAUSE_NODE_LOST, reason});
}

// When this worker kills the ranks of an attempt that fenced itself, whatever their shim does.
std::optional<int64_t> KillDeadlineMs(const Attempt& attempt) {
  if (attempt.kill_mono_ms == 0 || !HasShim(attempt)) return std::nullopt;
  return attempt.kill_mono_ms;
}

// The wall clock was set, or this machine stood still without its clock noticing, as a virtual
// machine does that is paused: the coordinator may have given up this node meanwhile, and only it
// knows. Costs a heartbeat; nothing is stopped for it.
void AskIfClockJumped(Step& step) {
  Contact& contact = step.state.contact;
  const int64_t offset_ms = step.now.wall_ms - step.now.mono_ms;
  const int64_t before_ms = contact.wall_offset_ms.value_or(offset_ms);
  contact.wall_offset_ms = offset_ms;
  if (std::abs(offset_ms - before_ms) < kClockJumpMs) return;
  if (contact.link != LinkStage::kUp || contact.asked_mono_ms != 0) return;
  contact.asked_mono_ms = step.now.mono_ms;
  contact.next_heartbeat_mono_ms = step.now.mono_ms;
  step.Do(NoteAction{absl::StrCat("clock jumped by_ms=", offset_ms - before_ms,
                                  "; asking the coordinator what still belongs here")});
}

void GiveUpUploads(Step& step, Attempt& attempt) {
  attempt.final_scan_done = true;
  bool is_outputs = false;  // only they: their turn is after all checkpoints
  for (auto& [at, part] : attempt.parts) {
    if (part.state != PartState::kUploading) continue;
    part.state = PartState::kFailed;
    is_outputs = at.first == common::kOutputsStep;
  }
  attempt.status.set_checkpoint_error(
      is_outputs
          ? "outputs: their upload made no progress for 60 s and was abandoned; fix: look at "
            "the coordinator's disk and at this node's file systems"
          : "the upload of its last checkpoint made no progress for 60 s and was abandoned");
  Report(step, attempt);
}

std::vector<AttemptKey> Keys(const WorkerState& state) {
  std::vector<AttemptKey> keys;
  for (const auto& [key, attempt] : state.attempts) keys.push_back(key);
  return keys;
}

void TickLink(Step& step) {
  Contact& contact = step.state.contact;
  if (contact.link == LinkStage::kDown) return;
  const int64_t now = step.now.mono_ms;
  if (now >= LinkDeadlineMs(contact)) {
    contact.link = LinkStage::kDown;
    AbandonClearing(step);
    step.Do(ResetLinkAction{
        absl::StrCat("the coordinator is not answering on the control stream",
                     contact.asked_mono_ms != 0 ? " since the clocks jumped" : "")});
    return;
  }
  if (contact.link != LinkStage::kUp || now < contact.next_heartbeat_mono_ms) return;
  contact.next_heartbeat_mono_ms = now + contact.heartbeat_ms;
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_number(++contact.heartbeat_number);
  contact.heartbeats_sent_mono_ms[contact.heartbeat_number] = now;
  message.mutable_heartbeat()->set_spool_bytes(step.state.spool_bytes);
  v1::NodeHealth& health = *message.mutable_heartbeat()->mutable_health();
  if (contact.clock_ahead_ms) health.set_clock_ahead_ms(*contact.clock_ahead_ms);
  health.set_disk_bytes(step.state.disk_bytes);
  health.set_disk_free_bytes(step.state.disk_free_bytes);
  Send(step, std::move(message));
}

// After a tick that is this late: nothing made progress, because nothing ran.
void NoteStandstill(Step& step) {
  const std::optional<int64_t> due = NextDeadlineMonoMs(step.state);
  if (due && step.now.mono_ms - *due >= kStandstillMs) {
    step.state.contact.resumed_mono_ms = step.now.mono_ms;
  }
}

void RenewLease(Step& step, int64_t sent_mono_ms) {
  if (sent_mono_ms >= step.state.contact.asked_mono_ms) step.state.contact.asked_mono_ms = 0;
  int64_t& lease = step.state.contact.lease_mono_ms;
  lease = std::max(lease, sent_mono_ms);
  for (const auto& [key, attempt] : step.state.attempts) {
    const auto fence = FenceDeadlineMs(step.state, attempt);
    if (fence && HasShim(attempt)) step.Do(MoveFenceAction{key, *fence});
  }
}

}  // namespace

std::optional<int64_t> FenceDeadlineMs(const WorkerState& state, const Attempt& attempt) {
  if (!IsLive(attempt) || attempt.fenced_itself || attempt.launch.job() == 0) return std::nullopt;
  if (attempt.launch.spec().on_node_loss() == v1::ON_NODE_LOSS_WAIT) return std::nullopt;
  const uint32_t set = attempt.launch.spec().stop_after_ms();
  return state.contact.lease_mono_ms + (set > 0 ? set : job::kDefaultStopAfterMs);
}

void OnTick(Step& step, const TickInput& input) {
  step.state.spool_bytes = input.spool_bytes;
  step.state.disk_bytes = input.disk_bytes;
  step.state.disk_free_bytes = input.disk_free_bytes;
  NoteStandstill(step);
  AskIfClockJumped(step);
  TickLink(step);
  for (const AttemptKey& key : Keys(step.state)) {
    Attempt* attempt = step.Find(key);
    if (attempt == nullptr) continue;
    FenceIfDue(step, *attempt);
    const auto kill = KillDeadlineMs(*attempt);
    if (kill && step.now.mono_ms >= *kill) {
      attempt->kill_mono_ms = 0;
      step.Do(KillRanksAction{key});
    }
    const auto stall = StallDeadlineMs(step.state, *attempt);
    if (stall && step.now.mono_ms >= *stall) GiveUpUploads(step, *attempt);
    MaybeForget(step, key);
  }
}

void OnLinkUp(Step& step) {
  Contact& contact = step.state.contact;
  contact.link = LinkStage::kRegistering;
  contact.asked_mono_ms = 0;  // the registration asks
  AbandonClearing(step);
  contact.link_since_mono_ms = step.now.mono_ms;
  contact.heartbeats_sent_mono_ms.clear();
  v1::WorkerMessage message;
  *message.mutable_register_() = RegisterMessage(step.state, step.now);
  Send(step, std::move(message));
}

bool FenceIfDue(Step& step, Attempt& attempt) {
  const auto fence = FenceDeadlineMs(step.state, attempt);
  if (!fence || step.now.mono_ms < *fence) return false;
  FenceItself(step, attempt, *fence);
  return true;
}

void OnLinkDown(Step& step) {
  step.state.contact.link = LinkStage::kDown;
  AbandonClearing(step);
}

void OnRegistered(Step& step, const v1::Registered& registered) {
  Contact& contact = step.state.contact;
  if (contact.link == LinkStage::kDown) return;
  if (contact.link == LinkStage::kRegistering) RenewLease(step, contact.link_since_mono_ms);
  contact.link = LinkStage::kUp;
  contact.link_since_mono_ms = step.now.mono_ms;
  if (registered.heartbeat_ms() > 0) contact.heartbeat_ms = registered.heartbeat_ms();
  contact.next_heartbeat_mono_ms = step.now.mono_ms + contact.heartbeat_ms;
  contact.has_other_heads = registered.heads_size() > 1;
  step.Do(RegisteredAction{registered.bulk_endpoint(),
                           registered.cluster_id(),
                           {registered.heads().begin(), registered.heads().end()},
                           {registered.https().begin(), registered.https().end()}});
  BeginClearing(step, registered.clear());
}

bool IsContactFresh(const WorkerState& state, Now now) {
  const Contact& contact = state.contact;
  return now.mono_ms - contact.lease_mono_ms < int64_t{contact.heartbeat_ms} * kHeartbeatsFresh;
}

void WaitForContact(Step& step, Attempt& attempt) {
  if (std::exchange(attempt.spawn_waits, true)) return;
  Contact& contact = step.state.contact;
  if (contact.link == LinkStage::kUp) contact.next_heartbeat_mono_ms = step.now.mono_ms;
  step.Do(NoteAction{absl::StrCat(
      "start waits for contact job=", attempt.status.job(), " attempt=", attempt.status.attempt(),
      " last_contact_ms_ago=", step.now.mono_ms - contact.lease_mono_ms)});
}

void OnHeartbeatReply(Step& step, const v1::HeartbeatReply& reply) {
  Contact& contact = step.state.contact;
  const auto sent = contact.heartbeats_sent_mono_ms.find(reply.number());
  if (sent == contact.heartbeats_sent_mono_ms.end()) return;
  RenewLease(step, sent->second);
  const int64_t round_trip_ms = step.now.mono_ms - sent->second;
  if (reply.wall_ms() > 0 && round_trip_ms <= kClockRoundTripMsMax)
    contact.clock_ahead_ms = step.now.wall_ms - round_trip_ms / 2 - reply.wall_ms();
  contact.heartbeats_sent_mono_ms.erase(contact.heartbeats_sent_mono_ms.begin(), std::next(sent));
  if (reply.heads_size() > 0) {
    contact.has_other_heads = reply.heads_size() > 1;
    step.Do(HeadsAction{{reply.heads().begin(), reply.heads().end()},
                        {reply.https().begin(), reply.https().end()}});
  }
  // Not when the registration is answered: the attempts that it gives up arrive after that.
  for (const AttemptKey& key : Keys(step.state)) {
    Attempt* attempt = step.Find(key);
    if (attempt != nullptr && attempt->spawn_waits && IsLive(*attempt)) SpawnNow(step, *attempt);
  }
}

std::optional<int64_t> NextDeadlineMonoMs(const WorkerState& state) {
  std::optional<int64_t> next;
  const auto consider = [&next](std::optional<int64_t> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  if (state.contact.link != LinkStage::kDown) consider(LinkDeadlineMs(state.contact));
  if (state.contact.link == LinkStage::kUp) consider(state.contact.next_heartbeat_mono_ms);
  for (const auto& [key, attempt] : state.attempts) {
    consider(FenceDeadlineMs(state, attempt));
    consider(KillDeadlineMs(attempt));
    consider(StallDeadlineMs(state, attempt));
  }
  return next;
}

}  // namespace muster::worker
