"""What every end-to-end test uses: its own daemons in a temporary directory with a short path, jobctl, a
third-party gRPC client (grpcio), waits with deadlines, and a scan for leftover processes.

Every process of a test has TORCH_TEST_MARK in its environment (ranks too: the client's environment is sent with the
job, also to a coordinator on another host where it begins with TORCH), so that the whole machine can be searched for
survivors. Processes are only ever killed by their pid. Nothing here sleeps without a deadline.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import findings_watch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from free_port import free_port  # noqa: E402, F401: for the tests, too

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build"))
BIN = os.path.join(BUILD, "bin")
RANKS = os.path.join(HERE, "ranks")
PYTHON = sys.executable
FULL = os.environ.get("MUSTER_TEST_FULL") == "1"  # the full sizes instead of the quick ones
DEADLINE_S = 30.0  # how long anything may take; milliseconds on an idle machine

JOBCTL = os.path.join(BIN, "jobctl")

# Values of muster.v1.JobState.
QUEUED, STARTING, RUNNING, STOPPING, RESTARTING, SUCCEEDED, FAILED, CANCELLED = range(1, 9)
OVER = (SUCCEEDED, FAILED, CANCELLED)


def wait_until(condition, what, deadline_s=DEADLINE_S, every_s=0.02):
    """Returns the first true value of condition(); raises an AssertionError that names `what` after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what() if callable(what) else what}")
        time.sleep(every_s)


def copy_in_use(source, target, **options):
    """shutil.copytree of a directory in which a daemon works: what goes away meanwhile is left out."""
    try:
        shutil.copytree(source, target, **options)
    except shutil.Error as error:
        if not all(reason.startswith("[Errno 2] ") for _, _, reason in error.args[0]):
            raise


