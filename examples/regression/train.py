"""Regression on uneven shards in Python on Accelerate: the same steps as main.cc, in the same order."""

import argparse
import contextlib

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 32)
        self.output = nn.Linear(32, 1)

    def forward(self, x):
        return self.output(torch.tanh(self.hidden(x))).squeeze(1)


def make_samples(count):
    """A smooth function of 8 numbers and a little noise; the same on all ranks."""
    x = torch.randn(count, 8)
    noise = 0.05 * torch.randn(count)
    return x, torch.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + noise


def shard_of(samples, rank, ranks):
    """Rank r holds r + 1 parts of the samples, as if each had its own file."""
    count, parts = len(samples[1]), ranks * (ranks + 1) // 2
    begin, end = count * (rank * (rank + 1) // 2) // parts, count * ((rank + 1) * (rank + 2) // 2) // parts
    return [tensor[begin:end] for tensor in samples]


@torch.no_grad()
def evaluate(accelerator, model, loader):
    errors, gathered = [], 0
    for x, y in loader:
        squared = (model(x) - y).square()
        gathered += accelerator.gather(squared).numel()
        errors.append(accelerator.gather_for_metrics(squared))
    return torch.cat(errors), gathered


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--held-out", type=int, default=501)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    options = parse_arguments()
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(options.seed)
    everything, held_out = make_samples(options.samples), make_samples(options.held_out)
    own = shard_of(everything, accelerator.process_index, accelerator.num_processes)

    net = Net()
    model, optimizer, held_out_loader = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=options.lr, fused=True),
        DataLoader(TensorDataset(*held_out), batch_size=options.batch))
    # Not prepared: a shard belongs to its rank and must not be split.
    loader = DataLoader(TensorDataset(*own), batch_size=options.batch, shuffle=True)
    for batches in accelerator.gather(torch.tensor([len(loader)], device=accelerator.device)).tolist():
        accelerator.print(f"a rank has {batches} batches of {options.batch}")

    for epoch in range(1, options.epochs + 1):
        # accelerator.join_uneven_inputs() has no effect on CPU ranks; this is what it does on GPUs.
        with Join([model]) if accelerator.num_processes > 1 else contextlib.nullcontext():
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x.to(accelerator.device)), y.to(accelerator.device))
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        errors, _ = evaluate(accelerator, model, held_out_loader)
        accelerator.print(f"epoch {epoch:2d}  held-out mse {errors.mean():.6f}")

    errors, gathered = evaluate(accelerator, model, held_out_loader)
    with torch.no_grad():
        alone = (net(held_out[0].to(accelerator.device)) - held_out[1].to(accelerator.device)).square()
    accelerator.print(f"gathered {gathered} errors, {gathered - len(errors)} of them twice; kept {len(errors)}")
    accelerator.print(f"mse over the ranks {errors.mean():.9f}")
    accelerator.print(f"mse in one go      {alone.mean():.9f}")
    torch.testing.assert_close(errors, alone, rtol=1e-5, atol=1e-6)
    accelerator.end_training()


if __name__ == "__main__":
    main()
