"""Coordinators that replace each other on a real etcd: what is acknowledged stays, ranks never notice, and the state
goes there and back."""
import json
import os
import re
import threading

import harness
import heads
from harness import RUNNING, SUCCEEDED, Case, need, wait_until

DIGITS = os.path.join(harness.BIN, "examples", "digits")
DATA = os.path.join(harness.ROOT, "examples", "data", "optdigits.csv.gz")


def losses(text):
    """What the training printed, without what differs from run to run: times and places."""
    return re.findall(rb"(?:epoch|final)[^\n]*?(?:loss|accuracy)[^\n]*?\d+\.\d+", text)


class Failover(Case):
    def submit_meanwhile(self, cluster):
        """Jobs that end at once, each with its own key; resent with the same key until there is an answer."""
        over, acknowledged = threading.Event(), []

        def run():
            while not over.wait(0.3):
                key = f"meanwhile-{len(acknowledged)}"
                done = wait_until(lambda: (lambda tried: tried if tried.returncode == 0 else None)(
                    cluster.jobctl("submit", "-o", "name", "--queue-anyway", "--idempotency-key", key, "--", "true",
                                   check=False)), "submitted", 60)
                acknowledged.append(done.stdout.strip())
        thread = threading.Thread(target=run)
        thread.start()

        def stop():
            over.set()
            thread.join(timeout=120)
            return acknowledged
        self.addCleanup(over.set)
        return stop

    def test_ranks_notice_nothing_and_no_acknowledged_job_is_lost(self):
        need(os.path.exists(DIGITS), f"{DIGITS} is not built")
        etcd = heads.Etcd(self)
        cluster = heads.Heads(self, etcd).start()
        for name in ("a", "b"):
            cluster.add_worker(name)
        cluster.wait_nodes("a", "b")
        line = ["-n", "2", "--nodes", "2", "--", DIGITS, "--data", DATA, "--epochs", "2", "--step-delay-ms", "120"]
        job = cluster.submit(*line)
        cluster.wait_for(job, RUNNING)
        stop = self.submit_meanwhile(cluster)
        took = {"the leader killed": cluster.kill_leader()}
        member = wait_until(lambda: [etcd.leader()], "etcd has a leader")[0]
        etcd.members[member].kill9()
        etcd.members[member].start()
        took["the leader paused"] = cluster.pause_leader(2 * heads.LEASE_S)
        acknowledged = stop()
        record = cluster.wait_for(job, SUCCEEDED, deadline_s=120)
        self.assertEqual(record.next_attempt, 1, "the ranks noticed nothing")
        jobs = [each.name for each in cluster.api.list()]
        self.assertEqual(sorted(jobs), sorted([job, *acknowledged]), "J1, J2: exactly the acknowledged jobs")
        logs, dropped = cluster.api.logs(job)
        self.assertEqual(sum(dropped.values()), 0)
        plain = cluster.submit("-n", "2", "--nodes", "2", "--", DIGITS, "--data", DATA, "--epochs", "2")
        cluster.wait_for(plain, SUCCEEDED, deadline_s=120)
        again, _ = cluster.api.logs(plain)
        self.assertTrue(losses(bytes(logs[(0, 0, 1)])))
        self.assertEqual(losses(bytes(logs[(0, 0, 1)])), losses(bytes(again[(0, 0, 1)])))
        print("  seconds until another one led: " + ", ".join(f"{what} {time:.1f}" for what, time in took.items()))

    def listed(self, cluster, server):
        return json.loads(cluster.jobctl("-s", server, "coordinator", "ls", "-o", "json").stdout)["items"]

    def check_listed(self, cluster):
        """Each of two, h0 that leads and h1 that stands by, lists both, once it has seen the other's newest renewal."""
        def rows(server):
            found = [(each["name"], each["role"], each["address"], each["term"] is not None, each["lag_entries"])
                     for each in self.listed(cluster, server)]
            return found if found == wanted else None
        wanted = [("h0", "leads", cluster.endpoints[0], True, 0), ("h1", "stands by", cluster.endpoints[1], False, 0)]
        for server in cluster.endpoints:
            wait_until(lambda server=server: rows(server), f"{server} lists both: {wanted}")
        verdicts = cluster.jobctl("doctor", "--cluster", check=False).stdout
        self.assertRegex(verdicts, r"✓ coordinator h1 +stands by, 0 entries of the log behind, ")
        print(cluster.jobctl("coordinator", "ls").stdout + verdicts)

    def test_a_coordinator_that_comes_late_reads_a_snapshot_and_may_lead(self):
        cluster = heads.Heads(self, heads.Etcd(self), count=2, args=["--snapshot-after", "64KiB"])
        cluster.heads[0].start()
        cluster.wait_leader()
        environment = [word for i in range(40) for word in ("-e", f"V{i}={'x' * 200}")]
        names = [cluster.submit("--queue-anyway", *environment, "--", "true") for _ in range(8)]
        wait_until(lambda: "wrote a snapshot" in cluster.heads[0].output(), "a snapshot")
        cluster.heads[1].start()
        wait_until(lambda: "registered" in cluster.heads[1].output(), "the second one stands by")
        self.assertIn("loaded a snapshot", cluster.heads[1].output())
        self.check_listed(cluster)
        twin = harness.Daemon([*cluster.heads[1].argv], dict(self.env), self.path("twin.out"))
        twin.argv[twin.argv.index("--data-dir") + 1] = self.path("twin")
        twin.argv[twin.argv.index("--listen") + 1] = "127.0.0.1:0"
        self.daemons.append(twin.start())
        wait_until(lambda: "is registered as h1" in twin.output(), "a second coordinator of one name waits")
        twin.stop()
        cluster.heads[0].stop()
        index, _ = cluster.wait_leader()
        self.assertEqual(index, 1)
        wait_until(lambda: [(each["name"], each["role"]) for each in self.listed(cluster, cluster.endpoints[1])]
                   == [("h1", "leads")], "h1 is alone")
        self.assertIn("only h1 is registered", cluster.jobctl("doctor", "--cluster", check=False).stdout)
        self.assertEqual(sorted(each.name for each in cluster.api.list()), sorted(names))


