"""`steps`, `step`: how long training steps take and what they wait for: the metrics `time/…` of docs/findings.md."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from muster import _process
from muster._ddp_times import DdpTimes

T = TypeVar("T")

WINDOW_S = 1.0  # the shortest that means are taken over


class StepTimer:
    """Adds up the parts of steps, and reports their means every second or so. One thread.

    A step begins where the one before it ended, or with `restart`. `have_data` ends a wait for data, `end` the step.
    """

    def __init__(self) -> None:
        self.step: int | None = None  # the one that ended last
        self._window_steps = 0
        self._window_begin = time.monotonic()
        self._total = self._data = self._checkpoint = 0.0
        self._ddp = DdpTimes()
        self.restart()

    def restart(self) -> None:
        """Starts the next step now: an evaluation or an epoch's end since the last one is not part of it."""
        self._begin = self._mark = time.monotonic()
        self._step_data = self._step_checkpoint = 0.0

    def have_data(self) -> None:
        """A batch has arrived."""
        self._step_data += time.monotonic() - self._mark

    def worked(self) -> None:
        """A batch is done, and the step needs another one."""
        self._mark = time.monotonic()

    def saved(self, seconds: float) -> None:
        """So much of this step went into a checkpoint, and of a wait for data that has begun."""
        self._step_checkpoint += seconds
        self._mark += seconds

    def end(self, step: int | None = None) -> None:
        """The step is over. `step`: its number; None: one more than the last."""
        now = time.monotonic()
        self.step = self._next() if step is None else step
        self._total += now - self._begin
        self._data += self._step_data
        self._checkpoint += self._step_checkpoint
        self._window_steps += 1
        self._ddp.step(now)
        self._begin = self._mark = now
        self._step_data = self._step_checkpoint = 0.0
        if now - self._window_begin >= WINDOW_S:
            self.report()

    def skip(self) -> None:
        """Counts a step that has ended, without a time: its start is not known."""
        self.step = self._next()
        self.restart()

    def _next(self) -> int:
        return _first_step() if self.step is None else self.step + 1

    def report(self) -> None:
        """The means of the steps since the last report."""
        reporter = _process.reporter
        steps, at = self._window_steps, self.step
        if reporter is not None and steps > 0 and at is not None:
            now_ms = int(time.time() * 1000)
            compute = max(0.0, self._total - self._data - self._checkpoint)
            parts = [("step", self._total), ("data_wait", self._data), ("checkpoint", self._checkpoint)]
            waited = self._ddp.per_step()
            if waited is not None:
                communication = min(compute, waited * steps)
                compute -= communication
                parts.append(("communication", communication))
            parts.append(("compute", compute))
            for name, seconds in parts:
                reporter.add((f"time/{name}", at, seconds / steps, now_ms))
        self._window_steps = 0
        self._window_begin = time.monotonic()
        self._total = self._data = self._checkpoint = 0.0


_timer: StepTimer | None = None
told_by_script = False  # by `steps` or `step`: the hooks need not find them


def timer() -> StepTimer | None:
    """This process's; None outside Muster."""
    global _timer
    if _timer is None and _process.decide() is not None:
        _timer = StepTimer()
        _process.before_close(_timer.report)
    return _timer


def saved(seconds: float) -> None:
    """A checkpoint took so long."""
    if _timer is not None:
        _timer.saved(seconds)


def _first_step() -> int:
    from muster._checkpoints import resumed_step

    return resumed_step() + 1


class _Steps(Generic[T]):
    def __init__(self, batches: Iterable[T], of: StepTimer) -> None:
        self._batches = batches
        self._timer = of

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    def __iter__(self) -> Iterator[T]:
        global told_by_script
        told_by_script = True
        self._timer.restart()
        for batch in self._batches:
            self._timer.have_data()
            yield batch
            self._timer.end()


def steps(batches: Iterable[T]) -> Iterable[T]:
    """The same batches, each of which is one training step. Muster then knows how long steps take, how long they wait
    for data and for checkpoints: `jobctl show JOB --ledger`, the findings about slow input and slow ranks.

        for batch in muster.steps(loader):
            ...

    Counting continues from the checkpoint that the attempt resumes from, over all loops of the process; what happens
    between two loops is not part of a step. It costs about a microsecond a step. With torch's
    DistributedDataParallel it also tells how long steps wait for the gradients of other ranks (a search for the model of some 0.1 s, then at most
    50 reads a second of what torch measures). Outside Muster it is `batches` itself.
    """
    of = timer()
    return batches if of is None else _Steps(batches, of)


@contextlib.contextmanager
def step(number: int | None = None) -> Iterator[None]:
    """One training step, for loops that fetch their own data: only what is inside counts as part of a step.

    with muster.step():
        ...
    """
    global told_by_script
    told_by_script = True
    of = timer()
    if of is None:
        yield
        return
    of.restart()
    yield
    of.end(number)
