// AdamW, Adam, SGD and Adagrad with the numbers of Python's torch.optim, fused into one kernel per
// step.
//
//   muster::AdamW optimizer(net->parameters(), {.lr = 1e-3, .weight_decay = 0.1});
//
// They are torch::optim::Optimizers that add fused and multi-tensor implementations, gradient
// unscaling inside the kernel (step_scaled), a zero_grad that works for gradients inside DDP's
// buckets, state as named tensors, and results bit-identical to the corresponding implementation in
// Python (fused=True, foreach=True, neither). Source: torch/optim/adam.py, adamw.py, sgd.py,
// adagrad.py.
//
// Parameters are listed in groups; a tensor listed twice in one group (tied weights) is stepped
// once. State is created at the first step with a gradient, on the parameter's device, so a model
// may move to its device after the optimizer was constructed. Training thread only; nothing is
// collective. Move construction is cheap and keeps the state.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/checkpoint/safetensors.h"

namespace muster {

// How a step is computed.
//   automatic: fused if LibTorch has the kernel for the parameters' device and dtype, else
//              foreach; plain for sparse gradients
//   fused:     one kernel reads and writes parameters and state once. step() throws
//              std::invalid_argument if there is no such kernel
//   foreach:   one operation at a time over all parameters; needs memory for one or two copies of
//              the gradients
//   plain:     one parameter at a time
// With fused, a parameter that is not dense in memory, or whose gradient has different strides,
// is stepped by foreach: the fused kernels read both as contiguous blocks.
enum class Implementation { automatic, fused, foreach, plain };

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};  // decay of the averages of grad and grad²
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
  bool amsgrad = false;     // divides by the largest average of grad² so far
  bool maximize = false;
  Implementation implementation = Implementation::automatic;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // decoupled: weights *= 1 - lr * weight_decay
  bool amsgrad = false;
  bool maximize = false;
  Implementation implementation = Implementation::automatic;
};

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;     // of the gradient added to the momentum, from the second step on
  double weight_decay = 0;  // added to the gradient
  bool nesterov = false;    // requires momentum and zero dampening
  bool maximize = false;
  Implementation implementation = Implementation::automatic;
};

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;  // added to the gradient
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
  Implementation implementation = Implementation::automatic;
};

// Parameters with their own options. Nothing is inherited from other groups.
template <typename Options>
struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  Options options;
};

// Releases the gradients of all parameters (set_to_none), or zeroes them in place. Works on
// gradients that are views of DDP's buckets, for which torch's own Optimizer::zero_grad throws.
void zero_gradients(torch::optim::Optimizer& optimizer, bool set_to_none = true);

namespace internal {
class StepPlan;
struct StepBucket;
struct StepScaling;
}  // namespace internal

// The common base of the four optimizers.
class Optimizer : public torch::optim::Optimizer {
 public:
  ~Optimizer() override;
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  // Updates the parameters that have a gradient; others, and their step counts, are unchanged. The
  // closure, if given, recomputes the loss with gradients enabled; its value is returned.
  at::Tensor step(LossClosure closure = nullptr) override;

  // step() for gradients that were multiplied by grad_scale; skipped if found_inf is not 0 (step
  // counts are then unchanged too). Both are float32 0-d; an undefined grad_scale means that the
  // gradients are already unscaled. If scales_in_kernel(), this happens inside the kernel without a
  // host sync, otherwise it costs one host sync to read found_inf. Gradients are unscaled in place.
  void step_scaled(const at::Tensor& grad_scale, const at::Tensor& found_inf);
  // Whether a fused kernel steps every parameter that has a gradient now.
  bool scales_in_kernel();

  // Hides torch's function of this name; see zero_gradients.
  void zero_grad(bool set_to_none = true) { zero_gradients(*this, set_to_none); }

  // ---- State of a parameter as named tensors ----
  // Adam and AdamW: exp_avg, exp_avg_sq, with amsgrad max_exp_avg_sq; SGD with momentum:
  // momentum_buffer; Adagrad: sum. They have the parameter's shape and share memory with the
  // optimizer. `step` (not for SGD): int64, 0-d, on the CPU. Names and meanings are those of Python
  // and of torch::optim, so checkpoints are interchangeable. Empty until the parameter's first
  // step. Throws std::invalid_argument if the tensor is not one of the optimizer's parameters.
  TensorMap parameter_state(const at::Tensor& parameter) const;
  // Copies such tensors in, converted to the parameter's device and dtype; an empty map resets the
  // state. Throws CheckpointError if a tensor is missing, unknown or of a different shape; the
  // state is then unchanged.
  void set_parameter_state(const at::Tensor& parameter, const TensorMap& state);

  // Whether set_parameter_state takes a state of these tensors for a parameter of this group.
  bool takes_state(size_t group, const std::vector<std::string>& names) const;

