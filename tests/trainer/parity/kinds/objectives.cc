// Losses of several parts: latent variables, pairs over all ranks, a policy, a teacher, a denoiser,
// a penalty on gradients (objectives.py).
#include <muster/optim/ema.h>

#include "parity/kinds/kind.h"
#include "parity/models.h"

namespace parity {
namespace {

namespace F = torch::nn::functional;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Linear;

struct Vae : torch::nn::Module {
  Vae() {
    encoder = register_module("encoder", Perceptron(12, 16, 8));
    decoder = register_module("decoder", Perceptron(4, 16, 12));
  }
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    const auto halves = encoder(x).chunk(2, 1);
    const at::Tensor latent = halves[0] + torch::randn_like(halves[0]) * (0.5 * halves[1]).exp();
    return {decoder(latent), halves[0], halves[1]};
  }
  Perceptron encoder{nullptr}, decoder{nullptr};
};

void variational_autoencoder(Kind& kind) {
  auto net = std::make_shared<Vae>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    const at::Tensor x = torch::sigmoid(kind.draws(step).normal({6, 12}));
    const auto [logits, mean, log_variance] = model(x);
    const at::Tensor divergence =
        -0.5 * (1 + log_variance - mean * mean - log_variance.exp()).sum() / 6;
    kind.step(F::binary_cross_entropy_with_logits(logits, x) + 0.1 * divergence, optimizer);
  }
  kind.end(*net);
}

struct Towers : torch::nn::Module {
  Towers() {
    scale = register_parameter("scale", torch::empty({1}));
    left = register_module("left", Perceptron(8, 12, 6));
    right = register_module("right", Perceptron(5, 12, 6));
  }
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& lefts,
                                                         const at::Tensor& rights) {
    return {F::normalize(left(lefts)), F::normalize(right(rights)), scale.exp()};
  }
  at::Tensor scale;
  Perceptron left{nullptr}, right{nullptr};
};

// Each rank's pairs against those of all ranks; only its own carry gradients.
void contrastive_pairs(Kind& kind) {
  auto net = std::make_shared<Towers>();
  kind.start(*net);
  muster::Accelerator& accelerator = kind.accelerator;
  auto [model, optimizer] =
      accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  const auto of_all_ranks = [&accelerator](const at::Tensor& own) {
    auto parts = accelerator.gather(own.detach()).chunk(accelerator.num_processes());
    parts[static_cast<size_t>(accelerator.process_index())] = own;
    return torch::cat(parts);
  };
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor lefts = draws.normal({4, 8}), rights = draws.normal({4, 5});
    const auto [left, right, scale] = model(lefts, rights);
    const at::Tensor labels = torch::arange(4) + 4 * accelerator.process_index();
    const at::Tensor forth =
        F::cross_entropy((scale * left).matmul(of_all_ranks(right).t()), labels);
    const at::Tensor back =
        F::cross_entropy((scale * right).matmul(of_all_ranks(left).t()), labels);
    kind.step((forth + back) / 2, optimizer, /*clip_norm=*/1.0);
  }
  kind.end(*net);
}

struct Policy : torch::nn::Module {
  Policy() {
    body = register_module("body", Linear(6, 16));
    actions = register_module("actions", Linear(16, 4));
    value = register_module("value", Linear(16, 1));
  }
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& states) {
    const at::Tensor x = torch::tanh(body(states));
    return {actions(x).log_softmax(1), value(x).squeeze(1)};
  }
  Linear body{nullptr}, actions{nullptr}, value{nullptr};
};

// Each rank plays on its own; two steps on what a rollout has gathered.
void proximal_policy(Kind& kind) {
  auto net = std::make_shared<Policy>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t rollout = 0; rollout < 10; ++rollout) {
    Draws draws = kind.draws(rollout);
    const at::Tensor states = draws.normal({12, 6}), prices = draws.normal({12, 4});
    at::Tensor before, actions, rewards, advantage;
    {
      const torch::NoGradGuard no_grad;
      const auto [scores, value] = model(states);
      actions = torch::multinomial(scores.exp(), 1);
      rewards = prices.gather(1, actions).squeeze(1);
      advantage = rewards - value;
      advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8);
      before = scores.gather(1, actions).squeeze(1);
    }
    kind.note(rewards.sum());
    for (int pass = 0; pass < 2; ++pass) {
      const auto [scores, value] = model(states);
      const at::Tensor ratio = (scores.gather(1, actions).squeeze(1) - before).exp();
      const at::Tensor gain =
          torch::min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean();
      const at::Tensor entropy = -(scores.exp() * scores).sum(1).mean();
      kind.step(0.5 * F::mse_loss(value, rewards) - gain - 0.01 * entropy, optimizer,
                /*clip_norm=*/0.5);
    }
  }
  kind.end(*net);
}

