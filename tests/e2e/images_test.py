"""Ranks in an image: started by runc below the shim, which keeps what it has of other ranks: pipes, exit codes, signals,
the kill tree, adoption. The image is made on the spot of a few programs of this machine. Takes root, runc and umoci.
"""
import http.server
import os
import shutil
import subprocess
import sys
import threading
import time

import harness
import oci_layout
from containers_test import BASE, Podman
from harness import CANCELLED, FAILED, SUCCEEDED, Case, Cluster, need, wait_until

ACCOUNT, UID = "nobody", 65534


def mounts_below(directory):
    with open("/proc/self/mountinfo") as file:
        return [line.split()[4] for line in file if line.split()[4].startswith(directory)]


class Registry:
    """As much of a registry's protocol as a pull takes, over a layout."""

    def __init__(self, directory):
        self.directory, self.asked, self.lies = directory, [], {}
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                registry.asked.append(self.path)
                if self.path == "/v2/":
                    return self.answer(b"{}", "application/json")
                digest = self.path.rsplit("/", 1)[1]
                path = os.path.join(registry.directory, "blobs/sha256", registry.lies.get(digest, digest).replace("sha256:", ""))
                if not os.path.exists(path):
                    return self.answer(b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}', "application/json", 404)
                with open(path, "rb") as file:
                    data = file.read()
                self.answer(data, "application/vnd.oci.image.manifest.v1+json" if "/manifests/" in self.path else "application/octet-stream")

            def answer(self, data, kind, code=200):
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Images(Case):
    def setUp(self):
        super().setUp()
        need(os.geteuid() == 0, "root is needed to mount images")
        for program in ("runc", "umoci"):
            need(shutil.which(program), f"{program} is not here")
        os.chmod(self.directory, 0o755)
        self.image = self.path("image")
        oci_layout.write(self.image, [oci_layout.small_tree().layer()],
                         {"Env": ["PATH=/usr/bin:/bin", "FROM_IMAGE=yes", "HOME=/home-of-image"], "WorkingDir": "/usr"})

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, nodes=1, args=()):
        cluster = Cluster(self).start()
        for i in range(nodes):
            cluster.add_worker(f"n{i}", args=args)
        return cluster

    def submit(self, cluster, script, ranks=1, nodes=1, image=None, env=(), limits=None, **more):
        service, _, job = harness.protos()
        name, value = self.mark.split("=")
        spec = job.JobSpec(command=["sh", "-c", script] if isinstance(script, str) else script,
                           env={name: value, **dict(env)}, shape=job.Shape(processes=ranks, min_nodes=nodes),
                           grace_ms=1000, **more)
        spec.shape.device.kind = "cpu"
        if limits is not None:
            spec.shape.limits.CopyFrom(limits)
        spec.container.image = image or f"oci:{self.image}"
        for mount in self.mounts_of_job:
            spec.container.mounts.add(**mount)
        answer = cluster.api.unary("Submit", service.SubmitRequest(spec=spec), service.SubmitResponse)
        return answer.job

    mounts_of_job = ()

    def out(self, cluster, job, rank=0, stream=1):
        logs, _ = cluster.api.logs(job)
        attempts = sorted({key[0] for key in logs})
        return logs.get((attempts[-1], rank, stream), b"").decode() if attempts else ""

    def story(self, cluster, job):
        return "\n".join([cluster.api.record(job).reason, self.out(cluster, job), self.out(cluster, job, stream=2),
                          *(worker.output()[-1500:] for worker in cluster.workers.values())])

    def run_over(self, cluster, script, **more):
        job = self.submit(cluster, script, **more)
        record = cluster.wait_over(job)
        return job, record

    def assert_nothing_left(self, cluster):
        wait_until(lambda: not [line for line in self.processes().values()
                                if "muster-worker" not in line and "muster-coordinator" not in line],
                   lambda: f"no process is left: {self.processes()}")
        self.assertEqual(mounts_below(self.directory), [])

    def test_two_nodes_see_the_image_and_their_own_attempt(self):
        cluster = self.start(2)
        facts = cluster.nodes()["n0"].record.facts
        self.assertRegex(facts.containers.runtime, r"^runc \d")
        shown = cluster.jobctl("nodes", "show", "n0").stdout
        self.assertIn("Images        runc ", shown)
        os.makedirs(self.path("data"))
        with open(self.path("data/file"), "w") as file:
            file.write("of the node")
        self.mounts_of_job = ({"source": self.path("data"), "target": "/data", "read_only": True},)
        job, record = self.run_over(cluster, """
            echo rank $RANK of $WORLD_SIZE $FROM_IMAGE $HOME $NAMED; readlink /proc/self/cwd; id -u
            cat /data/file; touch /data/x 2>/dev/null || echo read-only
            ls $MUSTER_CHECKPOINT_DIR >/dev/null && touch $MUSTER_CHECKPOINT_DIR/mine && echo checkpoints
            cat $MUSTER_RANK_TOKEN_FILE >/dev/null && echo token
            touch /written && ls /written; ls /home /work 2>/dev/null; ls -d /tmp /dev/shm /dev/null
            mount -t tmpfs x /tmp 2>/dev/null || unshare -m true 2>/dev/null || unshare -U true 2>/dev/null || echo confined
            while read name value; do case $name in CapEff:|NoNewPrivs:|Seccomp:) echo $name $value;; esac; done </proc/self/status
            """, ranks=2, nodes=2, env={"NAMED": "by-job"})
        self.assertEqual(record.state, SUCCEEDED, self.story(cluster, job))
        for rank in (0, 1):
            self.assertEqual(self.out(cluster, job, rank).splitlines(), [
                f"rank {rank} of 2 yes /home-of-image by-job", "/usr", "0", "of the noderead-only", "checkpoints", "token",
                "/written", "/dev/null", "/dev/shm", "/tmp", "confined", "CapEff: 0000000000000000", "NoNewPrivs: 1",
                "Seccomp: 2"], self.out(cluster, job, rank, stream=2))
        self.assertTrue(record.attempts[0].parts[0].preparation.image.startswith("sha256:"))
        (root,) = self.unpacked(cluster)
        self.assertTrue(os.path.exists(os.path.join(root, "bin/sh")) or os.path.exists(os.path.join(root, "usr/bin/sh")))
        self.assertFalse(os.path.exists(os.path.join(root, "written")))
        self.assert_nothing_left(cluster)

    def unpacked(self, cluster, node="n0"):
        """The root file systems in the node's cache."""
        images = os.path.join(cluster.directory, f"w-{node}/code/images")
        return [os.path.join(images, name, "root") for name in sorted(os.listdir(images))]

    def test_exit_codes_and_signals_are_the_programs(self):
        cluster = self.start()
        for script, code, signal in (("exit 0", 0, 0), ("exit 3", 3, 0), ("exit 139", 139, 0), ("kill -SEGV $$", 0, 11),
                                     ("kill -KILL $$", 0, 9)):
            job, record = self.run_over(cluster, script)
            if code or signal:
                first = record.attempts[0].parts[0].exits[0]
                self.assertEqual((first.exit_code, first.signal), (code, signal), script)
            self.assertEqual(record.state, SUCCEEDED if not code and not signal else FAILED)
        self.with_data()
        job, record = self.run_over(cluster, ["/data/no-such-program"])
        self.assertEqual(record.state, FAILED)
        self.assertIn("the container of rank 0 could not be started", self.story(cluster, job))
        self.assertIn("/data/no-such-program: no such file or directory", self.out(cluster, job, stream=2))
        self.mounts_of_job = ()
        job, record = self.run_over(cluster, ["no-such-program"])
        self.assertEqual(record.state, FAILED)
        self.assertRegex(record.reason, "command 'no-such-program' was not found in PATH .* of the image oci:")
        self.assert_nothing_left(cluster)

    def test_a_stop_reaches_the_program_and_kills_what_ignores_it(self):
        cluster = self.start()
        job = self.submit(cluster, "trap 'echo stopping; exit 0' TERM; (trap '' TERM HUP; sleep 1000) & echo ready; "
                                   "while :; do sleep 0.05; done")
        wait_until(lambda: "ready" in self.out(cluster, job), lambda: "it runs: " + self.story(cluster, job))
        cluster.jobctl("cancel", job)
        self.assertEqual(cluster.wait_over(job).state, CANCELLED)
        self.assertEqual(self.out(cluster, job), "ready\nstopping\n")
        self.assert_nothing_left(cluster)

    def test_a_killed_worker_adopts_ranks_in_images(self):
        cluster = self.start()
        job = self.submit(cluster, "echo ready; while [ ! -e /data/go ]; do sleep 0.05; done; echo went; exit 5",
                          **self.with_data())
        wait_until(lambda: "ready" in self.out(cluster, job), lambda: "it runs: " + self.story(cluster, job))
        before = {pid for pid, line in self.processes().items() if "data/go" in line}
        cluster.workers["n0"].kill9()
        cluster.workers["n0"].start()
        wait_until(lambda: cluster.nodes()["n0"].record.connected, "the worker is back")
        self.assertEqual({pid for pid, line in self.processes().items() if "data/go" in line}, before)
        def inside():
            done = cluster.jobctl("exec", job, "--", "sh", "-c", "echo in $FROM_IMAGE; ls /data; id -u; exit 4", check=False)
            return done if done.returncode != 5 else None  # the worker takes commands a moment after it is connected
        done = wait_until(inside, "the worker takes commands")
        self.assertEqual((done.returncode, done.stdout), (4, "in yes\n0\n"), done.stderr)
        missing = cluster.jobctl("exec", job, "--", "no-such-program", check=False)
        self.assertEqual(missing.returncode, 127)
        self.assertIn("was not found in the rank's image", missing.stderr)
        with open(self.path("data/go"), "w"):
            pass
        record = cluster.wait_over(job)
        self.assertEqual((record.state, len(record.attempts)), (FAILED, 1), record.reason)
        self.assertEqual(self.out(cluster, job), "ready\nwent\n")
        self.assert_nothing_left(cluster)

    def with_data(self):
        os.makedirs(self.path("data"), exist_ok=True)
        self.mounts_of_job = ({"source": self.path("data"), "target": "/data"},)
        return {}

    def test_nothing_is_left_after_the_shim_was_killed(self):
        cluster = self.start()
        job = self.submit(cluster, "(sleep 1000 &) ; echo ready; exec sleep 1000", ranks=2)
        def sleeping():
            return {pid for pid, line in self.processes().items() if line == "sleep 1000"}
        wait_until(lambda: len(sleeping()) == 4, lambda: "it runs: " + self.story(cluster, job))
        shim = next(pid for pid, line in self.processes().items() if "muster-shim" in line)
        before = sleeping()
        harness.kill9(shim)
        # A lost supervisor is the node's fault: the job restarts.
        record = wait_until(lambda: (record := cluster.api.record(job)) and len(record.attempts) == 2 and record,
                            lambda: "a second attempt: " + self.story(cluster, job))
        self.assertIn("muster-shim", record.attempts[0].reason)
        self.assertFalse(before & set(self.processes()))
        cluster.jobctl("cancel", job)
        cluster.wait_over(job)
        self.assert_nothing_left(cluster)

    def test_ranks_of_another_account_share_tmp_and_shared_memory(self):
        cluster = self.start(args=("--run-as", ACCOUNT))
        script = ("echo $RANK >/tmp/$RANK; echo $RANK >/dev/shm/$RANK; "
                  "until [ -e /tmp/$((1-RANK)) ] && [ -e /dev/shm/$((1-RANK)) ]; do sleep 0.02; done; id -u; id -G; "
                  "touch /usr/x 2>/dev/null || echo not-roots; touch $MUSTER_CHECKPOINT_DIR/x && echo own")
        job, record = self.run_over(cluster, script, ranks=2)
        self.assertEqual(record.state, SUCCEEDED, self.story(cluster, job))
        self.assertEqual(self.out(cluster, job, 1).splitlines()[0], str(UID))
        self.assertEqual(self.out(cluster, job).splitlines()[2:], ["not-roots", "own"])
        # A directory that the account cannot reach is not reached by way of a mount.
        os.makedirs(self.path("closed/open"))
        os.chmod(self.path("closed"), 0o700)
        self.mounts_of_job = ({"source": self.path("closed/open"), "target": "/x"},)
        job, record = self.run_over(cluster, "ls /x")
        self.assertRegex(record.reason, "the mount .*/closed/open: Permission denied")
        self.assert_nothing_left(cluster)

    def test_a_limit_on_memory_is_the_ranks_own(self):
        cluster = self.start()
        need(not cluster.nodes()["n0"].record.facts.limits.HasField("no_memory"), "memory cannot be limited here")
        _, _, job = harness.protos()
        limits = job.RankLimits(memory_bytes=64 << 20)
        job, record = self.run_over(cluster, "x=$(head -c 300m /dev/zero | tail -c 200m); exit 7", limits=limits)
        self.assertEqual(record.state, FAILED)
        self.assertEqual(record.attempts[0].parts[0].exits[0].memory_limit_bytes, 64 << 20, self.story(cluster, job))
        self.assertIn("memory", record.reason)
        self.assert_nothing_left(cluster)

    def test_setup_runs_in_the_image(self):
        cluster = self.start()
        more = {"setup": ["sh", "-c", "echo made $FROM_IMAGE; mkdir $MUSTER_SETUP_DIR/bin; echo 'echo tool of $FROM_IMAGE' "
                          ">$MUSTER_SETUP_DIR/bin/tool; touch /in-setup"]}
        job, record = self.run_over(cluster, "ls /in-setup 2>/dev/null; sh $MUSTER_SETUP_DIR/bin/tool; echo $PATH", **more)
        self.assertEqual(record.state, SUCCEEDED, self.story(cluster, job))
        preparation = record.attempts[0].parts[0].preparation
        self.assertEqual((preparation.ran_setup, preparation.setup_output), (True, b"made yes\n"))
        tool, path = self.out(cluster, job).splitlines()
        self.assertEqual(tool, "tool of yes")
        self.assertRegex(path, "^/.*/dir/bin:/usr/bin:/bin$")
        job, record = self.run_over(cluster, "true", setup=["sh", "-c", "echo broken; (sleep 1000 &); exit 9"])
        self.assertEqual(record.state, FAILED)
        self.assertIn("setup failed on n0 with exit code 9", record.reason)
        self.assert_nothing_left(cluster)

    def test_what_is_wrong_is_told_before_any_rank_starts(self):
        cluster = self.start()
        for image, words in (
                ("oci:/no/such/layout", "node n0 cannot get the image oci:/no/such/layout: .*No such file"),
                ("localhost/no-such-image", "cannot get the image localhost/no-such-image: .*; fix: ")):
            job, record = self.run_over(cluster, "true", image=image)
            self.assertEqual(record.state, FAILED)
            self.assertRegex(record.reason, words)
        done = cluster.jobctl("submit", "--image", "docker.io/library/debian:12", "--", "true", check=False)
        self.assertIn("a tag can mean another image on each node and tomorrow [JC1108]", done.stderr)
        for mount, words in (({"source": "/no/such"}, "No such file"),
                             ({"source": self.path("c"), "target": "/c"}, "which is the worker's own"),
                             ({"source": "/dev/shm", "target": "/x"}, "other jobs get their secrets"),
                             ({"source": "/dev", "target": "/x"}, "other jobs get their secrets"),
                             ({"source": "/dev/shm/muster-1", "target": "/x"}, "other jobs get their secrets"),
                             ({"source": "/dev/null", "target": "/c"}, "neither a directory nor a regular file"),
                             ({"source": self.path("link"), "target": "/c"}, "leads through a symbolic link")):
            if not os.path.lexists(self.path("link")):
                os.symlink("/etc", self.path("link"))
            self.mounts_of_job = (mount,)
            job, record = self.run_over(cluster, "true")
            self.assertEqual(record.state, FAILED)
            self.assertRegex(record.reason, words)
        self.mounts_of_job = ()
        job, record = self.run_over(cluster, "true", workdir="/no/such")
        self.assertRegex(record.reason, "it has no directory /no/such, which is the job's workdir")
        self.assert_nothing_left(cluster)

    def test_an_image_of_a_registry_is_what_its_digest_says(self):
        need(shutil.which("skopeo"), "skopeo is not here")
        digest = oci_layout.write(self.path("pushed"), [oci_layout.small_tree().layer()], {"Env": ["PATH=/bin", "FROM=registry"]})
        registry = Registry(self.path("pushed"))
        self.addCleanup(registry.close)
        os.makedirs(self.path(".config/containers"))
        with open(self.path(".config/containers/registries.conf"), "w") as file:
            file.write(f'[[registry]]\nlocation="{registry.host}"\ninsecure=true\n')
        cluster = self.start()
        image = f"{registry.host}/test/base:1@{digest}"
        for _ in range(2):
            job, record = self.run_over(cluster, "echo $FROM", image=image)
            self.assertEqual((record.state, self.out(cluster, job)), (SUCCEEDED, "registry\n"), self.story(cluster, job))
            self.assertEqual(record.attempts[0].parts[0].preparation.image, digest)
        blobs = [path for path in registry.asked if "/blobs/" in path]
        self.assertEqual(len(blobs), 2, f"fetched once: {registry.asked}")
        # One that answers with something else than what was asked for.
        other = oci_layout.write(self.path("other"), [oci_layout.small_tree(("sh",)).layer()])
        registry.lies = {digest.replace("sha256:" + digest[7:9], "sha256:00"): other}
        lie = next(iter(registry.lies))
        registry.directory = self.path("other")
        job, record = self.run_over(cluster, "true", image=f"{registry.host}/test/base@{lie}")
        self.assertEqual(record.state, FAILED)
        self.assertRegex(record.reason, "cannot get the image .*(answered with|digest|does not match)")
        job, record = self.run_over(cluster, "true", image=f"{registry.host}/test/none@sha256:{'0' * 64}")
        self.assertRegex(record.reason, "skopeo: it exited with [12]: .*; fix: check whether that node reaches the registry")
        self.assert_nothing_left(cluster)

    def test_jobctl_sends_nothing_of_its_own_environment_and_gets_outputs_back(self):
        cluster = self.start()
        job = cluster.submit("--image", f"oci:{self.image}", "--outputs", "result", "-e", "NAMED=yes", "--", "sh", "-c",
                             "echo $PATH $HOME $NAMED $SHELL_ONLY; pwd; mkdir result; echo of-image >result/file",
                             env={"SHELL_ONLY": "no", "PATH": os.environ["PATH"]})
        record = cluster.wait_over(job)
        self.assertEqual((record.state, self.out(cluster, job)), (SUCCEEDED, "/usr/bin:/bin /home-of-image yes\n/usr\n"),
                         self.story(cluster, job))
        wait_until(lambda: cluster.api.record(job).outputs, lambda: "outputs: " + self.story(cluster, job))
        cluster.jobctl("cp", f"{job}:result", self.path("here"))
        found = [os.path.join(where, name) for where, _, names in os.walk(self.path("here")) for name in names]
        self.assertEqual([os.path.basename(path) for path in found], ["file"])
        with open(found[0]) as file:
            self.assertEqual(file.read(), "of-image\n")

    def test_an_image_of_podmans_is_found_by_its_name(self):
        need(shutil.which("podman"), "podman is not here")
        podman = Podman(self.directory)
        self.env["CONTAINERS_CONF"] = podman.env["CONTAINERS_CONF"]
        pulled = podman.run("pull", "-q", f"oci:{self.image}", check=False)
        need(pulled.returncode == 0, f"podman does not work here: {pulled.stderr[-200:]}")
        name = f"localhost/{os.path.basename(self.directory).lower()}"
        podman.run("tag", pulled.stdout.split()[-1], name)
        self.addCleanup(podman.run, "rmi", "-f", name, check=False)
        cluster = self.start()
        before = mounts_below("/var/lib/containers")
        job, record = self.run_over(cluster, "echo $FROM_IMAGE", image=name)
        self.assertEqual((record.state, self.out(cluster, job)), (SUCCEEDED, "yes\n"), self.story(cluster, job))
        self.assertEqual(mounts_below("/var/lib/containers"), before)
        self.assert_nothing_left(cluster)

    def damage(self, name, layers, tamper=None):
        directory = self.path(name)
        oci_layout.write(directory, layers, tamper=tamper)
        return directory

    def test_hostile_layouts_write_nothing_outside(self):
        cluster = self.start()
        outside = self.path("outside")
        os.makedirs(outside)
        hostile = oci_layout.small_tree()
        hostile.entry("../../../../../../../.." + outside + "/deep", b"x")
        hostile.entry("../../../dots", b"x")
        hostile.link("out", outside)
        hostile.entry("out/through-link", b"x")
        hostile.entry("null", type=b"3", devmajor=1, devminor=3, mode=0o666)
        hostile.entry("rooted", b"x", mode=0o6755)
        hostile.entry("hard", type=b"1", linkname=".." + "/.." * 8 + "/etc/passwd")
        directory = self.damage("hostile", [hostile.layer()])
        job, record = self.run_over(cluster, "ls -ln /null /rooted /dots /hard; cat /hard", image=f"oci:{directory}")
        # What names a place above the image's root is in the image, as for chroot; a device is an empty file.
        self.assertEqual(record.state, SUCCEEDED, self.story(cluster, job))
        said = self.out(cluster, job)
        self.assertRegex(said, r"-rw-rw-rw- +1 0 0 +0 .* /null\n")
        self.assertRegex(said, r"-rwxr-xr-x +1 0 0 .* /rooted\n")  # in the layer such a file would be root's on the node, too
        self.assertTrue(said.endswith("\nroot:x:0:0:root:/root:/bin/sh\n"), said)
        self.assertEqual(os.listdir(outside), [])
        self.assertEqual(os.stat("/etc/passwd").st_nlink, 1)
        changed = self.damage("changed", [oci_layout.small_tree().layer()])
        layer = max((os.path.join(changed, "blobs/sha256", name) for name in os.listdir(changed + "/blobs/sha256")),
                    key=os.path.getsize)
        with open(layer, "r+b") as file:
            file.seek(1000)
            file.write(b"changed")
        job, record = self.run_over(cluster, "true", image=f"oci:{changed}")
        self.assertRegex(record.reason, "is not what its name promises")
        escape = self.damage("escape", [oci_layout.small_tree().layer()],
                             lambda manifest: manifest["layers"][0].update(digest="sha256:../../../../etc/passwd"))
        job, record = self.run_over(cluster, "true", image=f"oci:{escape}")
        self.assertRegex(record.reason, "a layer without a valid digest")
        self.assert_nothing_left(cluster)

    def test_an_image_whose_dev_is_a_link_changes_nothing_on_the_node(self):
        cluster = self.start()
        os.makedirs(self.path("nodes-own"))
        with open(self.path("nodes-own/ptmx"), "w") as file:
            file.write("of the node")
        tree = oci_layout.small_tree(("sh",), system=("proc", "sys"))
        tree.link("dev", self.path("nodes-own"))
        oci_layout.write(self.path("away"), [tree.layer()], {"Env": ["PATH=/usr/bin:/bin"]})
        for setup in (None, ["true"]):
            job, record = self.run_over(cluster, "true", image=f"oci:{self.path('away')}", **({"setup": setup} if setup else {}))
            self.assertEqual(os.listdir(self.path("nodes-own")), ["ptmx"])
            with open(self.path("nodes-own/ptmx")) as file:
                self.assertEqual(file.read(), "of the node")
            self.assertEqual(record.state, FAILED)
            self.assertIn("its /dev is not a directory", record.reason)
        self.assert_nothing_left(cluster)

    def test_a_mount_in_a_mount_is_put_where_no_link_of_the_jobs_leads_it(self):
        cluster = self.start(args=("--run-as", ACCOUNT))
        for name in ("data", "more", "nodes-own"):
            os.makedirs(self.path(name))
            os.chown(self.path(name), UID if name != "nodes-own" else 0, UID)
        with open(self.path("more/file"), "w") as file:
            file.write("of more")
        def mounts(target, read_only=False):
            return ({"source": self.path("more"), "target": target}, {"source": self.path("data"), "target": "/data", "read_only": read_only})
        self.mounts_of_job = mounts("/data/in/there")
        job, record = self.run_over(cluster, "cat /data/in/there/file; touch /data/x && touch /data/in/there/y")
        self.assertEqual((record.state, self.out(cluster, job)), (SUCCEEDED, "of more"), self.story(cluster, job))
        self.assertEqual((sorted(os.listdir(self.path("data"))), sorted(os.listdir(self.path("more")))), (["in", "x"], ["file", "y"]))
        self.assertEqual(os.stat(self.path("data/in/there")).st_uid, UID, "the mount point is the account's, not root's")
        self.mounts_of_job = mounts("/data/in/there", read_only=True)
        job, record = self.run_over(cluster, "touch /data/z 2>/dev/null || echo closed; touch /data/in/there/z && echo open")
        self.assertEqual(self.out(cluster, job), "closed\nopen\n", self.story(cluster, job))
        os.symlink(self.path("nodes-own"), self.path("data/away"))
        self.mounts_of_job = mounts("/data/away/deep")
        job, record = self.run_over(cluster, "true")
        self.assertEqual(record.state, FAILED)
        self.assertIn("cannot mount " + self.path("more") + " at away/deep of another mount: ", record.reason)
        self.assertEqual(os.listdir(self.path("nodes-own")), [])
        self.assert_nothing_left(cluster)

    def test_links_of_an_image_lead_no_mount_into_another_or_to_what_is_refused(self):
        cluster = self.start(args=("--run-as", ACCOUNT))
        state = os.path.join(cluster.directory, "w-n0")
        own = self.path("nodes-own")
        os.makedirs(own, mode=0o755)
        os.makedirs(self.path("data"))
        tree = oci_layout.small_tree()
        tree.directory("y")
        tree.directory("z")
        for name, to in (("mnt/a", "/y"), ("mnt/z", "/z"), ("mnt/c", "/z/made"), ("mnt/dev", "/dev"), ("mnt/shm", "/dev/shm"), ("mnt/all", "/"),
                         ("mnt/state", state + "/attempts"), (state.lstrip("/"), "/y")):
            tree.link(name, to)
        oci_layout.write(self.path("links"), [tree.layer()], {"Env": ["PATH=/usr/bin:/bin"]})
        data = self.path("data")
        for mounts, words in (((((own, "/mnt/a"), (data, "/y/made"))), "which is the worker's own"),
                              (((data, "/mnt/a"), (data, "/y")), "lead two mounts to the same path"),
                              (((own, "/y"),), "which is the worker's own"),
                              (((data, "/mnt/state"),), "which is the worker's own"),
                              (((data, "/mnt/dev/x"),), "would hide what the system has there"),
                              (((data, "/mnt/shm"),), "would hide what the system has there"),
                              (((data, "/mnt/all"),), "hide all its files"),
                              (((own, "/mnt/z"), (data, "/z/made")), "at made of another mount"),
                              (((own, "/z"), (data, "/mnt/c")), "at made of another mount")):
            with self.subTest(mounts=mounts):
                self.mounts_of_job = tuple({"source": source, "target": target} for source, target in mounts)
                job, record = self.run_over(cluster, "true", image=f"oci:{self.path('links')}")
                self.assertEqual(record.state, FAILED, record.reason)
                self.assertIn(words, record.reason)
                self.assertEqual((os.listdir(own), os.listdir(data)), ([], []))
        self.assert_nothing_left(cluster)

    def test_neither_the_kernels_files_nor_another_name_of_the_workers_are_mounted(self):
        cluster = self.start()
        state = os.path.join(cluster.directory, "w-n0")
        for name in ("alias", "holds/in"):
            os.makedirs(self.path(name))
            subprocess.run(["mount", "--bind", state, self.path(name)], check=True)
            self.addCleanup(subprocess.run, ["umount", "-l", self.path(name)])
        for source, words in (("/proc", "the kernel's own files (proc at /proc)"), ("/proc/sys", "the kernel's own files"),
                              ("/sys", "the kernel's own files (sysfs at /sys)"), ("/sys/fs/cgroup", "the kernel's own files"),
                              (self.path("alias"), "under another name"), (self.path("alias/attempts"), "under another name"),
                              (self.path("holds"), "under another name")):
            with self.subTest(source=source):
                self.mounts_of_job = ({"source": source, "target": "/x"},)
                job, record = self.run_over(cluster, "true")
                self.assertEqual(record.state, FAILED, record.reason)
                self.assertIn(words, record.reason)

    def test_the_runtime_sees_and_changes_nothing_but_what_it_needs(self):
        os.makedirs(self.path("nodes-own"))
        os.makedirs(self.path("tools"))
        looks = [self.path("nodes-own"), "/root", "/home", "/etc/shadow", "/etc/sudoers.d", "/var/lib", "/run", "/dev/shm", "/boot",
                 self.path("w-n0/identity"), self.path("c/data")]
        with open(self.path("tools/runc"), "w") as file:
            file.write(f"""#!/bin/sh
case " $* " in *" run "*)
  for path in {" ".join(looks)}; do [ -e $path ] && echo sees $path >&2; done
  for path in / /usr /bin/ /etc /etc/ld.so.cache /sys/kernel/ /proc/sys/vm/swappiness; do [ -w $path ] && echo writes $path >&2; done
  echo looked >&2 ;;
esac
exec {shutil.which("runc")} "$@"
""")
        os.chmod(self.path("tools/runc"), 0o755)
        self.env["PATH"] = self.path("tools") + ":" + self.env["PATH"]
        cluster = self.start()
        for more in ({}, {"setup": ["sh", "-c", "exit 0"]}):
            job, record = self.run_over(cluster, "ls -d /proc/self/fd >/dev/null && echo fine", ranks=2, **more)
            self.assertEqual((record.state, self.out(cluster, job)), (SUCCEEDED, "fine\n"), self.story(cluster, job))
            self.assertEqual(self.out(cluster, job, stream=2), "looked\n")
        self.assert_nothing_left(cluster)

    def test_a_debian_whose_directories_are_links_runs(self):
        cluster = self.start()
        tree = oci_layout.small_tree(("sh", "cat"), system=(), programs_in="usr/bin")
        for name, to in (("bin", "usr/bin"), ("var/run", "/run"), ("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")):
            tree.link(name, to)
        tree.directory("run")
        oci_layout.write(self.path("merged"), [tree.layer()], {"Env": ["PATH=/bin"]})
        os.makedirs(self.path("data"))
        self.mounts_of_job = tuple({"source": self.path("data"), "target": target} for target in ("/var/run/data", "/bin/of/it"))
        job, record = self.run_over(cluster, "cat </etc/resolv.conf >/dev/null && echo $$ >/dev/shm/x && echo >/var/run/y && "
                                    "echo >/run/data/x && cat /usr/bin/of/it/x && echo fine", image=f"oci:{self.path('merged')}")
        self.assertEqual(self.out(cluster, job), "\nfine\n", self.story(cluster, job))

    def test_a_layer_is_open_to_its_own_account_alone(self):
        cluster = self.start(args=("--run-as", ACCOUNT))
        job = self.submit(cluster, "echo mine >/tmp/mine; echo ready; exec sleep 1000")
        wait_until(lambda: "ready" in self.out(cluster, job), lambda: "it runs: " + self.story(cluster, job))
        number = cluster.api.record(job).id
        path = os.path.join(cluster.directory, f"w-n0/attempts/{number}-0/containers/upper/tmp/mine")
        self.assertTrue(os.path.exists(path))
        self.assertEqual(self.read_as(UID, path), "mine\n")
        self.assertEqual(self.read_as(12345, path), "PermissionError")
        cluster.jobctl("cancel", job)
        cluster.wait_over(job)
        self.assert_nothing_left(cluster)

    def read_as(self, uid, path):
        """What an account of the node reads there, in no group of anybody's."""
        script = ("import os, sys; os.setgroups([]); os.setgid(12345); os.setuid(int(sys.argv[1]))\n"
                  "try: print(open(sys.argv[2]).read(), end='')\nexcept OSError as e: print(type(e).__name__, end='')")
        return subprocess.run([sys.executable, "-c", script, str(uid), path], capture_output=True, text=True, timeout=20).stdout

    def test_outputs_do_not_follow_a_working_directory_out_of_the_image(self):
        cluster = self.start()
        os.makedirs(self.path("nodes-own"))
        with open(self.path("nodes-own/file"), "w") as file:
            file.write("of the node")
        tree = oci_layout.small_tree(("sh", "rm", "ln", "mkdir", "touch"))
        tree.directory("w")
        oci_layout.write(self.path("swap"), [tree.layer()], {"Env": ["PATH=/usr/bin:/bin"]})
        job, record = self.run_over(cluster, f"cd /; rm -r /w && ln -s {self.path('nodes-own')} /w; echo $?",
                                    image=f"oci:{self.path('swap')}", workdir="/w", outputs=["file"])
        self.assertEqual(self.out(cluster, job), "0\n", self.story(cluster, job))
        self.assertEqual(cluster.jobctl("outputs", job, "-o", "jsonl").stdout, "", self.story(cluster, job))
        self.assertIn("cannot enter the working directory", str(record.attempts[0].parts[0]))

    def test_nothing_of_a_setup_stays_whatever_it_does_to_its_environment(self):
        cluster = self.start()
        seconds = str(100_000 + os.getpid())  # no other test's
        def left():
            return [line for line in harness.processes_with("no such text", seconds).values() if line == f"sleep {seconds}"]

        setup = ["env", "-i", "/bin/sh", "-c", f"sleep {seconds} & sleep {seconds}"]
        job = self.submit(cluster, "true", setup=setup)
        wait_until(lambda: len(left()) == 2, lambda: "it runs: " + self.story(cluster, job))
        cluster.jobctl("cancel", job)
        cluster.wait_over(job)
        wait_until(lambda: not left(), "setup is gone")
        job = self.submit(cluster, "true", setup=setup)
        wait_until(lambda: len(left()) == 2, lambda: "it runs again: " + self.story(cluster, job))
        cluster.workers["n0"].kill9()
        cluster.workers["n0"].start()
        wait_until(lambda: len(left()) in (0, 2) and cluster.nodes()["n0"].record.connected, "the worker is back")
        cluster.jobctl("cancel", job)
        cluster.wait_over(job)
        wait_until(lambda: not left(), "the old setup is gone")
        job, record = self.run_over(cluster, "true", setup=["env", "-i", "/bin/sh", "-c", f"sleep {seconds} &"])
        self.assertEqual(record.state, SUCCEEDED, self.story(cluster, job))
        wait_until(lambda: not left(), "what it left behind is gone, and a setup that began before it was cancelled")
        self.assert_nothing_left(cluster)

    def test_a_setup_reaches_no_other_job_of_the_same_account(self):
        cluster = self.start(args=("--run-as", ACCOUNT))
        need(", landlock," in cluster.jobctl("nodes", "show", "n0").stdout, "this kernel cannot separate processes of one account")
        other = self.submit(cluster, "echo ready; exec sleep 1000")
        wait_until(lambda: "ready" in self.out(cluster, other), lambda: "it runs: " + self.story(cluster, other))
        pid = next(pid for pid, line in self.processes().items() if line.startswith("sleep"))
        job, record = self.run_over(cluster, "true", setup=["sh", "-c", f"kill -0 {pid} && echo reached || echo apart; "
                                                            f"ls /proc/{pid}/root/ >/dev/null && echo sees || echo blind"])
        self.assertEqual(record.state, SUCCEEDED, self.story(cluster, job))
        said = record.attempts[0].parts[0].preparation.setup_output.decode()
        self.assertIn("apart\n", said)
        self.assertIn("blind\n", said)
        cluster.jobctl("cancel", other)
        cluster.wait_over(other)

    def test_a_read_only_mount_is_so_to_its_ends(self):
        cluster = self.start()
        os.makedirs(self.path("data/below"))
        subprocess.run(["mount", "-t", "tmpfs", "muster-test", self.path("data/below")], check=True)
        self.addCleanup(subprocess.run, ["umount", self.path("data/below")])
        self.mounts_of_job = ({"source": self.path("data"), "target": "/data", "read_only": True},)
        job, record = self.run_over(cluster, "touch /data/x; touch /data/below/x; true")
        self.assertEqual((os.listdir(self.path("data")), os.listdir(self.path("data/below"))), (["below"], []),
                         self.out(cluster, job, stream=2))
        self.assertEqual(self.out(cluster, job, stream=2).count("Read-only file system"), 2)

    def test_an_image_is_unpacked_once_and_starts_as_fast_as_podman_run(self):
        cluster = self.start()
        for _ in range(2):
            job, record = self.run_over(cluster, "true", ranks=2)
            self.assertEqual(record.state, SUCCEEDED, self.story(cluster, job))
        images = os.path.join(cluster.directory, "w-n0/code/images")
        self.assertEqual(len(os.listdir(images)), 1)
        plain = []
        for image in (True, False):
            begin = time.monotonic()
            if image:
                job, record = self.run_over(cluster, "true")
            else:
                cluster.wait_over(cluster.submit("-n", "1", "--", "true"))
            plain.append(time.monotonic() - begin)
        print(f"  submit to end: {plain[0]:.2f} s in an image, {plain[1]:.2f} s without", file=sys.stderr)
        if not shutil.which("podman"):
            return
        runner = Podman(self.directory)
        if runner.run("image", "exists", BASE, check=False).returncode == 0:
            begin = time.monotonic()
            done = runner.run("run", "--rm", "--network", "host", BASE, "true", check=False)
            if done.returncode == 0:
                print(f"  podman run: {time.monotonic() - begin:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    harness.main()
