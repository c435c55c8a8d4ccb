// The position of the run in its accumulation window, shared by the prepared objects. Training
// thread only.
#pragma once

#include <torch/optim.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "muster/accelerator/options.h"
#include "muster/data/loader_core.h"
#include "muster/precision/grad_scaler.h"
#include "muster/tracking/step_timer.h"
#include "parallel/communication_time.h"
#include "sharding/sharded_model.h"

namespace muster {

struct GradientState {
  // ---- Set once ----
  GradientAccumulationPlugin accumulation;
  bool step_scheduler_with_optimizer = true;
  bool update_scale_at_each_step = false;
  bool stop_schedule_at_end = false;
  int scheduler_steps = 1;           // per optimizer step
  std::function<void()> after_step;  // called after an optimizer step
  // What is asked of the Accelerator around a step; none of it is set once that has ended.
  // Adopts parameters that were added to the optimizer since its last step. Collective.
  std::function<void(torch::optim::Optimizer&)> follow_groups;
  // Throws if the optimizer is about to step on gradients that no prepared model averages.
  std::function<void(torch::optim::Optimizer&)> require_averaged;
  // Throws on all ranks if they do not come to the same point of a step with a closure.
  std::function<void(const std::string& point)> meet_in_step;
  // The mean of a closure's losses.
  std::function<at::Tensor(const at::Tensor&)> mean_over_ranks;
  bool averages_gradients = false;  // a model was prepared with more than one rank

  // ---- The window ----
  // True outside windows and in the last micro-batch of one: backward reduces, optimizers step.
  bool sync_gradients = true;
  int micro_batches = 0;  // of this window so far, including the current one
  int loss_divisor = 1;   // of the window's losses from now on

  // Loaders with a pass in progress, the innermost loop's last.
  std::vector<const LoaderCore*> active_loaders;

  std::optional<GradScaler> scaler;
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers;
  std::vector<std::shared_ptr<ShardedModel>> sharded;
  StepTimer timer{{.communication_ns = [] { return CommunicationTime::of_thread().waited_ns(); }}};
  int64_t optimizer_steps = 0;  // of all optimizers, also skipped ones
  int64_t forward_passes = 0;   // of prepared models
  std::map<const torch::optim::Optimizer*, int64_t> passes_at_step;  // forward_passes then

  // Begins a micro-batch. If it is the last of a window that turns out shorter than expected,
  // rescales the gradients accumulated so far, once, so that all losses of the window have equal
  // weight, however many backwards follow.
  void begin_micro_batch();
  void scale_gradients(double factor);
  void set_accumulation_steps(int steps);
  // free_memory: no model and no optimizer, between two windows.
  void forget_prepared();
  bool any_step_was_skipped() const;
  // For sharded models: finishes their reductions and gives the optimizers' tensors their
  // gradients. Does nothing if that is done.
  void end_backward();
  // The sharded models whose shards this optimizer steps.
  std::vector<ShardedModel*> owners_of(torch::optim::Optimizer& optimizer) const;
  // Divides the gradients by the scale, unless that was done in this step, and tells all ranks that
  // own shards of an overflow. Collective for sharded models.
  void unscale(torch::optim::Optimizer& optimizer);
  // The tensors whose gradients are read, unscaled and clipped for these parameters or shards:
  // whole ones under zero1, whose gradients the shards' are parts of; else what is stepped.
  std::vector<at::Tensor> gradient_holders(const std::vector<at::Tensor>& parameters) const;
  // Call after a change of those gradients.
  void changed_gradients();
  // Throws Error for one that free_memory has released.
  void require_prepared(const torch::optim::Optimizer& optimizer) const;
  // Throws Error where a step cannot evaluate a closure.
  void require_closures() const;
  // Throws if no prepared model was called since this optimizer's last step: its gradients would be
  // local to this rank.
  void require_forward_pass(const torch::optim::Optimizer& optimizer);
  void loader_is_active(const LoaderCore& loader, bool active);
  // The innermost loop's loader if its last batch of the epoch is being processed, else null.
  const LoaderCore* ending_loader() const;
};

}  // namespace muster
