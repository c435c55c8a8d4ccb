"""Losses of several parts: latent variables, pairs over all ranks, a policy, a teacher, a denoiser, a penalty on gradients
(objectives.cc)."""
import torch
from kind import fused_adamw, perceptron
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = perceptron(12, 16, 8)
        self.decoder = perceptron(4, 16, 12)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(latent), mean, log_variance


def variational_autoencoder(kind):
    net = kind.start(Vae())
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        x = torch.sigmoid(kind.draws(step).normal(6, 12))
        logits, mean, log_variance = model(x)
        divergence = -0.5 * (1 + log_variance - mean * mean - log_variance.exp()).sum() / 6
        kind.step(F.binary_cross_entropy_with_logits(logits, x) + 0.1 * divergence, optimizer)
    kind.end(net)


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.empty(1))
        self.left = perceptron(8, 12, 6)
        self.right = perceptron(5, 12, 6)

    def forward(self, left, right):
        return F.normalize(self.left(left), dim=1), F.normalize(self.right(right), dim=1), self.scale.exp()


def contrastive_pairs(kind):
    """Each rank's pairs against those of all ranks; only its own carry gradients."""
    net = kind.start(Towers())
    accelerator = kind.accelerator
    model, optimizer = accelerator.prepare(net, fused_adamw(net))

    def of_all_ranks(own):
        parts = list(accelerator.gather(own.detach()).chunk(accelerator.num_processes))
        parts[accelerator.process_index] = own
        return torch.cat(parts)

    for step in range(20):
        draws = kind.draws(step)
        left, right, scale = model(draws.normal(4, 8), draws.normal(4, 5))
        labels = torch.arange(4) + 4 * accelerator.process_index
        forth = F.cross_entropy(scale * left @ of_all_ranks(right).t(), labels)
        back = F.cross_entropy(scale * right @ of_all_ranks(left).t(), labels)
        kind.step((forth + back) / 2, optimizer, clip_norm=1.0)
    kind.end(net)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 16)
        self.actions = nn.Linear(16, 4)
        self.value = nn.Linear(16, 1)

    def forward(self, states):
        x = torch.tanh(self.body(states))
        return self.actions(x).log_softmax(1), self.value(x).squeeze(1)


def proximal_policy(kind):
    """Each rank plays on its own; two steps on what a rollout has gathered."""
    net = kind.start(Policy())
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for rollout in range(10):
        draws = kind.draws(rollout)
        states, prices = draws.normal(12, 6), draws.normal(12, 4)
        with torch.no_grad():
            before, value = model(states)
            actions = torch.multinomial(before.exp(), 1)
            rewards = prices.gather(1, actions).squeeze(1)
            advantage = rewards - value
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            before = before.gather(1, actions).squeeze(1)
        kind.note(rewards.sum())
        for _ in range(2):
            scores, value = model(states)
            ratio = (scores.gather(1, actions).squeeze(1) - before).exp()
            gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            entropy = -(scores.exp() * scores).sum(1).mean()
            kind.step(0.5 * F.mse_loss(value, rewards) - gain - 0.01 * entropy, optimizer, clip_norm=0.5)
    kind.end(net)


def distillation(kind):
    """A frozen teacher that is not prepared."""
    teacher = kind.start(perceptron(8, 24, 5)).requires_grad_(False)
    net = kind.start(perceptron(8, 6, 5))
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        draws = kind.draws(step)
        x, labels = draws.normal(6, 8), draws.integers(5, 6)
        logits = model(x)
        taught = F.kl_div((logits / 2).log_softmax(1), (teacher(x) / 2).softmax(1), reduction="batchmean")
        kind.step(F.cross_entropy(logits, labels) + 4 * taught, optimizer)
    kind.end(net)


class Denoiser(nn.Module):
    """Down and up again, with a shortcut."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Conv2d(1, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.leave = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x):
        enter = F.silu(self.enter(x))
        middle = F.silu(self.norm(self.down(enter)))
        return self.leave(torch.cat([enter, self.up(middle)], 1))


def denoiser_with_average(kind):
    net = kind.start(Denoiser())
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for step in range(20):
        draws = kind.draws(step)
        images, noise = draws.normal(2, 1, 8, 8), draws.normal(2, 1, 8, 8)
        share = (1 + draws.integers(9, 2, 1, 1, 1)) / 10
        mixed = images * (1 - share).sqrt() + noise * share.sqrt()
        kind.step(F.mse_loss(model(mixed), noise), optimizer, clip_norm=1.0)
        average.update_parameters(net)
    kind.end(net)
    kind.end(average.module)


def gradient_penalty(kind):
    """A critic whose gradient with respect to its inputs is part of the loss."""
    net = kind.start(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)))
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        draws = kind.draws(step)
        real, fake = draws.normal(4, 6), 1 + draws.normal(4, 6)
        x = torch.cat([real, fake, (real + fake) / 2]).requires_grad_()
        scores = model(x)
        gradients = torch.autograd.grad(scores.sum(), x, create_graph=True)[0][8:]
        penalty = (gradients.square().sum(1).sqrt() - 1).square().mean()
        kind.step(scores[4:8].mean() - scores[:4].mean() + 10 * penalty, optimizer)
    kind.end(net)


KINDS = {"variational_autoencoder": variational_autoencoder, "contrastive_pairs": contrastive_pairs,
         "proximal_policy": proximal_policy, "distillation": distillation,
         "denoiser_with_average": denoiser_with_average, "gradient_penalty": gradient_penalty}
