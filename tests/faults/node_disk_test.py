"""The disk of a node that fails while jobs run there: full to the last byte for a moment, at every stage of a job (its code
is fetched and set up, its ranks start, print, report and save), or with calls of the worker that fail (injector.cc). No
daemon exits, a job that succeeds has delivered everything, one that fails has a reason, and once the disk works again,
everything continues.

    node_disk_test.py                      the moments and faults of a test run
    node_disk_test.py --seconds N [--hostile] [--seed FIRST]
                                           a moment and a fault by chance, one pair after the other
"""
import concurrent.futures
import ctypes
import errno
import glob
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import harness  # noqa: E402
from harness import OVER, SUCCEEDED, Case, need, wait_until  # noqa: E402

import faults_test  # noqa: E402
import hunt  # noqa: E402
import trainer  # noqa: E402
from faults_test import Fault  # noqa: E402

DISK_BYTES = 400 << 20  # the code of jobs wants 256 MB to stay free; a tmpfs takes what is used
CODE_FILES, CODE_FILE_BYTES = 100, 100_000
RANKS, STEPS = 2, 40
# What a job has come to, by the files of its node that are there then.
STAGES = {
    "submitted": "",
    "its code is fetched": "code/new/*",
    "its setup runs": "code/setups/*/dir/half",
    "it is launched": "attempts/*/launch.pb",
    "its ranks print": "attempts/*/spool/rank-1.stdout",
    "it saves": "attempts/*/checkpoints/step-*",
}
LATER_S, LONGEST_S = 0.1, 1.5  # than a stage; at most
SAYS_SO = ("No space left", "disk is full", "full disk", "free space", "bytes are free")
MS_REMOUNT = 32
# Calls of the worker on files of each class, and after how many of them one becomes uninteresting.
CALLS = {
    "spool": {"open": 12, "read": 30},
    "points": {"open": 8, "read": 10, "write": 60, "truncate": 2, "rename": 6},
    "save": {"open": 6, "read": 4, "write": 2, "sync": 4, "rename": 2, "mkdir": 2},
    "attempt": {"open": 20, "read": 10, "write": 8, "sync": 6, "rename": 4, "mkdir": 10, "unlink": 6},
    "code": {"open": 150, "read": 60, "write": 100, "sync": 10, "rename": 6, "mkdir": 6, "unlink": 10},
}
PATIENCE_S = 2  # with a job that may wait for as long as the faults last
libc = ctypes.CDLL(None, use_errno=True)


class NodeCase(Case):
    """A cluster of one node, whose state directory is `disk`."""

    def setUp(self):
        super().setUp()
        self.one = harness.Cluster(self)
        self.disk = os.path.join(self.one.directory, "w-node1")
        os.makedirs(self.disk)
        self.code = self.path("code")
        self.number = 0
        self.background = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(self.background.shutdown)

    def submit(self):
        """A job that brings code of its own, has a setup, prints, reports and saves."""
        self.number += 1
        os.makedirs(self.code, exist_ok=True)
        draw = random.Random(self.number)
        for index in range(CODE_FILES):
            with open(f"{self.code}/data-{index}", "wb") as file:
                file.write(draw.randbytes(CODE_FILE_BYTES))
        with open(self.code + "/job.yaml", "w") as file:
            file.write(f"""command: ["{harness.PYTHON}", "-S", "{HERE}/trainer.py", "{STEPS}"]
resources: {{processes: {RANKS}}}
logs: block
restarts: 3
workdir: {self.code}
sync: true
setup: "cp data-0 $MUSTER_SETUP_DIR/half; sleep 0.1; cp data-1 $MUSTER_SETUP_DIR/whole"
""")
        return self.one.jobctl("submit", "-o", "name", self.code + "/job.yaml").stdout.strip()

    def check_all_of(self, job):
        record = self.one.api.record(job)
        attempt = record.attempts[-1].number
        wanted = {rank: "".join(trainer.line(rank, number) for number in range(STEPS)) for rank in range(RANKS)}
        wait_until(lambda: {key[1]: text.decode() for key, text in self.one.api.logs(job, attempt=attempt)[0].items()
                            if key[2] == 1} == wanted, f"the output of {job}, exactly")
        points = sorted((rank, step) for rank in range(RANKS) for step in range(STEPS))
        wait_until(lambda: sorted((rank, step) for name, step, _, of, rank, _ in self.one.api.metrics(job)
                                  if name == "loss" and of == attempt) == points, f"the metrics of {job}, each once")

    def judge(self, what, job, reasons):
        """The disk is well again: the job ends, and the next one succeeds."""
        record = self.one.wait_over(job)
        text = "; ".join([record.reason, *(attempt.reason for attempt in record.attempts)])
        print(f"{what}: {len(record.attempts)} attempts, {text}", file=sys.stderr, flush=True)
        self.assertTrue(self.one.coordinator.alive() and self.one.workers["node1"].alive(), text)
        if record.state == SUCCEEDED:
            self.check_all_of(job)
        else:
            self.assertTrue(any(words in text for words in reasons), text)
        after = self.submit()
        self.assertEqual(self.one.wait_over(after).state, SUCCEEDED, self.one.api.record(after).reason)
        self.check_all_of(after)
        return record


