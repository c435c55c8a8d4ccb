"""A character transformer in Python on Accelerate: the same steps as main.cc, in the same order."""

import argparse
import gzip
import math
import os
import pathlib
import shutil
import time

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import ProjectConfiguration, set_seed
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "kjv-genesis-psalms.txt.gz"
HELD_OUT = 0.05  # the last part of the text


class Block(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.heads = options.heads
        width = options.width
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, x):
        samples, length, width = x.shape
        q, k, v = (self.qkv(self.norm1(x)).view(samples, length, 3, self.heads, width // self.heads)
                   .permute(2, 0, 3, 1, 4))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.projection(seen.transpose(1, 2).reshape(samples, length, width)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Transformer(nn.Module):
    def __init__(self, options, vocabulary):
        super().__init__()
        self.context = options.context
        self.tokens = nn.Embedding(vocabulary, options.width)
        self.positions = nn.Embedding(options.context, options.width)
        self.blocks = nn.ModuleList([Block(options) for _ in range(options.layers)])
        self.norm = nn.LayerNorm(options.width)
        self.dropout = nn.Dropout(options.dropout)
        self.head = None if options.tied else nn.Linear(options.width, vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = "projection" in name or "down" in name
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * options.layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens):
        x = self.dropout(self.tokens(tokens) + self.positions.weight[:tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x) if self.head else F.linear(x, self.tokens.weight)


class Windows(Dataset):
    """Windows of `context` tokens, one beginning every `stride`, and the tokens that follow them."""

    def __init__(self, tokens, context, stride):
        self.windows = tokens.unfold(0, context + 1, stride)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, index):
        return self.windows[index, :-1], self.windows[index, 1:]


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def sample(model, prompt, length, temperature, seed):
    random = torch.Generator().manual_seed(seed)
    model.eval()
    text = prompt.view(1, -1)
    for _ in range(length):
        logits = model(text[:, -model.context:].to(model.tokens.weight.device))[:, -1].float().cpu()
        text = torch.cat([text, torch.multinomial((logits / temperature).softmax(-1), 1, generator=random)], 1)
    return text[0]


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    losses = []
    for inputs, targets in loader:
        of_tokens = F.cross_entropy(model(inputs).transpose(1, 2), targets, reduction="none")
        losses.append(accelerator.gather_for_metrics(of_tokens.mean(1)))
    model.train()
    return torch.cat(losses).mean().item()


def save(accelerator, directory, step):
    """Accelerate writes in place; renaming the directory afterwards makes it complete or absent."""
    final = pathlib.Path(directory) / f"step-{step}"
    accelerator.save_state(f"{final}.tmp")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(final, ignore_errors=True)
        os.rename(f"{final}.tmp", final)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--global-batch", type=int, default=32)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--accumulation", type=int, default=0)
    parser.add_argument("--lr", type=float, default=6e-3)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--precision", choices=["no", "fp16", "bf16"], default="no")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--untied", dest="tied", action="store_false")
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--ema", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-order", action="store_true")
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--log-dir", default="")
    parser.add_argument("--checkpoint-dir", default=os.environ.get("MUSTER_CHECKPOINT_DIR", ""))
    parser.add_argument("--resume-from", default=os.environ.get("MUSTER_RESUME_FROM", ""))
    parser.add_argument("--checkpoint-every", type=int, default=500)
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--temperature", type=float, default=0.8)
    return parser.parse_args()


def accumulation_steps(options, ranks):
    steps = options.accumulation or options.global_batch // (options.micro_batch * ranks)
    if steps * options.micro_batch * ranks != options.global_batch:
        raise SystemExit(f"--global-batch {options.global_batch} is not {options.micro_batch} samples × "
                         f"a whole number of steps × {ranks} ranks")
    return steps


def main():
    options = parse_arguments()
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),  # otherwise, without a GPU, each rank runs alone
        mixed_precision=options.precision,
        dataloader_config=DataLoaderConfiguration(
            split_batches=True,  # the schedule then steps once per optimizer step
            use_seedable_sampler=True),  # the order is a function of seed and epoch
        log_with="tensorboard" if options.log_dir else None,
        project_config=ProjectConfiguration(logging_dir=options.log_dir or None))
    accelerator.gradient_accumulation_steps = accumulation_steps(options, accelerator.num_processes)
    set_seed(options.seed)
    text = gzip.open(options.data, "rt").read()
    alphabet = sorted(set(text))
    number = {character: index for index, character in enumerate(alphabet)}
    tokens = torch.tensor([number[character] for character in text])
    held_out = int(len(tokens) * (1 - HELD_OUT))
    batch_size = options.micro_batch * accelerator.num_processes

    net = Transformer(options, len(alphabet))
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    warmup = min(options.warmup, options.steps)

    def cosine(step):
        if step < warmup:
            return step / warmup
        done = min(1.0, (step - warmup) / max(1, options.steps - warmup))
        return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))

    model, optimizer, loader, held_out_loader, scheduler = accelerator.prepare(
        net, optimizer,
        DataLoader(Windows(tokens[:held_out], options.context, 1), batch_size=batch_size, drop_last=True,
                   shuffle=not options.in_order, generator=torch.Generator().manual_seed(options.seed)),
        DataLoader(Windows(tokens[held_out:], options.context, options.context), batch_size=batch_size),
        torch.optim.lr_scheduler.LambdaLR(optimizer, cosine))
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(options.ema)) if options.ema else None
    set_seed(options.seed + 1000, device_specific=True)
    accelerator.init_trackers("char_transformer", config={k: str(v) for k, v in vars(options).items()})

    step = 0
    if options.resume_from:
        accelerator.load_state(options.resume_from)
        step = int(options.resume_from.rsplit("-", 1)[1])
        accelerator.print(f"resumed from step {step}")
    skipped = step * accelerator.gradient_accumulation_steps % len(loader)
    losses, start = [], time.monotonic()
    while step < options.steps:
        for inputs, targets in accelerator.skip_first_batches(loader, skipped):
            with accelerator.accumulate(model):
                loss = loss_of(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(net.parameters(), options.clip)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
            if not accelerator.sync_gradients:
                continue
            step += 1
            if ema:
                ema.update_parameters(net)
            if step % options.log_every == 0 or step == options.steps:
                mean = accelerator.reduce(torch.stack(losses).mean(), "mean").item()
                speed = len(losses) * batch_size * options.context / (time.monotonic() - start)
                accelerator.print(f"step {step:4d}/{options.steps}  loss {mean:.4f}  "
                                  f"lr {scheduler.get_last_lr()[0]:.2e}  {speed:.0f} characters/s")
                accelerator.log({"loss": mean, "characters_per_s": speed}, step=step)
                losses, start = [], time.monotonic()
            if options.checkpoint_dir and (step % options.checkpoint_every == 0 or step == options.steps):
                save(accelerator, options.checkpoint_dir, step)
            if step == options.steps:
                break
        skipped = 0
    if ema:
        net.load_state_dict(ema.module.state_dict())
    loss = evaluate(accelerator, model, held_out_loader)
    accelerator.print(f"held-out loss {loss:.4f} nats per character")
    if options.sample and accelerator.is_main_process:
        written = sample(net, torch.tensor([number["\n"]]), options.sample, options.temperature, options.seed)
        print("".join(alphabet[token] for token in written))
    accelerator.end_training()


if __name__ == "__main__":
    main()
