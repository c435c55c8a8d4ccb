"""Joining and signing in: tokens, certificates that renew themselves, sessions of a browser, what a stranger gets."""
import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import time

import harness
from harness import Case, free_port, need, wait_until

WORKER = os.path.join(harness.BIN, "muster-worker")
COORDINATOR = os.path.join(harness.BIN, "muster-coordinator")


def until_ms(credentials):
    """When the certificate of a file of credentials expires, Unix milliseconds."""
    with open(credentials) as file:
        pem = file.read()
    done = subprocess.run(["openssl", "x509", "-noout", "-enddate"], input=pem, text=True, capture_output=True, check=True)
    return ssl.cert_time_to_seconds(done.stdout.strip().split("=", 1)[1]) * 1000


class EnrollCase(Case):
    def secured(self, *args):
        """A cluster that init made, served on free ports of loopback; its jobctl is the administrator's."""
        need(shutil.which("openssl"), "needs openssl")
        cluster = harness.Cluster(self, coordinator_args=("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *args))
        self.data = os.path.join(cluster.directory, "data")
        subprocess.run([COORDINATOR, "init", "--data-dir", self.data, "--name", "lab", "--host", "127.0.0.1",
                        "--admin", "admin"],
                       env=self.env, check=True, capture_output=True)
        cluster.start()
        self.address = cluster.api.server().http_address
        self.assertTrue(self.address.startswith("https://127.0.0.1:"), self.address)
        self.address = self.address[len("https://"):]
        return cluster

    def token(self, cluster, *words):
        return cluster.jobctl("token", "create", *words).stdout.strip()

    def join(self, token, name, *args, state=None):
        state = state or self.path(f"state-{name}")
        done = subprocess.run([WORKER, "join", self.address, "--token-file", "-", "--name", name, "--state-dir", state, *args],
                              input=token, text=True, env=self.env, capture_output=True, timeout=60)
        done.state = state
        return done

    def start_worker(self, cluster, name, args=("--run-as", "worker"), devices="cpu:2"):
        """Of a node that has joined: its state directory is all it needs. The tests' people have no accounts."""
        worker = harness.Daemon([WORKER, "--state-dir", self.path(f"state-{name}"), "--devices", devices, *args],
                                dict(self.env), self.path(f"{name}.out"))
        self.daemons.append(worker)
        cluster.workers[name] = worker
        worker.start()
        cluster.wait_nodes(name)
        return worker

    def person(self, cluster, name, *args):
        """jobctl as a person who has signed in on another machine."""
        home = self.path("home-" + name)
        os.makedirs(home, exist_ok=True)
        env = {**self.env, "HOME": home, "XDG_CONFIG_HOME": home}
        person = harness.Muster.__new__(harness.Muster)
        person.case, person.env, person.home = self, env, home
        person._api = cluster.api
        person.login = lambda token: person.jobctl("login", self.address, "--token-file", "-", stdin=token.encode(), check=False)
        done = person.login(self.token(cluster, "person", name, *args))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("back to where it was: jobctl context use private", done.stderr)
        person.credentials = os.path.join(home, "muster", "credentials", "lab")
        return person

    def ask(self, method, target, headers=None, body=None):
        trusted = ssl.create_default_context(cafile=f"{self.data}-keys/ca.pem")
        connection = http.client.HTTPSConnection(self.address, context=trusted, timeout=harness.DEADLINE_S)
        headers = dict(headers or {})
        if isinstance(body, dict):
            body = json.dumps(body)
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            answer.text = answer.read().decode()
            return answer
        finally:
            connection.close()

    def post(self, path, body):
        answer = self.ask("POST", path, {}, body)
        return answer.status, json.loads(answer.text).get("error", {}).get("code")


class Joining(EnrollCase):
    def test_the_first_administrator_is_who_types_init(self):
        for number, (sudo_user, named) in enumerate((("alice", "alice"), ("root", "admin"), ("../x", "admin"))):
            done = subprocess.run(
                [COORDINATOR, "init", "--data-dir", os.path.join(self.directory, f"named{number}"), "--name", "lab"],
                env={**self.env, "SUDO_USER": sudo_user}, check=True, capture_output=True, text=True)
            self.assertIn(f"you are its administrator {named}:", done.stdout)

    def test_init_lets_others_pass_to_what_lies_beside_its_directories(self):
        made = self.path("srv")
        subprocess.run([COORDINATOR, "init", "--data-dir", f"{made}/muster/data", "--keys-dir", f"{made}/secret/keys",
                        "--name", "lab"], env=self.env, check=True, capture_output=True)
        modes = {path: stat.S_IMODE(os.stat(os.path.join(made, path)).st_mode)
                 for path in (".", "muster", "muster/data", "secret", "secret/keys")}
        self.assertEqual(modes, {".": 0o711, "muster": 0o711, "muster/data": 0o700, "secret": 0o711, "secret/keys": 0o700})

    def test_a_worker_is_told_why_a_coordinator_of_another_kind_does_not_take_it(self):
        cluster = self.secured()
        joined = self.join(self.token(cluster, "worker"), "node1")
        with open(os.path.join(joined.state, "credentials")) as file:
            endpoint = next(line.split(": ")[1].strip() for line in file if line.startswith("endpoint: "))
        open_port = f"127.0.0.1:{free_port()}"
        harness.Cluster(self, name="plain", coordinator_args=("--listen", open_port, "--insecure-plaintext")).start()

        def told(state, coordinator, *words):
            worker = harness.Daemon([WORKER, "--state-dir", state, "--coordinator", coordinator, "--devices", "cpu:1",
                                     "--run-as", "worker"], dict(self.env), self.path("told.out"))
            self.daemons.append(worker)
            worker.start()
            wait_until(lambda: all(word in worker.output() for word in words), lambda: f"{words} in {worker.output()}")
            worker.stop()
            os.remove(worker.log)
        told(self.path("stranger"), endpoint, "has no certificate", "muster-worker join HOST:HTTPS-PORT", "jobctl token create")
        told(joined.state, open_port, "does not encrypt, or takes no certificate of the cluster lab", "another --state-dir")
        done = cluster.jobctl("ls", check=False, env={"JOBCTL_SERVER": endpoint, "JOBCTL_CONTEXT": ""})
        self.assert_error(done, "JC1357")

    def test_a_node_joins_renews_under_a_running_job_and_comes_back_after_its_certificate_expired(self):
        cluster = self.secured("--worker-certificate", "6s")
        joined = self.join(self.token(cluster, "worker"), "node1")
        self.assertEqual(joined.returncode, 0, joined.stderr)
        self.assertIn("node1 has joined cluster lab", joined.stdout)
        self.assertIn(f"muster-worker --state-dir {joined.state}", joined.stdout)
        credentials = os.path.join(joined.state, "credentials")
        self.assertEqual(stat.S_IMODE(os.stat(credentials).st_mode), 0o600)
        worker = self.start_worker(cluster, "node1")
        go = self.path("go")
        job = cluster.submit("--", "sh", "-c", f"echo begin; while [ ! -e {go} ]; do sleep 0.05; done; echo end")
        cluster.wait_for(job, harness.RUNNING)
        first = until_ms(credentials)
        # The certificate that it joined with is over, and so is the next one.
        wait_until(lambda: time.time() * 1000 > first and until_ms(credentials) > first + 6000, "it was renewed twice")
        with open(go, "w"):
            pass
        record = cluster.wait_over(job)
        self.assertEqual((record.state, len(record.attempts)), (harness.SUCCEEDED, 1))
        wait_until(lambda: b"end\n" in b"".join(cluster.api.logs(job)[0].values()), "its output is there")
        self.assertNotIn("cannot be renewed", worker.output())
        # It connected again before its connections were cut.
        self.assertNotIn("control stream ended", worker.output())
        worker.kill9()
        last = until_ms(credentials)
        wait_until(lambda: time.time() * 1000 > last, "the certificate has expired")
        self.start_worker(cluster, "node1")
        again = cluster.submit("--", "true")
        self.assertEqual(cluster.wait_over(again).state, harness.SUCCEEDED)

    def test_a_node_that_knows_several_coordinators_joins_and_renews_at_one_that_answers(self):
        cluster = self.secured("--worker-certificate", "6s")
        one, self.address = self.address, f"localhost:{free_port()},{self.address}"
        joined = self.join(self.token(cluster, "worker"), "node1")
        self.assertEqual(joined.returncode, 0, joined.stderr)
        credentials = os.path.join(joined.state, "credentials")

        def addresses():
            with open(credentials) as file:
                return dict(re.findall(r"(?m)^(endpoint|http): (.*)$", file.read()))
        before = addresses()
        self.assertEqual(before["http"], self.address)
        hosts = [endpoint.rpartition(":")[0] for endpoint in before["endpoint"].split(",")]
        self.assertEqual(hosts, ["localhost", "127.0.0.1"])
        first = until_ms(credentials)
        worker = self.start_worker(cluster, "node1")
        wait_until(lambda: until_ms(credentials) > first, "it was renewed")
        self.assertEqual(addresses(), before)
        self.assertNotIn("cannot be renewed", worker.output())
        self.address = one

    def test_what_a_token_is_not_good_for(self):
        cluster = self.secured()
        token = self.token(cluster, "worker")
        another = re.sub(r"^(muster1\.).{8}", r"\g<1>00000000", token)
        refused = self.join(another, "node1")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("JC1354", refused.stderr)
        # Nothing was sent, so the token is still unused.
        self.assertEqual(self.join(token, "node1").returncode, 0)
        self.assertIn("JC1335", self.join(token, "node2").stderr)
        self.assertIn("JC1335", self.join(self.token(cluster, "person", "alice"), "node2").stderr)
        self.assertIn("JC1322", self.join("hello", "node2").stderr)
        general = self.token(cluster, "worker")
        taken = self.join(general, "node1", state=self.path("thief"))
        self.assertIn("JC1351", taken.stderr)
        self.assertFalse(os.path.exists(self.path("thief/credentials")))
        self.assertEqual(self.join(general, "node2").returncode, 0, "a refused request has not used the token up")
        self.assertIn("JC1358", self.join(self.token(cluster, "worker"), "node2").stderr)

    def test_a_node_that_joins_again_with_a_token_of_its_own_ends_its_older_certificate(self):
        cluster = self.secured()
        self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        stolen = self.path("stolen")
        shutil.copytree(self.path("state-node1"), stolen)
        again = self.join(self.token(cluster, "worker", "node1"), "node1", "--again")
        self.assertEqual(again.returncode, 0, again.stderr)
        owner = self.start_worker(cluster, "node1")
        thief = harness.Daemon([WORKER, "--state-dir", stolen, "--devices", "cpu:1", "--run-as", "worker"], dict(self.env), self.path("thief.out"))
        self.daemons.append(thief)
        thief.start()
        wait_until(lambda: "JC1324" in thief.output() or "revoked" in thief.output(), "the copied credentials are refused")
        # Nor does a node come back that was removed.
        owner.kill9()
        wait_until(lambda: cluster.jobctl("nodes", "rm", "node1", check=False).returncode == 0, "it is removed")
        self.assertIn("the node was removed", cluster.jobctl("cert", "ls", "-o", "json").stdout)
        before = len(owner.output())
        owner.start()
        wait_until(lambda: "JC1324" in owner.output()[before:] or "revoked" in owner.output()[before:], "its certificate is refused")
        later = self.join(self.token(cluster, "worker"), "node1", state=self.path("later"))
        self.assertEqual(later.returncode, 0, later.stderr + " (the name is free)")

    def test_ranks_of_a_cluster_run_as_their_owners(self):
        need(os.geteuid() == 0, "only root may start ranks as another account")
        os.chmod(self.directory, 0o755)
        cluster = self.secured()
        self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        self.start_worker(cluster, "node1", args=())
        self.assertIn("as the job's owner; sandbox: ", cluster.jobctl("nodes", "show", "node1").stdout)
        alice = self.person(cluster, "alice")
        submit = ("submit", "-o", "name", "--workdir", "/", "--", "id", "-un")
        refused = cluster.wait_for(alice.jobctl(*submit).stdout.strip(), harness.FAILED)
        self.assertIn("JC1414", refused.reason)
        self.assertIn("account 'alice': it does not exist", refused.reason)
        cluster.jobctl("user", "set", "alice", "--account", "root")
        self.assertIn("JC1415", cluster.wait_for(alice.jobctl(*submit).stdout.strip(), harness.FAILED).reason)
        cluster.jobctl("user", "set", "alice", "--account", "daemon")
        self.assertIn("which is a service's", cluster.wait_for(alice.jobctl(*submit).stdout.strip(), harness.FAILED).reason)
        cluster.jobctl("user", "set", "alice", "--account", "nobody")
        job = alice.jobctl(*submit).stdout.strip()
        cluster.wait_for(job, harness.SUCCEEDED)
        self.assertEqual(cluster.api.logs(job)[0][(0, 0, 1)], b"nobody\n")

    def test_the_environment_of_a_job_is_stored_encrypted(self):
        cluster = self.secured()
        self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        self.start_worker(cluster, "node1")
        alice = self.person(cluster, "alice", "--role", "user")
        told = self.path("told")
        with open(self.path("notify.yaml"), "w") as file:
            json.dump({"command": ["sh", "-c", "echo ${#MY_LR}"], "workdir": "/", "env": {"MY_LR": "lr-881277"},
                       "notify": [{"command": ["sh", "-c", "echo ${#MY_LR} >" + told]}]}, file)
        job = alice.jobctl("submit", "-o", "name", self.path("notify.yaml")).stdout.strip()
        again = alice.jobctl("rerun", "-o", "name", job).stdout.strip()
        attached = alice.jobctl("run", "--workdir", "/", "-e", "MY_LR=lr-881277", "--", "sh", "-c", "echo of ${#MY_LR}")
        self.assertIn("of 9", attached.stdout)
        for each in (job, again):
            cluster.wait_for(each, harness.SUCCEEDED)
            self.assertEqual(cluster.api.logs(each)[0][(0, 0, 1)], b"9\n")
        wait_until(lambda: os.path.exists(told) and os.path.getsize(told) > 0, "the command of notify has run")
        with open(told) as file:
            self.assertEqual(file.read(), "9\n", "it has the environment, too")

        def shown(person):
            return json.loads(person.jobctl("show", job, "-o", "json").stdout)["spec"]["env"]["MY_LR"]
        self.assertEqual((shown(alice), shown(cluster)), ("lr-881277", "(hidden)"))
        self.assertNotEqual(cluster.jobctl("rerun", job, check=False).returncode, 0, "it is alice's")
        cluster.workers["node1"].stop()
        waits = alice.jobctl("submit", "-o", "name", self.path("notify.yaml")).stdout.strip()
        subprocess.run([COORDINATOR, "backup", "--data-dir", self.data, "--to", self.path("backup")], env=self.env, check=True,
                       capture_output=True)
        cluster.coordinator.stop()
        for root in (self.data, self.path("backup")):
            for where, _, names in os.walk(root):
                for name in names:
                    with open(os.path.join(where, name), "rb") as file:
                        self.assertNotIn(b"lr-881277", file.read(), name)
        # As after a restore without the keys.
        with open(f"{self.data}-keys/secrets.key", "r+") as file:
            file.write("0" * 64)
        cluster.restart_coordinator()
        port = re.findall(r" tcp=(\S+)", cluster.coordinator.output())[-1]
        self.start_worker(cluster, "node1", args=("--run-as", "worker", "--coordinator", port))
        reason = cluster.wait_for(waits, harness.FAILED).reason
        self.assertIn("JC1345", reason)
        self.assertIn("the keys that it had", reason)

    def test_a_worker_cannot_pose_as_the_coordinator_to_those_who_join(self):
        cluster = self.secured()
        joined = self.join(self.token(cluster, "worker"), "node1")
        with open(f"{self.data}-keys/ca.pem", "rb") as file:
            authority = file.read()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(joined.state, "credentials"))
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        heard = []

        def serve():
            # The true authority, as anybody can ask for it; then whatever is sent to who has shown it.
            for _ in range(2):
                plain, _ = server.accept()
                try:
                    with context.wrap_socket(plain, server_side=True) as client:
                        heard.append(client.recv(65536))
                        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(authority) + authority)
                except (OSError, ssl.SSLError):
                    heard.append(b"")
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.address = "127.0.0.1:%d" % server.getsockname()[1]
        refused = self.join(self.token(cluster, "worker"), "node2")
        thread.join(harness.DEADLINE_S)
        self.assertIn("JC1354", refused.stderr)
        self.assertEqual((heard[0].split(b" HTTP")[0], heard[1:]), (b"GET /enroll/ca", [b""]))

    def test_what_stands_behind_the_pinned_authority_is_not_trusted(self):
        cluster = self.secured()
        with open(f"{self.data}-keys/ca.pem", "rb") as file:
            authority = file.read()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                        "1", "-subj", "/CN=lab", "-keyout", self.path("key"), "-out", self.path("evil")],
                       check=True, capture_output=True)
        with open(self.path("evil"), "rb") as file:
            evil = file.read()
        shown = authority.replace(b" CERTIFICATE", b" X509 CERTIFICATE") + evil
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("evil"), self.path("key"))
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        host, port = self.address.split(":")

        def copy(source, to):
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    to.sendall(data)
                to.shutdown(socket.SHUT_WR)

        def between():
            # The first connection asks for the authority; the second is let through to the coordinator.
            with context.wrap_socket(server.accept()[0], server_side=True) as client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(shown) + shown)
            with server.accept()[0] as client, socket.create_connection((host, int(port))) as coordinator:
                back = threading.Thread(target=copy, args=(coordinator, client), daemon=True)
                back.start()
                copy(client, coordinator)
                back.join(harness.DEADLINE_S)
        threading.Thread(target=between, daemon=True).start()
        self.address = "127.0.0.1:%d" % server.getsockname()[1]
        joined = self.join(self.token(cluster, "worker"), "node3")
        self.assertEqual(joined.returncode, 0, joined.stderr)
        with open(os.path.join(joined.state, "credentials"), "rb") as file:
            credentials = file.read()
        self.assertIn(authority, credentials)
        self.assertNotIn(evil.split(b"\n")[1], credentials)

    def test_what_a_stranger_gets_from_the_open_port(self):
        self.secured()
        self.assertEqual(self.ask("GET", "/enroll/ca").status, 200)
        for what, path, body, status, code in (
                ("no token", "/enroll/join", {"node": "node1"}, 400, "JC1322"),
                ("a person without one", "/enroll/sign-in", {}, 400, "JC1322"),
                ("a renewal of nothing", "/enroll/renew", {}, 403, "JC1352"),
                ("an identity provider that is not there", "/enroll/device", {}, 400, "JC1361"),
                ("something else", "/enroll/other", {}, 401, "JC1313"),
                ("a call", "/api/v1/Submit", {}, 401, "JC1313"),
                ("too much", "/enroll/join", {"token": "x" * 100_000}, 413, "JC1316")):
            with self.subTest(what):
                self.assertEqual(self.post(path, body), (status, code))
        self.assertEqual(self.ask("GET", "/enroll/join").status, 405)
        self.assertEqual(self.ask("POST", "/enroll/join", {"Content-Type": "text/plain"}, "{}").status, 415)
        answers = {self.post("/enroll/renew", {}) for _ in range(90)}
        self.assertEqual(answers, {(403, "JC1352"), (429, "JC1356")})
        plain = http.client.HTTPConnection(self.address, timeout=harness.DEADLINE_S)
        plain.request("GET", "/enroll/ca")
        answer = plain.getresponse()
        self.assertEqual((answer.status, "https://" in answer.read().decode()), (400, True))
        plain.close()

    def test_five_hundred_clients_that_never_finish_their_handshake_keep_nobody_out(self):
        cluster = self.secured()
        host, port = self.address.split(":")
        greeting = bytes.fromhex("16030102000100")
        silent = [socket.create_connection((host, int(port))) for _ in range(500)]
        try:
            for number, each in enumerate(silent):
                if number % 2:
                    each.sendall(greeting)
            self.assertEqual(self.ask("GET", "/healthz").status, 200)
            self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        finally:
            for each in silent:
                each.close()


