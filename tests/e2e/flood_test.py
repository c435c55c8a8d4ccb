"""A rank that floods its output slows no other job, fills no memory, and its loss is counted and visible (F37)."""
import os
import time

import harness
from harness import FULL, Case, rss_bytes, wait_until

FLOOD_BYTES = (1 << 30) if FULL else (192 << 20)


class Flood(Case):
    def flood(self):
        return ["--", "sh", "-c", f"head -c {FLOOD_BYTES} /dev/zero | tr '\\0' x; echo; echo flood over >&2"]

    def test_memory_stays_bounded_and_other_jobs_run_at_once(self):
        cluster = self.cluster(devices="cpu:2")
        job = cluster.submit("-n", "1", *self.flood())
        cluster.wait_for(job, harness.RUNNING, harness.SUCCEEDED)
        peak, others = 0, []
        while cluster.state(job) not in harness.OVER:
            started = time.monotonic()
            other = cluster.submit("-n", "1", "--", "true")
            cluster.wait_for(other, harness.SUCCEEDED)
            others.append(time.monotonic() - started)
            for daemon in (cluster.coordinator, cluster.workers["node1"]):
                peak = max(peak, rss_bytes(daemon.pid))
            self.assertLess(len(others), 2000)
        self.assertEqual(cluster.state(job), harness.SUCCEEDED)
        self.assertLess(peak, 300 << 20, "bytes of resident memory of a daemon")
        if others:
            self.assertLess(sorted(others)[len(others) // 2], 1.5)
        self.assertFalse([view for view in cluster.nodes().values() if "SUSPECT" in str(view.record)])

    def test_every_byte_is_stored_or_counted_as_dropped(self):
        cluster = self.cluster(devices="cpu:2")
        job = cluster.submit("-n", "1", *self.flood())
        cluster.wait_for(job, harness.SUCCEEDED, deadline_s=120)

        def total():
            size, lost = 0, 0
            service = cluster.api.service
            for record in cluster.api.stream("StreamLogs", service.StreamLogsRequest(job=job, attempt=-1),
                                             service.LogRecord):
                if record.stream == 1:
                    self.assertEqual(record.offset, size + lost + record.dropped)
                    size, lost = size + len(record.data), lost + record.dropped
                    self.assertEqual(record.data.strip(b"x\n"), b"")
            return (size, lost) if size + lost == FLOOD_BYTES + 1 else None
        size, lost = wait_until(total, "all bytes of the flood accounted for", deadline_s=60, every_s=0.5)
        self.assertGreater(size, 0)
        self.assertIn("flood over", cluster.jobctl("logs", job, "--tail", "3").stderr +
                      cluster.jobctl("logs", job, "--tail", "3").stdout)

    def test_a_burst_beyond_the_quota_loses_nothing_while_the_coordinator_takes_it(self):
        """Eight ranks write more than a node buffers, faster than it drains: backpressure slows them, nothing is dropped."""
        cluster = self.cluster(devices="cpu:8")
        each = 50_000_000
        job = cluster.submit("-n", "8", "--", "sh", "-c", f"head -c {each} /dev/zero | tr '\\0' $RANK")
        cluster.wait_for(job, harness.SUCCEEDED, deadline_s=120)
        service = cluster.api.service
        sizes, lost = {}, 0

        def whole():
            nonlocal lost
            sizes.clear()
            for record in cluster.api.stream("StreamLogs", service.StreamLogsRequest(job=job, attempt=-1),
                                             service.LogRecord):
                lost += record.dropped
                sizes[record.rank] = sizes.get(record.rank, 0) + len(record.data)
                self.assertEqual(record.data.strip(str(record.rank).encode()), b"")
            return lost > 0 or sum(sizes.values()) == 8 * each
        wait_until(whole, "all bytes are there", deadline_s=60, every_s=0.5)
        self.assertEqual((lost, sizes), (0, {rank: each for rank in range(8)}))

    def test_a_line_without_an_end_is_no_trouble(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", "sh", "-c", "head -c 8000000 /dev/zero")
        cluster.wait_for(job, harness.SUCCEEDED)

        def whole():
            logs, dropped = cluster.api.logs(job)
            return len(logs.get((0, 0, 1), b"")) + sum(dropped.values()) == 8_000_000
        wait_until(whole, "all bytes are stored or counted")


if __name__ == "__main__":
    harness.main()
