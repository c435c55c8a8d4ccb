"""Checkpoints in a store that every coordinator reaches, on a real SeaweedFS and on a shared directory."""
import os
import re
import time

import harness
import heads
import s3_server
from harness import SUCCEEDED, Case, python_line, wait_until


class Objects(Case):
    def steps(self, cluster, job):
        return sorted(checkpoint.step for checkpoint in cluster.api.record(job).checkpoints if checkpoint.state == 2)

    def blobs_of(self, cluster):
        return [name for index in range(len(cluster.heads))
                for _, _, names in os.walk(cluster.data(index) + "/blobs") for name in names]

    def check_output(self, cluster, job):
        """Both attempts', from a coordinator that did not receive the first one's; nothing of it is in a data directory."""
        steps = lambda first, last: "".join(f"step {step}\n" for step in range(first, last + 1)).encode()
        expected = {(0, 0, 1): b"attempt 0 rank 0 starts from step 0\n" + steps(1, 15),
                    (0, 0, 2): b"rank 0 fails at step 15\n",
                    (1, 0, 1): b"attempt 1 rank 0 starts from step 10\n" + steps(11, 30)}
        wait_until(lambda: {key: text for key, text in cluster.api.logs(job)[0].items() if text} == expected,
                   lambda: f"the output is exact: {cluster.api.logs(job)}")
        for index in range(len(cluster.heads)):
            self.assertFalse(os.path.exists(cluster.data(index) + f"/logs/{cluster.api.record(job).id}"))

    def read_so_far(self, cluster):
        """Bytes that the leader has read, from sockets as well."""
        with open(f"/proc/{cluster.heads[cluster.leader()].pid}/io") as file:
            return int(re.search(r"rchar: (\d+)", file.read())[1])

    def resume_at_another_coordinator(self, cluster, payload=64_000):
        """The node with the checkpoint goes, and the coordinator that took it dies. Returns what the leaders have read."""
        cluster.add_worker("a", "cpu:1")
        cluster.wait_nodes("a")
        go = self.path("go")
        job = cluster.submit("-n", "1", "--restarts", "1", *python_line(
            "counter.py", 30, "--every", 10, "--hold-at", 15, "--until", go, "--die-at", 15, "--bytes", payload))
        wait_until(lambda: 10 in self.steps(cluster, job), "step 10 is committed")
        read = self.read_so_far(cluster)
        took = cluster.kill_leader()
        cluster.add_worker("b", "cpu:1")
        cluster.wait_nodes("b")
        cluster.jobctl("nodes", "drain", "a")
        open(go, "w").close()
        record = cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        self.assertEqual([part.node for part in record.attempts[1].parts], ["b"])
        wait_until(lambda: b"attempt 1 rank 0 starts from step 10" in cluster.api.logs(job)[0].get((1, 0, 1), b""),
                   lambda: f"it starts from step 10: {cluster.api.logs(job)}")
        wait_until(lambda: 30 in self.steps(cluster, job), "the last checkpoint is committed")
        read += self.read_so_far(cluster)
        for step in self.steps(cluster, job):
            self.assertEqual(cluster.jobctl("ckpt", "verify", job, step, check=False).returncode, 0)
        self.assertEqual(self.blobs_of(cluster), [], "no coordinator has any")
        self.check_output(cluster, job)
        print(f"  another one led after {took:.1f} s, and had the checkpoint")
        return read

    def pull_from_the_store(self, cluster, payload):
        """jobctl gets a URL, and the coordinator reads nothing of the file."""
        read, to = self.read_so_far(cluster), self.path("pulled")
        cluster.jobctl("ckpt", "pull", "1", "--to", to)
        self.assertEqual(os.path.getsize(to + "/payload.bin"), payload)
        read = self.read_so_far(cluster) - read
        print(f"  ckpt pull of {payload / 1e6:.0f} MB: the coordinator read {read / 1e6:.2f} MB")
        self.assertLess(read, payload / 10)

    def survive_kills_while_a_checkpoint_is_sent(self, store, cluster):
        # Other bytes each time: what another job has sent goes through the coordinator.
        for victim, payload in (("worker", 300_000_000), ("leader", 299_000_000)):
            job = cluster.submit("-n", "1", *python_line("counter.py", 3, "--every", 3, "--bytes", payload))
            wait_until(store.uploads, lambda: "its upload has begun: " + cluster.jobctl("show", job).stdout + "".join(
                worker.output()[-1500:] for worker in cluster.workers.values()), every_s=0.02)
            if victim == "leader":
                cluster.kill_leader()
            else:
                worker = cluster.workers[cluster.api.record(job).attempts[0].parts[0].node]
                worker.kill9()
                worker.start()
            cluster.wait_for(job, SUCCEEDED, deadline_s=90)
            wait_until(lambda job=job: self.steps(cluster, job) == [3], f"committed in spite of a killed {victim}", 90)
            self.assertEqual(cluster.jobctl("ckpt", "verify", job, "3", check=False).returncode, 0)
            self.assertEqual(store.uploads(), [], "it is over")

    def wait_out_a_store_that_is_away(self, store, cluster):
        """What it cannot take waits; half a minute, most of it the store's own start."""
        store.daemon.kill9()
        later = cluster.submit("-n", "1", *python_line("counter.py", 7, "--every", 7))
        time.sleep(2)
        self.assertEqual(self.steps(cluster, later), [])
        store.daemon.start()
        cluster.wait_for(later, SUCCEEDED, deadline_s=90)
        wait_until(lambda: self.steps(cluster, later) == [7], "its checkpoint is committed", 60)

    def count_objects_of_many_ranks(self, store, cluster, nodes=4, ranks=50, seconds=30):
        """However many ranks a node has, it has one object every three seconds."""
        for index in range(nodes):
            cluster.add_worker(f"n{index}", f"cpu:{ranks}")
        cluster.wait_nodes(*(f"n{index}" for index in range(nodes)))
        lines = f"for i in $(seq {seconds * 2}); do echo rank $RANK line $i; sleep 0.5; done"
        job = cluster.submit("-n", str(nodes * ranks), "--nodes", str(nodes), "--", "sh", "-c", lines)
        cluster.wait_for(job, SUCCEEDED, deadline_s=seconds * 6)
        expected = {(0, rank, 1): "".join(f"rank {rank} line {line}\n" for line in range(1, seconds * 2 + 1)).encode()
                    for rank in range(nodes * ranks)}
        wait_until(lambda: {key: text for key, text in cluster.api.logs(job)[0].items() if text} == expected,
                   "all output is there", 60)
        record = cluster.api.record(job)
        took = (record.finished_ms - record.attempts[0].running_ms) / 1000
        puts = [key for key in store.keys() if f"/logs/{record.id}/" in key]
        print(f"  {nodes * ranks} ranks on {nodes} nodes, which print twice a second for {took:.0f} s: {len(puts)} objects, "
              f"{len(puts) * 60 / took / nodes:.0f} a minute and node")
        self.assertGreater(len(puts), nodes)
        self.assertLess(len(puts), nodes * (took / 3 * 1.5 + 10))

    def test_a_job_resumes_at_a_coordinator_that_never_saw_its_checkpoint(self):
        store = s3_server.SeaweedFs(self)
        self.env.update(store.environment())
        cluster = heads.Heads(self, heads.Etcd(self), count=2, args=["--objects", store.address("lab"), "--objects-direct"]).start()
        payload = 40_000_000
        read = self.resume_at_another_coordinator(cluster, payload)
        print(f"  the coordinators read {read / 1e6:.1f} MB, of three checkpoints of {payload / 1e6:.0f} MB that were sent and "
              "one that was fetched")
        self.assertLess(read, payload)
        self.pull_from_the_store(cluster, payload)
        if harness.FULL:
            self.survive_kills_while_a_checkpoint_is_sent(store, cluster)
            self.wait_out_a_store_that_is_away(store, cluster)
            self.count_objects_of_many_ranks(store, cluster)
        keys = store.keys()
        self.assertTrue(keys)
        for key in keys:
            self.assertRegex(key, r"^lab/[0-9a-f]{16}/(blobs/[0-9a-f]{2}/[0-9a-f]{64}/[0-9a-f]{16}"
                                  r"|logs/[0-9]+/[0-9]+/[a-z0-9]+/[0-9]+-[0-9a-f]{8}-m?[0-9]+)$")

    def test_a_directory_that_machines_share_does_as_well(self):
        os.mkdir(self.path("shared"))
        cluster = heads.Heads(self, heads.Etcd(self), count=2, args=["--objects", "file://" + self.path("shared")]).start()
        self.resume_at_another_coordinator(cluster)
        # The program in the docs, which knows nothing of Muster.
        with open(os.path.join(harness.ROOT, "docs", "formats.md")) as page:
            program = re.search(r"```python\n(import glob, struct\n.*?)```", page.read(), re.S)[1]
        reader = {}
        exec(program, reader)
        texts = {(attempt, 0, stream): reader["output"](self.path("shared"), 1, attempt, 0, stream)
                 for attempt in (0, 1) for stream in (1, 2)}
        self.assertEqual({key: text for key, text in texts.items() if text},
                         {key: text for key, text in cluster.api.logs(1)[0].items() if text})

    def test_one_that_is_alone_begins_with_it_later(self):
        cluster = self.cluster()
        before = cluster.submit("-n", "1", *python_line("counter.py", 10, "--every", 10))
        cluster.wait_for(before, SUCCEEDED)
        go = self.path("go")
        meanwhile = cluster.submit("-n", "1", *python_line("counter.py", 40, "--hold-at", 20, "--until", go))
        wait_until(lambda: b"step 20\n" in cluster.api.logs(meanwhile)[0].get((0, 0, 1), b""), "half of it is there")
        os.mkdir(self.path("shared"))
        cluster.coordinator.argv += ["--objects", "file://" + self.path("shared")]
        cluster.coordinator.stop()
        cluster.restart_coordinator()
        after = cluster.submit("-n", "1", *python_line("counter.py", 10, "--every", 10))
        cluster.wait_for(after, SUCCEEDED)
        open(go, "w").close()
        cluster.wait_for(meanwhile, SUCCEEDED)
        for job, steps in ((before, 10), (meanwhile, 40), (after, 10)):
            lines = ["attempt 0 rank 0 starts from step 0"] + [f"step {step}" for step in range(1, steps + 1)]
            wait_until(lambda job=job, lines=lines: cluster.api.logs(job)[0].get((0, 0, 1), b"").decode().splitlines() == lines,
                       lambda job=job: f"the output is exact: {cluster.api.logs(job)}")
        wait_until(lambda: not [name for _, _, names in os.walk(cluster.directory + "/data/blobs") for name in names],
                   "the data directory's blobs are moved")
        old = lambda job: f"{cluster.directory}/data/logs/{cluster.api.record(job).id}"
        wait_until(lambda: not os.path.exists(old(before)), "and what a job printed that had ended")
        self.assertTrue(os.path.exists(old(meanwhile)), "what continued in the store begins in files")
        for job in (before, after):
            wait_until(lambda job=job: cluster.jobctl("ckpt", "verify", job, "10", check=False).returncode == 0, job)
        os.mkdir(self.path("other"))
        cluster.coordinator.argv[-1] = "file://" + self.path("other")
        cluster.coordinator.stop()
        cluster.coordinator.start(expect_exit=True)
        self.assertIn("JC1641", cluster.coordinator.output())
        self.assertEqual(os.listdir(self.path("other")), [".muster-objects"], "nothing was put there")
        cluster.coordinator.argv[-1] = "file:///nowhere/at/all"
        cluster.coordinator.stop()
        cluster.coordinator.start(expect_exit=True)
        self.assertIn("/nowhere/at/all", cluster.coordinator.output())
        self.assertIn("JC1640", cluster.coordinator.output())


if __name__ == "__main__":
    harness.main()
