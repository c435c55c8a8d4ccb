// SyncBatchNorm against torch's BatchNorm on the batches of all ranks joined.
#include "muster/parallel/sync_batch_norm.h"

#include <algorithm>
#include "parallel/rank_model.h"

namespace muster {
namespace {

double difference(const at::Tensor& one, const at::Tensor& other) {
  if (one.numel() == 0) return 0;
  const double scale = other.abs().max().item<double>() + 1e-12;
  return (one - other).abs().max().item<double>() / scale;
}

struct Batch {
  at::Tensor input, weight;  // the loss is (output · weight).sum()
};

// Rank r has r + 2 samples, or with `empty` none on rank 1.
Batch batch_of(int rank, int step, const std::vector<int64_t>& shape, at::ScalarType type,
               bool empty) {
  std::vector<int64_t> sizes = {empty && rank == 1 ? 0 : rank + 2, 3};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  const at::Tensor line = torch::arange(c10::multiply_integers(sizes), at::kFloat);
  const at::Tensor input = torch::sin(line * 0.7 + rank * 2 + step) * 2 + 0.5 * rank;
  return {input.view(sizes).to(type), torch::cos(line * 0.3 + rank).view(sizes).to(type)};
}

Batch joined(int world_size, int step, const std::vector<int64_t>& shape, at::ScalarType type,
             bool empty) {
  std::vector<at::Tensor> inputs, weights;
  for (int rank = 0; rank < world_size; ++rank) {
    const Batch batch = batch_of(rank, step, shape, type, empty);
    inputs.push_back(batch.input);
    weights.push_back(batch.weight);
  }
  return {at::cat(inputs), at::cat(weights)};
}

// The largest relative difference of outputs, gradients and running statistics in three steps.
double compare(const Rank& rank, const std::vector<int64_t>& shape,
               const torch::nn::BatchNormOptions& options, at::ScalarType type, bool empty) {
  SyncBatchNorm sync(options);
  sync->to(type);
  auto model = rank.prepare(sync);
  torch::nn::BatchNorm2d whole(options);
  whole->to(type);
  int64_t first = 0;
  for (int other = 0; other < rank.rank(); ++other) {
    first += batch_of(other, 0, shape, type, empty).input.size(0);
  }
  double greatest = 0;
  const auto meet = [&](const at::Tensor& one, const at::Tensor& other) {
    greatest = std::max(greatest, difference(one, other));
  };
  for (int step = 0; step < 3; ++step) {
    model.data_parallel().zero_grad();
    whole->zero_grad();
    Batch own = batch_of(rank.rank(), step, shape, type, empty);
    Batch all = joined(rank.world_size(), step, shape, type, empty);
    const int64_t count = own.input.size(0);
    // BatchNorm2d requires four dimensions, which do not matter for the statistics.
    const at::Tensor wide = all.input.reshape({all.input.size(0), 3, -1, 1}).requires_grad_();
    own.input.requires_grad_();
    const at::Tensor output = model(own.input);
    const at::Tensor expected = whole->forward(wide).view(all.input.sizes());
    meet(output, expected.narrow(0, first, count));
    (output * own.weight).sum().backward();
    (expected * all.weight).sum().backward();
    meet(own.input.grad(), wide.grad().view(all.input.sizes()).narrow(0, first, count));
    if (options.affine()) {
      meet(sync->weight.grad() * rank.world_size(), whole->weight.grad());
      meet(sync->bias.grad() * rank.world_size(), whole->bias.grad());
    }
    if (options.track_running_stats()) {
      meet(sync->running_mean, whole->running_mean);
      meet(sync->running_var, whole->running_var);
    }
  }
  return greatest;
}

std::string names(const torch::nn::Module& module) {
  std::string names;
  for (const auto& item : module.named_parameters()) names += item.key() + " ";
  for (const auto& item : module.named_buffers()) names += item.key() + " ";
  return names;
}

template <typename Error, typename Body>
bool refuses(const Body& body) {
  try {
    body();
  } catch (const Error&) {
    return true;
  }
  return false;
}

}  // namespace

void sync_batch_norm(const Arguments&) {
  const Rank rank;
  using Options = torch::nn::BatchNormOptions;
  const auto say_number = [](const std::string& name, double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.3g", value);
    say(name, std::string(text));
  };
  say_number("dense", compare(rank, {}, Options(3), at::kFloat, false));
  say_number("lines", compare(rank, {5}, Options(3).eps(1e-3), at::kFloat, false));
  say_number("images", compare(rank, {4, 2}, Options(3).momentum(0.3), at::kFloat, false));
  say_number("volumes",
             compare(rank, {2, 3, 2}, Options(3).momentum(std::nullopt), at::kFloat, false));
  say_number("plain", compare(rank, {4}, Options(3).affine(false).track_running_stats(false),
                              at::kFloat, false));
  say_number("double", compare(rank, {4}, Options(3), at::kDouble, false));
  if (rank.world_size() > 1) say_number("empty", compare(rank, {4}, Options(3), at::kFloat, true));
  SyncBatchNorm layer(3);
  auto model = rank.prepare(layer);
  say("names", names(*layer) == names(*torch::nn::BatchNorm1d(3)));
  // Evaluation is not collective.
  model.unwrap()->eval();
  if (rank.rank() == 0) say("evaluates", layer(torch::ones({1, 3})).defined());
  model.unwrap()->train();
  say("refuses_shape", refuses<std::invalid_argument>([&] { layer(torch::ones({2, 4})); }));
  if (rank.world_size() == 1) return;
  const at::Tensor input = torch::ones({2, 3}).requires_grad_();
  const at::Tensor sum = layer(input).pow(2).sum();
  say("refuses_second_derivative", refuses<std::invalid_argument>([&] {
        torch::autograd::grad({sum}, {input}, {}, /*retain_graph=*/true, /*create_graph=*/true);
      }));
}

}  // namespace muster
