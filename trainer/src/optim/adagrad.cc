// Adagrad, in the order of operations of torch/optim/adagrad.py, so that results are bit-identical
// to Python's.
#include <stdexcept>

#include "muster/base/errors.h"
#include "muster/optim/optimizers.h"
#include "optim/group_options.h"
#include "optim/step_plan.h"

namespace muster {
namespace {

using internal::require_option;
using internal::StepBucket;
using internal::StepCount;
using internal::StepScaling;

const std::vector<const char*> kAdagradFields = {"sum"};

void check(const AdagradOptions& options) {
  require_option(options.lr >= 0, "lr", options.lr, "0 or more");
  require_option(options.lr_decay >= 0, "lr_decay", options.lr_decay, "0 or more");
  require_option(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more");
  require_option(options.initial_accumulator_value >= 0, "initial_accumulator_value",
                 options.initial_accumulator_value, "0 or more");
  require_option(options.eps >= 0, "eps", options.eps, "0 or more");
}

void step_fused(const AdagradOptions& options, StepBucket& bucket, const StepScaling& scaling) {
  bucket.count_on_device(scaling, /*after_kernel=*/false);
  at::_fused_adagrad_(bucket.parameters, bucket.gradients, bucket.fields[0], bucket.steps,
                      options.lr, options.lr_decay, options.weight_decay, options.eps,
                      options.maximize, scaling.grad_scale, scaling.found_inf);
  bucket.count_on_device(scaling, /*after_kernel=*/true);
}

void step_foreach(const AdagradOptions& options, StepBucket& bucket) {
  std::vector<at::Tensor> made;
  if (options.maximize) made = at::_foreach_neg(bucket.gradients);
  bucket.count_on_host();
  if (options.weight_decay != 0 && options.maximize) {
    at::_foreach_add_(made, bucket.parameters, options.weight_decay);
  } else if (options.weight_decay != 0) {
    made = at::_foreach_add(bucket.gradients, bucket.parameters, options.weight_decay);
  }
  const at::TensorList gradients = made.empty() ? bucket.gradients : made;
  bucket.numbers.clear();
  for (const StepCount* count : bucket.counts) {
    bucket.numbers.emplace_back(-options.lr / (1 + (count->value - 1) * options.lr_decay));
  }
  at::_foreach_addcmul_(bucket.fields[0], gradients, gradients, 1);
  std::vector<at::Tensor> divisor = at::_foreach_sqrt(bucket.fields[0]);
  at::_foreach_add_(divisor, options.eps);
  if (made.empty()) {
    made = at::_foreach_mul(gradients, bucket.numbers);
  } else {
    at::_foreach_mul_(made, bucket.numbers);
  }
  at::_foreach_addcdiv_(bucket.parameters, made, divisor);
}

// Updates only the rows of the sparse gradient.
void step_sparse(at::Tensor& parameter, at::Tensor& sum, const at::Tensor& sparse, double rate,
                 double eps) {
  const at::Tensor gradient = sparse.coalesce();  // the update is not linear in duplicate rows
  const at::Tensor indices = gradient._indices(), values = gradient._values();
  const auto like = [&](const at::Tensor& row_values) {
    return at::sparse_coo_tensor(indices, row_values, gradient.sizes());
  };
  sum.add_(like(values.pow(2)));
  const at::Tensor divisor = sum.sparse_mask(gradient)._values().sqrt_().add_(eps);
  parameter.add_(like(values / divisor), -rate);
}

void step_plain(const AdagradOptions& options, StepBucket& bucket) {
  bucket.count_on_host();
  for (size_t i = 0; i < bucket.parameters.size(); ++i) {
    at::Tensor& parameter = bucket.parameters[i];
    at::Tensor& sum = bucket.fields[0][i];
    at::Tensor gradient = bucket.gradients[i];
    const bool sparse = gradient.layout() != at::kStrided;
    if (options.maximize) gradient = gradient.neg();
    if (options.weight_decay != 0 && sparse) {
      throw Error("Adagrad does not support weight_decay with sparse gradients: set it to 0");
    }
    if (options.weight_decay != 0) gradient = gradient.add(parameter, options.weight_decay);
    const double rate = options.lr / (1 + (bucket.counts[i]->value - 1) * options.lr_decay);
    if (sparse) {
      step_sparse(parameter, sum, gradient, rate, options.eps);
    } else {
      sum.addcmul_(gradient, gradient, 1);
      parameter.addcdiv_(gradient, sum.sqrt().add_(options.eps), -rate);
    }
  }
}

}  // namespace

Adagrad::Adagrad(std::vector<at::Tensor> parameters, const AdagradOptions& options)
    : Adagrad(std::vector<ParameterGroup<AdagradOptions>>{{std::move(parameters), options}}) {}

Adagrad::Adagrad(std::vector<ParameterGroup<AdagradOptions>> groups)
    : Optimizer(internal::own_groups<Groups>(groups, check), internal::defaults_of(groups)) {}

AdagradOptions& Adagrad::options(size_t group) {
  return internal::values_of<AdagradOptions>(param_groups().at(group).options());
}

double Adagrad::momentum(size_t) const { throw std::invalid_argument("Adagrad has no momentum"); }
void Adagrad::set_momentum(size_t, double) {
  throw std::invalid_argument("Adagrad has no momentum");
}

const std::vector<const char*>& Adagrad::field_names() const { return kAdagradFields; }
bool Adagrad::uses_field(size_t, size_t) const { return true; }
Implementation Adagrad::implementation(size_t group) const {
  return internal::values_of<AdagradOptions>(*this, group).implementation;
}
double Adagrad::initial_value(size_t group) const {
  return internal::values_of<AdagradOptions>(*this, group).initial_accumulator_value;
}
void Adagrad::step_bucket(size_t group, StepBucket& bucket, const StepScaling& scaling) {
  const AdagradOptions& own = options(group);
  switch (bucket.implementation) {
    case Implementation::fused:
      return step_fused(own, bucket, scaling);
    case Implementation::foreach:
      return step_foreach(own, bucket);
    default:
      return step_plain(own, bucket);
  }
}

}  // namespace muster
