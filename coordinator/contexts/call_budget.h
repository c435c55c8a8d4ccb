// Limits the memory that calls in progress hold: in all, and a share of that for one caller. Every call passes
// here, over gRPC and HTTP; its row has its cost (common/calls.h). People have one budget, nodes another.
//
// A call with one answer waits for its caller's others to end, as it would for a busy server. One that would wait
// behind too many is refused, and so is a stream, which may last for days. Any thread; never blocks.
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/calls.h"
#include "coordinator/base/fair_share.h"

namespace muster::coordinator {

size_t BytesOf(common::Cost cost);
// The cost of this call: a search costs more than its row states.
common::Cost CostOf(common::Cost row, const google::protobuf::Message& request);
// The same in bytes, with the request, which a stream keeps.
size_t BytesOfStream(common::Cost row, const google::protobuf::Message& request);

class CallBudget {
 public:
  struct Limits {
    // limit: calls: memory of all calls under way, by the cost of each call's row in `common/calls.h`; a call with
    // one answer waits, a stream is refused (JC1308)
    size_t all = 1 << 30;
    // limit: calls: the same of one caller; each node with a certificate has its own share
    size_t of_one = 512 << 20;
    // limit: calls: one caller's requests that wait; refused (JC1308)
    size_t waiting_of_one = 32 << 20;  // requests that wait, including the overhead of each
    // What a caller can do that has its share.
    std::string fix =
        "end some of the streams that are open, such as jobctl logs -f, or try again later";
  };
  CallBudget() : CallBudget(Limits()) {}
  explicit CallBudget(const Limits& limits);

  // A call's memory, held until the last copy is gone.
  using Hold = std::shared_ptr<void>;
  // RESOURCE_EXHAUSTED (JC1308): the caller has its share, or there is nothing left.
  absl::StatusOr<Hold> Take(const std::string& caller, size_t bytes);
  // Runs it with the hold, now or once the caller's share has room; or with Take's error, if too many of the caller's
  // requests wait. `kept`: the bytes that the request takes while it waits.
  void Begin(const std::string& caller, size_t bytes, size_t kept,
             std::function<void(absl::StatusOr<Hold>)> run);

  size_t Bytes() const;
  // The most that was held since this was called last.
  size_t TakePeak();

 private:
  struct Waiting {
    size_t bytes = 0;
    size_t kept = 0;
    std::function<void(absl::StatusOr<Hold>)> run;
  };
  struct Line {
    std::deque<Waiting> waiting;
    size_t kept = 0;
  };
  struct State;
  static Hold HoldOf(const std::shared_ptr<State>& state, const std::string& caller, size_t bytes);
  // With the lock held: the first one for which there is room now.
  static std::optional<std::pair<Waiting, Hold>> NextWaiting(const std::shared_ptr<State>& state);
  static void Release(const std::shared_ptr<State>& state, const std::string& caller, size_t bytes);

  const std::shared_ptr<State> state_;  // holds may outlive this
};

}  // namespace muster::coordinator
