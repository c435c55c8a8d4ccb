"""muster.Client against a real coordinator: over its socket, a private one, plain TCP, and TLS with certificates."""
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import harness  # noqa: E402
from enroll_test import EnrollCase  # noqa: E402
from harness import Case, need, wait_until  # noqa: E402

SOURCE = os.path.join(harness.ROOT, "python", "src")
LOOP = os.path.join(HERE, "ranks", "loop.py")


def package(directory):
    """The package with what a wheel's build adds; imported here, too. Its muster and the harness's generated muster.v1 are
    different packages of one name, so the harness's is loaded first."""
    target = os.path.join(directory, "site")
    shutil.copytree(os.path.join(SOURCE, "muster"), os.path.join(target, "muster"))
    subprocess.run(["protoc", "-I", ".", "--include_imports",
                    f"--descriptor_set_out={target}/muster/client/api.binpb", "muster/v1/job_service.proto"],
                   cwd=os.path.join(harness.ROOT, "proto"), check=True)
    harness.protos()
    for name in [name for name in sys.modules if name == "muster" or name.startswith("muster.client")]:
        del sys.modules[name]
    sys.path.insert(0, target)
    import muster
    muster.Client  # noqa: B018 - loaded while the path is there
    sys.path.remove(target)
    return muster


class ClientCase(Case):
    def setUp(self):
        super().setUp()
        need(importlib.util.find_spec("grpc") and importlib.util.find_spec("google.protobuf")
             and importlib.util.find_spec("yaml"), "needs the Python packages grpcio, protobuf and PyYAML")
        self.muster = package(self.directory)
        self.env.update(PYTHONPATH=SOURCE, PYTHONDONTWRITEBYTECODE="1")
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.clear()
        os.environ.update(self.env)

    def client(self, *args, **options):
        client = self.muster.Client(*args, **options)
        self.addCleanup(client.close)
        return client

    def error(self, call, *args, **options):
        """The MusterError of a call."""
        with self.assertRaises(self.muster.MusterError) as caught:
            call(*args, **options)
        return caught.exception


