"""One daemon thread that speaks to the local worker over the trainer socket.

The training thread only appends to a queue and reads flags. Nothing that the worker does or fails to do can block it:
what the queue cannot hold is dropped and counted.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from typing import NamedTuple

from muster import _lines
from muster._lines import Outbox, Point

# limit: Python package: queued points; further ones are dropped and counted
QUEUED_POINTS_MAX = 65_536
FLUSH_S = 0.1  # how long points are collected before they are sent
# limit: Python package: how long the end of a process waits for the last acknowledgment; given up
CLOSE_S = 2.0  # how long the end of the process waits for the last acknowledgment
RECONNECT_FIRST_S = 0.05
RECONNECT_MOST_S = 1.0
SILENCE_S = 5.0  # without an acknowledgment; then it reconnects
TOKEN_BYTES_MAX = 4_096
ERRORS_SHOWN_MAX = 10
COMMITTED_MAX = 10_000


class Place(NamedTuple):
    """Which rank this is, and where its worker listens."""

    socket: str
    token_file: str
    job: int
    attempt: int
    rank: int


class Reporter:
    """The connection of this process. `add`, `progress`, `hint`: any thread, never blocks."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.stop_reason: str | None = None
        self.checkpoint_is_requested = False
        self.committed: set[int] = set()
        self._outbox = Outbox()
        self._drops = threading.Lock()  # guards the count of what did not fit
        self._closing = False
        self._close_by = 0.0
        self._idle = False
        self._socket: socket.socket | None = None
        self._input = b""
        self._output = bytearray()
        self._delay = RECONNECT_FIRST_S
        self._connect_at = 0.0
        self._heard_at = 0.0
        self._errors: set[str] = set()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._waker = select.poll()
        self._waker.register(self._wake_read, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="muster", daemon=True)

    def start(self) -> None:
        """Starts the thread with all signals blocked: they interrupt the training thread, which handles them."""
        before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    # ---- any thread

    def add(self, point: Point) -> None:
        """Queues a value of a metric, or drops and counts it."""
        outbox = self._outbox
        if len(outbox.points) >= QUEUED_POINTS_MAX:
            with self._drops:
                outbox.dropped += 1
            return
        outbox.points.append(point)
        if self._idle:
            self._wake()

    def progress(self, step: int, total: int) -> None:
        """The latest one wins."""
        self._outbox.progress = (step, total)
        if self._idle:
            self._wake()

    def hint(self, step: int) -> None:
        """`step-N` was renamed into place."""
        self._outbox.hints.append(step)
        self._wake()

    def close(self, within_s: float = CLOSE_S) -> None:
        """Sends what is queued, for so long at most."""
        self._close_by = time.monotonic() + within_s
        self._closing = True
        self._wake()
        self._thread.join(within_s + 0.5)

    def abandon(self) -> None:
        """In a forked child: closes the parent's descriptors. The thread does not exist there."""
        if self._socket is not None:
            self._socket.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _wake(self) -> None:
        self._idle = False
        with contextlib.suppress(OSError):  # full: it is awake
            os.write(self._wake_write, b"x")

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._is_finished():
                self._connect()
                self._send()
                self._wait()
                self._receive()
        except Exception as error:  # a bug here must not take training with it
            self._outbox.points.clear()
            if not sys.is_finalizing():
                print(f"muster: metrics are no longer sent: {error!r}", file=sys.stderr)
        finally:
            if self._socket is not None:
                self._socket.close()

    def _is_finished(self) -> bool:
        if not self._closing:
            return False
        if time.monotonic() >= self._close_by:
            return True
        return self._outbox.is_empty and not self._output and not self._outbox.awaits

    def _connect(self) -> None:
        if self._socket is not None or time.monotonic() < self._connect_at:
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            connection.connect(self.place.socket)
        except OSError:  # absent while a worker restarts, or its backlog is full
            connection.close()
            self._retry_later()
            return
        self._socket = connection
        self._input = b""
        self._outbox.on_connect()
        self._heard_at = time.monotonic()
        place = self.place
        greeting = _lines.hello(place.job, place.attempt, place.rank, os.getpid(), self._token())
        self._output = bytearray(greeting)

    def _token(self) -> str:
        if not self.place.token_file:
            return ""
        try:
            with open(self.place.token_file, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
                return file.read(TOKEN_BYTES_MAX).decode("ascii", "replace").strip()
        except OSError:
            return ""  # the worker answers what is missing

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._output.clear()
        self._retry_later()

    def _retry_later(self) -> None:
        self._connect_at = time.monotonic() + self._delay
        self._delay = min(2 * self._delay, RECONNECT_MOST_S)

    def _send(self) -> None:
        if self._socket is None:
            return
        if len(self._output) < _lines.OUTPUT_BYTES_MAX:
            self._output += self._outbox.take()
        try:
            while self._output:
                count = self._socket.send(self._output, socket.MSG_NOSIGNAL)
                del self._output[:count]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._disconnect()

    def _wait(self) -> None:
        """Until the worker speaks or reads, the queue is worth sending, or a deadline passes."""
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if self._socket is not None:
            wanted = select.POLLIN | (select.POLLOUT if self._output else 0)
            poll.register(self._socket.fileno(), wanted)
        timeout_s: float | None = FLUSH_S
        if self._closing:
            timeout_s = 0.01
        elif self._socket is None:
            timeout_s = max(0.0, self._connect_at - time.monotonic())
        elif not self._outbox.awaits:
            # In this order: what is added after the look sees the mark and wakes us.
            self._idle = True
            if self._outbox.is_empty:
                timeout_s = None
        poll.poll(None if timeout_s is None else int(timeout_s * 1000) + 1)
        self._idle = False
        try:
            os.read(self._wake_read, 4_096)
        except BlockingIOError:
            return
        # Woken by a first point: its neighbors are on their way.
        if timeout_s is None and not self._closing and not self._outbox.hints:
            self._waker.poll(int(FLUSH_S * 1000))

    def _receive(self) -> None:
        try:
            while self._socket is not None:
                piece = self._socket.recv(65_536)
                if not piece:
                    self._disconnect()
                    return
                *lines, self._input = (self._input + piece).split(b"\n")
                for line in lines:
                    self._on_line(_lines.decode(line))
                if len(self._input) > _lines.LINE_BYTES_MAX:
                    self._disconnect()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._disconnect()
        if self._outbox.awaits and time.monotonic() - self._heard_at > SILENCE_S:
            self._heard_at = time.monotonic()
            self._disconnect()

    def _on_line(self, message: dict[str, object]) -> None:
        kind = message.get("type")
        if kind == "welcome":
            self._delay = RECONNECT_FIRST_S
            self._heard_at = time.monotonic()
            self._output += self._outbox.on_welcome(_lines.integer(message, "metrics_seq", 0))
        elif kind == "ack":
            self._heard_at = time.monotonic()
            self._outbox.on_acknowledged(_lines.integer(message, "metrics_seq", 0))
        elif kind == "stop":
            self.stop_reason = str(message.get("reason") or "stopped")
        elif kind == "checkpoint_request":
            self.checkpoint_is_requested = True
        elif kind == "committed":
            step = _lines.integer(message, "step", -1)
            if step >= 0 and len(self.committed) < COMMITTED_MAX:
                self.committed.add(step)
        elif kind == "error":
            self._show(str(message.get("message")))

    def _show(self, text: str) -> None:
        if text not in self._errors and len(self._errors) < ERRORS_SHOWN_MAX:
            self._errors.add(text)
            print(
                f"muster: rank {self.place.rank}: the worker refused a line: {text}",
                file=sys.stderr,
            )
