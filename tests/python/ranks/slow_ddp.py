"""Trains until it is stopped; rank 1 is slow."""

import os
import time

import torch
import torch.distributed as dist

import muster


def train() -> None:
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    for _ in muster.steps(range(100_000)):
        if os.environ["RANK"] == "1":
            time.sleep(0.05)
        loss = model(torch.ones(8, 64)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()