class FullDisk(NodeCase):
    def setUp(self):
        super().setUp()
        need(os.geteuid() == 0, "needs root to mount a tmpfs")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "none", self.disk],
                              capture_output=True)
        need(done.returncode == 0, "cannot mount a tmpfs here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], capture_output=True)
        self.one.start()
        self.one.add_worker("node1")

    def resize(self, size):
        return libc.mount(b"none", self.disk.encode(), b"tmpfs", MS_REMOUNT, f"size={size}".encode()) == 0

    def fill(self):
        """Makes the disk as large as what is on it, at once; what grows meanwhile is looked at again."""
        def is_full():
            disk = os.statvfs(self.disk)
            return self.resize((disk.f_blocks - disk.f_bfree) * disk.f_frsize)
        wait_until(is_full, "the disk is full")

    def submit_until_seen(self, stage):
        """The submit of a job that has come so far. A stage may be over before anybody looks: then with another one."""
        place = f"{self.disk}/{STAGES[stage]}"
        for _ in range(20):
            before = set(glob.glob(place))
            submitted = self.background.submit(self.submit)
            while not submitted.done() or not self.one.api.record(submitted.result()).state in OVER:
                if set(glob.glob(place)) - before:
                    return submitted
        raise AssertionError(f"no job was seen while {stage}")

    def run_with(self, stage, later, length):
        submitted = self.submit_until_seen(stage) if STAGES[stage] else None
        job = None if submitted else self.submit()
        time.sleep(later)
        self.fill()
        time.sleep(length)
        self.assertTrue(self.resize(DISK_BYTES))
        job = job or submitted.result()
        self.judge(f"{stage}, {later * 1000:.0f} ms later full for {length:.2f} s", job, SAYS_SO)

    def run_by_chance(self, draw, hostile):
        self.run_with(draw.choice(sorted(STAGES)), draw.uniform(0, LATER_S), draw.uniform(0.05, LONGEST_S))

    def test_a_disk_that_is_full_for_a_moment_costs_nothing_but_that_moment(self):
        for stage in ("its code is fetched", "it is launched", "its ranks print"):
            with self.subTest(stage=stage):
                self.run_with(stage, 0, 0.4)


class FailingDisk(NodeCase):
    def run_with(self, faults):
        """A job under a worker whose calls fail so; then the worker restarts, on a disk that works."""
        log = self.path("hits")
        self.one.start()
        worker = self.one.add_worker("node1")
        worker.stop()
        clean = dict(worker.env)
        worker.env.update(faults_test.plan_of(faults, self.disk, log))
        worker.start()
        job = self.submit()
        end = time.monotonic() + PATIENCE_S
        while worker.alive() and time.monotonic() < end and self.one.api.record(job).state not in OVER:
            time.sleep(0.05)
        self.assertTrue(worker.alive(), f"{faults}: {worker.output()[-2000:]}")
        worker.stop()
        worker.env = clean
        worker.start()
        hits = 0
        if os.path.exists(log):
            with open(log) as file:
                hits = len(file.readlines())
        return self.judge(" and ".join(map(faults_test.text_of, faults)) + f", hit {hits}", job,
                          [os.strerror(getattr(errno, fault.error)) for fault in faults])

    def run_by_chance(self, draw, hostile):
        self.run_with(faults_test.choose_of(CALLS, draw, hostile))

    def test_output_and_metrics_that_cannot_be_read_or_kept_for_a_moment_are_not_lost(self):
        self.run_with([Fault("spool", "open", "ENOTDIR", 5, 4), Fault("spool", "read", "EIO", 9, 2),
                       Fault("points", "read", "EIO", 3, 2), Fault("points", "write", "EIO", 20, 2)])

    def test_metrics_that_were_taken_are_known_after_a_restart_whose_disk_was_full(self):
        self.run_with([Fault("points", "write", "ENOSPC", 42, 0)])

    def test_a_node_whose_disk_fails_at_the_launch_takes_no_job_with_it(self):
        self.assertEqual(self.run_with([Fault("attempt", "mkdir", "EMLINK", 9, 2)]).state, SUCCEEDED)


def run(seed, hostile):
    draw = random.Random(seed)
    for case in (FullDisk(), FailingDisk()):
        case.setUp()
        try:
            case.run_by_chance(draw, hostile)
        finally:
            case.doCleanups()


if __name__ == "__main__":
    hunt.main(run)
