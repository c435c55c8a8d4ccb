// Collects a stream's beginning as one answer, for clients that ask once: ends the stream when enough has
// arrived, or after a while, and reports whether there was more. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "coordinator/contexts/sink.h"
#include "coordinator/http/api/api_calls.h"

namespace muster::coordinator::http {

// Serialized; JSON may take three times as much.
// limit: HTTP: what is collected of a stream; `more`
inline constexpr size_t kCollectedBytesMax = 1 << 20;
// limit: HTTP: messages collected of a stream; `more`
inline constexpr size_t kCollectedMessagesMax = 10'000;
// limit: HTTP: how long a stream is collected; `more`
inline constexpr std::chrono::seconds kCollectedWithin{15};

template <typename T>
class Collected final : public Sink<T> {
 public:
  // Runs work soon, on another thread or after the caller has returned.
  using Later = std::function<void(std::function<void()>)>;

  Collected(Finish finish, Later later) : later_(std::move(later)), finish_(std::move(finish)) {}

  void Write(T message) override {
    bool is_enough = false;
    {
      std::lock_guard lock(mutex_);
      if (is_over_) return;
      bytes_ += message.ByteSizeLong();
      answer_.messages.push_back(std::make_shared<const T>(std::move(message)));
      is_enough = bytes_ >= kCollectedBytesMax || answer_.messages.size() >= kCollectedMessagesMax;
    }
    if (is_enough) End(absl::OkStatus(), true);
  }
  void Close(const absl::Status& status) override { End(status, false); }
  // The stream's time is up.
  void Expire() { End(absl::OkStatus(), true); }

  size_t QueuedBytes() const override {
    std::lock_guard lock(mutex_);
    return bytes_;
  }
  bool Gone() const override {
    std::lock_guard lock(mutex_);
    return is_over_;
  }
  void Observe(std::function<void()> drained, std::function<void()> gone) override {
    {
      std::lock_guard lock(mutex_);
      if (!is_over_) {
        gone_ = std::move(gone);
        return;
      }
    }
    if (gone) gone();
  }

 private:
  void End(const absl::Status& status, bool more) {
    std::function<void()> gone;
    Finish finish;
    ApiAnswer answer;
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(is_over_, true)) return;
      gone.swap(gone_);
      finish.swap(finish_);
      answer = std::move(answer_);
    }
    answer.more = more;
    finish(status, std::move(answer));
    // As over gRPC, not within Write or Close: their caller may hold the lock that `gone` takes.
    if (gone) later_(std::move(gone));
  }

  const Later later_;

  mutable std::mutex mutex_;  // guards what follows
  Finish finish_;
  std::function<void()> gone_;
  ApiAnswer answer_;
  size_t bytes_ = 0;
  bool is_over_ = false;
};

}  // namespace muster::coordinator::http
