"""An etcd that asks for certificates and users, and what coordinators do with it: they replace each other, keep their
place when tokens are over and when a password or a user is changed, and name what is refused."""
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import harness
import heads
from harness import Case, need, wait_until

PREFIX = "/lab/"
TOKENS_S = 1
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


class Papers:
    """Two authorities and what the first one signed."""

    def __init__(self, case):
        need(shutil.which("openssl"), "needs openssl")
        self.case = case
        for name in ("ca", "theirs"):
            openssl("req", "-x509", *KEY, "-days", "1", "-subj", "/CN=" + name, "-keyout", self.key(name), "-out", self.pem(name))
        for name in ("server", "coordinator", "lab"):
            self.certify(name, "ca")
        self.certify("stranger", "theirs")

    def pem(self, name):
        return self.case.path(name + ".pem")

    def key(self, name):
        return self.case.path(name + ".key")

    def certify(self, name, authority):
        request, names = self.case.path(name + ".csr"), self.case.path(name + ".ext")
        openssl("req", "-new", *KEY, "-subj", "/CN=" + name, "-keyout", self.key(name), "-out", request)
        with open(names, "w") as file:
            file.write("subjectAltName=IP:127.0.0.1")
        openssl("x509", "-req", "-in", request, "-CA", self.pem(authority), "-CAkey", self.key(authority), "-CAcreateserial",
                "-days", "1", "-extfile", names, "-out", self.pem(name))


class GuardedEtcd(heads.Etcd):
    """One member that takes certificates of its authority, and users. The user lab may change /lab/, the user other nothing."""
    scheme = "etcds://"

    def __init__(self, case, papers, tokens=("--auth-token-ttl", str(TOKENS_S))):
        self.papers, self.tokens = papers, tokens
        super().__init__(case, count=1)
        need(self.speaks_tls_13(), "this etcd speaks no TLS 1.3")
        self.as_root = ()
        for line in ("user add root:of-root", "role add root", "user grant-role root root", "role add lab",
                     f"role grant-permission lab --prefix=true readwrite {PREFIX}", "user add lab:first", "user grant-role lab lab",
                     "user add other:first", "auth enable"):
            self.change(*line.split())
        self.as_root = ("--user", "root:of-root")

    def serving(self, client):
        return ["--listen-client-urls", f"https://{client}", "--advertise-client-urls", f"https://{client}", "--client-cert-auth",
                "--cert-file", self.papers.pem("server"), "--key-file", self.papers.key("server"), "--trusted-ca-file",
                self.papers.pem("ca"), *self.tokens]

    def speaks_tls_13(self):
        context = ssl.create_default_context(cafile=self.papers.pem("ca"))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        host, port = self.endpoints[0].split(":")
        try:
            with socket.create_connection((host, int(port)), timeout=harness.DEADLINE_S) as plain, \
                 context.wrap_socket(plain, server_hostname=host):
                return True
        except ssl.SSLError:
            return False

    def etcdctl(self, *args, **how):
        return super().etcdctl("--cacert", self.papers.pem("ca"), "--cert", self.papers.pem("coordinator"), "--key",
                               self.papers.key("coordinator"), *args, **how)

    def change(self, *args, stdin=None):
        done = self.etcdctl(*self.as_root, *args, stdin=stdin)
        self.case.assertEqual(done.returncode, 0, f"{args}: {done.stdout}{done.stderr}")

    def set_password(self, text):
        self.change("user", "passwd", "lab", "--interactive=false", stdin=text + "\n")


class Guarded(Case):
    def setUp(self):
        super().setUp()
        self.papers = Papers(self)
        self.password = self.path("password")
        self.write_password("first")

    def write_password(self, text):
        with open(self.password, "w") as file:
            file.write(text + "\n")

    def flags(self, ca="ca", certificate="coordinator", user="lab", password=None):
        chosen = ["--etcd-ca", self.papers.pem(ca)]
        if certificate:
            chosen += ["--etcd-cert", self.papers.pem(certificate), "--etcd-key", self.papers.key(certificate)]
        return chosen + (["--etcd-user", user, "--etcd-password-file", password or self.password] if user else [])


