// Batch normalisation whose mean and variance are those of the batches of all ranks together.
//
// A module like torch::nn::BatchNorm1d, 2d and 3d in one: input [samples, channels, ...], the same
// options, parameters, buffers and state-dict names. It learns the group of ranks from
// Accelerator::prepare, which must see it as part of the model; before that, alone and in
// evaluation it is plain batch normalisation. Forward and backward in training mode are then
// collective: one small all-gather in forward, one small all-reduce in backward. Ranks may bring
// batches of different sizes. Source: torch/nn/modules/_functions.py.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <ostream>

namespace muster {

class SyncBatchNormImpl
    : public torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  struct Group;  // the ranks; made by the SDK

  explicit SyncBatchNormImpl(int64_t num_features)
      : SyncBatchNormImpl(torch::nn::BatchNormOptions(num_features)) {}
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options) : NormImplBase(options) {}

  // input: floating type, [samples, channels, ...]; the result has its shape and type. Throws
  // std::invalid_argument for another shape, and when all ranks together bring one value per
  // channel.
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
