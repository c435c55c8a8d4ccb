#include "coordinator/contexts/call_budget.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {
namespace {

using common::Cost;

// The memory of a call that waits, in addition to its request.
constexpr size_t kWaitingOverhead = 1'024;

}  // namespace

size_t BytesOf(Cost cost) {
  switch (cost) {
    case Cost::kSmall:
      return 64 << 10;
    case Cost::kSpec:
      return 512 << 10;
    case Cost::kAnswer:
      return 4 << 20;
    case Cost::kWatch:
      return 128 << 10;
    case Cost::kStream:
      return 1 << 20;
    case Cost::kSearch:
      return 10 << 20;
    case Cost::kSubmits:
      return 16 << 20;
    case Cost::kCompare:
      return 96 << 20;
    case Cost::kUpload:
      return 12 << 20;
    case Cost::kControl:
      return 64 << 20;
  }
  return 0;
}

Cost CostOf(Cost row, const google::protobuf::Message& request) {
  if (request.GetDescriptor() != v1::StreamLogsRequest::descriptor()) return row;
  return static_cast<const v1::StreamLogsRequest&>(request).has_filter() ? Cost::kSearch : row;
}

size_t BytesOfStream(Cost row, const google::protobuf::Message& request) {
  return BytesOf(CostOf(row, request)) + request.ByteSizeLong();
}

struct CallBudget::State {
  explicit State(const Limits& limits)
      : share({.most = limits.all, .of_one = limits.of_one}),
        waiting_of_one(limits.waiting_of_one),
        fix(limits.fix) {}

  size_t of_one() const { return share.limits().of_one; }

  std::mutex mutex;  // guards what follows
  FairShare share;
  const size_t waiting_of_one;
  const std::string fix;
  std::map<std::string, Line> lines;  // none is empty
  bool is_starting = false;
  size_t peak = 0;
};

CallBudget::CallBudget(const Limits& limits) : state_(std::make_shared<State>(limits)) {}

absl::StatusOr<CallBudget::Hold> CallBudget::Take(const std::string& caller, size_t bytes) {
  std::unique_lock lock(state_->mutex);
  const FairShare::Verdict verdict = state_->share.Ask(caller, bytes);
  if (verdict == FairShare::Verdict::kRoom) {
    Hold hold = HoldOf(state_, caller, bytes);
    return hold;
  }
  const size_t own = state_->share.Of(caller);
  lock.unlock();
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1308",
       .what = verdict == FairShare::Verdict::kOverShare
                   ? common::StrCat("the calls of ", caller, " that are under way may take ",
                                    common::HumanBytes(own),
                                    " of the coordinator's memory, and one "
                                    "caller's share is ",
                                    common::HumanBytes(state_->of_one()))
                   : "the coordinator has as many calls under way as it takes",
       .fix = state_->fix});
}

void CallBudget::Begin(const std::string& caller, size_t bytes, size_t kept,
                       std::function<void(absl::StatusOr<Hold>)> run) {
  kept += kWaitingOverhead;
  std::unique_lock lock(state_->mutex);
  const auto line = state_->lines.find(caller);
  const size_t waits = line == state_->lines.end() ? 0 : line->second.kept;
  if (waits == 0 && state_->share.Ask(caller, bytes) == FairShare::Verdict::kRoom) {
    Hold hold = HoldOf(state_, caller, bytes);
    lock.unlock();
    return run(std::move(hold));
  }
  // A call does not wait if none of its caller's calls in progress could make room for it.
  if (waits + kept > state_->waiting_of_one || (waits == 0 && state_->share.Of(caller) == 0)) {
    lock.unlock();
    return run(Take(caller, bytes));
  }
  Line& own = state_->lines[caller];
  own.kept += kept;
  own.waiting.push_back({bytes, kept, std::move(run)});
}

CallBudget::Hold CallBudget::HoldOf(const std::shared_ptr<State>& state, const std::string& caller,
                                    size_t bytes) {
  state->share.Take(caller, bytes);
  state->peak = std::max(state->peak, state->share.taken());
  return Hold(state.get(), [state, caller, bytes](void*) { Release(state, caller, bytes); });
}

// A call may end within `run` and so reenter this function: the loop already running takes its turn.
void CallBudget::Release(const std::shared_ptr<State>& state, const std::string& caller,
                         size_t bytes) {
  std::unique_lock lock(state->mutex);
  state->share.Release(caller, bytes);
  if (std::exchange(state->is_starting, true)) return;
  while (std::optional<std::pair<Waiting, Hold>> next = NextWaiting(state)) {
    lock.unlock();
    next->first.run(std::move(next->second));
    next.reset();
    lock.lock();
  }
  state->is_starting = false;
}

std::optional<std::pair<CallBudget::Waiting, CallBudget::Hold>> CallBudget::NextWaiting(
    const std::shared_ptr<State>& state) {
  for (auto line = state->lines.begin(); line != state->lines.end(); ++line) {
    Line& own = line->second;
    if (state->share.Ask(line->first, own.waiting.front().bytes) != FairShare::Verdict::kRoom) {
      continue;
    }
    Waiting next = std::move(own.waiting.front());
    own.waiting.pop_front();
    own.kept -= next.kept;
    Hold hold = HoldOf(state, line->first, next.bytes);
    if (own.waiting.empty()) state->lines.erase(line);
    return std::pair(std::move(next), std::move(hold));
  }
  return std::nullopt;
}

size_t CallBudget::Bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->share.taken();
}

size_t CallBudget::TakePeak() {
  std::lock_guard lock(state_->mutex);
  return std::exchange(state_->peak, state_->share.taken());
}

}  // namespace muster::coordinator
