"""Checkpoints by the directory convention: hashed, committed, verified, pulled, garbage-collected, removed."""
import hashlib
import json
import os
import time

import harness
from harness import SUCCEEDED, Case, python_line, wait_until


class Checkpoints(Case):
    def steps(self, cluster, job):
        return sorted(checkpoint.step for checkpoint in cluster.api.record(job).checkpoints if checkpoint.state == 2)

    def counted(self, cluster, steps=50, every=10, *args):
        job = cluster.submit("-n", "2", *args, *python_line("counter.py", steps, "--every", every))
        cluster.wait_for(job, SUCCEEDED)
        wait_until(lambda: steps in self.steps(cluster, job), "the last checkpoint is committed")
        return job

    def test_the_newest_three_are_kept(self):
        cluster = self.cluster()
        job = self.counted(cluster)
        wait_until(lambda: self.steps(cluster, job) == [30, 40, 50], "three are kept")
        listed = cluster.jobctl("ckpt", "ls", job).stdout
        self.assertIn("50", listed)

    def test_a_blob_is_named_by_the_plain_sha256_of_its_bytes(self):
        cluster = self.cluster()
        self.counted(cluster, 10, 10)
        for directory, _, names in os.walk(os.path.join(cluster.directory, "data", "blobs")):
            for name in names:
                with open(os.path.join(directory, name), "rb") as file:
                    self.assertEqual(hashlib.sha256(file.read()).hexdigest(), name)

    def test_verify_says_ok_and_pull_brings_the_files(self):
        cluster = self.cluster()
        job = self.counted(cluster, 20, 10)
        self.assertIn("ok", cluster.jobctl("ckpt", "verify", job).stdout.lower())
        target = self.path("pulled")
        cluster.jobctl("ckpt", "pull", job, "--to", target)
        found = {name: os.path.join(where, name) for where, _, names in os.walk(target) for name in names}
        with open(found["state.txt"]) as file:
            self.assertEqual(file.read(), "20")
        with open(found["payload.bin"], "rb") as file:
            self.assertEqual(file.read(), hashlib.sha256(b"20").digest() * 2000)

    def test_a_damaged_file_is_found_by_verify(self):
        cluster = self.cluster()
        job = self.counted(cluster, 10, 10)
        for directory, _, names in os.walk(os.path.join(cluster.directory, "data", "blobs")):
            for name in names:
                path = os.path.join(directory, name)
                if os.path.getsize(path) > 1000:
                    os.chmod(path, 0o600)
                    with open(path, "r+b") as file:
                        file.seek(500)
                        file.write(b"\0\0\0\0")
        done = cluster.jobctl("ckpt", "verify", job, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("payload.bin", done.stdout + done.stderr)

    def test_a_half_written_directory_is_never_taken(self):
        cluster = self.cluster()
        script = ("mkdir $MUSTER_CHECKPOINT_DIR/step-5.tmp && echo half > $MUSTER_CHECKPOINT_DIR/step-5.tmp/state.txt;"
                  "mkdir $MUSTER_CHECKPOINT_DIR/step-007 $MUSTER_CHECKPOINT_DIR/step-x;"
                  "mkdir $MUSTER_CHECKPOINT_DIR/w && echo 9 > $MUSTER_CHECKPOINT_DIR/w/state.txt &&"
                  "mv $MUSTER_CHECKPOINT_DIR/w $MUSTER_CHECKPOINT_DIR/step-9; sleep 0.5")
        job = cluster.submit("-n", "1", "--", "sh", "-c", script)
        cluster.wait_for(job, SUCCEEDED)
        wait_until(lambda: self.steps(cluster, job) == [9], "only step 9 is committed")

    def test_rerun_goes_on_from_the_last_checkpoint_of_the_old_job(self):
        cluster = self.cluster()
        old = self.counted(cluster, 20, 10)
        new = cluster.jobctl("rerun", old, "--from", "10", "-o", "name").stdout.strip()
        cluster.wait_for(new, SUCCEEDED)
        logs, _ = cluster.api.logs(new)
        self.assertIn(b"starts from step 10", logs[(0, 0, 1)])
        self.assertRegex(cluster.jobctl("show", new).stdout, rf"Rerun of +({old}|job 1)")

    def test_what_a_job_still_writes_into_its_checkpoint_is_not_in_what_another_resumes_from(self):
        cluster = self.cluster()
        script = ('if [ -n "$MUSTER_RESUME_FROM" ]; then touch $0/resumed; while [ ! -e $0/spoiled ]; do sleep 0.05; done;'
                  'cat $MUSTER_RESUME_FROM/state.txt; exit; fi; d=$MUSTER_CHECKPOINT_DIR/step-10; mkdir $d.tmp;'
                  'echo good >$d.tmp/state.txt; mv $d.tmp $d; while [ ! -e $0/resumed ]; do sleep 0.05; done;'
                  'echo evil >$d/state.txt; touch $0/spoiled')
        old = cluster.submit("-n", "1", "--", "sh", "-c", script, self.directory)
        wait_until(lambda: self.steps(cluster, old) == [10], "its checkpoint is committed")
        new = cluster.jobctl("rerun", old, "--from", "10", "-o", "name").stdout.strip()
        cluster.wait_for(new, SUCCEEDED)
        self.assertEqual(cluster.api.logs(new)[0][(0, 0, 1)], b"good\n")

    def test_another_node_fetches_what_it_lacks(self):
        cluster = self.cluster(workers=("node1",), devices="cpu:1")
        go = self.path("go")
        job = cluster.submit("-n", "1", "--restarts", "1", *python_line(
            "counter.py", 30, "--every", 10, "--hold-at", 15, "--until", go, "--die-at", 15))
        wait_until(lambda: 10 in self.steps(cluster, job), "step 10 is committed")
        cluster.add_worker("node2", "cpu:1")
        cluster.jobctl("nodes", "drain", "node1")
        open(go, "w").close()
        record = cluster.wait_for(job, SUCCEEDED)
        self.assertEqual([part.node for part in record.attempts[1].parts], ["node2"])
        logs, _ = cluster.api.logs(job)
        self.assertIn(b"attempt 1 rank 0 starts from step 10", logs[(1, 0, 1)])

    def test_commits_survive_kill_9_of_both_daemons_during_the_upload(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", *python_line("counter.py", 60, "--every", 10, "--pause", "0.05"))
        cluster.wait_for(job, harness.RUNNING)
        for _ in range(2):
            time.sleep(0.7)  # somewhere in the middle
            cluster.workers["node1"].kill9()
            cluster.coordinator.kill9()
            cluster.restart_coordinator()
            cluster.workers["node1"].start()
        cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        wait_until(lambda: 60 in self.steps(cluster, job), "the last checkpoint is committed")
        for step in self.steps(cluster, job):
            self.assertEqual(cluster.jobctl("ckpt", "verify", job, step, check=False).returncode, 0)

    def test_a_removed_checkpoint_is_gone(self):
        cluster = self.cluster()
        job = self.counted(cluster, 20, 10)
        cluster.jobctl("ckpt", "rm", job, "10", "--yes")
        self.assertEqual(self.steps(cluster, job), [20])

    def test_what_a_job_reached_stays_in_ls_when_its_checkpoints_go(self):
        cluster = self.cluster()
        both = " && ".join(" ".join(python_line(*words)[1:])
                           for words in (("reporter.py", 5), ("counter.py", 20, "--every", 10)))
        job = cluster.submit("-n", "1", "--", "sh", "-c", both)
        cluster.wait_for(job, SUCCEEDED)
        wait_until(lambda: self.steps(cluster, job) == [10, 20], "both checkpoints are committed")

        def reached():
            row, = json.loads(cluster.jobctl("ls", "-a", "-o", "json").stdout)["items"]
            return row["step"], row["loss"]
        before = wait_until(lambda: reached()[1] is not None and reached(), "its loss is listed")
        cluster.coordinator.kill9()  # the job's metrics are no longer in memory
        cluster.restart_coordinator()
        cluster.jobctl("ckpt", "rm", job, "10", "--yes")
        self.assertEqual(reached(), before)
        cluster.jobctl("ckpt", "rm", job, "20", "--yes")
        self.assertEqual(reached(), before)


if __name__ == "__main__":
    harness.main()