class SigningIn(EnrollCase):
    def test_a_person_signs_in_submits_and_signs_out(self):
        cluster = self.secured()
        self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        self.start_worker(cluster, "node1")
        alice = self.person(cluster, "alice")
        self.assertEqual(stat.S_IMODE(os.stat(alice.credentials).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(alice.credentials)).st_mode), 0o700)
        self.assertIn("user:alice", alice.jobctl("whoami").stdout)
        job = alice.submit("--", "true")
        record = cluster.wait_over(job)
        self.assertEqual((record.state, record.owner), (harness.SUCCEEDED, "user:alice"))
        theirs = cluster.submit("--", "true")
        cluster.wait_over(theirs)
        for who, flags, expected in ((alice, ["--mine"], [job]), (cluster, ["--mine"], [theirs]), (cluster, ["--owner", "alice"], [job]),
                                     (cluster, ["--owner", "user:alice"], [job]), (cluster, ["--owner", "nobody"], []),
                                     (alice, [], [theirs, job])):
            self.assertEqual(who.jobctl("ls", *flags, "-o", "name").stdout.split(), expected, flags)
        used = alice.login("muster1." + "0" * 64 + "." + "0" * 12 + "." + "x" * 43)
        self.assert_error(used, "JC1354")
        with open(alice.credentials) as file:
            endpoint = re.search(r"^endpoint: (.+)$", file.read(), re.M).group(1)
        # The context that has the address lends its credentials.
        self.assertIn("user:alice", alice.jobctl("whoami", "--server", endpoint).stdout)
        copy = self.path("copy")
        shutil.copy2(alice.credentials, copy)
        self.assertIn("the certificate is revoked", alice.jobctl("logout").stdout)
        self.assertFalse(os.path.exists(alice.credentials))
        self.assert_error(alice.jobctl("ls", check=False), "JC1357", "jobctl login")
        shutil.copy2(copy, alice.credentials)
        self.assert_error(alice.jobctl("ls", check=False), "JC1324", "revoked")
        again = alice.login(self.token(cluster, "person", "alice"))
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertIn("user:alice", alice.jobctl("whoami").stdout)
        vera = self.person(cluster, "vera", "--role", "viewer")
        self.assertIn("the certificate is revoked", vera.jobctl("logout").stdout)
        bob, carol = self.person(cluster, "bob"), self.person(cluster, "carol")
        self.assertIn("is good until its end", carol.jobctl("logout", "--local").stdout)
        cluster.coordinator.kill9()
        self.assertIn("is not revoked", bob.jobctl("logout").stdout)
        self.assertFalse(os.path.exists(bob.credentials))

    def test_a_stream_ends_with_its_certificate_unless_jobctl_can_renew_that(self):
        cluster = self.secured("--person-certificate", "8s")
        self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        self.start_worker(cluster, "node1")
        alice = self.person(cluster, "alice")
        first = until_ms(alice.credentials)
        # A browser's session does, too.
        link = alice.jobctl("ui", "--no-open").stdout.strip()
        cookie = self.ask("GET", link[len(f"https://{self.address}"):]).headers["Set-Cookie"]
        self.assertLessEqual(int(re.search(r"Max-Age=(\d+)", cookie).group(1)), 8)
        go = self.path("go")
        wait = ("--", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done; echo end")
        attached = alice.start_jobctl("run", *wait)
        job = alice.submit(*wait)
        cluster.wait_for(job, harness.RUNNING)
        follower = alice.start_jobctl("logs", "-f", job)
        # The same person on a machine from which HTTPS cannot be reached.
        elsewhere = self.path("elsewhere")
        shutil.copytree(alice.home, elsewhere)
        credentials = os.path.join(elsewhere, "muster", "credentials", "lab")
        with open(credentials) as file:
            text = re.sub(r"(?m)^http: .*$", "http: 127.0.0.1:1", file.read())
        with open(credentials, "w") as file:
            file.write(text)
        cut = alice.start_jobctl("logs", "-f", job, env={"HOME": elsewhere, "XDG_CONFIG_HOME": elsewhere})
        _, error = cut.communicate(timeout=harness.DEADLINE_S)
        self.assertNotEqual(cut.returncode, 0)
        self.assertIn(b"JC1357", error)
        last = until_ms(alice.credentials)
        self.assertGreater(last, first, "the others renew it")
        wait_until(lambda: time.time() * 1000 > first + 9_000, "what they began with is over")
        self.assertEqual((attached.poll(), follower.poll()), (None, None))
        with open(go, "w"):
            pass
        output, error = attached.communicate(timeout=harness.DEADLINE_S)
        self.assertEqual((attached.returncode, output.count(b"end\n")), (0, 1), error)
        output, error = follower.communicate(timeout=harness.DEADLINE_S)
        self.assertEqual((follower.returncode, output.count(b"end\n")), (0, 1), error)

    def test_a_certificate_is_renewed_on_the_way_and_an_expired_one_is_said_in_a_sentence(self):
        cluster = self.secured("--person-certificate", "6s")
        alice = self.person(cluster, "alice")
        first = until_ms(alice.credentials)

        def is_renewed():
            alice.jobctl("ls")
            return until_ms(alice.credentials) > first
        wait_until(is_renewed, "a command has renewed the certificate")
        last = until_ms(alice.credentials)
        wait_until(lambda: time.time() * 1000 > last, "the certificate has expired")
        self.assert_error(alice.jobctl("ls", check=False), "JC1357", f"jobctl login {self.address}")

    def test_a_browsers_session_is_its_users_and_ends_with_the_user(self):
        cluster = self.secured()
        alice = self.person(cluster, "alice", "--role", "user")
        bob = self.person(cluster, "bob", "--role", "viewer")

        def sign_in(person):
            link = person.jobctl("ui", "--no-open").stdout.strip()
            self.assertTrue(link.startswith(f"https://{self.address}/sign-in?ticket="), link)
            path = link[len(f"https://{self.address}"):]
            answer = self.ask("GET", path)
            self.assertEqual(self.ask("GET", path).status, 401, "a link works once")
            cookie = answer.headers["Set-Cookie"]
            self.assertTrue(cookie.startswith("__Host-muster_"), cookie)
            self.assertIn("; Secure; ", cookie)
            return {"Cookie": cookie.split(";")[0], "Origin": f"https://{self.address}"}
        hers, his = sign_in(alice), sign_in(bob)
        spec = {"command": ["/bin/true"], "workdir": self.directory, "shape": {"processes": 1, "device": {"kind": "cpu"}}}
        made = self.ask("POST", "/api/v1/Submit", hers, {"spec": spec, "queueAnyway": True})
        self.assertEqual(made.status, 200, made.text)
        record = json.loads(self.ask("GET", "/api/v1/GetJob?job=" + json.loads(made.text)["job"], hers).text)["record"]
        self.assertEqual(record["owner"], "user:alice")
        refused = self.ask("POST", "/api/v1/CancelJobs", his, {"jobs": [record["id"]]})
        self.assertEqual((refused.status, json.loads(refused.text)["error"]["code"]), (403, "JC1320"))
        unencrypted = {**hers, "Origin": f"http://{self.address}"}
        self.assertEqual(self.ask("POST", "/api/v1/CancelJobs", unencrypted, {"jobs": []}).status, 403)
        trusted = ssl.create_default_context(cafile=f"{self.data}-keys/ca.pem")
        connection = http.client.HTTPSConnection(self.address, context=trusted, timeout=harness.DEADLINE_S)
        self.addCleanup(connection.close)
        connection.request("GET", "/events", headers=hers)
        stream = connection.getresponse()
        self.assertIn(b"resync", stream.readline() + stream.readline())
        cluster.jobctl("user", "disable", "alice", "--yes")
        later = cluster.submit("--queue-anyway", "--name", "later", "--", "true")
        self.assertNotIn(later.encode(), stream.read(), "the stream has ended, and nothing more was told")
        self.assertEqual(self.ask("GET", "/api/v1/ListJobs", hers).status, 401)
        self.assertEqual(self.ask("GET", "/api/v1/ListJobs", his).status, 200)
        self.assertEqual(self.ask("GET", "/api/v1/ListJobs", {"Authorization": "Bearer wrong"}).status, 401)

        def doors():
            entries = json.loads(cluster.jobctl("audit", "-o", "json").stdout)["items"]
            return [(entry["who"], entry["what"], entry["result"][:9]) for entry in entries if entry["what"][0] == "/"
                    and not entry["what"].startswith("/enroll/")]
        wait_until(lambda: len(doors()) == 5, doors)
        self.assertEqual(doors(), [("user:alice", "/sign-in", "ok"), ("peer:127.0.0.1", "/sign-in", "[JC1313] "),
                                   ("user:bob", "/sign-in", "ok"), ("peer:127.0.0.1", "/sign-in", "[JC1313] "),
                                   ("peer:127.0.0.1", "/api/v1/ListJobs", "[JC1313] ")])

    def test_whoever_is_given_a_name_has_nothing_of_who_had_it(self):
        cluster = self.secured()
        self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        self.start_worker(cluster, "node1", devices="cpu:1")
        alice = self.person(cluster, "alice")
        cluster.jobctl("project", "create", "vision", "--member", "alice")
        alice.jobctl("secret", "set", "wandb", stdin=b"first-value")
        key = ("--idempotency-key", "nightly")
        over = alice.jobctl("submit", "-o", "name", "--project", "vision", "--workdir", "/", *key, "--", "true").stdout.strip()
        cluster.wait_for(over, harness.SUCCEEDED)
        runs = alice.jobctl("submit", "-o", "name", "--workdir", "/", "-e", "MARK=of-the-first", "--", "sleep", "600").stdout.strip()
        cluster.wait_for(runs, harness.RUNNING)
        waits = alice.jobctl("submit", "-o", "name", "--workdir", "/", "--secret", "wandb", "--", "sh", "-c",
                             "cat $MUSTER_SECRETS_DIR/wandb").stdout.strip()
        link = alice.jobctl("ui", "--no-open").stdout.strip()
        cookie = self.ask("GET", link[len(f"https://{self.address}"):]).headers["Set-Cookie"].split(";")[0]
        unused = self.token(cluster, "person", "alice")
        shutil.copy(alice.credentials, self.path("kept"))
        first = json.loads(alice.jobctl("whoami", "-o", "json").stdout)["user_id"]
        cluster.jobctl("user", "rm", "alice", "--yes")

        self.assertEqual(alice.login(self.token(cluster, "person", "alice")).returncode, 0)
        self.assertRegex(first, "^[0-9a-f]{16}$")
        self.assertNotEqual(json.loads(alice.jobctl("whoami", "-o", "json").stdout)["user_id"], first)
        alice.jobctl("secret", "set", "wandb", stdin=b"second-value")
        self.refused_as_to_anybody(alice, over, runs)
        self.assertEqual(self.ask("GET", "/api/v1/ListJobs", {"Cookie": cookie}).status, 401)
        self.assert_error(alice.login(unused), "JC1335")
        own = alice.jobctl("submit", "-o", "name", "--queue-anyway", "--workdir", "/", *key, "--", "true").stdout.strip()
        self.assertNotEqual(own, over, "the key is not the earlier one's")
        shutil.copy(self.path("kept"), alice.credentials)
        self.assert_error(alice.jobctl("ls", check=False), "JC1324")

        # The name stays, and an administrator sees whose it is.
        rows = {row["job"]: row for row in json.loads(cluster.jobctl("ls", "--owner", "alice", "-o", "json").stdout)["items"]}
        self.assertEqual({row["owner"] for row in rows.values()}, {"user:alice"})
        self.assertEqual({job: row["owner_id"] == first for job, row in rows.items()},
                         {over: True, runs: True, waits: True, own: False})
        wide = cluster.jobctl("ls", "-o", "wide").stdout.splitlines()
        self.assertEqual({job: any(job in line and "user:alice (removed)" in line for line in wide) for job in rows},
                         {over: True, runs: True, waits: True, own: False})
        self.assertIn("user:alice (removed)", cluster.jobctl("show", runs).stdout)
        cluster.jobctl("cancel", runs, "--yes")
        # What it asks for was the first one's, and went with her.
        self.assertIn("wandb", cluster.wait_for(waits, harness.FAILED).reason)
        cluster.wait_for(own, harness.SUCCEEDED)

    def refused_as_to_anybody(self, alice, over, runs):
        for words, code in ((("cancel", runs, "--yes"), "JC1320"), (("rm", over, "--yes"), "JC1320"),
                            (("signal", runs, "USR1"), "JC1320"), (("exec", runs, "--", "env"), "JC1320"),
                            (("rerun", runs), "JC1320"), (("show", "@last"), "JC1201"),
                            (("submit", "--project", "vision", "--", "true"), "JC1338")):
            with self.subTest(words=words):
                done = alice.jobctl(*words, check=False)
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertIn(code, done.stderr + done.stdout)
        self.assertIn("an earlier user:alice, who was removed", alice.jobctl("cancel", runs, "--yes", check=False).stderr)
        self.assertNotIn("of-the-first", alice.jobctl("show", runs, "-o", "json").stdout)
        self.assertEqual(alice.jobctl("ls", "--mine", "-a", "-o", "name").stdout, "")


if __name__ == "__main__":
    harness.main()
