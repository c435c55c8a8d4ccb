// Makes plans (PlanJob) off the control loop's thread: the loop shares the state once for all waiting requests, and
// each plan is then made on a pool, in its caller's turn. Any thread.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/state/input.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

struct Jobs;
struct Process;

class Planner {
 public:
  using Done = std::function<void(absl::StatusOr<v1::PlanJobResponse>)>;

  // Both outlive the answer.
  void Plan(Jobs& jobs, Process& process, SubmitInput input, Done done);

 private:
  struct PlanRequest {
    SubmitInput input;
    Done done;
  };
  void Ask(Jobs& jobs, Process& process);
  std::vector<PlanRequest> TakeAll();

  std::mutex mutex_;                  // guards what follows
  std::vector<PlanRequest> waiting_;  // for the requested state
};

}  // namespace muster::coordinator
