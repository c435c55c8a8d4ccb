// An exponential moving average of weights, which often evaluates better than the last ones.
//
//   muster::ExponentialMovingAverage average(*net, {.decay = 0.999});
//   ... optimizer.step(); average.update();
//   { auto scope = average.average_parameters();  evaluate(model); }
//
// Training thread only. Every rank of a data-parallel job holds the same weights and so the same
// average: nothing is communicated. With decay and .update_after = 1 the numbers are those of
// torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

struct EmaOptions {
  double decay = 0.999;  // 0 to 1: average = decay * average + (1 - decay) * weights
  // The first so many updates copy the weights instead of averaging.
  int64_t update_after = 0;
  // Starts with a smaller decay, min(decay, (1 + n) / (10 + n)) at the n-th averaging update, so
  // that the random first weights are forgotten soon. Source: TensorFlow's
  // ExponentialMovingAverage(num_updates).
  bool warmup = false;
  // Floating-point buffers (running means) of a module are averaged as well. Otherwise those of the
  // training stay in the module.
  bool use_buffers = false;
};

class ExponentialMovingAverage {
 public:
  // Starts from the present weights. Copies of them are kept on their devices. A tensor that is
  // listed twice (tied weights) is averaged once. Throws std::invalid_argument for a decay outside
  // [0, 1] or no floating-point tensor.
  explicit ExponentialMovingAverage(torch::nn::Module& module, const EmaOptions& options = {});
  explicit ExponentialMovingAverage(const std::vector<at::Tensor>& parameters,
                                    const EmaOptions& options = {});

  // After each optimizer step. No host sync. Throws muster::Error inside of average_parameters().
  void update();

  // While it lives, the module has the averaged weights (the memory of both is exchanged tensor by
  // tensor, so nothing is held twice); the trained ones come back at its end. It must not outlive
  // the average, and there is one at a time: a second one throws muster::Error.
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
  // same structure. Throws std::invalid_argument when number or shapes differ.
  void copy_to(const std::vector<at::Tensor>& parameters) const;
  void copy_to(torch::nn::Module& module) const;

  int64_t num_updates() const { return num_updates_; }
  // The decay that the next update() will use; 0 when it will copy.
  double next_decay() const;

  // num_updates (int64, 0-d) and average/<name> for each tensor: the name in the module, or the
  // index in the list. They share memory with the average. Throws muster::Error inside of
  // average_parameters(), where the average is in the module.
  TensorMap state() const;
  // Throws CheckpointError that names what is missing, unknown or has another shape; the average is
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
