"""Signing in at an identity provider: a real one on loopback, the coordinator, and jobctl as people run it."""
import json
import os
import re
import socket
import stat
import subprocess
import threading

import harness
from enroll_test import EnrollCase
from harness import wait_until
from provider import Provider
from terminal import Terminal


class SignIn:
    """`jobctl login --oidc` of somebody on another machine, while it waits for the person."""

    def __init__(self, case, cluster, home, *args):
        self.case, self.home = case, case.path("home-" + home)
        os.makedirs(self.home, exist_ok=True)
        self.env = {"HOME": self.home, "XDG_CONFIG_HOME": self.home}
        self.process = cluster.start_jobctl("login", case.address, "--oidc", "--no-input", *args, env=self.env)

    def code(self):
        """The code that it prints, from a pipe: it must be there before jobctl ends."""
        lines = [self.process.stdout.readline().decode() for _ in range(3)]
        found = re.fullmatch(r"Open (\S+)/device\nand enter the code (\S+)\nor open \1/device\?user_code=\2\n", "".join(lines))
        self.case.assertTrue(found, (lines, self.process.poll() is not None and self.process.stderr.read()))
        return found.group(2)

    def jobctl(self, *args):
        return subprocess.run([harness.JOBCTL, *args], env={**self.case.env, **self.env}, capture_output=True, text=True, check=True,
                              timeout=60).stdout

    def end(self):
        out, err = self.process.communicate(timeout=harness.DEADLINE_S)
        return self.process.returncode, out.decode(), err.decode()


