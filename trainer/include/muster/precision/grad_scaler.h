// Keeps small gradients of float16 computations from becoming zero: the loss is multiplied by a
// scale that follows the overflows.
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);             // only when gradients are looked at or clipped
//   muster::clip_grad_norm_(parameters, 1.0);
//   scaler.step(optimizer);                 // not taken when a gradient is infinite or NaN
//   scaler.update();
//
// The numbers are those of torch.amp.GradScaler (source: torch/amp/grad_scaler.py), and so are the
// names in state_dict(). Training thread only; no function is collective: gradients that were
// averaged over the ranks overflow on all of them at once.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

struct GradScalerOptions {
  double init_scale = 65536.0;     // the first scale
  double growth_factor = 2.0;      // > 1: after growth_interval steps in a row without overflow
  double backoff_factor = 0.5;     // < 1: after a step with overflow
  int64_t growth_interval = 2000;  // steps
  bool enabled = true;             // false: scale() changes nothing and step() just steps
};

class GradScaler {
 public:
  // Throws std::invalid_argument when a factor is outside its range.
  explicit GradScaler(const GradScalerOptions& options = {});
  ~GradScaler();
  GradScaler(GradScaler&&) noexcept;
  GradScaler& operator=(GradScaler&&) noexcept;

  // outputs times the scale. The first call places the scaler on the outputs' device.
  at::Tensor scale(const at::Tensor& outputs);
  std::vector<at::Tensor> scale(const std::vector<at::Tensor>& outputs);

  // Divides the gradients of the optimizer's parameters by the scale, in place, and looks for
  // infinities and NaN; without a host sync. Once per optimizer and update(). Throws muster::Error
  // when called twice, after step(), before any scale(), or on float16 gradients.
  void unscale_(torch::optim::Optimizer& optimizer);

  // unscale_() where it was not called, then the optimizer's step unless there was an overflow.
  // Muster's fused optimizers do both inside their kernel; any other optimizer costs one host read.
  // Throws muster::Error when called twice before update(), or when no parameter has a gradient.
  void step(torch::optim::Optimizer& optimizer);

  // Whether the last step(optimizer) was left out because of an overflow; stays readable after
  // update(). A host read where the kernel decided, the first time it is asked.
  bool step_was_skipped(torch::optim::Optimizer& optimizer) const;

  // Once per iteration, after the steps of all optimizers: lowers, raises or keeps the scale;
  // without a host sync. Throws muster::Error when no gradients were looked at since the last one.
  void update();
  // Sets the scale by hand instead.
  void update(double new_scale);

  // Host reads. 1.0 and 0 when not enabled.
  double get_scale() const;
  int64_t get_growth_tracker() const;  // steps in a row without overflow

  double get_growth_factor() const;
  double get_backoff_factor() const;
  int64_t get_growth_interval() const;
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(int64_t steps);
  bool is_enabled() const;

  // What unscale_() or step() found since the last update(): one float32 0-d tensor per device,
  // 0 (all finite) or more. For those who must agree with other ranks on it before step(): change
  // them in place. Empty before.
  std::vector<at::Tensor> found_inf(torch::optim::Optimizer& optimizer) const;

  // 0-d tensors on the CPU: scale, growth_factor, backoff_factor (float64), growth_interval,
  // _growth_tracker (int64). torch.amp.GradScaler.load_state_dict takes them as they are. Empty
  // when not enabled. Call it after update().
  TensorMap state_dict() const;
  // Does nothing when not enabled. Throws CheckpointError when a name is missing.
  void load_state_dict(const TensorMap& state);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
