// Batch normalization over all ranks, in plain tensor operations for any device; see
// sync_batch_norm.h. Forward merges the ranks' counts, means and squared deviations with Chan's
// formula; backward is torch's batch_norm_backward_reduce and _elemt. Training thread and
// autograd's threads.
#include "muster/parallel/sync_batch_norm.h"

#include <torch/csrc/autograd/custom_function.h>
#include <stdexcept>

#include "parallel/data_parallel_state.h"

namespace muster {

struct SyncBatchNormImpl::Group {
  ProcessGroupPtr ranks;
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GroupHolder : torch::CustomClassHolder {
  ProcessGroupPtr ranks;
};

// Sums use double if that costs nothing; half types are computed in float.
at::ScalarType sum_type(const at::Tensor& input) {
  return input.is_cpu() || input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
at::ScalarType compute_type(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// All dimensions but the channels'.
std::vector<int64_t> reduced_dims(const at::Tensor& input) {
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

// One value per channel, shaped to broadcast with the input: [1, channels, 1, ...].
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.to(compute_type(input)).view(shape);
}

struct Statistics {
  at::Tensor mean, variance;  // [channels], biased
  double count = 0;           // values per channel, over all ranks
};

// Collective.
Statistics statistics_of_all(const at::Tensor& input, const ProcessGroupPtr& ranks) {
  const int64_t channels = input.size(1);
  at::Tensor own = at::zeros({2 * channels + 1}, input.options().dtype(sum_type(input)));
  if (input.numel() > 0) {
    const auto [variance, mean] = at::var_mean(input.to(compute_type(input)), reduced_dims(input),
                                               /*correction=*/std::optional<at::Scalar>(0));
    const auto count = static_cast<double>(input.numel() / channels);
    own.narrow(0, 0, channels).copy_(mean);
    own.narrow(0, channels, channels).copy_(variance).mul_(count);
    own.narrow(0, 2 * channels, 1).fill_(count);
  }
  std::vector<std::vector<at::Tensor>> gathered(1);
  for (int i = 0; i < ranks->getSize(); ++i) gathered[0].push_back(at::empty_like(own));
  std::vector<at::Tensor> inputs = {own};
  ranks->getBackend(own.device().type())->allgather(gathered, inputs)->wait();
  const at::Tensor all = at::stack(gathered[0]);
  const at::Tensor means = all.narrow(1, 0, channels);
  const at::Tensor deviations = all.narrow(1, channels, channels);
  const at::Tensor counts = all.narrow(1, 2 * channels, 1);
  Statistics statistics;
  statistics.count = counts.sum().item<double>();
  if (statistics.count < 2) {
    throw std::invalid_argument(
        "SyncBatchNorm: over all ranks there is only " +
        std::to_string(static_cast<int64_t>(statistics.count)) +
        " value per channel, but training needs at least 2: use a larger batch");
  }
  statistics.mean = (means * counts).sum(0) / statistics.count;
  const at::Tensor from_mean = means - statistics.mean;
  statistics.variance = (deviations + from_mean * from_mean * counts).sum(0) / statistics.count;
  return statistics;
}

class Normalize : public torch::autograd::Function<Normalize> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& given_weight,
                            const std::optional<at::Tensor>& given_bias,
                            const Statistics& statistics, double eps,
                            const c10::intrusive_ptr<GroupHolder>& group) {
    const at::Tensor weight = given_weight.value_or(at::Tensor());
    const at::Tensor bias = given_bias.value_or(at::Tensor());
    const at::Tensor inverse = (statistics.variance + eps).rsqrt();
    context->save_for_backward({input, weight, statistics.mean, inverse});
    context->saved_data["count"] = statistics.count;
    context->saved_data["group"] = c10::IValue::make_capsule(group);
    const at::Tensor scale = weight.defined() ? inverse * weight : inverse;
    at::Tensor shift = -statistics.mean * scale;
    if (bias.defined()) shift = shift + bias;
    const at::Tensor result = at::addcmul(per_channel(shift, input), input.to(compute_type(input)),
                                          per_channel(scale, input));
    return result.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (torch::GradMode::is_enabled()) {
      throw std::invalid_argument(
          "SyncBatchNorm has no second derivative: call backward without create_graph");
    }
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const at::Tensor gradient = gradients[0].to(compute_type(input));
    const at::Tensor from_mean = input.to(compute_type(input)) - per_channel(mean, input);
    const std::vector<int64_t> dims = reduced_dims(input);
    const at::Tensor sum = gradient.sum(dims);
    const at::Tensor sum_from_mean = (gradient * from_mean).sum(dims);
    variable_list result(6);
    if (context->needs_input_grad(0)) {
      const double count = context->saved_data["count"].toDouble();
      const auto group =
          c10::static_intrusive_pointer_cast<GroupHolder>(context->saved_data["group"].toCapsule());
      std::vector<at::Tensor> both = {at::cat({sum, sum_from_mean}).to(sum_type(input))};
      group->ranks->getBackend(both[0].device().type())->allreduce(both)->wait();
      const at::Tensor mean_gradient = both[0].narrow(0, 0, mean.numel()) / count;
      const at::Tensor slope =
          both[0].narrow(0, mean.numel(), mean.numel()) / count * inverse * inverse;
      const at::Tensor scale = weight.defined() ? inverse * weight : inverse;
      result[0] =
          ((gradient - per_channel(mean_gradient, input) - from_mean * per_channel(slope, input)) *
           per_channel(scale, input))
              .to(input.scalar_type());
    }
    // Local sums: parameter gradients are averaged over the ranks like those of any module.
    if (weight.defined() && context->needs_input_grad(1)) {
      result[1] = (sum_from_mean * inverse).to(weight.scalar_type());
    }
    if (weight.defined() && context->needs_input_grad(2)) result[2] = sum.to(weight.scalar_type());
    return result;
  }
};

}  // namespace

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features() && input.is_floating_point()) {
    return;
  }
  throw std::invalid_argument("SyncBatchNorm: expected a floating-point input [samples, " +
                              std::to_string(options.num_features()) + ", ...], got " +
                              c10::str(input.scalar_type(), " ", input.sizes()));
}

