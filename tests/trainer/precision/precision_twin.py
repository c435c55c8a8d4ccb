"""What torch.amp.GradScaler does on the cases of grad_scaler_test: `precision_twin.py MODE DIRECTORY`.

Reads cases.json and in.pt (name to tensor) in DIRECTORY, writes out.pt.
"""

import json
import sys

import torch


def make_scaler(case):
    return torch.amp.GradScaler("cpu", **case["scaler"])


def train(scaler, case, tensors, out):
    parameters = [tensors[name].clone().requires_grad_() for name in ("first", "second")]
    optimizers = [
        getattr(torch.optim, kind)([parameter], **case["options"])
        for kind, parameter in zip(case["optimizers"], parameters)
    ]
    scales, trackers = [], []
    for step, event in enumerate(case["pattern"]):
        loss = sum((p * p * tensors["data"]).sum() * (step + 1) for p in parameters)
        scaler.scale(loss).backward()
        if event != "fine":
            with torch.no_grad():
                parameters[step % 2].grad[1] = float(event)
        for optimizer, parameter in zip(optimizers, parameters):
            if case["clips"]:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_([parameter], 0.5)
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()
        scales.append(scaler.get_scale())
        trackers.append(scaler._get_growth_tracker())
    name = case["name"]
    out[name + "/scales"] = torch.tensor(scales, dtype=torch.float64)
    out[name + "/trackers"] = torch.tensor(trackers, dtype=torch.int64)
    for number, parameter in enumerate(parameters):
        out[f"{name}/parameter{number}"] = parameter.detach()


def sequences(cases, tensors):
    out = {}
    for case in cases:
        train(make_scaler(case), case, tensors, out)
    return out


def loaded(cases, tensors):
    """Continues from the state that C++ saved, and returns its own final state."""
    out = {}
    for case in cases:
        scaler = make_scaler(case)
        scaler.load_state_dict({
            name.removeprefix("state/"): value
            for name, value in tensors.items() if name.startswith("state/")
        })
        train(scaler, case, tensors, out)
        for name, value in scaler.state_dict().items():
            dtype = torch.float64 if name in ("scale", "growth_factor", "backoff_factor") else torch.int64
            out["state/" + name] = torch.as_tensor(value).to(dtype)
    return out


def main():
    mode, directory = sys.argv[1:]
    with open(f"{directory}/cases.json", encoding="utf-8") as file:
        cases = json.load(file)
    tensors = dict(torch.load(f"{directory}/in.pt", weights_only=False))
    torch.save(globals()[mode](cases, tensors), f"{directory}/out.pt")


main()
