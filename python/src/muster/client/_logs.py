"""Lines from the pieces of ranks' streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from muster.client import _api
from muster.client._values import LogLine

LINE_BYTES_MAX = 1 << 20  # a longer one is returned in parts


def lines_of(records: Iterable[Any]) -> Iterator[LogLine]:
    """Of LogRecords. A stream's last line needs no newline."""
    unfinished: dict[tuple[int, int, int], tuple[bytes, Any]] = {}
    for record in records:
        if record.notice:
            yield _line(record, record.notice.encode(), "notice")
        key = (record.attempt, record.rank, record.stream)
        held = unfinished.pop(key, (b"", None))[0]
        if record.dropped:
            if held:
                yield _line(record, held)
            held = b""
            yield _line(record, f"{record.dropped} bytes of output were dropped here".encode(), "notice")
        *whole, rest = (held + record.data).split(b"\n")
        for line in whole:
            yield _line(record, line)
        if len(rest) > LINE_BYTES_MAX or (rest and record.end):
            yield _line(record, rest)
        elif rest:
            unfinished[key] = (rest, record)
    for rest, record in unfinished.values():
        yield _line(record, rest)


def _line(record: Any, text: bytes, stream: str = "") -> LogLine:
    return LogLine(
        text=text.rstrip(b"\r").decode(errors="replace"),
        rank=record.rank,
        stream=stream or _api.enum_name("LogStream", record.stream).lower(),
        attempt=record.attempt,
        node=record.node,
        time=record.time_us / 1e6,
    )
