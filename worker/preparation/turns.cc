#include "worker/preparation/turns.h"

#include <chrono>
#include <utility>

namespace muster::worker {
namespace {

constexpr std::chrono::milliseconds kTurnSlice{100};  // how soon a stop is noticed

}  // namespace

absl::StatusOr<Turns::Turn> Turns::Take(const std::string& name, const Progress& progress) {
  while (true) {
    std::string doing;
    {
      std::unique_lock<std::mutex> lock(state_->mutex);
      state_->left.wait_for(lock, kTurnSlice, [&] { return !state_->doing.contains(name); });
      const auto [holder, is_free] = state_->doing.try_emplace(name);
      if (is_free) return Turn(state_, name);
      doing = holder->second;
    }
    if (progress.stopped()) return StoppedStatus();
    if (!doing.empty()) progress.say(doing);
  }
}

Progress Turns::Turn::Shared(const Progress& progress) const {
  Progress shared = progress;
  shared.say = [state = state_, name = name_, say = progress.say](const std::string& text) {
    {
      std::lock_guard<std::mutex> lock(state->mutex);
      state->doing[name] = text;
    }
    say(text);
  };
  return shared;
}

Turns::Turn::~Turn() {
  if (state_ == nullptr) return;
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->doing.erase(name_);
  state_->left.notify_all();
}

}  // namespace muster::worker