class Jobs(ClientCase):
    def test_submit_follow_logs_metrics_and_wait(self):
        cluster = self.cluster()
        client = self.client(cluster.endpoint)
        job = client.submit([harness.PYTHON, LOOP, "30", "--pause", "0.01"], processes=2, name="loop",
                            labels={"team": "vision"}, env={"EXTRA": "1"}, workdir=self.directory, restarts=1)
        self.assertEqual((job.name.split("-")[0], job.labels, job.is_over), ("loop", {"team": "vision"}, False))
        states = [seen.state for seen in client.follow(job)]
        self.assertEqual(states[-1], "SUCCEEDED")
        self.assertIn("RUNNING", states)
        over = client.wait(job, timeout=30)
        self.assertTrue(over.succeeded and over.finished > over.submitted > 1.7e9 and over.exit_code == 0, over)
        wait_until(lambda: client.job(job.name).checkpoint_step == 30, "the last checkpoint is committed")
        lines = [(line.rank, line.text) for line in client.logs(job) if line.stream == "stdout"]
        self.assertEqual(sorted(lines), [(0, "done"), (0, "rank 0 begins with step 1"), (1, "done"),
                                         (1, "rank 1 begins with step 1")])
        self.assertEqual([line.text for line in client.logs(job, ranks=[1], tail=1)], ["done"])
        points = list(client.metrics(job, ["loss"], rank=1))
        self.assertEqual([(point.step, point.value) for point in points], [(step, 1 / step) for step in range(1, 31)])
        self.assertEqual(list(client.metrics(job, ["none"])), [])
        self.assertEqual(cluster.api.record(job.id).spec.env["EXTRA"], "1")

    def test_logs_and_metrics_follow_a_job_to_its_end(self):
        client = self.client(self.cluster().endpoint)
        job = client.submit(["sh", "-c", "echo one; sleep 0.3; printf 'two\\nth'; sleep 0.2; printf ree"])
        self.assertEqual([line.text for line in client.logs(job, follow=True)], ["one", "two", "three"])
        job = client.submit([harness.PYTHON, LOOP, "20", "--pause", "0.02"])
        self.assertEqual([point.step for point in client.metrics(job, follow=True)], list(range(1, 21)))

    def test_cancel_and_timeouts(self):
        client = self.client(self.cluster().endpoint)
        job = client.submit(["sleep", "60"], grace=1)
        with self.assertRaises(TimeoutError):
            client.wait(job, timeout=0.3)
        client.cancel(job, reason="enough")
        over = client.wait(job, timeout=30)
        self.assertEqual(over.state, "CANCELLED")
        again = self.error(client.cancel, "no-such-job-9")
        self.assertTrue(again.code.startswith("JC1") and again.fix and again.status == "NOT_FOUND", repr(again))

    def test_a_stopped_job_is_held_until_it_is_released(self):
        cluster = self.cluster()
        client = self.client(cluster.endpoint)
        job = client.submit(["sleep", "60"], grace=1)
        wait_until(lambda: client.job(job).state == "RUNNING", "it runs")
        client.stop(job)
        self.assertEqual(client.job(job).reason, "asked by uid:%d to save and stop" % os.getuid())
        client.release(job)
        self.assertEqual(client.job(job).state, "RUNNING")
        client.stop(job, notice=0)
        wait_until(lambda: "held: stopped by" in client.job(job).reason, "it is held")
        self.error(client.set, job, project="no-such-project")
        client.release(job)
        wait_until(lambda: client.job(job).state == "RUNNING", "it continues")
        client.cancel(job, grace=0)
        self.assertEqual(client.wait(job, timeout=30).state, "CANCELLED")

    def test_a_coordinator_that_is_alone_lists_itself(self):
        client = self.client(self.cluster().endpoint)
        [alone] = client.coordinators()
        self.assertEqual((alone.leads, alone.lag, alone.endpoint), (True, 0, client.endpoint))

    def test_a_key_submits_once(self):
        client = self.client(self.cluster().endpoint)
        ids = {client.submit(["true"], idempotency_key="k", env={"A": "1"}).id for _ in range(2)}
        self.assertEqual(len(ids), 1)
        other = self.error(client.submit, ["false"], idempotency_key="k")
        self.assertEqual(other.status, "ALREADY_EXISTS")

    def test_a_wait_survives_a_coordinator_that_is_killed(self):
        cluster = self.cluster()
        client = self.client(cluster.endpoint)
        job = client.submit(["sleep", "1.5"])
        following = client.follow(job)
        next(following)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual([seen.state for seen in following][-1], "SUCCEEDED")


class Errors(ClientCase):
    def test_the_coordinators_errors_are_values(self):
        client = self.client(self.cluster().endpoint)
        error = self.error(client.job, "no-such-job-9")
        self.assertRegex(error.code, r"^JC1\d\d\d$")
        self.assertIn("no-such-job-9", error.what)
        self.assertTrue(error.fix)
        self.assertEqual(str(error), f"[{error.code}] {error.what}" + (f": {error.why}" if error.why else "")
                         + f"; fix: {error.fix}")
        self.assertEqual(vars(pickle.loads(pickle.dumps(error))), vars(error))
        huge = self.error(client.submit, ["true"], processes=1000)
        self.assertEqual(huge.status, "FAILED_PRECONDITION")

    def test_what_cannot_be_a_job_is_refused_here(self):
        client = self.client(self.cluster().endpoint)
        with self.assertRaises(TypeError):
            client.submit("python train.py")
        with self.assertRaises(ValueError):
            client.submit(["true"], processes=2, per_node=2)

    def test_a_server_that_is_not_there(self):
        error = self.error(self.muster.Client, "127.0.0.1:1")
        self.assertEqual((error.code, error.status), ("JC1301", "UNAVAILABLE"))
        self.assertEqual(self.error(self.muster.Client, "head").code, "JC1004")
        self.assertEqual(self.error(self.muster.Client, "a:1", context="b").code, "JC1004")


