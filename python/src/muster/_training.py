"""`log`, `progress`, `should_checkpoint`, `should_stop`: what a training loop calls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muster import _process
from muster._numbers import metric_name, number, whole

if TYPE_CHECKING:
    from muster._reporter import Reporter

NAMES_MAX = 10_000

_names: dict[str, str] = {}
_next_step: int | None = None


def log(metrics: Mapping[str, Any] | None = None, /, *, step: Any = None, **values: Any) -> None:
    """Sends values of metrics to Muster, where `jobctl metrics`, the page and the findings show them.

        muster.log(loss=loss, lr=scheduler.get_last_lr()[0], step=step)
        muster.log({"train/loss": loss}, step=step)

    A value is a number: int, float (also NaN and infinities), a numpy scalar, or a torch tensor with one element. A
    tensor on a device is copied to the host, which waits for the device: log every few steps. Without `step` it is one
    more than at the last call, and first one more than that of the checkpoint which the attempt resumes from, or 0.

    Never blocks and never raises: what is not a number is skipped and named once on stderr, and what the queue of
    65,536 points cannot hold is dropped and counted (`jobctl metrics` shows how many). Outside Muster it does nothing.
    """
    reporter = _process.reporter if _process.is_decided else _process.decide()
    if reporter is None:
        return
    try:
        _add(reporter, metrics, values, step)
    except Exception as error:  # of a foreign type's methods
        _process.warn("log", f"metrics were skipped: {type(error).__name__} while they were read")


def _add(reporter: Reporter, metrics: Mapping[str, Any] | None, values: dict[str, Any], step: Any) -> None:
    at = _step(step)
    if at is None:
        _process.warn("step", f"metrics were skipped: their step is a {_kind(step)}, not a whole number; pass an int")
        return
    now_ms = int(time.time() * 1000)
    if metrics is not None:
        values = {**metrics, **values}
    for name, value in values.items():
        converted = number(value)
        if converted is None:
            known = _clean(name)
            _process.warn(known, f"metric {known} was skipped: it is a {_kind(value)}, not one number; pass a float")
        else:
            reporter.add((_clean(name), at, converted, now_ms))


def progress(step: Any, total: Any = 0) -> None:
    """Tells how far training is: `step` of `total` steps (0: not known). `jobctl ls` shows it and when the job will be
    done. Never blocks and never raises; outside Muster it does nothing."""
    reporter = _process.reporter if _process.is_decided else _process.decide()
    if reporter is None:
        return
    at, of = whole(step), whole(total)
    if at is None or of is None:
        _process.warn("progress", f"progress was skipped: a {_kind(step)} of a {_kind(total)}; pass whole numbers")
        return
    reporter.progress(at, max(of, 0))


def should_stop(*, together: bool = False) -> bool:
    """Whether the job is about to be stopped: it was canceled, its time or its allocation is over, another rank failed.
    Then save a checkpoint and leave the loop; the job's grace period (30 s by default) is left.

    The first call takes over SIGTERM, which accompanies such a request and would end the process: call it before the
    loop or once per step, in the main thread. A handler that was there is still called. Outside Muster it is False.

    `together`: every rank makes this call at the same steps, and all get the same answer, True if any was asked. Ranks
    that compute together have to stop together. It costs an all-reduce of one number over torch.distributed, so call it
    every few steps; without a process group it is the same as without `together`.
    """
    requested = _process.stop_is_requested()
    if together and _process.is_inside:
        from muster._together import any_rank

        return any_rank(requested)
    return requested


def should_checkpoint(*, together: bool = False) -> bool:
    """Whether Muster asks for a checkpoint now, because the job is about to give its devices to another one: it is
    stopped as soon as that checkpoint is committed, and continues from it later. True once for each request; then call
    `save_checkpoint` and continue. Never blocks without `together`, which is as in `should_stop`. Outside Muster
    it is False.
    """
    found = _process.reporter if _process.is_decided else _process.decide()
    requested = found is not None and found.checkpoint_is_requested
    if together and _process.is_inside:
        from muster._together import any_rank

        requested = any_rank(requested)
    if requested and found is not None:
        found.checkpoint_is_requested = False
    return requested


def _kind(value: Any) -> str:
    return type(value).__name__


def _clean(name: Any) -> str:
    known = _names.get(name) if type(name) is str else None
    if known is None:
        known = metric_name(name)
        if type(name) is str and len(_names) < NAMES_MAX:
            _names[name] = known
    return known


def _step(step: Any) -> int | None:
    global _next_step
    if step is None:
        if _next_step is None:
            from muster._checkpoints import resumed_step

            _next_step = resumed_step() + 1
        at: int | None = _next_step
    else:
        at = whole(step)
    if at is not None:
        _next_step = at + 1
    return at
