"""Wall clocks an hour apart change nothing: timeouts and leases run on monotonic clocks (F25)."""
import os
import shutil

import harness
from harness import SUCCEEDED, Case, need


DAY_MS = 24 * 3600 * 1000


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class LivedTime(Case):
    """Retention counts the coordinator's uptime, whatever its clock shows."""

    def finished(self, cluster, count):
        jobs = [cluster.submit("-n", "1", "--", "true") for _ in range(count)]
        for job in jobs:
            cluster.wait_for(job, SUCCEEDED)
        return jobs

    def passed(self, cluster, before):
        """Waits until housekeeping has checked the finished jobs since it wrote `before`."""
        def written():
            with open(os.path.join(cluster.directory, "data", "RETENTION"), "rb") as file:
                return file.read() != before
        harness.wait_until(written, "retention has counted")

    def retention(self, cluster):
        with open(os.path.join(cluster.directory, "data", "RETENTION"), "rb") as file:
            return file.read()

    def test_a_clock_forty_days_ahead_at_a_restart_removes_nothing(self):
        need(shutil.which("faketime"), "needs faketime")
        cluster = self.cluster()
        jobs = self.finished(cluster, 3)
        self.passed(cluster, b"")
        before = self.retention(cluster)
        cluster.coordinator.kill9()
        cluster.coordinator.prefix = ["faketime", "-m", "-f", "+40d"]
        cluster.restart_coordinator()
        self.passed(cluster, before)
        later = self.finished(cluster, 1)
        self.assertEqual(sorted(item.name for item in cluster.api.list()), sorted(jobs + later))
        self.assertNotIn("retention: removing", cluster.coordinator.output())

    def test_thirty_one_lived_days_remove_and_the_log_says_what(self):
        cluster = self.cluster()
        jobs = self.finished(cluster, 2)
        self.passed(cluster, b"")
        cluster.coordinator.stop()
        line = b"%020d " % (31 * DAY_MS)
        with open(os.path.join(cluster.directory, "data", "LIVED"), "wb") as file:
            file.write(line + b"%08x\n" % crc32c(line))
        cluster.coordinator.start()
        cluster.wait_serving()
        harness.wait_until(lambda: not cluster.api.list(), "both are removed")
        said = cluster.coordinator.output()
        self.assertRegex(said, r"retention: removing finished jobs count=2 of=2 older_than_30_days=2")
        for job in jobs:
            self.assertIn(job, said)


class Clocks(Case):
    def setUp(self):
        super().setUp()
        need(shutil.which("faketime"), "needs faketime")

    def test_nodes_an_hour_before_and_behind_work_as_usual(self):
        cluster = harness.Cluster(self).start()
        for name, shift in (("early", "-1h"), ("late", "+1h")):
            cluster.add_worker(name, "cpu:1", prefix=["faketime", "-m", "-f", shift], wait=False)
        cluster.wait_nodes("early", "late")
        job = cluster.submit("-n", "2", "--restarts", "1", "--", "sh", "-c",
                             'echo from $RANK; [ "$MUSTER_ATTEMPT" = 0 ] && [ $RANK = 1 ] && exit 3; sleep 1')
        record = cluster.wait_for(job, SUCCEEDED)
        self.assertEqual(record.next_attempt, 2)
        logs, dropped = cluster.api.logs(job)
        # Rank 0 of the first attempt may have been stopped before it wrote.
        self.assertEqual([logs.get(key) for key in ((0, 1, 1), (1, 0, 1), (1, 1, 1))],
                         [b"from 1\n", b"from 0\n", b"from 1\n"])
        self.assertEqual(sum(dropped.values()), 0)

    def test_a_coordinator_whose_clock_went_back_an_hour_serves_the_old_jobs(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(job, SUCCEEDED)
        cluster.coordinator.kill9()
        cluster.coordinator.prefix = ["faketime", "-m", "-f", "-1h"]
        cluster.restart_coordinator()
        later = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(later, SUCCEEDED)
        self.assertEqual([item.name for item in cluster.api.list()], [later, job])


if __name__ == "__main__":
    harness.main()
