// PlanJob off the control loop's thread: what plans are made from is shared there once for all that wait, and each is
// then made on a pool, in its caller's turn. Any thread.
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
  std::vector<PlanRequest> waiting_;  // for the state that was asked for
};

}  // namespace muster::coordinator
