// SGD, in the order of operations of torch/optim/sgd.py, so that results are bit-identical to
// Python's.
#include <stdexcept>

#include "muster/base/errors.h"
#include "muster/optim/optimizers.h"
#include "optim/group_options.h"
#include "optim/step_plan.h"

namespace muster {
namespace {

using internal::multiply_;
using internal::require_option;
using internal::StepBucket;
using internal::StepScaling;

const std::vector<const char*> kSgdFields = {"momentum_buffer"};

void check_sgd(const SGDOptions& options) {
  require_option(options.lr >= 0, "lr", options.lr, "0 or more");
  require_option(options.momentum >= 0, "momentum", options.momentum, "0 or more");
  require_option(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more");
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    throw std::invalid_argument("nesterov requires momentum above 0 and zero dampening");
  }
}

void sgd_step_fused(const SGDOptions& options, StepBucket& bucket, const StepScaling& scaling) {
  at::_fused_sgd_(bucket.parameters, bucket.gradients, bucket.fields[0], options.weight_decay,
                  options.momentum, options.lr, options.dampening, options.nesterov,
                  options.maximize, bucket.first_step && options.momentum != 0, scaling.grad_scale,
                  scaling.found_inf);
}

void sgd_step_foreach(const SGDOptions& options, StepBucket& bucket) {
  std::vector<at::Tensor> made;
  if (options.maximize) made = at::_foreach_neg(bucket.gradients);
  if (options.weight_decay != 0 && options.maximize) {
    at::_foreach_add_(made, bucket.parameters, options.weight_decay);
  } else if (options.weight_decay != 0) {
    made = at::_foreach_add(bucket.gradients, bucket.parameters, options.weight_decay);
  }
  const std::vector<at::Tensor>* gradients = made.empty() ? &bucket.gradients : &made;
  if (options.momentum != 0) {
    const std::vector<at::Tensor>& momentum = bucket.fields[0];
    if (bucket.first_step) {
      at::_foreach_copy_(momentum, *gradients);
    } else {
      at::_foreach_mul_(momentum, options.momentum);
      at::_foreach_add_(momentum, *gradients, 1 - options.dampening);
    }
    if (options.nesterov) {
      made = at::_foreach_add(*gradients, momentum, options.momentum);
      gradients = &made;
    } else {
      gradients = &momentum;
    }
  }
  at::_foreach_add_(bucket.parameters, *gradients, -options.lr);
}

void sgd_step_plain(const SGDOptions& options, StepBucket& bucket) {
  for (size_t i = 0; i < bucket.parameters.size(); ++i) {
    at::Tensor gradient = bucket.gradients[i];
    if (options.maximize) gradient = gradient.neg();
    if (options.weight_decay != 0) {
      gradient = gradient.add(bucket.parameters[i], options.weight_decay);
    }
    if (options.momentum != 0) {
      at::Tensor& momentum = bucket.fields[0][i];
      if (bucket.first_step && gradient.layout() == at::kStrided) {
        momentum.copy_(gradient);
      } else if (bucket.first_step) {
        momentum.add_(gradient);
      } else {
        multiply_(momentum, options.momentum).add_(gradient, 1 - options.dampening);
      }
      gradient = options.nesterov ? gradient.add(momentum, options.momentum) : momentum;
    }
    bucket.parameters[i].add_(gradient, -options.lr);
  }
}

}  // namespace

SGD::SGD(std::vector<at::Tensor> parameters, const SGDOptions& options)
    : SGD(std::vector<ParameterGroup<SGDOptions>>{{std::move(parameters), options}}) {}

SGD::SGD(std::vector<ParameterGroup<SGDOptions>> groups)
    : Optimizer(internal::own_groups<Groups>(groups, check_sgd), internal::defaults_of(groups)) {}

SGDOptions& SGD::options(size_t group) {
  return internal::values_of<SGDOptions>(param_groups().at(group).options());
}

double SGD::momentum(size_t group) const {
  return internal::values_of<SGDOptions>(*this, group).momentum;
}
void SGD::set_momentum(size_t group, double value) { options(group).momentum = value; }

const std::vector<const char*>& SGD::field_names() const { return kSgdFields; }
bool SGD::uses_field(size_t group, size_t) const {
  return internal::values_of<SGDOptions>(*this, group).momentum != 0;
}
Implementation SGD::implementation(size_t group) const {
  return internal::values_of<SGDOptions>(*this, group).implementation;
}
void SGD::step_bucket(size_t group, StepBucket& bucket, const StepScaling& scaling) {
  const SGDOptions& own = options(group);
  switch (bucket.implementation) {
    case Implementation::fused:
      return sgd_step_fused(own, bucket, scaling);
    case Implementation::foreach:
      return sgd_step_foreach(own, bucket);
    default:
      return sgd_step_plain(own, bucket);
  }
}

}  // namespace muster
