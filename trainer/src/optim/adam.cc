// Adam and AdamW, in the order of operations of torch/optim/adam.py, line by line, so that results
// are bit-identical to Python's.
#include <cmath>

#include "muster/base/errors.h"
#include "muster/optim/optimizers.h"
#include "optim/group_options.h"
#include "optim/step_plan.h"

namespace muster {
namespace {

using internal::multiply_;
using internal::require_option;
using internal::StepBucket;
using internal::StepCount;
using internal::StepScaling;

const std::vector<const char*> kAdamFields = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};

template <typename Options>
void check_adam(const Options& options) {
  require_option(options.lr >= 0, "lr", options.lr, "0 or more");
  require_option(options.eps >= 0, "eps", options.eps, "0 or more");
  require_option(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more");
  const auto [beta1, beta2] = options.betas;
  require_option(beta1 >= 0 && beta1 < 1, "the first of betas", beta1, "0 or more and below 1");
  require_option(beta2 >= 0 && beta2 < 1, "the second of betas", beta2, "0 or more and below 1");
}

struct BiasCorrections {
  double minus_step_size;
  double second_root;
};

// Python's `**` is C's pow, for roots too.
template <typename Options>
BiasCorrections bias_corrections(const Options& options, double step) {
  const double first = 1 - std::pow(options.betas.first, step);
  const double second = 1 - std::pow(options.betas.second, step);
  return {(options.lr / first) * -1, std::pow(second, 0.5)};
}

template <typename Options>
void adam_step_fused(const Options& options, bool decoupled, StepBucket& bucket,
                     const StepScaling& scaling) {
  bucket.count_on_device(scaling, /*after_kernel=*/false);
  const auto& [beta1, beta2] = options.betas;
  if (decoupled) {
    at::_fused_adamw_(bucket.parameters, bucket.gradients, bucket.fields[0], bucket.fields[1],
                      bucket.fields[2], bucket.steps, options.lr, beta1, beta2,
                      options.weight_decay, options.eps, options.amsgrad, options.maximize,
                      scaling.grad_scale, scaling.found_inf);
  } else {
    at::_fused_adam_(bucket.parameters, bucket.gradients, bucket.fields[0], bucket.fields[1],
                     bucket.fields[2], bucket.steps, options.lr, beta1, beta2, options.weight_decay,
                     options.eps, options.amsgrad, options.maximize, scaling.grad_scale,
                     scaling.found_inf);
  }
  bucket.count_on_device(scaling, /*after_kernel=*/true);
}

template <typename Options>
void adam_step_foreach(const Options& options, bool decoupled, StepBucket& bucket) {
  const auto& [beta1, beta2] = options.betas;
  std::vector<at::Tensor> made;
  if (options.maximize) made = at::_foreach_neg(bucket.gradients);
  bucket.count_on_host();
  if (options.weight_decay != 0 && decoupled) {
    at::_foreach_mul_(bucket.parameters, 1 - options.lr * options.weight_decay);
  } else if (options.weight_decay != 0 && options.maximize) {
    at::_foreach_add_(made, bucket.parameters, options.weight_decay);
  } else if (options.weight_decay != 0) {
    made = at::_foreach_add(bucket.gradients, bucket.parameters, options.weight_decay);
  }
  const at::TensorList gradients = made.empty() ? bucket.gradients : made;
  at::_foreach_lerp_(bucket.fields[0], gradients, 1 - beta1);
  at::_foreach_mul_(bucket.fields[1], beta2);
  at::_foreach_addcmul_(bucket.fields[1], gradients, gradients, 1 - beta2);
  made.clear();

  bucket.numbers.clear();
  bucket.more_numbers.clear();
  const StepCount* last = nullptr;
  BiasCorrections corrections{};
  for (const StepCount* count : bucket.counts) {
    if (count != last) corrections = bias_corrections(options, count->value);
    last = count;
    bucket.numbers.emplace_back(corrections.minus_step_size);
    bucket.more_numbers.emplace_back(corrections.second_root);
  }
  if (options.amsgrad) at::_foreach_maximum_(bucket.fields[2], bucket.fields[1]);
  std::vector<at::Tensor> divisor = at::_foreach_sqrt(bucket.fields[options.amsgrad ? 2 : 1]);
  at::_foreach_div_(divisor, bucket.more_numbers);
  at::_foreach_add_(divisor, options.eps);
  at::_foreach_addcdiv_(bucket.parameters, bucket.fields[0], divisor, bucket.numbers);
}

template <typename Options>
void adam_step_plain(const Options& options, bool decoupled, StepBucket& bucket) {
  const auto& [beta1, beta2] = options.betas;
  bucket.count_on_host();
  for (size_t i = 0; i < bucket.parameters.size(); ++i) {
    at::Tensor& parameter = bucket.parameters[i];
    at::Tensor gradient = bucket.gradients[i];
    if (gradient.layout() != at::kStrided) {
      throw Error("Adam and AdamW do not support sparse gradients: use SGD or Adagrad");
    }
    if (options.maximize) gradient = gradient.neg();
    if (options.weight_decay != 0 && decoupled) {
      multiply_(parameter, 1 - options.lr * options.weight_decay);
    } else if (options.weight_decay != 0) {
      gradient = gradient.add(parameter, options.weight_decay);
    }
    bucket.fields[0][i].lerp_(gradient, 1 - beta1);
    multiply_(bucket.fields[1][i], beta2).addcmul_(gradient, gradient, 1 - beta2);
    at::Tensor square = bucket.fields[1][i];
    if (options.amsgrad) {
      at::maximum_out(bucket.fields[2][i], bucket.fields[2][i], square);
      square = bucket.fields[2][i];
    }
    const BiasCorrections corrections = bias_corrections(options, bucket.counts[i]->value);
    const at::Tensor divisor = (square.sqrt() / corrections.second_root).add_(options.eps);
    parameter.addcdiv_(bucket.fields[0][i], divisor, corrections.minus_step_size);
  }
}

template <typename Options>
void step_by(const Options& options, bool decoupled, StepBucket& bucket,
             const StepScaling& scaling) {
  switch (bucket.implementation) {
    case Implementation::fused:
      return adam_step_fused(options, decoupled, bucket, scaling);
    case Implementation::foreach:
      return adam_step_foreach(options, decoupled, bucket);
    default:
      return adam_step_plain(options, decoupled, bucket);
  }
}

}  // namespace

// ---- AdamW ----

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options)
    : AdamW(std::vector<ParameterGroup<AdamWOptions>>{{std::move(parameters), options}}) {}

