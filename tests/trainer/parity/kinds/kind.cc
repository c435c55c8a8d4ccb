// See kind.h.
#include "parity/kinds/kind.h"

#include <cstdio>
#include <set>

namespace parity {
namespace {

// A module's weights in Python's order: a tensor under two names counts once.
std::vector<at::Tensor> different_weights(const torch::nn::Module& module) {
  std::set<const void*> known;
  std::vector<at::Tensor> weights;
  for (const at::Tensor& weight : module.parameters()) {
    if (!known.insert(weight.unsafeGetTensorImpl()).second) continue;
    weights.push_back(weight.is_complex() ? at::view_as_real(weight.detach()) : weight.detach());
  }
  return weights;
}

}  // namespace

Draws::Draws(uint64_t seed) : generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

at::Tensor Draws::normal(at::IntArrayRef shape) { return torch::randn(shape, generator_); }

at::Tensor Draws::integers(int64_t below, at::IntArrayRef shape) {
  return torch::randint(below, shape, generator_, at::kLong);
}

void Kind::start(torch::nn::Module& module) {
  Draws draws(11 + started_++);
  for (const at::Tensor& weight : different_weights(module)) {
    weight.copy_(0.2 * draws.normal(weight.sizes()));
  }
  accelerator.set_seed(5, /*device_specific=*/true);
}

Draws Kind::draws(int64_t step) const {
  return Draws(static_cast<uint64_t>(1000 + 10 * step + accelerator.process_index()));
}

void Kind::note(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%a", value);
  seen_["values"].push_back(text);
}

void Kind::step(const at::Tensor& loss, muster::PreparedOptimizer& optimizer,
                std::optional<double> clip_norm) {
  note(loss);
  accelerator.backward(loss);
  if (clip_norm) {
    note(accelerator.clip_grad_norm_(optimizer.param_groups()[0].params(), *clip_norm));
  }
  optimizer.step();
  optimizer.zero_grad();
}

void Kind::end(const torch::nn::Module& module) {
  for (const at::Tensor& weight : different_weights(module)) {
    const at::Tensor data = weight.contiguous().flatten().view(at::kByte).to(at::kLong);
    seen_["weights"].push_back((data * torch::arange(1, data.numel() + 1)).sum().item<int64_t>());
  }
}

}  // namespace parity
