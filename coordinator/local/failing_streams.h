// The streams of a store whose files failed: until when the store accepts nothing for each, and whose messages
// it did not keep. Such a sender is told to resend once the stream is retried. Until it does so with a new
// Uploader, the store accepts nothing more from it, because earlier messages would be missing. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/stores/stream_failures.h"

namespace muster::coordinator {

// `what`: whose stream, such as "the output of job 3 attempt 0 rank 1".
inline common::Problem FileFailed(const std::string& what, const absl::Status& why,
                                  int64_t pause_ms) {
  const std::string again =
      pause_ms == 0 ? " is sent again" : common::StrCat(" waits up to ", pause_ms / 1'000, " s");
  return {.code = "JC1626",
          .what = common::StrCat(what, again, ": its file failed"),
          .why = std::string(why.message()),
          .fix = "check the disk; muster-coordinator check names what cannot be read"};
}

template <typename Key, typename Uploader>
class FailingStreams {
 public:
  // limit: logs: first pause of a stream whose file failed again; it alone waits in its workers' spools
  static constexpr int64_t kFirstPauseMs = 1'000;
  // limit: logs: the longest such pause
  static constexpr int64_t kPauseMaxMs = 64'000;
  static constexpr int64_t kForgivenAfterMs = 10'000;

  // `failures` gets every stream that waits; may be null.
  explicit FailingStreams(StreamFailures* failures = nullptr) : failures_(failures) {}

  // Call it when the stream's file failed. It is retried after a pause that doubles with each
  // failure. Returns the pause: 0 the first time.
  int64_t Failed(const Key& key, int64_t now_ms);
  // Messages that this sender sent for the stream and that were not acknowledged are not kept.
  void Owe(const Key& key, const std::weak_ptr<Uploader>& uploader);
  // Whether the store may accept this sender's messages for the stream. False: they are owed, so
  // the sender has to resend them.
  bool Takes(const Key& key, const std::weak_ptr<Uploader>& uploader, int64_t now_ms);
  // Reports that the stream waits for `pause_ms`, as Failed returned.
  void Tell(const StreamFailures::Failure& failure, int64_t pause_ms) const {
    if (failures_ != nullptr && pause_ms > 0)
      failures_->Failed(failure, 2 * pause_ms + kForgivenAfterMs);
  }
  // The senders that have to resend now.
  std::vector<std::shared_ptr<Uploader>> TakeDue(int64_t now_ms);
  int64_t DueMs() const { return due_ms_; }  // 0: no stream waits

 private:
  struct Failing {
    int64_t failed_ms = 0;
    int64_t pause_ms = 0;
    int64_t until_ms = 0;
    // The senders that have to resend. A sender leaves the set when it is destroyed.
    std::set<std::weak_ptr<Uploader>, std::owner_less<>> owed;
    bool are_told = false;
  };

  static bool IsForgiven(const Failing& failing, int64_t now_ms) {
    return now_ms - failing.failed_ms >= 2 * failing.pause_ms + kForgivenAfterMs;
  }
  void DueBy(int64_t at_ms) { due_ms_ = due_ms_ == 0 ? at_ms : std::min(due_ms_, at_ms); }

  StreamFailures* const failures_;
  std::map<Key, Failing> failing_;
  int64_t due_ms_ = 0;
};

template <typename Key, typename Uploader>
int64_t FailingStreams<Key, Uploader>::Failed(const Key& key, int64_t now_ms) {
  const auto [found, is_first] = failing_.try_emplace(key);
  Failing& failing = found->second;
  failing.pause_ms = is_first || IsForgiven(failing, now_ms)
                         ? 0
                         : std::clamp(2 * failing.pause_ms, kFirstPauseMs, kPauseMaxMs);
  failing.failed_ms = failing.until_ms = now_ms;
  // On a grid, so that the senders of many streams are told at the same time, and reconnect once.
  if (failing.pause_ms > 0) {
    failing.until_ms = (now_ms / failing.pause_ms + 1) * failing.pause_ms;
  }
  failing.are_told = false;
  DueBy(failing.until_ms);
  return failing.pause_ms;
}

template <typename Key, typename Uploader>
void FailingStreams<Key, Uploader>::Owe(const Key& key, const std::weak_ptr<Uploader>& uploader) {
  failing_.at(key).owed.insert(uploader);
}

template <typename Key, typename Uploader>
bool FailingStreams<Key, Uploader>::Takes(const Key& key, const std::weak_ptr<Uploader>& uploader,
                                          int64_t now_ms) {
  const auto found = failing_.find(key);
  if (found == failing_.end()) return true;
  Failing& failing = found->second;
  if (failing.owed.contains(uploader)) return false;
  if (now_ms >= failing.until_ms) return true;
  failing.owed.insert(uploader);
  return false;
}

template <typename Key, typename Uploader>
std::vector<std::shared_ptr<Uploader>> FailingStreams<Key, Uploader>::TakeDue(int64_t now_ms) {
  std::set<std::shared_ptr<Uploader>> due;
  due_ms_ = 0;
  for (auto at = failing_.begin(); at != failing_.end();) {
    Failing& failing = at->second;
    std::erase_if(failing.owed, [](const auto& uploader) { return uploader.expired(); });
    if (!failing.are_told && now_ms >= failing.until_ms) {
      failing.are_told = true;
      for (const auto& uploader : failing.owed) {
        if (auto alive = uploader.lock()) due.insert(std::move(alive));
      }
    }
    if (!failing.are_told) DueBy(failing.until_ms);
    const bool is_over = failing.are_told && failing.owed.empty() && IsForgiven(failing, now_ms);
    at = is_over ? failing_.erase(at) : std::next(at);
  }
  return {due.begin(), due.end()};
}

}  // namespace muster::coordinator
