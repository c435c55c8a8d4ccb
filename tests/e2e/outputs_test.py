"""Outputs: what an attempt's ranks left in the directories that its job names comes back, and `jobctl cp` brings it
here. Nodes with file systems of their own are workers in mount namespaces; those tests take root."""
import hashlib
import os
import shutil
import subprocess

import harness
from harness import FAILED, RUNNING, SUCCEEDED, Case, need, wait_until

COMMITTED = 2


def content(path):
    with open(path, "rb") as file:
        return file.read()


def tree(directory):
    """{relative path: bytes} of every file below it."""
    return {os.path.relpath(os.path.join(where, name), directory): content(os.path.join(where, name))
            for where, _, names in os.walk(directory) for name in names}


class OutputsCase(Case):
    def setUp(self):
        super().setUp()
        self.work = self.path("work")
        os.mkdir(self.work)

    def submit(self, cluster, script, *outputs, nodes=1, **fields):
        _, _, job_pb2 = harness.protos()
        service = cluster.api.service
        spec = job_pb2.JobSpec(command=["/bin/sh", "-c", script], workdir=self.work, env=self.env, outputs=outputs, **fields)
        spec.shape.per_node, spec.shape.min_nodes, spec.shape.max_nodes = 1, nodes, nodes
        spec.shape.device.kind = "cpu"
        response = cluster.api.unary("Submit", service.SubmitRequest(spec=spec), service.SubmitResponse)
        return response.name

    def outputs(self, cluster, job, attempt=0):
        """The committed outputs of an attempt; None: none (yet)."""
        found = [each for each in cluster.api.record(job).outputs if each.attempt == attempt and each.state == COMMITTED]
        return found[0] if found else None

    def copied(self, cluster, job, *options, path="", name="copy"):
        target = self.path(name)
        done = cluster.jobctl("cp", f"{job}:{path}", target, *options)
        return tree(target), done.stderr

    def blobs(self, cluster):
        return {name: os.path.join(where, name)
                for where, _, names in os.walk(os.path.join(cluster.directory, "data", "blobs")) for name in names}


