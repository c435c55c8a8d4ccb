// Answers questions about the waiting jobs off the control loop's thread: plans, forecasts, why. The loop shares the state
// once for all questions that wait, and each is then answered on a pool, in its caller's turn. The next state is shared
// when all have their answers, so that few copies live at a time. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/forecast.h"
#include "coordinator/core/state/input.h"
#include "coordinator/core/state/state.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

struct Jobs;
struct Process;

class Planner {
 public:
  // What a question looks at.
  struct View {
    const SchedulingState& state;
    Now now;
    Planner& planner;
    // When jobs are expected to start. Costs many passes, so it may be a little older than `state`, or empty while
    // another caller's first one is being made.
    std::shared_ptr<const StartsByJob> Starts() const { return planner.StartsOf(state, now); }
  };
  struct Question {
    std::string owner;  // the caller, for its share of the pool
    std::function<void(const View& view)> look;
    std::function<void(const absl::Status& why)> refuse;
  };

  // `jobs` and `process` outlive the answer.
  void Look(Jobs& jobs, Process& process, Question question);
  // PlanJob.
  void Plan(Jobs& jobs, Process& process, const SubmitInput& input,
            const std::function<void(absl::StatusOr<v1::PlanJobResponse>)>& done);

 private:
  // Questions that look at one state.
  struct Batch;
  void Ask(Jobs& jobs, Process& process);
  void Finish(Jobs& jobs, Process& process);
  std::vector<Question> TakeAll();
  std::shared_ptr<const StartsByJob> StartsOf(const SchedulingState& state, Now now);

  std::mutex mutex_;               // guards what follows
  std::vector<Question> waiting_;  // for the next state
  bool is_busy_ = false;           // some questions have a state and are not answered

  std::mutex forecasting_;  // one at a time
  std::atomic<int64_t> last_took_ms_ = 0;
  std::mutex newest_mutex_;  // guards what follows
  std::shared_ptr<const StartsByJob> newest_ = std::make_shared<const StartsByJob>();
  int64_t newest_until_ms_ = 0;  // on the monotonic clock: it is good enough until then
};

}  // namespace muster::coordinator
