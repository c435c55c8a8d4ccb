// Keeps small float16 gradients from underflowing to zero: multiplies the loss by a scale that
// adapts to overflows.
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);             // only if gradients are inspected or clipped
//   muster::clip_grad_norm_(parameters, 1.0);
//   scaler.step(optimizer);                 // skipped if a gradient is infinite or NaN
//   scaler.update();
//
// The numbers and the names in state_dict() are those of torch.amp.GradScaler (source:
// torch/amp/grad_scaler.py). Training thread only. No function is collective: averaged gradients
// overflow on all ranks at once.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

struct GradScalerOptions {
  double init_scale = 65536.0;     // the first scale
  double growth_factor = 2.0;      // > 1: after growth_interval consecutive steps without overflow
  double backoff_factor = 0.5;     // < 1: after a step with overflow
  int64_t growth_interval = 2000;  // steps
  bool enabled = true;             // false: scale() changes nothing and step() just steps
};

class GradScaler {
 public:
  // Throws std::invalid_argument if a factor is out of range.
  explicit GradScaler(const GradScalerOptions& options = {});
  ~GradScaler();
  GradScaler(GradScaler&&) noexcept;
  GradScaler& operator=(GradScaler&&) noexcept;

  // Returns outputs times the scale. The first call puts the scale on the outputs' device.
  at::Tensor scale(const at::Tensor& outputs);
  std::vector<at::Tensor> scale(const std::vector<at::Tensor>& outputs);

  // Divides the gradients of the optimizer's parameters by the scale, in place, and checks for
  // infinities and NaN, without a host sync. At most once per optimizer between updates. Throws
  // muster::Error if called twice, after step(), before any scale(), or on float16 gradients.
  void unscale_(torch::optim::Optimizer& optimizer);
  // The same for the gradients of `parameters`, of which the optimizer's own may be views or parts.
  // If none has a gradient on this rank, found_inf is 0 on `without_gradients`, if given.
  void unscale_(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& parameters,
                std::optional<at::Device> without_gradients = {});
  // Whether that was done since the last update(), and no loss was scaled after it.
  bool is_unscaled(torch::optim::Optimizer& optimizer) const;

  // Calls unscale_() unless that was done, then the optimizer's step unless there was an overflow.
  // Muster's fused optimizers do both inside their kernel; any other optimizer costs one host sync.
  // Throws muster::Error if called twice before update(), or if no parameter has a gradient.
  void step(torch::optim::Optimizer& optimizer);

  // Whether the last step(optimizer) was skipped because of an overflow; still valid after
  // update(). The first call costs a host sync if the kernel made the decision.
  bool step_was_skipped(torch::optim::Optimizer& optimizer) const;

  // Call once per iteration, after the steps of all optimizers: lowers, raises or keeps the scale,
  // without a host sync. Throws muster::Error if no gradients were checked since the last update().
  void update();
  // The same, once for all steps before the next scale(), which applies it; get_scale() and
  // state_dict() tell what it will be. For loops in which each optimizer's step() may be the last.
  // Only what the optimizers that stepped have found counts.
  void update_later();
  // Applies it now.
  void apply_update();
  // Applies it, and forgets all optimizers, whose addresses others may get.
  void forget_optimizers();
  // Whether the optimizer has stepped since the last update.
  bool has_stepped(torch::optim::Optimizer& optimizer) const;
  // Sets the scale to new_scale instead.
  void update(double new_scale);

  // Host syncs. 1.0 and 0 when not enabled.
  double get_scale() const;
  int64_t get_growth_tracker() const;  // consecutive steps without overflow

  double get_growth_factor() const;
  double get_backoff_factor() const;
  int64_t get_growth_interval() const;
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(int64_t steps);
  bool is_enabled() const;

  // What unscale_() or step() found since the last update(): one float32 0-d tensor per device, 0
  // (all finite) or greater; empty before. To agree on it with other ranks before step(), modify
  // the tensors in place.
  std::vector<at::Tensor> found_inf(torch::optim::Optimizer& optimizer) const;

  // 0-d tensors on the CPU: scale, growth_factor, backoff_factor (float64), growth_interval,
  // _growth_tracker (int64). torch.amp.GradScaler.load_state_dict accepts them unchanged. Empty
  // when not enabled. Call it after update() or update_later().
  TensorMap state_dict() const;
  // Does nothing when not enabled. Throws CheckpointError if a name is missing.
  void load_state_dict(const TensorMap& state);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