AdamW::AdamW(std::vector<ParameterGroup<AdamWOptions>> groups)
    : Optimizer(internal::own_groups<Groups>(groups, check_adam<AdamWOptions>),
                internal::defaults_of(groups)) {}

AdamWOptions& AdamW::options(size_t group) {
  return internal::values_of<AdamWOptions>(param_groups().at(group).options());
}

double AdamW::momentum(size_t group) const {
  return internal::values_of<AdamWOptions>(*this, group).betas.first;
}
void AdamW::set_momentum(size_t group, double value) { options(group).betas.first = value; }

const std::vector<const char*>& AdamW::field_names() const { return kAdamFields; }
bool AdamW::uses_field(size_t group, size_t field) const {
  return field < 2 || internal::values_of<AdamWOptions>(*this, group).amsgrad;
}
Implementation AdamW::implementation(size_t group) const {
  return internal::values_of<AdamWOptions>(*this, group).implementation;
}
void AdamW::step_bucket(size_t group, StepBucket& bucket, const StepScaling& scaling) {
  step_by(options(group), /*decoupled=*/true, bucket, scaling);
}

// ---- Adam ----

Adam::Adam(std::vector<at::Tensor> parameters, const AdamOptions& options)
    : Adam(std::vector<ParameterGroup<AdamOptions>>{{std::move(parameters), options}}) {}

Adam::Adam(std::vector<ParameterGroup<AdamOptions>> groups)
    : Optimizer(internal::own_groups<Groups>(groups, check_adam<AdamOptions>),
                internal::defaults_of(groups)) {}

AdamOptions& Adam::options(size_t group) {
  return internal::values_of<AdamOptions>(param_groups().at(group).options());
}

double Adam::momentum(size_t group) const {
  return internal::values_of<AdamOptions>(*this, group).betas.first;
}
void Adam::set_momentum(size_t group, double value) { options(group).betas.first = value; }

const std::vector<const char*>& Adam::field_names() const { return kAdamFields; }
bool Adam::uses_field(size_t group, size_t field) const {
  return field < 2 || internal::values_of<AdamOptions>(*this, group).amsgrad;
}
Implementation Adam::implementation(size_t group) const {
  return internal::values_of<AdamOptions>(*this, group).implementation;
}
void Adam::step_bucket(size_t group, StepBucket& bucket, const StepScaling& scaling) {
  step_by(options(group), /*decoupled=*/false, bucket, scaling);
}

}  // namespace muster
