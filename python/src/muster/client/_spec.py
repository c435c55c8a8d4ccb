"""A job as Client.submit describes it, as a JobSpec."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from muster.client import _api

Nodes = Union[int, "tuple[int, int]"]
StrPath = Union[str, "os.PathLike[str]"]


NUMBER_MAX = 2**31 - 1


def whole(name: str, value: int, least: int = 0) -> int:
    """The value of an argument that is a whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= NUMBER_MAX:
        raise ValueError(f"{name} is {value!r}; pass a whole number from {least}")
    return value


def milliseconds(name: str, value: float) -> int:
    """The value of an argument in seconds, as the protocol has it; at least 1."""
    if not 0 <= value <= NUMBER_MAX:  # also NaN
        raise ValueError(f"{name} is {value!r}; pass seconds from 0")
    return max(1, int(value * 1000))


def shape(processes: int | None, nodes: Nodes | None, per_node: int | None, devices: str | None) -> Any:
    """How many ranks on which devices."""
    if processes is not None and per_node is not None:
        raise ValueError("processes is a total and per_node the ranks of each node: give one of them")
    for name, value in (("processes", processes), ("per_node", per_node)):
        if value is not None:
            whole(name, value, least=1)
    for value in nodes if isinstance(nodes, tuple) else (nodes,):
        if value is not None:
            whole("nodes", value, least=1)
    built = _api.message("Shape")()
    least, most = nodes if isinstance(nodes, tuple) else (nodes or 0, nodes or 0)
    built.min_nodes, built.max_nodes = least, most
    if per_node is not None:
        built.per_node = per_node
        if nodes is None:
            built.min_nodes = built.max_nodes = 1
    else:
        built.processes = processes if processes is not None else max(1, least)
    if devices is not None:
        kind, _, count = devices.partition(":")
        built.device.kind = kind
        if count and not count.isdecimal():
            raise ValueError(f'devices is {devices!r}; pass a kind and how many of it each rank gets, like "gpu:2"')
        if count:
            built.device.count_per_rank = whole("the number of devices", int(count), least=1)
    return built


def spec(
    command: Sequence[str],
    shaped: Any,
    *,
    env: Mapping[str, str],
    workdir: StrPath | None,
    labels: Mapping[str, str] | None,
    secrets: Sequence[str],
    grace: float | None,
    time_limit: float | None,
    estimate: float | None,
    **fields: Any,
) -> Any:
    """The whole JobSpec; `fields` are its own."""
    if isinstance(command, str) or not command:
        raise TypeError(f'command is {command!r}; pass a list of arguments, like ["python", "train.py"]')
    built = _api.message("JobSpec")(**{name: value for name, value in fields.items() if value is not None})
    built.command.extend(os.fspath(word) for word in command)
    built.shape.CopyFrom(shaped)
    built.workdir = str(Path(workdir or ".").absolute())
    for name, text in env.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"env has {name!r}: {text!r}; pass strings")
    built.env.update(env)
    built.labels.update(labels or {})
    built.secrets.extend(secrets)
    if grace is not None:
        built.grace_ms = milliseconds("grace", grace)
    if time_limit is not None:
        built.max_duration_ms = milliseconds("time_limit", time_limit)
    if estimate is not None:
        built.estimate_ms = 0 if estimate == 0 else milliseconds("estimate", estimate)
    return built
