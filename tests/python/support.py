"""What the tests of the Python package share: a worker's side of the trainer socket, and scripts in processes of their
own, because a process is a rank once and for all."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from free_port import free_port  # noqa: E402, F401: for the tests, too

PACKAGE = os.path.join(ROOT, "python", "src")
DEADLINE_S = 30.0


def wait_until(condition, what, deadline_s=DEADLINE_S):
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what() if callable(what) else what}")
        time.sleep(0.005)
    return value


class FakeWorker:
    """Listens as a worker does; remembers every line, and what a worker would have kept of the metrics."""

    def __init__(self, path, reads=True, acknowledges=True):
        self.path, self.reads, self.acknowledges = path, reads, acknowledges
        self.lines = []  # of all connections
        self.points = []  # (name, step, value), each batch once
        self.seq = 0
        self.connections = []
        self.serving = []  # (process, thread) of each connection
        self.refused = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            if self.reads:
                pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                serving = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self.serving.append((pid, serving))
                serving.start()

    def hear_out(self, pid):
        """Until everything is read that a process said, which has ended: it may have said that a moment ago."""
        if not self.reads or self._listener.fileno() < 0:
            return
        with socket.socket(socket.AF_UNIX) as last:  # accepted after all of the process
            accepted = len(self.serving)
            last.connect(self.path)
            wait_until(lambda: any(by == os.getpid() for by, _ in self.serving[accepted:]), "a connection is accepted")
        for by, serving in list(self.serving):
            if by == pid:
                serving.join(DEADLINE_S)

    def _serve(self, connection):
        try:
            with connection.makefile("rb") as lines:
                for line in lines:
                    self._on_line(connection, json.loads(line))
        except (OSError, ValueError):
            pass

    def _on_line(self, connection, message):
        self.lines.append(message)
        if message["type"] == "hello":
            self.answer(connection, type="welcome", version=1, metrics_seq=self.seq)
        if message["type"] == "metrics" and self.acknowledges:
            if message["seq"] > self.seq + 1:
                self.refused.append(message["seq"])
                self.answer(connection, type="error", message=f"{self.seq + 1} was expected")
                return
            if message["seq"] == self.seq + 1:
                self.seq += 1
                self.points += [(point["name"], point["step"], point["value"]) for point in message["points"]]
            self.answer(connection, type="ack", metrics_seq=self.seq)

    @staticmethod
    def answer(connection, **message):
        try:
            connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass

    def tell(self, **message):
        for connection in self.connections:
            self.answer(connection, **message)

    def of(self, kind):
        return [line for line in list(self.lines) if line["type"] == kind]

    def drop_connections(self):
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()
        self.connections = []

    def close(self):
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.drop_connections()
        if os.path.exists(self.path):
            os.unlink(self.path)


class Case(unittest.TestCase):
    """A test with its own directory and worker's socket."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mp", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.socket = self.path("worker.sock")
        self.workers = []

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def worker(self, **options):
        worker = FakeWorker(self.socket, **options)
        self.addCleanup(worker.close)
        self.workers.append(worker)
        return worker

    def environment(self, inside=True, **more):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("MUSTER_", "JOBCTL_")) and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
        env.update(PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
        if inside:
            env.update(MUSTER_SOCKET=self.socket, MUSTER_JOB_ID="42", MUSTER_ATTEMPT="1", RANK="3", LOCAL_RANK="0")
        env.update({name: str(value) for name, value in more.items()})
        return env

    def start(self, script, inside=True, python=sys.executable, **env):
        """A script in a separate process, as a rank (or not)."""
        file = self.path(f"script{time.monotonic_ns()}.py")
        with open(file, "w") as out:
            out.write(textwrap.dedent(script))
        process = subprocess.Popen([python, file], env=self.environment(inside, **env), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def run_script(self, script, inside=True, check=True, **env):
        """(stdout, stderr) of a script that has ended."""
        process = self.start(script, inside, **env)
        out, err = process.communicate(timeout=120)
        for worker in self.workers:
            worker.hear_out(process.pid)
        if check:
            self.assertEqual(process.returncode, 0, out + err)
        return out, err


def need(condition, reason):
    """Reports SKIPPED, never passed, where the machine lacks what a test needs."""
    if not condition:
        raise unittest.SkipTest("SKIPPED: " + reason)


def main():
    """Exits with 77 if every test was skipped, so that ctest reports Skipped and not Passed."""
    result = unittest.main(exit=False, verbosity=2).result
    if result.testsRun and len(result.skipped) == result.testsRun and result.wasSuccessful():
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)