  // For torch::save and torch::load: the groups' rates and all parameters' states. Throws what
  // set_parameter_state throws, and c10::Error for an archive of another kind of optimizer.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  // ---- Momentum, for schedules that cycle it ----
  // A group's momentum (SGD) or first beta (Adam, AdamW); throws std::invalid_argument if it has
  // none.
  virtual bool has_momentum() const = 0;
  virtual double momentum(size_t group) const = 0;
  virtual void set_momentum(size_t group, double value) = 0;

 protected:
  using Groups = std::vector<
      std::pair<std::vector<at::Tensor>, std::unique_ptr<torch::optim::OptimizerOptions>>>;
  Optimizer(Groups groups, std::unique_ptr<torch::optim::OptimizerOptions> defaults);

 private:
  friend class internal::StepPlan;

  // What each optimizer implements: the names of its state tensors and which of them a group uses,
  // the chosen implementation, the fused kernel's name, the initial value of the state, whether the
  // kernel counts steps, and the step itself.
  virtual const std::vector<const char*>& field_names() const = 0;
  virtual bool uses_field(size_t group, size_t field) const = 0;
  virtual Implementation implementation(size_t group) const = 0;
  virtual const char* fused_kernel() const = 0;
  virtual double initial_value(size_t group) const = 0;
  virtual bool counts_steps() const = 0;
  virtual void step_bucket(size_t group, internal::StepBucket& bucket,
                           const internal::StepScaling& scaling) = 0;

  std::unique_ptr<internal::StepPlan> plan_;
};

class AdamW : public Optimizer {
 public:
  // Throws std::invalid_argument for options out of range, a tensor in two groups, or a tensor that
  // is not a leaf. (The same for all four optimizers.)
  explicit AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options = {});
  explicit AdamW(std::vector<ParameterGroup<AdamWOptions>> groups);

  // The options of a group; may be changed between steps.
  AdamWOptions& options(size_t group = 0);

  bool has_momentum() const override { return true; }
  double momentum(size_t group) const override;
  void set_momentum(size_t group, double value) override;

 private:
  const std::vector<const char*>& field_names() const override;
  bool uses_field(size_t group, size_t field) const override;
  Implementation implementation(size_t group) const override;
  const char* fused_kernel() const override { return "aten::_fused_adamw_"; }
  double initial_value(size_t) const override { return 0; }
  bool counts_steps() const override { return true; }
  void step_bucket(size_t group, internal::StepBucket& bucket,
                   const internal::StepScaling& scaling) override;
};

class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<at::Tensor> parameters, const AdamOptions& options = {});
  explicit Adam(std::vector<ParameterGroup<AdamOptions>> groups);

  AdamOptions& options(size_t group = 0);

  bool has_momentum() const override { return true; }
  double momentum(size_t group) const override;
  void set_momentum(size_t group, double value) override;

 private:
  const std::vector<const char*>& field_names() const override;
  bool uses_field(size_t group, size_t field) const override;
  Implementation implementation(size_t group) const override;
  const char* fused_kernel() const override { return "aten::_fused_adam_"; }
  double initial_value(size_t) const override { return 0; }
  bool counts_steps() const override { return true; }
  void step_bucket(size_t group, internal::StepBucket& bucket,
                   const internal::StepScaling& scaling) override;
};

class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<at::Tensor> parameters, const SGDOptions& options = {});
  explicit SGD(std::vector<ParameterGroup<SGDOptions>> groups);

  SGDOptions& options(size_t group = 0);

  bool has_momentum() const override { return true; }
  double momentum(size_t group) const override;
  void set_momentum(size_t group, double value) override;

 private:
  const std::vector<const char*>& field_names() const override;
  bool uses_field(size_t group, size_t field) const override;
  Implementation implementation(size_t group) const override;
  const char* fused_kernel() const override { return "aten::_fused_sgd_"; }
  double initial_value(size_t) const override { return 0; }
  bool counts_steps() const override { return false; }
  void step_bucket(size_t group, internal::StepBucket& bucket,
                   const internal::StepScaling& scaling) override;
};

class Adagrad : public Optimizer {
 public:
  explicit Adagrad(std::vector<at::Tensor> parameters, const AdagradOptions& options = {});
  explicit Adagrad(std::vector<ParameterGroup<AdagradOptions>> groups);

  AdagradOptions& options(size_t group = 0);

  bool has_momentum() const override { return false; }
  double momentum(size_t group) const override;
  void set_momentum(size_t group, double value) override;

 private:
  const std::vector<const char*>& field_names() const override;
  bool uses_field(size_t group, size_t field) const override;
  Implementation implementation(size_t group) const override;
  const char* fused_kernel() const override { return "aten::_fused_adagrad_"; }
  double initial_value(size_t group) const override;
  bool counts_steps() const override { return true; }
  void step_bucket(size_t group, internal::StepBucket& bucket,
                   const internal::StepScaling& scaling) override;
};

}  // namespace muster
