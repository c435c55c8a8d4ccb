"""Metrics: tailed from TensorBoard event files without any change to the trainer, and from the trainer
socket as specified in docs/protocol.md; each point exactly once, across kill -9 of worker and coordinator."""
import csv
import importlib.util
import io
import json
import os
import subprocess
import time

import harness
from harness import SUCCEEDED, Case, need, processes_with, python_line, wait_until


class EventFiles(Case):
    def setUp(self):
        super().setUp()
        need(importlib.util.find_spec("tensorboard") and importlib.util.find_spec("torch"),
             "needs the Python packages torch and tensorboard")

    def test_scalars_of_a_writer_that_knows_nothing_of_muster_arrive_once(self):
        cluster = self.cluster()
        go = self.path("go")
        job = cluster.submit("-n", "1", "--", harness.PYTHON, harness.rank_script("scalars.py"), "200", go,
                             cwd=self.directory)
        wait_until(lambda: len(cluster.api.metrics(job)) >= 100, "the first half is here", 60)
        cluster.workers["node1"].kill9()
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        cluster.workers["node1"].start()
        open(go, "w").close()
        cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        points = wait_until(lambda: (lambda found: found if len(found) >= 200 else None)(cluster.api.metrics(job)),
                            "all points are here")
        self.assertEqual(sorted((name, step) for name, step, *_ in points),
                         sorted(("train/loss", step) for step in range(200)))
        for name, step, value, *_ in points:
            self.assertAlmostEqual(value, 1.0 / (step + 1), places=6)


class WhoseEvents(Case):
    """Several programs write into one working directory: each point counts once, for the attempt that produced it."""

    def line(self, *args):
        return python_line("events.py", "runs/exp1", *args)

    def by_hand(self, *args):
        subprocess.run([harness.PYTHON, "-S", harness.rank_script("events.py"), *args], cwd=self.directory, check=True)

    def submit(self, cluster, *args):
        return cluster.submit("-n", "1", *args, cwd=self.directory)

    def points(self, cluster, job, count, deadline_s=harness.DEADLINE_S):
        """[(attempt, step)] of the job, once there are `count` of them."""
        wait_until(lambda: len(cluster.api.metrics(job)) >= count,
                   lambda: f"{count} points of {job}, has {len(cluster.api.metrics(job))}", deadline_s)
        return self.points_now(cluster, job)

    def points_now(self, cluster, job):
        return sorted((attempt, step) for _, step, _, attempt, _, _ in cluster.api.metrics(job))

    def points_of_finished(self, cluster, job):
        """Waits until the job is over and its workers have nothing left to send."""
        number = cluster.wait_over(job).id
        attempts = [os.path.join(cluster.directory, "w-" + name, "attempts") for name in cluster.workers]
        wait_until(lambda: not any(entry.startswith(f"{number}-") for path in attempts for entry in os.listdir(path)),
                   f"the workers have forgotten {job}")
        return self.points_now(cluster, job)

    def test_files_that_a_rank_has_open_are_its_own_wherever_they_lie(self):
        cluster = self.cluster()
        go = self.path("go")
        line = python_line("events.py", "out/deeper/runs/exp1", 20, "--go", go)
        job = self.submit(cluster, *line)
        self.assertEqual(self.points(cluster, job, 20), [(0, step) for step in range(20)])
        open(go, "w").close()
        self.assertEqual(self.points_of_finished(cluster, job), [(0, step) for step in range(20)])
        none = self.submit(cluster, "--", "true")
        cluster.wait_for(none, SUCCEEDED)
        self.assertIn("event files in $MUSTER_TENSORBOARD_DIR, in runs/ and lightning_logs/ of " + self.directory,
                      cluster.jobctl("metrics", none, check=False).stderr)

    def test_what_lay_there_before_is_nobodys_and_a_quick_program_gets_its_own(self):
        cluster = self.cluster()
        self.by_hand("runs/exp1", "20")
        sleeper = self.submit(cluster, "--", "sleep", "1")
        self.assertEqual(self.points_of_finished(cluster, sleeper), [])
        for line in (self.line(20), self.line(20, "--child")):  # a rank, and a child process of it that has exited
            quick = self.submit(cluster, *line)
            self.assertEqual(self.points_of_finished(cluster, quick), [(0, step) for step in range(20)])
        sleeper = self.submit(cluster, "--", "sleep", "1")
        self.assertEqual(self.points_of_finished(cluster, sleeper), [])

    def test_a_second_attempt_does_not_repeat_the_points_of_the_first(self):
        cluster = self.cluster()
        job = self.submit(cluster, "--restarts", "1", *self.line(20, "--fail", "--file", "one.tfevents"))
        # Of the job's effective history: attempt 1 started from scratch.
        self.assertEqual(self.points_of_finished(cluster, job), [(1, step) for step in range(20)])

    def test_jobs_that_run_at_once_in_one_directory_get_their_own_points(self):
        cluster = self.cluster()
        go = self.path("go")
        slow = self.submit(cluster, *self.line(20, "--go", go, "--again"))
        self.points(cluster, slow, 20)
        quick = self.submit(cluster, *self.line(10, "--first", 50))
        other = self.submit(cluster, "--", "sleep", "2")
        self.assertEqual(self.points_of_finished(cluster, quick), [(0, step) for step in range(50, 60)])
        open(go, "w").close()
        self.assertEqual(self.points_of_finished(cluster, slow), [(0, step) for step in range(40)])
        self.assertEqual(self.points_of_finished(cluster, other), [])

    def test_a_worker_that_was_killed_in_between_neither_forgets_nor_counts_twice(self):
        cluster = self.cluster()
        self.by_hand("runs/exp1", "20", "--file", "shared.tfevents")
        go = self.path("go")
        job = self.submit(cluster, *self.line(10, "--first", 20, "--file", "shared.tfevents", "--go", go, "--again"))
        self.points(cluster, job, 10)
        cluster.workers["node1"].kill9()
        open(go, "w").close()
        wait_until(lambda: not processes_with("events.py", "events.py"), "the rank ends while no worker is there")
        cluster.workers["node1"].start()
        self.assertEqual(self.points_of_finished(cluster, job), [(0, step) for step in range(20, 40)])

    def test_two_workers_that_see_one_directory_count_each_file_once(self):
        cluster = self.cluster(("node1", "node2"), devices="cpu:1")
        go = self.path("go")
        job = cluster.submit("-n", "2", *self.line(10, "--child", "--go", go), cwd=self.directory)
        self.points(cluster, job, 20)
        open(go, "w").close()
        self.assertEqual(self.points_of_finished(cluster, job), [(0, step) for step in range(10) for _ in range(2)])