class Outputs(OutputsCase):
    def test_named_directories_and_files_come_back_and_a_second_copy_sends_nothing(self):
        cluster = self.cluster()
        job = self.submit(cluster, "mkdir -p out/deep/er out/empty; echo a >out/a; : >out/deep/nothing; echo b >out/deep/er/b;"
                          "echo log >run.log; echo no >not-named", "./out/", "run.log", "missing")
        record = cluster.wait_for(job, SUCCEEDED)
        outputs, = record.outputs
        self.assertEqual((outputs.step, outputs.attempt, outputs.state, outputs.file_count, outputs.parts),
                         (-1, 0, COMMITTED, 4, 1))
        self.assertFalse(outputs.files, "a record for people has no list of files")
        expected = {"out/a": b"a\n", "out/deep/nothing": b"", "out/deep/er/b": b"b\n", "run.log": b"log\n"}
        found, said = self.copied(cluster, job)
        self.assertEqual(found, expected)
        self.assertIn("not taken: missing (not there)", said)
        self.assertIn("4 files copied", said)
        again, said = self.copied(cluster, job)
        self.assertEqual(again, expected)
        self.assertIn("0 files copied, 0 B; 4 already there", said)
        self.assertEqual(len(record.checkpoints), 0)
        # One directory goes below the destination under its name, one file also under a new name.
        self.assertEqual(self.copied(cluster, job, path="out/deep/", name="part")[0],
                         {"deep/nothing": b"", "deep/er/b": b"b\n"})
        cluster.jobctl("cp", f"{job}:run.log", self.path("renamed.log"))
        self.assertEqual(content(self.path("renamed.log")), b"log\n")
        listed = cluster.jobctl("outputs", job, "--columns", "file,size,node", "--no-headers").stdout
        self.assertIn("out/deep/er/b", listed)
        self.assertIn("node1", listed)
        shown = cluster.jobctl("show", job).stdout
        self.assertRegex(shown, r"Outputs\n +attempt 0 .*4 files .* from 1 node")
        self.assertIn("missing (not there)", shown)

    def test_failed_and_cancelled_attempts_bring_theirs_each_its_own(self):
        cluster = self.cluster()
        job = self.submit(cluster, "mkdir -p out; echo $MUSTER_ATTEMPT$TORCHELASTIC_RESTART_COUNT >out/which; exit 3", "out",
                          restarts=1)
        record = cluster.wait_for(job, FAILED)
        self.assertEqual([each.attempt for each in record.outputs], [0, 1])
        first = self.copied(cluster, f"{job}@0", name="first")[0]["out/which"]
        newest = self.copied(cluster, job, name="newest")[0]["out/which"]
        self.assertNotEqual(first, newest)
        running = self.submit(cluster, "mkdir -p out; echo kept >out/x; echo up; exec sleep 1000", "out", grace_ms=100)
        wait_until(lambda: b"up" in cluster.api.logs(running)[0].get((0, 0, 1), b""), "it has written")
        self.assert_error(cluster.jobctl("cp", f"{running}:", self.path("early"), check=False), "RUNNING", "JC1721")
        done = cluster.jobctl("cp", "--live", f"{running}:out", self.path("early"))
        self.assertEqual(tree(self.path("early"))["out/x"], b"kept\n", done.stderr)
        cluster.jobctl("cancel", running)
        cluster.wait_over(running)
        self.assertEqual(self.copied(cluster, running, name="cancelled")[0]["out/x"], b"kept\n")

    def test_files_go_to_a_running_rank_and_come_from_it(self):
        cluster = self.cluster()
        job = self.submit(cluster, f"mkdir -p data; echo up; until [ -e {self.path('go')} ]; do sleep 0.05; done; cat data/tree/a data/x top; ls -l data")
        wait_until(lambda: b"up" in cluster.api.logs(job)[0].get((0, 0, 1), b""), "it runs")
        os.makedirs(self.path("tree/deep"))
        big = os.urandom(3_000_000)
        for name, text in (("tree/a", b"of a\n"), ("tree/deep/b", big), ("x", b"of x\n")):
            with open(self.path(name), "wb") as file:
                file.write(text)
        os.symlink("/etc/passwd", self.path("tree/link"))
        os.chmod(self.path("x"), 0o755)
        done = cluster.jobctl("cp", self.path("tree"), self.path("x"), f"{job}:data")
        self.assertIn("3 files copied, 3.0 MB; 0 already there", done.stderr)
        self.assertRegex(done.stderr, "not copied: .*/tree/link")
        self.assertEqual(os.listdir(os.path.join(self.work, "data/tree/deep")), ["b"])
        self.assertIn("0 files copied, 0 B; 3 already there", cluster.jobctl("cp", self.path("tree"), self.path("x"), f"{job}:data").stderr)
        # Back: what lies half copied is continued, and what changed is copied again.
        os.makedirs(self.path("back/data/tree/deep"))
        with open(self.path("back/data/tree/deep/b.part"), "wb") as file:
            file.write(big[:1_000_000])
        self.assertIn("3 files copied", cluster.jobctl("cp", "--live", f"{job}:data", self.path("back")).stderr)
        self.assertEqual(tree(self.path("back")), {"data/tree/a": b"of a\n", "data/tree/deep/b": big, "data/x": b"of x\n"})
        self.assert_error(cluster.jobctl("cp", "--live", f"{job}:none", self.path("x2"), check=False), '"none"', "JC1722")
        self.assert_error(cluster.jobctl("cp", self.path("nothing"), f"{job}:data", check=False), "No such file", "JC1601")
        self.assert_error(cluster.jobctl("cp", f"{job}:data", f"{job}:x", check=False), "both ends", "JC1004")
        self.assert_error(cluster.jobctl("cp", "--rank", "7", f"{job}:data", self.path("x3"), check=False), "rank 7")
        self.assert_error(cluster.jobctl("cp", "/dev/null", f"{job}:go", check=False), "neither a regular file nor a directory", "JC1601")
        cluster.jobctl("cp", self.path("x"), f"{job}:top")
        # Not a copied file: the rank could end, and jobctl's command with it, before that has told that it is there.
        open(self.path("go"), "w").close()
        cluster.wait_for(job, SUCCEEDED)
        said = cluster.api.logs(job)[0][(0, 0, 1)]
        self.assertIn(b"of a\nof x\nof x\n", said)
        self.assertRegex(said, rb"-rwxr-xr-x .* x\n")
        self.assert_error(cluster.jobctl("cp", self.path("x"), f"{job}:late", check=False), job)

    def test_errors_name_what_is_missing(self):
        cluster = self.cluster()
        plain = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(plain, SUCCEEDED)
        self.assert_error(cluster.jobctl("cp", f"{plain}:", self.path("x"), check=False), "its spec names none", "JC1720")
        job = self.submit(cluster, "echo 1 >one", "one")
        cluster.wait_for(job, SUCCEEDED)
        self.assert_error(cluster.jobctl("cp", f"{job}:two", self.path("x"), check=False), '"two"', "JC1722")
        self.assert_error(cluster.jobctl("cp", f"{job}@7:", self.path("x"), check=False), "attempt 7", "JC1720")
        self.assert_error(cluster.jobctl("cp", f"{job}:../../etc", self.path("x"), check=False), "JC1004", code=2)
        self.assert_error(cluster.jobctl("cp", f"{job}:", "--node", "n9", self.path("x"), check=False), "node1", "JC1004")
        self.assert_error(cluster.jobctl("cp", self.path("x"), self.path("y"), check=False), "JOB:PATH", "JC1004")

    def test_a_hostile_tree_brings_regular_files_only(self):
        cluster = self.cluster()
        secret = self.path("secret")
        os.mkdir(secret)
        with open(secret + "/key", "w") as file:
            file.write("TOPSECRET")
        script = ("mkdir -p out/sub; echo fine >out/fine; ln -s /etc/shadow out/shadow; ln -s %s out/dir; ln -s %s/key out/key;"
                  "mkfifo out/fifo; ln -s %s behind; : >out/zero; printf x >\"out/$(printf 'new\\nline')\";"
                  "printf x >\"out/$(printf 'es\\033[2Jc')\"; mknod out/null c 1 3 2>/dev/null;"
                  "ln -s ../secret linked") % (secret, secret, secret)
        job = self.submit(cluster, script, "behind/key", "linked", "out")
        cluster.wait_for(job, SUCCEEDED)
        found, said = self.copied(cluster, job)
        self.assertEqual(found, {"out/fine": b"fine\n", "out/zero": b""})
        notes = self.outputs_notes(cluster, job)
        for word in ("a symbolic link", "a FIFO", "behind a symbolic link", "not printable"):
            self.assertIn(word, notes)
        for text in (said, cluster.jobctl("show", job).stdout, cluster.jobctl("events", job).stdout):
            self.assertNotIn("\033", text)
            self.assertNotIn("TOPSECRET", text)
        self.assertFalse([path for path in self.blobs(cluster).values() if b"TOPSECRET" in content(path)])

    def outputs_notes(self, cluster, job):
        return cluster.api.record(job).attempts[-1].parts[0].checkpoint_error

    def test_what_its_account_cannot_read_stays_on_the_node(self):
        need(os.geteuid() == 0, "only root may start ranks as another account")
        os.chmod(self.directory, 0o755)
        os.chmod(self.work, 0o777)
        cluster = self.cluster(workers=())
        cluster.add_worker("node1", args=("--run-as", "daemon"))
        closed = self.work + "/closed"
        with open(closed, "w") as file:
            file.write("ROOTSOWN")
        os.chmod(closed, 0o600)
        job = self.submit(cluster, "echo mine >mine", ".")
        cluster.wait_for(job, SUCCEEDED)
        self.assertEqual(self.copied(cluster, job)[0], {"mine": b"mine\n"})
        self.assertIn("closed (Permission denied)", self.outputs_notes(cluster, job))

    def kept_attempts(self, cluster, job):
        return [each.attempt for each in cluster.api.record(job).outputs if each.state == COMMITTED]

    def test_beyond_the_quota_the_oldest_go_and_an_attempt_that_is_larger_alone_keeps_none(self):
        cluster = self.cluster(coordinator_args=("--job-outputs-quota", "100KB"))

        def twice(bytes_of_the_first, bytes_of_the_second):
            script = "mkdir -p out; if [ $MUSTER_ATTEMPT = 0 ]; then head -c %d /dev/zero >out/x; exit 3; fi; " \
                     "head -c %d /dev/zero | tr '\\0' b >out/x" % (bytes_of_the_first, bytes_of_the_second)
            job = self.submit(cluster, script, "out", restarts=1)
            cluster.wait_for(job, SUCCEEDED)
            return job
        both = twice(20_000, 80_000)
        wait_until(lambda: self.kept_attempts(cluster, both) == [0, 1], "100 KB fit")
        newest = twice(20_001, 80_000)
        wait_until(lambda: self.kept_attempts(cluster, newest) == [1], "the oldest go")
        self.assertIn("only 100 KB of a job's outputs are kept (--job-outputs-quota)",
                      cluster.jobctl("events", newest).stdout)
        first = twice(80_000, 100_001)
        self.assertEqual(self.kept_attempts(cluster, first), [0])
        wait_until(lambda: "--job-outputs-quota" in self.outputs_notes(cluster, first), "why those of the second are not kept")
        self.assertEqual(self.kept_attempts(cluster, both), [0, 1], "another job's are not touched")

    def test_more_files_than_may_come_back_bring_none(self):
        cluster = self.cluster()
        job = self.submit(cluster, "mkdir out && cd out && seq 1 20001 | xargs touch", "out")
        cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        self.assertIsNone(self.outputs(cluster, job))
        done = cluster.jobctl("cp", f"{job}:", self.path("x"), check=False)
        self.assert_error(done, "more than 20000 files", "JC1720")

    def test_kill_9_of_the_worker_during_the_upload(self):
        cluster = self.cluster()
        job = self.submit(cluster, "mkdir out; for i in 1 2 3 4 5 6; do head -c 30000000 /dev/urandom >out/$i; done", "out")
        wait_until(lambda: self.blobs(cluster), "the first file is at the coordinator", every_s=0.005)
        cluster.workers["node1"].kill9()
        self.assertIsNone(self.outputs(cluster, job), "all was uploaded before the kill: use larger files")
        cluster.workers["node1"].start()
        cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        self.assertEqual(self.copied(cluster, job)[0], {os.path.relpath(path, self.work): data for path, data in (
            (self.work + "/" + name, data) for name, data in tree(self.work).items())})
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual(len(self.copied(cluster, job, name="after")[0]), 6)

    def test_a_copy_resumes_and_a_damaged_file_is_refused(self):
        cluster = self.cluster()
        job = self.submit(cluster, "mkdir out; head -c 5000000 /dev/urandom >out/big; echo small >out/small", "out")
        cluster.wait_for(job, SUCCEEDED)
        big = content(self.work + "/out/big")
        target = self.path("resumed")
        os.makedirs(target + "/out")
        for beginning in (big[:3_000_000], b"something else" * 1000):
            with open(target + "/out/big.part", "wb") as file:
                file.write(beginning)
            cluster.jobctl("cp", f"{job}:", target)
            self.assertEqual(tree(target), {"out/big": big, "out/small": b"small\n"})
            os.unlink(target + "/out/big")
        blob = self.blobs(cluster)[hashlib.sha256(big).hexdigest()]
        os.chmod(blob, 0o600)
        with open(blob, "r+b") as file:
            file.seek(4_000_000)
            file.write(b"\0\0\0\0")
        done = cluster.jobctl("cp", f"{job}:out/big", self.path("damaged"), check=False)
        self.assert_error(done, "does not match its SHA-256", "JC1504")
        self.assertFalse(os.path.exists(self.path("damaged")))
        checked = subprocess.run([os.path.join(harness.BIN, "muster-coordinator"), "check", "--data-dir",
                                  os.path.join(cluster.directory, "data")], capture_output=True, text=True)
        self.assertNotEqual(checked.returncode, 0, "a check of a running coordinator's directory is refused")
        cluster.coordinator.stop()
        checked = subprocess.run([os.path.join(harness.BIN, "muster-coordinator"), "check", "--data-dir",
                                  os.path.join(cluster.directory, "data")], capture_output=True, text=True)
        self.assertNotEqual(checked.returncode, 0)
        self.assertIn(hashlib.sha256(big).hexdigest(), checked.stdout + checked.stderr)

    def test_a_removed_job_takes_its_outputs_with_it(self):
        cluster = self.cluster()
        job = self.submit(cluster, "echo gone >one", "one")
        cluster.wait_for(job, SUCCEEDED)
        self.assertTrue(self.blobs(cluster))
        cluster.jobctl("rm", job, "--yes")
        self.assertTrue(os.path.isfile(self.work + "/one"), "the node's own file stays")


