"""Handwritten digits in Python on Accelerate: the same steps as digits.cc, in the same order."""

import argparse
import gzip
import math
import os
import pathlib
import shutil
import sys
import time

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import ProjectConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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
    shifts = torch.randint(0, 3, (len(images), 2, 1)).to(images.device)
    rows = (shifts[:, 0] + torch.arange(8, device=images.device)).view(-1, 8, 1)
    columns = (shifts[:, 1] + torch.arange(8, device=images.device)).view(-1, 1, 8)
    return padded[torch.arange(len(images)).view(-1, 1, 1), rows, columns].unsqueeze(1)


@torch.no_grad()
def evaluate(accelerator, model, loader):
    """Accuracy on the held-out digits, each counted once."""
    model.eval()
    right = [accelerator.gather_for_metrics(model(images).argmax(1).eq(labels)) for images, labels in loader]
    model.train()
    return torch.cat(right).double().mean().item()


def save(accelerator, directory, step, keep):
    """Accelerate writes in place; renaming the directory afterwards makes it complete or absent."""
    final = pathlib.Path(directory) / f"step-{step}"
    accelerator.save_state(f"{final}.tmp")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(final, ignore_errors=True)
        os.rename(f"{final}.tmp", final)
        steps = [path for path in final.parent.glob("step-*") if path.name[5:].isdigit()]
        for old in sorted(steps, key=lambda path: int(path.name[5:]))[:-keep] if keep else []:
            shutil.rmtree(old)


class Progress:
    """Counters stored in the checkpoint."""

    def __init__(self):
        self.step = self.epoch = 0

    def state_dict(self):
        return {"step": self.step, "epoch": self.epoch}

    def load_state_dict(self, state):
        self.step, self.epoch = state["step"], state["epoch"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=0, help="over all ranks; 0: about 32")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-order", action="store_true")
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    parser.add_argument("--checkpoint-every", type=int, default=1, help="epochs; 0: never")
    parser.add_argument("--keep", type=int, default=3, help="checkpoints to keep; 0: all")
    parser.add_argument("--checkpoint-dir", default=os.environ.get("MUSTER_CHECKPOINT_DIR", ""))
    parser.add_argument("--resume-from", default=os.environ.get("MUSTER_RESUME_FROM", ""))
    parser.add_argument("--log-dir", default=os.environ.get("MUSTER_TENSORBOARD_DIR", ""))
    parser.add_argument("--step-delay-ms", type=int, default=0)
    return parser.parse_args()


def main():
    options = parse_arguments()
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),  # otherwise, without a GPU, each rank runs alone
        dataloader_config=DataLoaderConfiguration(
            split_batches=True,  # the schedule then steps once per optimizer step
            use_seedable_sampler=True),  # the order is a function of seed and epoch
        log_with="tensorboard" if options.log_dir else None,
        project_config=ProjectConfiguration(logging_dir=options.log_dir or None))
    ranks = accelerator.num_processes
    batch = options.batch or (32 + ranks - 1) // ranks * ranks
    if batch % ranks != 0:
        sys.exit(f"--batch {batch} cannot be split over {ranks} ranks: use a multiple")

    images, labels = read_digits(options.data)
    set_seed(options.seed)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.lr, fused=True)
    model, optimizer, loader, held_out = accelerator.prepare(
        net, optimizer,
        DataLoader(TensorDataset(images[:TRAIN_ROWS], labels[:TRAIN_ROWS]), batch_size=batch,
                   shuffle=not options.in_order, generator=torch.Generator().manual_seed(options.seed)),
        DataLoader(TensorDataset(images[TRAIN_ROWS:], labels[TRAIN_ROWS:]), batch_size=128 * ranks))
    total = options.epochs * len(loader)
    scheduler = accelerator.prepare(torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1, step / total)))))
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    # Dropout and shifts must differ between ranks.
    set_seed(options.seed + 1000, device_specific=True)
    accelerator.init_trackers("digits")

    if options.resume_from:
        accelerator.load_state(options.resume_from)
        accelerator.print(f"resumed from step {progress.step}, epoch {progress.epoch}")
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    while progress.epoch < options.epochs:
        start, losses, samples = time.monotonic(), 0.0, 0
        loader.set_epoch(progress.epoch)
        for images, labels in loader:
            loss = loss_of(model(shift_randomly(images)), labels)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            progress.step += 1
            losses += loss.item() * len(labels)
            samples += len(labels)
            if options.step_delay_ms:
                time.sleep(options.step_delay_ms / 1000)
        progress.epoch += 1
        speed = TRAIN_ROWS / (time.monotonic() - start)
        sums = accelerator.reduce(torch.tensor([losses, samples], device=accelerator.device), "sum")
        loss, accuracy = (sums[0] / sums[1]).item(), evaluate(accelerator, model, held_out)
        accelerator.print(f"epoch {progress.epoch:2d}/{options.epochs}  loss {loss:.4f}  "
                          f"accuracy {100 * accuracy:.2f} %  {speed:.0f} samples/s")
        accelerator.log({"loss": loss, "accuracy": accuracy, "samples_per_s": speed}, step=progress.epoch)
        every = options.checkpoint_every
        if options.checkpoint_dir and every and (progress.epoch % every == 0 or progress.epoch == options.epochs):
            save(accelerator, options.checkpoint_dir, progress.step, options.keep)
    accuracy = evaluate(accelerator, model, held_out)
    accelerator.print(f"final accuracy on {len(held_out.dataset)} held-out digits: {100 * accuracy:.2f} %")
    accelerator.end_training()


if __name__ == "__main__":
    main()
