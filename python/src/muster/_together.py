"""Agreement among the ranks over torch.distributed, where a process group exists. torch is only used if the program has
imported it already."""

from __future__ import annotations

import os
import sys
from typing import Any


def _distributed() -> Any:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def any_rank(mine: bool) -> bool:
    """Whether it is True on any rank. Every rank has to call it."""
    return bool(_greatest(int(mine))[0])


def check_together(step: int) -> None:
    """Raises on every rank unless the ranks can agree, and save the same step."""
    if _distributed() is None and os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
        raise RuntimeError(
            "together=True needs the process group of torch.distributed; fix: torch.distributed.init_process_group() "
            "before it, or leave together out, and rank 0 alone writes"
        )
    highest, lowest = _greatest(step, -step)
    if highest != -lowest:
        raise ValueError(f"the ranks save different steps, from {-lowest} to {highest}; this one step {step}")


def _greatest(*mine: int) -> list[int]:
    """Of each number the greatest on any rank. Every rank has to call it."""
    distributed = _distributed()
    if distributed is None or distributed.get_world_size() == 1:
        return list(mine)
    torch = sys.modules["torch"]
    backend = distributed.get_backend()
    device = "cpu" if "gloo" in backend or "mpi" in backend else _accelerator(torch)
    numbers = torch.tensor(mine, dtype=torch.int64, device=device)
    distributed.all_reduce(numbers, op=distributed.ReduceOp.MAX)
    return [int(number) for number in numbers.tolist()]


def _accelerator(torch: Any) -> Any:
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.accelerator.current_accelerator()
