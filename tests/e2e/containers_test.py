"""The images of deploy/containers under podman: a coordinator and three workers with addresses of their own.

Takes podman, buildah and root, and this system's own release of Debian as an image: MUSTER_TEST_BASE, or one that
mmdebstrap makes once and that is kept below the build tree.
"""
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import time

import harness
from harness import OVER, RUNNING, SUCCEEDED, Case, children_of, need, wait_until

CONTAINERFILE = os.path.join(harness.ROOT, "deploy", "containers", "Containerfile")
SUITE = platform.freedesktop_os_release().get("VERSION_CODENAME", "")  # what is built here runs there
BASE = os.environ.get("MUSTER_TEST_BASE", f"localhost/muster-test-base-{SUITE}")
BASE_TAR = os.path.join(harness.BUILD, "containers", f"{SUITE}.tar")
# For what trains or waits for many processes: a busy machine is slow, and only a hang fails.
PATIENCE_S = 600
DIGITS = os.path.join(harness.BIN, "examples", "digits")
DATA = os.path.join(harness.ROOT, "examples", "data", "optdigits.csv.gz")
COORDINATOR_UID = 10001  # in its image
CAPABILITIES = ("SETUID", "SETGID", "SETPCAP", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER", "SYS_PTRACE")


def say(text):
    print(f"  {text}", file=sys.stderr)


class Podman:
    """podman and buildah with settings that also suit a machine without systemd."""

    def __init__(self, directory):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
        path = os.path.join(directory, "containers.conf")
        with open(path, "w") as file:
            file.write(f'[containers]\ndefault_ulimits=["nofile={files}:{files}","nproc=4096:4096"]\n'
                       '[engine]\ncgroup_manager="cgroupfs"\n' + ('runtime="runc"\n' if shutil.which("runc") else ""))
        self.env = {**os.environ, "CONTAINERS_CONF": path}

    def run(self, *line, check=True, timeout=PATIENCE_S, program="podman", cwd=None):
        done = subprocess.run([program, *line], env=self.env, capture_output=True, text=True, timeout=timeout, cwd=cwd)
        if check and done.returncode != 0:
            raise AssertionError(f"{program} {' '.join(line)}: {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
        return done

    def make_base(self):
        if self.run("image", "exists", BASE, check=False).returncode == 0:
            return
        need("MUSTER_TEST_BASE" not in os.environ, f"the image {BASE} is not here")
        if not os.path.exists(BASE_TAR):
            need(shutil.which("mmdebstrap"), f"there is neither the image {BASE} nor mmdebstrap to make it")
            os.makedirs(os.path.dirname(BASE_TAR), exist_ok=True)
            part = f"{BASE_TAR}.{os.getpid()}.tar"
            done = subprocess.run(["mmdebstrap", "-q", "--variant=essential", "--include=libstdc++6,passwd", SUITE, part],
                                  capture_output=True, text=True, timeout=PATIENCE_S)
            need(done.returncode == 0, f"mmdebstrap cannot make {SUITE} here: {done.stderr[-300:]}")
            os.rename(part, BASE_TAR)
        container = self.run("from", "scratch", program="buildah").stdout.strip()
        self.run("add", "-q", container, BASE_TAR, "/", program="buildah")
        self.run("commit", "-q", container, BASE, program="buildah")
        self.run("rm", container, program="buildah")


class Containers(Case):
    images = {}  # built once for all tests

    @classmethod
    def tearDownClass(cls):
        for image in cls.images.values():
            subprocess.run(["podman", "rmi", "-f", image], capture_output=True)

    def setUp(self):
        super().setUp()
        need(os.geteuid() == 0, "root is needed for containers with their own network")
        for program in ("podman", "buildah"):
            need(shutil.which(program), f"{program} is not here")
        need(os.path.exists(DIGITS), f"{DIGITS} is not built")
        self.podman = Podman(self.directory)
        probe = self.podman.run("info", "--format", "{{.Store.GraphDriverName}}", check=False)
        need(probe.returncode == 0, f"podman does not work here: {probe.stderr[-300:]}")
        self.podman.make_base()
        works = self.podman.run("run", "--rm", "--network", "none", BASE, "true", check=False)
        need(works.returncode == 0, f"podman cannot start a container here: {works.stderr[-300:]}")
        self.tag = f"mt{os.getpid()}"

    def build(self):
        """The images from the binaries of this build tree."""
        if self.images:
            return
        tree = self.path("tree")
        subprocess.run(["cmake", "--install", harness.BUILD, "--prefix", "/usr", "--component", "muster", "--strip"],
                       env={**self.env, "DESTDIR": tree}, check=True, capture_output=True)
        for target in ("coordinator", "worker", "all-in-one"):
            image = self.images[target] = f"localhost/{self.tag}-{target}"
            begin = time.monotonic()
            self.podman.run("bud", "-q", "--format", "docker", "--isolation", "chroot", "--layers", "-f", CONTAINERFILE,
                            "--build-arg", f"BASE={BASE}", "--build-arg", "PREBUILT=yes", "--build-arg", "S3=",
                            "--target", target, "-t", image, tree, program="buildah")
            size = int(self.podman.run("image", "inspect", "--format", "{{.Size}}", image).stdout)
            base = int(self.podman.run("image", "inspect", "--format", "{{.Size}}", BASE).stdout)
            say(f"{target}: {size / 1e6:.0f} MB, {(size - base) / 1e6:.0f} MB above the base, built in "
                f"{time.monotonic() - begin:.1f} s")

    def start(self, name, address, image, options, command):
        full = f"{self.tag}-{name}"
        self.addCleanup(self.podman.run, "rm", "-f", "-v", "-t", "0", full, check=False)
        # No name server can be reached from the network; one that refuses is quicker than one that is silent.
        self.podman.run("run", "-d", "--name", full, "--hostname", name, "--network", self.tag, "--ip", address, "--dns",
                        "127.0.0.1", "--cap-drop", "ALL", *options, image, *command)
        return full

    def create_network(self):
        """On the first of a few subnets that nothing else of this machine uses: another run of this test might."""
        for step in range(20):
            self.subnet = f"10.78.{(os.getpid() + step) % 250}"
            done = self.podman.run("network", "create", "--internal", "--disable-dns", "--subnet",
                                   f"{self.subnet}.0/24", self.tag, check=False)
            if "is already used" not in done.stderr:
                break
        self.assertEqual(done.returncode, 0, done.stderr)

    def start_coordinator(self):
        # Volumes as Kubernetes hands them to a pod with fsGroup: root's, and the group's.
        for name in ("data", "keys", "run"):
            os.mkdir(self.path(name))
            os.chown(self.path(name), 0, COORDINATOR_UID)
            os.chmod(self.path(name), 0o2775)
        self.create_network()
        self.addCleanup(self.podman.run, "network", "rm", "-f", self.tag, check=False)
        name = self.start("coordinator", f"{self.subnet}.2", self.images["coordinator"],
                          options=("--read-only", "--tmpfs", "/tmp", "--security-opt", "no-new-privileges",
                                   "-v", f"{self.path('data')}:/var/lib/muster/coordinator",
                                   "-v", f"{self.path('keys')}:/var/lib/muster/keys", "-v", f"{self.path('run')}:/run/muster",
                                   "-e", f"MUSTER_HOSTS={self.subnet}.2"),
                          command=("--heartbeat-ms", "500", "--backoff-first-ms", "200"))
        wait_until(lambda: self.podman.run("exec", name, "/usr/libexec/muster/healthy", check=False).returncode == 0,
                   lambda: "the coordinator is healthy: " + self.podman.run("logs", name).stderr[-1000:], PATIENCE_S,
                   every_s=0.1)
        endpoint = f"unix:{self.path('run')}/coordinator/coordinator.sock"
        inside = self.podman.run("exec", name, "jobctl", "nodes", "ls", check=False)
        self.assertEqual(inside.returncode, 0, inside.stderr)
        return harness.Muster(self, {**self.env, "JOBCTL_SERVER": endpoint}, endpoint)

    def start_worker(self, number):
        digits = {os.path.dirname(path) for path in
                  re.findall(r"=> (/\S+)", subprocess.run(["ldd", DIGITS], capture_output=True, text=True).stdout)}
        seen = [DIGITS, DATA, *(path for path in digits if not path.startswith(("/lib", "/usr/lib")))]
        mounts = [word for path in seen for word in ("-v", f"{path}:{path}:ro")]
        state = self.path(f"state{number}")
        os.makedirs(state, exist_ok=True)
        return self.start(f"worker{number}", f"{self.subnet}.{10 + number}", self.images["worker"],
                          options=("-v", f"{state}:/var/lib/muster/worker", "-v", f"{self.path('token')}:/join/token:ro",
                                   "--shm-size", "1g", *mounts, *(f"--cap-add={name}" for name in CAPABILITIES)),
                          command=("--join", f"{self.subnet}.2:7701", "--token-file", "/join/token", "--", "--state-dir",
                                   "/var/lib/muster/worker", "--run-as", "muster", "--devices", "cpu:1"))

    def first(self, name):
        """Process 1 of a container, as the host numbers it."""
        return int(self.podman.run("inspect", "--format", "{{.State.Pid}}", name).stdout)

    def worker_in(self, name):
        return next((pid for pid, (_, line) in children_of(self.first(name)).items()
                     if line.startswith("muster-worker --state-dir")), None)

    def nodes(self, muster):
        return {name: view.record for name, view in harness.Cluster.nodes(muster).items()}

    def ranks(self):
        return set(harness.processes_with(self.mark))

    def story(self, muster, job, workers):
        logs = [self.podman.run("logs", name).stderr[-2000:] for name in workers.values()]
        return "\n".join([muster.jobctl("events", job).stdout, muster.jobctl("logs", job, "--tail", "20").stdout, *logs])

    def start_cluster(self):
        self.build()
        muster = self.start_coordinator()
        with open(self.path("token"), "w") as file:
            file.write(muster.jobctl("token", "create", "worker", "--uses", "3").stdout)
        begin = time.monotonic()
        workers = {f"worker{number}": self.start_worker(number) for number in (1, 2, 3)}
        wait_until(lambda: set(self.nodes(muster)) == set(workers), lambda: "three nodes: " + "".join(
            self.podman.run("logs", name).stderr[-500:] for name in workers.values()), PATIENCE_S)
        say(f"three workers joined and registered {time.monotonic() - begin:.1f} s after the first `podman run`")
        return muster, workers

    def train(self, muster, *args):
        return muster.submit("-n", "2", "--nodes", "2", "--workdir", "/", "--grace", "2s", "--", DIGITS, "--data", DATA,
                             "--epochs", "12", *args)

    def runs_again(self, muster, job):
        record = muster.api.record(job)
        return record if len(record.attempts) == 2 and record.state in (RUNNING, *OVER) else None

    def test_digits_train_over_containers_that_are_killed(self):
        muster, workers = self.start_cluster()
        addresses = {name: record.facts.advertise for name, record in self.nodes(muster).items()}
        self.assertEqual(addresses, {f"worker{i}": f"{self.subnet}.{10 + i}" for i in (1, 2, 3)})
        job = self.train(muster, "--step-delay-ms", "15")
        record = muster.wait_for(job, RUNNING, deadline_s=PATIENCE_S)
        nodes = [part.node for part in record.attempts[0].parts]
        self.assertEqual(len(set(nodes)), 2)

        # The worker inside dies: its rank does not notice.
        ranks = self.ranks()
        self.assertEqual(len(ranks), 2, "one rank on each node")
        killed = self.worker_in(workers[nodes[0]])
        begin = time.monotonic()
        harness.kill9(killed)
        wait_until(lambda: self.worker_in(workers[nodes[0]]) not in (None, killed), "another worker runs", PATIENCE_S)
        wait_until(lambda: self.nodes(muster)[nodes[0]].connected, "it is registered", PATIENCE_S)
        say(f"a killed worker was back after {time.monotonic() - begin:.1f} s")
        self.assertEqual(self.ranks(), ranks)

        # The container dies, with its rank: a lost node, and the job resumes from its checkpoint.
        wait_until(lambda: muster.jobctl("ckpt", "ls", job, "-o", "json").stdout.count('"step"') > 0,
                   lambda: f"a checkpoint: {self.story(muster, job, workers)}", PATIENCE_S)
        self.assertEqual(len(muster.api.record(job).attempts), 1)
        begin = time.monotonic()
        self.podman.run("kill", workers[nodes[1]])
        self.podman.run("start", workers[nodes[1]])
        record = wait_until(lambda: self.runs_again(muster, job), lambda: f"the job runs again: {self.story(muster, job, workers)}",
                            PATIENCE_S)
        say(f"a job whose container was killed ran again after {time.monotonic() - begin:.1f} s")
        self.assertEqual((record.node_losses, record.failures, record.supervisor_losses), (1, 0, 0), record.attempts[0].reason)
        self.assertIn(f"the container of node {nodes[1]} was restarted", record.attempts[0].reason)
        record = muster.wait_over(job, deadline_s=PATIENCE_S)
        say(f"and was over {time.monotonic() - begin:.1f} s after the kill")
        self.assertEqual((record.state, len(record.attempts)), (SUCCEEDED, 2), record.reason)
        self.assertGreater(record.attempts[1].resume_step, 0, "it resumed")

    def test_a_container_is_replaced_after_its_jobs_have_saved(self):
        muster, workers = self.start_cluster()
        job = self.train(muster, "--step-delay-ms", "10")
        record = muster.wait_for(job, RUNNING, deadline_s=PATIENCE_S)
        node = record.attempts[0].parts[0].node
        drained = self.podman.run("exec", f"{self.tag}-coordinator", "/usr/libexec/muster/drain-node", node, f"{PATIENCE_S}s")
        self.assertIn(f"{node} is drained", drained.stdout)
        saved = int(muster.jobctl("ckpt", "ls", job, "-o", "csv", "--columns", "step", "--no-headers").stdout.split()[0])
        self.assertEqual(len(muster.api.record(job).attempts), 1)
        # Another container of another image, with the same state.
        begin = time.monotonic()
        self.podman.run("rm", "-f", "-v", "-t", "8", workers[node])
        self.start_worker(int(node[-1]))
        record = wait_until(lambda: self.runs_again(muster, job), lambda: f"the job runs again: {self.story(muster, job, workers)}",
                            PATIENCE_S)
        say(f"a job whose drained container was replaced ran again after {time.monotonic() - begin:.1f} s")
        self.assertEqual((record.node_losses, record.failures, record.supervisor_losses), (1, 0, 0), record.attempts[0].reason)
        self.assertNotIn(node, [part.node for part in record.attempts[1].parts])
        self.assertGreaterEqual(record.attempts[1].resume_step, saved)
        muster.jobctl("nodes", "undrain", node)
        self.assertEqual(muster.wait_over(job, deadline_s=PATIENCE_S).state, SUCCEEDED)

    def test_stopping_a_container_is_quick_and_the_private_image_runs_a_job(self):
        self.build()
        done = self.podman.run("run", "--rm", "--network", "none", self.images["all-in-one"], "run", "-n", "2", "--", "sh", "-c",
                               "echo rank $RANK of $WORLD_SIZE")
        self.assertEqual(sorted(re.findall(r"rank \d of 2", done.stdout)), ["rank 0 of 2", "rank 1 of 2"])
        self.start_coordinator()
        name = f"{self.tag}-coordinator"
        begin = time.monotonic()
        self.podman.run("stop", name)
        say(f"podman stop of the coordinator took {time.monotonic() - begin:.1f} s")
        self.assertEqual(self.podman.run("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip(), "0")


if __name__ == "__main__":
    harness.main()
