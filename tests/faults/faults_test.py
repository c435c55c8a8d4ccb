"""A disk that fails under the real coordinator (injector.cc): chosen calls on chosen files fail while a job prints, reports
and saves. Nothing that was acknowledged may be lost: jobs, output, metrics, checkpoints. The coordinator may stop for
faults of the journal alone, and says why; what fails of one job holds up that job alone.

    faults_test.py                         the seeds of a test run, and each fault that once stopped the coordinator
    faults_test.py --seconds N [--hostile] [--seed FIRST]
                                           one seed after the other; --hostile: faults that do not pass, several at once
"""
import argparse
import collections
import errno
import os
import random
import re
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import harness  # noqa: E402
from harness import OVER, SUCCEEDED, Case, wait_until  # noqa: E402

import trainer  # noqa: E402

INJECTOR = os.path.join(harness.BIN, "tests", "libmuster_faults.so")
COORDINATOR = os.path.join(harness.BIN, "muster-coordinator")
RANKS, STEPS = 2, 30
COMMITTED = 2  # muster.v1.Checkpoint.State
JOURNAL = ("wal", "database")

# Which calls on files of each class can fail, and after how many of them it becomes uninteresting.
CALLS = {
    "log": {"open": 12, "read": 12, "write": 40, "sync": 20, "truncate": 3, "rename": 2, "mkdir": 2},
    "metric": {"open": 8, "read": 8, "write": 40, "sync": 20, "truncate": 2, "rename": 8, "mkdir": 2},
    "sample": {"open": 6, "read": 2, "write": 6, "mkdir": 2},
    "blob": {"open": 6, "read": 4, "write": 4, "sync": 4, "rename": 2, "unlink": 2, "mkdir": 2},
    "wal": {"open": 1, "write": 80, "sync": 40, "truncate": 1},
    "database": {"read": 8, "write": 8, "sync": 2},
    "audit": {"open": 2, "write": 2, "sync": 2},
    "other": {"open": 12, "write": 12, "sync": 4, "rename": 4},
}
# What such a call may say.
ERRORS = {
    "open": ("EIO", "EACCES", "ELOOP", "ENOTDIR", "ESTALE", "EMFILE", "ENOSPC"),
    "read": ("EIO", "ESTALE", "EISDIR"),
    "write": ("EIO", "ENOSPC", "EDQUOT", "ESTALE", "EROFS"),
    "sync": ("EIO", "ENOSPC", "EDQUOT"),
    "truncate": ("EIO", "EROFS"),
    "rename": ("EIO", "EACCES", "ENOSPC"),
    "unlink": ("EIO", "EACCES"),
    "mkdir": ("EIO", "EMLINK", "EACCES", "ENOSPC", "ENOTDIR"),
}

Fault = collections.namedtuple("Fault", "kind call error first count")


def choose(seed, hostile):
    """The faults of a seed: one that passes, or several that do not."""
    draw = random.Random(seed)
    faults = []
    for _ in range(draw.randint(1, 3) if hostile else 1):
        kind = draw.choice(sorted(CALLS))
        call = draw.choice(sorted(CALLS[kind]))
        faults.append(Fault(kind, call, draw.choice(ERRORS[call]), draw.randint(1, CALLS[kind][call]),
                            draw.choice((0, 20)) if hostile else draw.choice((1, 1, 2, 4))))
    return faults


def text_of(fault):
    much = "for good" if fault.count == 0 else f"{fault.count}x"
    return f"{fault.kind} {fault.call} {fault.error} at {fault.first}, {much}"


class Outcome:
    """What one run with faults came to."""

    def __init__(self, faults):
        self.faults, self.hits, self.stopped, self.lost = faults, 0, "", []

    def __str__(self):
        end = f"stopped: {self.stopped}" if self.stopped else "went on"
        lost = "; LOST: " + ", ".join(self.lost) if self.lost else ""
        return f"{' and '.join(map(text_of, self.faults))}: hit {self.hits}, {end}{lost}"