double SyncBatchNormImpl::next_average_factor() {
  if (!is_training() || !num_batches_tracked.defined()) return options.momentum().value_or(0.0);
  num_batches_tracked += 1;
  // Without momentum: the plain mean over all batches so far.
  return options.momentum().has_value() ? *options.momentum()
                                        : 1.0 / num_batches_tracked.item<double>();
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  const double factor = next_average_factor();
  const bool by_batch = is_training() || !running_mean.defined();
  if (!is_training() || !group_) {
    return at::batch_norm(input, weight, bias, running_mean, running_var, by_batch, factor,
                          options.eps(), at::globalContext().userEnabledCuDNN());
  }
  Statistics statistics;
  {
    const torch::NoGradGuard no_grad;
    statistics = statistics_of_all(input, group_->ranks);
    if (running_mean.defined()) {
      const double unbiased = statistics.count / (statistics.count - 1);
      running_mean.mul_(1 - factor).add_(statistics.mean.to(running_mean.scalar_type()), factor);
      running_var.mul_(1 - factor)
          .add_((statistics.variance * unbiased).to(running_var.scalar_type()), factor);
    }
  }
  auto holder = c10::make_intrusive<GroupHolder>();
  holder->ranks = group_->ranks;
  // Autograd accepts possibly undefined tensors only as optionals.
  const auto given = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
  };
  return Normalize::apply(input, given(weight), given(bias), statistics, options.eps(), holder);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "muster::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
}

void attach_sync_batch_norm(torch::nn::Module& module, const ProcessGroupPtr& group) {
  std::shared_ptr<SyncBatchNormImpl::Group> shared;
  for (const auto& child : module.modules(/*include_self=*/true)) {
    auto* layer = child->as<SyncBatchNorm>();
    if (layer == nullptr) continue;
    if (group && !shared) {
      shared = std::make_shared<SyncBatchNormImpl::Group>();
      shared->ranks = group;
    }
    layer->set_group(shared);
  }
}

}  // namespace muster
