// Regression in which every rank has its own shard, all of different lengths: ranks that run out of
// samples join the others' reductions, and the metric counts each held-out sample once. train.py
// does the same steps on Accelerate; README.md shows both loops.
#include <muster/trainer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "examples/common/command_line.h"

namespace {

struct Options {
  int64_t epochs = 10, batch = 16, samples = 2'000, held_out = 501, seed = 1;
  double lr = 0.1;
};

Options parse_options(int argc, char** argv) {
  Options options;
  examples::CommandLine line("regression");
  line.add("--epochs", &options.epochs, 1, "passes over the shards");
  line.add("--batch", &options.batch, 1, "samples per step and rank");
  line.add("--samples", &options.samples, 1, "in all shards together");
  line.add("--held-out", &options.held_out, 1, "samples to measure on");
  line.add("--lr", &options.lr, 0.0, "learning rate");
  line.add("--seed", &options.seed, 0, "for samples, weights and order");
  line.parse(argc, argv);
  return options;
}

struct NetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return output(torch::tanh(hidden(x))).squeeze(1); }
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(8, 32));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(32, 1));
};
TORCH_MODULE(Net);

struct Samples {
  at::Tensor x;  // float [samples, 8]
  at::Tensor y;  // float [samples]
  Samples slice(int64_t begin, int64_t end) const {
    return {x.slice(0, begin, end), y.slice(0, begin, end)};
  }
};

// A smooth function of 8 numbers and a little noise; the same on all ranks.
Samples make_samples(int64_t count) {
  const at::Tensor x = torch::randn({count, 8});
  const at::Tensor noise = 0.05 * torch::randn(count);
  return {x, torch::sin(x.select(1, 0)) + 0.5 * x.select(1, 1) * x.select(1, 2) + noise};
}

// Rank r holds r + 1 parts of the samples, as if each had its own file.
Samples shard_of(const Samples& all, int64_t rank, int64_t ranks) {
  const int64_t count = all.y.numel(), parts = ranks * (ranks + 1) / 2;
  return all.slice(count * (rank * (rank + 1) / 2) / parts,
                   count * ((rank + 1) * (rank + 2) / 2) / parts);
}

struct Measured {
  at::Tensor errors;  // squared; each held-out sample once, in order
  int64_t gathered;   // including those that fill the last batch
};

template <typename Model, typename Loader>
Measured evaluate(muster::Accelerator& accelerator, Model& model, Loader& loader) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> errors;
  int64_t gathered = 0;
  for (auto& [x, y] : loader) {
    const at::Tensor squared = (model(x) - y).square();
    gathered += accelerator.gather(squared).numel();
    errors.push_back(accelerator.gather_for_metrics(squared));
  }
  return {torch::cat(errors), gathered};
}

int train(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  muster::Accelerator accelerator;
  const auto say = [&](const char* format, auto... values) {
    char line[120];
    std::snprintf(line, sizeof(line), format, values...);
    if (accelerator.is_main_process()) accelerator.print(line);
  };
  accelerator.set_seed(static_cast<uint64_t>(options.seed));
  const Samples all = make_samples(options.samples);
  const Samples held_out = make_samples(options.held_out);
  const Samples own = shard_of(all, accelerator.process_index(), accelerator.num_processes());

  Net net;
  auto [model, optimizer, held_out_loader] =
      accelerator.prepare(net, muster::SGD(net->parameters(), {.lr = options.lr}),
                          muster::DataLoader(muster::TensorDataset(held_out.x, held_out.y),
                                             {.batch_size = options.batch}));
  // Not prepared: a shard belongs to its rank and must not be split.
  muster::DataLoader loader(
      muster::TensorDataset(own.x, own.y),
      {.batch_size = options.batch, .shuffle = true, .seed = static_cast<uint64_t>(options.seed)});
  for (const double batches : accelerator.gather(static_cast<double>(loader.size()))) {
    say("a rank has %.0f batches of %ld", batches, options.batch);
  }

  for (int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    {
      const auto join = accelerator.join_uneven_inputs(model);
      for (auto& [x, y] : loader) {
        const at::Tensor loss =
            torch::mse_loss(model(x.to(accelerator.device())), y.to(accelerator.device()));
        accelerator.backward(loss);
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    const Measured measured = evaluate(accelerator, model, held_out_loader);
    say("epoch %2ld  held-out mse %.6f", epoch, measured.errors.mean().template item<double>());
  }

  const Measured measured = evaluate(accelerator, model, held_out_loader);
  const torch::NoGradGuard no_grad;
  const at::Tensor alone =
      (net->forward(held_out.x.to(accelerator.device())) - held_out.y.to(accelerator.device()))
          .square();
  const int64_t kept = measured.errors.numel();
  say("gathered %ld errors, %ld of them twice; kept %ld", measured.gathered,
      measured.gathered - kept, kept);
  say("mse over the ranks %.9f", measured.errors.mean().template item<double>());
  say("mse in one go      %.9f", alone.mean().item<double>());
  if (kept == alone.numel() && torch::allclose(measured.errors, alone, 1e-5, 1e-6)) return 0;
  throw muster::Error("the gathered errors are not those of the held-out samples");
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
