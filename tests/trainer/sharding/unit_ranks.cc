// The program that units_test runs as ranks: unit_ranks STAGE trains 300 tiny layers and prints how
// many collectives a step starts; unit_ranks STAGE experts trains experts of one size, of which each
// rank uses its own.
#include <muster/trainer.h>

#include <cstdio>

#include "diagnosis/collective_log.h"

namespace {

int64_t collectives() {
  uint64_t count = 0;
  for (const auto& group : muster::CollectiveLog::of_process().snapshot().groups) {
    count += group.started;
  }
  return static_cast<int64_t>(count);
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 300; ++i) layers->push_back(torch::nn::Linear(16, 16));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) {
      x = x + 0.1 * torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    }
    return x;
  }
  torch::nn::ModuleList layers{nullptr};
};
TORCH_MODULE(Net);

struct ExpertsImpl : torch::nn::Module {
  ExpertsImpl() {
    register_module("experts", experts);
    for (int i = 0; i < 2; ++i) experts->push_back(torch::nn::Linear(16, 16));
  }
  at::Tensor forward(const at::Tensor& x, int64_t expert) {
    return experts->ptr<torch::nn::LinearImpl>(static_cast<size_t>(expert))->forward(x);
  }
  torch::nn::ModuleList experts;
};
TORCH_MODULE(Experts);

int route(muster::ZeroStage stage) {
  muster::AcceleratorOptions options{.sharding = {.stage = stage, .unit_numel_min = 0}};
  options.data_parallel.find_unused_parameters = true;
  muster::Accelerator accelerator(options);
  torch::manual_seed(1);
  Experts net;
  auto model = accelerator.prepare(net);
  auto optimizer = accelerator.prepare(muster::SGD(net->parameters(), {.lr = 0.1}));
  for (int step = 0; step < 3; ++step) {
    accelerator.backward(model(torch::ones({2, 16}), accelerator.process_index()).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  double sum = 0;
  for (const auto& [name, tensor] : accelerator.get_state_dict(model)) {
    sum += tensor.abs().sum().item<double>();
  }
  std::printf("weights %.9g\n", sum);
  return 0;
}

int train(int argc, char** argv) {
  if (argc > 2) return route(muster::parse_zero_stage(argv[1]));
  muster::Accelerator accelerator({.sharding = {.stage = muster::parse_zero_stage(argv[1])}});
  Net net;
  auto model = accelerator.prepare(net);
  auto optimizer = accelerator.prepare(muster::AdamW(net->parameters(), {.lr = 1e-3}));
  constexpr int kWarmUp = 3, kSteps = 4;
  int64_t before = 0;
  for (int step = 0; step < kWarmUp + kSteps; ++step) {
    if (step == kWarmUp) before = collectives();
    accelerator.backward(model(torch::ones({2, 16})).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  std::printf("collectives %ld\n", (collectives() - before) / kSteps);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
