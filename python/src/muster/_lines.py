"""The trainer's half of the trainer socket as values (docs/protocol.md): what is sent, in which order, until when it is
kept. No socket, no thread, no clock."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from muster._numbers import json_number
from muster._version import VERSION

LINE_BYTES_MAX = 1 << 20
BATCH_POINTS_MAX = 1_000  # a point has at most some 900 bytes as JSON: below 1 MiB per line
OUTPUT_BYTES_MAX = 256 << 10  # nothing more is encoded while this much is unsent
# limit: Python package: unacknowledged batches, of 1,000 points at most; further points wait
UNACKNOWLEDGED_MAX = 64  # batches


Point = tuple[str, int, float, int]  # name, step, value, Unix milliseconds


def encode(message: dict[str, Any]) -> bytes:
    """A line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def hello(job: int, attempt: int, rank: int, pid: int, token: str) -> bytes:
    """The first line of a connection."""
    message: dict[str, Any] = {
        "type": "hello",
        "version": 1,
        "job": job,
        "attempt": attempt,
        "rank": rank,
        "pid": pid,
        "client": f"muster-python/{VERSION}",
    }
    if token:
        message["token"] = token
    return encode(message)


def metrics(seq: int, points: list[Point]) -> bytes:
    """A batch."""
    return encode(
        {
            "type": "metrics",
            "seq": seq,
            "points": [
                {"name": name, "step": step, "value": json_number(value), "time_ms": time_ms}
                for name, step, value, time_ms in points
            ],
        }
    )


class Outbox:
    """Numbers batches, keeps them until they are acknowledged, and sends them again on a new connection.

    `points` may be appended to by any thread; everything else belongs to one.
    """

    def __init__(self) -> None:
        self.points: deque[Point] = deque()
        self.progress: tuple[int, int] | None = None
        self.hints: deque[int] = deque(maxlen=16)
        self.dropped = 0
        self._sent_progress: tuple[int, int] | None = None
        self._sent_dropped = 0
        self._unacknowledged: deque[tuple[int, list[Point]]] = deque()
        self._next_seq = 1
        self._welcomed = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not (
            self.points or self.hints or self.progress != self._sent_progress or self.dropped != self._sent_dropped
        )

    @property
    def awaits(self) -> bool:
        """Whether something that was sent is not acknowledged yet."""
        return bool(self._unacknowledged)

    def on_connect(self) -> None:
        """A new connection knows nothing of what was told on an earlier one."""
        self._welcomed = False
        self._sent_progress = None
        self._sent_dropped = 0

    def on_welcome(self, metrics_seq: int) -> bytes:
        """The lines to send again: batches that the worker does not have, numbered on from what it has."""
        self.on_acknowledged(metrics_seq)
        again = [points for _, points in self._unacknowledged]
        self._unacknowledged.clear()
        self._next_seq = max(metrics_seq, 0) + 1
        self._welcomed = True
        return b"".join(self._batch(points) for points in again)

    def on_acknowledged(self, metrics_seq: int) -> None:
        """Batches up to this one survive a crash of the worker."""
        while self._unacknowledged and self._unacknowledged[0][0] <= metrics_seq:
            self._unacknowledged.popleft()

    def take(self) -> bytes:
        """The next lines; nothing before the worker's welcome."""
        if not self._welcomed:
            return b""
        lines = []
        size = 0
        while self.points and size < OUTPUT_BYTES_MAX:
            if len(self._unacknowledged) >= UNACKNOWLEDGED_MAX:
                break
            points: list[Point] = []
            while self.points and len(points) < BATCH_POINTS_MAX:
                points.append(self.points.popleft())
            lines.append(self._batch(points))
            size += len(lines[-1])
        if self.progress is not None and self.progress != self._sent_progress:
            self._sent_progress = self.progress
            step, total = self._sent_progress
            lines.append(encode({"type": "progress", "step": step, "total": total}))
        while self.hints:
            lines.append(encode({"type": "checkpoint", "step": self.hints.popleft()}))
        if self.dropped != self._sent_dropped:
            self._sent_dropped = self.dropped
            lines.append(encode({"type": "dropped", "metrics": self._sent_dropped}))
        return b"".join(lines)

    def _batch(self, points: list[Point]) -> bytes:
        seq = self._next_seq
        self._next_seq += 1
        self._unacknowledged.append((seq, points))
        return metrics(seq, points)


def decode(line: bytes) -> dict[str, Any]:
    """A line of the worker; {} if it is not one that this version understands."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def integer(message: dict[str, Any], key: str, otherwise: int) -> int:
    """An integer of a message."""
    value = message.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