// A frozen teacher that is not prepared.
void distillation(Kind& kind) {
  Perceptron teacher(8, 24, 5), net(8, 6, 5);
  kind.start(*teacher);
  for (at::Tensor& weight : teacher->parameters()) weight.requires_grad_(false);
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor x = draws.normal({6, 8}), labels = draws.integers(5, {6});
    const at::Tensor logits = model(x);
    const at::Tensor taught = F::kl_div((logits / 2).log_softmax(1), (teacher(x) / 2).softmax(1),
                                        F::KLDivFuncOptions().reduction(torch::kBatchMean));
    kind.step(F::cross_entropy(logits, labels) + 4 * taught, optimizer);
  }
  kind.end(*net);
}

// Down and up again, with a shortcut.
struct Denoiser : torch::nn::Module {
  Denoiser() {
    enter = register_module("enter", Conv2d(Conv2dOptions(1, 8, 3).padding(1)));
    down = register_module("down", Conv2d(Conv2dOptions(8, 16, 3).stride(2).padding(1)));
    norm = register_module("norm", torch::nn::GroupNorm(4, 16));
    up = register_module(
        "up", torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(16, 8, 2).stride(2)));
    leave = register_module("leave", Conv2d(Conv2dOptions(16, 1, 3).padding(1)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor entered = F::silu(enter(x));
    const at::Tensor middle = F::silu(norm(down(entered)));
    return leave(torch::cat({entered, up(middle)}, 1));
  }
  Conv2d enter{nullptr}, down{nullptr}, leave{nullptr};
  torch::nn::GroupNorm norm{nullptr};
  torch::nn::ConvTranspose2d up{nullptr};
};

void denoiser_with_average(Kind& kind) {
  auto net = std::make_shared<Denoiser>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  muster::ExponentialMovingAverage average(*net, {.decay = 0.9, .update_after = 1});
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor images = draws.normal({2, 1, 8, 8}), noise = draws.normal({2, 1, 8, 8});
    const at::Tensor share = (1 + draws.integers(9, {2, 1, 1, 1})) / 10;
    const at::Tensor mixed = images * (1 - share).sqrt() + noise * share.sqrt();
    kind.step(F::mse_loss(model(mixed), noise), optimizer, /*clip_norm=*/1.0);
    average.update();
  }
  kind.end(*net);
  const auto averaged = average.average_parameters();
  kind.end(*net);
}

// A critic whose gradient with respect to its inputs is part of the loss.
void gradient_penalty(Kind& kind) {
  torch::nn::Sequential net(Linear(6, 16), torch::nn::Tanh(), Linear(16, 1));
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor real = draws.normal({4, 6}), fake = 1 + draws.normal({4, 6});
    const at::Tensor x = torch::cat({real, fake, (real + fake) / 2}).requires_grad_();
    const at::Tensor scores = model(x);
    const at::Tensor gradients = torch::autograd::grad({scores.sum()}, {x}, {},
                                                       /*retain_graph=*/true,
                                                       /*create_graph=*/true)[0]
                                     .slice(0, 8);
    const at::Tensor penalty = (gradients.square().sum(1).sqrt() - 1).square().mean();
    kind.step(scores.slice(0, 4, 8).mean() - scores.slice(0, 0, 4).mean() + 10 * penalty,
              optimizer);
  }
  kind.end(*net);
}

}  // namespace

Kinds objective_kinds() {
  return {{"variational_autoencoder", variational_autoencoder},
          {"contrastive_pairs", contrastive_pairs},
          {"proximal_policy", proximal_policy},
          {"distillation", distillation},
          {"denoiser_with_average", denoiser_with_average},
          {"gradient_penalty", gradient_penalty}};
}

}  // namespace parity
