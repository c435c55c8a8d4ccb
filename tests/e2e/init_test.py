"""muster-worker init, the first process of a container: here of a new PID namespace."""
import os
import shutil
import signal
import subprocess

import harness
from harness import RUNNING, SUCCEEDED, Case, children_of, need, wait_until

WORKER = os.path.join(harness.BIN, "muster-worker")
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def can_be_first():
    return shutil.which("unshare") and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


class Init(Case):
    def setUp(self):
        super().setUp()
        need(can_be_first(), "root and PID namespaces are needed to be process 1")

    def container(self, cluster, *init_flags, name="node1", flags=None):
        """A daemon whose .first is the pid of process 1, as this side of the namespace sees it."""
        flags = flags if flags is not None else ["--coordinator", cluster.endpoint, "--name", name, "--devices", "cpu:2"]
        daemon = harness.Daemon([*NAMESPACE, WORKER, "init", *init_flags, "--", "--state-dir", self.path("w-" + name), *flags],
                                dict(self.env), self.path(name + ".out"))
        self.daemons.append(daemon)
        self.addCleanup(lambda: daemon.alive() and self.kill_container(daemon))
        self.start(daemon)
        return daemon

    def start(self, daemon):
        daemon.start()
        daemon.first = wait_until(lambda: next(iter(children_of(daemon.pid)), not daemon.alive()), "process 1 runs")

    def worker(self, container):
        """The pid of the worker below init, if it runs."""
        return next((pid for pid, (state, line) in children_of(container.first).items()
                     if state != "Z" and line.startswith("muster-worker --state-dir")), None)

    def kill_container(self, container):
        harness.kill9(container.first)
        container.process.wait(timeout=harness.DEADLINE_S)

    def submit_waiting(self, cluster):
        self.go = self.path("go")
        return cluster.submit("--", "sh", "-c", f"echo begin; while [ ! -e {self.go} ]; do sleep 0.05; done; echo end")

    def finish(self):
        with open(self.go, "w"):
            pass

    def test_the_worker_dies_and_comes_back_under_ranks_that_do_not_notice_and_orphans_are_reaped(self):
        cluster = self.cluster(workers=())
        container = self.container(cluster)
        cluster.wait_nodes("node1")
        job = self.submit_waiting(cluster)
        cluster.wait_for(job, RUNNING)
        first = wait_until(lambda: self.worker(container), "the worker runs")
        for _ in range(2):
            killed = wait_until(lambda: self.worker(container), "the worker runs")
            harness.kill9(killed)
            wait_until(lambda: self.worker(container) not in (None, killed), "another worker runs")
        # An orphan of a program that was started in the container by hand.
        subprocess.run(["nsenter", "-t", str(container.first), "-p", "-m", "sh", "-c", "sleep 0.2 & sleep 0.2 &"],
                       check=True, env=self.env)
        wait_until(lambda: cluster.nodes()["node1"].record.connected, "the node is back")
        self.finish()
        record = cluster.wait_over(job)
        self.assertEqual((record.state, len(record.attempts)), (SUCCEEDED, 1), record.reason)
        wait_until(lambda: cluster.api.logs(job)[0].get((0, 0, 1)) == b"begin\nend\n", "all of its output is there")
        wait_until(lambda: list(children_of(container.first)) == [self.worker(container)],
                   lambda: f"only the worker is left: {children_of(container.first)}")
        self.assertNotEqual(self.worker(container), first)
        self.assertIn("muster-worker has ended signal=9 restart_in_ms=200; its ranks continue", container.output())
        self.assertIn("restart_in_ms=400", container.output())

    def test_sigterm_stops_the_worker_and_its_code_is_the_containers(self):
        cluster = self.cluster(workers=())
        container = self.container(cluster)
        cluster.wait_nodes("node1")
        os.kill(container.first, signal.SIGHUP)  # forwarded, and ignored by the worker
        os.kill(container.first, signal.SIGTERM)
        self.assertEqual(container.process.wait(timeout=harness.DEADLINE_S), 0)
        self.assertIn("worker exits", container.output())
        self.assertNotIn("has ended", container.output())

    def test_a_worker_that_does_not_stop_is_killed_within_the_time(self):
        cluster = self.cluster(workers=())
        container = self.container(cluster, "--stop-within", "300ms")
        cluster.wait_nodes("node1")
        os.kill(self.worker(container), signal.SIGSTOP)
        os.kill(container.first, signal.SIGTERM)
        self.assertEqual(container.process.wait(timeout=harness.DEADLINE_S), 128 + signal.SIGKILL)
        self.assertIn("did not stop within_ms=300", container.output())

    def test_what_the_worker_refuses_at_its_first_start_ends_the_container(self):
        container = self.container(None, flags=[])
        self.assertEqual(container.process.wait(timeout=harness.DEADLINE_S), 2)
        self.assertIn("--coordinator is missing", container.output())
        for line, words in (([], "--state-dir is missing"), (["--state-dir", "/x"], "the worker's flags follow --"),
                            (["--join", "a:1", "--", "--state-dir", "/x"], "--join and --token-file belong together"),
                            (["--stop-within", "soon", "--", "--state-dir", "/x"], "--stop-within")):
            done = subprocess.run([WORKER, "init", *line], env=self.env, capture_output=True, text=True, timeout=30)
            self.assertEqual((done.returncode, words in done.stderr), (2, True), done.stderr)

    def test_a_container_that_died_is_a_lost_node_with_and_without_its_state(self):
        cluster = self.cluster(workers=())
        container = self.container(cluster)
        cluster.wait_nodes("node1")
        job = self.submit_waiting(cluster)
        cluster.wait_for(job, RUNNING)
        for attempt, reason in ((1, "the container of node node1 was restarted"), (2, "came back without its state")):
            self.kill_container(container)
            if attempt == 2:
                shutil.rmtree(self.path("w-node1"))
            self.start(container)
            wait_until(lambda: len(cluster.api.record(job).attempts) == attempt + 1, "the job restarts")
            record = cluster.wait_for(job, RUNNING)
            self.assertIn(reason, record.attempts[attempt - 1].reason)
            self.assertEqual((record.node_losses, record.failures, record.supervisor_losses), (attempt, 0, 0))
        self.finish()
        self.assertEqual(cluster.wait_over(job).state, SUCCEEDED)


if __name__ == "__main__":
    harness.main()
