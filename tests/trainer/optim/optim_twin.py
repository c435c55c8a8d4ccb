"""What torch computes for the cases of the tests in this directory: `optim_twin.py MODE DIRECTORY`.

Reads cases.json and in.pt (name to tensor) in DIRECTORY, writes out.pt.
"""

import json
import math
import sys

import torch
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS = 24


def own_copy(tensor):
    """A copy with the strides that the C++ side gives the tensor (pickling keeps them)."""
    return torch.empty_like(tensor).copy_(tensor)


def optimizers(cases, tensors):
    """Steps every case; returns parameters and state."""
    out = {}
    for case in cases:
        names = case["parameters"]
        parameters = {n: own_copy(tensors["start/" + n]).requires_grad_() for n in names}
        kwargs = dict(case["options"])
        groups = [
            dict(group["options"], params=[parameters[n] for n in group["names"]])
            for group in case.get("groups", [{"names": names, "options": {}}])
        ]
        optimizer = getattr(torch.optim, case["optimizer"])(groups, **kwargs)
        for step in range(STEPS):
            for name, parameter in parameters.items():
                gradient = tensors.get(f"gradient/{step}/{name}")
                parameter.grad = None if gradient is None else own_copy(gradient)
            if step == STEPS // 2:
                for group in optimizer.param_groups:
                    group["lr"] *= 0.5
            optimizer.step()
        for name, parameter in parameters.items():
            out[f"{case['name']}/{name}"] = parameter.detach()
            for field, value in optimizer.state.get(parameter, {}).items():
                if value is not None:
                    out[f"{case['name']}/{name}/{field}"] = value
    return out


def warmup_then(warmup, after):
    """transformers' schedules as factors (transformers/optimization.py)."""
    return lambda step: float(step) / float(max(1, warmup)) if step < warmup else after(step)


def linear(warmup, total):
    return warmup_then(warmup, lambda s: max(0.0, float(total - s) / float(max(1, total - warmup))))


def cosine(warmup, total, cycles=0.5, lowest=0.0):
    def after(step):
        progress = float(step - warmup) / float(max(1, total - warmup))
        factor = 0.5 * (1.0 + math.cos(math.pi * float(cycles) * 2.0 * progress))
        return max(0.0, factor * (1 - lowest) + lowest)

    return warmup_then(warmup, after)


def restarts(warmup, total, cycles):
    def after(step):
        progress = float(step - warmup) / float(max(1, total - warmup))
        if progress >= 1.0:
            return 0.0
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((float(cycles) * progress) % 1.0))))

    return warmup_then(warmup, after)


def polynomial(warmup, total, start, end, power):
    def after(step):
        if step > total:
            return end / start
        remaining = 1 - (step - warmup) / (total - warmup)
        return ((start - end) * remaining**power + end) / start

    return warmup_then(warmup, after)


def schedules(cases, tensors):
    """The rates (and momentum) of every case: float64 [steps + 1, groups]."""
    out = {}
    for case in cases:
        groups = [{"params": [torch.zeros(1)], "lr": lr} for lr in (0.1, 0.02)]
        kind = case.get("optimizer", "SGD")
        optimizer = getattr(torch.optim, kind)(groups, lr=0.1)
        scheduler = eval(case["python"], {**globals(), **vars(lr_scheduler), "o": optimizer})
        rates, momentums = [], []

        def note():
            rates.append([group["lr"] for group in optimizer.param_groups])
            momentums.append([
                group["betas"][0] if "betas" in group else group.get("momentum", 0.0)
                for group in optimizer.param_groups
            ])

        note()
        for step in range(case["steps"]):
            optimizer.step()
            if "metrics" in case:
                scheduler.step(case["metrics"][step])
            else:
                scheduler.step()
            note()
        out[case["name"] + "/lr"] = torch.tensor(rates, dtype=torch.float64)
        out[case["name"] + "/momentum"] = torch.tensor(momentums, dtype=torch.float64)
    return out


def clipping(cases, tensors):
    """Clips every case's gradients; returns the total norm and the gradients."""
    out = {}
    for case in cases:
        parameters = []
        for name in case["gradients"]:
            parameter = torch.zeros_like(tensors[name]).requires_grad_()
            parameter.grad = own_copy(tensors[name])
            parameters.append(parameter)
        if "value" in case:
            torch.nn.utils.clip_grad_value_(parameters, case["value"])
        else:
            total = torch.nn.utils.clip_grad_norm_(
                parameters, case["max_norm"], float(case["norm_type"]))
            out[case["name"] + "/total"] = total
        for name, parameter in zip(case["gradients"], parameters):
            out[case["name"] + "/" + name] = parameter.grad
    return out


def averages(cases, tensors):
    """AveragedModel over the given weights, with one decay per case."""
    out = {}
    for case in cases:
        model = torch.nn.ParameterDict({"w": tensors["0/w"].clone(), "b": tensors["0/b"].clone()})
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(case["decay"]))
        for update in range(1, case["updates"] + 1):
            with torch.no_grad():
                for name in ("w", "b"):
                    model[name].copy_(tensors[f"{update}/{name}"])
            average.update_parameters(model)
        for name in ("w", "b"):
            out[case["name"] + "/" + name] = average.module[name].detach()
    return out


def main():
    mode, directory = sys.argv[1:]
    with open(f"{directory}/cases.json", encoding="utf-8") as file:
        cases = json.load(file)
    tensors = dict(torch.load(f"{directory}/in.pt", weights_only=False))
    out = globals()[mode](cases, tensors)
    torch.save({name: value.detach() for name, value in out.items()}, f"{directory}/out.pt")


main()
