// What Accelerator::prepare returns: handles that behave like the originals, distributed over all
// ranks. Copies share one object. Training thread only; handles may outlive the Accelerator, but
// must not be used after it is destroyed.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/optim/schedulers.h"
#include "muster/parallel/data_parallel.h"
#include "muster/precision/autocast.h"
#include "muster/tracking/step_timer.h"
#include "muster/values/nested.h"

namespace muster {

class ShardedModel;    // a model that is sharded across the ranks; src/sharding
struct GradientState;  // where the run is in its accumulation window; src/accelerator

// What happens around each forward pass: the reducer's hooks, autocast, the step timer.
class ModelFrame {
 public:
  struct Options {
    at::DeviceType device_type = at::kCPU;
    Precision precision = Precision::fp32;
    AutocastOptions autocast;
  };
  // `sharded`: null if the model is not sharded.
  ModelFrame(std::shared_ptr<DataParallel> data_parallel, std::shared_ptr<ShardedModel> sharded,
             const Options& options, std::shared_ptr<GradientState> gradient_state);

  DataParallel& data_parallel() { return *data_parallel_; }
  const std::shared_ptr<ShardedModel>& sharded() const { return sharded_; }
  bool changes_outputs() const;

  // One forward pass; leaves autocast even if forward throws.
  class Pass {
   public:
    explicit Pass(ModelFrame& frame);
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    // Call after forward with the tensors that it returned; returns the tensors to use instead,
    // converted back to float32 under autocast. Unless changes_outputs(), no tensors need to be
    // passed.
    std::vector<at::Tensor> finish(std::vector<at::Tensor> outputs = {});

   private:
    ModelFrame& frame_;
    StepTimer::Section section_;
    std::optional<Autocast> autocast_;
  };

 private:
  std::shared_ptr<DataParallel> data_parallel_;
  std::shared_ptr<ShardedModel> sharded_;
  Options options_;
  std::shared_ptr<GradientState> gradient_state_;
};

// A model: call it like the module itself. Holder is a LibTorch module holder (made by
// TORCH_MODULE) or a std::shared_ptr of a module. Parameter names stay the module's, without a
// "module." prefix; -> accesses the module's members.
template <typename Holder>
class PreparedModel {
 public:
  PreparedModel(Holder module, std::shared_ptr<ModelFrame> frame)
      : module_(std::move(module)), frame_(std::move(frame)) {}

  // Runs the module's forward, under autocast in a mixed-precision run, which converts the output
  // (any Nested value) back to float32. In training, backward() of the output averages the
  // gradients over the ranks.
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    ModelFrame::Pass pass(*frame_);
    auto output = module_->forward(std::forward<Arguments>(arguments)...);
    if constexpr (Nested<decltype(output)>) {
      if (frame_->changes_outputs()) {
        return with_tensors(output, pass.finish(flatten_tensors(output)));
      }
    }
    pass.finish();
    return output;
  }
  template <typename... Arguments>
  auto forward(Arguments&&... arguments) {
    return (*this)(std::forward<Arguments>(arguments)...);
  }

  // The bare module's members: model->parameters(). Do not call its forward: gradients would not be
  // averaged, and the next step() throws.
  auto* operator->() { return &*module_; }
  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }

  // The module that was passed to prepare().
  Holder& unwrap() { return module_; }
  DataParallel& data_parallel() { return frame_->data_parallel(); }
  const std::shared_ptr<ModelFrame>& frame() const { return frame_; }

 private:
  Holder module_;
  std::shared_ptr<ModelFrame> frame_;
};

// While it lives, the parameters of a sharded model (model_sharding.h) are unsharded on every rank,
// so that one rank or all can sample from the model or read them. Changes to them are lost.
// Construction is collective; several may exist at once.
class FullParameters {
 public:
  explicit FullParameters(std::shared_ptr<ModelFrame> frame);
  ~FullParameters();
  FullParameters(const FullParameters&) = delete;
  FullParameters& operator=(const FullParameters&) = delete;

 private:
  std::shared_ptr<ModelFrame> frame_;
};

// An optimizer. In an accumulation window, step() and zero_grad() do nothing until the last
// micro-batch, so the loop's code is the same with and without accumulation.
class PreparedOptimizer {
 public:
  PreparedOptimizer(std::shared_ptr<torch::optim::Optimizer> optimizer,
                    std::shared_ptr<GradientState> gradient_state);

  // Throws muster::Error if, with several ranks, no prepared model was called since the last step.
  // With a GradScaler: unscales, skips the step if a gradient is not finite, and updates the scale.
  void step();
  // Releases the gradients. Unlike torch's own, it also works on gradients inside DDP's buckets.
  void zero_grad();
  // Whether the last step() was skipped because gradients were not finite. Waits for the device.
  bool step_was_skipped() const;

  torch::optim::Optimizer& unwrap() { return *optimizer_; }
  // For a sharded model (model_sharding.h), the groups hold this rank's shards.
  std::vector<torch::optim::OptimizerParamGroup>& param_groups() {
    return optimizer_->param_groups();
  }

 private:
  friend class Accelerator;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::shared_ptr<GradientState> gradient_state_;
};

// A learning-rate schedule on a prepared optimizer. Call step() once per micro-batch, like the
// optimizer's; it acts only if the optimizer actually stepped.
class PreparedScheduler {
 public:
  PreparedScheduler(std::shared_ptr<LrScheduler> scheduler,
                    std::shared_ptr<GradientState> gradient_state);

  void step();
  // For schedules that follow a metric (reduce_on_plateau).
  void step(double metric);
  std::vector<double> get_last_lr() const { return scheduler_->get_last_lr(); }
  LrScheduler& unwrap() { return *scheduler_; }

 private:
  int steps_due() const;

  std::shared_ptr<LrScheduler> scheduler_;
  std::shared_ptr<GradientState> gradient_state_;
};

template <typename T>
concept ModuleHandle =
    std::is_base_of_v<torch::nn::Module, std::remove_reference_t<decltype(*std::declval<T&>())>>;

template <typename T>
concept OptimizerType = std::derived_from<T, torch::optim::Optimizer>;

}  // namespace muster
