"""The care of a data directory: backups of a working coordinator, restores after it is lost, damage that is
found, a lost database that is not taken for a new directory."""
import hashlib
import os
import shutil
import subprocess

import harness
from harness import RUNNING, SUCCEEDED, Case, python_line, wait_until

COORDINATOR = os.path.join(harness.BIN, "muster-coordinator")


def care(command, *args):
    return subprocess.run([COORDINATOR, command, *args], capture_output=True, text=True, timeout=120)


def data_of(cluster):
    return os.path.join(cluster.directory, "data")


def committed(cluster, job):
    return sorted(each.step for each in cluster.api.record(job).checkpoints if each.state == 2)


def blobs_of(directory):
    return [os.path.join(where, name) for where, _, names in os.walk(os.path.join(directory, "blobs"))
            for name in names]


def flip_byte(path, at):
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x20]))


class Restored(Case):
    def backup(self, cluster):
        done = care("backup", "--data-dir", data_of(cluster), "--to", self.path("backup"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def lose_and_restore(self, cluster):
        cluster.coordinator.kill9()
        shutil.rmtree(data_of(cluster))
        done = care("restore", "--from", self.path("backup"), "--data-dir", data_of(cluster))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Jobs submitted since then are gone.", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80, done.stdout)

    def talker(self, cluster):
        """A job that says one line before the backup, one after it, and one when all is restored."""
        script = ("echo before; while [ ! -e $0/one ]; do sleep 0.05; done; echo since;"
                  "while [ ! -e $0/two ]; do sleep 0.05; done; echo after")
        return cluster.submit("-n", "1", "--", "sh", "-c", script, self.directory)

    def said(self, cluster, job, words):
        return lambda: words in cluster.api.logs(job)[0].get((0, 0, 1), b"")

    def test_a_cluster_continues_from_a_backup_that_was_made_while_jobs_ran(self):
        cluster = self.cluster(devices="cpu:4")
        finished = cluster.submit("-n", "1", *python_line("counter.py", 20, "--every", 10))
        cluster.wait_for(finished, SUCCEEDED)
        wait_until(lambda: committed(cluster, finished) == [10, 20], "its checkpoints are committed")
        log_of_finished = cluster.api.logs(finished)
        saver = cluster.submit("-n", "1", *python_line(
            "counter.py", 200, "--every", 5, "--pause", "0.02", "--hold-at", 200, "--until", self.path("go")))
        talker = self.talker(cluster)
        wait_until(self.said(cluster, talker, b"before"), "the talker's first line")
        wait_until(lambda: committed(cluster, saver), "a checkpoint of the running job is committed")
        self.backup(cluster)

        open(self.path("one"), "w").close()
        wait_until(self.said(cluster, talker, b"since"), "the line that is not in the backup")
        stray_mark = "STRAY_MARK=" + self.mark.split("=")[1]
        stray = cluster.submit("-n", "1", "-e", stray_mark, "--", "sleep", "600")
        cluster.wait_for(stray, RUNNING)
        for _ in range(4):  # the worker obeys later coordinators than the one in the backup
            cluster.coordinator.kill9()
            cluster.restart_coordinator()
        wait_until(lambda: cluster.nodes()["node1"].record.connected, "the worker is back")

        self.lose_and_restore(cluster)
        cluster.restart_coordinator()
        wait_until(lambda: cluster.nodes()["node1"].record.connected, "the worker accepts the restored coordinator")
        self.assertEqual(cluster.state(finished), SUCCEEDED)
        self.assertEqual(cluster.api.logs(finished), log_of_finished)
        for step in (10, 20):
            cluster.jobctl("ckpt", "verify", finished, step)
        # Newer checkpoints replace the running job's at any moment: its files are compared in the backup.
        saved = {os.path.basename(path): path for path in blobs_of(self.path("backup"))}
        self.assertGreater(len(saved), 4)
        for name, path in saved.items():
            with open(path, "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), name)
        self.assert_gone(stray_mark, deadline_s=30)  # of a job that the restored coordinator does not know
        new = cluster.submit("-n", "1", "--", "echo", "new")
        self.assertGreater(cluster.wait_for(new, SUCCEEDED).id, 100_000)

        for name in ("go", "two"):
            open(self.path(name), "w").close()
        for job in (saver, talker):
            record = cluster.wait_for(job, SUCCEEDED)
            self.assertEqual([attempt.number for attempt in record.attempts], [0], "it was adopted, not restarted")
        wait_until(self.said(cluster, talker, b"after"), "the talker's last line")
        logs, dropped = cluster.api.logs(talker)  # what the worker still had came again
        self.assertEqual(logs[(0, 0, 1)], b"before\nsince\nafter\n")
        wait_until(lambda: committed(cluster, saver), "the running job has a checkpoint")
        cluster.jobctl("ckpt", "verify", saver)

    def test_a_job_that_was_restarted_since_gets_an_attempt_that_no_worker_has_seen(self):
        cluster = self.cluster()
        script = ("wait_for() { while [ ! -e $0/$1 ]; do sleep 0.05; done; };"
                  "[ $MUSTER_ATTEMPT != 0 ] || { wait_for fail; exit 3; }; wait_for go")
        job = cluster.submit("-n", "1", "--restarts", "3", "--", "sh", "-c", script, self.directory)
        cluster.wait_for(job, RUNNING)
        self.backup(cluster)
        open(self.path("fail"), "w").close()
        wait_until(lambda: [each.number for each in cluster.api.record(job).attempts] == [0, 1] and
                   cluster.state(job) == RUNNING, "the second attempt runs")
        self.lose_and_restore(cluster)
        cluster.restart_coordinator()
        wait_until(lambda: cluster.api.record(job).attempts[-1].number > 1_000 and cluster.state(job) == RUNNING,
                   lambda: f"a new attempt runs: {cluster.api.record(job)}")
        open(self.path("go"), "w").close()
        cluster.wait_for(job, SUCCEEDED)

    def test_a_second_backup_copies_only_what_is_new(self):
        cluster = self.cluster()
        cluster.wait_for(cluster.submit("-n", "1", *python_line("counter.py", 10, "--every", 10)), SUCCEEDED)
        self.assertIn("backup 1:", self.backup(cluster))
        before = {path: os.stat(path).st_ino for path in blobs_of(self.path("backup"))}
        self.assertTrue(before)
        self.assertIn("backup 2:", self.backup(cluster))
        self.assertEqual(before, {path: os.stat(path).st_ino for path in blobs_of(self.path("backup"))})


class Checked(Case):
    def worked(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", *python_line("counter.py", 10, "--every", 10))
        cluster.wait_for(job, SUCCEEDED)
        wait_until(lambda: committed(cluster, job) == [10], "its checkpoint is committed")
        return cluster, job

    def check(self, cluster, command="check"):
        done = care(command, "--data-dir", data_of(cluster))
        for line in done.stdout.splitlines():
            self.assertTrue(len(line) <= 80 or " " not in line.strip(), line)
        return done

    def test_a_flipped_byte_in_a_checkpoint_file_is_found_and_set_aside(self):
        cluster, job = self.worked()
        running = self.check(cluster)
        self.assertEqual(running.returncode, 3, running.stderr)
        self.assertIn(f"(pid {cluster.coordinator.pid})", running.stderr)
        self.assertIn("[JC1604]", running.stderr)
        cluster.coordinator.kill9()
        clean = self.check(cluster)
        self.assertEqual(clean.returncode, 0, clean.stdout + clean.stderr)
        self.assertIn("no damage found", clean.stdout)

        path = max(blobs_of(data_of(cluster)), key=os.path.getsize)
        flip_byte(path, 500)
        found = self.check(cluster)
        self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
        self.assertIn(os.path.relpath(path, data_of(cluster)) + ":\n", found.stdout)
        self.assertIn("do not match the SHA-256 in its name", found.stdout)
        self.assertIn("1 finding", found.stdout)
        self.assertIn("moved to damaged/", self.check(cluster, "repair").stdout)
        cluster.restart_coordinator()
        self.assertNotEqual(cluster.jobctl("ckpt", "verify", job, check=False).returncode, 0)
        # A later job saves the same bytes: they are brought again.
        again = cluster.submit("-n", "1", *python_line("counter.py", 10, "--every", 10))
        cluster.wait_for(again, SUCCEEDED)
        wait_until(lambda: committed(cluster, again) == [10], "the same checkpoint is committed again")
        self.assertEqual(cluster.jobctl("ckpt", "verify", job, check=False).returncode, 0)

    def test_a_lost_database_is_refused_and_left_as_it_is(self):
        cluster, _ = self.worked()
        cluster.coordinator.stop()
        for name in ("muster.db", "HIGHWATER"):
            os.unlink(os.path.join(data_of(cluster), name))
        self.assertNotEqual(cluster.coordinator.start(expect_exit=True), 0)
        output = cluster.coordinator.output()
        self.assertIn("[JC1606]", output)
        self.assertIn("fix: restore a backup", output)
        self.assertFalse(os.path.exists(os.path.join(data_of(cluster), "muster.db")))
        self.assertTrue(blobs_of(data_of(cluster)))

    def test_a_private_coordinator_that_lost_its_database_is_refused_in_a_sentence(self):
        private = self.private()
        private.jobctl("run", "--", "echo", "kept")
        self.assert_gone(self.mark)
        data = self.path("d/coordinator")
        for name in ("muster.db", "HIGHWATER"):
            os.unlink(os.path.join(data, name))
        for command in (["up"], ["run", "--", "true"]):
            self.assert_error(private.jobctl(*command, check=False), "JC1606", "muster.db is missing", data, "fix:")


if __name__ == "__main__":
    harness.main()
