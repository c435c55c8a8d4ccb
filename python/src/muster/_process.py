"""What this process is: a rank of Muster, a child of one, or neither; and its one reporter.

Only one process of a rank speaks to the worker, because batches are numbered per rank: the first that calls. Processes
that it forks or spawns (a DataLoader's workers) find its mark in the environment and stay silent.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster._reporter import Reporter

# The process that speaks for this rank.
SPEAKER_VARIABLE = "MUSTER_PYTHON_SPEAKER"
# The process whose children leave its process group.
APART_VARIABLE = "MUSTER_PYTHON_APART"

WARNINGS_MAX = 100

reporter: Reporter | None = None
is_decided = False  # whether `reporter` is final
is_inside = "MUSTER_SOCKET" in os.environ  # read again by `reset`

_deciding = threading.Lock()
_forking = threading.local()
_warned: set[str] = set()
_stop_signaled = False
_handles_stop = False
_previous_handler: Any = None
_last: list[Callable[[], None]] = []


def rank() -> int:
    """The global rank, 0 without a launcher."""
    return _variable("RANK", 0)


def _variable(name: str, otherwise: int) -> int:
    try:
        return int(os.environ.get(name, otherwise))
    except ValueError:
        return otherwise


def _is_silent_child() -> bool:
    speaker = os.environ.get(SPEAKER_VARIABLE)
    if speaker is not None and speaker != str(os.getpid()):
        return True
    # A DataLoader's worker that calls before its parent does. Only a process that multiprocessing
    # started has that module loaded.
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and bool(processes.current_process().daemon)


def decide() -> Reporter | None:
    """The reporter of this process, started by the first call; None outside Muster."""
    global reporter, is_decided
    with _deciding:
        if is_decided:
            return reporter
        is_decided = True
        if "MUSTER_SOCKET" not in os.environ or _is_silent_child():
            return None
        keep_children_apart()
        from muster._reporter import Place, Reporter

        os.environ[SPEAKER_VARIABLE] = str(os.getpid())
        place = Place(
            socket=os.environ["MUSTER_SOCKET"],
            token_file=os.environ.get("MUSTER_RANK_TOKEN_FILE", ""),
            job=_variable("MUSTER_JOB_ID", 0),
            attempt=_variable("MUSTER_ATTEMPT", 0),
            rank=rank(),
        )
        try:
            started = Reporter(place)
            started.start()
        except (
            OSError,
            RuntimeError,
        ) as error:  # no descriptor, no thread, or the interpreter is ending
            warn("start", f"metrics are not sent: {error}")
            return None
        reporter = started
        atexit.register(_close)
        return reporter


def warn(subject: str, text: str) -> None:
    """A line on stderr, once per subject."""
    if subject not in _warned and len(_warned) < WARNINGS_MAX:
        _warned.add(subject)
        print(f"muster: rank {rank()}: {text}", file=sys.stderr, flush=True)


def before_close(what: Callable[[], None]) -> None:
    """Called once, before the last points are sent."""
    _last.append(what)


def _close() -> None:
    for what in _last:
        what()
    if reporter is not None:
        reporter.close()
    if "torch.distributed" in sys.modules:
        # DDP keeps the process group alive by a reference cycle, and gloo's threads abort the process if they still
        # release tensors when Python ends: github.com/pytorch/pytorch/issues/190489.
        gc.collect()


def reset() -> None:
    """Forgets everything, so that the environment is read again. For tests and after a fork."""
    global reporter, is_decided, is_inside, _deciding, _stop_signaled
    reporter = None
    is_decided = False
    is_inside = "MUSTER_SOCKET" in os.environ
    _deciding = threading.Lock()  # a thread that does not exist here may have held it
    _stop_signaled = False


# ---- children
#
# Muster signals process groups when it stops a job. What multiprocessing has started (a DataLoader's workers) loads the
# data for the steps until the checkpoint, and its death would raise in the parent: it leaves its parent's group.


def keep_children_apart() -> None:
    """Of the process that trains, from its first call of this package on: later a stop would find its children."""
    own = str(os.getpid())
    if os.environ.get(APART_VARIABLE) == own or "MUSTER_SOCKET" not in os.environ or _is_silent_child():
        return
    os.environ[APART_VARIABLE] = own
    if "multiprocessing.context" in sys.modules:  # else this program has not asked for children
        _keep_fork_server_apart()


def _keep_fork_server_apart() -> None:
    try:
        from multiprocessing import forkserver

        known = getattr(getattr(forkserver, "_forkserver", None), "_preload_modules", ["__main__"])
        forkserver.set_forkserver_preload([*known, "muster._fork_server"])
    except (ImportError, TypeError):
        pass  # there is none on this system, or another kind of it


def leave_group_of_parent() -> None:
    """For a new process: if its parent keeps its children apart."""
    if os.environ.get(APART_VARIABLE) == str(os.getppid()):
        with contextlib.suppress(OSError):  # already a leader
            os.setpgid(0, 0)


def _before_fork() -> None:
    # A child that is terminated at once must find its own disposition, not our handler.
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if _handles_stop else None


def _after_fork_in_parent() -> None:
    if _forking.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _after_fork_in_child() -> None:
    inherited = reporter
    leave_group_of_parent()
    reset()
    if inherited is not None:
        inherited.abandon()
    if _handles_stop:
        _leave_stop_to_parent()
    _after_fork_in_parent()


def _leave_stop_to_parent() -> None:
    """A child that multiprocessing ends by SIGTERM must die of it."""
    global _handles_stop
    _handles_stop = False
    with contextlib.suppress(OSError, ValueError, TypeError):  # not the main thread's child
        signal.signal(signal.SIGTERM, _previous_handler)


# ---- stop requests


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    global _stop_signaled
    if _stop_signaled and _previous_handler in (None, signal.SIG_DFL):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # asked twice: at once
        os.kill(os.getpid(), signal.SIGTERM)
    _stop_signaled = True
    if callable(_previous_handler):
        _previous_handler(number, frame)


def _handle_sigterm() -> None:
    global _handles_stop, _previous_handler
    if _handles_stop:
        return
    if threading.current_thread() is not threading.main_thread():
        warn("thread", "a stop would end this process; call muster.should_stop() once in the main thread, too")
        return
    previous = signal.getsignal(signal.SIGTERM)
    if previous is None:
        return  # C code handles it; the worker's line is enough
    _previous_handler = previous
    signal.signal(signal.SIGTERM, _on_sigterm)
    _handles_stop = True


def own_sigterm() -> None:
    """Makes SIGTERM a stop request and nothing else, whatever a library has installed."""
    global _handles_stop, _previous_handler
    if decide() is None or threading.current_thread() is not threading.main_thread():
        return
    signal.signal(signal.SIGTERM, _on_sigterm)
    _previous_handler = signal.SIG_DFL
    _handles_stop = True


def stop_is_requested() -> bool:
    """Whether this process was asked to stop, by SIGTERM or by the worker."""
    found = reporter if is_decided else decide()
    if found is None:
        return False
    if not _handles_stop:
        _handle_sigterm()
    return _stop_signaled or found.stop_reason is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
# multiprocessing marks a process that it has spawned while it imports the program's main module there.
if getattr(getattr(sys.modules.get("multiprocessing.process"), "_current_process", None), "_inheriting", False):
    leave_group_of_parent()
