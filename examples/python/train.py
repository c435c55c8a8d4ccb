"""Handwritten digits in plain PyTorch, with the six lines that make it observable and resumable under Muster.

It runs the same alone, under torchrun, and under Muster:

    python train.py
    torchrun --nproc-per-node 2 train.py
    jobctl run -n 2 --restarts 3 -- python train.py
"""

import argparse
import gzip
import os
import pathlib
import time

import muster  # 1
import torch
import torch.distributed as dist
from torch import nn

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "optdigits.csv.gz"


def read_digits():
    """Images float [rows, 64] and labels int64 [rows]."""
    with gzip.open(DATA, "rt") as lines:
        table = torch.tensor([[int(value) for value in line.split(",")] for line in lines])
    return table[:, :64].float().div(16), table[:, 64]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save-every", type=int, default=50, help="steps")
    parser.add_argument("--step-delay-ms", type=int, default=0)
    options = parser.parse_args()

    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    if ranks > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(network)
    else:
        model = network
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    images, labels = read_digits()

    first = 1
    if saved := muster.load_checkpoint("checkpoints"):  # 2
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"] + 1
        print(f"rank {rank} resumes after step {first - 1}", flush=True)

    for step in range(first, options.steps + 1):
        batch = torch.randint(len(labels), (64,), generator=torch.Generator().manual_seed(ranks * step + rank))
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(options.step_delay_ms / 1000)

        muster.log(loss=loss, step=step)  # 3
        muster.progress(step, options.steps)  # 4
        stop = step % 10 == 0 and muster.should_stop(together=True)  # 5
        if stop or step % options.save_every == 0 or step == options.steps:
            state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            muster.save_checkpoint(state, step, directory="checkpoints")  # 6
        if stop:
            break

    if rank == 0:
        correct = network(images).argmax(1).eq(labels).float().mean()
        print(f"step {step}: loss {loss:.4f}, {100 * correct:.1f} % of the training digits", flush=True)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
