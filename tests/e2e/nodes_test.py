"""Several nodes: uneven splits over network namespaces, the registered address, partitions, lost nodes."""
import os
import re
import time

import harness
from harness import FAILED, RUNNING, SUCCEEDED, Case, need, wait_until
from network import Network


class NamespacedNodes(Case):
    def setUp(self):
        super().setUp()
        need(harness.has_network_namespaces(), "needs root, iproute2 and network namespaces")

    def cluster_of(self, nodes, devices="cpu:2", coordinator_args=()):
        self.network = Network(self, nodes)
        cluster = harness.Cluster(self, prefix=self.network.inside(), coordinator_args=[
            "--listen", self.network.address + ":7700", "--insecure-plaintext", *coordinator_args]).start()
        for name, address in self.network.nodes.items():
            cluster.add_worker(name, devices, coordinator=self.network.address + ":7700",
                               args=["--advertise", address], prefix=self.network.inside(name), wait=False)
        cluster.wait_nodes(*self.network.nodes)
        return cluster

    def test_three_ranks_span_two_nodes_as_two_and_one(self):
        cluster = self.cluster_of(2)
        job = cluster.submit("-n", "3", "--", "sh", "-c",
                             "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR $MASTER_PORT")
        cluster.wait_for(job, SUCCEEDED)
        logs, _ = cluster.api.logs(job)
        seen = [logs[(0, rank, 1)].decode().split() for rank in range(3)]
        self.assertEqual([line[:5] for line in seen],
                         [["0", "3", "0", "2", "0"], ["1", "3", "1", "2", "0"], ["2", "3", "0", "1", "1"]])
        self.assertEqual({line[5] for line in seen}, {self.network.nodes["node1"]}, "the registered address")
        self.assertEqual(len({line[6] for line in seen}), 1)

    def test_three_ranks_on_two_nodes_train_the_digits_and_commit_checkpoints(self):
        cluster = self.cluster_of(2)
        digits = os.path.join(harness.BIN, "examples", "digits")
        data = os.path.join(harness.ROOT, "examples", "data", "optdigits.csv.gz")
        job = cluster.submit("-n", "3", "-e", "OMP_NUM_THREADS=1", "--", digits, "--epochs", "3", "--data", data)
        record = cluster.wait_over(job, deadline_s=120)
        logs, _ = cluster.api.logs(job)
        self.assertEqual(record.state, SUCCEEDED, logs)
        self.assertIn(b"epoch 3/3", re.sub(rb" +", b" ", logs[(0, 0, 1)]))
        losses = [value for name, _, value, *_ in cluster.api.metrics(job) if name == "loss"]
        self.assertLess(losses[-1], losses[0])
        newest = [c for c in record.checkpoints if c.state == 2][-1]
        self.assertEqual(newest.parts, 2, "each node brings the shards of its ranks")
        self.assertEqual(cluster.jobctl("ckpt", "verify", job).returncode, 0)

    def test_the_ranks_of_two_nodes_train_together(self):
        cluster = self.cluster_of(2)
        job = cluster.submit("-n", "3", "--", harness.PYTHON, harness.rank_script("allreduce.py"))
        record = cluster.wait_over(job, deadline_s=90)
        logs, _ = cluster.api.logs(job)
        self.assertEqual(record.state, SUCCEEDED, logs)
        for rank in range(3):
            self.assertIn(b"sum 6", logs[(0, rank, 1)])

    def test_a_partition_shorter_than_the_suspicion_disturbs_nothing(self):
        cluster = self.cluster_of(2, coordinator_args=["--suspect-after-ms", "8000"])
        go = self.path("go")
        job = cluster.submit("-n", "4", "--", "sh", "-c",
                             f"i=0; while [ ! -e {go} ]; do i=$((i+1)); echo $i; sleep 0.05; done")
        cluster.wait_for(job, RUNNING)
        self.network.cut(2)
        time.sleep(3)  # the length of the partition
        self.network.mend(2)
        open(go, "w").close()
        record = cluster.wait_for(job, SUCCEEDED, deadline_s=40)
        self.assertEqual(record.next_attempt, 1)
        logs, dropped = cluster.api.logs(job)
        for rank in range(4):
            numbers = [int(line) for line in logs[(0, rank, 1)].split()]
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_a_node_declared_dead_is_replaced_at_once(self):
        cluster = self.cluster_of(2, devices="cpu:1", coordinator_args=["--suspect-after-ms", "1500"])
        witness = self.path("witness")
        job = cluster.submit("-n", "1", "-e", f"WITNESS={witness}",
                             *harness.python_line("witness.py", "--until", self.path("go")))
        node = cluster.wait_for(job, RUNNING).attempts[0].parts[0].node
        self.network.cut(int(node[-1]))
        cluster.workers[node].kill9()
        wait_until(lambda: cluster.nodes()[node].record.state == 2, "the silent node is suspect")
        cluster.jobctl("nodes", "declare-dead", node, "--yes")
        wait_until(lambda: cluster.api.record(job).next_attempt == 2, "a second attempt")
        record = cluster.wait_for(job, RUNNING)
        self.assertNotEqual(record.attempts[1].parts[0].node, node)
        open(self.path("go"), "w").close()
        record = cluster.wait_for(job, SUCCEEDED)
        self.assertEqual((record.failures, record.node_losses), (0, 1), "node losses have their own budget")

    def test_a_missing_working_directory_on_one_node_is_one_clear_error(self):
        # The second node sees a file system where the directory is hidden by an empty one.
        cluster = self.cluster_of(1)
        where = self.path("work")
        os.mkdir(where)
        cover = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {where} && exec "$@"', "sh"]
        inner = os.path.join(where, "project")
        os.mkdir(inner)
        cluster.add_worker("bare", "cpu:2", args=["--advertise", "10.77.0.11"],
                           prefix=[*self.network.inside("node1"), *cover])
        job = cluster.submit("-n", "4", "--restarts", "3", "--", "sleep", "600", cwd=inner)
        record = cluster.wait_for(job, FAILED)
        self.assertIn(inner, record.reason)
        self.assertIn("bare", record.reason)
        self.assertEqual(record.next_attempt, 1, "trying again would not help")
        self.assertFalse(any(part.launched for part in record.attempts[0].parts), "no rank was started anywhere")
        wait_until(lambda: "sleep 600" not in self.processes().values(), "no rank is left on the other node")