def processes_with(text, argument=None):
    """{pid: command line} of the live processes whose environment contains `text`, or whose command line contains
    `argument` (supervisors have no environment). Zombies do not count."""
    found = {}
    needle = text.encode()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
            with open(f"/proc/{name}/environ", "rb") as file:
                if needle not in file.read() and (argument is None or argument not in line):
                    continue
            with open(f"/proc/{name}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    continue
            found[int(name)] = line
        except OSError:
            continue  # gone in the meantime, or not ours
    return found


def children_of(pid):
    """{pid: (state, command line)} of a process's children, zombies included."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
            if name.isdigit() and int(parent) == pid:
                with open(f"/proc/{name}/cmdline") as file:
                    found[int(name)] = (state, file.read().replace("\0", " ").strip())
        except (OSError, IndexError):
            continue
    return found


def rss_bytes(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def kill9(pid):
    os.kill(pid, signal.SIGKILL)


def page_files():
    """The names of the files that the page's document may load."""
    folder = os.path.join(ROOT, "page")
    ours = [os.path.relpath(os.path.join(where, name), folder) for where, _, names in os.walk(folder) for name in names
            if name.endswith((".js", ".css", ".svg"))]
    return [*ours, "dygraph.min.js"]


_proto_modules = None


def protos():
    """(job_service_pb2, worker_service_pb2, job_pb2) generated from proto/ by protoc, once per run."""
    global _proto_modules
    if _proto_modules is None:
        out = tempfile.mkdtemp(prefix="muster-proto-")
        source = os.path.join(ROOT, "proto")
        files = [os.path.join("muster/v1", name) for name in sorted(os.listdir(os.path.join(source, "muster/v1")))]
        subprocess.run(["protoc", "-I", ".", "--python_out", out, *files], cwd=source, check=True)
        sys.path.insert(0, out)
        from muster.v1 import job_pb2, job_service_pb2, worker_service_pb2
        _proto_modules = (job_service_pb2, worker_service_pb2, job_pb2)
        shutil.rmtree(out)
    return _proto_modules


class Api:
    """JobService through grpcio. Endpoints as Muster prints them: "unix:/path" or "HOST:PORT"."""

    def __init__(self, endpoint):
        import grpc
        self.service, _, _ = protos()
        self.channel = grpc.insecure_channel(endpoint, options=[
            ("grpc.max_receive_message_length", 16 << 20), ("grpc.default_authority", "localhost"),
            ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)])

    def close(self):
        self.channel.close()

    def unary(self, method, request, response_type, timeout=DEADLINE_S):
        call = self.channel.unary_unary(f"/muster.v1.JobService/{method}",
                                        request_serializer=type(request).SerializeToString,
                                        response_deserializer=response_type.FromString)
        return call(request, timeout=timeout, wait_for_ready=True)

    def stream(self, method, request, response_type, timeout=120):
        call = self.channel.unary_stream(f"/muster.v1.JobService/{method}",
                                         request_serializer=type(request).SerializeToString,
                                         response_deserializer=response_type.FromString)
        return call(request, timeout=timeout, wait_for_ready=True)

    def server(self):
        return self.unary("GetServer", self.service.GetServerRequest(client_protocol=1, client_version="test"),
                          self.service.GetServerResponse)

    def record(self, job):
        return self.unary("GetJob", self.service.JobReference(job=str(job)), self.service.GetJobResponse).record

    def assess(self, job):
        from muster.v1 import finding_pb2
        return self.unary("AssessJob", self.service.JobReference(job=str(job)), finding_pb2.Assessment, timeout=2)

    def newest(self):
        request = self.service.ListJobsRequest(all=True, limit=50)
        return self.unary("ListJobs", request, self.service.ListJobsResponse, timeout=2).jobs

    def list(self):
        """Every job, from all pages, newest first."""
        jobs, before = [], 0
        while True:
            page = self.unary("ListJobs", self.service.ListJobsRequest(all=True, limit=500, before_id=before),
                              self.service.ListJobsResponse)
            jobs.extend(page.jobs)
            if not page.more or not page.jobs:
                return jobs
            before = page.jobs[-1].id

    def logs(self, job, attempt=-1, follow=False):
        """{(attempt, rank, stream): bytes}; stream 1 is stdout, 2 stderr. Gaps raise."""
        out, dropped = {}, {}
        request = self.service.StreamLogsRequest(job=str(job), attempt=attempt, follow=follow)
        for record in self.stream("StreamLogs", request, self.service.LogRecord):
            if record.notice and not record.data:
                continue
            key = (record.attempt, record.rank, record.stream)
            have = out.setdefault(key, bytearray())
            lost = dropped.setdefault(key, 0)
            if record.offset != len(have) + lost + record.dropped:
                raise AssertionError(f"log of {key}: a record at offset {record.offset} after {len(have)} bytes "
                                     f"and {lost} dropped")
            dropped[key] += record.dropped
            have.extend(record.data)
        return {key: bytes(data) for key, data in out.items()}, dropped

    def metrics(self, job):
        """[(name, step, value, attempt, rank, source)] of the job's effective history over all attempts."""
        points = []
        request = self.service.QueryMetricsRequest(job=str(job), attempt=-1, rank=-1)
        _, worker, _ = protos()
        for batch in self.stream("QueryMetrics", request, worker.MetricBatch):
            for point in batch.points:
                points.append((point.name, point.step, point.value, batch.attempt, batch.rank, batch.source))
        return points


class Daemon:
    """One daemon process and the command that restarts it."""

    def __init__(self, argv, env, log, prefix=()):
        self.argv, self.env, self.log, self.prefix = argv, env, log, list(prefix)
        self.process = None

    def start(self, expect_exit=False):
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(self.prefix + self.argv, env=self.env, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out, start_new_session=True)
        if expect_exit:
            return self.process.wait(timeout=DEADLINE_S)
        return self

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill9(self):
        self.process.kill()
        self.process.wait(timeout=DEADLINE_S)

    def stop(self):
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.kill9()
                raise AssertionError(f"{self.argv[0]} did not end on SIGTERM")

    def output(self):
        with open(self.log, "rb") as file:
            return file.read().decode(errors="replace")


