"""A disk that fails under the real coordinator (injector.cc): chosen calls on chosen files fail while a job prints, reports
and saves. Nothing that was acknowledged may be lost: jobs, output, metrics, checkpoints. The coordinator may stop for
faults of the journal alone, and says why; what fails of one job holds up that job alone.

    faults_test.py                         the seeds of a test run, and each fault that once stopped the coordinator
    faults_test.py --seconds N [--hostile] [--seed FIRST]
                                           one seed after the other; --hostile: faults that do not pass, several at once
"""
import collections
import errno
import os
import random
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import harness  # noqa: E402
from harness import OVER, SUCCEEDED, Case, wait_until  # noqa: E402

import hunt  # noqa: E402
import trainer  # noqa: E402

INJECTOR = os.path.join(harness.BIN, "tests", "libmuster_faults.so")
COORDINATOR = os.path.join(harness.BIN, "muster-coordinator")
RANKS, STEPS = 2, 30
PATIENCE_S = 6  # with a job that may wait for as long as the faults last
STEPS_OF_HUNT = 120  # so long that there are samples
COMMITTED = 2  # muster.v1.Checkpoint.State
JOURNAL = ("wal", "database")
# Without these it cannot start: what lies in the data directory itself, and where checkpoints go.
TO_START = (*JOURNAL, "other", "blob")

