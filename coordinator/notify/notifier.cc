#include "coordinator/notify/notifier.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/core/state.h"
#include "coordinator/notify/message.h"

namespace muster::coordinator {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr uint32_t kEventsMissedMax = 1'000'000;
constexpr std::chrono::seconds kStoreAgainAfter{5};

bool IsEnd(const v1::Event& event) {
  return event.has_job_state_changed() && IsFinal(event.job_state_changed().to());
}

}  // namespace

Notifier::Notifier(Options options, JobIndex& index, const common::Clock& clock)
    : options_(std::move(options)), index_(index), clock_(clock) {}

absl::Status Notifier::Start(ControlLoop& loop) {
  RETURN_IF_ERROR(Load());
  loop.Ask([this](const LoopView& view) -> std::function<void()> {
    WatchToken token = view.watches.WatchEvents([this](const auto& events) {
      // Counted before the loop can say that no job is live any more.
      const bool any_end = std::any_of(events->begin(), events->end(), IsEnd);
      untried_ += any_end ? 1 : 0;
      keeper_.Post([this, events, any_end] {
        TakeEvents(*events);
        untried_ -= any_end ? 1 : 0;
      });
    });
    return [this, token = std::move(token), until = view.state.next_seq - 1] {
      keeper_.Post([this, token, until] {
        token_ = token;
        CatchUp(until);
      });
    };
  });
  return absl::OkStatus();
}

void Notifier::Stop() {
  if (stopping_.exchange(true)) return;
  posts_.Stop();
  keeper_.Stop();
  token_ = nullptr;
  if (has_cursor_) Save();
}

// "cursor 1234", then a line "JOB ENTRY SINCE_MS" for each delivery.
absl::Status Notifier::Load() {
  if (!common::Exists(options_.path)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, common::ReadFile(options_.path));
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    Key key;
    Pending pending;
    if (words.size() == 2 && words[0] == "cursor" && absl::SimpleAtoi(words[1], &cursor_)) {
      has_cursor_ = true;
    } else if (words.size() == 3 && absl::SimpleAtoi(words[0], &key.first) &&
               absl::SimpleAtoi(words[1], &key.second) &&
               absl::SimpleAtoi(words[2], &pending.since_ms) && pending_.size() < kPendingMax) {
      pending_[key] = pending;
    } else {
      common::LogWarning(StrCat("a line of ", options_.path, " is not understood and skipped"));
    }
  }
  untried_ = pending_.size();
  return absl::OkStatus();
}

void Notifier::Save() {
  std::string text = StrCat("cursor ", cursor_, "\n");
  for (const auto& [key, pending] : pending_)
    StrAppend(&text, key.first, " ", key.second, " ", pending.since_ms, "\n");
  const absl::Status saved = common::WriteFileDurably(options_.path, text);
  // What was delivered since the last save is delivered again after a crash: at least once.
  if (!saved.ok()) common::LogWarning(std::string(saved.message()));
}

void Notifier::CatchUp(uint64_t until) {
  // One that cannot be tried is dropped from the map.
  std::vector<Key> keys;
  for (const auto& [key, pending] : pending_) keys.push_back(key);
  for (const Key& key : keys) Try(key);
  LookBack(until);
}

void Notifier::LookBack(uint64_t until) {
  if (!has_cursor_) {
    has_cursor_ = true;
    cursor_ = std::max(cursor_, until);
    return Save();
  }
  const absl::StatusOr<std::vector<v1::Event>> missed = index_.Events(
      {.after = std::min(cursor_, until), .until = until, .newest = kEventsMissedMax});
  if (missed.ok()) return TakeEvents(*missed);
  keeper_.PostAfter(kStoreAgainAfter, [this, until] { LookBack(until); });
}

void Notifier::TakeEvents(const std::vector<v1::Event>& events) {
  const size_t before = pending_.size();
  for (const v1::Event& event : events) {
    cursor_ = std::max(cursor_, event.seq());
    if (IsEnd(event)) TakeEnd(event.job(), event.job_state_changed().to());
  }
  if (pending_.size() != before) Save();
}

void Notifier::TakeEnd(uint64_t job, v1::JobState state) {
  const absl::StatusOr<std::optional<v1::JobRecord>> record = index_.Find(job);
  if (!record.ok()) {
    keeper_.PostAfter(kStoreAgainAfter, [this, job, state] { TakeEnd(job, state); });
    return;
  }
  if (!record->has_value()) return;
  for (int i = 0; i < (*record)->spec().notify_size(); ++i) {
    if (!Wants((*record)->spec().notify(i), state)) continue;
    if (pending_.size() == kPendingMax) {
      common::LogWarning(StrCat("job=", job, ": not notified: ", kPendingMax, " others wait"));
      continue;
    }
    if (!pending_.try_emplace({job, i}, Pending{.since_ms = clock_.Read().wall_ms}).second)
      continue;
    ++untried_;
    keeper_.Post([this, key = Key{job, i}] { Try(key); });
  }
}

void Notifier::Try(const Key& key) {
  const auto pending = pending_.find(key);
  if (pending == pending_.end() || stopping_) return;
  const absl::StatusOr<std::optional<v1::JobRecord>> record = index_.Find(key.first);
  if (!record.ok()) return Finish(key, record.status());
  // Removed meanwhile: nobody asks any more.
  if (!record->has_value() || (*record)->spec().notify_size() <= key.second) return Drop(key);
  absl::StatusOr<PostRequest> request =
      MakePost(**record, (*record)->spec().notify(key.second),
               StrCat(options_.cluster_id, "-", key.first, "-", key.second));
  if (!request.ok()) return Drop(key);
  posts_.Post([this, key, request = *std::move(request)] {
    absl::StatusOr<int> answer = Post(request, options_.allowed, stopping_);
    keeper_.Post([this, key, answer = std::move(answer)] { Finish(key, answer); });
  });
}

void Notifier::Finish(const Key& key, const absl::StatusOr<int>& answer) {
  const auto found = pending_.find(key);
  if (found == pending_.end() || absl::IsCancelled(answer.status())) return;
  Pending& pending = found->second;
  if (pending.tries++ == 0) --untried_;
  if (answer.ok() && IsDelivered(*answer)) return Drop(key);
  const std::string why =
      answer.ok() ? StrCat("it answered ", *answer) : common::MessageOf(answer.status());
  const bool for_good = (answer.ok() && IsRefused(*answer)) ||
                        absl::IsPermissionDenied(answer.status()) ||
                        clock_.Read().wall_ms - pending.since_ms > kGiveUpAfterMs;
  if (for_good || pending.tries == 1) {
    common::LogWarning(StrCat("job=", key.first, " notify=", key.second, ": the webhook ",
                              for_good ? "is given up: " : "is tried again: ", why));
  }
  if (for_good) return Drop(key);
  keeper_.PostAfter(std::chrono::milliseconds(PauseMs(pending.tries, options_.first_pause_ms)),
                    [this, key] { Try(key); });
}

void Notifier::Drop(const Key& key) {
  const auto found = pending_.find(key);
  if (found == pending_.end()) return;
  if (found->second.tries == 0) --untried_;
  pending_.erase(found);
  Save();
}

}  // namespace muster::coordinator
