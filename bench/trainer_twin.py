"""The peers of `./dev bench trainer` in Python: the same as trainer_loop.cc, on Hugging Face Accelerate.

    trainer_twin.py steps MODEL BATCH WARM_UP STEPS DATA [SHARD]  training steps per second, peak memory;
        SHARD full|grad: FSDP of the blocks, with and without resharding after forward
    trainer_twin.py checkpoint DIRECTORY MILLIONS SAVES      the stall of torch.distributed.checkpoint.async_save

Started as ranks with torchrun's variables. Rank 0 prints one JSON object.
"""
import json
import os
import pathlib
import resource
import shutil
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "trainer" / "parity"))


def shard_model(model, kind):
    """What Accelerate's FSDP plugin (fsdp_version=2) does to a model; on the CPU Accelerate itself skips FSDP."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=kind == "full")
    return fully_shard(model, mesh=mesh, reshard_after_forward=kind == "full")


def parts_of(model, parts, seconds, count):
    """Milliseconds a step, as bench_trainer's. DistributedDataParallel samples how long backward waited for ranks."""
    part = {name: value / count * 1000 for name, value in parts.items()}
    waiting = 0.0
    if hasattr(model, "_get_ddp_logging_data"):
        data = model._get_ddp_logging_data()
        waiting = (data.get("avg_backward_comm_time", 0) - data.get("avg_backward_compute_comm_overlap_time", 0)) / 1e6
    part["backward"] -= waiting
    return {**part, "waiting": waiting, "rest": seconds / count * 1000 - sum(part.values()) - waiting}


def steps(name, batch, warm_up, count, data_path, shard=""):
    import parity_models
    from accelerate import Accelerator
    from accelerate.utils import set_seed
    from safetensors.torch import load_file
    accelerator = Accelerator(cpu=True)
    set_seed(1)
    model = parity_models.make_model(name)
    data = load_file(data_path)
    kind = "characters" if name.startswith("transformer") else "digits"
    dataset = torch.utils.data.TensorDataset(data[f"{kind}.inputs"], data[f"{kind}.labels"])
    loader = torch.utils.data.DataLoader(dataset, batch_size=int(batch), shuffle=True, drop_last=True)
    # The same kernel as Muster's; torch's default on the CPU is slower.
    if shard:
        model = shard_model(model, shard)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        loader = accelerator.prepare(loader)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    parts = {"forward": 0.0, "backward": 0.0, "optimizer": 0.0}

    def timed(part, call):
        began = time.perf_counter()
        result = call()
        parts[part] += time.perf_counter() - began
        return result
    done, warm_up, total, first, started = 0, int(warm_up), int(warm_up) + int(count), 0.0, 0.0
    while done < total:
        for pair in loader:
            if done == warm_up:
                accelerator.wait_for_everyone()
                started = time.monotonic()
                parts.update(dict.fromkeys(parts, 0.0))
            optimizer.zero_grad()
            loss = parity_models.loss_of(lambda *inputs: timed("forward", lambda: model(*inputs)), name, pair, done)
            timed("backward", lambda: accelerator.backward(loss))
            timed("optimizer", optimizer.step)
            done += 1
            if done == 1:
                first = time.monotonic()
            if done == total:
                break
    seconds = time.monotonic() - started
    if accelerator.is_main_process:
        print(json.dumps({"steps_per_s": int(count) / seconds, "first_step": first, "loss": loss.item(),
                          "parts_ms": parts_of(model, parts, seconds, int(count)),
                          "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}), flush=True)
    accelerator.end_training()


def checkpoint(directory, millions, saves):
    """As in trainer_loop.cc: a linear layer with this many million parameters, AdamW, one step before each save."""
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict
    dist.init_process_group("gloo")
    rank, width = dist.get_rank(), int((int(millions) * 1e6) ** 0.5)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(width, width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs, stalls = torch.ones(4, width), []
    for save in range(int(saves) + 1):
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()
        optimizer.step()
        path = os.path.join(directory, f"step-{save}")
        dist.barrier()
        started = time.monotonic()
        weights, moments = get_state_dict(model, optimizer)
        future = dcp.async_save({"model": weights, "optimizer": moments}, checkpoint_id=path)
        stalled = time.monotonic() - started
        future.result()
        if save:  # the first one allocates the buffers
            stalls.append(stalled)
        dist.barrier()
        if rank == 0:
            shutil.rmtree(path)
    if rank == 0:
        print(json.dumps({"stalls_s": stalls}))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    {"steps": steps, "checkpoint": checkpoint}[sys.argv[1]](*sys.argv[2:])
