// What an accepted worker does about attempts that it does not hold, before its node counts as free
// of them. Pure.
#include <utility>

#include "worker/core/stages.h"
#include "worker/core/steps.h"

namespace muster::worker {
namespace {

std::optional<AttemptKey> KeyToAnswerFor(const v1::CoordinatorMessage& message) {
  switch (message.what_case()) {
    case v1::CoordinatorMessage::kPrepare:
      return AttemptKey{message.prepare().job(), message.prepare().attempt()};
    case v1::CoordinatorMessage::kLaunch:
      return AttemptKey{message.launch().job(), message.launch().attempt()};
    case v1::CoordinatorMessage::kStop:
      return AttemptKey{message.stop().job(), message.stop().attempt()};
    default:
      return std::nullopt;
  }
}

void SayCleared(Step& step) {
  v1::WorkerMessage message;
  v1::Cleared* cleared = message.mutable_cleared();
  for (const auto& [key, attempt] : step.state.attempts) {
    if (!IsToldOf(attempt)) continue;
    v1::Cleared::Held* held = cleared->add_held();
    held->set_job(key.job);
    held->set_attempt(key.attempt);
  }
  Send(step, std::move(message));
}

}  // namespace

bool Defer(Step& step, const v1::CoordinatorMessage& message) {
  const std::optional<AttemptKey> key = KeyToAnswerFor(message);
  if (step.state.cleared || !key || step.Find(*key) != nullptr) return false;
  if (step.state.deferred.size() < kDeferredMax) step.state.deferred.push_back(message);
  return true;
}

void BeginClearing(Step& step, bool again) {
  WorkerState& state = step.state;
  if (again) state.cleared = false;
  if (state.cleared) return;
  state.clearing = true;
  ClearHostAction clear;
  for (const auto& [key, attempt] : state.attempts) {
    if (IsLive(attempt) && !HasShim(attempt)) clear.live.push_back(key);
  }
  step.Do(std::move(clear));
}

void AbandonClearing(Step& step) {
  step.state.deferred.clear();  // they belong to the link that is gone
  if (!std::exchange(step.state.clearing, false)) return;
  step.Do(AbandonClearingAction{});
}

void OnHostCleared(Step& step) {
  WorkerState& state = step.state;
  if (!std::exchange(state.clearing, false)) return;
  state.cleared = true;
  SayCleared(step);
  for (const v1::CoordinatorMessage& message : std::exchange(state.deferred, {})) {
    Obey(step, message);
  }
}

void OnLeftover(Step& step, const LeftoverInput& input) {
  const auto forgotten = step.state.forgotten.find(input.key.job);
  const bool is_forgotten =
      forgotten != step.state.forgotten.end() && input.key.attempt <= forgotten->second;
  if (is_forgotten || step.Find(input.key) != nullptr) return;
  EndAttempt(step, step.FindOrAdd(input.key),
             {"killed without its record", input.failure, v1::STOP_CAUSE_SUPERVISOR_LOST});
}

}  // namespace muster::worker
