"""The Python half of torch_runs_test.cc: torch_runs.py begin|end DIRECTORY.

begin: of each run trains SPAN steps, saves NAME.begun.pt, and two more spans: NAME.losses.pt has all losses. end:
loads NAME.ended.pt, which C++ wrote after the second span, trains the third, and prints "NAME losses that differ".
"""
# ruff: noqa: D103 (one line each)
import math
import sys

import torch
from torch import nn
from torch.optim import lr_scheduler

SPAN = 4
DIRECTORY = sys.argv[2]


def make_net():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.BatchNorm1d(16), nn.Linear(16, 4))


def groups(net):
    """Decay for matrices alone, with the names of the parameters."""
    named = list(net.named_parameters())
    return [
        {"params": [(n, p) for n, p in named if p.dim() > 1], "weight_decay": 0.1},
        {"params": [(n, p) for n, p in named if p.dim() < 2], "weight_decay": 0.0, "lr": 0.02},
    ]


def cosine(step):
    return 0.5 * (1 + math.cos(math.pi * step / 20))


optim = torch.optim
RUNS = {
    "adamw_fused": (lambda net: optim.AdamW(net.parameters(), lr=0.05, fused=True), None),
    "adamw_foreach": (lambda net: optim.AdamW(net.parameters(), lr=0.05, foreach=True), None),
    "adamw_plain": (lambda net: optim.AdamW(net.parameters(), lr=0.05, betas=(0.8, 0.9), weight_decay=0.2), None),
    "adamw_groups": (lambda net: optim.AdamW(groups(net), lr=0.05, amsgrad=True), lambda o: lr_scheduler.StepLR(o, 3)),
    "adam": (
        lambda net: optim.Adam(net.parameters(), lr=0.05, maximize=True, weight_decay=0.1),
        lambda o: lr_scheduler.LambdaLR(o, cosine),
    ),
    "sgd": (lambda net: optim.SGD(net.parameters(), lr=0.1), None),
    "sgd_momentum": (
        lambda net: optim.SGD(net.named_parameters(), lr=0.1, momentum=0.9, nesterov=True),
        lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.2, total_steps=20),
    ),
    "adagrad": (
        lambda net: optim.Adagrad(net.parameters(), lr=0.1, initial_accumulator_value=0.1),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2),
    ),
    "plateau": (
        lambda net: optim.AdamW(net.parameters(), lr=0.05, fused=True),
        lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1, factor=0.5),
    ),
}


def train(net, optimizer, scheduler, begin, end):
    losses = []
    for step in range(begin, end):
        x = torch.sin(torch.arange(48.0).view(6, 8) + step)
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
            scheduler.step(1.0)
        elif scheduler is not None:
            scheduler.step()
        losses.append(loss.detach())
    return losses


def begin():
    for name, (make_optimizer, make_scheduler) in RUNS.items():
        net = make_net()
        optimizer = make_optimizer(net)
        scheduler = make_scheduler(optimizer) if make_scheduler else None
        losses = train(net, optimizer, scheduler, 0, SPAN)
        saved = {
            "model": net.state_dict(),
            "optimizer": optimizer.state_dict(),
            "rng_state": torch.get_rng_state(),
            "epoch": SPAN,
        }
        if scheduler:
            saved["scheduler"] = scheduler.state_dict()
        torch.save(saved, f"{DIRECTORY}/{name}.begun.pt")
        losses += train(net, optimizer, scheduler, SPAN, 3 * SPAN)
        torch.save({"losses": torch.stack(losses)}, f"{DIRECTORY}/{name}.losses.pt")
    # Without names, and with more than one group.
    net = make_net()
    named = dict(net.named_parameters())
    unnamed = optim.AdamW([{"params": [named["0.bias"]]}, {"params": [p for n, p in named.items() if n != "0.bias"]}])
    torch.save({"model": net.state_dict(), "optimizer": unnamed.state_dict()}, f"{DIRECTORY}/unnamed.pt")
    state = optim.AdamW(net.parameters()).state_dict()
    state["param_groups"][0]["params"] = list(named)
    torch.save({"model": net.state_dict(), "optimizer": state}, f"{DIRECTORY}/by_names.pt")
    rprop = optim.RMSprop(net.parameters())
    train(net, rprop, None, 0, 1)
    torch.save({"model": net.state_dict(), "optimizer": rprop.state_dict()}, f"{DIRECTORY}/rmsprop.pt")


def end():
    for name, (make_optimizer, make_scheduler) in RUNS.items():
        saved = torch.load(f"{DIRECTORY}/{name}.ended.pt", weights_only=True, mmap=True)
        net = make_net()
        optimizer = make_optimizer(net)
        scheduler = make_scheduler(optimizer) if make_scheduler else None
        net.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        if scheduler:
            scheduler.load_state_dict(saved["scheduler"])
        torch.set_rng_state(saved["rng_state"])
        losses = torch.stack(train(net, optimizer, scheduler, saved["epoch"], 3 * SPAN))
        wanted = torch.load(f"{DIRECTORY}/{name}.losses.pt", weights_only=True)["losses"][2 * SPAN :]
        print(name, (losses != wanted).sum().item() if len(losses) == SPAN else f"has {len(losses)} losses")
    weights = torch.load(f"{DIRECTORY}/layouts.pt", weights_only=True)
    for name, tensor in weights.items():
        print("layout", name, str(tensor.dtype)[6:], list(tensor.shape), list(tensor.stride()), tensor.flatten().tolist())
    shared = {name: tensor.untyped_storage().data_ptr() for name, tensor in weights.items()}
    print("shared", shared["base"] == shared["transposed"] == shared["row"])
    print("apart", weights["small"].untyped_storage().nbytes())


torch.set_num_threads(1)
{"begin": begin, "end": end}[sys.argv[1]]()
