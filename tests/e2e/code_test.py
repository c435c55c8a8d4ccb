"""Code that travels with jobs: what is sent, once; what two jobs' code differs in; directories that
cannot be sent; nodes that share nothing with the machine that the job was submitted on."""
import hashlib
import json
import os
import re
import socket
import subprocess

import harness
from harness import FAILED, JOBCTL, SUCCEEDED, Case, need, wait_until
from network import Network
from terminal import Terminal

# Stays in the queue, as no node has one: what is submitted matters, not what runs.
NEVER = ("--devices", "gpu", "--queue-anyway")


def size_if_there(path):
    """Of a file that the coordinator may remove meanwhile."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


class CodeCase(Case):
    def setUp(self):
        super().setUp()
        self.root = self.path("vit")
        os.mkdir(self.root)
        self.write("train.py", "import model\nprint('loss', model.LOSS)\n")
        self.write("model.py", "LOSS = 1\n")
        self.write("sub/run.sh", "#!/bin/sh\npwd\n", mode=0o755)
        self.write("weights.bin", "w" * 1_500_000)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def make_cluster(self, **options):
        cluster = harness.Cluster(self, **options).start()
        cluster.env["XDG_CACHE_HOME"] = self.path("cache")
        return cluster

    def code_line(self, done):
        lines = re.findall(r"^code: [\d,]+ files?, .*$", done.stderr, re.M)
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]


class Sending(CodeCase):
    def send(self, cluster, *args, **options):
        done = cluster.jobctl("submit", "-o", "name", "--sync=" + self.root, *NEVER, *args, "--", "true", **options)
        return done.stdout.strip(), self.code_line(done)

    def test_the_second_submit_sends_nothing_and_a_change_only_itself(self):
        cluster = self.make_cluster()
        job, line = self.send(cluster)
        self.assertRegex(line, r"^code: 4 files, 1\.5 MB; sent 1\.5 MB in [\d.]+ s$")
        code = cluster.api.record(job).spec.code
        self.assertEqual((code.files, len(code.tree), code.git_commit), (4, 64, ""))
        self.assertEqual(getattr(code, "from"), f"{socket.gethostname()}:{self.root}")
        again, line = self.send(cluster)
        self.assertEqual(line, "code: 4 files, 1.5 MB; nothing changed")
        self.assertEqual(cluster.api.record(again).spec.code.tree, code.tree)
        self.write("model.py", "LOSS = 2\n")
        changed, line = self.send(cluster)
        self.assertRegex(line, r"^code: 4 files, 1\.5 MB; sent \d+ B in [\d.]+ s$")
        self.assertNotEqual(cluster.api.record(changed).spec.code.tree, code.tree)
        # Without what jobctl remembers, all is read, and still nothing is sent.
        _, line = self.send(cluster, env={"XDG_CACHE_HOME": self.path("other-cache")})
        self.assertRegex(line, r"nothing changed$|sent \d+(\.\d)? (B|KB|MB) in")

    def test_a_restart_of_the_coordinator_forgets_nothing(self):
        cluster = self.make_cluster()
        self.send(cluster)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertIn("nothing changed", self.send(cluster)[1])

    def test_another_project_has_to_send_it_too(self):
        cluster = self.make_cluster()
        self.send(cluster)
        cluster.jobctl("project", "create", "vision", "--open", check=False)
        done = cluster.jobctl("submit", "--sync=" + self.root, "--project", "vision", *NEVER, "--", "true", check=False)
        self.assertIn("sent 1.5 MB", self.code_line(done))

    def test_what_differs_is_named_and_read_back(self):
        cluster = self.make_cluster()
        a, _ = self.send(cluster)
        self.write("model.py", "LOSS = 22\n")
        self.write("new.py", "")
        os.remove(os.path.join(self.root, "weights.bin"))
        b, _ = self.send(cluster)
        done = cluster.jobctl("diff", a, b, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("3 files of the code:\n~ model.py  10 B, was 9 B\n+ new.py  0 B\n- weights.bin  1.5 MB\n",
                      done.stdout)
        files = json.loads(cluster.jobctl("diff", a, b, "-o", "json", check=False).stdout)["files"]
        self.assertEqual([each["path"] for each in files], ["model.py", "new.py", "weights.bin"])
        self.assertEqual(files[0]["b"]["sha256"], hashlib.sha256(b"LOSS = 22\n").hexdigest())
        lines = cluster.jobctl("diff", a, b, "--code", check=False).stdout
        self.assertIn("--- a/model.py\n+++ b/model.py\n@@ -1 +1 @@\n-LOSS = 1\n+LOSS = 22\n", lines)

    def test_the_commit_and_whether_something_differs_from_it_are_recorded(self):
        need(os.path.exists("/usr/bin/git"), "needs git")

        def git(*args):
            return subprocess.run(["git", "-C", self.root, "-c", "user.name=t", "-c", "user.email=t@example.com", *args],
                                  check=True, capture_output=True, text=True).stdout.strip()
        git("init", "-q")
        git("add", ".")
        git("commit", "-q", "-m", "first")
        cluster = self.make_cluster()
        code = cluster.api.record(self.send(cluster)[0]).spec.code
        self.assertEqual((code.git_commit, code.git_dirty), (git("rev-parse", "HEAD"), False))
        self.write("model.py", "LOSS = 3\n")
        job, _ = self.send(cluster)
        self.assertTrue(cluster.api.record(job).spec.code.git_dirty)
        shown = cluster.jobctl("show", job).stdout
        self.assertIn(f"commit {code.git_commit[:12]} with changes, from ", shown)

    def test_a_job_file_sends_its_own_directory(self):
        cluster = self.make_cluster()
        self.write("jobs/train.yaml", "command: [python3, train.py]\nworkdir: ..\nsync: true\n"
                   "setup: echo ready\noutputs: [results]\nresources: {devices: gpu}\n")
        file = os.path.join(self.root, "jobs", "train.yaml")
        spec = cluster.api.record(cluster.submit(file, "--queue-anyway", cwd="/")).spec
        self.assertEqual((spec.workdir, spec.code.files), ("", 5))
        self.assertEqual(list(spec.setup), ["/bin/sh", "-e", "-c", "echo ready"])
        self.assertEqual(list(spec.outputs), ["results"])
        job = cluster.submit(f"--sync={self.root}", "--workdir", "sub", *NEVER, "--", "./run.sh", cwd="/")
        self.assertEqual(cluster.api.record(job).spec.workdir, "sub")
        yaml = cluster.jobctl("show", "-o", "yaml", job).stdout
        self.assertIn("tree: ", yaml)
        here = cluster.submit("--no-sync", *NEVER, "--", "true", cwd=self.root)
        self.assertEqual(cluster.api.record(here).spec.workdir, self.root)
        for line in (("validate", file), ("plan", file), ("submit", "--dry-run", "--queue-anyway", file)):
            done = cluster.jobctl(*line, check=False, cwd="/")
            self.assertNotIn("error:", done.stderr, line)
            self.assertNotIn("code:", done.stderr, line)

    def test_a_directory_that_cannot_be_sent_is_refused_with_names(self):
        cluster = self.make_cluster()
        for make, words in (
                (lambda path: os.symlink("/etc", path), ("bad", "absolute")),
                (lambda path: os.symlink("../../../../etc/passwd", path), ("bad", "out of the tree")),
                (os.mkfifo, ("bad",)),
                (lambda path: open(path.encode() + b"\xff", "w").close(), ("bad\\xff", "UTF-8"))):
            path = os.path.join(self.root, "bad")
            make(path)
            done = cluster.jobctl("submit", "--sync=" + self.root, *NEVER, "--", "true", check=False)
            self.assert_error(done, "JC1710", ".musterignore", *words)
            self.write(".musterignore", "bad*\n")
            self.send(cluster)
            os.remove(os.path.join(self.root, ".musterignore"))
            for name in os.listdir(os.fsencode(self.root)):
                if name.startswith(b"bad"):
                    os.remove(os.path.join(os.fsencode(self.root), name))
        self.write(".musterignore", "/sub/\n")
        done = cluster.jobctl("submit", "--sync=" + self.root, "--workdir", "sub", *NEVER, "--", "true", check=False)
        self.assert_error(done, "JC1714", "ignore")
        self.assert_error(cluster.jobctl("submit", "--sync=/no/such/place", "--", "true", check=False), "JC1713")

    def test_code_that_was_never_sent_is_no_job(self):
        cluster = self.make_cluster()
        service = cluster.api.service
        _, _, job = harness.protos()
        spec = job.JobSpec(command=["true"], env={"A": "1"})
        spec.shape.processes = 1
        spec.code.tree = spec.code.placement = "0" * 64
        spec.code.manifest_bytes = spec.code.placement_bytes = 100
        with self.assertRaises(Exception) as refused:
            cluster.api.unary("Submit", service.SubmitRequest(spec=spec, queue_anyway=True), service.SubmitResponse)
        self.assertIn("JC17", str(refused.exception))

    def test_a_terminal_shows_one_line_that_is_replaced(self):
        cluster = self.make_cluster()
        screen = Terminal(self, cluster, "submit", "--sync=" + self.root, *NEVER, "--", "true")
        screen.wait_for(b"\rcode: reading, ")
        lines = screen.wait_for_screen(lambda lines: lines[2].startswith("next: "))
        self.assertRegex(lines[0], r"^code: 4 files, 1\.5 MB; sent 1\.5 MB in ")
        self.assertIn(" submitted", lines[1])

    def test_an_interrupted_upload_is_continued(self):
        cluster = self.make_cluster()
        for number in range(40):
            with open(os.path.join(self.root, f"big{number}"), "wb") as file:
                file.write(os.urandom(4_000_000))
        data = os.path.join(cluster.directory, "data")

        def stored():
            return sum(size_if_there(os.path.join(where, name)) for where, _, names in os.walk(data) for name in names)
        before = stored()
        process = cluster.start_jobctl("submit", "--sync=" + self.root, *NEVER, "--", "true")
        wait_until(lambda: stored() > before + 40_000_000, "some of it arrived", every_s=0.002)
        process.send_signal(2)
        _, err = process.communicate(timeout=harness.DEADLINE_S)
        if process.returncode == 0:
            self.skipTest("SKIPPED: the upload was faster than the signal")
        self.assertEqual(process.returncode, 130, err)
        self.assertIn(b"no job was submitted", err)
        self.assertEqual(len(cluster.api.list()), 0)
        _, line = self.send(cluster)
        sent = float(re.search(r"sent ([\d.]+) MB", line)[1])
        self.assertLess(sent, 160 - 30, line)


class OnANode(CodeCase):
    def setUp(self):
        super().setUp()
        need(os.geteuid() == 0, "takes root")
        os.chmod(self.directory, 0o755)

    def run_over(self, cluster, *args):
        job = cluster.submit("-n", "1", "--sync=" + self.root, *args, cwd="/")
        return job, cluster.wait_over(job, deadline_s=60)

    def test_a_full_node_names_what_it_needs_and_starts_nothing(self):
        cluster = self.make_cluster()
        state = os.path.join(cluster.directory, "w-small")
        os.mkdir(state)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=270m", "muster-test", state], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", state])
        cluster.add_worker("small")
        self.write("weights.bin", "w" * 30_000_000)
        job = cluster.submit("-n", "1", "--sync=" + self.root, "--", "true", cwd="/")
        record = wait_until(lambda: (found := cluster.api.record(job)).attempts and found.attempts[0].ended_ms and found, "it was tried")
        # Not the job's fault: it would try again, also elsewhere.
        self.assertRegex(record.attempts[0].reason, r"node small has no room for the job's code: .*/w-small/code needs \d+ MB, and \d+ MB are free, "
                         r".*; fix: free space on that disk, or start its worker with a --state-dir on a larger one")
        self.assertEqual(cluster.api.logs(job)[0], {})
        cluster.jobctl("cancel", job)
        self.write("weights.bin", "w")
        job, record = self.run_over(cluster, "--", "python3", "train.py")
        self.assertEqual(record.state, SUCCEEDED, record.reason)

    def test_code_and_setup_belong_to_the_ranks_account(self):
        cluster = self.make_cluster()
        cluster.add_worker("n0", args=["--run-as", "nobody"])
        setup = "id -u; echo made >$MUSTER_SETUP_DIR/tool; echo changed >model.py"
        script = ("id -u; stat -c '%u' . model.py; cat model.py $MUSTER_SETUP_DIR/tool; echo mine >train.py && echo own; "
                  "echo x >$MUSTER_SETUP_DIR/tool || echo read-only")
        for _ in range(2):
            job, record = self.run_over(cluster, "--setup", setup, "--", "sh", "-c", script)
            logs, _ = cluster.api.logs(job)
            self.assertEqual(record.state, SUCCEEDED, (record.reason, logs))
            self.assertEqual(logs[(0, 0, 1)].decode().split(), ["65534", "65534", "65534", "changed", "made", "own", "read-only"], logs)
        self.assertIn("65534\n", cluster.jobctl("logs", job, "--setup").stdout.replace("[n0] ", ""))


class FromAnotherHost(CodeCase):
    """jobctl in its own network namespace: the coordinator has no address there."""

    def setUp(self):
        super().setUp()
        need(harness.has_network_namespaces(), "needs root, iproute2 and network namespaces")
        self.network = Network(self, 1)
        self.address = self.network.address + ":7700"
        self.cluster = self.make_cluster(prefix=self.network.inside(),
                                         coordinator_args=["--listen", self.address, "--insecure-plaintext"])
        self.cluster.env.update(JOBCTL_SERVER=self.address, HOME=self.path("home"))
        os.mkdir(self.path("home"))

    def submit(self, *args, node="node1", cwd=None, check=True):
        done = subprocess.run([*self.network.inside(node), JOBCTL, "submit", "-o", "name", "--queue-anyway", *args],
                              cwd=cwd or self.root, env=self.cluster.env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=check)
        spec = self.cluster.api.record(done.stdout.strip()).spec if check else None
        return spec, done.stderr

    def test_its_directory_is_sent_by_default_and_only_then(self):
        line = ("--devices", "gpu", "--", "true")
        spec, told = self.submit(*line)
        self.assertIn(f"code: sending {self.root} to {self.address} (default on a remote context; --no-sync: it is "
                      "already on the nodes)\n", told)
        self.assertEqual((spec.code.files, spec.workdir), (4, ""))
        for args, workdir in ((("--no-sync",), self.root), (("--workdir", "/usr"), "/usr")):
            spec, told = self.submit(*args, *line)
            self.assertNotIn("code:", told)
            self.assertEqual((spec.HasField("code"), spec.workdir), (False, workdir))
        spec, told = self.submit(*line, node=None)
        self.assertNotIn("code:", told, "on the coordinator's host")
        self.assertFalse(spec.HasField("code"))
        spec, told = self.submit(*line, cwd=self.path("home"))
        self.assertIn(f"code: not sending {self.path('home')}, which is or contains your home", told)
        self.assertFalse(spec.HasField("code"))
        self.write("jobs/train.yaml", "command: [x]\nsync: false\nresources: {devices: gpu}\n")
        spec, told = self.submit("jobs/train.yaml")
        self.assertNotIn("code:", told)
        os.symlink("/etc", os.path.join(self.root, "bad"))
        _, told = self.submit(*line, check=False)
        self.assertIn("--no-sync if the code is on the nodes already", told)


class NodesThatShareNothing(CodeCase):
    """Two nodes in network namespaces, each behind mounts that hide the directory of the submit."""

    def setUp(self):
        super().setUp()
        need(harness.has_network_namespaces(), "needs root, iproute2 and network namespaces")
        self.network = Network(self, 2)
        self.address = self.network.address + ":7700"
        self.cluster = self.make_cluster(prefix=self.network.inside(),
                                         coordinator_args=["--listen", self.address, "--insecure-plaintext"])
        for name, address in self.network.nodes.items():
            hide = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {self.root} && exec "$@"', "sh"]
            self.cluster.add_worker(name, "cpu:2", coordinator=self.address, args=["--advertise", address],
                                    prefix=[*self.network.inside(name), *hide], wait=False)
        self.cluster.wait_nodes(*self.network.nodes)

    def outputs_of(self, job, deadline_s=30):
        return wait_until(lambda: [each for each in self.cluster.api.record(job).outputs if each.state == 2],
                          "the outputs are committed", deadline_s)

    def test_code_setup_and_outputs_on_two_nodes(self):
        self.write("train.py", "import os, model\n"
                   "os.makedirs('results', exist_ok=True)\n"
                   "rank = os.environ['RANK']\n"
                   "open(f'results/rank{rank}.txt', 'w').write('of rank ' + rank)\n"
                   "setup = open(os.environ['MUSTER_SETUP_DIR'] + '/made').read().strip()\n"
                   "print(os.getcwd(), model.LOSS, setup, flush=True)\n")
        line = ("-n", "4", "--nodes", "2", "--sync=" + self.root, "--outputs", "results", "--setup",
                "echo made on purpose; echo 7 > $MUSTER_SETUP_DIR/made; test -f model.py", "--", harness.PYTHON, "-S",
                "train.py")
        job = self.cluster.submit(*line, cwd="/")
        record = self.cluster.wait_over(job, deadline_s=60)
        logs, _ = self.cluster.api.logs(job)
        self.assertEqual(record.state, SUCCEEDED, (record.reason, logs))
        for rank in range(4):
            where, loss, setup = logs[(0, rank, 1)].decode().split()
            self.assertEqual((loss, setup), ("1", "7"))
            self.assertNotIn(self.root, where)
            self.assertTrue(where.endswith("/code"), where)
        for part in record.attempts[0].parts:
            self.assertTrue(part.preparation.ran_setup)
            self.assertGreater(part.preparation.fetched_bytes, 1_000_000)
        printed = self.cluster.jobctl("logs", job, "--setup").stdout
        for name in self.network.nodes:
            self.assertIn(f"[{name}] made on purpose\n", printed)
        self.assertEqual(self.outputs_of(job)[0].file_count, 4)
        shown = self.cluster.jobctl("show", job).stdout
        self.assertIn("code: 1.5 MB fetched; setup took", shown)
        # Once more: nothing is sent, fetched or set up again, and a rank that changes its code changed only its own.
        again = self.cluster.jobctl("submit", "-o", "name", *line, cwd="/")
        self.assertIn("nothing changed", self.code_line(again))
        record = self.cluster.wait_over(again.stdout.strip(), deadline_s=60)
        self.assertEqual(record.state, SUCCEEDED, record.reason)
        for part in record.attempts[0].parts:
            self.assertEqual((part.preparation.ran_setup, part.preparation.fetched_bytes), (False, 0))
        self.assertIn("setup cached", self.cluster.jobctl("show", record.name).stdout)

    def test_a_setup_that_fails_starts_no_rank_and_is_shown(self):
        job = self.cluster.submit("-n", "4", "--nodes", "2", "--sync=" + self.root, "--setup", "echo no such wheel; false",
                                  "--", "sh", "-c", "touch started", cwd="/")
        record = self.cluster.wait_over(job, deadline_s=60)
        self.assertEqual(record.state, FAILED)
        self.assertIn("setup", record.reason)
        self.assertIn("no such wheel", self.cluster.jobctl("show", job).stdout)
        self.assertRegex(self.cluster.jobctl("logs", job, "--setup").stdout,
                         r"\[(node\d)\] setup failed after .*\n\[\1\] no such wheel\n")
        self.assertEqual(self.cluster.api.logs(job)[0], {})

    def test_ranks_change_their_copy_and_not_the_next_jobs(self):
        first = self.cluster.submit("-n", "1", "--sync=" + self.root, "--", "sh", "-c",
                                    "echo 'LOSS = 99' > model.py; rm -rf sub; cat model.py", cwd="/")
        self.assertEqual(self.cluster.wait_over(first).state, SUCCEEDED)
        second = self.cluster.submit("-n", "4", "--nodes", "2", "--sync=" + self.root, "--", "sh", "-c",
                                     "cat model.py && sub/run.sh", cwd="/")
        record = self.cluster.wait_over(second)
        logs, _ = self.cluster.api.logs(second)
        self.assertEqual(record.state, SUCCEEDED, (record.reason, logs))
        for rank in range(4):
            self.assertTrue(logs[(0, rank, 1)].startswith(b"LOSS = 1\n"), logs)

    def test_a_hostile_manifest_reaches_no_node(self):
        """Objects of another client: names that lead out of the directory that a node writes."""
        service = self.cluster.api.service
        _, _, job = harness.protos()

        def entry(shared, path, kind=b"\x00", content=b"x"):
            rest = path[shared:]
            head = kind + len(path[:shared]).to_bytes(2, "little") + len(rest).to_bytes(2, "little") + rest
            return head + len(content).to_bytes(8, "little") + hashlib.sha256(content).digest()
        escaped = self.path("escaped")
        for path in (b"../" * 12 + escaped.encode(), escaped.encode(), b"a/../../b", b"a\x00b"):
            manifest = b"MSTRTRE1" + (1).to_bytes(4, "little") + entry(0, path)
            identity = hashlib.sha256(manifest).digest()
            placement = (b"MSTRPLC1" + identity + (1).to_bytes(4, "little") + hashlib.sha256(b"x").digest() +
                         (1).to_bytes(8, "little") + (0).to_bytes(4, "little") + (0).to_bytes(8, "little"))
            chunks = [service.ObjectChunk(sha256=hashlib.sha256(each).digest(), size=len(each), data=each)
                      for each in (b"x", placement, manifest)]
            push = self.cluster.api.channel.stream_unary(
                "/muster.v1.JobService/PushObjects", request_serializer=service.ObjectChunk.SerializeToString,
                response_deserializer=service.PushObjectsResponse.FromString)
            push(iter(chunks), timeout=10)
            spec = job.JobSpec(command=["true"])
            spec.shape.processes = 1
            spec.code.tree, spec.code.manifest_bytes = identity.hex(), len(manifest)
            spec.code.placement, spec.code.placement_bytes = hashlib.sha256(placement).hexdigest(), len(placement)
            try:
                response = self.cluster.api.unary("Submit", service.SubmitRequest(spec=spec), service.SubmitResponse)
            except Exception as error:  # a coordinator may look into it first
                self.assertIn("JC17", str(error))
                continue
            record = self.cluster.wait_for(response.name, FAILED)
            self.assertIn("code", record.reason)
        self.assertFalse(os.path.exists(escaped))
        self.assertEqual(self.cluster.wait_over(self.cluster.submit("--", "true", cwd="/")).state, SUCCEEDED)


if __name__ == "__main__":
    harness.main()
