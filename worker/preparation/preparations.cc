#include "worker/preparation/preparations.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"

namespace muster::worker {
namespace {

constexpr int64_t kTellEveryMs = 1'000;
constexpr int64_t kPostEveryMs = 200;  // progress numbers do not flood the control loop

// "fetching code" of "fetching code: 120 MB of 2.1 GB".
std::string StepOf(const std::string& doing) { return doing.substr(0, doing.find(':')); }

}  // namespace

// Used only on the preparation's thread.
Progress Preparations::ProgressOf(const AttemptKey& key,
                                  std::shared_ptr<std::atomic<bool>> cancelled) {
  struct Last {
    std::string doing;
    int64_t posted_ms = 0;
  };
  const auto say = [this, key, last = std::make_shared<Last>()](const std::string& doing) {
    const int64_t now_ms = common::MonotonicMs();
    const bool is_new_step = StepOf(doing) != StepOf(last->doing);
    if (doing == last->doing || (!is_new_step && now_ms - last->posted_ms < kPostEveryMs)) return;
    *last = {doing, now_ms};
    callbacks_.in_loop([this, key, doing] { Hear(key, doing); });
  };
  return {.key = key, .say = say, .stopped = [cancelled, stopping = stopping_] {
            return *cancelled || *stopping;
          }};
}

void Preparations::Start(const AttemptKey& key, const v1::PrepareAttempt& order, Done done) {
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  running_[key] = {.cancelled = cancelled, .done = std::move(done), .unsaid = {}};
  threads_->Post(key, Work::kPrepare,
                 [this, order, progress = ProgressOf(key, cancelled), stopping = stopping_] {
                   PreparedNode prepared = PrepareNode(context_, order, progress);
                   if (*stopping) return;
                   callbacks_.in_loop([this, key = progress.key, prepared = std::move(prepared)] {
                     const auto found = running_.find(key);
                     if (found == running_.end()) return;
                     const Running ended = std::move(found->second);
                     running_.erase(found);
                     if (!*ended.cancelled) ended.done(prepared);
                   });
                 });
}

void Preparations::Cancel(const AttemptKey& key) {
  if (const auto found = running_.find(key); found != running_.end())
    *found->second.cancelled = true;
}

void Preparations::Hear(const AttemptKey& key, const std::string& doing) {
  const auto found = running_.find(key);
  if (found == running_.end() || *found->second.cancelled) return;
  found->second.unsaid = doing;
  OnTime(common::MonotonicMs());
}

std::optional<int64_t> Preparations::NextDeadlineMs() const {
  std::optional<int64_t> next;
  for (const auto& [key, running] : running_) {
    if (running.unsaid.empty()) continue;
    next = std::min(next.value_or(running.next_ms), running.next_ms);
  }
  return next;
}

void Preparations::OnTime(int64_t now_ms) {
  for (auto& [key, running] : running_) {
    if (running.unsaid.empty() || now_ms < running.next_ms) continue;
    running.next_ms = now_ms + kTellEveryMs;
    callbacks_.preparing(key, std::exchange(running.unsaid, ""));
  }
}

}  // namespace muster::worker
