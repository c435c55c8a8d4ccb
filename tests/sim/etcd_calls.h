// A head's calls to etcd, as coordinator/etcd/client.cc makes them: at one member after the other until one answers or
// the time is over. Requests and answers are late or lost; one that its caller gave up may still be done.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/sim_etcd.h"

namespace muster::sim {

class EtcdCalls {
 public:
  struct Process {
    std::function<int64_t()> mono_ms;  // its clock
    // Does something after a while, by its clock, if the process is still there; while it is stopped: afterwards.
    std::function<void(int64_t ms, std::function<void()>)> after;
    // What does something in the process, from outside.
    std::function<std::function<void()>(std::function<void()>)> inside;
  };
  EtcdCalls(EventQueue& queue, SimEtcd& etcd, Process process)
      : queue_(queue), etcd_(etcd), process_(std::move(process)) {}

  // No answer comes back. What is sent gets lost; or may arrive late, when the caller no longer waits for it.
  void Cut(bool is_cut) {
    is_cut_ = is_cut;
    leaks_ = queue_.Chance(0.3) ? 0 : 0.7;
  }
  bool is_cut() const { return is_cut_; }

  template <typename Answer>
  void Call(int64_t within_ms, std::function<absl::StatusOr<Answer>(SimEtcd&)> serve,
            std::function<void(absl::StatusOr<Answer>)> done) {
    auto call = std::make_shared<Try>();
    call->serve = [serve = std::move(serve)](SimEtcd& etcd) -> absl::StatusOr<std::any> {
      absl::StatusOr<Answer> answer = serve(etcd);
      if (!answer.ok()) return answer.status();
      return std::any(*std::move(answer));
    };
    call->done = [done = std::move(done)](absl::StatusOr<std::any> answer) {
      answer.ok() ? done(std::any_cast<Answer>(*answer)) : done(answer.status());
    };
    call->end_ms = process_.mono_ms() + within_ms;
    Ask(call);
  }

 private:
  struct Try {
    std::function<absl::StatusOr<std::any>(SimEtcd&)> serve;
    std::function<void(absl::StatusOr<std::any>)> done;
    int64_t end_ms = 0;
    int tries = 0;
  };
  void Ask(const std::shared_ptr<Try>& call);
  void Send(const std::shared_ptr<Try>& call, const std::shared_ptr<bool>& is_over);
  int64_t Latency();

  EventQueue& queue_;
  SimEtcd& etcd_;
  const Process process_;
  bool is_cut_ = false;
  double leaks_ = 0;
};

}  // namespace muster::sim
