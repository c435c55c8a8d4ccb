"""Checkpoints by the directory convention of docs/protocol.md: `step-N` appears complete, by a rename.

Muster uploads what appears in MUSTER_CHECKPOINT_DIR, commits it once all parts are durable, and starts the next attempt
with MUSTER_RESUME_FROM. torch is imported only by the functions that use it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable, Union

from muster import _process, _step_times
from muster._numbers import whole
from muster._together import any_rank, check_together

STATE_FILE = "state.pt"
STEP_NAME = re.compile(r"step-(0|[1-9][0-9]{0,18})")

StrPath = Union[str, "os.PathLike[str]"]

_last_saved = -1  # the step of the last save_checkpoint


def save_checkpoint(
    state: Mapping[str, Any] | Callable[[Path], object],
    step: int,
    *,
    directory: StrPath | None = None,
    keep: int = 2,
    together: bool = False,
) -> Path | None:
    """Saves a checkpoint and returns its directory `step-N`, or None where this rank wrote none.

        muster.save_checkpoint({"model": model.state_dict(), "step": step}, step)
        muster.save_checkpoint(accelerator.save_state, step, together=True)

    `state` is a mapping, which torch.save writes to `state.pt`, or a function that writes files into the directory it
    is given. The files are written to `step-N.tmp`, made durable, and the directory is renamed: a process that dies
    midway leaves no half checkpoint. A step that is saved already is not saved again; a warning tells if it was neither
    this call's last step nor the one that the attempt resumes from, as then another state may be lost.

    Without `together` every rank may call it and rank 0 alone writes. With it every rank has to call it, each writes
    its own files, whose names must be unique over all ranks, and the ranks wait for each other; if one fails, all
    raise. That needs the process group of torch.distributed.

    Inside Muster the files go to MUSTER_CHECKPOINT_DIR, from where they are uploaded. Outside they go to `directory`;
    without one nothing is saved. Of the local directories those of the `keep` highest steps stay, the one just saved,
    and all that Muster has not committed yet. A job resumes from the highest step: count on in a second phase.

    Raises OSError if the files cannot be written or none were, ValueError for a step that is not a whole number from 0
    or not the same on all ranks, RuntimeError without the process group, and what `state` or torch.save raises.
    """
    number = whole(step)
    if number is None or number < 0:
        raise ValueError(f"the step of a checkpoint is {step!r}; pass a whole number from 0")
    global _last_saved
    root = _root(directory)
    if root is None or (not together and _process.rank() != 0):
        return None
    write = state if callable(state) else _torch_writer(state)
    final = root / f"step-{number}"
    began = time.monotonic()
    if together:
        check_together(number)
    is_there = not any_rank(not final.exists()) if together else final.exists()
    if is_there:
        _warn_repeated(number)
    saved = not is_there and (_save_together(write, final) if together else _save_alone(write, final))
    _last_saved = number
    if saved:
        if (reporter := _process.decide()) is not None:
            reporter.hint(number)
        _remove_old(root, max(keep, 1), final)
    _step_times.saved(time.monotonic() - began)
    return final


def latest_checkpoint(directory: StrPath | None = None) -> Path | None:
    """The directory to resume from, or None for a fresh start: inside Muster the last committed checkpoint, with the
    files of all ranks; outside the newest `step-N` in `directory`. It is only to be read."""
    _process.keep_children_apart()
    resume = os.environ.get("MUSTER_RESUME_FROM")
    if resume:
        return Path(resume)
    if _process.is_inside or directory is None:
        return None
    whole_ones = (path for _, path in reversed(_steps(Path(directory))) if any(path.iterdir()))
    return next(whole_ones, None)


def load_checkpoint(directory: StrPath | None = None, *, map_location: Any = "cpu", **options: Any) -> Any:
    """What `save_checkpoint` saved as a mapping in the latest checkpoint, read by torch.load (`options` are its), or
    None for a fresh start."""
    found = latest_checkpoint(directory)
    if found is None:
        return None
    if not (found / STATE_FILE).exists():
        raise FileNotFoundError(
            f"{found} has no {STATE_FILE}: a function saved it; read its files from muster.latest_checkpoint()"
        )
    import torch

    return torch.load(found / STATE_FILE, map_location=map_location, **options)


def save_distributed_checkpoint(
    state: Mapping[str, Any], step: int, *, directory: StrPath | None = None, keep: int = 2
) -> Path | None:
    """Saves a sharded state (FSDP, tensor parallel) by torch.distributed.checkpoint: every rank writes its shards, none
    gathers. Every rank has to call it. The rest is as for `save_checkpoint` with `together`."""
    if importlib.util.find_spec("numpy") is None:
        # One rank would fail in the middle of torch's own collectives, and the others would wait for it.
        raise ImportError("torch.distributed.checkpoint exchanges objects through numpy; fix: pip install numpy")

    def write(target: Path) -> None:
        from torch.distributed import checkpoint

        checkpoint.save(dict(state), checkpoint_id=str(target))

    return save_checkpoint(write, step, directory=directory, keep=keep, together=True)


def load_distributed_checkpoint(state: dict[str, Any], *, directory: StrPath | None = None) -> Path | None:
    """Fills `state` (of the shapes and shards that this run has) in place from the latest checkpoint of
    `save_distributed_checkpoint`, written by any number of ranks; returns its directory, or None for a fresh start.
    Every rank has to call it."""
    found = latest_checkpoint(directory)
    if found is None:
        return None
    from torch.distributed import checkpoint

    checkpoint.load(state, checkpoint_id=str(found))
    return found


def resumed_step() -> int:
    """The step of the checkpoint that this attempt resumes from; -1 for a fresh start."""
    named = STEP_NAME.fullmatch(Path(os.environ.get("MUSTER_RESUME_FROM", "")).name)
    return int(named.group(1)) if named else -1


# ---- writing


def _root(directory: StrPath | None) -> Path | None:
    inside = os.environ.get("MUSTER_CHECKPOINT_DIR")
    if inside:
        return Path(inside)
    return None if directory is None else Path(directory)


def _torch_writer(state: Mapping[str, Any]) -> Callable[[Path], object]:
    def write(target: Path) -> None:
        import torch

        torch.save(dict(state), target / STATE_FILE)

    return write


def _warn_repeated(step: int) -> None:
    if step != resumed_step() and step != _last_saved:
        _process.warn(
            "again",
            f"step-{step} was saved already, and what is there now stays; count steps on over phases and restarts",
        )


def _save_alone(write: Callable[[Path], object], final: Path) -> bool:
    draft = final.with_name(final.name + ".tmp")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        write(draft)
        _publish(draft, final)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return True


def _save_together(write: Callable[[Path], object], final: Path) -> bool:
    """Every stage ends with an agreement, so that no rank waits for one that failed. True on the rank that renames."""
    draft = final.with_name(final.name + ".tmp")
    is_first = os.environ.get("LOCAL_RANK", "0") == "0"  # with virtual local ranks, each is

    def prepare() -> None:
        if is_first:
            shutil.rmtree(draft, ignore_errors=True)

    def publish() -> None:
        if is_first:
            _name_part(draft)
            shutil.rmtree(final, ignore_errors=True)
            _publish(draft, final)

    def make() -> None:
        draft.mkdir(parents=True, exist_ok=True)
        write(draft)

    try:
        for stage in (prepare, make, publish):
            _agreed(stage, final)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return is_first


def _agreed(stage: Callable[[], None], final: Path) -> None:
    failure: BaseException | None = None
    try:
        stage()
    except Exception as error:
        failure = error
    if any_rank(failure is not None):
        raise failure or OSError(f"{final.name} was not saved: another rank could not write its files")


def _name_part(draft: Path) -> None:
    """On several nodes each node's directory is one part of the checkpoint."""
    parts = int(os.environ.get("GROUP_WORLD_SIZE", "1"))
    if parts > 1:
        part = int(os.environ.get("GROUP_RANK", "0"))
        (draft / f"part-{part:05d}-of-{parts:05d}.json").write_text("{}\n")


