// What Accelerator::prepare returns: handles that behave like the originals, distributed over all
// ranks. Copies share one object, a const handle is as good as another, and `handle->` and
// `(*handle).` are `handle.`, so that code written for a pointer works unchanged. What a prepared
// object does not do is a compiler error of one sentence (refused_calls.h). Training thread only;
// handles and scopes may outlive the Accelerator, in any order, but must not be used after it is
// destroyed.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/accelerator/refused_calls.h"
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

// Throws std::invalid_argument naming both devices unless the module is on `device`.
void require_on(at::Device device, const torch::nn::Module& module);

// A model: call it like the module itself. Holder is a LibTorch module holder (made by
// TORCH_MODULE) or a std::shared_ptr of a module. Parameter names stay the module's, without a
// "module." prefix. `model->` is `model.`: model->forward(x) averages gradients like model(x). The
// module's own members are those of unwrap().
template <typename Holder>
class PreparedModel : public RefusedByModel<Holder> {
 public:
  PreparedModel(Holder module, std::shared_ptr<ModelFrame> frame)
      : module_(std::move(module)), frame_(std::move(frame)) {}

  const PreparedModel& operator*() const { return *this; }
  const PreparedModel* operator->() const { return this; }

  // Runs the module's forward, under autocast in a mixed-precision run, which converts the output
  // (any Nested value) back to float32. In training, backward() of the output averages the
  // gradients over the ranks.
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) const {
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
  auto forward(Arguments&&... arguments) const {
    return (*this)(std::forward<Arguments>(arguments)...);
  }

  // ---- torch::nn::Module's, of the bare module ----
  void train(bool on = true) const { module_->train(on); }
  void eval() const { module_->eval(); }
  bool is_training() const { return module_->is_training(); }
  std::vector<at::Tensor> parameters(bool recurse = true) const {
    return module_->parameters(recurse);
  }
  torch::OrderedDict<std::string, at::Tensor> named_parameters(bool recurse = true) const {
    return module_->named_parameters(recurse);
  }
  std::vector<at::Tensor> buffers(bool recurse = true) const { return module_->buffers(recurse); }
  torch::OrderedDict<std::string, at::Tensor> named_buffers(bool recurse = true) const {
    return module_->named_buffers(recurse);
  }
  std::vector<std::shared_ptr<torch::nn::Module>> modules(bool include_self = true) const {
    return module_->modules(include_self);
  }
  std::vector<std::shared_ptr<torch::nn::Module>> children() const { return module_->children(); }
  torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> named_children() const {
    return module_->named_children();
  }
  const std::string& name() const { return module_->name(); }
  // prepare() has moved the module, so this only checks: std::invalid_argument unless all of it is
  // on that device.
  void to(at::Device device, bool non_blocking = false) const { require_on(device, *module_); }
  template <std::same_as<at::ScalarType> Dtype, typename... More>
  refused::Nothing to(Dtype, More...) const {
    static_assert(refused::when_called<Dtype>,
                  "model.to(dtype): choose AcceleratorOptions::mixed_precision, or convert the "
                  "module before prepare()");
    return {};
  }
  template <std::same_as<at::ScalarType> Dtype>
  refused::Nothing to(at::Device, Dtype dtype, bool = false) const {
    return to(dtype);
  }

  // The module that was passed to prepare(): what is not listed above, and whatever needs the
  // module's type. Its forward does not average gradients, and the next step() then throws.
  Holder& unwrap() const { return module_; }
  DataParallel& data_parallel() const { return frame_->data_parallel(); }
  const std::shared_ptr<ModelFrame>& frame() const { return frame_; }

 private:
  mutable Holder module_;  // a const ModuleHolder has a const module, a const handle does not
  std::shared_ptr<ModelFrame> frame_;
};

// As LibTorch prints the module.
template <typename Holder>
std::ostream& operator<<(std::ostream& stream, const PreparedModel<Holder>& model) {
  return stream << *model.unwrap();
}

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
class PreparedOptimizer : public RefusedByOptimizer {
 public:
  PreparedOptimizer(std::shared_ptr<torch::optim::Optimizer> optimizer,
                    std::shared_ptr<GradientState> gradient_state);

