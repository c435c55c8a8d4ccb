"""Acknowledged submits are never lost, even if the coordinator dies halfway (J1, J2)."""
import threading

import harness
from harness import SUCCEEDED, Case, wait_until


class ManyJobs(Case):
    def test_two_hundred_in_a_row_all_succeed_across_a_kill_of_the_coordinator(self):
        cluster = self.cluster(devices="cpu:8")
        names = []

        def submit_all():
            for number in range(200):
                line = ["submit", "-o", "name", "-n", "1", "--name", f"many{number}", "--idempotency-key",
                        f"key-{number}", "--", "true"]
                # Exit 5 means no answer: the same key may be resent, whether or not the first one arrived.
                done = wait_until(lambda: (lambda tried: tried if tried.returncode != 5 else None)(
                    cluster.jobctl(*line, check=False)), "submitted")
                names.append(done.stdout.strip())
        thread = threading.Thread(target=submit_all)
        thread.start()
        wait_until(lambda: len(names) >= 100 or not thread.is_alive(), "half of the jobs are submitted", 60)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        thread.join(timeout=120)
        self.assertEqual(len(set(names)), 200)

        def all_over():
            jobs = {job.name: job.state for job in cluster.api.list()}
            return jobs if len(jobs) == 200 and all(state in harness.OVER for state in jobs.values()) else None
        jobs = wait_until(all_over, "all 200 jobs are over", 120, every_s=0.2)
        self.assertEqual(set(jobs), set(names))
        self.assertEqual(set(jobs.values()), {SUCCEEDED})
        listed = cluster.jobctl("ls", "-a", "-o", "name", "--limit", "1000").stdout.split()
        self.assertEqual(set(listed), set(names))

    def test_a_key_answers_with_the_same_job_also_after_a_restart_and_after_its_end(self):
        cluster = self.cluster()
        first = cluster.submit("--idempotency-key", "once", "-n", "1", "--", "true")
        cluster.wait_for(first, SUCCEEDED)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual(cluster.submit("--idempotency-key", "once", "-n", "1", "--", "true"), first)
        other = cluster.jobctl("submit", "--idempotency-key", "once", "-n", "1", "--", "false", check=False)
        self.assert_error(other, "once")
        self.assertEqual(len(cluster.api.list()), 1)

    def test_jobs_wait_in_order_and_say_for_what(self):
        cluster = self.cluster(devices="cpu:2")
        first = cluster.submit("-n", "2", "--", "sleep", "600")
        cluster.wait_for(first, harness.RUNNING)
        second = cluster.submit("-n", "2", "--", "true")
        third = cluster.submit("-n", "1", "--", "true")
        why = cluster.jobctl("why", second).stdout
        self.assertRegex(why, r"2.*cpu")
        self.assertIn(second, cluster.jobctl("why", third).stdout, "the head of the line blocks")
        cluster.jobctl("cancel", first, "--grace", "1s")
        cluster.wait_for(third, SUCCEEDED)
        self.assertLessEqual(cluster.api.record(second).first_running_ms, cluster.api.record(third).first_running_ms)

    def test_submitted_before_any_node_waits_and_then_runs(self):
        cluster = self.cluster(workers=())
        job = cluster.submit("-n", "1", "--", "true")
        self.assertIn("node", cluster.jobctl("why", job).stdout)
        cluster.add_worker("late")
        cluster.wait_for(job, SUCCEEDED)


if __name__ == "__main__":
    harness.main()