class OutputsOfNodes(OutputsCase):
    """Two workers, each with its own file system at the working directory."""

    def setUp(self):
        super().setUp()
        need(os.geteuid() == 0 and shutil.which("unshare") is not None, "mount namespaces take root")
        self.muster = self.cluster(workers=())
        for name in ("n1", "n2"):
            own = self.path("disk-" + name)
            os.mkdir(own)
            self.muster.add_worker(name, "cpu:1", prefix=(
                "unshare", "-m", "sh", "-c", f'mount --bind {own} {self.work} && exec "$@"', "sh"))

    def test_the_union_comes_and_differing_files_are_named(self):
        job = self.submit(self.muster, "mkdir out; echo $RANK >out/differs; echo same >out/same; echo x >out/only-$RANK",
                          "out", nodes=2)
        record = self.muster.wait_for(job, SUCCEEDED)
        outputs, = record.outputs
        self.assertEqual((outputs.parts, sorted(outputs.parts_present), outputs.file_count), (2, [0, 1], 6))
        first, second = [part.node for part in sorted(record.attempts[0].parts, key=lambda part: part.group_rank)]
        found, said = self.copied(self.muster, job)
        self.assertEqual(found, {"out/differs": b"0\n", "out/same": b"same\n", "out/only-0": b"x\n", "out/only-1": b"x\n"})
        self.assertIn(f"nodes differ in 1 file (out/differs): the first node's was taken; --node {second}", said)
        found, said = self.copied(self.muster, job, "--node", second, name="second")
        self.assertEqual(found, {"out/differs": b"1\n", "out/same": b"same\n", "out/only-1": b"x\n"})
        self.assertNotIn("nodes differ", said)

    def test_a_lost_node_keeps_nobody_elses_results_back(self):
        job = self.submit(self.muster, "mkdir out; echo $RANK >out/rank-$RANK; echo up; exec sleep 1000", "out", nodes=2,
                          grace_ms=100)
        self.muster.wait_for(job, RUNNING)
        wait_until(lambda: len([1 for text in self.muster.api.logs(job)[0].values() if b"up" in text]) == 2, "both wrote")
        record = self.muster.api.record(job)
        lost = [part for part in record.attempts[0].parts if part.group_rank == 1][0].node
        kept = [part for part in record.attempts[0].parts if part.group_rank == 0][0].node
        self.muster.workers[lost].kill9()
        wait_until(lambda: not self.muster.nodes()[lost].record.connected, "it is gone")
        self.muster.jobctl("nodes", "declare-dead", lost, "--yes")
        outputs = wait_until(lambda: self.outputs(self.muster, job), "the other node's outputs are here")
        self.assertEqual((list(outputs.parts_present), outputs.parts), ([0], 2))
        shown = self.muster.jobctl("show", job).stdout
        self.assertIn(f"1 of 2 nodes: nothing came back from {lost}", shown)
        found, _ = self.copied(self.muster, f"{job}@0")
        self.assertEqual(found, {"out/rank-0": b"0\n"})
        self.assertTrue(kept)


if __name__ == "__main__":
    harness.main()
