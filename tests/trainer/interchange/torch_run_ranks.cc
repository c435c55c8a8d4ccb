// Continues a run of torch_runs.py on sharded ranks: torch_run_ranks STAGE BEGUN LOSSES. All ranks have the same batches, so
// that the losses are those of one. Prints "difference D", the largest from Python's losses.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>

#include "muster/trainer.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

constexpr int64_t kSpan = 4;  // of torch_runs.py

int run(int /*argc*/, char** argv) {
  at::set_num_threads(1);
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Dropout(0.2),
                            torch::nn::BatchNorm1d(16), torch::nn::Linear(16, 4));
  AdamW adamw(net->parameters());
  load_torch(argv[2], {.model = &*net, .optimizer = &adamw});
  Accelerator accelerator({.sharding = {.stage = parse_zero_stage(argv[1])}});
  auto [model, optimizer] = accelerator.prepare(net, std::move(adamw));
  load_torch(argv[2], {.generator = true});
  const at::Tensor wanted = load_model_tensors(argv[3]).at("losses");
  double difference = 0;
  for (int64_t step = kSpan; step < 3 * kSpan; ++step) {
    const at::Tensor x = torch::sin(torch::arange(48.0).view({6, 8}) + step);
    const at::Tensor loss = model(x).pow(2).mean();
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    difference = std::max(difference, (loss - wanted[step]).abs().item<double>());
  }
  std::printf("difference %.9g\n", difference);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, run); }