class LoopbackNodes(Case):
    def test_drained_nodes_take_no_new_job_and_undrained_ones_do(self):
        cluster = self.cluster(workers=("node1",))
        cluster.jobctl("nodes", "drain", "node1", "--reason", "cleaning")
        job = cluster.submit("-n", "1", "--", "true")
        self.assertIn("drain", cluster.jobctl("why", job).stdout)
        self.assertIn("cleaning", cluster.jobctl("nodes", "show", "node1").stdout)
        cluster.jobctl("nodes", "undrain", "node1")
        cluster.wait_for(job, SUCCEEDED)

    def test_what_only_a_dead_node_could_hold_waits_for_it_and_lets_others_pass(self):
        cluster = self.cluster(workers=("node1", "node2"), devices="cpu:2",
                               coordinator_args=["--suspect-after-ms", "1500"])
        go = self.path("go")
        holder = cluster.submit("-n", "4", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done")
        cluster.wait_for(holder, RUNNING)
        self.assertIn("node2 is connected", cluster.jobctl("nodes", "rm", "node2", check=False).stderr)
        cluster.workers["node2"].kill9()
        wait_until(lambda: cluster.nodes()["node2"].record.state == 2, "the silent node is suspect")
        self.assertIn("node2 is SUSPECT: not heard from for", cluster.jobctl("events", holder).stdout)
        self.assertIn("node2 is SUSPECT, last heard", cluster.jobctl("why", holder).stdout)
        self.assertIn("may still be running on node2", cluster.jobctl("nodes", "rm", "node2", check=False).stderr)
        open(go, "w").close()
        cluster.jobctl("nodes", "declare-dead", "node2", "--yes")
        cluster.jobctl("cancel", holder, check=False)
        cluster.wait_over(holder)

        waits = cluster.submit("-n", "4", "--", "true")
        self.assertRegex(cluster.jobctl("why", waits).stdout,
                         r"needs 4 cpu; waits for node2 \(declared dead by uid:\d+, \d{4}-\d\d-\d\d \d\d:\d\d UTC\)")
        passes = cluster.submit("-n", "2", "--", "true")
        cluster.wait_for(passes, SUCCEEDED)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertIn("waits for node2", cluster.jobctl("why", waits).stdout)
        cluster.workers["node2"].start()
        cluster.wait_for(waits, SUCCEEDED)

        cluster.workers["node2"].kill9()
        wait_until(lambda: not cluster.nodes()["node2"].record.connected, "the worker is gone")
        wait_until(lambda: cluster.jobctl("nodes", "rm", "node2", check=False).returncode == 0, "it is forgotten")
        self.assertNotIn("node2", cluster.nodes())
        refused = cluster.jobctl("submit", "-n", "4", "--", "true", check=False)
        self.assertIn("[JC1402]", refused.stderr)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertNotIn("node2", cluster.nodes())

    def test_nodes_show_names_the_supervision_level(self):
        cluster = self.cluster()
        shown = cluster.jobctl("nodes", "show", "node1").stdout
        self.assertRegex(shown.lower(), re.compile(r"cgroup|process group|/proc"))

    def test_ranks_are_stable_over_restarts(self):
        cluster = self.cluster(workers=("a", "b"), devices="cpu:1")
        job = cluster.submit("-n", "2", "--restarts", "1", "--", "sh", "-c",
                             'echo $RANK; [ "$MUSTER_ATTEMPT" = 0 ] && [ $RANK = 1 ] && exit 3; exit 0')
        record = cluster.wait_for(job, SUCCEEDED)
        self.assertEqual([part.node for part in record.attempts[0].parts],
                         [part.node for part in record.attempts[1].parts])


if __name__ == "__main__":
    harness.main()
