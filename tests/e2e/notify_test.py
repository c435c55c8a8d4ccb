"""What a job's `notify` tells of its end and its findings: at least once; webhooks signed and only where they may go,
commands on the job's node."""
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading

import harness
from harness import Case, need
from http_test import HttpCase


class Receiver:
    """An HTTP server on loopback. `answers`: the status of each request in turn, the last one for all others; None
    closes the connection without an answer."""

    def __init__(self, case, answers=(200,), tls=None):
        self.requests = []
        self.answers = answers
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver.answers[min(len(receiver.requests), len(receiver.answers) - 1)]
                receiver.requests.append((self.path, dict(self.headers), body))
                if answer is None:
                    return
                self.send_response(answer)
                if answer == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.server.handle_error = lambda *_: None
        self.port = self.server.server_address[1]
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()

        def stop():
            self.server.shutdown()
            self.server.server_close()
        case.addCleanup(stop)


class Notify(Case):
    def submit(self, cluster, command, *entries):
        with open(self.path("job.yaml"), "w") as file:
            file.write(json.dumps({"command": ["sh", "-c", command], "notify": list(entries)}))
        return cluster.submit(self.path("job.yaml"), "-e", "HOOK_SECRET=sesame", cwd=self.directory)

    def said(self, cluster, text):
        harness.wait_until(lambda: text in cluster.coordinator.output(),
                           lambda: f"the log has {text!r}: {cluster.coordinator.output()[-1500:]}")

    def happened(self, cluster, job, text):
        def events():
            return cluster.jobctl("events", job).stdout
        harness.wait_until(lambda: text in events(), lambda: f"an event {text!r}:\n{events()}")

    def test_a_command_runs_as_the_job_and_its_end_is_an_event(self):
        cluster = self.cluster()
        told = self.path("told")
        job = self.submit(cluster, "exit 3", {"command": (
            f'echo "$MUSTER_EVENT $MUSTER_JOB $MUSTER_NAME $MUSTER_STATE $HOOK_SECRET $PWD" >> {told};'
            f' echo "$MUSTER_MESSAGE" > {told}.json; echo mailed')},
            {"on": ["failure"], "command": ["sh", "-c", "echo no server >&2; exit 5"]}, {"command": ["no-such-mailer"]})
        self.happened(cluster, job, "notify[0] of the end: the command on node1 exited with 0; it printed: mailed")
        self.happened(cluster, job, "notify[1] of the end: the command on node1 failed: it exited with 5; it printed: "
                                    "no server")
        self.happened(cluster, job, "notify[2] of the end: the command on node1 failed:")
        self.assertIn("no-such-mailer", cluster.jobctl("events", job).stdout)
        with open(told) as file:
            line = f"end {job.rsplit('-', 1)[1]} {job} FAILED sesame {os.path.realpath(self.directory)}\n"
            self.assertEqual(file.read(), line)
        with open(told + ".json") as file:
            self.assertEqual(json.load(file)["exit_code"], 3)
        # What has ended is not run again by the next coordinator.
        harness.wait_until(lambda: len(self.waiting(cluster)) == 1, "nothing waits")
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        other = self.submit(cluster, "true", {"command": ["true"]})
        self.happened(cluster, other, "exited with 0")
        with open(told) as file:
            self.assertEqual(file.read(), line)

    def test_a_command_that_outlives_the_coordinator_runs_once(self):
        cluster = self.cluster()
        began, go = self.path("began"), self.path("go")
        job = self.submit(cluster, "true", {
            "command": f"echo $MUSTER_DELIVERY >> {began}; while [ ! -e {go} ]; do sleep 0.05; done; echo sent"})
        harness.wait_until(lambda: os.path.exists(began), "the command runs")
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.assertEqual(len(self.waiting(cluster)), 2)
        open(go, "w").close()
        self.happened(cluster, job, "the command on node1 exited with 0; it printed: sent")
        with open(began) as file:
            self.assertEqual(len(file.read().splitlines()), 1)

    def test_a_command_runs_on_another_node_of_the_job_when_the_first_is_gone(self):
        cluster = self.cluster(workers=("node1", "node2"), devices="cpu:1")
        with open(self.path("job.yaml"), "w") as file:
            file.write(json.dumps({"command": ["sleep", "600"], "resources": {"processes": 2},
                                   "notify": [{"command": ["true"]}]}))
        job = cluster.submit(self.path("job.yaml"), cwd=self.directory)
        first, second = (part.node for part in cluster.wait_for(job, harness.RUNNING).attempts[0].parts)
        cluster.workers[first].kill9()
        harness.wait_until(lambda: not cluster.nodes()[first].record.connected, "it is missed")
        cluster.jobctl("nodes", "declare-dead", first, "--yes", check=False)
        cluster.jobctl("cancel", job, check=False)
        self.happened(cluster, job, f"the command on {second} exited with 0")

    def test_a_private_coordinator_stays_until_the_command_has_run(self):
        told = self.path("told")
        with open(self.path("job.yaml"), "w") as file:
            file.write(json.dumps({"command": ["true"], "notify": [{"command": f"sleep 0.5; touch {told}"}]}))
        self.private().submit(self.path("job.yaml"), cwd=self.directory)
        harness.wait_until(lambda: os.path.exists(told), "the command has run")

    def test_a_command_that_has_no_node_to_run_on_is_an_event(self):
        cluster = self.cluster()
        with open(self.path("job.yaml"), "w") as file:
            file.write(json.dumps({"command": ["true"], "resources": {"processes": 100},
                                   "notify": [{"command": ["true"]}]}))
        job = cluster.submit(self.path("job.yaml"), "--queue-anyway", cwd=self.directory)
        cluster.jobctl("cancel", job)
        self.happened(cluster, job, "the command did not run: the job never had a node")

    def test_a_finding_is_told_once_also_after_a_restart(self):
        receiver = Receiver(self)
        cluster = self.cluster(coordinator_args=("--notify-allow", "127.0.0.1", "--findings-floor-ms", "1000"))
        told, go = self.path("told"), self.path("go")
        with open(self.path("job.yaml"), "w") as file:
            file.write(json.dumps({
                "command": harness.python_line("stepper.py", 12, "--nan-from", 8, "--until", go)[1:],
                "resources": {"processes": 2},
                "notify": [{"on": ["finding"], "webhook": f"http://127.0.0.1:{receiver.port}/"},
                           {"on": ["end", "finding"], "command": f'echo "$MUSTER_EVENT $MUSTER_FINDING" >> {told}'}]}))
        job = cluster.submit(self.path("job.yaml"), cwd=self.directory)
        self.happened(cluster, job, "notify[1] of finding loss-not-finite: the command on node1 exited with 0")
        harness.wait_until(lambda: receiver.requests, "the webhook's request")
        _, headers, body = receiver.requests[0]
        message = json.loads(body)
        self.assertEqual((message["event"], message["finding"], message["name"]), ("finding", "loss-not-finite", job))
        self.assertIn("loss has been NaN since step 8", message["reason"])
        self.assertTrue(headers["X-Muster-Delivery"].endswith("-0-loss-not-finite"), headers)
        self.happened(cluster, job, "finding loss-not-finite: loss has been NaN")
        harness.wait_until(lambda: len(self.waiting(cluster)) == 1, "nothing waits")
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        open(go, "w").close()
        self.happened(cluster, job, "notify[1] of the end: the command on node1 exited with 0")
        # Its last step waits, which is another finding.
        with open(told) as file:
            lines = file.read().splitlines()
        self.assertEqual((lines[0], lines[-1], len(set(lines))), ("finding loss-not-finite", "end ", len(lines)))
        codes = [json.loads(body)["finding"] for _, _, body in receiver.requests]
        self.assertEqual(sorted(set(codes)), sorted(codes))

    def test_a_receiver_that_fails_twice_gets_it_the_third_time(self):
        receiver = Receiver(self, (500, None, 204))
        cluster = self.cluster(coordinator_args=("--notify-allow", "127.0.0.0/8"))
        url = f"http://127.0.0.1:{receiver.port}/hook?a=b"
        job = self.submit(cluster, "exit 3", {"on": ["failure"], "webhook": url, "secret_env": "HOOK_SECRET"})
        harness.wait_until(lambda: len(receiver.requests) == 3, "three requests")
        bodies = {body for _, _, body in receiver.requests}
        self.assertEqual(len({headers["X-Muster-Delivery"] for _, headers, _ in receiver.requests}), 1)
        self.assertEqual(len(bodies), 1)
        path, headers, body = receiver.requests[2]
        self.assertEqual(path, "/hook?a=b")
        signature = hmac.new(b"sesame", body, hashlib.sha256).hexdigest()
        self.assertEqual(headers["X-Hub-Signature-256"], "sha256=" + signature)
        told = json.loads(body)
        self.assertEqual((told["name"], told["state"], told["exit_code"]), (job, "FAILED", 3))
        self.assertIn("exited with code 3", told["reason"])
        # Delivered is delivered: also for the next coordinator.
        harness.wait_until(lambda: len(self.waiting(cluster)) == 1, "nothing waits")
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        other = self.submit(cluster, "true", {"webhook": url})
        harness.wait_until(lambda: len(receiver.requests) == 4, "the next job's request")
        self.assertEqual(json.loads(receiver.requests[3][2])["name"], other)
        # A success is not reported as a failure.
        self.submit(cluster, "true", {"on": ["failure"], "webhook": url})
        last = self.submit(cluster, "true", {"webhook": url})
        harness.wait_until(lambda: len(receiver.requests) == 5, "the last job's request")
        self.assertEqual(json.loads(receiver.requests[4][2])["name"], last)
        # Anyone who has the path of a webhook can use it, so it is hidden.
        self.assertNotIn("hook?a=b", cluster.jobctl("show", job, "-o", "yaml").stdout)

    def waiting(self, cluster):
        with open(os.path.join(cluster.directory, "data", "NOTIFY")) as file:
            return file.read().splitlines()

    def test_a_killed_coordinator_tells_it_after_its_restart(self):
        receiver = Receiver(self, (503,))
        cluster = self.cluster(coordinator_args=("--notify-allow", "127.0.0.1"))
        self.submit(cluster, "true", {"webhook": f"http://127.0.0.1:{receiver.port}/"})
        harness.wait_until(lambda: receiver.requests, "the first request")
        cluster.coordinator.kill9()
        tried, receiver.answers = len(receiver.requests), (200,)
        cluster.restart_coordinator()
        harness.wait_until(lambda: len(receiver.requests) > tried, "the request after the restart")
        self.assertEqual(len({headers["X-Muster-Delivery"] for _, headers, _ in receiver.requests}), 1)
        harness.wait_until(lambda: len(self.waiting(cluster)) == 1, "nothing waits")

    def test_loopback_is_refused_and_a_redirect_is_not_followed(self):
        receiver = Receiver(self, (302,))
        closed = self.cluster(name="closed")
        url = f"http://127.0.0.1:{receiver.port}/"
        refused = self.submit(closed, "true", {"webhook": url}, {"webhook": f"http://localhost:{receiver.port}/"})
        self.said(closed, "which is not public")
        self.said(closed, "notify=1: the webhook is given up")
        self.assertEqual(receiver.requests, [])
        self.happened(closed, refused, f"the webhook to 127.0.0.1:{receiver.port} was given up: 127.0.0.1 is")
        harness.wait_until(lambda: len(self.waiting(closed)) == 1, "nothing waits")
        open_to_all = self.cluster(name="open", coordinator_args=("--notify-allow", "127.0.0.1"))
        self.submit(open_to_all, "true", {"webhook": url})
        self.said(open_to_all, "the webhook is given up: it answered 302")
        self.assertEqual([path for path, _, _ in receiver.requests], ["/"])

    def test_a_certificate_must_be_valid_for_the_host(self):
        need(shutil.which("openssl"), "needs openssl to make a certificate")
        certificate = self.path("cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hook",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate, "-out", certificate + ".crt"],
                       check=True, capture_output=True)
        with open(certificate, "a") as file, open(certificate + ".crt") as public:
            file.write(public.read())
        receiver = Receiver(self, tls=certificate)
        self.env["SSL_CERT_FILE"] = certificate + ".crt"
        cluster = self.cluster(coordinator_args=("--notify-allow", "127.0.0.1", "--notify-allow", "::1"))
        self.submit(cluster, "true", {"webhook": f"https://127.0.0.1:{receiver.port}/trusted"},
                    {"webhook": f"https://localhost:{receiver.port}/wrong-name"})
        harness.wait_until(lambda: receiver.requests, "the request")
        self.said(cluster, "the certificate of localhost is not valid")
        self.assertEqual([path for path, _, _ in receiver.requests], ["/trusted"])

    def test_what_makes_no_sense_is_refused_where_it_is_written(self):
        with open(self.path("job.yaml"), "w") as file:
            file.write("command: [x]\nnotify:\n  - command: {a: b}\n  - on: [start]\n    webhook: https://a/\n"
                       "  - webhook: file:///etc/passwd\n")
        done = self.private().jobctl("validate", self.path("job.yaml"), check=False)
        self.assert_error(done, "has 3 errors", "job.yaml:3:14: notify.command takes a list of words",
                          "job.yaml:4:10: notify.on takes end, failure, finding",
                          "it does not begin with https:// or http://", code=6)
        with open(self.path("job.yaml"), "w") as file:
            file.write("command: [x]\nnotify: [{webhook: \"https://a/\", secret_env: NOT_SET}]\n")
        done = self.private().jobctl("validate", self.path("job.yaml"), check=False)
        self.assert_error(done, "NOT_SET, which is not in the job's environment", code=6)


