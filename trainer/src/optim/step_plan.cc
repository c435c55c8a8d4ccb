// Plans are small and rarely rebuilt, so rebuilding is written for clarity; is_current and filling
// in gradients run at every step.
#include "optim/step_plan.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "muster/base/errors.h"

namespace muster::internal {
namespace {

bool kernel_takes(const char* kernel, at::Device device, at::ScalarType dtype) {
  if (dtype != at::kFloat && dtype != at::kDouble && dtype != at::kHalf && dtype != at::kBFloat16) {
    return false;
  }
  const auto found = c10::Dispatcher::singleton().findSchema({kernel, ""});
  return found && found->hasKernelForDispatchKey(
                      c10::computeDispatchKey(std::nullopt, std::nullopt, device));
}

at::Tensor as_real(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

}  // namespace

StepScaling StepScaling::on(at::Device device) const {
  StepScaling moved;
  if (grad_scale) moved.grad_scale = grad_scale->to(device, /*non_blocking=*/true);
  if (found_inf) moved.found_inf = found_inf->to(device, /*non_blocking=*/true);
  return moved;
}

void StepBucket::count_on_device(const StepScaling& scaling, bool after_kernel) {
  if (after_kernel && !scaling.found_inf) return;
  // Takes back the count of a step that the kernel skipped, without a host sync.
  if (after_kernel) {
    if (distinct_steps.size() == 1) {
      distinct_steps[0].sub_(*scaling.found_inf);
    } else {
      at::_foreach_sub_(distinct_steps,
                        std::vector<at::Tensor>(distinct_steps.size(), *scaling.found_inf));
    }
  } else if (distinct_steps.size() == 1) {
    distinct_steps[0].add_(1);
  } else {
    at::_foreach_add_(distinct_steps, 1);
  }
}

void StepBucket::count_on_host() {
  for (StepCount* count : distinct_counts) count->value += 1;
}

StepPlan::Sight StepPlan::look_at(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return {};
  Sight sight{.parameter = parameter.unsafeGetTensorImpl(),
              .dtype = parameter.scalar_type(),
              .device = parameter.device()};
  if (gradient.layout() != at::kStrided) {
    sight.form = Sight::sparse;
  } else if (parameter.numel() <= 1 || (gradient.strides() == parameter.strides() &&
                                        parameter.is_non_overlapping_and_dense())) {
    sight.form = Sight::block;
  } else {
    sight.form = Sight::scattered;
  }
  return sight;
}

bool StepPlan::is_current(Optimizer& optimizer, size_t group) {
  GroupPlan& plan = groups_[group];
  const auto& parameters = optimizer.param_groups()[group].params();
  if (plan.stale || plan.requested != optimizer.implementation(group) ||
      plan.sights.size() != parameters.size()) {
    return false;
  }
  for (size_t field = 0; field < plan.used_fields.size(); ++field) {
    if (plan.used_fields[field] != optimizer.uses_field(group, field)) return false;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (look_at(parameters[i]) != plan.sights[i]) return false;
  }
  return true;
}

void StepPlan::look(Optimizer& optimizer, size_t group) {
  if (!is_current(optimizer, group)) rebuild(optimizer, group);
  GroupPlan& plan = groups_[group];
  const auto& parameters = optimizer.param_groups()[group].params();
  for (StepBucket& bucket : plan.buckets) {
    bucket.gradients.clear();
    for (const size_t index : bucket.indices) {
      const at::Tensor& gradient = parameters[index].grad();
      bucket.gradients.push_back(gradient.is_complex() ? as_real(gradient) : gradient);
    }
  }
}

StepBucket& StepPlan::bucket_for(GroupPlan& plan, const Sight& sight, Implementation implementation,
                                 bool first_step, size_t fields) {
  for (StepBucket& bucket : plan.buckets) {
    if (bucket.implementation == implementation && bucket.device == sight.device &&
        bucket.dtype == sight.dtype && bucket.first_step == first_step) {
      return bucket;
    }
  }
  StepBucket bucket;
  bucket.implementation = implementation;
  bucket.device = sight.device;
  bucket.dtype = sight.dtype;
  bucket.first_step = first_step;
  bucket.fields.resize(fields);
  plan.buckets.push_back(std::move(bucket));
  return plan.buckets.back();
}

StepPlan::Slot& StepPlan::slot_for(Optimizer& optimizer, size_t group,
                                   const at::Tensor& parameter) {
  Slot& slot = slots_[parameter.unsafeGetTensorImpl()];
  slot.fields.resize(optimizer.field_names().size());
  for (size_t field = 0; field < slot.fields.size(); ++field) {
    at::Tensor& tensor = slot.fields[field];
    if (!optimizer.uses_field(group, field)) continue;
    if (!tensor.defined()) {
      const double initial = optimizer.initial_value(group);
      tensor = initial == 0 ? at::zeros_like(parameter) : at::full_like(parameter, initial);
      // Python initializes both parts of a complex sum.
      if (parameter.is_complex() && initial != 0) at::view_as_real(tensor).fill_(initial);
    } else if (tensor.device() != parameter.device() ||
               tensor.scalar_type() != parameter.scalar_type()) {
      tensor = tensor.to(parameter.options());  // the model moved
    }
  }
  return slot;
}

void StepPlan::rebuild(Optimizer& optimizer, size_t group) {
  GroupPlan& plan = groups_[group];
  const auto& parameters = optimizer.param_groups()[group].params();
  const size_t fields = optimizer.field_names().size();
  plan = GroupPlan();
  plan.requested = optimizer.implementation(group);
  for (size_t field = 0; field < fields; ++field) {
    plan.used_fields.push_back(optimizer.uses_field(group, field));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    const Sight sight = look_at(parameter);
    plan.sights.push_back(sight);
    if (sight.form == Sight::absent) continue;
    Implementation chosen = plan.requested;
    if (chosen == Implementation::automatic || chosen == Implementation::fused) {
      const bool fits = kernel_takes(optimizer.fused_kernel(), sight.device, sight.dtype);
      if (!fits && chosen == Implementation::fused) {
        throw std::invalid_argument(std::string("LibTorch has no ") + optimizer.fused_kernel() +
                                    " for parameters of " + c10::toString(sight.dtype) + " on " +
                                    sight.device.str() +
                                    ": use Implementation::automatic or foreach");
      }
      chosen = fits && sight.form == Sight::block ? Implementation::fused : Implementation::foreach;
    }
    if (sight.form == Sight::sparse) chosen = Implementation::plain;
    Slot& slot = slot_for(optimizer, group, parameter);
    const bool first = !optimizer.counts_steps() && !slot.started;
    StepBucket& bucket = bucket_for(plan, sight, chosen, first, fields);
    bucket.indices.push_back(i);
    bucket.parameters.push_back(as_real(parameter));
    for (size_t field = 0; field < fields; ++field) {
      if (plan.used_fields[field]) bucket.fields[field].push_back(as_real(slot.fields[field]));
    }
  }
  if (optimizer.counts_steps()) {
    for (StepBucket& bucket : plan.buckets) share_counts(bucket, parameters);
  }
  // A first step happens once: the next step needs a new plan.
  plan.stale = std::any_of(plan.buckets.begin(), plan.buckets.end(),
                           [](const StepBucket& bucket) { return bucket.first_step; });
}

// Splits a count that parameters outside the bucket also use, because they may not step now.
void StepPlan::share_counts(StepBucket& bucket, const std::vector<at::Tensor>& parameters) {
  std::unordered_map<StepCount*, int64_t> users;
  for (const auto& [impl, slot] : slots_) ++users[slot.count.get()];
  std::vector<Slot*> members;
  for (const size_t index : bucket.indices) {
    members.push_back(&slots_.at(parameters[index].unsafeGetTensorImpl()));
    --users[members.back()->count.get()];
  }
  const bool on_device = bucket.implementation == Implementation::fused;
  std::unordered_map<StepCount*, std::shared_ptr<StepCount>> own;
  for (Slot* member : members) {
    std::shared_ptr<StepCount>& count = own[member->count.get()];
    if (!count) {
      if (!member->count) {
        count = std::make_shared<StepCount>();
      } else if (users[member->count.get()] == 0) {
        count = member->count;
      } else {
        count = std::make_shared<StepCount>(*member->count);
        if (count->tensor.defined()) count->tensor = count->tensor.clone();
      }
      if (!on_device && count->tensor.defined()) {
        count->value = count->tensor.item<double>();
        count->tensor.reset();
      } else if (on_device && !count->tensor.defined()) {
        count->tensor = at::full({}, count->value, at::dtype(at::kFloat).device(bucket.device));
      } else if (on_device) {
        count->tensor = count->tensor.to(bucket.device);
      }
      bucket.distinct_counts.push_back(count.get());
      if (on_device) bucket.distinct_steps.push_back(count->tensor);
    }
    bucket.counts.push_back(count.get());
    if (on_device) bucket.steps.push_back(count->tensor);
  }
  for (Slot* member : members) member->count = own.at(member->count.get());
}

void StepPlan::release_gradients() {
  for (GroupPlan& plan : groups_) {
    for (StepBucket& bucket : plan.buckets) bucket.gradients.clear();
  }
}

bool StepPlan::all_fused(Optimizer& optimizer) {
  const torch::NoGradGuard no_grad;
  groups_.resize(optimizer.param_groups().size());
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (!is_current(optimizer, group)) rebuild(optimizer, group);
    for (const StepBucket& bucket : groups_[group].buckets) {
      if (bucket.implementation != Implementation::fused) return false;
    }
  }
  return true;
}

void StepPlan::run(Optimizer& optimizer, size_t group, StepBucket& bucket,
                   const StepScaling& scaling, bool skip) {
  const auto& parameters = optimizer.param_groups()[group].params();
  // The momentum after a first step depends on whether the step was taken.
  if (bucket.first_step && scaling.found_inf && !skip) {
    skip = scaling.found_inf->item<float>() != 0;
  }
  if (skip) return;
  optimizer.step_bucket(group, bucket, scaling);
  if (!bucket.first_step) return;
  for (const size_t index : bucket.indices) {
    slots_.at(parameters[index].unsafeGetTensorImpl()).started = true;
  }
}

void StepPlan::step(Optimizer& optimizer, const StepScaling& scaling) {
  struct Release {
    StepPlan& plan;
    ~Release() { plan.release_gradients(); }
  } release{*this};
  groups_.resize(optimizer.param_groups().size());
  bool host_must_know = false;
  for (size_t group = 0; group < groups_.size(); ++group) {
    look(optimizer, group);
    for (const StepBucket& bucket : groups_[group].buckets) {
      host_must_know |= scaling.found_inf && bucket.implementation != Implementation::fused;
    }
  }
  loaded_counts_.clear();
  const bool skip = host_must_know && scaling.found_inf->item<float>() != 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    for (StepBucket& bucket : groups_[group].buckets) {
      const StepScaling here =
          scaling.found_inf || scaling.grad_scale ? scaling.on(bucket.device) : StepScaling();
      if (bucket.implementation != Implementation::fused && here.grad_scale) {
        const at::Tensor inverse = here.grad_scale->to(at::kDouble).reciprocal().to(at::kFloat);
        for (at::Tensor& gradient : bucket.gradients) gradient.mul_(inverse);
      }
      run(optimizer, group, bucket, here, skip);
    }
  }
}

}  // namespace muster::internal
