"""Step times of a loop that does not tell its steps: by torch's own hooks on optimizers and modules."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from muster import _step_times

OTHERS_MAX = 100


class _Watch:
    """A step ends with that of an optimizer, of several with that of the one that is first to make one; if that one
    rests for OTHERS_MAX steps of others, as after a phase of training, with that of the next to make one. Until then
    from the first call of a module in training it computes, before that it waits for data. The first step is not
    timed: its start is not known.
    """

    def __init__(self, of: _step_times.StepTimer) -> None:
        self._timer = of
        self._optimizer: weakref.ref[Any] | None = None
        self._others = 0  # steps of others since its last
        self._waiting: Any = None  # the handle of a hook that would slow down every module
        register_optimizer_step_post_hook(self._stepped)
        # Ours is gone after its first call.
        warnings.filterwarnings("ignore", r"Using `torch\.compile\(module\)` when there are global hooks on modules")

    def _called(self, module: Any, _: Any) -> None:
        if next(module.parameters(), None) is None:
            return  # a loss function, which is in training also while a model is evaluated
        if not module.training:
            self._timer.restart()  # an evaluation is not part of a step
            return
        self._waiting.remove()
        self._waiting = None
        self._timer.have_data()

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        first = None if self._optimizer is None else self._optimizer()
        if first is not None and optimizer is not first:
            self._others += 1
            if self._others < OTHERS_MAX:
                return
        if optimizer is not first:
            self._optimizer = weakref.ref(optimizer)
        self._others = 0
        if _step_times.told_by_script:
            return
        if self._timer.step is None:
            self._timer.skip()
        else:
            self._timer.end()
        if self._waiting is None:
            self._waiting = register_module_forward_pre_hook(self._called)


_watch: _Watch | None = None


def watch() -> None:
    """From now on, unless the script uses `muster.steps` or `muster.step`. Outside Muster nothing."""
    global _watch
    if _watch is None and (timer := _step_times.timer()) is not None:
        _watch = _Watch(timer)
