"""A job that brings 100,000 small files, submitted to a coordinator on this machine: the first time, again, and after
ten of them changed, beside rsync -a of the same files to a directory. Caches are warm on both sides."""
import os
import re
import shutil
import subprocess
import time

import harness
from tree_bench import CHANGED, FILES, change, make_tree

UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}


def bench_code(table, case):
    Submits(table, case).run()


class Submits:
    def __init__(self, table, case):
        self.table, self.case = table, case
        self.root = case.path("root")
        self.cluster = harness.Cluster(case).start()
        self.cluster.env["XDG_CACHE_HOME"] = case.path("cache")

    def submit(self):
        """(seconds, bytes sent) of a job that stays in the queue: no node has a GPU, or there is none."""
        begun = time.perf_counter()
        done = self.cluster.jobctl("submit", "--sync=" + self.root, "--devices", "gpu", "--queue-anyway", "-o", "name",
                                   "--", "true", timeout=600)
        took = time.perf_counter() - begun
        match = re.search(r"code: [\d,]+ files, .*; (?:sent ([\d.]+) (\w+) in|nothing changed)", done.stderr)
        assert match, done.stderr
        return took, float(match[1]) * UNITS[match[2]] if match[1] else 0.0

    def rsync(self):
        """The same of rsync; nothing where it is not installed."""
        if not shutil.which("rsync"):
            return None, None
        begun = time.perf_counter()
        done = subprocess.run(["rsync", "-a", "--delete", "--stats", self.root + "/", self.case.path("copy")],
                              check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={**os.environ, "LC_ALL": "C"})
        took = time.perf_counter() - begun
        return took, float(re.search(r"Total bytes sent: ([\d,]+)", done.stdout)[1].replace(",", ""))

    def compare(self, name):
        took, sent = self.submit()
        peer_took, peer_sent = self.rsync()
        for unit, value, peer in (("s", took, peer_took), ("MB", sent / 1e6, peer_sent and peer_sent / 1e6)):
            self.table.row(f"code: {name}", unit, [value], "reported", lambda *_: True, "rsync -a",
                           [peer] if peer is not None else None)
        return sent

    def run(self):
        make_tree(self.root)
        time.sleep(2.5)  # else the next snapshot would read again what was written just before the first
        self.compare(f"{FILES:,} files, first submit")
        assert self.compare("second submit") == 0
        change(self.root, 1)
        time.sleep(0.3)
        sent = self.compare(f"{CHANGED} files changed")
        assert 0 < sent < 30e6, sent
