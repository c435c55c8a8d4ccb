#include "coordinator/contexts/planner.h"

#include <atomic>
#include <chrono>
#include <utility>

#include "coordinator/contexts/contexts.h"
#include "coordinator/core/plan.h"

namespace muster::coordinator {
namespace {

// Of the time of one thread, forecasts take at most a tenth, however many callers ask.
constexpr int64_t kRest = 10;
// A caller waits for a forecast that another one makes if the last one was as quick as this.
constexpr int64_t kWorthWaitingMs = 50;

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct Planner::Batch {
  Batch(SchedulingState shared, Now at) : state(std::move(shared)), now(at) {}

  const SchedulingState state;
  const Now now;
  std::vector<Question> questions;
  std::atomic<size_t> unanswered = 0;
};

void Planner::Plan(Jobs& jobs, Process& process, const SubmitInput& input,
                   const std::function<void(absl::StatusOr<v1::PlanJobResponse>)>& done) {
  Look(jobs, process,
       {.owner = input.caller.principal,
        .look = [input, done](const View& view) { done(PlanSubmit(view.state, input, view.now)); },
        .refuse = done});
}

void Planner::Look(Jobs& jobs, Process& process, Question question) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(question));
    if (std::exchange(is_busy_, true)) return;
  }
  Ask(jobs, process);
}

void Planner::Ask(Jobs& jobs, Process& process) {
  const auto taken = std::make_shared<std::vector<Question>>();
  jobs.loop.Ask(
      [this, &jobs, &process, taken](const LoopView& view) -> std::function<void()> {
        const auto batch = std::make_shared<Batch>(ShareForPlans(view.state), view.now);
        // Those that came before the state is shared; later ones get a later state.
        *taken = TakeAll();
        batch->questions = *taken;
        batch->unanswered = batch->questions.size();
        return [this, &jobs, &process, batch] {
          for (const Question& question : batch->questions) {
            process.reads.Post(
                [this, &jobs, &process, batch, &question] {
                  question.look({.state = batch->state, .now = batch->now, .planner = *this});
                  if (--batch->unanswered == 0) Finish(jobs, process);
                },
                question.owner);
          }
        };
      },
      [this, &jobs, &process, taken](const absl::Status& why) {
        if (taken->empty()) *taken = TakeAll();
        for (const Question& question : *taken) question.refuse(why);
        Finish(jobs, process);
      });
}

void Planner::Finish(Jobs& jobs, Process& process) {
  {
    std::lock_guard lock(mutex_);
    is_busy_ = !waiting_.empty();
    if (!is_busy_) return;
  }
  Ask(jobs, process);
}

std::vector<Planner::Question> Planner::TakeAll() {
  std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

std::shared_ptr<const StartsByJob> Planner::StartsOf(const SchedulingState& state, Now now) {
  std::unique_lock turn(forecasting_, std::defer_lock);
  if (last_took_ms_ > kWorthWaitingMs ? !turn.try_lock() : (turn.lock(), false)) {
    std::lock_guard lock(newest_mutex_);
    return newest_;
  }
  {
    std::lock_guard lock(newest_mutex_);
    if (NowMs() < newest_until_ms_) return newest_;
  }
  const int64_t begun_ms = NowMs();
  auto starts = std::make_shared<const StartsByJob>(ForeseeStarts(state, now));
  last_took_ms_ = NowMs() - begun_ms;
  std::lock_guard lock(newest_mutex_);
  newest_ = std::move(starts);
  newest_until_ms_ = NowMs() + kRest * last_took_ms_;
  return newest_;
}

}  // namespace muster::coordinator