class Archive(Case):
    def test_finished_jobs_leave_etcd_and_are_answered_by_each(self):
        etcd = heads.Etcd(self)
        cluster = heads.Heads(self, etcd, count=2, args=["--archive-above", "1MiB", "--snapshot-after", "64KiB"])
        for head in cluster.heads:
            head.start()
        first, _ = cluster.wait_leader()
        submit = ["--queue-anyway", "--", "true", *("w" * 10_000 for _ in range(8))]
        names = [cluster.submit("--idempotency-key", f"fat-{i}", *submit) for i in range(30)]
        cluster.jobctl("cancel", *names)
        wait_until(lambda: all(each.state == harness.CANCELLED for each in cluster.api.list()), "all are cancelled")
        cluster.heads[first].stop()  # takes a snapshot, so that a replay needs none of their events
        second, _ = cluster.wait_leader(other_than=first)
        wait_until(lambda: "archive: left the state" in cluster.heads[second].output(), "jobs have left")
        cluster.heads[first].start()
        wait_until(lambda: "registered" in cluster.heads[first].output(), "the first one follows")
        wait_until(lambda: len(self.parts(cluster, first)) > 10 and self.parts(cluster, first) == self.parts(cluster, second),
                   "the same parts at both")
        self.check_answers(cluster, names)
        oldest = cluster.api.record(names[0]).id
        cluster.heads[second].stop()
        cluster.wait_leader(other_than=second)
        self.check_answers(cluster, names)
        self.assertEqual(cluster.submit("--idempotency-key", "fat-0", *submit), names[0], "J2: the same job for the same key")
        # What one lacks is named.
        for part in self.parts(cluster, first):
            os.rename(f"{cluster.data(first)}/blobs/sha256/{part[:2]}/{part}", self.path(part))
        done = cluster.jobctl("show", names[0], check=False)
        self.assertIn(f"the coordinator h{second} moved the record of job {oldest} to its archive, and this one has no copy [JC1632]", done.stderr)
        print(done.stderr)
        cluster.heads[first].stop()
        done = heads.run_coordinator(self, "migrate", "--from", etcd.address(), "--to", cluster.data(first))
        self.assertIn("JC1632", done.stderr)
        done = heads.run_coordinator(self, "migrate", "--from", etcd.address(), "--to", cluster.data(second))
        self.assertEqual(done.returncode, 0, done.stderr)
        alone = self.cluster(workers=())
        alone.coordinator.stop()
        alone.coordinator.argv[alone.coordinator.argv.index("--data-dir") + 1] = cluster.data(second)
        alone.coordinator.start()
        self.check_answers(alone, names)
        alone.coordinator.stop()
        checked = heads.run_coordinator(self, "check", "--data-dir", cluster.data(second))
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def parts(self, cluster, index):
        return sorted(name for _, _, names in os.walk(cluster.data(index) + "/blobs") for name in names)

    def check_answers(self, cluster, names):
        """The oldest one's record and events, all names."""
        self.assertEqual(sorted(each.name for each in cluster.api.list()), sorted(names))
        self.assertEqual(cluster.api.record(names[0]).spec.command[1], "w" * 10_000)
        self.assertIn("submitted", cluster.jobctl("events", names[0]).stdout)


