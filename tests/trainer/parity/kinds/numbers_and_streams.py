"""Weights that are not float32, and data that is a stream (numbers_and_streams.cc)."""
import torch
from kind import fused_adamw, perceptron
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset


class Waves(nn.Module):
    """Two complex layers, and the power of what comes out."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.empty(6, 8, dtype=torch.complex64))
        self.last = nn.Parameter(torch.empty(8, 4, dtype=torch.complex64))

    def forward(self, x):
        y = x @ self.first
        y = (y * torch.sigmoid(y.abs()) @ self.last).abs()
        return y * y


def complex_weights(kind):
    net = kind.start(Waves())
    model, optimizer = kind.accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False))
    for step in range(20):
        draws = kind.draws(step)
        x = torch.complex(draws.normal(5, 6), draws.normal(5, 6))
        kind.step(F.cross_entropy(model(x), draws.integers(4, 5)), optimizer)
    kind.end(net)


def of_type(kind, dtype):
    net = kind.start(perceptron(8, 16, 5).to(dtype))
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        draws = kind.draws(step)
        logits = model(draws.normal(6, 8).to(dtype))
        kind.step(F.cross_entropy(logits, draws.integers(5, 6)), optimizer, clip_norm=1.0)
    kind.end(net)


class Readings(IterableDataset):
    """50 samples, which fill six batches of four on each of two ranks; two are left."""

    def __iter__(self):
        generator = torch.Generator().manual_seed(7)
        for number in range(50):
            yield torch.randn(8, generator=generator), number % 5


def streamed_samples(kind):
    net = kind.start(perceptron(8, 16, 5))
    model, optimizer, loader = kind.accelerator.prepare(net, fused_adamw(net), DataLoader(Readings(), batch_size=4))
    for _ in range(2):
        for x, labels in loader:
            kind.note(len(labels), x.sum())
            kind.step(F.cross_entropy(model(x), labels), optimizer)
    kind.end(net)


KINDS = {"complex_weights": complex_weights, "streamed_samples": streamed_samples,
         "double_weights": lambda kind: of_type(kind, torch.float64),
         "bfloat16_weights": lambda kind: of_type(kind, torch.bfloat16)}
