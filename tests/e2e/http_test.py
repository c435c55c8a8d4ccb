"""HTTP: what each security check gets, the calls as JSON, limits, metrics, sessions that survive a restart."""
import base64
import gzip
import hmac
import http.client
import json
import os
import re
import resource
import shlex
import shutil
import socket
import stat
import subprocess
import threading
import time

import harness
from descriptors_test import limited
from harness import Case, free_port, need, python_line, wait_until


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=harness.DEADLINE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(harness.DEADLINE_S)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response, as_bytes=False):
        self.status, self.body = response.status, response.read()
        if not as_bytes:
            self.body = self.body.decode()
        self.headers = response.headers

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


def ask(address, method, target, headers=None, body=None, as_bytes=False):
    """`address`: "http://HOST:PORT" or "unix:PATH". Headers named here replace http.client's."""
    connection = (UnixConnection(address[len("unix:"):]) if address.startswith("unix:") else
                  http.client.HTTPConnection(address[len("http://"):], timeout=harness.DEADLINE_S))
    headers = dict(headers or {})
    if isinstance(body, dict):
        body = json.dumps(body)
        headers.setdefault("Content-Type", "application/json")
    try:
        connection.putrequest(method, target, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(None if body is None else body.encode())
        return Answer(connection.getresponse(), as_bytes)
    finally:
        connection.close()


class HttpCase(Case):
    def shared(self, **options):
        """A coordinator that several people share, with HTTP on a free port of loopback."""
        cluster = self.cluster(coordinator_args=("--http", "127.0.0.1:0"), **options)
        self.look_at(cluster, os.path.join(cluster.directory, "data"))
        return cluster

    def up(self):
        private = self.private()
        private.up = private.jobctl("up")
        self.look_at(private, self.path("d/coordinator"))
        return private

    def look_at(self, muster, data):
        self.data, self.address = data, muster.api.server().http_address
        self.token, self.metrics_token = self.secret("HTTP-TOKEN"), self.secret("HTTP-METRICS-TOKEN")

    def secret(self, name):
        with open(os.path.join(self.data, name)) as file:
            return file.read().strip()

    def ask(self, method, target, headers=None, body=None, token=None, address=None):
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return ask(address or self.address, method, target, headers, body)

    def get(self, target, headers=None):
        return self.ask("GET", target, headers, token=self.token)

    def get_bytes(self, target, headers):
        return ask(self.address, "GET", target, {"Authorization": f"Bearer {self.token}", **headers}, as_bytes=True)

    def once(self, asked, status, code=""):
        """The first answer that has this status and error code."""
        def has_come():
            answer = asked()
            return answer if answer.status == status and code in answer.body else None
        return wait_until(has_come, f"{status} {code}")

    def post(self, call, body, headers=None):
        return self.ask("POST", f"/api/v1/{call}", headers, body, token=self.token)

    def sign_in(self, muster, *args):
        """The cookie that `jobctl ui` leads to, and the path that its page leads to."""
        link = muster.jobctl("ui", "--no-open", *args).stdout.strip()
        self.assertTrue(link.startswith(self.address + "/sign-in?ticket="), link)
        answer = self.ask("GET", link[len(self.address):])
        self.assertEqual(answer.status, 200, answer.body)
        cookie = answer.headers["Set-Cookie"]
        self.assertIn("; HttpOnly; SameSite=Strict", cookie)
        again = self.ask("GET", link[len(self.address):])
        self.assertEqual((again.status, again.headers["Set-Cookie"]), (401, None), "the link works once")
        return cookie.split(";")[0], answer.headers["Refresh"].split("url=")[1]

    def cookie_of(self, principal):
        """A session as the coordinator signs it, of another than everybody on this machine."""
        name, until, holder = f"muster_{self.address.rsplit(':', 1)[1]}", int(time.time()) + 600, f"{principal} "
        signed = hmac.new(self.token.encode(), f"muster-session {name} {until} {holder}".encode(), "sha256").hexdigest()
        return f"{name}={until}.{signed}.{holder.encode().hex()}"


class Security(HttpCase):
    def test_each_check_and_what_it_gets(self):
        cluster = self.shared(workers=())
        own = f"http://{self.address[7:]}"
        port = self.address.rsplit(":", 1)[1]
        cookie, _ = self.sign_in(cluster)
        with_cookie = {"Cookie": cookie}
        with_token = {"Authorization": f"Bearer {self.token}"}
        read, write = "/api/v1/ListJobs", "/api/v1/CancelJobs"
        checks = [
            # What is sent, and what it gets.
            ("no session", "GET", read, {}, 401, "JC1313"),
            ("no session, the page", "GET", "/", {}, 401, None),
            ("no session, metrics", "GET", "/metrics", {}, 401, "JC1313"),
            ("no session, events", "GET", "/events", {}, 401, "JC1313"),
            ("events from another site's page", "GET", "/events", {"Sec-Fetch-Site": "cross-site", **with_cookie}, 403, "JC1314"),
            ("events with a cookie and no origin", "GET", "/events", with_cookie, 403, "JC1314"),
            ("no session, a file of the page", "GET", "/assets/0123456789abcdef/app.js", {}, 401, "JC1313"),
            ("a way out of the page's files", "GET", "/assets/../HTTP-TOKEN", with_token, 404, "JC1316"),
            ("the same, escaped", "GET", "/assets/%2e%2e%2fHTTP-TOKEN", with_token, 404, "JC1316"),
            ("no session, an unknown address", "GET", "/nothing", {}, 401, "JC1313"),
            ("a wrong token", "GET", read, {"Authorization": f"Bearer {'0' * 64}"}, 401, "JC1313"),
            ("a forged cookie", "GET", read, {"Cookie": cookie[:-1] + ("0" if cookie[-1] != "0" else "1")}, 401, "JC1313"),
            ("the scraper's token for a call", "GET", read, {"Authorization": f"Bearer {self.metrics_token}"}, 401, "JC1313"),
            ("the scraper's token for metrics", "GET", "/metrics", {"Authorization": f"Bearer {self.metrics_token}"}, 200, None),
            ("the token in the address", "GET", f"{read}?token={self.token}", {}, 401, "JC1313"),
            ("the token", "GET", read, with_token, 200, None),
            ("a cookie", "GET", read, with_cookie, 200, None),
            ("a foreign Host", "GET", read, {"Host": "evil.example", **with_token}, 421, "JC1314"),
            ("a name that begins like ours", "GET", read, {"Host": f"127.0.0.1.evil.example:{port}", **with_token}, 421, "JC1314"),
            ("a foreign Host, no session needed", "GET", "/healthz", {"Host": "evil.example"}, 421, "JC1314"),
            ("another name of loopback", "GET", read, {"Host": "localhost:8080", **with_token}, 200, None),
            ("a foreign Origin", "POST", read, {"Origin": "http://evil.example", **with_token}, 403, "JC1314"),
            ("another port's Origin", "POST", read, {"Origin": "http://127.0.0.1:1", **with_cookie}, 403, "JC1314"),
            ("Origin null", "POST", read, {"Origin": "null", **with_cookie}, 403, "JC1314"),
            ("a cookie without an Origin", "POST", read, with_cookie, 403, "JC1314"),
            ("another site by Sec-Fetch-Site", "POST", read, {"Sec-Fetch-Site": "cross-site", **with_token}, 403, "JC1314"),
            ("our own Origin", "POST", read, {"Origin": own, "Content-Type": "application/json", **with_cookie}, 200, None),
            ("a form", "POST", read, {"Origin": own, "Content-Type": "text/plain", **with_cookie}, 415, "JC1316"),
            ("a write with GET", "GET", write, with_token, 405, "JC1316"),
            ("a write by its own page", "POST", write, {"Origin": own, "Content-Type": "application/json", **with_cookie}, 200, None),
            ("CORS preflight", "OPTIONS", read, {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST",
                                                 **with_token}, 403, "JC1314"),
            ("TRACE", "TRACE", "/", with_token, 405, "JC1316"),
            ("a whole URL as target", "GET", f"http://evil.example{read}", with_token, 400, "JC1316"),
            ("healthz", "GET", "/healthz", {}, 200, None),
            ("readyz", "GET", "/readyz", {}, 200, None),
        ]
        print(f"\n{'what is sent':40} {'request':52} gets")
        for what, method, target, headers, status, code in checks:
            with self.subTest(what):
                answer = self.ask(method, target, headers, "" if method == "POST" else None)
                target = target.replace(self.token, "TOKEN")
                print(f"{what:40} {method + ' ' + target:52} {answer.status} {code or ''}".rstrip())
                self.assertEqual(answer.status, status, answer.body)
                if code is not None:
                    self.assertEqual(answer.error["code"], code)
                    self.assertTrue(answer.error["what"] and answer.error["fix"], answer.body)
                self.assertIn("default-src 'self'", answer.headers["Content-Security-Policy"])
                self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
                self.assertEqual(answer.headers["Referrer-Policy"], "no-referrer")
                self.assertEqual([name for name in answer.headers if name.lower().startswith("access-control")], [])
                self.assertNotIn(self.token, answer.body)

    def test_the_secrets_are_their_owners_alone(self):
        self.shared(workers=())
        for name in ("HTTP-TOKEN", "HTTP-METRICS-TOKEN"):
            mode = stat.S_IMODE(os.stat(os.path.join(self.data, name)).st_mode)
            self.assertEqual(mode, 0o600, name)
        self.assertNotEqual(self.token, self.metrics_token)
        self.assertRegex(self.token, r"^[0-9a-f]{64}$")

    def test_a_token_that_others_may_read_is_not_used(self):
        cluster = self.shared(workers=())
        cluster.coordinator.stop()
        os.chmod(os.path.join(self.data, "HTTP-TOKEN"), 0o644)
        self.assertEqual(cluster.coordinator.start(expect_exit=True), 1)
        self.assertIn("may be read by others", cluster.coordinator.output())

    def test_sessions_and_the_address_survive_a_coordinator_that_is_killed(self):
        cluster = self.shared(workers=())
        cookie, _ = self.sign_in(cluster)
        token, address = self.token, self.address
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.look_at(cluster, self.data)
        self.assertEqual((self.token, self.address), (token, address))
        self.assertEqual(self.ask("GET", "/api/v1/ListJobs", {"Cookie": cookie}).status, 200)

    def test_a_socket_is_served_too(self):
        path = self.path("h.sock")
        cluster = self.cluster(workers=(), coordinator_args=("--http", f"unix:{path}"))
        self.look_at(cluster, os.path.join(cluster.directory, "data"))
        self.assertEqual(self.address, f"unix:{path}")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(self.ask("GET", "/api/v1/GetServer").status, 401)
        self.assertEqual(self.get("/api/v1/GetServer").json["httpAddress"], self.address)
        self.assert_error(cluster.jobctl("ui", check=False), "JC1317", "--http 127.0.0.1:7701")
        cluster.coordinator.stop()
        self.assertFalse(os.path.exists(path))

    def test_without_the_flag_there_is_no_http(self):
        cluster = self.cluster(workers=())
        self.assertEqual(cluster.api.server().http_address, "")
        self.assert_error(cluster.jobctl("ui", check=False), "JC1317", "does not serve HTTP")


class Page(HttpCase):
    def test_every_address_gets_the_document_and_its_files_may_be_kept(self):
        self.shared(workers=())
        document = self.get("/")
        for address in ("/queue", "/nodes", "/compare?jobs=a,b", "/jobs/%3Cscript%3E"):
            self.assertEqual(self.get(address).body, document.body, address)
        self.assertEqual(document.headers["Cache-Control"], "no-store")
        names = re.findall(r'(?:src|href)="(/assets/[^"]+)"', document.body)
        self.assertTrue(any(name.endswith("/app.js") for name in names), document.body)
        for name in names:
            plain, small = self.get(name), self.get_bytes(name, {"Accept-Encoding": "br, gzip;q=0.5"})
            self.assertEqual((plain.status, small.status), (200, 200), name)
            self.assertEqual(gzip.decompress(small.body).decode(), plain.body, name)
            self.assertIn("immutable", plain.headers["Cache-Control"])
            self.assertEqual(small.headers["Vary"], "Accept-Encoding")
        refused = self.get_bytes(names[0], {"Accept-Encoding": "gzip;q=0"})
        self.assertIsNone(refused.headers["Content-Encoding"])
        older = self.get(re.sub(r"/assets/\w+/", "/assets/0000000000000000/", names[0]))
        self.assertEqual((older.status, older.error["fix"]), (404, "load the page again"))

    def test_the_page_weighs_120_kib_at_most(self):
        self.shared(workers=())
        document = self.get("/").body
        root = re.search(r"/assets/\w+/", document).group(0)
        weights = {name: len(self.get_bytes(root + name, {"Accept-Encoding": "gzip"}).body)
                   for name in harness.page_files()}
        weights["index.html"] = len(self.get_bytes("/", {"Accept-Encoding": "gzip"}).body)
        self.assertLessEqual(sum(weights.values()), 120 * 1024, sorted(weights.items(), key=lambda each: -each[1]))


class Private(HttpCase):
    def test_up_prints_the_address_and_ui_signs_in_to_a_job(self):
        private = self.up()
        self.assertIn(f" · {self.address} · 1 worker", private.up.stdout)
        self.assertRegex(self.address, r"^http://127\.0\.0\.1:\d+$")
        name = private.submit("--", "true")
        private.wait_over(name)
        cookie, path = self.sign_in(private, "@last")
        self.assertEqual(path, f"/jobs/{name}")
        page = self.ask("GET", path, {"Cookie": cookie})
        self.assertEqual((page.status, page.headers.get_content_type()), (200, "text/html"))
        private.jobctl("down")

    def test_ui_keeps_the_coordinator_running(self):
        private = self.private()
        private.jobctl("ui", "--no-open")
        self.assertTrue(private.api.server().stays)
        private.jobctl("down")

    def test_ui_opens_a_browser_without_showing_the_link_to_other_users(self):
        private = self.up()
        told, program = self.path("told"), self.path("bin/xdg-open")
        os.makedirs(os.path.dirname(program))
        with open(program, "w") as file:
            # Arguments are for all to see, so the link is in a file.
            file.write(f'#!/bin/sh\n(echo "$*"; stat -c %a "$1"; cat "$1") > {told}.new && mv {told}.new {told}\n')
        os.chmod(program, 0o755)
        path = os.path.dirname(program) + ":" + self.env["PATH"]
        for display in ("DISPLAY", "WAYLAND_DISPLAY"):
            link = private.jobctl("ui", env={display: ":7", "PATH": path, "TMPDIR": self.directory}).stdout.strip()
            wait_until(lambda: os.path.exists(told), "the browser was started")
            with open(told) as file:
                argument, mode, page = file.read().split("\n", 2)
            self.assertEqual((os.path.dirname(argument), mode), (self.directory, "600"))
            self.assertIn(f'url={link}"', page)
            os.remove(told)
        private.jobctl("ui", env={"PATH": path, "DISPLAY": "", "WAYLAND_DISPLAY": ""})
        self.assertFalse(os.path.exists(told), "no display, no browser")
        private.jobctl("down")

    def test_writes_belong_to_the_user_as_over_the_socket(self):
        private = self.up()
        spec = {"command": ["/bin/sh", "-c", "echo over http"], "workdir": self.directory,
                "shape": {"processes": 1, "device": {"kind": "cpu"}}}
        answer = self.post("Submit", {"spec": spec, "idempotencyKey": "k"})
        self.assertEqual(answer.status, 200, answer.body)
        again = self.post("Submit", {"spec": spec, "idempotencyKey": "k"}).json
        self.assertEqual((again["job"], again["existed"]), (answer.json["job"], True))
        record = private.wait_over(answer.json["job"])
        self.assertEqual((record.state, record.owner), (harness.SUCCEEDED, f"uid:{os.getuid()}"))
        self.assertEqual(self.get("/api/v1/GetJob?job=@last").json["record"]["id"], answer.json["job"])
        removed = self.post("RemoveJobs", {"jobs": [answer.json["job"]]})
        self.assertEqual((removed.status, removed.json["results"][0]["job"]), (200, answer.json["job"]))
        private.jobctl("down")


class Calls(HttpCase):
    def test_reads_are_the_same_as_over_grpc(self):
        cluster = self.shared()
        job = cluster.submit("--", "sh", "-c", "echo one; echo two")
        record = cluster.wait_over(job)
        answer = self.get(f"/api/v1/GetJob?job={record.id}").json
        self.assertEqual((answer["record"]["name"], answer["record"]["state"]), (job, "JOB_STATE_SUCCEEDED"))
        self.assertEqual(self.post("GetJob", {"job": job}).json["record"]["id"], str(record.id))
        self.assertEqual([each["name"] for each in self.get("/api/v1/ListJobs?limit=5").json["jobs"]], [job])
        self.assertEqual(self.get("/api/v1/ListNodes").json["nodes"][0]["record"]["facts"]["name"], "node1")

        def output():
            logs = self.get(f"/api/v1/StreamLogs?job={job}&attempt=-1").json
            text = b"".join(base64.b64decode(each.get("data", "")) for each in logs["messages"])
            return text == b"one\ntwo\n" and not logs["more"]
        wait_until(output, "the output is there")

    def test_reading_metrics_keeps_no_thread(self):
        cluster = self.shared()
        job = cluster.submit("--", "true")
        cluster.wait_over(job)
        for _ in range(5):  # more often than there are threads that read
            answer = self.get(f"/api/v1/QueryMetrics?job={job}&attempt=0&rank=-1").json
            self.assertEqual((answer["messages"], answer["more"]), ([], False))
        self.assertEqual(self.get(f"/api/v1/SummarizeMetrics?job={job}").status, 200)

    def test_errors_are_the_same_as_over_grpc(self):
        self.shared(workers=())
        answer = self.get("/api/v1/GetJob?job=nobody")
        self.assertEqual((answer.status, answer.error["code"], answer.error["grpcStatus"]), (404, "JC1201", "NOT_FOUND"))
        self.assertIn("nobody", answer.error["what"])
        for what, answer, words in (
                ("an unknown call", self.get("/api/v1/GetJbo"), "GetJob"),
                ("an unknown parameter", self.get("/api/v1/GetJob?jbo=1"), "did you mean job?"),
                ("a body that is not JSON", self.post("GetJob", "{", {"Content-Type": "application/json"}), "openapi"),
                ("an unknown field", self.post("GetJob", {"jbo": 1}), "openapi"),
                ("a deep body", self.post("GetJob", "[" * 1000, {"Content-Type": "application/json"}), "openapi")):
            with self.subTest(what):
                self.assertIn(answer.status, (400, 404))
                self.assertEqual(answer.error["code"], "JC1316")
                self.assertIn(words, answer.error["fix"])

    def test_the_openapi_document_names_the_calls_that_are_served(self):
        self.shared(workers=())
        document = self.get("/api/v1/openapi.json").json
        self.assertIn("get", document["paths"]["/api/v1/ListJobs"])
        self.assertEqual(["post"], list(document["paths"]["/api/v1/CancelJobs"]))


class Events(HttpCase):
    def stream(self, target="/events", **headers):
        """Yields (event, id, data) of an event stream."""
        host, port = self.address[len("http://"):].split(":")
        client = socket.create_connection((host, int(port)), timeout=harness.DEADLINE_S)
        self.addCleanup(client.close)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {self.token}\r\n{lines}\r\n"
                       .encode())
        reader = client.makefile("r", newline="\n")
        self.assertIn(" 200 ", reader.readline())
        while reader.readline().strip():
            pass
        fields = {}
        until = time.monotonic() + harness.DEADLINE_S
        for line in reader:
            self.assertLess(time.monotonic(), until, "the stream has only heartbeats")
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "event" in fields:
                yield fields["event"], int(fields.get("id", 0)), json.loads(fields["data"])
                fields = {}

    def until(self, stream, text):
        """The number of the first event that has the text; what came before it."""
        seen = []
        for event, number, data in stream:
            seen.append((event, data))
            if any(text in each for each in data.get("texts", ())):
                return number, seen
        raise AssertionError(f"the stream ended before {text!r}: {seen}")

    def test_a_page_follows_a_job_and_goes_on_after_the_coordinator_is_killed(self):
        cluster = self.shared()
        first = cluster.submit("--name", "first", "--", "true")
        stream = self.stream()
        self.assertEqual(next(stream)[0], "resync")
        cluster.wait_over(first)
        job = cluster.submit("--name", "second", "--", "sh", "-c", "sleep 0.2")
        number, seen = self.until(stream, "SUCCEEDED")
        self.assertNotIn("resync", [event for event, _ in seen])
        cluster.wait_over(job)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.look_at(cluster, self.data)
        after = self.stream(**{"Last-Event-ID": number})
        cluster.submit("--name", "third", "--", "true")
        _, seen = self.until(after, "SUCCEEDED")
        self.assertNotIn("resync", [event for event, _ in seen])
        # From somewhere else: read everything again.
        self.assertEqual(next(self.stream(**{"Last-Event-ID": 1 << 60}))[0], "resync")

    def test_a_page_of_one_job_is_told_of_its_metrics_and_logs_alone(self):
        cluster = self.shared(devices="cpu:4")
        go = self.path("go")
        waits = f"while [ ! -e {go} ]; do sleep 0.02; done; "
        _, *losses = python_line("losses.py", "8")
        job = cluster.submit("--", "sh", "-c", waits + f"echo here; exec {shlex.join(losses)}")
        number = cluster.api.record(job).id
        stream = self.stream(f"/events?job={job}")
        self.assertEqual(next(stream)[0], "resync")
        cluster.wait_over(cluster.submit("--", *losses))
        with open(go, "w"):
            pass
        told = set()
        for event, _, data in stream:
            if event in ("metrics", "logs"):
                told.add(event)
                self.assertEqual(data, {"job": str(number)})
            if told == {"metrics", "logs"}:
                break
        cluster.wait_over(job)
        self.assertEqual(self.get("/events?job=nobody").error["code"], "JC1201")
        curve = self.get(f"/api/v1/QueryCurves?job={job}&names=loss&buckets=4").json["curves"][0]
        self.assertEqual((curve["points"], curve["stepsPerBucket"], curve["steps"]), ("8", "4", ["3", "7", "8"]))
        self.assertEqual((curve["last"][2], curve["min"][0], curve["max"][0]), (1 / 8, 1 / 3, 1))


