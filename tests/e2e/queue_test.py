"""Who starts when: held places, jobs that pass, estimates of people and of trainers, and what people read about it."""
import json

import harness
from harness import QUEUED, RUNNING, SUCCEEDED, Case, python_line, wait_until


class Queue(Case):
    def queue(self, cluster):
        return json.loads(cluster.jobctl("queue", "-o", "json").stdout)["items"]

    def gated(self, cluster, gate, *args):
        """A job that ends once the file is there."""
        return cluster.submit(*args, "--", "sh", "-c", f"until test -e {self.path(gate)}; do sleep 0.05; done")

    def open(self, gate):
        with open(self.path(gate), "w"):
            pass

    def test_jobs_pass_where_they_delay_nobody_and_the_queue_says_when_each_starts(self):
        cluster = self.cluster(devices="cpu:4")
        long = self.gated(cluster, "long", "--name", "long", "-n", "2", "--estimate", "1h")
        cluster.wait_for(long, RUNNING)
        first = cluster.submit("--name", "first", "-n", "4", "--estimate", "2h", "--", "true")
        unknown = cluster.submit("--name", "unknown", "-n", "2", "--", "true")
        short = self.gated(cluster, "short", "--name", "short", "-n", "2", "--estimate", "30m")
        cluster.wait_for(short, RUNNING)
        self.assertEqual([row["job"] for row in self.queue(cluster)], [first, unknown])
        self.assertEqual(cluster.state(unknown), QUEUED)

        def check():
            rows = self.queue(cluster)
            self.assertEqual([(row["job"], row["place"], row["needs"]) for row in rows],
                             [(first, 1, "4 cpu"), (unknown, 2, "2 cpu")])
            self.assertTrue(0.9 < rows[0]["starts_in_ms"] / 3_600_000 <= 1, rows[0])
            self.assertTrue(1.1 < rows[0]["starts_until_ms"] / 3_600_000 <= 1.25, rows[0])
            self.assertTrue(2.9 < rows[1]["starts_in_ms"] / 3_600_000 <= 3, "once the first one has ended")
            self.assertEqual(rows[0]["place_held"], "node1 4")
            why = cluster.jobctl("why", first).stdout
            self.assertRegex(why, f"expected to start in 59m to 1h 1[0-9]m, after .*{long} .its estimate")
            self.assertRegex(cluster.jobctl("why", unknown).stdout, "expected to start in 2h 5[0-9]m to ")
        check()
        plan = cluster.jobctl("plan", "-n", "1", "--", "true", check=False)
        self.assertIn(f"waits behind {first}", plan.stdout)
        self.assertRegex(plan.stdout, "would start in 2h 5[0-9]m to ")
        shown = cluster.jobctl("queue").stdout
        print(shown)
        self.assertTrue(all(len(line) <= 80 for line in cluster.jobctl("queue", env={"COLUMNS": "80"}).stdout.splitlines()
                            if "\t" not in line))

        self.open("short")
        cluster.wait_for(short, SUCCEEDED)
        self.assertEqual(cluster.state(unknown), QUEUED, "its devices are held")
        self.assertRegex(cluster.jobctl("why", unknown).stdout, "--estimate 5[0-9]m, or less, would start it now")
        cluster.jobctl("set", unknown, "--estimate", "20m")
        cluster.wait_for(unknown, SUCCEEDED)
        self.assertIn("set by", cluster.jobctl("events", unknown).stdout)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        wait_until(lambda: self.queue(cluster)[0].get("starts_in_ms"), "it is known again when the first job starts")
        self.open("long")
        cluster.wait_for(first, SUCCEEDED)

    def test_what_is_set_decides_who_is_first(self):
        cluster = self.cluster(devices="cpu:2")
        held = self.gated(cluster, "gate", "-n", "2")
        cluster.wait_for(held, RUNNING)
        jobs = [cluster.submit("-n", "2", "--", "true") for _ in range(3)]

        def order():
            return [row["job"] for row in self.queue(cluster)]
        self.assertEqual(order(), jobs)
        cluster.jobctl("set", jobs[2], "--priority", "7")
        self.assertEqual(order(), [jobs[2], jobs[0], jobs[1]])
        cluster.jobctl("set", jobs[1], "--urgent")
        self.assertEqual(order(), [jobs[1], jobs[2], jobs[0]])
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual(order(), [jobs[1], jobs[2], jobs[0]])
        self.assert_error(cluster.jobctl("set", jobs[1], check=False), "nothing to set", "JC1004")
        self.assert_error(cluster.jobctl("set", "nothing-9", "--priority", "1", check=False), "nothing-9", "JC1201")
        self.assert_error(cluster.jobctl("set", jobs[1], "--estimate", "2000d", check=False), "estimate takes", "JC1108")
        self.assert_error(cluster.jobctl("submit", "--estimate", "10ms", "--", "true", check=False), "estimate takes", "JC1108")
        self.open("gate")
        for job in jobs:
            cluster.wait_for(job, SUCCEEDED)
        self.assert_error(cluster.jobctl("set", jobs[0], "--priority", "1", check=False), "is over", "JC1203")
        begun = {job: cluster.api.record(job).attempts[0].started_ms for job in jobs}
        self.assertEqual(sorted(begun, key=begun.get), [jobs[1], jobs[2], jobs[0]])

    def test_projects_with_quotas_go_before_those_that_borrow(self):
        cluster = self.cluster(devices="cpu:4")
        for project in ("vision", "speech"):
            cluster.jobctl("project", "create", project, "--open")
        done = cluster.jobctl("project", "quota", "vision", "cpu=2")
        self.assertIn("✓ project vision: quota cpu 2", done.stdout)
        done = cluster.jobctl("project", "quota", "speech", "cpu=3", "--limit", "cpu=3", "--weight", "2")
        self.assertIn("the quotas of cpu add up to 5, and 4 are in service", done.stderr)
        cluster.jobctl("project", "quota", "speech", "cpu=2")
        for words, text, code in ((("vision", "tpu=3"), "tpu", "JC1331"), (("audio", "cpu=1"), "audio", "JC1332"),
                                  (("vision", "cpu"), "KIND=N", "JC1004"), (("vision",), "nothing to set", "JC1004"),
                                  (("speech", "cpu=9"), "its limit 3", "JC1331"),
                                  (("vision", "cpu=9999999"), "out of range", "JC1331")):
            self.assert_error(cluster.jobctl("project", "quota", *words, check=False), text, code)

        borrows = self.gated(cluster, "borrows", "-n", "4", "--project", "vision")
        cluster.wait_for(borrows, RUNNING)
        first = self.gated(cluster, "first", "-n", "2", "--project", "vision")
        other = self.gated(cluster, "other", "-n", "1")
        within = self.gated(cluster, "within", "-n", "2", "--project", "speech")
        self.assertEqual([row["job"] for row in self.queue(cluster)], [within, other, first], "last who borrows most")
        why = cluster.jobctl("why", first).stdout
        self.assertIn("project vision uses 4 cpu: its quota is 2, so 2 are borrowed", why)
        rows = {row["name"]: row["devices"] for row in json.loads(cluster.jobctl("project", "ls", "-o", "json").stdout)["items"]}
        self.assertEqual(rows, {"default": "cpu 0 of 0, 1 wait", "speech": "cpu 0 of 2, limit 3, 2 wait",
                                "vision": "cpu 4 of 2, 2 borrowed, 2 wait"})
        print(cluster.jobctl("project", "ls").stdout)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual([row["job"] for row in self.queue(cluster)], [within, other, first])
        self.open("borrows")
        for job in (within, first):  # now both are within their quotas
            cluster.wait_for(job, RUNNING)
        self.assertEqual(cluster.state(other), QUEUED)
        self.open("first")
        cluster.wait_for(other, RUNNING)
        limited = self.gated(cluster, "limited", "-n", "2", "--project", "speech")
        wait_until(lambda: "waits for the limit of project speech" in cluster.jobctl("why", limited).stdout, "its limit")
        self.assertIn("project speech uses 2 cpu: its quota is 2; its limit is 3", cluster.jobctl("why", limited).stdout)
        for gate in ("other", "within", "limited"):
            self.open(gate)
        for job in (first, other, within, limited):
            cluster.wait_for(job, SUCCEEDED)
        self.assertIn("SetQuota", cluster.jobctl("audit").stdout)
        rows = {row["rules"]: row for row in json.loads(cluster.jobctl("simulate", "-o", "json").stdout)["items"]}
        self.assertEqual(list(rows), ["as it was", "strict order", "places held", "quotas", "quotas, giving way"])
        self.assertGreater(rows["as it was"]["mean_wait_hours"], 0)
        more = json.loads(cluster.jobctl("simulate", "--add-nodes", "9", "--no-quotas", "-o", "json").stdout)["items"]
        self.assertEqual([row["longest_wait_hours"] for row in more[1:]], [0, 0], "all start at once")

    def test_a_trainers_progress_counts_more_than_its_estimate(self):
        cluster = self.cluster(devices="cpu:2", coordinator_args=("--findings-floor-ms", "1000"))
        trains = cluster.submit("-n", "2", "--estimate", "5h", *python_line("stepper.py", 100_000, "--step", 0.02))
        cluster.wait_for(trains, RUNNING)
        waits = cluster.submit("-n", "2", "--", "true")
        wait_until(lambda: "its progress" in cluster.jobctl("why", waits).stdout, "the trainer's steps are heard of",
                   deadline_s=40)
        starts_ms = self.queue(cluster)[0]["starts_in_ms"]
        self.assertTrue(60_000 < starts_ms < 4 * 3_600_000, starts_ms)
        cluster.jobctl("cancel", waits, trains, "--grace", "0")


if __name__ == "__main__":
    harness.main()
