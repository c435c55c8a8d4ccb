"""--cpus and --memory: enforced by the node's cgroups, kept over a worker's death, refused where no cgroup may be made."""
import json
import os
import re
import subprocess

import harness
from harness import FAILED, QUEUED, RUNNING, Case, need, wait_until

EAT = "import os; held = []\nwhile os.environ['RANK'] == '1': held.append(b'x' * (4 << 20))\nimport time; time.sleep(600)"

# Every cgroup hierarchy read-only, in its own mount namespace; then becomes the worker.
READ_ONLY = r"""
while read -r id parent device root point rest; do
  case "$rest" in *" - cgroup"*) mount -o remount,bind,ro "$point" || exit 1;; esac
done < /proc/self/mountinfo
exec "$@"
"""


def cgroup_files(pid, name):
    """The paths of the file in the cgroups of a process."""
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    found = []
    with open(f"/proc/{pid}/cgroup") as file:
        for line in file.read().splitlines():
            _, controllers, path = line.split(":", 2)
            for mount in mounts:
                kind = mount[mount.index("-") + 1]
                fits = kind == "cgroup2" if not controllers else \
                    kind == "cgroup" and set(controllers.split(",")) & set(mount[-1].split(","))
                if fits and os.path.exists(os.path.join(mount[4], path.strip("/"), name)):
                    found.append(os.path.join(mount[4], path.strip("/"), name))
    return found