class Limits(HttpCase):
    def test_oversized_heads_and_bodies_are_refused(self):
        self.shared(workers=())
        answer = self.get("/api/v1/ListJobs", {"X-Long": "x" * 20_000})
        self.assertEqual((answer.status, answer.error["code"]), (431, "JC1316"))
        # The client is still sending when it is refused.
        answer = self.post("ListJobs", "x" * (3 << 20), {"Content-Type": "application/json"})
        self.assertEqual((answer.status, answer.error["code"]), (413, "JC1316"))
        self.assertEqual(self.get("/api/v1/ListJobs").status, 200)

    def test_five_hundred_silent_connections_keep_nobody_out(self):
        cluster = self.shared(workers=())
        threads = f"/proc/{cluster.coordinator.pid}/task"
        before = len(os.listdir(threads))
        host, port = self.address[len("http://"):].split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(500)]
        try:
            for number, each in enumerate(silent):
                if number % 2:
                    each.sendall(b"GET /api")
            self.assertEqual(self.get("/api/v1/ListJobs").status, 200)
            # gRPC's own threads come and go.
            self.assertLess(len(os.listdir(threads)), before + 10, "no thread waits for each of them")
            cluster.jobctl("ls")
        finally:
            for each in silent:
                each.close()

    def test_calls_that_wait_are_bounded_and_health_is_not_among_them(self):
        need(resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 1024, "needs 1024 descriptors")
        self.shared(workers=())
        cookie = self.cookie_of("peer:127.0.0.2")
        host, port = self.address[len("http://"):].split(":")
        waiting = []

        def wait():
            waiting.append(socket.create_connection((host, int(port))))
            waiting[-1].sendall(f"GET /api/v1/ListEvents?follow=true HTTP/1.1\r\nHost: {host}\r\n"
                                f"Authorization: Bearer {self.token}\r\n\r\n".encode())

        def one_more():
            # A question that is answered may have taken the place of a call that was to wait.
            wait()
            return self.get("/api/v1/ListJobs")
        try:
            for _ in range(64):
                wait()
            refused = self.once(one_more, 429)
            self.assertEqual((refused.error["code"], refused.headers["Retry-After"]), ("JC1308", "1"))
            self.assertRegex(refused.error["what"], r"^uid:\d+ has its share of the 64 calls .* at most 32")
            self.assertIn("ask again in a moment", refused.error["fix"])
            self.assertEqual(self.get("/metrics").status, 429)
            self.assertEqual(self.ask("GET", "/readyz").status, 200)
            # Another caller has its own.
            self.assertEqual(self.ask("GET", "/api/v1/ListJobs", {"Cookie": cookie}).status, 200)
            self.assertEqual(self.ask("GET", "/metrics", token=self.metrics_token).status, 200)
        finally:
            for each in waiting:
                each.close()

    def send_from(self, source, head, body=b""):
        """The socket, of another address of loopback, and the status of what comes first; 0: the server closed it."""
        host, port = self.address[len("http://"):].split(":")
        client = socket.create_connection((host, int(port)), timeout=harness.DEADLINE_S, source_address=(source, 0))
        self.addCleanup(client.close)
        try:
            client.sendall(f"{head}\r\nHost: {host}\r\n\r\n".encode() + body)
            return client, int((client.recv(4096) if not body else b"HTTP/1.1 0  ")[9:12] or 0)
        except ConnectionError:
            return client, 0

    def test_one_who_takes_all_it_can_get_leaves_others_a_page_events_and_calls(self):
        self.shared(workers=(), prefix=limited(256))
        cookie = self.cookie_of("peer:127.0.0.2")
        greedy, other = f"Authorization: Bearer {self.token}", f"Cookie: {cookie}\r\nSec-Fetch-Site: same-origin"
        follow, most = "GET /events HTTP/1.1\r\n", 13
        opened = [self.send_from("127.0.0.3", follow + greedy) for _ in range(most + 3)]
        self.assertEqual([status for _, status in opened], [200] * most + [429] * 3)
        stream, status = self.send_from("127.0.0.2", follow + other)
        self.assertEqual(status, 200)
        self.assertEqual(self.send_from("127.0.0.3", follow + greedy)[1], 429)
        # Bodies that never come: none of these connections idles. For others its oldest end, which are streams.
        for _ in range(30):
            opened.append(self.send_from("127.0.0.3", f"POST /sign-in HTTP/1.1\r\n{greedy}\r\nContent-Length: 9\r\n"
                                                      "Content-Type: application/x-www-form-urlencoded", b"t"))
        for target in ("/", "/api/v1/ListJobs"):
            self.assertEqual(self.send_from("127.0.0.2", f"GET {target} HTTP/1.1\r\n{other}")[1], 200, target)
        self.submit_from("127.0.0.2", cookie)
        seen = b""
        while b"event: " not in seen:  # the first one tells to read everything
            seen += stream.recv(4096) or self.fail(f"the stream has ended: {seen}")

    def submit_from(self, source, cookie):
        host, port = self.address[len("http://"):].split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=harness.DEADLINE_S, source_address=(source, 0))
        self.addCleanup(connection.close)
        connection.request("POST", "/api/v1/Submit", json.dumps({"spec": {"command": ["true"], "shape": {"processes": 1, "device": {"kind": "cpu"}}}, "queueAnyway": True}), {
            "Cookie": cookie, "Origin": self.address, "Content-Type": "application/json"})
        answer = Answer(connection.getresponse())
        self.assertEqual(answer.status, 200, answer.body)

    def test_many_clients_at_once_are_all_answered(self):
        self.shared(workers=())
        statuses = []

        def client():
            connection = http.client.HTTPConnection(self.address[len("http://"):], timeout=harness.DEADLINE_S)
            for _ in range(25):
                connection.request("GET", "/api/v1/ListJobs", headers={"Authorization": f"Bearer {self.token}"})
                response = connection.getresponse()
                response.read()
                statuses.append(response.status)
            connection.close()
        clients = [threading.Thread(target=client) for _ in range(20)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        self.assertEqual(statuses, [200] * 500)


class FullDisk(HttpCase):
    def test_a_full_disk_is_not_ready_but_alive_and_scraped(self):
        need(os.geteuid() == 0, "needs root to mount a tmpfs")
        home = self.path("d")
        os.makedirs(home)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", home], capture_output=True)
        need(done.returncode == 0, "cannot mount a tmpfs here")
        self.addCleanup(subprocess.run, ["umount", "-l", home], capture_output=True)
        private = self.up()
        self.assertEqual(self.ask("GET", "/readyz").status, 200)
        os.remove(os.path.join(self.data, "HEADROOM"))  # as if the reserve had been used up

        def filled():
            with open(home + "/filler", "wb") as file:
                disk = os.statvfs(home)
                try:
                    os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize)
                    return True
                except OSError:
                    return False  # a daemon has written in the meantime
        wait_until(filled, "the disk is full")
        # What cannot be recorded waits for room.
        private.start_jobctl("nodes", "drain", os.uname().nodename, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertIn("full", self.once(lambda: self.ask("GET", "/readyz"), 503, "JC1605").error["what"])
        self.assertEqual(self.ask("GET", "/healthz").status, 200)
        self.assertEqual(self.get("/metrics").status, 200)
        os.remove(home + "/filler")
        self.once(lambda: self.ask("GET", "/readyz"), 200)


class Metrics(HttpCase):
    def page(self, accept="text/plain"):
        answer = self.ask("GET", "/metrics", {"Accept": accept}, token=self.metrics_token)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def test_jobs_nodes_devices_and_calls_are_counted(self):
        cluster = self.shared()
        job = cluster.submit("-n", "2", "--", "sh", "-c", "sleep 60")
        cluster.submit("-n", "2", "--", "true")
        cluster.wait_for(job, harness.RUNNING)
        self.get("/api/v1/ListJobs")
        text = self.page().body
        for line in ('muster_jobs{state="running"} 1', 'muster_jobs{state="queued"} 1', "muster_queue_jobs 1",
                     'muster_nodes{state="alive"} 1', 'muster_devices{kind="cpu"} 2', 'muster_devices_used{kind="cpu"} 2',
                     f'muster_job_ranks{{job="{job}"}} 2', "muster_job_series_left_out 0",
                     'muster_calls_total{call="ListJobs",way="http"} 1', 'muster_calls_total{call="Submit",way="grpc"} 2',
                     'muster_http_responses_total{status="200"} 1', "muster_nodes_connected 1"):
            self.assertIn(line + "\n", text)
        cluster.jobctl("cancel", "--grace", "1s", job)

    def test_a_scraper_that_asks_for_openmetrics_gets_it(self):
        self.shared(workers=())
        answer = self.page("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
        self.assertEqual(answer.headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(answer.body.endswith("# EOF\n"))
        self.assertIn("# TYPE muster_calls counter\n", answer.body)
        # Every family once, all its samples together.
        families = re.findall(r"^# TYPE (\S+)", answer.body, re.M)
        self.assertEqual(len(families), len(set(families)))

    def test_promtool_finds_nothing(self):
        need(shutil.which("promtool"), "needs promtool")
        cluster = self.shared()
        cluster.wait_for(cluster.submit("--", "sh", "-c", "sleep 60"), harness.RUNNING)
        done = subprocess.run(["promtool", "check", "metrics"], input=self.page().body, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_a_real_prometheus_scrapes_with_the_scrapers_token(self):
        need(shutil.which("prometheus"), "needs prometheus")
        self.shared(workers=())
        config = self.path("prometheus.yml")
        with open(config, "w") as file:
            json.dump({"global": {"scrape_interval": "1s"},
                       "scrape_configs": [{
                           "job_name": "muster",
                           "authorization": {"credentials_file": os.path.join(self.data, "HTTP-METRICS-TOKEN")},
                           "static_configs": [{"targets": [self.address[len("http://"):]]}]}]}, file)
        port = free_port()
        scraper = harness.Daemon(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.path('tsdb')}",
                                  f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"], self.env,
                                 self.path("prometheus.out"))
        self.daemons.append(scraper)
        scraper.start()

        def targets():
            self.assertTrue(scraper.alive(), scraper.output())
            try:
                answer = ask(f"http://127.0.0.1:{port}", "GET", "/api/v1/targets")
                found = answer.json["data"]["activeTargets"]
            except (OSError, ValueError):
                return None  # not up yet
            return found if found and found[0]["health"] != "unknown" else None
        found = wait_until(targets, "prometheus has scraped")
        self.assertEqual((found[0]["health"], found[0]["lastError"]), ("up", ""))


if __name__ == "__main__":
    harness.main()