class TrainerSocket(Case):
    def test_points_from_the_socket_are_stored_exactly_once_over_worker_restarts(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "2", *python_line("reporter.py", 300, "--rate", 100))
        cluster.wait_for(job, harness.RUNNING)
        for _ in range(2):
            time.sleep(0.8)  # somewhere in the middle
            cluster.workers["node1"].kill9()
            cluster.workers["node1"].start()
        cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        points = wait_until(lambda: (lambda found: found if len(found) >= 600 else None)(cluster.api.metrics(job)),
                            lambda: f"all points are here, have {len(cluster.api.metrics(job))}")
        self.assertEqual(sorted((rank, step) for _, step, _, _, rank, _ in points),
                         [(rank, step) for rank in (0, 1) for step in range(300)])

    def test_jobctl_shows_them_as_table_csv_and_json(self):
        muster = self.private()
        muster.jobctl("run", "-n", "1", *python_line("reporter.py", 20))
        table = muster.jobctl("metrics", "@last").stdout
        self.assertIn("loss", table)
        rows = list(csv.DictReader(io.StringIO(muster.jobctl("metrics", "@last", "-o", "csv").stdout)))
        self.assertEqual(len(rows), 20, rows[:3])
        json.loads(muster.jobctl("metrics", "@last", "-o", "json").stdout)

    def test_a_line_that_is_no_message_is_refused_with_the_reason_and_the_connection_goes_on(self):
        done = self.private().jobctl("run", "-n", "1", *python_line("reporter.py", 5, "--garbage"))
        self.assertIn("refused:", done.stdout)
        self.assertIn("all acknowledged", done.stdout)


if __name__ == "__main__":
    harness.main()
