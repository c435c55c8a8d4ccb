"""The package in real jobs: a coordinator, a worker, ranks that log, die, resume and are stopped."""
import importlib.util
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import harness  # noqa: E402
from harness import CANCELLED, RUNNING, SUCCEEDED, Case, need, processes_with, wait_until  # noqa: E402

PACKAGE = os.path.join(harness.ROOT, "python", "src")
LOOP = os.path.join(HERE, "ranks", "loop.py")
EXAMPLE = os.path.join(harness.ROOT, "examples", "python", "train.py")


class Jobs(Case):
    def setUp(self):
        super().setUp()
        self.env.update(PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")

    def steps(self, cluster, job):
        """{step: attempt} of rank 0's loss in the job's history."""
        return {step: attempt for name, step, _, attempt, rank, _ in cluster.api.metrics(job)
                if name == "loss" and rank == 0}

    def committed(self, cluster, job):
        return [each.step for each in cluster.api.record(job).checkpoints if each.state == 2]

    def rank_pid(self, script, rank):
        for pid, line in processes_with(self.mark).items():
            if line.startswith(harness.PYTHON) and script in line:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"\0RANK={rank}\0".encode() in b"\0" + file.read() + b"\0":
                        return pid
        return None

    def test_run_as_a_newcomer_does(self):
        muster = self.private()
        done = muster.jobctl("run", "-n", "2", "--", harness.PYTHON, LOOP, "40", cwd=self.directory)
        self.assertEqual(done.stdout.count("done"), 2, done.stdout + done.stderr)
        self.assertNotIn("muster:", done.stdout + done.stderr)
        self.assertIn("loss", muster.jobctl("metrics", "@last").stdout)
        self.assertIn("40", muster.jobctl("ckpt", "ls", "@last").stdout)

    def test_a_killed_rank_resumes_and_no_step_is_lost_or_logged_twice(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "2", "--restarts", "2", "--", harness.PYTHON, LOOP, "100", "--pause", "0.03")
        cluster.wait_for(job, RUNNING)
        wait_until(lambda: self.committed(cluster, job), "a first checkpoint")
        cluster.workers["node1"].kill9()  # training does not notice
        cluster.workers["node1"].start()
        before = self.committed(cluster, job)
        wait_until(lambda: max(self.committed(cluster, job)) > max(before), "a checkpoint after the worker's death")
        harness.kill9(self.rank_pid(LOOP, 1))
        record = cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        self.assertEqual(len(record.attempts), 2)
        resumed = record.attempts[1].resume_step
        self.assertGreaterEqual(resumed, 20)
        wait_until(lambda: len(self.steps(cluster, job)) == 100, lambda: sorted(self.steps(cluster, job)))
        steps = self.steps(cluster, job)
        self.assertEqual(sorted(steps), list(range(1, 101)))
        self.assertEqual({step for step in steps if steps[step] == 1}, set(range(resumed + 1, 101)))
        logs, _ = cluster.api.logs(job)
        self.assertIn(f"rank 0 begins with step {resumed + 1}\n".encode(), logs[(1, 0, 1)])

    def test_the_ledger_and_the_findings_know_what_steps_wait_for(self):
        cluster = self.cluster(coordinator_args=("--findings-floor-ms", "1000"))
        with open(self.path("slow.py"), "w") as file:
            file.write("import time, muster\nfor _ in muster.steps(time.sleep(0.06) for _ in range(4000)):\n    time.sleep(0.01)\n")
        job = cluster.submit("-n", "2", "--", harness.PYTHON, self.path("slow.py"))
        wait_until(lambda: "data-starved" in cluster.jobctl("show", job, "-o", "json").stdout, "a finding about its data")
        cluster.jobctl("cancel", job)
        cluster.wait_for(job, CANCELLED)
        shown = cluster.jobctl("show", job, "--ledger").stdout
        share = {name: float(of) for name, of in re.findall(r"^  (data|compute|unknown) .* ([\d.]+) %$", shown, re.M)}
        self.assertGreater(share["data"], 3 * share["compute"], shown)
        self.assertLess(share["unknown"], share["data"], shown)

    def test_a_slow_rank_is_named_by_the_time_that_the_other_waits_for_its_gradients(self):
        need(importlib.util.find_spec("torch"), "needs the Python package torch")
        cluster = self.cluster(coordinator_args=("--findings-floor-ms", "1000"))
        job = cluster.submit("-n", "2", "--", harness.PYTHON, os.path.join(HERE, "ranks", "slow_ddp.py"))
        wait_until(lambda: "slow-rank" in cluster.jobctl("show", job, "-o", "json").stdout,
                   lambda: cluster.jobctl("show", job, "--ledger").stdout, deadline_s=60)
        cluster.jobctl("cancel", job)
        cluster.wait_for(job, CANCELLED)
        means = {}
        for name, _, value, _, rank, _ in cluster.api.metrics(job):
            means.setdefault((name, rank), []).append(value)
        waits = {rank: sum(means["time/communication", rank]) / len(means["time/communication", rank]) for rank in (0, 1)}
        # Rank 1 sleeps for 50 ms in each step, and rank 0 waits for it.
        self.assertGreater(waits[0], 0.02, waits)
        self.assertGreater(waits[0], 2 * waits[1], waits)
        shown = cluster.jobctl("show", job, "--ledger").stdout
        share = {name: float(of) for name, of in re.findall(r"^  (compute|communication) .* ([\d.]+) %$", shown, re.M)}
        # Rank 0 waits while rank 1 computes. Not of all device time: a busy machine's imports take most of that.
        self.assertGreater(share["communication"], share["compute"] / 4, shown)

    def test_the_hugging_face_trainer_resumes_on_two_ranks(self):
        self.check_library("transformers", "hugging_face.py")

    def test_lightning_resumes_on_two_ranks(self):
        self.check_library("lightning", "lightning_fit.py")

    def check_library(self, library, script):
        need(importlib.util.find_spec(library), f"needs the Python package {library}")
        script = os.path.join(HERE, "ranks", script)
        cluster = self.cluster()
        job = cluster.submit("-n", "2", "--restarts", "1", "--", harness.PYTHON, script, "150",
                             cwd=self.directory)
        wait_until(lambda: self.committed(cluster, job), "a first checkpoint", deadline_s=90)
        harness.kill9(self.rank_pid(script, 1))
        record = cluster.wait_for(job, SUCCEEDED, deadline_s=90)
        self.assertEqual(len(record.attempts), 2)
        resumed = record.attempts[1].resume_step
        self.assertGreaterEqual(resumed, 20)
        wait_until(lambda: 150 in self.steps(cluster, job), lambda: sorted(self.steps(cluster, job)))
        steps = self.steps(cluster, job)
        self.assertEqual(sorted(steps), list(range(5, 151, 5)))
        self.assertEqual({steps[step] for step in steps if step > resumed}, {1})
        wait_until(lambda: 140 in self.committed(cluster, job), lambda: self.committed(cluster, job))

    def test_a_canceled_job_saves_where_it_stands(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", harness.PYTHON, LOOP, "5000", "--pause", "0.01", "--every", "1000000")
        cluster.wait_for(job, RUNNING)
        wait_until(lambda: self.steps(cluster, job), "steps are logged")
        cluster.jobctl("cancel", job)
        cluster.wait_for(job, CANCELLED)
        logs, _ = cluster.api.logs(job)
        self.assertIn(b"stopped after step", logs[(0, 0, 1)])
        stopped = int(logs[(0, 0, 1)].split()[-1])
        wait_until(lambda: self.committed(cluster, job) == [stopped], lambda: self.committed(cluster, job))
        self.assertEqual(max(self.steps(cluster, job)), stopped)

    def test_the_same_script_without_muster(self):
        for first, last in ((1, "25"), (21, "30")):
            done = subprocess.run([harness.PYTHON, LOOP, last, "--checkpoints", self.path("own")], env=self.env,
                                  capture_output=True, text=True, timeout=60, cwd=self.directory)
            self.assertEqual((done.stdout, done.stderr), (f"rank none begins with step {first}\ndone\n", ""))
        self.assertEqual(sorted(os.listdir(self.path("own"))), ["step-20", "step-30"])

    def test_the_example_learns_in_a_job_survives_a_kill_and_runs_alone(self):
        need(importlib.util.find_spec("torch"), "needs the Python package torch")
        cluster = self.cluster()
        job = cluster.submit("-n", "2", "--restarts", "1", "--", harness.PYTHON, EXAMPLE, "--save-every", "20",
                             "--steps", "160", "--step-delay-ms", "15", cwd=self.directory)
        wait_until(lambda: self.committed(cluster, job), "a first checkpoint", 60)
        harness.kill9(self.rank_pid(EXAMPLE, 1))
        cluster.wait_for(job, SUCCEEDED, deadline_s=90)
        wait_until(lambda: len(self.steps(cluster, job)) == 160, lambda: sorted(self.steps(cluster, job)))
        curve = {step: value for name, step, value, _, rank, _ in cluster.api.metrics(job)
                 if name == "loss" and rank == 0}
        self.assertLess(curve[160], 0.5 * curve[1])
        self.assertIn("160", cluster.jobctl("show", job).stdout)
        alone = subprocess.run([harness.PYTHON, EXAMPLE, "--steps", "20"], env=self.env, capture_output=True, text=True,
                               timeout=90, cwd=self.directory)
        self.assertEqual((alone.returncode, os.listdir(self.path("checkpoints"))), (0, ["step-20"]), alone.stderr)


if __name__ == "__main__":
    harness.main()
