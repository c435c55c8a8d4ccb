"""Trains the cases named by the arguments with Python's DistributedDataParallel; twins.cc does the same.

Per step a line: step, number of gradients, and the fingerprints of gradients, parameters, buffers, loss.
"""

import contextlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])


class Net(nn.Module):
    def __init__(self, width=600):
        super().__init__()
        self.first = nn.Linear(16, 300)
        self.norm = nn.BatchNorm1d(300)
        self.spare = nn.Linear(300, 4)
        self.second = nn.Linear(300, width)
        self.third = nn.Linear(width, width)
        self.last = nn.Linear(width, 4)

    def forward(self, data, with_spare):
        hidden = torch.relu(self.norm(self.first(data)))
        side = self.spare(hidden) if with_spare else None
        return self.last(torch.relu(self.third(torch.relu(self.second(hidden))))), side


def fill(module):
    with torch.no_grad():
        for index, parameter in enumerate(module.parameters()):
            line = torch.arange(parameter.numel(), dtype=torch.float32)
            parameter.copy_((torch.sin(line * 0.37 + index + RANK) * 0.1).view(parameter.shape))


def input_of(step):
    return torch.sin(torch.arange(6 * 16, dtype=torch.float32) * 0.11 + RANK * 3 + step).view(6, 16)


def fingerprint(tensors):
    total = 0
    for tensor in tensors:
        bits = tensor.detach().float().flatten().view(torch.int32).long()
        total = total * 31 + (bits * torch.arange(1, bits.numel() + 1)).sum().item()
    return (total + 2**63) % 2**64 - 2**63


def bf16_hook(group, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """default_hooks.bf16_compress_hook without its requirement of NCCL."""
    return default_hooks._compress_hook(torch.bfloat16, group, bucket)


class Case:
    def __init__(self, name):
        self.name = name
        self.varying_spare = name.startswith("find_unused")
        self.spare_never = name.startswith("static") or name == "skip_unused"
        self.window = 3 if name == "accumulate" else 1
        self.options = {
            "bucket_cap_mb": None if name == "default_caps" else 1,
            "gradient_as_bucket_view": name != "no_view",
            "batched_grad_copy": name == "batched_copy",
            "broadcast_buffers": name != "no_buffers",
            "find_unused_parameters": name.startswith("find_unused") or name == "skip_unused",
            "static_graph": name.startswith("static"),
            "skip_all_reduce_unused_params": name == "skip_unused",
        }

    def loss(self, model, step):
        use = 0 if self.spare_never else (RANK + step) % 3 if self.varying_spare else 2
        output, side = model(input_of(step), use > 0)
        loss = output.pow(2).mean()
        return loss + side.pow(2).mean() if use == 2 else loss

    def train_step(self, model, step):
        for parameter in model.parameters():
            parameter.grad = None
        for part in range(self.window):
            last = part + 1 == self.window
            with contextlib.nullcontext() if last else model.no_sync():
                loss = self.loss(model, step * self.window + part)
                loss.backward()
        net = model.module
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-0.002)
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        buffers = [net.norm.running_mean, net.norm.running_var]
        print(step, len(gradients), fingerprint(gradients), fingerprint(net.parameters()),
              fingerprint(buffers), fingerprint([loss]))
        if self.name == "evaluation":
            model.eval()
            with torch.no_grad():
                print(fingerprint([model(input_of(50), False)[0]]))
            model.train()

    def run(self):
        net = Net()
        fill(net)
        model = DistributedDataParallel(net, **self.options)
        if self.name == "fp16":
            model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        if self.name == "bf16":
            model.register_comm_hook(dist.group.WORLD, bf16_hook)
        print("case", self.name)
        if "join" in self.name:
            with model.join(divide_by_initial_world_size=self.name != "join_by_active"):
                for step in range(2 + 2 * RANK):
                    self.train_step(model, step)
        else:
            for step in range(5):
                self.train_step(model, step)
        buffers = [net.norm.running_mean, net.norm.running_var]
        print("end", fingerprint(net.parameters()), fingerprint(buffers))


def main():
    dist.init_process_group("gloo")
    for name in sys.argv[1:]:
        Case(name).run()
    dist.destroy_process_group()
    sys.stdout.flush()
    # Skips interpreter shutdown, where one of Gloo's threads may abort it (pytorch/pytorch#179291).
    os._exit(0)


if __name__ == "__main__":
    main()