class Shares(HttpCase):
    def told(self, **options):
        cluster = self.cluster(coordinator_args=("--http", "127.0.0.1:0", "--notify-allow", "127.0.0.1"), **options)
        self.look_at(cluster, os.path.join(cluster.directory, "data"))
        return cluster

    def hooked(self, cookie, urls):
        """Submits a job of the session's user that is over at once and has these webhooks; its name."""
        spec = {"command": ["true"], "workdir": self.directory, "shape": {"processes": 1, "device": {"kind": "cpu"}},
                "notify": [{"webhook": url} for url in urls]}
        answer = self.ask("POST", "/api/v1/Submit", {"Cookie": cookie, "Origin": self.address},
                          {"spec": spec, "queueAnyway": True})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["job"]

    def test_what_was_missed_is_told_also_when_it_is_much(self):
        cluster = self.told(workers=())
        cookie, receiver = self.cookie_of("peer:127.0.0.2"), Receiver(self)
        cursor = os.path.join(self.data, "NOTIFY")
        harness.wait_until(lambda: os.path.exists(cursor), "it has begun")
        with open(cursor) as file:
            begun = file.read()
        last = [self.hooked(cookie, ()) for _ in range(300)]
        last.append(self.hooked(cookie, [f"http://127.0.0.1:{receiver.port}/"]))
        cluster.jobctl("cancel", last[-1])
        harness.wait_until(lambda: len(receiver.requests) == 1, "it is told")
        cluster.coordinator.kill9()
        # As if it had been killed before it looked at any of them.
        with open(cursor, "w") as file:
            file.write(begun)
        cluster.restart_coordinator()
        harness.wait_until(lambda: len(receiver.requests) == 2, "it is told again, from the events")
        self.assertEqual(receiver.requests[0], receiver.requests[1])

        def caught_up():
            with open(cursor) as file:
                return int(file.readline().split()[1]) > 300
        harness.wait_until(caught_up, "it has come to the end")

    def test_silent_receivers_of_one_owner_delay_nobody_elses(self):
        self.told()
        silent, called = [socket.create_server(("127.0.0.1", 0)) for _ in range(24)], []
        for each in silent:
            each.setblocking(False)
            self.addCleanup(each.close)

        def waiting():
            """Calls to these receivers that are still open; a call that was given up has closed its connection."""
            for each in silent:
                with contextlib.suppress(BlockingIOError):
                    called.append(each.accept()[0])
                    self.addCleanup(called[-1].close)
            count = 0
            for each in called:
                each.setblocking(False)
                try:
                    while each.recv(4096):
                        pass
                except BlockingIOError:
                    count += 1
            return count
        for at in range(0, 24, 8):
            self.hooked(self.cookie_of("peer:127.0.0.2"),
                        [f"http://127.0.0.1:{each.getsockname()[1]}/" for each in silent[at:at + 8]])
        harness.wait_until(lambda: waiting() == 2, "the first two are called")
        receiver = Receiver(self)
        self.hooked(self.cookie_of("peer:127.0.0.3"), [f"http://127.0.0.1:{receiver.port}/"])
        harness.wait_until(lambda: receiver.requests, "the other owner's receiver is called")
        self.assertLessEqual(waiting(), 2)


if __name__ == "__main__":
    harness.main()
