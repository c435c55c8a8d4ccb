// The coordinator's commands, after the epoch check. Pure.
#include "absl/strings/str_cat.h"
#include "common/job/code.h"
#include "common/node_shortage.h"
#include "worker/core/stages.h"
#include "worker/core/steps.h"

namespace muster::worker {
namespace {

template <typename Message>
AttemptKey KeyIn(const Message& message) {
  return {message.job(), message.attempt()};
}

// An ended status for an attempt that this worker will not start; nothing is kept about it.
void AnswerEnded(Step& step, const AttemptKey& key, const std::string& how) {
  Attempt refused;
  refused.stage = Stage::kEnded;
  refused.status.set_job(key.job);
  refused.status.set_attempt(key.attempt);
  refused.status.set_how_ended(how);
  Report(step, refused);
}

// Why this attempt must no longer start here, or empty.
std::string Superseded(const WorkerState& state, const AttemptKey& key) {
  auto gone = state.forgotten.find(key.job);
  if (gone != state.forgotten.end() && key.attempt <= gone->second) return "forgotten";
  for (auto at = state.attempts.upper_bound(key);
       at != state.attempts.end() && at->first.job == key.job; ++at) {
    return absl::StrCat("superseded by attempt ", at->first.attempt);
  }
  return "";
}

const char* HowNeverLaunched(bool is_short) {
  return is_short ? common::kEndedForShortage : "never launched";
}

// The cause for an attempt that could not be launched: the job's own failure, or the node's.
v1::StopCause CauseOf(bool would_fail_again) {
  return would_fail_again ? v1::STOP_CAUSE_LAUNCH_FAILED : v1::STOP_CAUSE_LAUNCH_INTERRUPTED;
}

void OnPrepareAttempt(Step& step, const v1::PrepareAttempt& order) {
  const AttemptKey key = KeyIn(order);
  if (const Attempt* known = step.Find(key); known != nullptr) {
    // Reports an attempt that is being prepared again: the coordinator may have restarted.
    const bool has_news = known->stage != Stage::kPreparing || known->status.ready() ||
                          known->status.has_preparation();
    if (has_news) Report(step, *known);
    return;
  }
  if (const std::string why = Superseded(step.state, key); !why.empty()) {
    return AnswerEnded(step, key, why);
  }
  Attempt& attempt = step.FindOrAdd(key);
  Move(attempt, Change::kPrepare);
  attempt.prepares = order.has_spec();
  step.Do(PrepareAttemptAction{key, order});
}

void OnLaunch(Step& step, const v1::LaunchAttempt& launch) {
  const AttemptKey key = KeyIn(launch);
  const Attempt* known = step.Find(key);
  if (known != nullptr && known->stage != Stage::kPreparing) return Report(step, *known);
  if (known == nullptr) {
    if (const std::string why = Superseded(step.state, key); !why.empty()) {
      return AnswerEnded(step, key, why);
    }
  }
  Attempt& attempt = step.FindOrAdd(key);
  const uint32_t held = attempt.status.master_port();
  attempt.launch = launch;
  if (launch.is_master() && held != launch.master_port()) {
    return EndAttempt(
        step, attempt,
        {"never launched",
         absl::StrCat("port ", launch.master_port(),
                      " is not held here (the worker was restarted in between); a new attempt "
                      "gets a new port"),
         v1::STOP_CAUSE_LAUNCH_INTERRUPTED});
  }
  if (job::NeedsPreparation(launch.spec()) && !(attempt.prepares && attempt.status.ready())) {
    return EndAttempt(
        step, attempt,
        {"never launched",
         absl::StrCat("node ", step.state.facts.name(),
                      " has not prepared the attempt (the worker was restarted in between); a new "
                      "attempt is prepared again"),
         v1::STOP_CAUSE_LAUNCH_INTERRUPTED});
  }
  // The coordinator has it, and every later status would carry it.
  if (attempt.prepares) attempt.status.mutable_preparation()->clear_setup_output();
  PrepareOrWait(step, attempt);
  Report(step, attempt);
}

void OnStop(Step& step, const v1::StopAttempt& stop) {
  const AttemptKey key = KeyIn(stop);
  if (step.Find(key) == nullptr) {
    if (const std::string why = Superseded(step.state, key); !why.empty()) {
      return AnswerEnded(step, key, why);
    }
    // Kept as ended, so that a launch that its own stop has overtaken starts nothing.
    return EndAttempt(step, step.FindOrAdd(key), {"never launched", "", {}});
  }
  StopAttemptHere(step, *step.Find(key), {stop.grace_ms(), stop.cause(), stop.reason()});
}

void OnSignal(Step& step, const v1::SignalAttempt& signal) {
  const Attempt* attempt = step.Find(KeyIn(signal));
  if (attempt == nullptr || !HasShim(*attempt)) return;
  step.Do(SignalShimAction{KeyIn(signal), signal.signal()});
}

void OnDiagnose(Step& step, const v1::DiagnoseAttempt& diagnose) {
  const Attempt* attempt = step.Find(KeyIn(diagnose));
  if (attempt == nullptr || !HasShim(*attempt)) return;
  step.Do(DiagnoseAction{KeyIn(diagnose), diagnose.number(), diagnose.reason()});
}

void OnSave(Step& step, const v1::SaveAttempt& save) {
  const Attempt* attempt = step.Find(KeyIn(save));
  if (attempt == nullptr || !HasShim(*attempt)) return;
  step.Do(RequestSaveAction{KeyIn(save)});
}

void OnForget(Step& step, const v1::ForgetAttempt& forget) {
  const AttemptKey key = KeyIn(forget);
  Attempt* attempt = step.Find(key);
  if (attempt == nullptr) return;
  attempt->forget_wanted = true;
  // The coordinator considers it ended (fenced by time, declared dead): whatever is still running
  // must stop.
  if (IsLive(*attempt)) {
    return StopAttemptHere(
        step, *attempt,
        {0, v1::STOP_CAUSE_NODE_LOST, "the coordinator no longer has this attempt"});
  }
  MaybeForget(step, key);
}

}  // namespace

void OnCommand(Step& step, const v1::CoordinatorMessage& message) {
  WorkerState& state = step.state;
  if (message.epoch() < state.highest_epoch) {
    ++state.stale_commands;
    step.Do(ResetLinkAction{absl::StrCat("the coordinator has epoch ", message.epoch(),
                                         ", but this worker has taken commands of epoch ",
                                         state.highest_epoch,
                                         "; is an old coordinator still running?")});
    return;
  }
  if (message.epoch() > state.highest_epoch) {
    state.highest_epoch = message.epoch();
    step.Do(PersistEpochAction{message.epoch()});
  }
  state.contact.last_heard_mono_ms = step.now.mono_ms;
  if (!Defer(step, message)) Obey(step, message);
}

void Obey(Step& step, const v1::CoordinatorMessage& message) {
  switch (message.what_case()) {
    case v1::CoordinatorMessage::kRegistered:
      return OnRegistered(step, message.registered());
    case v1::CoordinatorMessage::kPrepare:
      return OnPrepareAttempt(step, message.prepare());
    case v1::CoordinatorMessage::kLaunch:
      return OnLaunch(step, message.launch());
    case v1::CoordinatorMessage::kStop:
      return OnStop(step, message.stop());
    case v1::CoordinatorMessage::kSignal:
      return OnSignal(step, message.signal());
    case v1::CoordinatorMessage::kDiagnose:
      return OnDiagnose(step, message.diagnose());
    case v1::CoordinatorMessage::kSave:
      return OnSave(step, message.save());
    case v1::CoordinatorMessage::kRunNotify:
      return step.Do(RunNotifyAction{message.run_notify()});
    case v1::CoordinatorMessage::kForget:
      return OnForget(step, message.forget());
    case v1::CoordinatorMessage::kCheckpointAck:
      return OnCheckpointAck(step, message.checkpoint_ack());
    case v1::CoordinatorMessage::kHeartbeatReply:
      return OnHeartbeatReply(step, message.heartbeat_reply());
    case v1::CoordinatorMessage::WHAT_NOT_SET:  // from a newer coordinator
      return;
  }
}

void OnDiagnosis(Step& step, const DiagnosisInput& input) {
  if (input.number == 0 || step.Find(input.key) == nullptr) return;
  v1::WorkerMessage message;
  v1::RankDiagnosis* diagnosis = message.mutable_diagnosis();
  diagnosis->set_job(input.key.job);
  diagnosis->set_attempt(input.key.attempt);
  diagnosis->set_rank(input.rank);
  diagnosis->set_number(input.number);
  diagnosis->set_record(input.record);
  Send(step, std::move(message));
}

// Without a link it is lost; the coordinator then asks again.
void OnNotifyEnded(Step& step, const NotifyEndedInput& input) {
  v1::WorkerMessage message;
  *message.mutable_notify_ended() = input.ended;
  Send(step, std::move(message));
}

void OnPreparing(Step& step, const PreparingInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || attempt->stage != Stage::kPreparing || attempt->status.ready()) return;
  if (attempt->status.preparation().doing() == input.doing) return;
  attempt->status.mutable_preparation()->set_doing(input.doing);
  Report(step, *attempt);
}

