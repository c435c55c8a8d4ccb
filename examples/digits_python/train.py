"""Handwritten digits with a small convolutional network in plain PyTorch: DistributedDataParallel.

Nothing here depends on Muster. It starts from torchrun's variables, saves a checkpoint by renaming a finished
directory to step-N in $MUSTER_CHECKPOINT_DIR (default ./checkpoints), resumes from $MUSTER_RESUME_FROM
(default: the newest step-N there), and writes TensorBoard events to $MUSTER_TENSORBOARD_DIR (default ./runs).
"""

import argparse
import contextlib
import gc
import gzip
import math
import os
import pathlib
import shutil
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.tensorboard import SummaryWriter

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "optdigits.csv.gz"
TRAIN_ROWS = 1437  # the rest is held out: other writers


class Net(nn.Module):
    """8x8 gray image -> two 3x3 convolutions -> 2x2 pooling -> two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.hidden = nn.Linear(64 * 4 * 4, 128)
        self.output = nn.Linear(128, 10)
        self.dropout = nn.Dropout(0.4)

    def forward(self, images):
        x = torch.relu(self.conv1(images))
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = self.dropout(torch.relu(self.hidden(self.dropout(x.flatten(1)))))
        return self.output(x)


def read_digits(path):
    """Images float [rows, 1, 8, 8] and labels int64 [rows]."""
    with gzip.open(path, "rt") as lines:
        table = torch.tensor([[int(value) for value in line.split(",")] for line in lines])
    return table[:, :64].float().div(16).view(-1, 1, 8, 8), table[:, 64]


def shift_randomly(images):
    """Shifts each image by -1, 0 or 1 pixels in both directions."""
    padded = nn.functional.pad(images, (1, 1, 1, 1)).squeeze(1)
    shifts = torch.randint(0, 3, (len(images), 2, 1))
    rows = (shifts[:, 0] + torch.arange(8)).view(-1, 8, 1)
    columns = (shifts[:, 1] + torch.arange(8)).view(-1, 1, 8)
    return padded[torch.arange(len(images)).view(-1, 1, 1), rows, columns].unsqueeze(1)


def fsync_path(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def save(directory, step, state, keep):
    """Rank 0 writes step-N.tmp, makes it durable and renames it: step-N is complete or absent."""
    final = directory / f"step-{step}"
    temporary = directory / f"step-{step}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    torch.save(state, temporary / "state.pt")
    fsync_path(temporary / "state.pt")
    fsync_path(temporary)
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
    fsync_path(directory)
    if keep:
        for old in sorted_steps(directory)[:-keep]:
            shutil.rmtree(old)


def sorted_steps(directory):
    steps = [path for path in directory.glob("step-*") if path.name[5:].isdigit()]
    return sorted(steps, key=lambda path: int(path.name[5:]))


def newest_checkpoint(directory):
    """MUSTER_RESUME_FROM under Muster, else the newest one in the directory, if any."""
    if os.environ.get("MUSTER_RESUME_FROM"):
        return pathlib.Path(os.environ["MUSTER_RESUME_FROM"])
    return (sorted_steps(directory) or [None])[-1]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=0,
                        help="over all ranks; 0: 32, rounded up to a multiple of the number of ranks")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    parser.add_argument("--checkpoint-every", type=int, default=1, help="epochs; 0: never")
    parser.add_argument("--keep", type=int, default=0, help="checkpoints to keep; 0: all")
    parser.add_argument("--step-delay-ms", type=int, default=0)
    return parser.parse_args()


class Training:
    def __init__(self, options):
        self.options = options
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        images, labels = read_digits(options.data)
        self.train = images[:TRAIN_ROWS], labels[:TRAIN_ROWS]
        self.held_out = images[TRAIN_ROWS:], labels[TRAIN_ROWS:]
        torch.manual_seed(options.seed)
        self.model = DistributedDataParallel(Net())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.lr)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.checkpoints = pathlib.Path(os.environ.get("MUSTER_CHECKPOINT_DIR", "checkpoints"))
        self.epoch = 0
        self.step = 0
        self.stop = False
        signal.signal(signal.SIGTERM, self.note_stop)

    def note_stop(self, *_):
        self.stop = True

    def resume(self):
        found = newest_checkpoint(self.checkpoints)
        if found is None:
            return
        state = torch.load(found / "state.pt")
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.step = state["epoch"], state["step"]
        if self.rank == 0:
            print(f"resumed from step {self.step}, epoch {self.epoch}", flush=True)

    def state(self):
        return {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
        }

    def stop_agreed(self):
        """Whether any rank received a stop signal; the ranks must stop together."""
        flag = torch.tensor(int(self.stop))
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag)

    def set_learning_rate(self):
        done = self.epoch / self.options.epochs
        rate = self.options.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def train_epoch(self):
        """One pass; returns the mean loss over all ranks, or None on a stop request."""
        options = self.options
        # Everything random is a function of (seed, epoch, rank): a resumed epoch repeats it.
        order = torch.randperm(
            TRAIN_ROWS, generator=torch.Generator().manual_seed(1000 * options.seed + self.epoch))
        torch.manual_seed(1_000_000 * options.seed + 1000 * self.epoch + self.rank)
        self.set_learning_rate()
        self.model.train()
        per_rank = options.batch // self.world_size
        losses = torch.zeros(2, dtype=torch.float64)
        for start in range(0, TRAIN_ROWS - options.batch + 1, options.batch):
            first = start + self.rank * per_rank
            batch = order[first:first + per_rank]
            images, labels = self.train[0][batch], self.train[1][batch]
            self.optimizer.zero_grad()
            loss = self.loss(self.model(shift_randomly(images)), labels)
            loss.backward()
            self.optimizer.step()
            self.step += 1
            losses += torch.tensor([loss.item(), 1.0])
            if options.step_delay_ms:
                time.sleep(options.step_delay_ms / 1000)
            if self.step % 8 == 0 and self.stop_agreed():
                return None
        dist.all_reduce(losses)
        return (losses[0] / losses[1]).item()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        count = len(self.held_out[1])
        part = slice(count * self.rank // self.world_size, count * (self.rank + 1) // self.world_size)
        correct = self.model.module(self.held_out[0][part]).argmax(1).eq(self.held_out[1][part]).sum()
        dist.all_reduce(correct)
        return correct.item() / count

    def report(self, writer, loss, accuracy, speed):
        print(f"epoch {self.epoch:2d}/{self.options.epochs}  loss {loss:.4f}  "
              f"accuracy {100 * accuracy:.2f} %  {speed:.0f} samples/s", flush=True)
        writer.add_scalar("loss", loss, self.epoch)
        writer.add_scalar("accuracy", accuracy, self.epoch)
        writer.add_scalar("samples_per_s", speed, self.epoch)
        writer.flush()

    def run(self, writer):
        self.resume()
        while self.epoch < self.options.epochs:
            start = time.monotonic()
            loss = self.train_epoch()
            if loss is None:
                # A new run resumes from the last epoch's checkpoint.
                if self.rank == 0:
                    print(f"stopped at step {self.step} as requested", flush=True)
                return 143
            self.epoch += 1
            accuracy = self.evaluate()
            if self.rank == 0:
                self.report(writer, loss, accuracy, TRAIN_ROWS / (time.monotonic() - start))
                every = self.options.checkpoint_every
                if every and (self.epoch % every == 0 or self.epoch == self.options.epochs):
                    save(self.checkpoints, self.step, self.state(), self.options.keep)
        accuracy = self.evaluate()
        if self.rank == 0:
            print(f"final accuracy on {len(self.held_out[1])} held-out digits: "
                  f"{100 * accuracy:.2f} %", flush=True)
        return 0


def main():
    options = parse_arguments()
    # Without a launcher, it is a world of one.
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                        "MASTER_PORT": "29500"}.items():
        os.environ.setdefault(name, value)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    options.batch = options.batch or (32 + ranks - 1) // ranks * ranks
    if options.batch % ranks != 0:
        sys.exit(f"--batch {options.batch} cannot be split over {ranks} ranks: use a multiple")
    with contextlib.ExitStack() as stack:
        stack.callback(dist.destroy_process_group)
        writer = None
        if dist.get_rank() == 0:
            writer = stack.enter_context(
                SummaryWriter(os.environ.get("MUSTER_TENSORBOARD_DIR", "runs/digits")))
        code = Training(options).run(writer)
    # DDP is part of a reference cycle and keeps the process group alive, whose threads may abort the process if they
    # still release tensors when Python ends (github.com/pytorch/pytorch/issues/190489).
    gc.collect()
    return code


if __name__ == "__main__":
    sys.exit(main())