class FaultCase(Case):
    def tell(self, outcome):
        print(outcome, file=sys.stderr, flush=True)

    def run_with(self, faults, name="c"):
        """A job under a coordinator whose disk has these faults, then one start without them; the Outcome."""
        outcome = Outcome(faults)
        cluster = harness.Cluster(self, name)
        data, log = os.path.join(cluster.directory, "data"), self.path(name + "-hits")
        clean = dict(cluster.coordinator.env)
        cluster.coordinator.env.update({
            "LD_PRELOAD": INJECTOR, "MUSTER_FAULT_ROOT": data, "MUSTER_FAULT_LOG": log,
            "MUSTER_FAULTS": ",".join(f"{f.kind}:{f.call}:{getattr(errno, f.error)}:{f.first}:{f.count}" for f in faults)})
        job = self.under_faults(cluster, outcome)
        committed = self.committed(cluster, job) if job and cluster.coordinator.alive() else set()
        self.stop(cluster, outcome)
        if os.path.exists(log):
            with open(log) as file:
                outcome.hits = len(file.readlines())
        cluster.coordinator.env = clean
        self.verify(cluster, outcome, job, committed)
        self.tell(outcome)
        return outcome

    def under_faults(self, cluster, outcome):
        """Starts everything and waits until the job is over or the coordinator has stopped; the job, if it was taken."""
        cluster.coordinator.start()
        cluster.add_worker("node1", wait=False)
        job = self.submit(cluster)
        if job is None:
            return None
        wait_until(lambda: not cluster.coordinator.alive() or self.is_over(cluster, job), "the job is over or the coordinator")
        if cluster.coordinator.alive():
            # Whatever is delivered within a moment may meet a fault too.
            time.sleep(0.3)
        return job

    def submit(self, cluster):
        """The job, or None: the coordinator has stopped, or refuses it for as long as the faults last."""
        command = ["submit", "-o", "name", "-n", RANKS, "--idempotency-key", "one", "--", harness.PYTHON, "-S",
                   os.path.join(HERE, "trainer.py"), STEPS]
        end = time.monotonic() + 3
        while cluster.coordinator.alive() and time.monotonic() < end:
            done = cluster.jobctl(*command, check=False)
            if done.returncode == 0:
                return done.stdout.strip()
            time.sleep(0.05)
        return None

    def is_over(self, cluster, job):
        try:
            return cluster.api.record(job).state in OVER
        except Exception as error:  # grpc.RpcError: it may be stopping
            if cluster.coordinator.alive() and not re.search("UNAVAILABLE|CANCELLED|DEADLINE", str(error)):
                raise
            return False

    def committed(self, cluster, job):
        try:
            return {checkpoint.step for checkpoint in cluster.api.record(job).checkpoints
                    if checkpoint.state == COMMITTED}
        except Exception:  # grpc.RpcError: it has just stopped
            return set()

    def note_stop(self, cluster, outcome):
        """The coordinator has ended by itself: only the journal's faults are a reason, and it gives one."""
        text = cluster.coordinator.output()
        reason = re.findall(r"\[?(JC1\d\d\d)\]?:? ([^\n]*)", text)
        outcome.stopped = " ".join(reason[-1]) if reason else "WITHOUT A REASON: " + text[-300:]
        self.assertTrue(reason, f"{outcome}\n{text[-2000:]}")

    def stop(self, cluster, outcome):
        if cluster.coordinator.alive():
            cluster.coordinator.stop()
        elif not outcome.stopped:
            self.note_stop(cluster, outcome)

    def verify(self, cluster, outcome, job, committed):
        cluster.restart_coordinator()
        if job:
            self.look_for(cluster, outcome, job, committed)
        cluster.coordinator.stop()
        checked = subprocess.run([COORDINATOR, "check", "--data-dir", os.path.join(cluster.directory, "data")],
                                 env=cluster.coordinator.env, capture_output=True, text=True, timeout=60)
        if checked.returncode != 0:
            outcome.lost.append("check: " + (checked.stdout + checked.stderr)[-600:])
        for worker in cluster.workers.values():
            worker.stop()

    def look_for(self, cluster, outcome, job, committed):
        if job not in [str(each.id) for each in cluster.api.list()] + [each.name for each in cluster.api.list()]:
            outcome.lost.append(f"job {job}")
            return
        record = cluster.wait_over(job)
        if record.state != SUCCEEDED:
            outcome.lost.append(f"the job failed: {record.reason}")
        wanted = {rank: "".join(trainer.line(rank, number) for number in range(STEPS)) for rank in range(RANKS)}
        attempt = record.attempts[-1].number if record.attempts else 0

        def logs():
            return {key[1]: text.decode() for key, text in cluster.api.logs(job, attempt=attempt)[0].items() if key[2] == 1}
        try:
            wait_until(lambda: logs() == wanted, "output")
        except AssertionError:
            outcome.lost.append(f"output: {[(rank, len(text), len(wanted[rank])) for rank, text in logs().items()]}")
        points = {(rank, step) for rank in range(RANKS) for step in range(STEPS)}

        def metrics():
            return [(rank, step) for name, step, _, of, rank, _ in cluster.api.metrics(job)
                    if name == "loss" and of == attempt]
        try:
            wait_until(lambda: set(metrics()) == points, "metrics")
        except AssertionError:
            outcome.lost.append(f"metrics: {sorted(points - set(metrics()))[:5]}")
        if len(metrics()) != len(points):
            outcome.lost.append(f"metrics are there twice: {len(metrics())} of {len(points)}")
        gone = committed - self.committed(cluster, job)
        if gone:
            outcome.lost.append(f"checkpoints {gone}")


