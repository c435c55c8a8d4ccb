"""What people stop continues where it was: a training under `jobctl run` is stopped and released, one leaves a node that is
drained, to the same result, bit for bit; and what each of them used is booked once, also when a coordinator is killed."""
import json
import os
import struct
import subprocess

import harness
from harness import QUEUED, RUNNING, SUCCEEDED, Case, need, wait_until

DIGITS = os.path.join(harness.BIN, "examples", "digits")
DATA = os.path.join(harness.ROOT, "examples", "data", "optdigits.csv.gz")
COMMITTED, HELD, DRAINED = 2, 14, 9
EPOCHS = 4


class Stop(Case):
    def training(self, delay_ms, *more):
        return ("-n", "1", "-e", "OMP_NUM_THREADS=1", *more, "--", DIGITS, "--data", DATA, "--batch", "96", "--epochs", EPOCHS,
                "--step-delay-ms", delay_ms)

    def losses(self, cluster, job):
        service, worker, _ = harness.protos()
        found = {}
        for attempt in range(len(cluster.api.record(job).attempts)):
            request = service.QueryMetricsRequest(job=job, attempt=attempt, rank=-1, names=["loss"])
            for batch in cluster.api.stream("QueryMetrics", request, worker.MetricBatch):
                for point in batch.points:
                    value = struct.pack(">d", point.value)
                    self.assertEqual(found.setdefault(point.step, value), value)
        return found

    def saved(self, cluster, job):
        return sorted(each.step for each in cluster.api.record(job).checkpoints if each.state == COMMITTED)

    def test_a_stopped_run_tells_how_to_continue_and_continues_to_the_same_result(self):
        need(os.path.exists(DIGITS), "build/bin/examples/digits is not built")
        cluster = self.cluster(workers=("a", "b"), devices="cpu:1")
        plain = cluster.submit(*self.training(0))
        cluster.wait_for(plain, SUCCEEDED, deadline_s=60)
        run = cluster.start_jobctl("run", *self.training(60), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        job = wait_until(lambda: max((each.id for each in cluster.api.list() if each.id > 1), default=None), "it is there")
        job = cluster.api.record(str(job)).name
        wait_until(lambda: self.saved(cluster, job), "it has saved", 60)
        told = cluster.jobctl("stop", job).stdout
        self.assertIn("is asked to save, and is stopped once it has, in at most 2m 0s; then it is held", told)
        _, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 104, err)
        self.assertIn(f"jobctl release {job} continues it from the checkpoint of step", err)
        record = cluster.api.record(job)
        self.assertEqual((record.state, record.held, record.attempts[0].cause), (QUEUED, True, HELD), record.reason)
        # Its client has left, which does not cancel it; nor does a coordinator that is killed.
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual(cluster.jobctl("wait", job, check=False).returncode, 104)
        saved = self.saved(cluster, job)[-1]
        cluster.jobctl("release", job)
        cluster.wait_for(job, RUNNING)

        node = cluster.api.record(job).attempts[-1].parts[0].node
        told = cluster.jobctl("nodes", "drain", node, "--evict", "--reason", "new disk").stdout
        self.assertIn("gets no new jobs; 1 job asked to leave", told)
        record = cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        second, third = record.attempts[1:]
        self.assertEqual((second.resume_step, second.cause), (saved, DRAINED), second.reason)
        self.assertIn(f"left {node}, which is drained: new disk", second.reason)
        self.assertNotEqual(third.parts[0].node, node)
        self.assertEqual(record.failures + record.node_losses, 0, "no budget is touched")
        wait_until(lambda: len(self.losses(cluster, job)) >= EPOCHS, "all metrics are there")
        self.assertEqual(self.losses(cluster, job), self.losses(cluster, plain))
        print(cluster.jobctl("events", job).stdout)
        self.check_usage(cluster, job)

    def check_usage(self, cluster, job):
        def rows():
            return json.loads(cluster.jobctl("usage", "--by", "kind", "-o", "json").stdout)["items"]
        before = rows()
        self.assertEqual([row["kind"] for row in before], ["cpu"])
        self.assertEqual(before[0]["attempts"], 4)
        used_ms = sum(attempt.ended_ms - attempt.started_ms
                      for each in ("1", job) for attempt in cluster.api.record(each).attempts)
        self.assertLess(abs(before[0]["used_hours"] * 3_600_000 - used_ms), 5_000)
        cluster.jobctl("rm", "-y", job)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual(rows(), before)


if __name__ == "__main__":
    harness.main()
