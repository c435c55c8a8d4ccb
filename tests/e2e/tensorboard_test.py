"""Metrics: tailed from TensorBoard event files without any change of the trainer, and from the trainer
socket as docs/protocol.md says it; each point exactly once, across kill -9 of worker and coordinator."""
import csv
import importlib.util
import io
import json
import time

import harness
from harness import SUCCEEDED, Case, need, python_line, wait_until


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


class TrainerSocket(Case):
    def test_points_from_the_socket_are_stored_exactly_once_over_worker_restarts(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "2", *python_line("reporter.py", 300, "--rate", 100))
        cluster.wait_for(job, harness.RUNNING)
        for _ in range(2):
            time.sleep(0.8)  # somewhere inside
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
