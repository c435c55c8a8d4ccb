"""What one job may keep of the disk, what is shown of it, and how a full disk is freed."""
import json
import os
import subprocess

import harness
from harness import SUCCEEDED, Case, need, wait_until

MIB = 1 << 20


def tree_bytes(path):
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


class Quotas(Case):
    def submit_file(self, cluster, text):
        path = self.path("job.yaml")
        with open(path, "w") as file:
            file.write(text)
        return cluster.submit(path, cwd=self.directory)

    def test_output_beyond_the_quota_goes_oldest_first_and_the_reader_is_told(self):
        cluster = self.cluster(coordinator_args=("--job-log-quota", "4MB"))
        job = cluster.submit("-n", "1", "--", "seq", "1000000", "2000000")
        cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        cluster.jobctl("logs", job, timeout=60)  # waits for the rest of it; what was read in time is whole
        logs = os.path.join(cluster.directory, "data", "logs")
        self.assertLess(tree_bytes(logs), 5 * MIB)
        done = cluster.jobctl("logs", job, timeout=60)
        lines = [line.removeprefix("[node1:0] ") for line in done.stdout.split("\n")]
        self.assertRegex(done.stderr, r"rank 0 on node1: [\d.]+ MB \((\d+) bytes\) of older output removed here: "
                                      r"the job has reached its log quota \(logs_keep, --job-log-quota\)")
        self.assertEqual(lines[-2], "2000000")
        whole = [line for line in lines if len(line) == 7]
        self.assertEqual(whole, [str(number) for number in range(2000001 - len(whole), 2000001)], "nothing is missing after it")

    def test_a_job_keeps_less_and_chooses_what_is_shown_of_it(self):
        cluster = self.cluster()
        job = self.submit_file(cluster, f"""
command: seq 1000000 1500000; exec {harness.PYTHON} -S {harness.rank_script("losses.py")} 100 --steps-per-epoch 80
logs_keep: 1MiB
metric: epoch
resources: {{processes: 1, devices: cpu}}
""")
        cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        cluster.jobctl("logs", job, timeout=60)
        self.assertLess(tree_bytes(os.path.join(cluster.directory, "data", "logs")), 1.3 * MIB)

        def shown():
            row = json.loads(cluster.jobctl("ls", "-a", "-o", "json").stdout)["items"][0]
            return row if row.get("loss_name") == "epoch" else None
        self.assertAlmostEqual(wait_until(shown, "the metric that the job file names")["loss"], 1.25)
        # Run is another way in, for a client that stays.
        attached = cluster.api.service.SubmitRequest(idempotency_key="attached")
        attached.spec.CopyFrom(cluster.api.record(job).spec)
        *_, last = cluster.api.stream("Run", attached, cluster.api.service.JobUpdate)
        self.assertEqual(last.record.state, SUCCEEDED)
        self.assertAlmostEqual(wait_until(shown, "of the attached one, too")["loss"], 1.25)
        cluster.restart_coordinator()
        self.assertAlmostEqual(wait_until(shown, "after a restart, too")["loss"], 1.25)
        bad = self.path("bad.yaml")
        with open(bad, "w") as file:
            file.write("command: [true]\nlogs_keep: 10KB\n")
        self.assert_error(cluster.jobctl("submit", bad, check=False), "logs_keep", "10000 bytes")

    def test_metrics_beyond_the_quota_are_not_kept_and_everyone_is_told(self):
        cluster = self.cluster(coordinator_args=("--job-metrics-quota", "20KB"))
        job = cluster.submit("-n", "1", "--", harness.PYTHON, "-S", harness.rank_script("reporter.py"), "2000")
        cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        self.assertLess(tree_bytes(os.path.join(cluster.directory, "data", "metrics")), 60_000)
        done = wait_until(lambda: (lambda found: found if "quota" in found.stderr else None)(
            cluster.jobctl("metrics", job)), "metrics names the quota")
        self.assertIn("--job-metrics-quota", done.stderr)
        row = wait_until(lambda: (lambda row: row if row["step"] == 1999 else None)(
            json.loads(cluster.jobctl("ls", "-a", "-o", "json").stdout)["items"][0]), "the newest step is shown")
        self.assertEqual(row["loss_name"], "loss")

    def test_who_has_too_much_output_kept_submits_no_more_until_some_is_removed(self):
        cluster = self.cluster(coordinator_args=("--person-log-quota", "100KB"))
        job = cluster.submit("-n", "1", "--", "seq", "1000000", "1020000")
        cluster.wait_for(job, SUCCEEDED)
        cluster.jobctl("logs", job)
        def look_again():
            cluster.coordinator.stop()
            cluster.restart_coordinator()  # It looks at its start, and every minute.

        def usage():
            rows = json.loads(cluster.jobctl("user", "ls", "--usage", "-o", "json").stdout)["items"]
            return rows[0] if rows and rows[0]["log_bytes"] else None
        look_again()
        row = wait_until(usage, "it has looked")
        self.assertEqual(row["owner"], f"uid:{os.geteuid()}")
        refused = cluster.jobctl("submit", "--", "true", check=False)
        self.assert_error(refused, "JC1628")
        self.assertRegex(refused.stderr, rf"the output of the jobs of {row['owner']} takes \d+ KB, and one person may have 100 KB")
        said = cluster.jobctl("user", "ls", "--usage")
        self.assertRegex(said.stdout, rf"(?m)^{row['owner']}\t.*\t\d+ KB$")
        self.assertIn("submits with up to 100 KB of logs kept", said.stderr)
        cluster.jobctl("rm", job, "--yes")
        look_again()
        wait_until(lambda: cluster.jobctl("submit", "--queue-anyway", "--", "true", check=False).returncode == 0, "there is room")

    def test_flags_that_are_no_share_are_refused(self):
        for text in ("0%", "101%", "10 percent", "-1", "5%%"):
            done = subprocess.run([os.path.join(harness.BIN, "muster-coordinator"), "--data-dir", self.path("d"),
                                   "--job-log-quota", text], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("a size like 50GB, a share like 10%, or 0 for no limit", done.stdout + done.stderr)


class FullDisk(Case):
    """The data directory on a small tmpfs; needs root."""

    def small_cluster(self):
        need(os.geteuid() == 0, "needs root to mount a tmpfs")
        data = self.path("c") + "/data"
        cluster = harness.Cluster(self)
        os.makedirs(data)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "none", data], capture_output=True)
        need(done.returncode == 0, "cannot mount a tmpfs here")
        self.addCleanup(subprocess.run, ["umount", "-l", data], capture_output=True)
        cluster.start()
        cluster.add_worker("node1", "cpu:4")
        return cluster, data

    def fill(self, data, leave=0):
        """Until only so many bytes are free, also of what others free meanwhile."""
        def filled():
            with open(data + "/filler", "ab") as file:
                disk = os.statvfs(data)
                try:
                    os.posix_fallocate(file.fileno(), file.tell(), max(1, disk.f_bavail * disk.f_frsize - leave))
                except OSError:
                    pass
            return os.statvfs(data).f_bavail * disk.f_frsize <= leave
        wait_until(filled, "the disk is full")

    def test_it_is_told_before_and_freed_by_those_who_use_it(self):
        cluster, data = self.small_cluster()
        old = [cluster.submit("-n", "1", "--", "sh", "-c", "seq 1000000 2000000") for _ in range(5)]
        for job in old:
            cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        live = cluster.submit("-n", "1", "--", "sleep", "600")
        # The coordinator may free some of it at any time, e.g. when it compresses output.
        wait_until(lambda: self.fill(data, leave=8 * MIB) or "almost full" in cluster.jobctl("events").stdout,
                   "an event tells it", 20)
        self.assertIn("! the coordinator's disk is almost full", cluster.jobctl("nodes").stderr)
        # What runs is still recorded, until the reserve is used up as well.
        def refused():
            if os.path.exists(data + "/HEADROOM"):
                self.fill(data)
            return "JC1605" in cluster.jobctl("submit", "--", "true", check=False).stderr
        wait_until(refused, "submits are refused", 30)
        done = cluster.jobctl("submit", "--", "true", check=False)
        self.assert_error(done, "[JC1605]", "jobctl rm removes finished jobs", data)
        if os.path.exists(data + "/HEADROOM"):
            os.remove(data + "/HEADROOM")
        self.fill(data)
        self.assertIn(live, cluster.jobctl("ls", timeout=60).stdout)
        cluster.jobctl("cancel", live, timeout=60)
        cluster.jobctl("rm", "--yes", *old, timeout=60)
        os.truncate(data + "/filler", max(0, os.path.getsize(data + "/filler") - 24 * MIB))
        wait_until(lambda: cluster.jobctl("submit", "--", "true", check=False, timeout=60).returncode == 0,
                   "jobs are accepted again", 60)
        wait_until(lambda: "has room again" in cluster.jobctl("events").stdout, "an event tells it", 30)


if __name__ == "__main__":
    harness.main()
