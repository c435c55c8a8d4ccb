// Batch normalization with the mean and variance over the batches of all ranks.
//
// One module for torch::nn::BatchNorm1d, 2d and 3d: input [samples, channels, ...], the same
// options, parameters, buffers and state-dict names. Accelerator::prepare sets the process group if
// the module is part of the prepared model; before that, in a single process, and in evaluation it
// is plain batch normalization. In training mode, forward and backward are then collective: one
// small all-gather in forward, one small all-reduce in backward. Batch sizes may differ between
// ranks. Source: torch/nn/modules/_functions.py.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <memory>
#include <ostream>

namespace muster {

class SyncBatchNormImpl
    : public torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  struct Group;  // the process group; created by the SDK

  explicit SyncBatchNormImpl(int64_t num_features)
      : SyncBatchNormImpl(torch::nn::BatchNormOptions(num_features)) {}
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options) : NormImplBase(options) {}

  // input: floating-point, [samples, channels, ...]; the output has the same shape and dtype.
  // Throws std::invalid_argument for another shape, and if there is only one value per channel over
  // all ranks.
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  void set_group(std::shared_ptr<Group> group) { group_ = std::move(group); }

 private:
  void _check_input_dim(const at::Tensor& input) override;
  double next_average_factor();

  std::shared_ptr<Group> group_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace muster
