"""Bad input: each case gets one clear error with a fix and a stable code, and nothing is lost."""
import os
import sqlite3
import subprocess

import harness
from harness import SUCCEEDED, Case, need


class BadJobFiles(Case):
    def validate(self, text, name="job.yaml"):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        return self.private().jobctl("validate", path, check=False), path

    def test_an_unknown_key_is_named_with_its_place_and_the_nearest_key(self):
        done, path = self.validate("name: x\ncommand: [\"true\"]\nresources:\n  proceses: 2\n")
        self.assert_error(done, f"{path}:4:3", "proceses", "processes", code=6)

    def test_a_duplicate_key_is_refused(self):
        done, path = self.validate("command: [\"true\"]\nname: a\nname: b\n")
        self.assert_error(done, f"{path}:3:1", "name", "twice")

    def test_wrong_types_and_ranges_are_all_listed_at_once(self):
        done, path = self.validate("command: [\"true\"]\nrestarts: many\nresources:\n  processes: -1\n")
        self.assert_error(done, f"{path}:2:", f"{path}:4:")

    def test_yaml_traps_are_refused(self):
        for text, word in (("command: [\"true\"]\nresources:\n  processes: 010\n", "010"),
                           ("command: [\"true\"]\nname: no\n", "no"),
                           ("base: &b {name: x}\n<<: *b\ncommand: [\"true\"]\n", "<<"),
                           ("command: [\"true\"\n", "job.yaml"), ("", "command")):
            done, _ = self.validate(text)
            self.assert_error(done, word)

    def test_a_100_mb_file_is_refused_quickly(self):
        done, _ = self.validate(b"name: x\ncommand: [\"" + b"y" * 100_000_000 + b"\"]\n")
        self.assert_error(done, "256")

    def test_a_missing_file_is_named(self):
        self.assert_error(self.private().jobctl("validate", self.path("absent.yaml"), check=False), "absent.yaml")


class BadRequests(Case):
    def test_shapes_and_commands_that_cannot_be(self):
        cluster = self.cluster()
        cases = [(["-n", "0", "--", "true"], ["0"]), (["-n", "1000000", "--", "true"], ["1000000"]),
                 (["-n", "two", "--", "true"], ["two"]), (["-n", "2"], ["submit"]),
                 (["-n", "2", "--frobnicate", "--", "true"], ["frobnicate"]),
                 (["-n", "1", "--name", "bad\x1bname", "--", "true"], ["name"]),
                 (["-n", "1", "-e", "=novalue", "--", "true"], ["novalue"])]
        for args, words in cases:
            with self.subTest(args=args):
                self.assert_error(cluster.jobctl("submit", *args, check=False), *words)
        self.assertEqual(len(cluster.api.list()), 0)
        self.still_works(cluster)

    def test_a_name_that_is_not_utf8_is_refused(self):
        cluster = self.cluster()
        done = subprocess.run([harness.JOBCTL, "submit", "-n", "1", "--name", b"caf\xe9", "--", "true"],
                              env=cluster.env, capture_output=True)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn(b"UTF-8", done.stderr)

    def test_a_shape_that_can_never_fit_is_refused_with_the_largest_that_could(self):
        cluster = self.cluster(workers=("node1", "node2"), devices="cpu:3")
        done = cluster.jobctl("submit", "-n", "64", "--", "true", check=False)
        self.assert_error(done, "6", code=6)
        done = cluster.jobctl("submit", "-n", "1", "--devices", "gpu", "--", "true", check=False)
        self.assert_error(done, "gpu", code=6)
        queued = cluster.submit("-n", "64", "--queue-anyway", "--", "true")
        self.assertEqual(cluster.state(queued), harness.QUEUED)

    def test_a_spec_beyond_the_limit_is_refused_and_the_next_one_taken(self):
        cluster = self.cluster()
        done = cluster.jobctl("submit", "-n", "1", "--", "true", check=False,
                              env={f"BIG{i}": "x" * 100_000 for i in range(8)})
        self.assert_error(done, "256")
        self.still_works(cluster)

    def test_an_unknown_command_suggests_the_nearest(self):
        done = self.private().jobctl("sumbit", check=False)
        self.assert_error(done, "submit", code=2)
        self.assertIn("submit", self.private().jobctl("sbatch", check=False).stderr)

    def test_every_code_can_be_explained(self):
        done = self.private().jobctl("explain", "JC1104")
        self.assertIn("JC1104", done.stdout)
        self.assertNotEqual(self.private().jobctl("explain", "JC9999", check=False).returncode, 0)

    def still_works(self, cluster):
        job = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(job, SUCCEEDED)


