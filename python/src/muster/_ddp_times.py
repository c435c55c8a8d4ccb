"""How long steps wait for the gradients of other ranks, by what torch's DistributedDataParallel measures of itself."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

SEARCHES_MAX = 7  # after 1, 2, 4, … windows: a model may be made late, and each search looks at all objects
READ_EVERY_S = 0.02  # a read takes some 50 us


class _Model:
    """One DDP module. Its times are those of an iteration: a backward pass that averages gradients."""

    def __init__(self, module: Any) -> None:
        self._module = weakref.ref(module)
        self._iteration = -1
        self._read_at = 0  # the number of steps at the last new sample
        self._seconds: list[float] = []  # per iteration, since the last report
        self._iterations_per_step = 1.0
        self._per_step = 0.0

    def sample(self, steps: int) -> bool:
        """False: there is nothing more to be had."""
        module = self._module()
        if module is None:
            return False
        data = module._get_ddp_logging_data()
        iteration = data.get("iteration", 0)
        # Communication that overlaps with computing gradients delays no rank.
        waited = data.get("backward_comm_time", 0) - data.get("backward_compute_comm_overlap_time", 0)
        if iteration <= self._iteration or data.get("backward_comm_time", 0) <= 0:
            return True
        if self._iteration >= 0 and steps > self._read_at:
            self._iterations_per_step = (iteration - self._iteration) / (steps - self._read_at)
        self._iteration, self._read_at = iteration, steps
        self._seconds.append(max(0, waited) / 1e9)
        return True

    def per_step(self) -> float:
        """Seconds of a step, the mean since the last call; the same again where torch took no sample."""
        if self._seconds:
            self._per_step = sum(self._seconds) / len(self._seconds) * self._iterations_per_step
            self._seconds.clear()
        return self._per_step


class DdpTimes:
    """Of all DDP modules of this process. One thread. Never raises: torch calls what it reads a prototype."""

    def __init__(self) -> None:
        self._models: list[_Model] = []
        self._steps = 0
        self._next_read = 0.0
        self._windows = 0
        self._searches = 0

    def step(self, now: float) -> None:
        """A step has ended."""
        self._steps += 1
        if not self._models or now < self._next_read:
            return
        self._next_read = now + READ_EVERY_S
        try:
            self._models = [model for model in self._models if model.sample(self._steps)]
        except Exception:
            self._models, self._searches = [], SEARCHES_MAX

    def per_step(self) -> float | None:
        """Seconds of a step since the last call; None: not known."""
        if self._models:
            return sum(model.per_step() for model in self._models)
        self._windows += 1
        if self._searches < SEARCHES_MAX and self._windows >= 1 << self._searches:
            self._searches += 1
            try:
                self._models = [_Model(module) for module in _find()]
            except Exception:
                self._searches = SEARCHES_MAX
        return None


def _find() -> list[Any]:
    distributed = sys.modules.get("torch.distributed")
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    if distributed is None or parallel is None or not distributed.is_initialized() or distributed.get_world_size() < 2:
        return []
    found = [each for each in gc.get_objects() if issubclass(type(each), parallel.DistributedDataParallel)]
    for module in found:
        # Torch samples each hundredth iteration. Each one costs next to nothing on a processor; on a device it would
        # wait for the device, and with the debug level DETAIL print a line.
        on_device = any(parameter.device.type != "cpu" for parameter in module.parameters())
        if not on_device and distributed.get_debug_level() != distributed.DebugLevel.DETAIL:
            module._set_ddp_runtime_logging_sample_rate(1)
    return found