class SigningInAtAProvider(EnrollCase):
    def at(self, provider, *args):
        if not provider.is_public:
            secret = self.path("client-secret")
            with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(provider.SECRET + "\n")
            args = ("--oidc-client-secret-file", secret, *args)
        cluster = self.secured("--oidc-issuer", provider.issuer, "--oidc-client-id", provider.CLIENT, *args)
        self.pin = re.search(r"Authority +(SHA256:[0-9a-f]{64})", self.person(cluster, "ops").jobctl("whoami").stdout).group(1)
        return cluster

    def test_a_person_confirms_a_code_in_a_browser_and_is_signed_in(self):
        provider = Provider(self).start()
        cluster = self.at(provider)
        cluster.jobctl("user", "set", "alice", "--role", "user", "--oidc", f"{provider.issuer} 24.aef|1")
        first = SignIn(self, cluster, "alice", "--authority", self.pin)
        code = first.code()
        wait_until(lambda: len(provider.polls) >= 1, "the provider is asked")
        provider.decide(code, "24.aef|1")
        status, out, err = first.end()
        self.assertEqual(status, 0, err)
        self.assertIn("✓ alice is signed in to lab for 12h", out)
        times = [at for _, at in provider.polls]
        self.assertTrue(all(later - before > 0.95 for before, later in zip(times, times[1:])), times)
        credentials = os.path.join(first.home, "muster", "credentials", "lab")
        self.assertEqual(stat.S_IMODE(os.stat(credentials).st_mode), 0o600)
        self.assertRegex(first.jobctl("whoami"), r"Caller +user:alice\n")
        self.assertIn(f"oidc {provider.issuer}", cluster.jobctl("cert", "ls", "user/alice", "-o", "wide").stdout)
        self.assertRegex(cluster.jobctl("audit", "-o", "json").stdout, rf'"oidc:{re.escape(provider.issuer)} 24.aef\|1"')
        # The context knows the authority, and the keys have changed since.
        provider.key = provider.new_key("second")
        again = SignIn(self, cluster, "alice", "--yes")
        provider.decide(again.code(), "24.aef|1")
        self.assertEqual(again.end()[0], 0)
        self.assertEqual(provider.keys_asked, 2)

    def test_what_ends_a_sign_in(self):
        provider = Provider(self, algorithm="ES256").start()
        cluster = self.at(provider)
        cluster.jobctl("user", "set", "alice", "--oidc", f"{provider.issuer} alice")
        cluster.jobctl("user", "set", "bob", "--oidc", f"{provider.issuer} bob")
        cluster.jobctl("user", "disable", "bob")
        stranger = provider.new_key("first")
        cases = (("denied", "JC1364", "denied", lambda code: provider.decide(code, "alice", approved=False)),
                 ("late", "JC1364", "not confirmed in time", provider.expire),
                 ("unknown", "JC1366", f'jobctl user set NAME --oidc "{provider.issuer} eve"', lambda code: provider.decide(code, "eve")),
                 ("disabled", "JC1355", "disabled", lambda code: provider.decide(code, "bob")),
                 ("for another", "JC1365", "aud", lambda code: provider.decide(code, "alice", aud="another")),
                 ("of another issuer", "JC1365", "iss", lambda code: provider.decide(code, "alice", iss="https://other.example")),
                 ("forged", "JC1365", "signature", lambda code: provider.decide(code, "alice", key=stranger)),
                 ("hostile", "JC1365", "subject", lambda code: provider.decide(code, 'alice"; rm -rf ~')))
        sign_ins = [SignIn(self, cluster, name.replace(" ", "-"), "--authority", self.pin) for name, *_ in cases]
        for (_, _, _, decide), sign_in in zip(cases, sign_ins):
            decide(sign_in.code())
        for (name, code, word, _), sign_in in zip(cases, sign_ins):
            with self.subTest(name):
                status, out, err = sign_in.end()
                self.assertNotEqual(status, 0, out)
                self.assertIn(code, err)
                self.assertIn(word, err)
                self.assertFalse(os.path.exists(os.path.join(sign_in.home, "muster", "credentials")))
        wait_until(lambda: f"oidc:{provider.issuer} eve" in cluster.jobctl("audit", "-o", "json").stdout, "the refusal is in the audit")
        self.assertEqual(self.post("/enroll/device/poll", {"handle": "0" * 64, "csrPem": "x"}), (400, "JC1353"))

    def test_a_provider_that_is_down_is_named_and_asked_again_later(self):
        provider = Provider(self, is_public=True)
        provider.server.socket.close()
        cluster = self.at(provider)
        status, _, err = SignIn(self, cluster, "alice", "--authority", self.pin).end()
        self.assertNotEqual(status, 0)
        self.assertIn("JC1362", err)
        self.assertIn(provider.issuer, err)
        self.assertIn(f"the identity provider {provider.issuer} cannot be used", cluster.coordinator.output())

    def test_what_a_provider_may_not_answer(self):
        answers = {"moved": (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "HTTP status 302"),
                   "endless": (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 70_000, "more than 65536 bytes"),
                   "cut off": (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "not HTTP"),
                   "another protocol": (b"220 mail.example ESMTP\r\n\r\n", "not HTTP"),
                   "deep": (b"HTTP/1.1 200 OK\r\n\r\n" + b'{"a":' * 20 + b"1" + b"}" * 20, "nests deeper"),
                   "another issuer": (b'HTTP/1.1 200 OK\r\n\r\n{"issuer":"https://evil.example\\u001b[2J"}', "must match it exactly")}
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)

        def serve():
            for bytes_, _ in answers.values():
                client, _ = server.accept()
                with client:
                    client.recv(4096)
                    client.sendall(bytes_)
        threading.Thread(target=serve, daemon=True).start()
        self.secured("--oidc-issuer", "http://127.0.0.1:%d" % server.getsockname()[1], "--oidc-client-id", "muster")
        for name, (_, word) in answers.items():
            with self.subTest(name):
                answer = self.ask("POST", "/enroll/device", {}, {})
                error = json.loads(answer.text)["error"]
                self.assertEqual((answer.status, error["code"]), (503, "JC1362"))
                self.assertIn(word, error["why"])
                self.assertNotIn("\x1b", error["why"])

    def test_nobody_is_trusted_silently(self):
        provider = Provider(self, is_public=True).start()
        cluster = self.at(provider)
        cluster.jobctl("user", "set", "alice", "--oidc", f"{provider.issuer} alice")
        status, _, err = SignIn(self, cluster, "alice", "--yes").end()
        self.assertNotEqual(status, 0)
        self.assertIn("JC1367", err)
        status, _, err = SignIn(self, cluster, "alice", "--authority", "SHA256:" + "0" * 64).end()
        self.assertIn("JC1354", err)
        self.assertEqual(provider.credentials, {})
        cluster.env.update(HOME=self.path("home-alice"), XDG_CONFIG_HOME=self.path("home-alice"))
        for answer, end in ((b"n\n", b"nobody was signed in"), (b"y\n", b"alice is signed in")):
            terminal = Terminal(self, cluster, "login", self.address, "--oidc")
            terminal.wait_for(b"has the authority " + self.pin.encode())
            terminal.wait_for(b"Trust it? [y/N] ")
            terminal.type(answer)
            if answer == b"y\n":
                terminal.wait_for(b"or open ")
                provider.decide(next(iter(provider.credentials.values()))["user_code"], "alice")
            terminal.wait_for(end)


if __name__ == "__main__":
    harness.main()
