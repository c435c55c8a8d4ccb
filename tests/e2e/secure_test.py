"""What a stranger, another user and a revoked member get from a cluster on an open network: the port of gRPC, roles,
owners, revocation, floods. Prints what each got."""
import os
import resource
import socket
import ssl
import subprocess
import threading
import time

import harness
from enroll_test import COORDINATOR, EnrollCase
from harness import need, wait_until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
SETTINGS = 4  # the type of an HTTP/2 server's first frame


class SecureCase(EnrollCase):
    def endpoint_of(self, credentials):
        with open(credentials) as file:
            fields = dict(line.split(": ", 1) for line in file.read().split("-----BEGIN")[0].splitlines())
        host, port = fields["endpoint"].split(":")
        return host or "127.0.0.1", int(port)

    def member(self, cluster, name):
        """A node's credentials, and where gRPC is."""
        joined = self.join(self.token(cluster, "worker"), name)
        self.assertEqual(joined.returncode, 0, joined.stderr)
        path = os.path.join(joined.state, "credentials")
        return path, self.endpoint_of(path)

    def openssl(self, *args, text=None):
        return subprocess.run(["openssl", *args], input=text, text=True, capture_output=True, check=True).stdout

    def validity(self, is_over):
        """Up to 3.3 openssl takes a negative number of days, later ones two moments."""
        if not is_over:
            return ["-days", "1"]
        version = tuple(map(int, self.openssl("version").split()[1].split(".")[:2]))
        return ["-days", "-1"] if version < (3, 4) else ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]

    def certify(self, name, authority, uri, *, is_over=False, ca="FALSE"):
        """A key with a certificate that `authority` (a prefix of .pem and .key) has signed."""
        path = self.path(name)
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path + ".key")
        self.openssl("req", "-new", "-key", path + ".key", "-subj", "/CN=x", "-out", path + ".csr")
        with open(path + ".ext", "w") as file:
            file.write(f"basicConstraints=critical,CA:{ca}\nkeyUsage=critical,digitalSignature,keyCertSign\n"
                       f"subjectAltName=URI:{uri}\n")
        self.openssl("x509", "-req", "-in", path + ".csr", "-CA", authority + ".pem", "-CAkey", authority + ".key",
                     "-CAcreateserial", "-CAserial", path + ".srl", *self.validity(is_over), "-extfile", path + ".ext",
                     "-out", path + ".pem")
        return path

    def greets(self, where, prepare):
        """What comes of a connection that tries to speak HTTP/2: "served", or how it ended."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        prepare(context)
        try:
            with socket.create_connection(where, timeout=harness.DEADLINE_S) as plain, \
                 context.wrap_socket(plain) as secure:
                secure.sendall(PREFACE)
                head = secure.recv(9)
                return "served" if len(head) == 9 and head[3] == SETTINGS else "closed"
        except ssl.SSLError as error:
            return f"refused: {error.reason}"
        except OSError as error:
            return f"closed: {type(error).__name__}"


class Strangers(SecureCase):
    def test_what_the_port_of_grpc_says_to_whom(self):
        cluster = self.secured()
        member, where = self.member(cluster, "node1")
        keys = f"{self.data}-keys"
        ours = os.path.join(keys, "ca")
        theirs = self.path("theirs")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                     "-subj", "/O=lab/CN=Muster cluster authority", "-keyout", theirs + ".key", "-out", theirs + ".pem")
        leaf = self.certify("leaf", ours, "spiffe://lab/user/alice")
        by_leaf = self.certify("by-leaf", leaf, "spiffe://lab/user/root")
        foreign = self.certify("foreign", theirs, "spiffe://lab/user/root")
        expired = self.certify("expired", ours, "spiffe://lab/worker/node1", is_over=True)

        def with_files(path):
            return lambda context: context.load_cert_chain(path + ".pem", path + ".key")

        def old(context):
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(member)
        rows = [("a member", lambda context: context.load_cert_chain(member), True),
                ("a member, TLS 1.2", old, False),
                ("no certificate", lambda context: None, False),
                ("another authority of the same name", with_files(foreign), False),
                ("signed by a person's certificate", with_files(by_leaf), False),
                ("expired", with_files(expired), False)]
        print(f"\n{'who':40} gets")
        for who, prepare, is_served in rows:
            got = self.greets(where, prepare)
            print(f"{who:40} {got}")
            self.assertEqual(got == "served", is_served, f"{who}: {got}")
        for who, sent in (("plaintext HTTP/2", PREFACE), ("plaintext HTTP/1.1", b"GET / HTTP/1.1\r\n\r\n"),
                          ("TLS, then garbage", bytes.fromhex("1603010004") + os.urandom(64))):
            with socket.create_connection(where, timeout=harness.DEADLINE_S) as plain:
                plain.sendall(sent)
                answer = b"x"
                got = b""
                try:
                    while answer:
                        answer = plain.recv(4096)
                        got += answer
                except ConnectionResetError:
                    pass
                # At most an alert of TLS, never a frame.
                print(f"{who:40} closed after {len(got)} bytes")
                self.assertLess(len(got), 16, who)

    def test_half_open_connections_and_floods_keep_no_member_out(self):
        need(resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 4096, "needs 4096 descriptors")
        cluster = self.secured()
        _, where = self.member(cluster, "node1")
        self.start_worker(cluster, "node1")
        alice = self.person(cluster, "alice")
        pid = cluster.coordinator.pid

        def resident_mib():
            with open(f"/proc/{pid}/statm") as file:
                return int(file.read().split()[1]) * 4096 / 2**20

        def submit_ms():
            began = time.monotonic()
            alice.submit("--", "true")
            return (time.monotonic() - began) * 1000
        quiet = sorted(submit_ms() for _ in range(10))
        before = resident_mib()
        stop = threading.Event()

        def flood():
            while not stop.is_set():
                try:
                    with socket.create_connection(where, timeout=harness.DEADLINE_S) as each:
                        each.sendall(bytes.fromhex("1603014000") + os.urandom(2000))
                except OSError:
                    pass
        half_open = [socket.create_connection(where) for _ in range(1000)]
        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            for number, each in enumerate(half_open):
                try:
                    each.sendall(bytes.fromhex("160301") if number % 2 else b"\x16")
                except OSError:
                    pass  # closed to make room
            busy = sorted(submit_ms() for _ in range(10))
            grown = resident_mib() - before
        finally:
            stop.set()
            flooding.join()
            for each in half_open:
                each.close()
        print(f"\nsubmit with TLS, quiet: {quiet[5]:.0f} ms, with 1,000 half-open connections and a flood: {busy[5]:.0f} ms; "
              f"the coordinator grew by {grown:.1f} MiB")
        self.assertLess(grown, 200)


class Browsers(SecureCase):
    def own(self, name, *hosts, is_over=False):
        """An operator's certificate and key: its own authority, as a browser has been told."""
        path = self.path(name)
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", path + ".key", "-out", path + ".csr")
        with open(path + ".ext", "w") as file:
            file.write("subjectAltName=" + ",".join(hosts) + "\n")
        self.openssl("x509", "-req", "-in", path + ".csr", "-signkey", path + ".key", *self.validity(is_over), "-extfile", path + ".ext",
                     "-out", path + ".pem")
        return path

    def init(self, data, *args):
        return subprocess.run([COORDINATOR, "init", "--data-dir", data, "--name", "lab", "--admin", "admin", *args],
                              env=self.env, text=True, capture_output=True)

    def shown_to(self, name, authority):
        """Whether a client that trusts this authority, and asks for this name, gets an answer."""
        context = ssl.create_default_context(cafile=authority)
        host, port = self.address.split(":")
        try:
            with socket.create_connection((host, int(port)), timeout=harness.DEADLINE_S) as plain, \
                 context.wrap_socket(plain, server_hostname=name) as secure:
                secure.sendall(f"GET /healthz HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
                return secure.recv(64).split(b"\r\n")[0].decode()
        except ssl.SSLCertVerificationError:
            return "not trusted"

    def test_an_operators_certificate_is_for_browsers_and_the_clusters_for_its_members(self):
        theirs = self.own("theirs", "DNS:muster.example.org", "IP:127.0.0.1")
        cluster = harness.Cluster(self, coordinator_args=("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"))
        self.data = os.path.join(cluster.directory, "data")
        done = self.init(self.data, "--host", "127.0.0.1", "--certificate", theirs + ".pem", "--key", theirs + ".key")
        self.assertEqual(done.returncode, 0, done.stderr)
        cluster.start()
        self.address = cluster.api.server().http_address[len("https://"):]
        ours = f"{self.data}-keys/ca.pem"
        self.assertEqual(self.shown_to("muster.example.org", theirs + ".pem"), "HTTP/1.1 200 OK")
        self.assertEqual(self.shown_to("127.0.0.1", theirs + ".pem"), "HTTP/1.1 200 OK")
        self.assertEqual(self.shown_to("muster.example.org", ours), "not trusted")
        # Members ask for the name that every coordinator has: they join, sign in and work as ever.
        self.member(cluster, "node1")
        self.start_worker(cluster, "node1")
        alice = self.person(cluster, "alice")
        self.assertIn("node1", alice.jobctl("nodes", "ls").stdout)

    def test_what_is_wrong_with_a_certificate_is_named_before_anything_is_made(self):
        fine, other = self.own("fine", "DNS:muster.example.org"), self.own("other", "DNS:muster.example.org")
        late = self.own("late", "DNS:muster.example.org", is_over=True)
        data = self.path("unmade")
        for certificate, key, host, *words in (
                (fine, other, "muster.example.org", fine + ".pem", other + ".key", "cannot be used together", "name the certificate"),
                (late, late, "muster.example.org", late + ".pem has expired", "have it renewed"),
                (fine, fine, "head1", "is not for head1", "it is for muster.example.org", "--host"),
                (fine + "-no", fine, "muster.example.org", "-no.pem cannot be read", "--certificate FILE")):
            done = self.init(data, "--host", host, "--certificate", certificate + ".pem", "--key", key + ".key")
            self.assertEqual(done.returncode, 1, done.stdout)
            for word in ("JC1369", "fix:", *words):
                self.assertIn(word, done.stderr)
            self.assertFalse(os.path.exists(os.path.join(data, "CLUSTER")), "nothing was made")
        done = self.init(data, "--certificate", fine + ".pem", "--key", fine + ".key")
        self.assertIn("muster-worker join muster.example.org:7701", done.stdout, "its name is the host")


class Members(SecureCase):
    def test_what_other_users_can_do_to_a_job(self):
        cluster = self.secured()
        self.member(cluster, "node1")
        self.start_worker(cluster, "node1")
        alice = self.person(cluster, "alice")
        bob = self.person(cluster, "bob")
        carol = self.person(cluster, "carol", "--role", "operator")
        viewer = self.person(cluster, "vera", "--role", "viewer")
        job = alice.submit("--env", "MARK=mark-of-alice", "--", "sleep", "600")
        cluster.wait_for(job, harness.RUNNING)
        for who, words, code in (
                (bob, ("cancel", str(job), "--yes"), "JC1320"),
                (bob, ("signal", str(job), "USR1"), "JC1320"),
                (bob, ("rm", str(job), "--yes"), "JC1320"),
                (bob, ("rerun", str(job)), "JC1320"),
                (bob, ("nodes", "drain", "node1"), "JC1320"),
                (bob, ("token", "create", "worker"), "JC1320"),
                (bob, ("user", "set", "bob", "--role", "admin"), "JC1320"),
                (carol, ("user", "set", "carol", "--role", "admin"), "JC1320"),
                (carol, ("rerun", str(job)), "JC1320"),
                (bob, ("cert", "revoke", "user/alice"), "JC1320"),
                (viewer, ("cert", "revoke", "user/alice"), "JC1320"),
                (carol, ("cert", "revoke", "worker/node1"), "JC1320"),
                (viewer, ("submit", "--", "true"), "JC1320"),
                (viewer, ("cancel", str(job), "--yes"), "JC1320")):
            with self.subTest(words=words):
                refused = who.jobctl(*words, check=False)
                self.assertNotEqual(refused.returncode, 0, refused.stdout)
                self.assertIn(code, refused.stderr + refused.stdout)
        for who in (bob, carol, viewer):
            self.assertNotIn("mark-of-alice", who.jobctl("show", str(job), "-o", "json").stdout)
        self.assertIn("mark-of-alice", alice.jobctl("show", str(job), "-o", "json").stdout)
        carol.jobctl("cancel", str(job), "--yes")
        self.assertEqual(cluster.wait_over(job).state, harness.CANCELLED)

    def test_revoking_cuts_what_is_open_and_lets_nothing_new_in(self):
        cluster = self.secured()
        self.member(cluster, "node1")
        self.start_worker(cluster, "node1")
        alice = self.person(cluster, "alice")
        job = alice.submit("--", "sleep", "600")
        cluster.wait_for(job, harness.RUNNING)
        follower = subprocess.Popen([os.path.join(harness.BIN, "jobctl"), "logs", "-f", str(job)], env=alice.env,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(follower.kill)
        wait_until(lambda: self.connections(cluster) >= 3, "the follower is connected")
        said = cluster.jobctl("cert", "revoke", "user/alice", "--reason", "stolen laptop").stdout
        print("\n" + said.strip())
        _, error = follower.communicate(timeout=60)
        self.assertNotEqual(follower.returncode, 0)
        print(error.strip().splitlines()[-1] if error.strip() else "")
        refused = alice.jobctl("ls", check=False)
        self.assert_error(refused, "JC1324")
        # A worker's too: its ranks keep running until the node counts as lost.
        cluster.jobctl("cert", "revoke", "worker/node1", "--reason", "sold")
        wait_until(lambda: "JC1324" in cluster.workers["node1"].output() or "revoked" in cluster.workers["node1"].output(),
                   "the worker is told why")

    def test_a_local_account_that_is_disabled_loses_its_streams(self):
        need(os.geteuid() == 0, "only root may be another account")
        cluster = self.secured()
        account = 54321
        for directory in (self.directory, os.path.dirname(cluster.socket)):
            os.chmod(directory, 0o711)
        os.chmod(cluster.socket, 0o666)
        home = self.path("home-local")
        os.mkdir(home)
        os.chown(home, account, account)
        env = {"HOME": home, "XDG_CONFIG_HOME": home, "JOBCTL_DATA_DIR": home, "JOBCTL_RUNTIME_DIR": home}
        follower = cluster.start_jobctl("events", "-w", env=env, user=account, group=account, cwd="/")
        cluster.submit("--queue-anyway", "--name", "seen", "--", "true")
        seen = follower.stdout.readline()
        self.assertTrue(seen, follower.stderr.read1() if not seen else "")
        cluster.jobctl("user", "set", f"uid:{account}", "--role", "user")
        cluster.jobctl("user", "disable", f"uid:{account}", "--yes")
        _, error = follower.communicate(timeout=harness.DEADLINE_S)
        self.assertNotEqual(follower.returncode, 0)
        self.assertNotIn("JC1302", error.decode())

    def connections(self, cluster):
        """TCP connections of the coordinator that are established."""
        with open(f"/proc/{cluster.coordinator.pid}/net/tcp") as file:
            ports = [line.split() for line in file.readlines()[1:]]
        own = {os.readlink(f"/proc/{cluster.coordinator.pid}/fd/{fd}") for fd in
               os.listdir(f"/proc/{cluster.coordinator.pid}/fd")}
        return sum(1 for fields in ports if fields[3] == "01" and f"socket:[{fields[9]}]" in own)


if __name__ == "__main__":
    harness.main()
