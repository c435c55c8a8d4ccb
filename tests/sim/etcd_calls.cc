#include "tests/sim/etcd_calls.h"

#include <algorithm>

namespace muster::sim {
namespace {

// As in coordinator/etcd/client.{h,cc}.
constexpr int64_t kMemberWithinMs = 1'000;
constexpr int64_t kPauseBetweenRoundsMs = 50;
constexpr int kMembers = 3;
constexpr int64_t kLateMs = 10'000;

}  // namespace

int64_t EtcdCalls::Latency() {
  if (!queue_.Chance(0.02)) return queue_.Draw(0, 4);
  return queue_.Chance(0.8) ? queue_.Draw(20, 1'500) : queue_.Draw(1'000, kLateMs);
}

void EtcdCalls::Ask(const std::shared_ptr<Try>& call) {
  const int64_t left_ms = call->end_ms - process_.mono_ms();
  if (left_ms <= 0) return call->done(absl::DeadlineExceededError("etcd does not answer"));
  const auto is_over = std::make_shared<bool>(false);
  process_.after(std::min(left_ms, kMemberWithinMs), [this, call, is_over] {
    if (std::exchange(*is_over, true)) return;
    if (++call->tries % kMembers != 0) return Ask(call);
    process_.after(kPauseBetweenRoundsMs, [this, call] { Ask(call); });
  });
  if (is_cut_ ? queue_.Chance(leaks_) : !queue_.Chance(0.005)) Send(call, is_over);
}

void EtcdCalls::Send(const std::shared_ptr<Try>& call, const std::shared_ptr<bool>& is_over) {
  const auto take = [call, is_over](absl::StatusOr<std::any> answer) {
    if (!std::exchange(*is_over, true)) call->done(std::move(answer));
  };
  // Bound to this run of the process, while the request is not.
  const auto answered = std::make_shared<absl::StatusOr<std::any>>(absl::UnknownError(""));
  std::function<void()> arrives =
      process_.inside([take, answered]() mutable { take(std::move(*answered)); });
  const int64_t latency_ms = is_cut_ ? queue_.Draw(100, kLateMs) : Latency();
  queue_.After(latency_ms, [this, call, answered, arrives = std::move(arrives)] {
    etcd_.Arrive([this, call, answered, arrives] {
      *answered = call->serve(etcd_);
      if (is_cut_ || queue_.Chance(0.005)) return;
      queue_.After(Latency(), [this, arrives] {
        if (!is_cut_) arrives();
      });
    });
  });
}

}  // namespace muster::sim