class Muster:
    """jobctl against one coordinator, configured or private, and that coordinator's API."""

    def __init__(self, case, env, endpoint):
        self.case, self.env, self.endpoint = case, env, endpoint
        self._api = None
        findings_watch.start(case, lambda: Api(endpoint))

    @property
    def api(self):
        if self._api is None:
            self._api = Api(self.endpoint)
            self.case.addCleanup(self._api.close)
        return self._api

    def jobctl(self, *args, check=True, timeout=60, env=None, cwd=None, stdin=None):
        """Runs jobctl; CompletedProcess with text output (broken bytes replaced) and .out, the exact stdout."""
        done = subprocess.run([JOBCTL, *map(str, args)], env={**self.env, **(env or {})}, timeout=timeout, cwd=cwd,
                              input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL, capture_output=True)
        done.out = done.stdout
        done.stdout, done.stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if check and done.returncode != 0:
            raise AssertionError(f"jobctl {' '.join(map(str, args))[:300]}: exit {done.returncode}\n"
                                 f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def start_jobctl(self, *args, env=None, **popen):
        """jobctl in the background, in a separate session."""
        options = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       start_new_session=True)
        options.update(popen)
        process = subprocess.Popen([JOBCTL, *map(str, args)], env={**self.env, **(env or {})}, **options)

        def finish():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.case.addCleanup(finish)
        return process

    def submit(self, *args, **options):
        """Returns the name of the new job."""
        name = self.jobctl("submit", "-o", "name", *args, **options).stdout.strip()
        if not name or len(name.split()) != 1:
            raise AssertionError(f"submit -o name printed {name!r}")
        return name

    def state(self, job):
        return self.api.record(job).state

    def wait_for(self, job, *states, deadline_s=DEADLINE_S):
        """The job's record once it is in one of `states`; fails immediately if it ends in another."""
        last = []

        def reached():
            record = self.api.record(job)
            last[:] = [record]
            if record.state in states:
                return record
            if record.state in OVER:
                raise AssertionError(f"job {job} is in state {record.state}, wanted {states}: {record.reason}")
            return None
        return wait_until(reached, lambda: f"job {job} in state {states}, is {last[0].state}: {last[0].reason}",
                          deadline_s)

    def wait_over(self, job, deadline_s=DEADLINE_S):
        return self.wait_for(job, *OVER, deadline_s=deadline_s)


class Cluster(Muster):
    """A coordinator with a socket (and a TCP address for the workers) and any number of workers."""

    def __init__(self, case, name="c", coordinator_args=(), heartbeat_ms=500, prefix=()):
        self.directory = os.path.join(case.directory, name)
        os.makedirs(self.directory)
        os.makedirs(os.path.join(self.directory, "s"), mode=0o700)
        self.socket = os.path.join(self.directory, "s", "c.sock")
        super().__init__(case, dict(case.env), f"unix:{self.socket}")
        self.env["JOBCTL_SERVER"] = self.endpoint
        self.workers = {}
        self.coordinator = Daemon(
            [os.path.join(BIN, "muster-coordinator"), "--data-dir", os.path.join(self.directory, "data"), "--socket",
             self.socket, "--heartbeat-ms", str(heartbeat_ms), "--backoff-first-ms", "200", *coordinator_args],
            dict(case.env), os.path.join(self.directory, "coordinator.out"), prefix)
        case.daemons.append(self.coordinator)

    def start(self):
        self.coordinator.start()
        self.wait_serving()
        return self

    def wait_serving(self, deadline_s=DEADLINE_S):
        def serving():
            if not self.coordinator.alive():
                raise AssertionError(f"the coordinator ended with {self.coordinator.process.returncode}:\n"
                                     f"{self.coordinator.output()[-2000:]}")
            try:
                return self.api.server()
            except Exception as error:  # grpc.RpcError: not serving yet
                if "UNAVAILABLE" in str(error) or "DEADLINE" in str(error):
                    return None
                raise
        return wait_until(serving, "the coordinator serves", deadline_s)

    def add_worker(self, name, devices="cpu:2", coordinator=None, args=(), prefix=(), wait=True):
        worker = Daemon([os.path.join(BIN, "muster-worker"), "--coordinator", coordinator or self.endpoint, "--name",
                         name, "--devices", devices, "--state-dir", os.path.join(self.directory, "w-" + name), *args],
                        dict(self.case.env), os.path.join(self.directory, name + ".out"), prefix)
        self.case.daemons.append(worker)
        self.workers[name] = worker
        worker.start()
        if wait:
            self.wait_nodes(name)
        return worker

    def nodes(self):
        service = self.api.service
        return {view.record.facts.name: view for view in
                self.api.unary("ListNodes", service.ListNodesRequest(), service.ListNodesResponse).nodes}

    def wait_nodes(self, *names):
        wait_until(lambda: all(name in self.nodes() for name in names),
                   lambda: f"nodes {names} registered; " + "".join(
                       worker.output()[-500:] for worker in self.workers.values()))

    def restart_coordinator(self):
        self.coordinator.start()
        return self.wait_serving()


