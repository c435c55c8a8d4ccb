"""Agreement among the ranks over torch.distributed, where a process group exists. torch is only used if the program has
imported it already."""

from __future__ import annotations

import sys
from typing import Any


def _distributed() -> Any:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def any_rank(mine: bool) -> bool:
    """Whether it is True on any rank. Every rank has to call it."""
    distributed = _distributed()
    if distributed is None or distributed.get_world_size() == 1:
        return mine
    torch = sys.modules["torch"]
    backend = distributed.get_backend()
    device = "cpu" if "gloo" in backend or "mpi" in backend else _accelerator(torch)
    flag = torch.tensor([int(mine)], device=device)
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return bool(flag.item())


def _accelerator(torch: Any) -> Any:
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.accelerator.current_accelerator()