# Which calls on files of each class can fail, and after how many of them it becomes uninteresting.
CALLS = {
    "log": {"open": 10, "write": 40, "sync": 12, "mkdir": 6},
    "metric": {"open": 10, "read": 3, "write": 80, "sync": 8, "mkdir": 1},
    "sample": {"open": 4, "write": 4, "mkdir": 1},
    "blob": {"open": 8, "read": 2, "write": 1, "sync": 3, "rename": 1, "mkdir": 3},
    "wal": {"open": 4, "read": 40, "write": 140, "sync": 14, "truncate": 1},
    "database": {"open": 6, "read": 10, "write": 40, "sync": 4, "truncate": 2},
    "audit": {"open": 1, "write": 1, "sync": 1},
    "other": {"open": 20, "read": 1, "write": 15, "sync": 3, "rename": 2, "unlink": 2, "mkdir": 6},
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
    return choose_of(CALLS, random.Random(seed), hostile)


def choose_of(calls, draw, hostile):
    """One fault that passes, or several that do not."""
    faults = []
    for _ in range(draw.randint(1, 3) if hostile else 1):
        kind = draw.choice(sorted(calls))
        call = draw.choice(sorted(calls[kind]))
        faults.append(Fault(kind, call, draw.choice(ERRORS[call]), draw.randint(1, calls[kind][call]),
                            draw.choice((0, 20)) if hostile else draw.choice((1, 1, 2, 4))))
    return faults


def plan_of(faults, root, log):
    """The environment of a daemon whose files below `root` fail so."""
    return {"LD_PRELOAD": INJECTOR, "MUSTER_FAULT_ROOT": root, "MUSTER_FAULT_LOG": log,
            "MUSTER_FAULTS": ",".join(f"{f.kind}:{f.call}:{getattr(errno, f.error)}:{f.first}:{f.count}" for f in faults)}


def text_of(fault):
    much = "for good" if fault.count == 0 else f"{fault.count}x"
    return f"{fault.kind} {fault.call} {fault.error} at {fault.first}, {much}"


class Outcome:
    """What one run with faults came to."""

    def __init__(self, faults):
        self.faults, self.hits, self.met, self.stopped, self.lost = faults, 0, set(), "", []
        self.has_served = False

    def __str__(self):
        end = f"stopped: {self.stopped}" if self.stopped else "continued"
        lost = "; LOST: " + ", ".join(self.lost) if self.lost else ""
        return f"{' and '.join(map(text_of, self.faults))}: hit {self.hits}, {end}{lost}"


class FaultCase(Case):
    steps = STEPS

    def tell(self, outcome):
        print(outcome, file=sys.stderr, flush=True)

    def run_with(self, faults, name="c"):
        """A job under a coordinator whose disk has these faults, then one start without them; the Outcome."""
        outcome = Outcome(faults)
        cluster = harness.Cluster(self, name)
        data, log = os.path.join(cluster.directory, "data"), self.path(name + "-hits")
        clean = dict(cluster.coordinator.env)
        cluster.coordinator.env.update(plan_of(faults, data, log))
        job = self.under_faults(cluster, outcome)
        committed = self.committed(cluster, job) if job and cluster.coordinator.alive() else set()
        self.stop(cluster, outcome)
        if os.path.exists(log):
            with open(log) as file:
                lines = file.readlines()
            outcome.hits, outcome.met = len(lines), {tuple(line.split()[:2]) for line in lines}
        cluster.coordinator.env = clean
        self.verify(cluster, outcome, job, committed)
        self.tell(outcome)
        return outcome

    def under_faults(self, cluster, outcome):
        """Starts everything and waits until the job is over or the coordinator has stopped; the job, if it was taken."""
        cluster.coordinator.start()
        cluster.add_worker("node1", wait=False)
        job = self.submit(cluster)
        outcome.has_served = job is not None
        if job is None:
            return None
        end = time.monotonic() + PATIENCE_S
        while cluster.coordinator.alive() and time.monotonic() < end and not self.is_over(cluster, job):
            time.sleep(0.05)
        # What is delivered behind the job's end may meet a fault, too, and a stop takes a moment.
        end = time.monotonic() + 0.3
        while cluster.coordinator.alive() and time.monotonic() < end:
            time.sleep(0.05)
        return job

    def submit(self, cluster):
        """The job, or None: the coordinator has stopped, or refuses it for as long as the faults last."""
        command = ["submit", "-o", "name", "-n", RANKS, "--idempotency-key", "one", "--", harness.PYTHON, "-S",
                   os.path.join(HERE, "trainer.py"), self.steps]
        end = time.monotonic() + 3
        while cluster.coordinator.alive() and time.monotonic() < end:
            done = cluster.jobctl(*command, check=False)
            if done.returncode == 0:
                return done.stdout.strip()
            time.sleep(0.05)
        return None

    def is_over(self, cluster, job):
        record = self.record(cluster, job)
        return record is not None and record.state in OVER

    def committed(self, cluster, job):
        record = self.record(cluster, job)
        return {checkpoint.step for checkpoint in record.checkpoints if checkpoint.state == COMMITTED} if record else set()

    def record(self, cluster, job):
        """None while the coordinator does not answer, or cannot."""
        api = cluster.api
        try:
            return api.unary("GetJob", api.service.JobReference(job=str(job)), api.service.GetJobResponse, timeout=1).record
        except Exception:  # grpc.RpcError
            return None

    def note_stop(self, cluster, outcome):
        """The coordinator has exited: only faults of the journal justify that, and it must give one as the reason."""
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
        wanted = {rank: "".join(trainer.line(rank, number) for number in range(self.steps)) for rank in range(RANKS)}
        attempt = record.attempts[-1].number if record.attempts else 0

        def logs():
            return {key[1]: text.decode() for key, text in cluster.api.logs(job, attempt=attempt)[0].items() if key[2] == 1}
        try:
            wait_until(lambda: logs() == wanted, "output")
        except AssertionError:
            outcome.lost.append(f"output: {[(rank, len(text), len(wanted[rank])) for rank, text in logs().items()]}")
        points = {(rank, step) for rank in range(RANKS) for step in range(self.steps)}

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
        [Fault("wal", "write", "EDQUOT", 120, 1), Fault("log", "mkdir", "EMLINK", 1, 1), Fault("metric", "open", "ELOOP", 1, 1)],
    ]
    SEEDS = (4, 8, 9, 14, 18, 32, 37, 39)

    def test_what_fails_of_one_job_stops_nothing_and_loses_nothing(self):
        for number, faults in enumerate(self.OF_ONE_JOB):
            with self.subTest(faults=faults):
                outcome = self.run_with(faults, f"o{number}")
                self.assertEqual(outcome.met, {(fault.kind, fault.call) for fault in faults})
                self.assertEqual((outcome.stopped, outcome.lost), ("", []))

    def test_the_journals_sync_stops_it_with_a_reason_and_loses_nothing(self):
        for number, error in enumerate(("EIO", "ENOSPC", "EDQUOT")):
            with self.subTest(error=error):
                outcome = self.run_with([Fault("wal", "sync", error, 5 + number, 1)], f"j{number}")
                self.assertIn("JC1602", outcome.stopped)
                self.assertEqual(outcome.lost, [])

    def test_seeds(self):
        for seed in self.SEEDS:
            with self.subTest(seed=seed):
                self.judge(self.run_with(choose(seed, hostile=seed % 2 == 0), f"s{seed}"))

    def judge(self, outcome):
        self.assertEqual(outcome.lost, [], outcome)
        if outcome.stopped:
            may = JOURNAL if outcome.has_served else TO_START
            self.assertTrue(any(kind in may for kind, _ in outcome.met), outcome)


class Hunt:
    """Runs of seeds, and what they came to."""
    runs_with_a_stop = hits = 0

    def run(self, seed, hostile):
        case = Faults()
        case.steps = STEPS_OF_HUNT
        case.setUp()
        try:
            outcome = case.run_with(choose(seed, hostile))
            self.hits += outcome.hits
            self.runs_with_a_stop += bool(outcome.stopped)
            case.judge(outcome)
        finally:
            case.doCleanups()

    def said(self):
        return f", {self.hits} calls failed, the coordinator stopped in {self.runs_with_a_stop} of them"


if __name__ == "__main__":
    hunts = Hunt()
    hunt.main(hunts.run, hunts.said)
