"""Nodes of one attempt send each other the checkpoint that it resumes from: the coordinator, or the store, sends it once."""
import os
import re

import harness
from harness import SUCCEEDED, Case, python_line, wait_until

PAYLOAD = 24_000_000
NODES = 5


class ResumePeers(Case):
    def read_so_far(self, cluster):
        with open(f"/proc/{cluster.coordinator.pid}/io") as file:
            return int(re.search(r"rchar: (\d+)", file.read())[1])

    def saved_elsewhere(self, cluster, go):
        """A job whose nodes are drained once its checkpoint is there; it waits before it fails."""
        names = [f"a{i}" for i in range(NODES)]
        for name in names:
            cluster.add_worker(name, "cpu:1")
        cluster.wait_nodes(*names)
        job = cluster.submit("-n", str(NODES), "--nodes", str(NODES), "--restarts", "3", *python_line(
            "counter.py", 20, "--every", 10, "--hold-at", 15, "--until", go, "--die-at", 15, "--bytes", PAYLOAD))
        wait_until(lambda: [each.step for each in cluster.api.record(job).checkpoints if each.state == 2] == [10],
                   "step 10 is committed")
        for name in names:
            cluster.jobctl("nodes", "drain", name)
        return job

    def resume_on_others(self, cluster):
        go = self.path("go")
        job = self.saved_elsewhere(cluster, go)
        names = [f"b{i}" for i in range(NODES)]
        for name in names:
            cluster.add_worker(name, "cpu:1")
        cluster.wait_nodes(*names)
        return job, names, go

    def check(self, cluster, job, names):
        record = cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        self.assertEqual(sorted(part.node for part in record.attempts[-1].parts), names)
        last = record.attempts[-1].number
        for rank in range(NODES):
            self.assertIn(f"attempt {last} rank {rank} starts from step 10".encode(),
                          cluster.api.logs(job)[0].get((last, rank, 1), b""))

    def test_a_checkpoint_is_sent_once_to_all_nodes(self):
        cluster = harness.Cluster(self).start()
        job, names, go = self.resume_on_others(cluster)
        before = self.read_so_far(cluster)
        open(go, "w").close()
        self.check(cluster, job, names)
        read = self.read_so_far(cluster) - before
        print(f"  the coordinator read {read / 1e6:.1f} MB for {NODES} nodes that fetched {PAYLOAD / 1e6:.0f} MB each")
        self.assertGreater(read, PAYLOAD)
        self.assertLess(read, 1.5 * PAYLOAD)


if __name__ == "__main__":
    harness.main()
