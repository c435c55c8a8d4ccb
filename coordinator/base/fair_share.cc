#include "coordinator/base/fair_share.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace muster::coordinator {

FairShare::Verdict FairShare::Ask(std::string_view caller, size_t amount) const {
  const size_t own = Of(caller);
  if (own + amount > limits_.of_one) return Verdict::kOverShare;
  const size_t free = limits_.most - std::min(limits_.most, taken_);
  if (own + amount <= free) return Verdict::kRoom;
  return own == 0 ? Verdict::kFull : Verdict::kOverShare;
}

void FairShare::Take(std::string_view caller, size_t amount) {
  if (amount == 0) return;
  size_t& own = callers_.try_emplace(std::string(caller)).first->second;
  taken_ += Counted(own + amount) - Counted(own);
  own += amount;
}

void FairShare::Release(std::string_view caller, size_t amount) {
  const auto found = callers_.find(caller);
  if (found == callers_.end()) return;
  const size_t left = found->second - std::min(found->second, amount);
  taken_ -= Counted(found->second) - Counted(left);
  found->second = left;
  if (left == 0) callers_.erase(found);
}

size_t FairShare::Of(std::string_view caller) const {
  const auto found = callers_.find(caller);
  return found == callers_.end() ? 0 : found->second;
}

std::optional<std::string> FairShare::WhoHasMost() const {
  const auto most =
      std::max_element(callers_.begin(), callers_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == callers_.end()) return std::nullopt;
  return most->first;
}

std::optional<std::string> FairShare::WhoYields(std::string_view caller) const {
  std::optional<std::string> most = WhoHasMost();
  if (!most.has_value() || Of(*most) < Of(caller) + 2) return std::nullopt;
  return most;
}

struct FairPlaces::State {
  explicit State(const FairShare::Limits& limits) : share(limits) {}
  std::mutex mutex;  // guards what follows
  FairShare share;
};

FairPlaces::FairPlaces(const FairShare::Limits& limits) : state_(std::make_shared<State>(limits)) {}

const FairShare::Limits& FairPlaces::limits() const { return state_->share.limits(); }

FairPlaces::Answer FairPlaces::Take(const std::string& caller) {
  const std::lock_guard lock(state_->mutex);
  const FairShare::Verdict verdict = state_->share.Ask(caller);
  if (verdict != FairShare::Verdict::kRoom) return {.verdict = verdict, .place = nullptr};
  state_->share.Take(caller);
  return {.verdict = verdict,
          .place = std::shared_ptr<void>(state_.get(), [state = state_, caller](void*) {
            const std::lock_guard release(state->mutex);
            state->share.Release(caller);
          })};
}

}  // namespace muster::coordinator