class DamagedState(Case):
    def stopped_cluster(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(job, SUCCEEDED)
        cluster.coordinator.stop()  # a graceful shutdown merges the WAL into the database
        return cluster, job

    def test_a_corrupted_database_is_refused_and_left_as_it_is(self):
        cluster, _ = self.stopped_cluster()
        database = os.path.join(cluster.directory, "data", "muster.db")
        with open(database, "r+b") as file:
            size = os.path.getsize(database)
            file.seek(4096 * (size // 8192))
            file.write(b"\xa5" * 4096)
        with open(database, "rb") as file:
            damaged = file.read()
        self.assertNotEqual(cluster.coordinator.start(expect_exit=True), 0)
        self.assertIn("muster.db", cluster.coordinator.output())
        self.assertRegex(cluster.coordinator.output(), "JC16")
        with open(database, "rb") as file:
            self.assertEqual(file.read(), damaged)

    def test_a_truncated_database_is_refused(self):
        cluster, _ = self.stopped_cluster()
        database = os.path.join(cluster.directory, "data", "muster.db")
        with open(database, "r+b") as file:
            file.truncate(100)
        self.assertNotEqual(cluster.coordinator.start(expect_exit=True), 0)
        self.assertIn("muster.db", cluster.coordinator.output())

    def test_a_database_of_a_later_version_is_refused(self):
        cluster, _ = self.stopped_cluster()
        database = os.path.join(cluster.directory, "data", "muster.db")
        with sqlite3.connect(database) as connection:
            connection.execute("PRAGMA user_version = 999")
        connection.close()
        self.assertNotEqual(cluster.coordinator.start(expect_exit=True), 0)
        self.assertIn("999", cluster.coordinator.output())

    def test_half_a_frame_at_the_end_of_the_log_loses_no_acknowledged_job(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(job, SUCCEEDED)
        cluster.coordinator.kill9()
        wal = os.path.join(cluster.directory, "data", "muster.db-wal")
        self.assertTrue(os.path.exists(wal))
        with open(wal, "ab") as file:
            file.write(b"\x00" * 100)  # half a frame, as after a crash
        cluster.restart_coordinator()
        self.assertEqual([item.name for item in cluster.api.list()], [job])


class FullDisks(Case):
    """Uses a small tmpfs as the disk; needs root."""

    def small_disk(self, path, size):
        need(os.geteuid() == 0, "needs root to mount a tmpfs")
        os.makedirs(path, exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], capture_output=True)
        need(done.returncode == 0, "cannot mount a tmpfs here")
        self.addCleanup(subprocess.run, ["umount", "-l", path], capture_output=True)

    def test_the_coordinators_disk_full_refuses_submits_and_recovers_without_a_restart(self):
        cluster = self.cluster_on_small_disk()
        first = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(first, SUCCEEDED)
        filler = os.path.join(cluster.directory, "data", "filler")
        with open(filler, "wb", buffering=0) as file:  # else closing it would write the rest, and fail
            try:
                while True:
                    file.write(b"\0" * 65536)
            except OSError:
                pass
        done = None
        for _ in range(200):
            done = cluster.jobctl("submit", "-n", "1", "--queue-anyway", "--", "true", check=False)
            if done.returncode != 0:
                break
        self.assert_error(done, "disk" if "disk" in done.stderr else "space")
        self.assertTrue(cluster.coordinator.alive(), cluster.coordinator.output()[-1000:])
        self.assertIn(first, cluster.jobctl("ls", "-a").stdout, "reads continue")
        os.remove(filler)

        def accepted():
            return cluster.jobctl("submit", "-n", "1", "--", "true", check=False).returncode == 0
        harness.wait_until(accepted, "submits are taken again")

    def cluster_on_small_disk(self):
        cluster = harness.Cluster(self, name="small")
        data = os.path.join(cluster.directory, "data")
        self.small_disk(data, "64m")  # the coordinator reserves 16 MB
        cluster.start()
        cluster.add_worker("node1")
        return cluster

    def test_a_full_checkpoint_disk_fails_the_checkpoint_and_keeps_the_previous_one(self):
        cluster = harness.Cluster(self, name="ck").start()
        self.small_disk(os.path.join(cluster.directory, "w-node1"), "16m")
        cluster.add_worker("node1")
        script = ("d=$MUSTER_CHECKPOINT_DIR; mkdir $d/a && echo 1 > $d/a/state && mv $d/a $d/step-1; sleep 1;"
                  "mkdir $d/b && head -c 64000000 /dev/zero > $d/b/state || { rm -rf $d/b; echo could not save; }; sleep 0.2")
        job = cluster.submit("-n", "1", "--", "sh", "-c", script)
        cluster.wait_for(job, SUCCEEDED)
        harness.wait_until(lambda: [c.step for c in cluster.api.record(job).checkpoints if c.state == 2] == [1],
                           "step 1 is committed and nothing else")
        again = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(again, SUCCEEDED)

    def test_a_full_spool_disk_slows_the_rank_while_its_output_is_taken_and_loses_nothing(self):
        cluster = harness.Cluster(self, name="sp").start()
        self.small_disk(os.path.join(cluster.directory, "w-node1"), "8m")
        cluster.add_worker("node1")
        job = cluster.submit("-n", "1", "--", "sh", "-c", "head -c 40000000 /dev/zero; echo end >&2")
        cluster.wait_for(job, SUCCEEDED, deadline_s=60)

        def accounted():
            logs, dropped = cluster.api.logs(job)
            self.assertFalse(any(dropped.values()), dropped)
            return [len(logs.get((0, 0, stream), b"")) for stream in (1, 2)] == [40_000_000, len("end\n")]
        harness.wait_until(accounted, "every byte is stored")
        harness.wait_until(lambda: not os.listdir(os.path.join(cluster.directory, "w-node1", "attempts")),
                           "the attempt's directory is removed: the disk is free again")


if __name__ == "__main__":
    harness.main()
