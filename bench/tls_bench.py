"""What TLS with client certificates costs against plaintext TCP: submits, launching, output; and honest submits while
strangers keep connections half open and flood the port. Both coordinators run at the same time, measured in turns."""
import json
import os
import socket
import subprocess
import threading
import time

import enroll_test
import harness
from harness import JOBCTL

LOG_LINES = 3_000_000  # of 100 bytes


class TlsStage(enroll_test.EnrollCase):
    def runTest(self):
        pass

    def __enter__(self):
        self.setUp()
        return self

    def __exit__(self, *exception):
        self.doCleanups()

    def plaintext(self):
        """A coordinator on a TCP port, its worker and jobctl over TCP too."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        cluster = harness.Cluster(self, "plain", ("--listen", address, "--insecure-plaintext")).start()
        cluster.add_worker("node1", coordinator=address)
        cluster.env["JOBCTL_SERVER"] = address
        return cluster.env, address, None

    def encrypted(self):
        """The same with identities: a person's environment, where gRPC is, the person's credentials."""
        cluster = self.secured()
        done = self.join(self.token(cluster, "worker"), "node1")
        assert done.returncode == 0, done.stderr
        self.start_worker(cluster, "node1")
        person = self.person(cluster, "alice")
        with open(person.credentials) as file:
            endpoint = next(line.split(": ", 1)[1].strip() for line in file if line.startswith("endpoint: "))
        return person.env, endpoint if not endpoint.startswith(":") else "127.0.0.1" + endpoint, person.credentials


def bench_tls(table, in_turns, timed):
    load = os.path.join(harness.BIN, "bench", "bench_submit")
    writer = os.path.join(harness.BIN, "bench", "bench_writer")

    def submits(side, count, window):
        _, endpoint, credentials = side
        done = subprocess.run([load, endpoint, str(count), str(window), *([credentials] if credentials else [])],
                              check=True, capture_output=True, text=True, timeout=300)
        return json.loads(done.stdout)

    def launch(side):
        return timed([JOBCTL, "run", "-n", "2", "--", "true"], side[0]) * 1000

    def log(side):
        env = side[0]
        started = time.perf_counter()
        job = subprocess.run([JOBCTL, "submit", "-o", "name", "--", writer, str(LOG_LINES)], env=env, check=True,
                             capture_output=True, text=True).stdout.strip()
        follower = subprocess.Popen([JOBCTL, "logs", "-f", "--raw", job], env=env, stdout=subprocess.PIPE)
        size = int(subprocess.run(["wc", "-c"], stdin=follower.stdout, capture_output=True, check=True).stdout)
        follower.wait()
        took = time.perf_counter() - started
        assert size == LOG_LINES * 100, size
        subprocess.run([JOBCTL, "rm", job, "--yes"], env=env, check=True, capture_output=True)
        return size / took / 1e6

    with TlsStage() as stage:
        tls, plain = stage.encrypted(), stage.plaintext()
        launched = in_turns(9, lambda: launch(tls), lambda: launch(plain))
        logged = in_turns(3, lambda: log(tls), lambda: log(plain))
        piped = in_turns(3, lambda: submits(tls, 5000, 512)["rate"], lambda: submits(plain, 5000, 512)["rate"])
        single = in_turns(3, lambda: submits(tls, 500, 1)["p50_ms"], lambda: submits(plain, 500, 1)["p50_ms"])
        table.row("TLS: launch, 2 ranks", "ms", launched[0], "reported", lambda a, b: True, "plaintext", launched[1])
        table.row("TLS: output to the client", "MB/s", logged[0], "reported", lambda a, b: True, "plaintext", logged[1])
        table.row("TLS: submits/s, piped", "/s", piped[0], "reported", lambda a, b: True, "plaintext", piped[1])
        table.row("TLS: submit, one by one", "ms", single[0], "reported", lambda a, b: True, "plaintext", single[1])
        quiet = [submits(tls, 500, 1)["p99_ms"] for _ in range(3)]
        with strangers(tls[1]):
            busy = [submits(tls, 500, 1)["p99_ms"] for _ in range(3)]
        table.row("submit p99 under a flood", "ms", busy, "≤ 2 × quiet", lambda a, b: a <= 2 * b, "quiet", quiet)


class strangers:
    """1,000 connections that never finish their handshake, and one after another that sends garbage."""

    def __init__(self, endpoint):
        host, port = endpoint.split(":")
        self.where, self.stop, self.silent = (host, int(port)), threading.Event(), []

    def __enter__(self):
        for number in range(1000):
            each = socket.create_connection(self.where)
            each.sendall(b"\x16" if number % 2 else bytes.fromhex("1603010200"))
            self.silent.append(each)
        self.flood = threading.Thread(target=self.send_garbage)
        self.flood.start()

    def send_garbage(self):
        while not self.stop.is_set():
            try:
                with socket.create_connection(self.where, timeout=10) as each:
                    each.sendall(bytes.fromhex("1603014000") + os.urandom(2000))
            except OSError:
                pass
            self.stop.wait(0.002)  # the flood shares these processors: its own work is not what is measured

    def __exit__(self, *exception):
        self.stop.set()
        self.flood.join()
        for each in self.silent:
            each.close()