  const PreparedOptimizer& operator*() const { return *this; }
  const PreparedOptimizer* operator->() const { return this; }

  // Throws muster::Error if, with several ranks, no prepared model was called since the last step.
  // With a GradScaler: unscales, skips the step if a gradient is not finite, and updates the scale.
  void step() const;
  // For optimizers that evaluate the loss themselves. The closure is the loop's own lines, with no
  // argument, and returns the loss:
  //
  //   optimizer.step([&] {
  //     optimizer.zero_grad();
  //     at::Tensor loss = loss_of(model(input), target);
  //     accelerator.backward(loss);
  //     return loss;
  //   });
  //
  // The optimizer sees the mean of the ranks' losses, so that all ranks evaluate equally often; what it
  // returns is returned, for most the loss of the first evaluation. Of a sharded model it sees this
  // rank's shards: one that decides by gradients, such as a line search with their products, has to
  // sum over the ranks itself (Accelerator::reduce), or the ranks part, which throws
  // CommunicationError on all of them as calls of different collectives do. Collective. Throws Error in
  // fp16, as torch does, and where gradients accumulate, std::invalid_argument for a loss that is not
  // one number. After an exception the weights may be anywhere between: load a checkpoint.
  template <std::invocable Closure>
  requires std::convertible_to<std::invoke_result_t<Closure&>, at::Tensor> at::Tensor step(
      Closure&& closure)
  const { return step_by(std::ref(closure)); }
  template <typename Closure>
  refused::Nothing step(Closure&&) const {
    static_assert(refused::when_called<Closure>,
                  "optimizer.step(closure): the closure takes no argument and returns the loss, an "
                  "at::Tensor");
    return {};
  }
  // Releases the gradients, or zeroes them in place. Unlike torch's own, it also works on gradients
  // inside DDP's buckets. A sharded model's gradients are released in either case.
  void zero_grad(bool set_to_none = true) const;
  // Whether the last step() was skipped because gradients were not finite. Waits for the device.
  bool step_was_skipped() const;

  // For a sharded model (model_sharding.h), the groups hold this rank's shards.
  std::vector<torch::optim::OptimizerParamGroup>& param_groups() const {
    return optimizer_->param_groups();
  }
  // On all ranks, between steps: parameters of prepared models, for example of a layer that was frozen
  // until now. Under sharding they become this rank's shards at the next step, save or clipping.
  // Without options the group has those of the optimizer's constructor. A schedule of this optimizer
  // must be prepared afterwards. load_state() needs the groups that the checkpoint has: add them first.
  void add_param_group(const torch::optim::OptimizerParamGroup& group) const {
    optimizer_->add_param_group(group);
  }
  torch::optim::OptimizerOptions& defaults() const { return optimizer_->defaults(); }
  torch::optim::Optimizer& unwrap() const { return *optimizer_; }

 private:
  friend class Accelerator;
  at::Tensor step_by(const std::function<at::Tensor()>& closure) const;
  at::Tensor evaluate(const std::function<at::Tensor()>& closure) const;
  void end_step() const;

  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::shared_ptr<GradientState> gradient_state_;
};

// A learning-rate schedule on a prepared optimizer. Call step() once per micro-batch, like the
// optimizer's; it acts only if the optimizer actually stepped.
class PreparedScheduler : public RefusedByScheduler {
 public:
  PreparedScheduler(std::shared_ptr<LrScheduler> scheduler,
                    std::shared_ptr<GradientState> gradient_state);

  const PreparedScheduler& operator*() const { return *this; }
  const PreparedScheduler* operator->() const { return this; }

  void step() const;
  // For schedules that follow a metric (reduce_on_plateau).
  void step(double metric) const;
  template <typename T>
  requires(!std::floating_point<T>) refused::Nothing step(const T&)
  const {
    static_assert(refused::when_called<T>,
                  "scheduler.step(metric): a metric is a double, loss.item<double>(); steps and "
                  "epochs are counted by step() itself");
    return {};
  }
  std::vector<double> get_last_lr() const { return scheduler_->get_last_lr(); }
  LrScheduler& unwrap() const { return *scheduler_; }

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
