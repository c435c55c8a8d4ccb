#include "worker/links/head_rounds.h"

#include <algorithm>
#include <utility>

namespace muster::worker {
namespace {

// After a round that took longer than its pause, so that workers which waited for the same coordinator do not
// redial in step.
constexpr int64_t kLateRoundPauseMaxMs = 100;

int64_t Between(std::mt19937_64& jitter, int64_t from, int64_t to) {
  return std::uniform_int_distribution<int64_t>(from, to)(jitter);
}

}  // namespace

int64_t DialPauseMaxMs(int failures) {
  return std::min<int64_t>(5'000, int64_t{50} << std::min(failures, 10));
}

const std::string& HeadRounds::Next(const std::vector<std::string>& heads, int64_t now_ms) {
  if (left_.empty()) BeginRound(heads, now_ms);
  asked_ = std::move(left_.front());
  left_.pop_front();
  return asked_;
}

void HeadRounds::BeginRound(const std::vector<std::string>& heads, int64_t now_ms) {
  left_.assign(heads.begin(), heads.end());
  has_several_ = heads.size() > 1;
  was_refused_ = false;
  began_ms_ = now_ms;
  // The others in any order: when a leader dies, its workers must not all ask the same one next.
  const auto last_leader = std::find(left_.begin(), left_.end(), leader_);
  if (last_leader != left_.end()) std::rotate(left_.begin(), last_leader, last_leader + 1);
  std::shuffle(left_.begin() + 1, left_.end(), jitter_);
  // Waiting for one that is gone must not delay asking those that are there.
  std::erase_if(unheard_, [&](const std::string& head) {
    return std::find(heads.begin(), heads.end(), head) == heads.end();
  });
  std::stable_partition(left_.begin(), left_.end(),
                        [this](const std::string& head) { return !unheard_.contains(head); });
}

void HeadRounds::Leads() {
  leader_ = asked_;
  is_registered_ = true;
  failures_ = 0;
  left_.clear();
  unheard_.erase(asked_);
}

int64_t HeadRounds::Ended(End end, int64_t now_ms) {
  const bool was_registered = std::exchange(is_registered_, false);
  if (end == End::kRenewed) {
    left_.assign(1, asked_);
    return now_ms;
  }
  // A coordinator that led until now is asked first, because a restart is the most frequent end.
  const bool is_unheard = end == End::kAbandoned || (end == End::kFailed && !was_registered);
  if (is_unheard) {
    unheard_.insert(asked_);
  } else {
    unheard_.erase(asked_);
  }
  was_refused_ = was_refused_ || end == End::kRefused;
  if (!was_registered && !left_.empty()) return now_ms;
  left_.clear();
  if (!has_several_ || was_registered || was_refused_)
    return now_ms + Between(jitter_, 0, DialPauseMaxMs(failures_++));
  return NextRoundMs(now_ms);
}

// The pause counts from the round's begin: a coordinator that does not answer for a second takes that from it.
int64_t HeadRounds::NextRoundMs(int64_t now_ms) {
  const int64_t longest_ms = std::min(kRoundPauseMaxMs, DialPauseMaxMs(failures_++));
  const int64_t due_ms = began_ms_ + Between(jitter_, longest_ms / 2, longest_ms);
  return std::max(due_ms, now_ms + Between(jitter_, 0, std::min(longest_ms, kLateRoundPauseMaxMs)));
}

}  // namespace muster::worker
