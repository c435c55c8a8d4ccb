"""A further coordinator of a cluster with identities: it gets the cluster's keys for a token, once, and takes over."""
import json
import os
import subprocess

import enroll_test
import harness
import heads
from harness import free_port, wait_until

COORDINATOR = enroll_test.COORDINATOR


def read(path):
    with open(path) as file:
        return file.read()


class JoinCoordinators(enroll_test.EnrollCase):
    def init_join(self, token, name):
        return subprocess.run([COORDINATOR, "init", "--join", self.address, "--data-dir", self.path(name), "--host", "127.0.0.1"],
                              input=token, text=True, env=self.env, capture_output=True, timeout=harness.DEADLINE_S)

    def test_a_token_makes_a_further_coordinator_which_takes_over(self):
        etcd = heads.Etcd(self)
        cluster = self.secured()
        alone = self.init_join(self.token(cluster, "coordinator"), "h1")
        self.assertIn("[JC1631] the cluster can have no further coordinator", alone.stderr)
        self.assertIn("muster-coordinator migrate", alone.stderr)
        self.assertFalse(os.path.exists(self.path("h1-keys") + "/ca.pem"))

        cluster.coordinator.stop()
        subprocess.run([COORDINATOR, "migrate", "--from", self.data, "--to", etcd.address()], env=self.env, check=True,
                       capture_output=True)
        cluster.coordinator.argv += ["--worker-certificate", "30s", "--state", etcd.address(), "--lease", f"{heads.LEASE_S}s", "--head", "h0"]
        cluster.coordinator.start()
        self.address = wait_until(lambda: cluster.jobctl("version", check=False).returncode == 0
                                  and cluster.api.server().http_address, "h0 leads")[len("https://"):]

        for words in (("--uses", "2"), ("--expires", "25h"), ("--role", "user"), ("h1",)):
            self.assertEqual(cluster.jobctl("token", "create", "coordinator", *words, check=False).returncode, 1, words)
        for kind in (("worker",), ("person", "bob")):
            done = self.init_join(self.token(cluster, *kind), "h1")
            self.assertIn("fix: ask an administrator for one of: jobctl token create coordinator", done.stderr)
        token = self.token(cluster, "coordinator")
        self.assertIn("a machine becomes a coordinator with it", self.join(token, "node1").stderr)
        done = self.init_join(token, "h1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"muster-coordinator --state {etcd.address()} --head 127.0.0.1", done.stdout)
        for name in ("ca.pem", "ca.key", "secrets.key"):
            self.assertEqual(read(f"{self.path('h1-keys')}/{name}"), read(f"{self.data}-keys/{name}"))
        self.assertEqual(os.stat(self.path("h1-keys") + "/ca.key").st_mode & 0o777, 0o600)
        self.assertIn("it was used before", self.init_join(token, "h2").stderr)
        # Before anything is asked of the other one.
        self.assertIn("belongs to a cluster already", self.init_join("", "h1").stderr)

        cluster.jobctl("user", "set", "alice", "--role", "user")
        port = free_port()
        second = harness.Daemon(
            [COORDINATOR, "--state", etcd.address(), "--lease", f"{heads.LEASE_S}s", "--head", "h1", "--worker-certificate", "30s", "--data-dir", self.path("h1"),
             "--socket", self.path("h1.sock"), "--listen", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{free_port()}"],
            dict(self.env), self.path("h1.out"))
        self.daemons.append(second.start())
        wait_until(lambda: "registered head=h1" in second.output(), second.output)
        # It knows the address of one, and learns the others'.
        self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        worker = self.start_worker(cluster, "node1")
        known = self.path("state-node1") + "/coordinators"
        wait_until(lambda: os.path.exists(known) and f"127.0.0.1:{port}" in read(known), "the worker knows both")
        cluster.coordinator.kill9()
        there = {"JOBCTL_SERVER": f"unix:{self.path('h1.sock')}"}

        def ask(*words):
            return cluster.jobctl(*words, "-o", "json", env=there, check=False)
        wait_until(lambda: ask("user", "ls").returncode == 0, second.output)
        self.assertIn("alice", ask("user", "ls").stdout)
        entries = [entry for entry in json.loads(ask("audit").stdout)["items"] if entry["what"] == "/enroll/coordinator"]
        self.assertIn("coordinator/127.0.0.1", [entry.get("object") for entry in entries if entry["result"] == "ok"])
        wait_until(lambda: worker.output().count("renewed the certificate") > 0, worker.output, deadline_s=60)
        self.assertIn("ALIVE", cluster.jobctl("nodes", "ls", env=there).stdout)


if __name__ == "__main__":
    harness.main()
