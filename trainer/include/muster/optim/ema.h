// An exponential moving average of the weights, which often evaluates better than the weights
// themselves.
//
//   muster::ExponentialMovingAverage average(*net, {.decay = 0.999});
//   ... optimizer.step(); average.update();
//   { auto scope = average.average_parameters();  evaluate(model); }
//
// Training thread only. All ranks of a data-parallel job hold the same weights and therefore the
// same average: nothing is communicated. With .update_after = 1 the numbers are those of
// torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay).
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

struct EmaOptions {
  double decay = 0.999;  // 0 to 1: average = decay * average + (1 - decay) * weights
  // This many updates copy the weights before averaging begins.
  int64_t update_after = 0;
  // Starts with a smaller decay, min(decay, (1 + n) / (10 + n)) at the n-th averaging update, so
  // that the random initial weights fade quickly. Source: TensorFlow's
  // ExponentialMovingAverage(num_updates).
  bool warmup = false;
  // Also averages floating-point buffers (running means) of the module. False: average_parameters()
  // leaves the buffers of training in place.
  bool use_buffers = false;
};

class ExponentialMovingAverage {
 public:
  // Starts from the current weights, copied on their devices. A tensor that is listed twice (tied
  // weights) is averaged once. Throws std::invalid_argument if decay is outside [0, 1] or there is
  // no floating-point tensor.
  explicit ExponentialMovingAverage(torch::nn::Module& module, const EmaOptions& options = {});
  explicit ExponentialMovingAverage(const std::vector<at::Tensor>& parameters,
                                    const EmaOptions& options = {});

  // Call after each optimizer step. No host sync. Throws muster::Error while average_parameters()
  // is active.
  void update();

  // While it lives, the module has the averaged weights; its destructor restores the trained ones.
  // The two are swapped tensor by tensor, so no extra copy is held. It must not outlive the
  // average. Only one may exist at a time: a second one throws muster::Error.
  class Scope {
   public:
    explicit Scope(ExponentialMovingAverage& average);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ExponentialMovingAverage& average_;
  };
  [[nodiscard]] Scope average_parameters() { return Scope(*this); }

  // Copies the average into tensors in the order of the constructor's list, or into a module of the
  // same structure. Throws std::invalid_argument if the count or shapes differ.
  void copy_to(const std::vector<at::Tensor>& parameters) const;
  void copy_to(torch::nn::Module& module) const;

  int64_t num_updates() const { return num_updates_; }
  // The decay of the next update(); 0 if it will copy.
  double next_decay() const;

  // num_updates (int64, 0-d) and average/<name> for each tensor: its name in the module or its
  // index in the list. They share memory with the average. Throws muster::Error while
  // average_parameters() is active, because the average is then in the module.
  TensorMap state() const;
  // Throws CheckpointError naming what is missing, unknown or of a different shape; the average is
  // then unchanged.
  void load_state(const TensorMap& state);

 private:
  struct Source {
    std::vector<std::string> names;
    std::vector<at::Tensor> tensors;
  };
  ExponentialMovingAverage(Source source, const EmaOptions& options);
  static Source of_module(torch::nn::Module& module, bool use_buffers);
  static Source of_list(const std::vector<at::Tensor>& parameters);
  void copy_to(const Source& target) const;
  void require_outside_scope(const char* what) const;
  void exchange();

  EmaOptions options_;
  Source source_;
  std::vector<at::Tensor> average_;
  int64_t num_updates_ = 0;
  bool exchanged_ = false;
};

}  // namespace muster