void OnAttemptPrepared(Step& step, const AttemptPreparedInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || attempt->stage != Stage::kPreparing) {
    step.Do(ReleaseRendezvousAction{input.key});
    return;
  }
  attempt->status.clear_preparation();
  if (attempt->prepares) {
    *attempt->status.mutable_preparation() = input.preparation;
    attempt->status.mutable_preparation()->clear_doing();
  }
  if (!input.failure.empty()) {
    return EndAttempt(
        step, *attempt,
        {HowNeverLaunched(input.is_short), input.failure, CauseOf(input.would_fail_again)});
  }
  attempt->status.set_master_port(input.port);
  attempt->status.set_rendezvous_secret(input.secret);
  attempt->status.set_ready(true);
  Report(step, *attempt);
}

void OnLaunchRecorded(Step& step, const LaunchRecordedInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || attempt->stage != Stage::kRecording) return;
  if (!input.failure.empty()) {
    return EndAttempt(
        step, *attempt,
        {HowNeverLaunched(input.is_short), input.failure, CauseOf(input.would_fail_again)});
  }
  if (!Resumes(attempt->launch)) return SpawnNow(step, *attempt);
  Move(*attempt, Change::kFetch);
  step.Do(FetchAction{input.key});
}

void OnFetched(Step& step, const FetchedInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || attempt->stage != Stage::kFetching) return;
  if (input.failure.empty()) return SpawnNow(step, *attempt);
  attempt->status.set_resume_damaged(input.damaged);
  EndAttempt(step, *attempt,
             {"never launched",
              absl::StrCat("cannot fetch checkpoint step-", attempt->launch.resume_step(), ": ",
                           input.failure),
              v1::STOP_CAUSE_LAUNCH_INTERRUPTED});
}

}  // namespace muster::worker
