"""The same steps as exported_loop.cc in Python: exported_twin.py DIRECTORY NET STEPS, under DistributedDataParallel. Rank 0 prints
{"ms", "mb", "reserved_mb", "wrong": how many of the first losses are not those of the test's two ranks}."""
import json
import os
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

WARM_UP = 10
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/trainer/exported"))


def peak_mb():
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) / 1024


def main():
    directory, name, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    before = peak_mb()
    import exported_nets

    torch.manual_seed(7)
    net, sample = getattr(exported_nets, name)()
    saved = torch.load(f"{directory}/{name}.inputs.pt")
    values = [saved[f"rank{rank}.{i}"] for i in range(len(sample))]
    inputs = dict(zip(sample, values)) if isinstance(sample, dict) else values
    expected = torch.load(f"{directory}/{name}.expected.pt")["ddp"][rank]
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    torch.manual_seed(exported_nets.SEED + rank)
    wrong, began = 0, 0
    for step in range(WARM_UP + steps):
        if step == WARM_UP:
            began = time.perf_counter()
        optimizer.zero_grad()
        loss = exported_nets.call(model, inputs)["loss"]
        loss.backward()
        optimizer.step()
        if step < len(expected):
            wrong += int(not loss.equal(expected[step]))
    took = (time.perf_counter() - began) * 1000 / steps
    total = torch.tensor([wrong])
    dist.all_reduce(total)
    if rank == 0:
        print(json.dumps({"ms": took, "mb": peak_mb(), "reserved_mb": before, "wrong": int(total)}))
    dist.destroy_process_group()


main()
