"""After cancel and grace nothing of a job is alive, however its ranks tried to escape (J6, F4, F5)."""
import os
import time

import harness
from harness import CANCELLED, RUNNING, Case, processes_with, wait_until

# Ignores SIGTERM, leaves a grandchild in a separate session and a double-forked one.
STUBBORN = """
trap '' TERM INT HUP
setsid sh -c 'trap "" TERM; while :; do sleep 1; done' &
( ( trap '' TERM; exec setsid sh -c 'while :; do sleep 1; done' ) & )
touch "$READY.$RANK"
while :; do sleep 1; done
"""


class NothingSurvives(Case):
    def stubborn(self, cluster, ranks=2):
        ready = self.path("ready")
        marker = f"STUBBORN={os.path.basename(self.directory)}"
        job = cluster.submit("-n", ranks, "-e", marker, "-e", f"READY={ready}", "--", "sh", "-c", STUBBORN)
        wait_until(lambda: all(os.path.exists(f"{ready}.{rank}") for rank in range(ranks)), "the ranks are up")
        self.assertGreaterEqual(len(processes_with(marker)), ranks * 3)
        return job, marker

    def test_cancel_ends_ignorers_and_escaped_grandchildren_after_the_grace(self):
        cluster = self.cluster()
        job, marker = self.stubborn(cluster)
        started = time.monotonic()
        cluster.jobctl("cancel", job, "--grace", "1s")
        cluster.wait_for(job, CANCELLED, deadline_s=10)
        took = time.monotonic() - started
        self.assertEqual(processes_with(marker), {}, "cancelled means nothing is alive")
        self.assertGreaterEqual(took, 0.9, "the grace was given")
        self.assertLess(took, 4)

    def test_obedient_ranks_do_not_wait_for_the_grace(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "2", "--", "sleep", "600")
        cluster.wait_for(job, RUNNING)
        started = time.monotonic()
        cluster.jobctl("cancel", job, "--grace", "30s")
        cluster.wait_for(job, CANCELLED, deadline_s=5)
        self.assertLess(time.monotonic() - started, 3)

    def test_a_stopped_rank_is_woken_to_hear_of_its_end(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", "sh", "-c", "trap 'echo bye; exit 0' TERM; kill -STOP $$; "
                             "while :; do sleep 0.05; done")
        cluster.wait_for(job, RUNNING)
        cluster.jobctl("cancel", job, "--grace", "10s")
        cluster.wait_for(job, CANCELLED, deadline_s=8)
        logs, _ = cluster.api.logs(job)
        self.assertIn(b"bye", logs[(0, 0, 1)])

    def test_a_finished_rank_leaves_no_background_process_behind(self):
        cluster = self.cluster()
        marker = f"LEFTBEHIND={os.path.basename(self.directory)}"
        job = cluster.submit("-n", "1", "-e", marker, "--", "sh", "-c",
                             "setsid sleep 600 >/dev/null 2>&1 & exit 0")
        cluster.wait_over(job)
        self.assertEqual(processes_with(marker), {})

    def test_kill_9_of_an_attached_jobctl_ends_ignorers_too(self):
        muster = self.private()
        ready = self.path("ready")
        client = muster.start_jobctl("run", "-n", "2", "--grace", "1s", "-e", f"READY={ready}", "--", "sh", "-c",
                                     STUBBORN)
        wait_until(lambda: os.path.exists(ready + ".0") and os.path.exists(ready + ".1"), "the ranks are up")
        client.kill()
        client.wait()
        self.assert_gone(self.mark, deadline_s=15)

    def test_a_cancelled_job_stays_cancelled_across_a_kill_of_the_worker(self):
        cluster = self.cluster()
        job, marker = self.stubborn(cluster)
        cluster.jobctl("cancel", job, "--grace", "2s")
        cluster.workers["node1"].kill9()
        cluster.workers["node1"].start()
        cluster.wait_for(job, CANCELLED, deadline_s=20)
        self.assertEqual(processes_with(marker), {})

    def test_signals_reach_every_rank(self):
        cluster = self.cluster()
        ready = self.path("ready")
        job = cluster.submit("-n", "2", "--", "sh", "-c", f"trap 'echo got it; exit 0' USR1; touch {ready}.$RANK; "
                             "while :; do sleep 0.05; done")
        wait_until(lambda: os.path.exists(ready + ".0") and os.path.exists(ready + ".1"), "the ranks are up")
        cluster.jobctl("signal", job, "USR1")
        cluster.wait_for(job, harness.SUCCEEDED)
        logs, _ = cluster.api.logs(job)
        self.assertEqual([logs[(0, rank, 1)] for rank in (0, 1)], [b"got it\n"] * 2)


if __name__ == "__main__":
    harness.main()