class Case(unittest.TestCase):
    """A test with its own directory; afterwards all its processes are killed and survivors reported."""
    below = "/tmp"

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mt", dir=self.below)
        self.mark = f"TORCH_TEST_MARK={uuid.uuid4().hex}"
        self.daemons = []
        name, value = self.mark.split("=")
        self.env = {key: text for key, text in os.environ.items()
                    if not key.startswith(("JOBCTL_", "MUSTER_", "PET_", "TORCHELASTIC_", "OMP_"))}
        self.env.update({name: value, "HOME": self.directory, "XDG_CONFIG_HOME": self.directory + "/config",
                         "JOBCTL_DATA_DIR": self.directory + "/d", "JOBCTL_RUNTIME_DIR": self.directory + "/r",
                         "NO_COLOR": "1"})
        self.env.pop("XDG_RUNTIME_DIR", None)
        self.addCleanup(self._tear_down)

    def _tear_down(self):
        for daemon in reversed(self.daemons):
            if daemon.alive():
                daemon.process.terminate()
        for daemon in self.daemons:
            try:
                if daemon.process is not None:
                    daemon.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill9()
        for pid in self.processes():
            try:
                kill9(pid)
            except OSError:
                pass
        if self._failed() and os.environ.get("MUSTER_TEST_KEEP") == "1":
            print(f"kept: {self.directory}", file=sys.stderr)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def processes(self):
        """Every live process that this test started, whatever it did to its environment."""
        return processes_with(self.mark, self.directory)

    def _failed(self):
        outcome = getattr(self, "_outcome", None)
        result = getattr(outcome, "result", None)
        return result is not None and any(test is self for test, _ in result.failures + result.errors)

    def private(self):
        """jobctl without a configured context: it starts its own coordinator on demand."""
        return Muster(self, dict(self.env), f"unix:{self.directory}/r/coordinator.sock")

    def cluster(self, workers=("node1",), devices="cpu:2", **options):
        cluster = Cluster(self, **options).start()
        for name in workers:
            cluster.add_worker(name, devices, wait=False)
        cluster.wait_nodes(*workers)
        return cluster

    def path(self, name):
        return os.path.join(self.directory, name)

    def assert_gone(self, text, deadline_s=5.0):
        """Asserts that by the deadline no process is alive whose environment contains `text`. self.mark
        covers everything that the test started, supervisors included."""
        def alive():
            return self.processes() if text == self.mark else processes_with(text)
        wait_until(lambda: not alive(), lambda: f"these are gone: {alive()}", deadline_s)

    def assert_error(self, done, *words, code=None):
        """Asserts that jobctl failed with one error that contains all `words`, a fix and a stable code."""
        text = done.stderr
        self.assertNotEqual(done.returncode, 0, done.stdout + text)
        if code is not None:
            self.assertEqual(done.returncode, code, text)
        self.assertIn("error:", text)
        for word in words:
            self.assertIn(word, text)
        self.assertRegex(text, r"JC1\d\d\d")
        for internal in ("Traceback", "terminate called", "what():", "grpc::"):
            self.assertNotIn(internal, text)


def rank_script(name):
    return os.path.join(RANKS, name)


def python_line(script, *args):
    return ["--", PYTHON, "-S", rank_script(script), *map(str, args)]


def need(condition, reason):
    """Reports SKIPPED, never passed, where the machine lacks what a test needs."""
    if not condition:
        raise unittest.SkipTest("SKIPPED: " + reason)


def need_scripts_outside_tmp():
    """Where ranks have a /tmp of their own, they do not see what lies in the node's."""
    need(not RANKS.startswith("/tmp/"), "the ranks' scripts lie in /tmp")


def has_network_namespaces():
    """Root, `ip`, and a kernel that lets us create a namespace."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0


def main():
    """Exits with 77 if every test was skipped, so that ctest reports Skipped and not Passed."""
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    if result.testsRun and len(result.skipped) == result.testsRun and result.wasSuccessful():
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)