def _publish(draft: Path, final: Path) -> None:
    files = 0
    for where, _, names in os.walk(draft):
        for name in names:
            _fsync(Path(where) / name)
        _fsync(Path(where))
        files += len(names)
    if files == 0 and draft.exists():
        raise OSError(f"{final.name} was not saved: nothing was written into the directory {draft}")
    try:
        draft.rename(final)
    except FileNotFoundError:
        if not final.exists():  # else another first rank of this node was quicker
            raise
    _fsync(final.parent)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- what is kept


def _steps(root: Path) -> list[tuple[int, Path]]:
    try:
        found = [(STEP_NAME.fullmatch(path.name), path) for path in root.iterdir()]
    except FileNotFoundError:
        return []
    return sorted((int(named.group(1)), path) for named, path in found if named)


def _remove_old(root: Path, keep: int, saved: Path) -> None:
    reporter = _process.reporter
    steps = _steps(root)
    if steps and steps[-1][1] != saved:
        _process.warn(
            "back", f"{saved.name} is lower than {steps[-1][1].name}, from which a job would resume; count on"
        )
    for step, path in steps[:-keep]:
        if path == saved:
            continue
        if _process.is_inside and (reporter is None or step not in reporter.committed):
            continue  # the worker may still be reading it
        # Renamed first, so that no half directory has a checkpoint's name.
        leaving = path.with_name(path.name + ".old")
        try:
            path.rename(leaving)
        except OSError:
            continue
        shutil.rmtree(leaving, ignore_errors=True)
