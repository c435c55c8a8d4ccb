"""What every kind of training uses (kind.h is the same in C++): numbers that both sides draw, and what is recorded."""
import torch
from accelerate.utils import set_seed
from torch import nn


class Draws:
    """Numbers of its own generator: the same in both languages, since seeds and calls are."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.generator)

    def integers(self, below, *shape):
        return torch.randint(below, shape, generator=self.generator)


class Kind:
    def __init__(self, accelerator):
        self.accelerator = accelerator
        self.seen = {"values": [], "weights": []}
        self.started = 0

    def start(self, module):
        """Initial weights, and the seeds of training; call it for each module when all are constructed."""
        draws = Draws(11 + self.started)
        self.started += 1
        with torch.no_grad():
            for parameter in module.parameters():
                values = torch.view_as_real(parameter) if parameter.is_complex() else parameter
                values.copy_(0.2 * draws.normal(*values.shape))
        set_seed(5, device_specific=True)
        return module

    def draws(self, step):
        """This rank's micro-batch."""
        return Draws(1000 + 10 * step + self.accelerator.process_index)

    def note(self, *values):
        self.seen["values"] += [float(value).hex() for value in values]

    def step(self, loss, optimizer, clip_norm=None):
        """Backward, clipping and the optimizer's step; notes the loss and the norm."""
        self.note(loss)
        self.accelerator.backward(loss)
        if clip_norm is not None:
            self.note(self.accelerator.clip_grad_norm_(optimizer.param_groups[0]["params"], clip_norm))
        optimizer.step()
        optimizer.zero_grad()

    def end(self, module):
        """Notes the sum of the weights' bytes, each times its position: it changes when a bit does."""
        for parameter in module.parameters():
            values = torch.view_as_real(parameter.detach()) if parameter.is_complex() else parameter.detach()
            data = values.contiguous().flatten().view(torch.uint8).long()
            self.seen["weights"].append((data * torch.arange(1, len(data) + 1)).sum().item())


def perceptron(inputs, width, outputs):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def fused_adamw(module, lr=1e-2):
    return torch.optim.AdamW(module.parameters(), lr=lr, fused=True)
