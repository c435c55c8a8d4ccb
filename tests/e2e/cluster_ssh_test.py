"""jobctl cluster up --on ssh: real sshds, two nodes that share nothing but a network."""
import json
import os
import shutil
import signal
import subprocess

import harness
from harness import Case, wait_until
from ssh_nodes import SshNodes


class ClusterOverSsh(Case):
    def setUp(self):
        super().setUp()
        self.nodes = SshNodes(self, 2)
        self.env.pop("JOBCTL_SERVER", None)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def jobctl(self, *args, check=True):
        done = subprocess.run([*self.nodes.network.inside(), harness.JOBCTL, *args], env=self.env, capture_output=True,
                              text=True, timeout=120, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"jobctl {' '.join(args)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def up(self, *args, check=True):
        return self.jobctl("cluster", "up", *args, "--on", "ssh", "--nodes", "node1,node2", "--devices", "cpu:2",
                           "--ssh-config", self.nodes.config, check=check)

    def left_on(self, name):
        """What runs from this node's home, and its files."""
        home = self.nodes.home(name)
        running = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                program = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if program.startswith(home + "/"):
                running[int(pid)] = program
        return running, os.listdir(home)

    def assert_nothing_left(self):
        for name in self.nodes.network.nodes:
            self.assertEqual(self.left_on(name), ({}, []), name)
        config = self.path("config", "muster")
        self.assertFalse(os.path.exists(os.path.join(config, "clusters")))
        self.assertEqual(os.listdir(os.path.join(config, "credentials")) if os.path.isdir(
            os.path.join(config, "credentials")) else [], [])

    def ours(self, name, program):
        return [pid for pid, path in self.left_on(name)[0].items() if path.endswith("/bin/" + program)]

    def test_two_nodes_run_a_job_and_nothing_is_left_afterwards(self):
        up = self.up("lab")
        self.assertIn("cluster lab is up: 2 nodes, the coordinator on node1", up.stdout)
        for node in ("node1", "node2"):
            self.assertIn(f"✓ {node}: in, with 2 cpu", up.stderr)
        listed = json.loads(self.jobctl("cluster", "ls", "-o", "json").stdout)["items"]
        self.assertEqual([(each["name"], each["current"], each["nodes"], each["server"]) for each in listed],
                         [("lab", True, "2", "10.77.0.11:7700")])
        # Each rank on its own node, and they reach each other.
        done = self.jobctl("run", "-n", "2", "--nodes", "2", "--no-sync", "--",
                           harness.PYTHON, "-S", harness.rank_script("greeter.py"))
        self.assertRegex(done.stdout, r"greeted on 10\.77\.0\.1(1 by \{1: '10\.77\.0\.12|2 by \{1: '10\.77\.0\.11)'\}")
        # Its name is taken, and another try changes nothing.
        self.assertIn("JC1809", self.up("lab", check=False).stderr)
        # A job that runs is not ended unasked, nor are records removed.
        self.jobctl("submit", "-n", "2", "--nodes", "2", "--no-sync", "--", "sleep", "1000")
        self.jobctl("wait", "@last", "--for", "running")
        self.assertIn("JC1810", self.jobctl("cluster", "down", check=False).stderr)
        self.assertIn("JC1009", self.jobctl("cluster", "down", "--cancel-jobs", check=False).stderr)
        down = self.jobctl("cluster", "down", "--cancel-jobs", "--yes")
        self.assertIn("cluster lab is down", down.stdout)
        self.assert_nothing_left()
        self.assertIn("private", self.jobctl("context", "show").stdout)

    def test_a_cluster_without_its_coordinator_is_cleaned_all_the_same(self):
        self.up()
        self.jobctl("submit", "-n", "2", "--nodes", "2", "--no-sync", "--", "sleep", "1000")
        self.jobctl("wait", "@last", "--for", "running")
        os.kill(self.ours("node1", "muster-coordinator")[0], signal.SIGKILL)
        wait_until(lambda: not self.ours("node1", "muster-coordinator"), "the coordinator has ended")
        ranks = [pid for pid, line in self.processes().items() if line == "sleep 1000"]
        self.assertEqual(len(ranks), 2)
        # A node that is off keeps its part, and the cluster its name, until it can be reached again.
        sshd = self.nodes.daemons["node2"]
        sshd.stop()
        refused = self.jobctl("cluster", "down", "--yes", check=False)
        self.assertIn("JC1808", refused.stderr)
        self.assertIn("node node2 cannot be reached by ssh", refused.stderr)
        sshd.start()
        self.assertEqual(self.left_on("node1"), ({}, []))
        wait_until(lambda: self.jobctl("cluster", "down", "ssh", "--yes", check=False).returncode == 0, "it is down")
        self.assert_nothing_left()
        self.assertEqual([line for line in self.processes().values() if line == "sleep 1000"], [])

    def test_a_start_that_fails_names_node_reason_and_fix_and_leaves_nothing(self):
        for words, code, said in (
                (("--nodes", "node1,-oProxyCommand=x"), "JC1801", "is not a node"),
                (("--nodes", "node1", "--head", "node2"), "JC1801", "is not among --nodes"),
                (("--nodes", "node1", "--dir", "/tmp/$(id)"), "JC1801", "is not a directory"),
                (("--nodes", "node1", "--ssh-option", "UserKnownHostsFile=/dev/null"), "JC1804", "ssh-option StrictHostKey"),
                (("--nodes", "node1", "--ssh-option", "IdentityFile=/dev/null", "--ssh-option", "IdentitiesOnly=yes",
                  "--ssh-option", "PubkeyAuthentication=no"), "JC1804", "ssh-copy-id")):
            done = self.jobctl("cluster", "up", "--on", "ssh", "--ssh-config", self.nodes.config, *words, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(code, done.stderr)
            self.assertIn(said, done.stderr)
            self.assert_nothing_left()
        # What another one keeps where the cluster would be is not touched.
        theirs = os.path.join(self.nodes.home("node2"), ".muster", "clusters", "ssh", "node2")
        os.makedirs(theirs)
        with open(os.path.join(theirs, "id"), "w") as file:
            file.write("another cluster's")
        done = self.up(check=False)
        self.assertIn("node node2 cannot be used", done.stderr)
        self.assertIn("exists there already", done.stderr)
        self.assertEqual(os.listdir(theirs), ["id"])
        shutil.rmtree(os.path.join(self.nodes.home("node2"), ".muster"))
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