class Access(Guarded):
    def start(self, etcd):
        cluster = heads.Heads(self, etcd, count=2, args=self.flags()).start()
        for head in cluster.heads:
            wait_until(lambda: "registered" in head.output(), "both are registered")
        return cluster, cluster.wait_leader()[0]

    def keeps_its_place(self, cluster, leader):
        """For longer than a lease; then the other one, which followed all the time, leads with all jobs."""
        names, end = [], time.monotonic() + heads.LEASE_S + 1
        while time.monotonic() < end:
            names.append(cluster.submit("--queue-anyway", "--", "true"))
            time.sleep(0.5)
        self.assertNotIn("stepping down", cluster.heads[leader].output())
        cluster.heads[leader].kill9()
        cluster.wait_leader(other_than=leader)
        self.assertEqual(sorted(each.name for each in cluster.api.list()), sorted(names))

    def test_tokens_that_are_over_and_a_changed_password_disturb_nothing(self):
        etcd = GuardedEtcd(self, self.papers)
        cluster, leader = self.start(etcd)
        # A token that is used lives on.
        other = cluster.heads[1 - leader]
        os.kill(other.pid, signal.SIGSTOP)
        time.sleep(2 * TOKENS_S)
        os.kill(other.pid, signal.SIGCONT)
        self.write_password("second")
        etcd.set_password("second")
        self.keeps_its_place(cluster, leader)

    def test_signed_tokens_that_are_older_than_the_newest_user_disturb_nothing(self):
        private, public = self.path("tokens.key"), self.path("tokens.pub")
        openssl("genrsa", "-out", private, "2048")
        openssl("rsa", "-in", private, "-pubout", "-out", public)
        etcd = GuardedEtcd(self, self.papers, tokens=(
            "--auth-token", f"jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl=10m"))
        cluster, leader = self.start(etcd)
        etcd.change("user", "add", "another:word")
        self.keeps_its_place(cluster, leader)


class Refusals(Guarded):
    def setUp(self):
        super().setUp()
        self.etcd = GuardedEtcd(self, self.papers)
        self.started = 0

    def begin(self, *flags, address=None):
        self.started += 1
        name = f"x{self.started}"
        daemon = harness.Daemon(
            [os.path.join(harness.BIN, "muster-coordinator"), "--state", address or self.etcd.address(), "--head", name,
             "--data-dir", self.path(name), "--listen", "127.0.0.1:0", "--insecure-plaintext", *flags],
            dict(self.env), self.path(name + ".out"))
        self.daemons.append(daemon)
        return daemon.start()

    def told(self, daemon, *words):
        """In one line, at the latest when it ends."""
        def has_line():
            return any(all(word in line for word in words) for line in daemon.output().splitlines())
        wait_until(lambda: not daemon.alive() or has_line(), lambda: f"{words} in:\n{daemon.output()}")
        self.assertTrue(has_line(), f"{words} in:\n{daemon.output()}")

    def test_each_names_what_was_refused_and_what_to_do(self):
        wrong, keyless = self.path("wrong"), self.flags()
        with open(wrong, "w") as file:
            file.write("not it\n")
        keyless[keyless.index("--etcd-key") + 1] = self.papers.key("stranger")
        authority = ("certificate verify failed", "fix: ", "--etcd-ca")
        certificate = ("fix: ", "--etcd-cert", "--trusted-ca-file")
        # All at once: those that may pass are told only after seconds of trying.
        for daemon, words in [
                (self.begin(*self.flags(password=wrong)),
                 ("JC1631", "the password of the user lab", wrong, "etcdctl user passwd lab")),
                (self.begin(*self.flags(user="other")),
                 ("JC1631", "the user other", f"the keys {PREFIX}", "etcdctl role grant-permission")),
                (self.begin(*self.flags(), address=self.etcd.address("lab2")), ("JC1631", "the user lab", "the keys /lab2/")),
                (self.begin(*self.flags(user=None)), ("JC1631", "the user that --etcd-cert names", f"the keys {PREFIX}")),
                (self.begin(*self.flags(password=self.path("none"))), ("--etcd-password-file", self.path("none"))),
                (self.begin(*self.flags(ca="theirs")), authority),
                (self.begin(*self.flags(certificate=None)), certificate),
                (self.begin(*self.flags(certificate="stranger")), certificate),
                (self.begin(*keyless), ("fix: ", "--etcd-key")),
                (self.begin(address=self.etcd.address().replace("etcds:", "etcd:")), ("fix: ", "etcds://"))]:
            with self.subTest(words=words):
                self.told(daemon, *words)

    def test_the_name_in_the_certificate_is_a_user_where_no_other_is_named(self):
        daemon = self.begin(*self.flags(certificate="lab", user=None))
        self.told(daemon, "leading head=x1")


if __name__ == "__main__":
    harness.main()