class Migrate(Case):
    def care(self, *words):
        done = heads.run_coordinator(self, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def migrate(self, source, target):
        return heads.run_coordinator(self, "migrate", "--from", source, "--to", target)

    def test_the_state_goes_into_etcd_and_back(self):
        etcd = heads.Etcd(self)
        alone = self.cluster(workers=())
        names = {alone.submit("--queue-anyway", "--", "true") for _ in range(3)}
        alone.jobctl("cancel", sorted(names)[0])
        data = os.path.join(alone.directory, "data")
        # Written a moment behind the answers.
        entries = wait_until(lambda: (lambda text: "CancelJobs" in text and text)(alone.jobctl("audit").stdout), "the audit has it")
        alone.coordinator.stop()
        done = self.migrate(data, etcd.address())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("read back and compared", done.stdout)
        self.assertIn("is a copy of a state in etcd", self.migrate(data, etcd.address("other")).stderr)
        alone.coordinator.start(expect_exit=True)
        self.assertIn("is a copy of a state in etcd", alone.coordinator.output())

        cluster = heads.Heads(self, etcd, count=2).start()
        self.assertEqual({each.name for each in cluster.api.list()}, names)
        names.add(cluster.submit("--queue-anyway", "--", "true"))
        self.assertEqual(cluster.jobctl("audit").stdout[:len(entries)], entries)
        leader, _ = cluster.wait_leader()
        self.care("backup", "--data-dir", self.path(f"lab-h{leader}"), "--to", self.path("backup"))
        back = self.path("back")
        self.assertIn("runs on", self.migrate(etcd.address(), back).stderr)
        for head in cluster.heads:
            head.stop()
        done = self.migrate(etcd.address(), back)
        self.assertEqual(done.returncode, 0, done.stderr)
        cluster.heads[0].start(expect_exit=True)
        self.assertIn("has moved it to", cluster.heads[0].output())
        # A backup of one of several is restored as one that is alone; `migrate` takes it to the others again.
        self.care("restore", "--from", self.path("backup"), "--data-dir", self.path("restored"))
        self.assertTrue(os.listdir(self.path("restored") + "/audit"))
        self.assertTrue(os.path.exists(self.path("restored") + "/LIVED"))
        for there in (back, self.path("restored")):
            alone.coordinator.stop()
            alone.coordinator.argv[alone.coordinator.argv.index("--data-dir") + 1] = there
            alone.coordinator.start()
            wait_until(lambda: {each.name for each in alone.api.list()} == names, "its jobs are there")
            self.assertEqual(alone.jobctl("audit").stdout[:len(entries)], entries)
            alone.jobctl("audit", "--verify")
        alone.coordinator.stop()
        done = self.migrate(self.path("restored"), etcd.address("again"))
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    harness.main()
