"""A project gets its quota back: a real training that borrows is asked to save, gives way, and continues on other nodes to
the same result, bit for bit; and what a program that cannot save loses, and what people read about both."""
import json
import os
import re
import struct
import sys

import harness
from harness import QUEUED, RUNNING, SUCCEEDED, Case, need, wait_until
from network import Network

DIGITS = os.path.join(harness.BIN, "examples", "digits")
DATA = os.path.join(harness.ROOT, "examples", "data", "optdigits.csv.gz")
COMMITTED, PREEMPTED = 2, 10
EPOCHS = 4


class Reclaim(Case):
    def shared(self, *more):
        """Four nodes, each in its network namespace if there may be any, and two projects, each with a quota of two."""
        rules = ("--min-run-ms", "1500", "--reclaim-after-ms", "300", *more)
        if harness.has_network_namespaces():
            cluster = self.on_four_networks(rules)
        else:
            cluster = self.cluster(workers=("a", "b", "c", "d"), devices="cpu:1", coordinator_args=rules)
        for project in ("vision", "speech"):
            cluster.jobctl("project", "create", project, "--open")
            cluster.jobctl("project", "quota", project, "cpu=2")
        return cluster

    def on_four_networks(self, rules):
        network = Network(self, 4)
        head = network.address + ":7700"
        cluster = harness.Cluster(self, prefix=network.inside(), coordinator_args=[
            "--listen", head, "--insecure-plaintext", *rules]).start()
        for name, address in network.nodes.items():
            cluster.add_worker(name, "cpu:1", coordinator=head, args=["--advertise", address],
                               prefix=network.inside(name), wait=False)
        cluster.wait_nodes(*network.nodes)
        return cluster

    def gated(self, cluster, gate, project):
        return cluster.submit("-n", "2", "--nodes", "2", "--project", project, "--", "sh", "-c",
                              f"until test -e {self.path(gate)}; do sleep 0.05; done")

    def open(self, gate):
        with open(self.path(gate), "w"):
            pass

    def trains(self, cluster, delay_ms):
        return cluster.submit("-n", "2", "--nodes", "2", "--project", "vision", "-e", "OMP_NUM_THREADS=1", "--", DIGITS,
                              "--data", DATA, "--batch", "96", "--epochs", EPOCHS, "--step-delay-ms", delay_ms)

    def steps(self, cluster, job):
        return sorted(each.step for each in cluster.api.record(job).checkpoints if each.state == COMMITTED)

    def losses(self, cluster, job):
        """{(name, epoch): the double's bytes} of all attempts; what two of them have is equal."""
        service, worker, _ = harness.protos()
        found = {}
        for attempt in range(len(cluster.api.record(job).attempts)):
            request = service.QueryMetricsRequest(job=job, attempt=attempt, rank=-1, names=["loss", "accuracy"])
            for batch in cluster.api.stream("QueryMetrics", request, worker.MetricBatch):
                for point in batch.points:
                    value = struct.pack(">d", point.value)
                    self.assertEqual(found.setdefault((point.name, point.step), value), value, (attempt, point.step))
        return found

    def test_a_training_that_borrows_saves_gives_way_and_continues_elsewhere_to_the_same_result(self):
        need(os.path.exists(DIGITS), "build/bin/examples/digits is not built")
        cluster = self.shared()
        plain = self.trains(cluster, 0)
        cluster.wait_for(plain, SUCCEEDED, deadline_s=60)
        stays = self.trains(cluster, 120)
        cluster.wait_for(stays, RUNNING)
        borrows = self.trains(cluster, 120)
        for job in (stays, borrows):
            wait_until(lambda each=job: self.steps(cluster, each), "it has saved", 60)
        self.assertEqual(cluster.state(borrows), RUNNING)
        needs = self.gated(cluster, "needs", "speech")
        cluster.wait_for(needs, RUNNING)
        record = cluster.api.record(borrows)
        first = record.attempts[0]
        self.assertEqual((record.state, first.cause), (QUEUED, PREEMPTED), record.reason)
        saved = self.steps(cluster, borrows)[-1]
        self.assertIn(f"gave way to job {needs} of project speech, which is within its quota, after its checkpoint of step",
                      first.reason)
        self.assertIn(first.reason, cluster.jobctl("why", borrows).stdout)
        rows = json.loads(cluster.jobctl("queue", "-o", "json").stdout)["items"]
        self.assertEqual([row["job"] for row in rows], [borrows])

        cluster.wait_for(stays, SUCCEEDED, deadline_s=60)
        record = cluster.wait_for(borrows, SUCCEEDED, deadline_s=60)
        second = record.attempts[1]
        self.assertEqual(second.resume_step, saved)
        self.assertGreater(saved, 0)
        self.assertEqual(record.failures + record.node_losses, 0, "no budget is touched")
        self.assertFalse({part.node for part in first.parts} & {part.node for part in second.parts}, "elsewhere")
        wait_until(lambda: len(self.losses(cluster, borrows)) >= 2 * EPOCHS, "all metrics are there")
        self.assertEqual(self.losses(cluster, borrows), self.losses(cluster, plain))
        print(cluster.jobctl("events", borrows).stdout)
        self.open("needs")
        cluster.wait_for(needs, SUCCEEDED)

    def test_a_program_that_cannot_save_is_asked_late_and_stopped_when_its_time_is_over(self):
        cluster = self.shared("--notice-ms", "1000")
        stays, borrows = (self.gated(cluster, gate, "vision") for gate in ("stays", "borrows"))
        for job in (stays, borrows):
            cluster.wait_for(job, RUNNING)
        needs = self.gated(cluster, "needs", "speech")
        cluster.wait_for(needs, RUNNING)
        record = cluster.api.record(borrows)
        self.assertIn("which is within its quota, without a checkpoint within 1s", record.attempts[0].reason)
        lived_ms = record.attempts[0].stopping_ms - record.attempts[0].started_ms
        self.assertGreaterEqual(lived_ms, 4 * 1500 + 1000)
        # A coordinator that is killed in the meantime knows who is first.
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual(cluster.state(borrows), QUEUED)
        for gate in ("needs", "stays", "borrows"):
            self.open(gate)
        for job in (needs, stays, borrows):
            cluster.wait_for(job, SUCCEEDED)

    def test_python_is_asked_too(self):
        cluster = self.shared("--notice-ms", "60000")
        script = self.path("train.py")
        with open(script, "w") as file:
            file.write(
                "import os, time, muster\n"
                "step = int(open(muster.latest_checkpoint() / 'step').read()) if muster.latest_checkpoint() else 0\n"
                "first = step\n"
                "def write(target): (target / 'step').write_text(str(step))\n"
                f"while not os.path.exists({self.path('end')!r}):\n"
                "    time.sleep(0.02); step += 1\n"
                "    if step == first + 5: muster.save_checkpoint(write, step)\n"
                "    if muster.should_checkpoint(): print('asked at', step, flush=True); muster.save_checkpoint(write, step)\n"
                "    if muster.should_stop(): break\n"
                "print('from', first, flush=True)\n")
        stays = self.gated(cluster, "stays", "vision")
        cluster.wait_for(stays, RUNNING)
        borrows = cluster.submit("-n", "2", "--nodes", "2", "--project", "vision", "-e",
                                 f"PYTHONPATH={os.path.join(harness.ROOT, 'python', 'src')}", "--", sys.executable, script)
        wait_until(lambda: self.steps(cluster, borrows), "it has saved")
        needs = self.gated(cluster, "needs", "speech")
        cluster.wait_for(needs, RUNNING)
        asked = re.search(rb"asked at (\d+)", cluster.api.logs(borrows)[0][0, 0, 1])
        self.assertEqual(self.steps(cluster, borrows)[-1], int(asked[1]))
        for gate in ("stays", "needs", "end"):
            self.open(gate)
        record = cluster.wait_for(borrows, SUCCEEDED)
        self.assertEqual(record.attempts[1].resume_step, int(asked[1]))


if __name__ == "__main__":
    harness.main()
