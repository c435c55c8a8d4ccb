"""A node that stands still as a whole, as a frozen container does, for longer than its fence and grace: by then its
ranks run elsewhere. When it resumes, the old ranks may do no more than what the scheduler lets them do before they
are killed. The ranks' own writes are the evidence, counted."""
import os
import signal

import harness
from harness import RUNNING, SUCCEEDED, Case, wait_until

GRACE_S = 3
# A rank that has its whole grace writes about a thousand lines in each second of it.
BESIDE_MAX = GRACE_S * 1000 // 10


class Node:
    """A worker, its supervisors and their ranks."""

    def __init__(self, worker):
        self.worker = worker.pid
        self.shim = next(pid for pid, (_, line) in harness.children_of(self.worker).items() if "muster-shim" in line)
        self.ranks = list(harness.children_of(self.shim))

    def stop(self):
        for pid in (*self.ranks, self.shim, self.worker):
            os.kill(pid, signal.SIGSTOP)

    def has_ranks(self):
        return any(state not in "ZX" for state, _ in harness.children_of(self.shim).values())


class Standstill(Case):
    def ticks(self):
        with open(self.path("ticks")) as file:
            return file.read().split()

    def beside(self):
        """How many lines attempt 0 wrote after the first one of attempt 1."""
        ticks = self.ticks()
        return ticks[ticks.index("1"):].count("0")

    def overtaken(self):
        """A cluster in which a node stands still whose job runs on the other one by now."""
        cluster = self.cluster(workers=("far",), devices="cpu:1", heartbeat_ms=300,
                               coordinator_args=("--suspect-after-ms", "600", "--fence-margin-ms", "500"))
        job = cluster.submit("-n", "1", "--set", "stop_after=2s", "--grace", f"{GRACE_S}s",
                             *harness.python_line("ticking.py", self.path("ticks"), self.path("go")))
        cluster.wait_for(job, RUNNING)
        wait_until(lambda: os.path.exists(self.path("ticks")) and self.ticks(), "the rank is running")
        cluster.add_worker("near", "cpu:1")
        node = Node(cluster.workers["far"])
        self.assertTrue(node.ranks)
        node.stop()
        wait_until(lambda: "1" in self.ticks(), lambda: cluster.api.record(job).reason, 60)
        self.assertEqual(self.beside(), 0)
        return cluster, job, node

    def goes_on(self, *order):
        """Resumes the node's processes in this order; the last one only when the ranks are dead."""
        cluster, job, node = self.overtaken()
        for pid in node.ranks:
            os.kill(pid, signal.SIGCONT)
        *first, last = (getattr(node, name) for name in order)
        for pid in first:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not node.has_ranks(), "the old rank is dead")
        beside = self.beside()
        os.kill(last, signal.SIGCONT)
        self.assertLess(beside, BESIDE_MAX, "lines that the old rank wrote beside the new attempt")
        wait_until(lambda: not os.path.exists(f"/proc/{node.shim}"), "the supervisor proves the end")
        open(self.path("go"), "w").close()
        record = cluster.wait_for(job, SUCCEEDED)
        self.assertEqual(record.next_attempt, 2)
        self.assertEqual(record.attempts[0].parts[0].how_ended, "fenced by time")
        self.assertEqual(self.beside(), beside)

    def test_its_supervisor_kills_the_ranks_at_once(self):
        self.goes_on("shim", "worker")

    def test_its_worker_kills_the_ranks_at_once_if_their_supervisor_still_stands_still(self):
        self.goes_on("worker", "shim")


if __name__ == "__main__":
    harness.main()