class Limits(Case):
    def limited_cluster(self):
        cluster = self.cluster()
        facts = cluster.nodes()["node1"].record.facts
        self.assertTrue(facts.HasField("limits"), "a worker reports what it can limit")
        for gap in ("no_memory", "no_cpus"):
            need(not facts.limits.HasField(gap), f"this machine: {getattr(facts.limits, gap).why}")
        return cluster

    def rank_pid(self, job, rank):
        pids = [pid for pid, line in harness.processes_with(f"\0RANK={rank}\0").items() if self.directory in line]
        return pids[0] if pids else None

    def measured_limits(self, cluster, job):
        from muster.v1 import sample_pb2
        request = sample_pb2.QuerySamplesRequest(job=str(job))
        return {rank.memory_limit_bytes for bucket in cluster.api.stream("QuerySamples", request, sample_pb2.SampleBucket)
                for rank in bucket.last.ranks}

    def test_a_rank_at_its_memory_limit_is_the_first_cause_with_the_number(self):
        cluster = self.limited_cluster()
        self.assertRegex(cluster.jobctl("nodes", "show", "node1").stdout, r"Limits +cpus and memory, by cgroup v[12]")
        job = cluster.submit("-n", "2", "--memory", "100MiB", "--", harness.PYTHON, "-S", "-c", EAT)
        record = cluster.wait_for(job, FAILED)
        sentence = "rank 1 on node1 was killed: it reached its memory limit of 100 MiB (--memory)"
        self.assertEqual(record.reason, sentence)
        self.assertEqual(record.exit_code, 137)
        diagnosis = json.loads(cluster.jobctl("diagnose", job, "-o", "json").stdout)
        self.assertEqual(diagnosis["cause"]["kind"], "memory_limit")
        self.assertIn("a larger --memory than 100 MiB", diagnosis["fixes"][0])
        deaths = {death["rank"]: death for death in diagnosis["deaths"]}
        self.assertEqual(deaths[1]["memory_limit_bytes"], 100 << 20)
        self.assertEqual(deaths[0]["memory_limit_bytes"], 0)

    def test_limits_of_adopted_ranks_hold_and_are_removed_with_them(self):
        cluster = self.limited_cluster()
        program = self.path("sleeper.py")
        with open(program, "w") as file:
            file.write("import os, time; print(os.environ['OMP_NUM_THREADS'], flush=True); time.sleep(600)")
        job = cluster.submit("-n", "2", "--cpus", "0.5", "--memory", "300MiB", "--", harness.PYTHON, "-S", program)
        cluster.wait_for(job, RUNNING)
        pid = wait_until(lambda: self.rank_pid(job, 1), "rank 1 runs")

        def limits():
            values = {}
            for name in ("memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us"):
                for path in cgroup_files(pid, name):
                    with open(path) as file:
                        values[path] = file.read().split()[0]
            return values
        before = limits()
        self.assertEqual(sorted(before.values()), [str(300 << 20), "50000"], before)
        self.assertTrue(all("/rank-1/" in path for path in before), before)
        wait_until(lambda: 300 << 20 in self.measured_limits(cluster, job), "the limit is measured, for the findings")
        self.assertIn("at most 0.5 cpus and 300 MiB of memory per rank", cluster.jobctl("show", job).stdout)
        cluster.workers["node1"].kill9()
        wait_until(lambda: not cluster.nodes()["node1"].record.connected, "the worker is gone")
        cluster.workers["node1"].start()
        wait_until(lambda: cluster.nodes()["node1"].record.connected, "the worker is back")
        self.assertEqual(limits(), before)
        self.assertEqual(cluster.api.logs(job)[0][(0, 1, 1)], b"1\n")
        cluster.jobctl("cancel", job, "--grace", "0")
        cluster.wait_over(job)
        for path in before:
            attempt = os.path.dirname(os.path.dirname(path))
            wait_until(lambda: not os.path.exists(attempt), f"{attempt} is removed")

    def test_a_supervisor_that_was_killed_leaves_no_cgroup(self):
        cluster = self.limited_cluster()
        program = self.path("sleeper.py")
        with open(program, "w") as file:
            file.write("import time; time.sleep(600)")
        job = cluster.submit("-n", "2", "--memory", "300MiB", "--", harness.PYTHON, "-S", program)
        cluster.wait_for(job, RUNNING)
        pid = wait_until(lambda: self.rank_pid(job, 0), "rank 0 runs")
        files = cgroup_files(pid, "memory.max") + cgroup_files(pid, "memory.limit_in_bytes")
        with open(f"/proc/{pid}/stat") as file:
            supervisor = int(file.read().rsplit(")", 1)[1].split()[1])
        cluster.workers["node1"].kill9()
        harness.kill9(supervisor)
        cluster.workers["node1"].start()
        self.assertTrue(files)
        for path in files:
            attempt = os.path.dirname(os.path.dirname(path))
            wait_until(lambda: not os.path.exists(attempt), f"{attempt} is removed")

    def read_only_worker(self, cluster, name):
        can_take_away = os.geteuid() == 0 and \
            subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
        cluster.add_worker(name, prefix=["unshare", "-m", "sh", "-c", READ_ONLY, "sh"] if can_take_away else [])
        limits = cluster.nodes()[name].record.facts.limits
        need(limits.HasField("no_memory") and limits.HasField("no_cpus"),
             "root and mount namespaces are needed to take a worker's cgroups away")

    def test_where_no_cgroup_may_be_made_the_job_is_refused_before_anything_starts(self):
        cluster = self.cluster(workers=())
        self.read_only_worker(cluster, "frozen")
        line = ["-n", "1", "--memory", "64MiB", "--", "true"]
        done = cluster.jobctl("submit", *line, check=False)
        self.assert_error(done, "JC1413", "frozen cannot limit memory", "on frozen: ")
        self.assertEqual(done.stdout, "")
        run = cluster.jobctl("run", "--cpus", "1", "--", "true", check=False)
        self.assert_error(run, "JC1413", "frozen cannot limit cpus")
        self.assertEqual(cluster.jobctl("plan", *line, check=False).returncode, 11)
        self.assertRegex(cluster.jobctl("nodes", "show", "frozen").stdout, r"Limits +not memory: its .* fix: ")
        # Without limits the node is as good as any.
        self.assertEqual(cluster.jobctl("run", "--", "true").returncode, 0)

    def test_a_job_that_was_told_to_wait_starts_on_a_node_that_can_limit_it(self):
        cluster = self.cluster(workers=())
        self.read_only_worker(cluster, "frozen")
        job = cluster.submit("-n", "1", "--queue-anyway", "--memory", "64MiB", "--", "sleep", "600")
        self.assertEqual(cluster.state(job), QUEUED)
        self.assertIn("frozen cannot limit memory", cluster.jobctl("why", job).stdout)
        cluster.add_worker("node2")
        facts = cluster.nodes()["node2"].record.facts
        need(not facts.limits.HasField("no_memory"), f"this machine: {facts.limits.no_memory.why}")
        record = cluster.wait_for(job, RUNNING)
        self.assertEqual([part.node for part in record.attempts[0].parts], ["node2"])
        cluster.jobctl("cancel", job, "--grace", "0")
        cluster.wait_over(job)  # its cgroups go with it

    def test_wrong_values_are_refused_with_what_to_write(self):
        cluster = self.cluster()
        for flag, value, hint in (("--memory", "4H", "512MiB (powers of 1,024), 4GB"), ("--memory", "1KB", "4 MiB"),
                                  ("--cpus", "0", "0.01"), ("--cpus", "1.2345", "three decimals")):
            done = cluster.jobctl("submit", flag, value, "--", "true", check=False)
            self.assert_error(done, hint)
            self.assertIsNone(re.search("JC1413", done.stderr))


if __name__ == "__main__":
    harness.main()
