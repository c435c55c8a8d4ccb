"""The cells of combinations_ranks that Accelerate runs on a CPU, trained by Accelerate: compares with the files that
`combinations_ranks accelerate DIRECTORY` wrote. Runs as ranks:

    combinations_twin.py DIRECTORY

Rank 0 prints a line for each cell that differs, and a summary.
"""
import math
import os
import sys

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from safetensors.torch import load_file
from torch import nn

STEPS, IN, HIDDEN, OUT = 4, 6, 16, 3
NORMS = {"norm2": 2.0, "norminf": float("inf"), "norm0": 0.0}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(IN, HIDDEN), nn.LayerNorm(HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN))

    def forward(self, x):
        return self.layers(x)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(HIDDEN, OUT)

    def forward(self, x):
        return self.out(torch.relu(x))


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = Head()

    def forward(self, x):
        return self.head(self.encoder(x))


def data_of(rank, step, micro, columns):
    generator = torch.Generator().manual_seed(1 + rank + 16 * (step + 16 * micro))
    return torch.randn(8, columns, generator=generator)


def train(cell, start):
    precision, _, clip, accumulate, optimizers, models, overflow = cell.split(",")
    AcceleratorState._reset_state()
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, mixed_precision="no" if precision == "fp32" else precision,
                              gradient_accumulation_steps=1 if accumulate == "every-step" else 3)
    if precision == "fp16":  # as Accelerate does on a GPU; torch has both on the CPU
        accelerator.native_amp = True
        accelerator.scaler = torch.amp.GradScaler("cpu")
    whole = Whole()
    whole.load_state_dict(start)
    parameters = [list(whole.encoder.parameters()), list(whole.head.parameters())]
    if models == "model":  # one optimizer has nothing but a bias
        parameters[0].append(parameters[1].pop(0))
        prepared = [accelerator.prepare(whole)]
        forward = prepared[0]
    else:
        prepared = [accelerator.prepare(whole.encoder), accelerator.prepare(whole.head)]

        def forward(x):
            return prepared[1](prepared[0](x))
    groups = parameters if optimizers == "two-optimizers" else [parameters[0] + parameters[1]]
    steppers = [accelerator.prepare(torch.optim.SGD(group, lr=0.05, momentum=0.9, fused=True)) for group in groups]
    norms = []
    for step in range(STEPS):
        for micro in range(accelerator.gradient_accumulation_steps):
            with accelerator.accumulate(*prepared):
                output = forward(data_of(accelerator.process_index, step, micro, IN))
                target = data_of(accelerator.process_index, step, micro, OUT)
                loss = nn.functional.mse_loss(output.float(), target)
                if overflow == "overflow" and step == 1 and accelerator.process_index == 0:
                    loss = loss * 1e38
                accelerator.backward(loss)
                if accelerator.sync_gradients and clip == "value":
                    accelerator.clip_grad_value_(whole.parameters(), 0.02)
                elif accelerator.sync_gradients and clip != "unclipped":
                    most = 5 if clip == "norm0" else 0.1
                    norms.append(float(accelerator.clip_grad_norm_(whole.parameters(), most, NORMS[clip])))
                for stepper in steppers:
                    stepper.step()
                for stepper in steppers:
                    stepper.zero_grad()
    # Under the names that C++ sorts them by.
    weights = [value.detach().double().flatten() for part in (whole.encoder, whole.head)
               for _, value in sorted(part.named_parameters())]
    return norms, torch.cat(weights), accelerator.scaler.get_scale() if accelerator.scaler else 1.0


def apart(one, other):
    if not math.isfinite(one) or not math.isfinite(other):
        return 0.0 if math.isfinite(one) == math.isfinite(other) else math.inf
    return abs(one - other) / max(1.0, abs(one))


def main():
    torch.set_num_threads(1)
    directory = sys.argv[1]
    start = load_file(os.path.join(directory, "start"))
    cells = sorted(name for name in os.listdir(directory) if "," in name)
    equal, worst = 0, 0.0
    for cell in cells:
        norms, weights, scale = train(cell, start)
        ours = load_file(os.path.join(directory, cell))
        greatest = max((ours["weights"] - weights).abs().max().item(), apart(ours["scale"].item(), scale),
                       *(apart(one, other) for one, other in zip(ours["norms"].tolist(), norms, strict=True)))
        equal += greatest == 0
        worst = max(worst, greatest)
        if greatest > 1e-6 and os.environ["RANK"] == "0":
            print(f"cell differs from Accelerate's {cell}: by {greatest}", flush=True)
    if os.environ["RANK"] == "0":
        print(f"{len(cells)} cells against Accelerate, {equal} equal in every bit, greatest difference {worst:.3g}")


if __name__ == "__main__":
    main()
