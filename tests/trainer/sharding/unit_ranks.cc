// The program that units_test runs as ranks: unit_ranks STAGE trains 300 tiny layers and prints how
// many collectives a step starts.
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

int train(int /*argc*/, char** argv) {
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
