"""A torchrun-style script: one all_reduce over Gloo; every rank prints the sum of 1 + 2 + … + world."""
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print(f"sum {int(value.item())}", flush=True)
dist.destroy_process_group()
# Skips interpreter shutdown, during which a Gloo thread may abort the process (pytorch/pytorch#179291).
os._exit(0)