class Head:
    """One of several coordinators that replace each other, in this process: it leads or stands by, and dies."""

    def __init__(self, case):
        import grpc
        from muster.client import _api
        self.api, self.grpc, self.asked, self.handlers = _api, grpc, [], {}
        self.stands_by, self.leader, self.leads_after = False, "", 0
        self.server = grpc.server(ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()
        case.addCleanup(lambda: self.server.stop(0).wait())

    def service(self, details):
        name = details.method.rsplit("/", 1)[1]
        _, request, response = self.api.method(name)
        is_stream = name == "WatchJob"
        kind = self.grpc.unary_stream_rpc_method_handler if is_stream else self.grpc.unary_unary_rpc_method_handler
        return kind(lambda asked, context: self.answer(name, asked, context), request.FromString,
                    response.SerializeToString)

    def answer(self, name, request, context):
        self.asked.append(name)
        if name == "GetServer":
            stands_by = self.stands_by or self.asked.count("GetServer") <= self.leads_after
            return self.api.message("GetServerResponse")(version="0.1.0", protocol=1, stands_by=stands_by,
                                                         leader=self.leader)
        if self.stands_by:
            detail = self.api.message("ErrorDetail")(code="JC1630", what="this coordinator stands by")
            wire = self.api.message("StatusDetails")()
            wire.details.add(type_url="type.googleapis.com/muster.v1.ErrorDetail", value=detail.SerializeToString())
            context.set_trailing_metadata((("grpc-status-details-bin", wire.SerializeToString()),))
            context.abort(self.grpc.StatusCode.UNAVAILABLE, "stands by")
        return self.handlers[name](request, context)


class Heads(ClientCase):
    def setUp(self):
        super().setUp()
        self.a, self.b = Head(self), Head(self)
        self.b.stands_by, self.b.leader = True, self.a.address
        self.both = f"{self.a.address},{self.b.address}"

    def step_down(self):
        self.a.stands_by, self.a.leader, self.b.stands_by = True, self.b.address, False

    def know_the_job(self, head, state=3):
        message = head.api.message
        record = message("JobRecord")(id=3, name="calm-otter-3", state=state)
        head.handlers["GetJob"] = lambda *_: message("GetJobResponse")(record=record)
        head.handlers["WatchJob"] = lambda *_: iter([message("JobUpdate")(record=record)])
        head.handlers["Submit"] = lambda *_: message("SubmitResponse")(job=3)

    def test_the_one_that_leads_is_found(self):
        self.step_down()
        self.assertEqual(self.client(f"127.0.0.1:1,{self.both}").endpoint, self.b.address)
        # Also if it is not in the list.
        self.assertEqual(self.client(self.a.address).endpoint, self.b.address)

    def test_the_next_leader_is_waited_for(self):
        self.a.leads_after = 3
        self.assertEqual(self.client(self.both).endpoint, self.a.address)
        self.assertEqual(self.a.asked, ["GetServer"] * 4)

    def test_if_none_answers_the_error_names_each(self):
        error = self.error(self.muster.Client, "127.0.0.1:1,127.0.0.1:2")
        self.assertEqual((error.code, error.status), ("JC1301", "UNAVAILABLE"))
        self.assertEqual(error.what, "none of the coordinators at 127.0.0.1:1, 127.0.0.1:2 answers")
        self.assertRegex(error.why, r"^127\.0\.0\.1:1 does not answer \(.*\); 127\.0\.0\.1:2 does not answer \(.*\)$")

    def test_one_alone_that_stands_by_is_not_waited_for(self):
        self.b.leader = ""
        error = self.error(self.muster.Client, self.b.address)
        self.assertEqual((error.code, error.why), ("JC1630", "none leads at the moment"))
        self.assertEqual(self.b.asked, ["GetServer"])

    def test_calls_continue_at_the_next_one_that_leads(self):
        client = self.client(self.both)
        for head in (self.a, self.b):
            self.know_the_job(head)
        self.assertEqual(client.job(3).name, "calm-otter-3")
        self.step_down()
        self.assertEqual(client.submit(["true"]).id, 3)
        self.assertEqual(client.endpoint, self.b.address)
        # Each once: the one that stands by did nothing.
        self.assertEqual((self.a.asked.count("Submit"), self.b.asked.count("Submit")), (1, 1))

    def test_a_wait_continues_when_the_leader_dies(self):
        self.know_the_job(self.a)
        self.know_the_job(self.b, 6)
        running = self.a.handlers["WatchJob"]

        def watch(*asked):
            yield from running(*asked)
            self.step_down()
            self.a.server.stop(0).wait(30)  # which ends this call for the client
        self.a.handlers["WatchJob"] = watch
        states = [seen.state for seen in self.client(self.both).follow(3)]
        self.assertEqual((states[0], states[-1]), ("RUNNING", "SUCCEEDED"))

    def test_lists_of_addresses_are_read_as_jobctl_reads_them(self):
        from muster.client import _heads, _settings
        self.assertTrue(_heads.share_address("a:1,b:1", "b:1"))
        self.assertFalse(_heads.share_address("a:1,b:1", "c:1"))
        self.assertEqual(_heads.hosts_and_ports(["a:1", "unix:/x", "dns:a:1", "[::1]:7", "a:0"]), ["a:1", "[::1]:7"])
        self.assertEqual(_settings.resolve("a:1,b:1", None).endpoint, "a:1,b:1")
        self.assertEqual(self.error(_settings.resolve, "a:1,b", None).code, "JC1004")


class Settings(ClientCase):
    def config(self, text):
        os.makedirs(self.path("config") + "/muster", exist_ok=True)
        with open(self.path("config") + "/muster/config.yaml", "w") as file:
            file.write(text)

    def test_contexts_and_variables_as_jobctl_reads_them(self):
        cluster = self.cluster()
        cluster.jobctl("context", "add", "lab", cluster.endpoint)
        self.assertEqual(self.client(context="lab").endpoint, cluster.endpoint)
        cluster.jobctl("context", "use", "lab")
        self.assertEqual(self.client().endpoint, cluster.endpoint)
        os.environ["JOBCTL_SERVER"] = "127.0.0.1:1"
        self.assertEqual(self.error(self.muster.Client).code, "JC1301")
        del os.environ["JOBCTL_SERVER"]
        os.environ["JOBCTL_CONTEXT"] = "other"
        unknown = self.error(self.muster.Client)
        self.assertEqual(unknown.code, "JC1007")
        self.assertIn("lab", unknown.why)
        del os.environ["JOBCTL_CONTEXT"]
        self.config("contexts: [lab\n")
        self.assertEqual(self.error(self.muster.Client).code, "JC1006")

    def test_to_another_host_only_what_training_needs_is_sent(self):
        from muster.client._environment import job_environment
        from muster.client._settings import resolve
        os.environ["JOBCTL_CONFIG"] = self.path("config.yaml")
        with open(os.environ["JOBCTL_CONFIG"], "w") as file:
            file.write("current: lab\ncontexts:\n  lab: {server: 'head:7700', env_pass: ['MY_*', WANDB_API_KEY]}\n")
        os.environ.update(MY_LR="1", MY_TOKEN="t", HF_TOKEN="h", WANDB_API_KEY="w", PYTHONHASHSEED="0", OTHER="o")

        def names(target, clean=False, env_from=None):
            sent = job_environment(target, clean=clean, env_from=env_from)
            return {name for name in ("PATH", "MY_LR", "MY_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "PYTHONHASHSEED", "OTHER")
                    if name in sent}
        far = resolve(None, None)
        with self.assertWarnsRegex(UserWarning, "among them HF_TOKEN, MY_TOKEN"):
            self.assertEqual(names(far), {"PATH", "MY_LR", "WANDB_API_KEY", "PYTHONHASHSEED"})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(len(names(far, env_from="shell")), 7)
            self.assertEqual(len(names(resolve("unix:" + self.cluster(workers=()).socket, None))), 7)
            self.assertEqual(names(far, clean=True), {"PATH"})
        for wrong in ({"env_from": "all"}, {"env_from": "shell", "clean": True}):
            with self.assertRaises(ValueError):
                names(far, **wrong)

    def test_the_private_coordinator_stays_while_a_client_is_there(self):
        away = self.error(self.muster.Client)
        self.assertIn("jobctl up", away.fix)
        private = self.private()
        process = private.start_jobctl("run", "-n", "1", "--", "sleep", "1")
        client = wait_until(self.try_client, "the private coordinator")
        process.wait(30)
        done = client.wait(client.submit(["true"]), timeout=30)
        self.assertEqual(done.state, "SUCCEEDED")
        client.close()
        self.assert_gone(self.mark, deadline_s=10)

    def try_client(self):
        try:
            return self.client()
        except self.muster.MusterError:
            return None

    def test_a_socket_that_others_can_replace_gets_nothing(self):
        cluster = self.cluster()
        os.chmod(os.path.dirname(cluster.socket), 0o777)
        error = self.error(self.muster.Client, cluster.endpoint)
        self.assertEqual(error.code, "JC1304")
        self.assertIn("nothing was sent", error.what)

    def test_a_private_directory_that_others_enter_gets_nothing(self):
        os.makedirs(self.path("r"))
        os.chmod(self.path("r"), 0o755)
        self.assertEqual(self.error(self.muster.Client).code, "JC1304")


class Secured(ClientCase, EnrollCase):
    def test_a_person_who_signed_in_is_spoken_to_over_tls(self):
        cluster = self.secured()
        self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        self.start_worker(cluster, "node1")
        alice = self.person(cluster, "alice", "--role", "user")
        os.environ.update({name: alice.env[name] for name in ("HOME", "XDG_CONFIG_HOME")})
        client = self.client()
        self.assertFalse(client.endpoint.startswith("unix:"))
        job = client.wait(client.submit(["true"], workdir="/"), timeout=30)
        self.assertEqual((job.state, job.owner), ("SUCCEEDED", "user:alice"))
        stranger = self.path("stranger")
        os.environ.update(HOME=stranger, XDG_CONFIG_HOME=stranger)
        self.assertIn(self.error(self.muster.Client, client.endpoint).code, ("JC1357", "JC1301"))
        folder = os.path.join(alice.env["XDG_CONFIG_HOME"], "muster", "credentials")
        path = os.path.join(folder, os.listdir(folder)[0])
        os.environ.update({name: alice.env[name] for name in ("HOME", "XDG_CONFIG_HOME")})
        os.chmod(path, 0o644)
        self.assertEqual(self.error(self.muster.Client).code, "JC1323")
        os.chmod(path, 0o600)
        with open(path, "w") as file:
            file.write("name: alice\n")
        self.assertEqual(self.error(self.muster.Client).code, "JC1323")


class Wheel(ClientCase):
    def test_a_wheel_has_the_api_and_works_from_where_it_is_installed(self):
        need(importlib.util.find_spec("setuptools") and importlib.util.find_spec("setuptools.command.bdist_wheel")
             and importlib.util.find_spec("grpc_tools") and importlib.util.find_spec("pip"),
             "needs the Python packages pip, setuptools 70.1 or newer and grpcio-tools")
        tree = self.path("tree")
        shutil.copytree(os.path.join(harness.ROOT, "python"), os.path.join(tree, "python"),
                        ignore=shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__"))
        shutil.copytree(os.path.join(harness.ROOT, "proto"), os.path.join(tree, "proto"))
        subprocess.run([harness.PYTHON, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index",
                        "--target", self.path("installed"), os.path.join(tree, "python")], check=True,
                       capture_output=True, env={**self.env, "PYTHONPATH": ""}, timeout=120)
        script = ("from muster import Client, MusterError\ntry:\n    Client('127.0.0.1:1')\n"
                  "except MusterError as error:\n    print(error.code)")
        done = subprocess.run([harness.PYTHON, "-c", script], env={**self.env, "PYTHONPATH": self.path("installed")},
                              capture_output=True, text=True, timeout=60, cwd=self.directory)
        self.assertEqual(done.stdout, "JC1301\n", done.stderr)


del EnrollCase

if __name__ == "__main__":
    harness.main()