class Faults(FaultCase):
    # Each of them stopped the coordinator once.
    OF_ONE_JOB = [
        [Fault("log", "open", "EIO", 1, 0), Fault("metric", "open", "EACCES", 1, 0)],
        [Fault("log", "sync", "EIO", 2, 1), Fault("metric", "sync", "EDQUOT", 2, 1)],
        [Fault("log", "write", "ESTALE", 3, 2), Fault("metric", "sync", "ENOSPC", 3, 1), Fault("metric", "read", "EIO", 2, 1)],
        [Fault("wal", "write", "EDQUOT", 150, 1), Fault("log", "mkdir", "EMLINK", 1, 1), Fault("metric", "open", "ELOOP", 1, 1)],
    ]
    SEEDS = ()

    def test_what_fails_of_one_job_stops_nothing_and_loses_nothing(self):
        for number, faults in enumerate(self.OF_ONE_JOB):
            with self.subTest(faults=faults):
                outcome = self.run_with(faults, f"o{number}")
                self.assertGreaterEqual(outcome.hits, len(faults), "every fault is met")
                self.assertEqual((outcome.stopped, outcome.lost), ("", []))

    def test_the_journals_sync_stops_it_with_a_reason_and_loses_nothing(self):
        for number, error in enumerate(("EIO", "ENOSPC", "EDQUOT")):
            with self.subTest(error=error):
                outcome = self.run_with([Fault("wal", "sync", error, 6 + number, 1)], f"j{number}")
                self.assertIn("JC1602", outcome.stopped)
                self.assertEqual(outcome.lost, [])

    def test_seeds(self):
        for seed in self.SEEDS:
            with self.subTest(seed=seed):
                self.check(self.run_with(choose(seed, hostile=seed % 2 == 0), f"s{seed}"))

    def check(self, outcome):
        self.assertEqual(outcome.lost, [], outcome)
        if outcome.stopped:
            self.assertTrue(any(fault.kind in JOURNAL for fault in outcome.faults), outcome)


def hunt(seconds, seed, hostile):
    """One seed after the other; exit status 1 if a promise was broken."""
    case, end = Faults(), time.monotonic() + seconds
    hits = stops = runs = 0
    broken = []
    while time.monotonic() < end:
        faults = choose(seed, hostile)
        case.setUp()
        try:
            print(f"seed {seed}: ", end="", file=sys.stderr, flush=True)
            outcome = case.run_with(faults)
            hits, stops = hits + outcome.hits, stops + bool(outcome.stopped)
            case.check(outcome)
        except AssertionError as error:
            print(error, file=sys.stderr, flush=True)
            broken.append(seed)
        finally:
            case.doCleanups()
        runs, seed = runs + 1, seed + 1
    print(f"{runs} runs, {hits} calls failed, the coordinator stopped in {stops} of them, broken promises: "
          f"{', '.join(map(str, broken)) or 'none'}")
    return 1 if broken else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    parser.add_argument("--hostile", action="store_true")
    options, rest = parser.parse_known_args()
    if options.seconds is None:
        unittest.main(argv=[sys.argv[0], *rest])
    sys.exit(hunt(options.seconds, options.seed, options.hostile))


if __name__ == "__main__":
    main()
