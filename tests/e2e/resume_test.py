"""The full job under failures: a rank, the worker and the coordinator are killed in the middle of training real
digits, in C++ and in Python. The log is byte-exact, the loss curve continues from the checkpoint."""
import importlib.util
import os
import re
import signal

import harness
from harness import RUNNING, SUCCEEDED, Case, need, processes_with, wait_until

DIGITS = os.path.join(harness.BIN, "examples", "digits")
DATA = os.path.join(harness.ROOT, "examples", "data", "optdigits.csv.gz")
PYTHON_EXAMPLE = os.path.join(harness.ROOT, "examples", "digits_python", "train.py")
EPOCHS = 8


class MainJobUnderFire(Case):
    def train(self, cluster, *command):
        """Both ranks; each copies its output to a separate file, so that the log can be compared with it."""
        copy = self.path("copy")
        return cluster.submit(
            "-n", "2", "--restarts", "2", "-e", f"COPY={copy}", "-e", "OMP_NUM_THREADS=1", "--", "bash", "-o", "pipefail",
            "-c", '"$@" 2>&1 | tee "$COPY.$MUSTER_ATTEMPT.$RANK"', "rank", *command, cwd=self.directory)

    def epochs_logged(self, cluster, job):
        return sorted(step for name, step, *_ in cluster.api.metrics(job) if name in ("loss", "train/loss"))

    def committed(self, cluster, job):
        return [c.step for c in cluster.api.record(job).checkpoints if c.state == 2]

    def trainer_pids(self, text, rank):
        found = []
        for pid, line in processes_with(self.mark).items():
            if text in line and "tee" not in line and not line.startswith("bash") and "muster-" not in line.split()[0]:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"\0RANK={rank}\0".encode() in b"\0" + file.read() + b"\0":
                        found.append(pid)
        return found

    def under_fire(self, cluster, job, program, last_line):
        cluster.wait_for(job, RUNNING, deadline_s=60)
        wait_until(lambda: self.committed(cluster, job), "a first checkpoint is committed", 90)
        cluster.workers["node1"].kill9()
        cluster.workers["node1"].start()
        wait_until(lambda: len(self.committed(cluster, job)) >= 2, "a checkpoint after the worker's death", 90)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual(cluster.api.record(job).next_attempt, 1, "neither death disturbed the job")
        wait_until(lambda: max(self.committed(cluster, job)) > 0 and cluster.state(job) == RUNNING, "running again", 30)
        for pid in self.trainer_pids(program, 1):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: cluster.api.record(job).next_attempt == 2, "the second attempt", 60)
        record = cluster.wait_for(job, SUCCEEDED, deadline_s=300)
        self.assertGreater(record.attempts[1].resume_step, 0)
        self.check_logs(cluster, job, last_line)
        self.check_curve(cluster, job)

    def check_logs(self, cluster, job, last_line):
        logs, dropped = cluster.api.logs(job)
        self.assertEqual(sum(dropped.values()), 0)
        for attempt in (0, 1):
            for rank in (0, 1):
                with open(f"{self.path('copy')}.{attempt}.{rank}", "rb") as file:
                    self.assertEqual(logs.get((attempt, rank, 1), b""), file.read(), (attempt, rank))
        self.assertIn(b"resum", logs[(1, 0, 1)])
        self.assertRegex(logs[(1, 0, 1)].decode(errors="replace"), last_line)

    def check_curve(self, cluster, job):
        """Every epoch once, over both attempts, and the second attempt continues where the first was."""
        def complete():
            return len(self.epochs_logged(cluster, job)) >= EPOCHS
        wait_until(complete, lambda: f"all epochs' metrics: {self.epochs_logged(cluster, job)}")
        steps = self.epochs_logged(cluster, job)
        self.assertEqual(steps, list(range(steps[0], steps[0] + EPOCHS)))
        curve = {step: (attempt, value) for name, step, value, attempt, *_ in cluster.api.metrics(job)
                 if name in ("loss", "train/loss")}
        values = [curve[step][1] for step in steps]
        self.assertEqual({attempt for attempt, _ in curve.values()}, {0, 1})
        self.assertLess(values[-1], 0.7 * values[0], "the loss fell")
        second = next(index for index, step in enumerate(steps) if curve[step][0] == 1)
        self.assertLess(values[second], values[0], "not started afresh")

    def test_cpp(self):
        need(os.path.exists(DIGITS), "build/bin/examples/digits is not built")
        cluster = self.cluster()
        job = self.train(cluster, DIGITS, "--data", DATA, "--epochs", EPOCHS, "--step-delay-ms", "25")
        self.under_fire(cluster, job, DIGITS, r"final accuracy.* \d+\.\d+ %")

    def test_python(self):
        need(importlib.util.find_spec("torch") and importlib.util.find_spec("tensorboard"),
             "needs the Python packages torch and tensorboard")
        cluster = self.cluster()
        job = self.train(cluster, harness.PYTHON, PYTHON_EXAMPLE, "--data", DATA, "--epochs", EPOCHS,
                         "--step-delay-ms", "25")
        self.under_fire(cluster, job, PYTHON_EXAMPLE, r"accuracy")


class MainJob(Case):
    def test_two_ranks_reach_the_goal_and_everything_comes_back(self):
        need(os.path.exists(DIGITS), "build/bin/examples/digits is not built")
        muster = self.private()
        done = muster.jobctl("run", "-n", "2", "--name", "digits", "--", DIGITS, "--data", DATA, timeout=300)
        accuracy = float(re.search(r"final accuracy.*?(\d+\.\d+) %", done.stdout).group(1))
        self.assertGreaterEqual(accuracy, 97.0)
        self.assert_gone(self.mark, deadline_s=2)
        self.assertEqual(muster.jobctl("logs", "@last").stdout.count("final accuracy"), 1)
        self.assertIn("loss", muster.jobctl("metrics", "@last").stdout)
        self.assertIn("ok", muster.jobctl("ckpt", "verify", "@last").stdout.lower())
        self.assert_gone(self.mark, deadline_s=2)


if __name__ == "__main__":
    harness.main()
