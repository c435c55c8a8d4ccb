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
    """`jobctl login --oidc` on another machine, while it waits for the person."""

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


class ProviderCase(EnrollCase):
    def at(self, provider, *args):
        if not provider.is_public:
            secret = self.path("client-secret")
            with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(provider.SECRET + "\n")
            args = ("--oidc-client-secret-file", secret, *args)
        cluster = self.secured("--oidc-issuer", provider.issuer, "--oidc-client-id", provider.CLIENT, *args)
        self.pin = re.search(r"Authority +(SHA256:[0-9a-f]{64})", self.person(cluster, "ops").jobctl("whoami").stdout).group(1)
        return cluster


class SigningInAtAProvider(ProviderCase):
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
        for answer, end in ((b"n\n", b"no one was signed in"), (b"y\n", b"alice is signed in")):
            terminal = Terminal(self, cluster, "login", self.address, "--oidc")
            terminal.wait_for(b"has the authority " + self.pin.encode())
            terminal.wait_for(b"Trust it? [y/N] ")
            terminal.type(answer)
            if answer == b"y\n":
                terminal.wait_for(b"or open ")
                provider.decide(next(iter(provider.credentials.values()))["user_code"], "alice")
            terminal.wait_for(end)


class SigningInFromABrowser(ProviderCase):
    """What the browser's requests get; the page itself: tests/page/sign_in_test.py."""

    def begin(self, **headers):
        return self.ask("POST", "/sign-in/provider", {"Content-Type": "application/x-www-form-urlencoded",
                                                      "Origin": f"https://{self.address}", **headers}, "next=%2Fnodes")

    def cookies(self, answer):
        return dict(each.split(";")[0].split("=", 1) for each in answer.headers.get_all("Set-Cookie") or [])

    def begun(self):
        """The cookie of a sign-in, and the code that its page shows."""
        answer = self.begin()
        self.assertEqual((answer.status, answer.headers["Location"]), (303, "/sign-in/provider?next=%2Fnodes"))
        self.assertRegex(answer.headers["Set-Cookie"], r"^__Host-muster_\d+_provider=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict; Secure;")
        cookie = answer.headers["Set-Cookie"].split(";")[0]
        page = self.look(cookie)
        self.assertEqual((page.status, page.headers["Refresh"]), (200, "1; url=/sign-in/provider?next=%2Fnodes"))
        self.assertIn("Do not confirm a code that another person sent you", page.text)
        return cookie, re.search(r"user_code=([^\"]+)\"", page.text).group(1)

    def look(self, cookie):
        return self.ask("GET", "/sign-in/provider?next=%2Fnodes", {"Cookie": cookie})

    def looked(self, cookie):
        """What ends the sign-in."""
        found = []

        def has_ended():
            found.append(self.look(cookie))
            return found[-1].status != 200 or "Set-Cookie" in found[-1].headers
        wait_until(has_ended, "the sign-in ends")
        return found[-1]

    def test_a_sign_in_is_of_the_browser_that_began_it_alone(self):
        provider = Provider(self).start()
        cluster = self.at(provider)
        cluster.jobctl("user", "set", "alice", "--role", "user", "--oidc", f"{provider.issuer} alice")
        self.assertEqual(self.begin(Origin="https://evil.example").status, 403)
        self.assertEqual(self.begin(**{"Sec-Fetch-Site": "cross-site"}).status, 403)
        self.assertEqual(provider.credentials, {}, "nothing has begun")
        cookie, code = self.begun()
        provider.decide(code, "alice")
        # A link that a person follows brings no cookie: it leads to the form, and signs no one in.
        other = self.look("a=b")
        self.assertEqual((other.status, other.headers["Set-Cookie"]), (401, None))
        # Nor does the handle give a certificate.
        poll = {"handle": cookie.split("=")[1], "csrPem": self.request("thief")}
        self.assertEqual(self.post("/enroll/device/poll", poll), (403, "JC1364"))
        signed_in = self.looked(cookie)
        self.assertEqual((signed_in.status, signed_in.headers["Refresh"]), (200, "0; url=/nodes"))
        name = cookie.split("=")[0]
        cookies = self.cookies(signed_in)
        self.assertEqual(cookies.pop(name), "", "the browser forgets it")
        session = "; ".join("=".join(each) for each in cookies.items())
        who = self.ask("GET", "/api/v1/GetServer", {"Cookie": session})
        self.assertEqual(who.status, 200, who.text)
        self.assertIn("user/alice", cluster.jobctl("cert", "ls", "user/alice", "-o", "wide").stdout)
        self.assertEqual(self.looked(cookie).status, 401, "a sign-in gives one session")
        cluster.jobctl("user", "disable", "alice")
        self.assertEqual(self.ask("GET", "/api/v1/GetServer", {"Cookie": session}).status, 401)

    def request(self, name):
        path = self.path(name)
        subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                        path + ".key", "-subj", "/CN=x", "-out", path + ".csr"], check=True, capture_output=True)
        with open(path + ".csr") as file:
            return file.read()

    def test_what_ends_a_sign_in_is_told_above_the_form(self):
        provider = Provider(self, algorithm="ES256").start()
        cluster = self.at(provider)
        cluster.jobctl("user", "set", "bob", "--oidc", f"{provider.issuer} bob")
        cluster.jobctl("user", "disable", "bob")
        cases = (("denied", "it was denied", lambda code: provider.decide(code, "bob", approved=False)),
                 ("late", "not confirmed in time", provider.expire),
                 ("unknown", f"jobctl user set NAME --oidc &quot;{provider.issuer} eve&quot;", lambda code: provider.decide(code, "eve")),
                 ("disabled", "disabled", lambda code: provider.decide(code, "bob")),
                 ("of another issuer", "is refused", lambda code: provider.decide(code, "bob", iss="https://other.example")))
        begun = [self.begun() for _ in cases]
        for (cookie, code), (_, _, decide) in zip(begun, cases):
            decide(code)
        for (cookie, _), (name, words, _) in zip(begun, cases):
            with self.subTest(name):
                answer = self.looked(cookie)
                self.assertEqual((answer.status, self.cookies(answer)), (401, {cookie.split("=")[0]: ""}), answer.text)
                self.assertIn(words, answer.text)
                self.assertIn("Sign in with 127.0.0.1:", answer.text, "the form, to try again")

    def test_without_a_provider_there_is_no_button(self):
        self.secured()
        self.assertNotIn("/sign-in/provider", self.ask("GET", "/sign-in").text)
        answer = self.begin()
        self.assertEqual(answer.status, 401)
        self.assertIn("no identity provider", answer.text)


if __name__ == "__main__":
    harness.main()
