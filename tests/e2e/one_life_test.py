"""Before a node starts ranks it proves that no older rank of that job is alive there, whatever its state directory
contains: damaged and copied state, second workers, other devices, supervisors that do not answer. The ranks' own
records are the evidence."""
import json
import os
import shutil
import signal
import socket
import threading

import harness
from harness import RUNNING, SUCCEEDED, Case, wait_until


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Witnessed:
    """A job whose ranks record their lifetimes and run until released."""

    def __init__(self, case, cluster, ranks=2, args=()):
        self.case, self.cluster, self.ranks = case, cluster, ranks
        self.path = case.path(f"witness{len(os.listdir(case.directory))}")
        self.go = self.path + ".go"
        self.job = cluster.submit("-n", str(ranks), "-e", f"WITNESS={self.path}", *args,
                                  *harness.python_line("witness.py", "--until", self.go))
        cluster.wait_for(self.job, RUNNING)
        wait_until(lambda: len(self.live()) == ranks, lambda: f"{ranks} ranks live: {self.live()}")

    def starts(self):
        try:
            with open(self.path) as file:
                lines = [json.loads(line) for line in file]
        except OSError:
            return []
        return [line for line in lines if line["what"] == "start"]

    def live(self):
        """{pid: attempt} of the live ranks; never more than the job has."""
        live = {line["pid"]: line["attempt"] for line in self.starts() if is_alive(line["pid"])}
        self.case.assertLessEqual(len(live), self.ranks, f"ranks of two attempts live at once: {live}")
        return live

    def wait_attempt(self, attempt):
        """Every live rank belongs to this attempt, and all of them are alive."""
        wait_until(lambda: sorted(self.live().values()) == [attempt] * self.ranks,
                   lambda: f"all ranks are of attempt {attempt}: {self.live()}, "
                           f"{self.cluster.api.record(self.job).reason}", deadline_s=60)

    def finish(self):
        open(self.go, "w").close()
        record = self.cluster.wait_for(self.job, SUCCEEDED)
        wait_until(lambda: not self.live(), "no rank is left")
        return record


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at if at >= 0 else at + os.path.getsize(path))
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 4]))


class DamagedState(Case):
    def state(self, cluster, *names):
        return os.path.join(cluster.directory, "w-node1", *names)

    def attempt_file(self, cluster, witnessed, name):
        record = cluster.api.record(witnessed.job)
        return self.state(cluster, "attempts", f"{record.id}-{record.next_attempt - 1}", name)

    def identity(self, cluster, change):
        """Rewrites the file as an older version would have written it, with the changed {key: value}."""
        path = self.state(cluster, "identity")
        with open(path) as file:
            pairs = dict(line.rstrip("\n").split("=", 1) for line in file)
        pairs = {key: pairs[key] for key in ("incarnation", "epoch", "boot_id", "machine_id")}
        pairs.update(change)
        with open(path, "w") as file:
            file.write("".join(f"{key}={value}\n" for key, value in pairs.items() if value is not None))

    def damaged(self, damage, reason):
        """The worker is killed, its state is damaged, it restarts: a new attempt, and no other."""
        cluster = self.cluster_here
        witnessed = Witnessed(self, cluster)
        cluster.workers["node1"].kill9()
        damage(cluster, witnessed)
        cluster.workers["node1"].start()
        witnessed.wait_attempt(1)
        self.assertIn(reason, cluster.api.record(witnessed.job).attempts[0].reason)
        witnessed.finish()

    def test_no_older_rank_lives_beside_a_new_one_whatever_is_damaged(self):
        self.cluster_here = self.cluster()

        def of_attempt(name, change):
            return lambda cluster, witnessed: change(self.attempt_file(cluster, witnessed, name))
        without_state = "came back without its state"
        for name, damage, reason in (
                ("launch.pb cut short", of_attempt("launch.pb", lambda path: os.truncate(path, 100)), "launch.pb"),
                ("launch.pb empty", of_attempt("launch.pb", lambda path: os.truncate(path, 0)), "launch.pb"),
                ("launch.pb flipped", of_attempt("launch.pb", lambda path: flip(path, 60)), "launch.pb"),
                ("launch.pb gone", of_attempt("launch.pb", os.unlink), "launch.pb"),
                ("shim.launch flipped", of_attempt("shim.launch", lambda path: flip(path, -300)), "shim.launch"),
                ("both gone", of_attempt("", shutil.rmtree), "no record"),
                ("identity flipped", lambda cluster, _: flip(self.state(cluster, "identity"), 14), without_state),
                ("identity cut short", lambda cluster, _: os.truncate(self.state(cluster, "identity"), 20),
                 without_state),
                ("another machine's", lambda cluster, _: self.identity(cluster, {"machine_id": "0" * 32}),
                 without_state)):
            with self.subTest(name):
                self.damaged(damage, reason)

    def test_a_lost_boot_id_proves_nothing_and_the_ranks_go_on(self):
        cluster = self.cluster()
        for change in ({"boot_id": None}, {"boot_id": "another"}):
            witnessed = Witnessed(self, cluster)
            ranks = witnessed.live()
            cluster.workers["node1"].kill9()
            self.identity(cluster, change)
            cluster.workers["node1"].start()
            wait_until(lambda: cluster.nodes()["node1"].record.connected, "the worker is back")
            wait_until(lambda: not cluster.nodes()["node1"].clearing, "its host is clear")
            self.assertEqual(witnessed.live(), ranks)
            self.assertEqual(witnessed.finish().next_attempt, 1)


class SecondWorkers(Case):
    def twin(self, cluster, name, state_dir):
        argv = list(cluster.workers["node1"].argv)
        argv[argv.index("--name") + 1] = name
        argv[argv.index("--state-dir") + 1] = state_dir
        twin = harness.Daemon(argv, cluster.env, state_dir + ".out")
        self.daemons.append(twin)
        return twin.start()

    def copy(self, cluster, name):
        target = self.path(name)
        harness.copy_in_use(os.path.join(cluster.directory, "w-node1"), target, ignore=shutil.ignore_patterns("*.sock"))
        return target

    def test_a_worker_that_is_refused_ends_nothing(self):
        cluster = self.cluster()
        witnessed = Witnessed(self, cluster)
        ranks = witnessed.live()
        for state_dir in (self.path("fresh"), self.copy(cluster, "copy")):
            twin = self.twin(cluster, "node1", state_dir)
            wait_until(lambda: "JC1404" in twin.output(), twin.output)
            self.assertEqual(witnessed.live(), ranks)
            # Even when it restarts with what it has written by now.
            twin.stop()
            refused = twin.output().count("JC1404")
            twin.start()
            wait_until(lambda: twin.output().count("JC1404") > refused, twin.output)
            self.assertEqual(witnessed.live(), ranks)
            twin.stop()
        self.assertEqual(witnessed.finish().next_attempt, 1)

    def test_a_copied_state_directory_is_a_new_node_under_another_name_and_a_new_life_under_the_same(self):
        cluster = self.cluster()
        witnessed = Witnessed(self, cluster)
        ranks = witnessed.live()
        copy = self.copy(cluster, "copy")
        for _ in range(2):  # the second time with its own identity
            twin = self.twin(cluster, "node2", copy)
            wait_until(lambda: "node2" in cluster.nodes() and cluster.nodes()["node2"].record.connected and
                       not cluster.nodes()["node2"].clearing, twin.output)
            self.assertEqual(witnessed.live(), ranks)
            twin.stop()
        copy = self.copy(cluster, "again")
        cluster.workers["node1"].kill9()
        self.twin(cluster, "node1", copy)
        witnessed.wait_attempt(1)
        # While the other one is connected, the first one is ignored.
        cluster.workers["node1"].start()
        wait_until(lambda: "JC1404" in cluster.workers["node1"].output(), cluster.workers["node1"].output)
        self.assertEqual(witnessed.finish().next_attempt, 2)

    def test_other_devices_under_an_old_identity_drain_the_node_until_a_person_agrees(self):
        cluster = self.cluster(devices="cpu:4")
        worker = cluster.workers["node1"]
        witnessed = Witnessed(self, cluster)
        ranks = witnessed.live()
        worker.kill9()
        worker.argv[worker.argv.index("--devices") + 1] = "cpu:1"
        worker.start()
        wait_until(lambda: cluster.nodes()["node1"].record.draining, worker.output)
        for command in ("ls", "show"):
            shown = cluster.jobctl("nodes", command, *(["node1"] if command == "show" else [])).stdout
            self.assertIn("its devices changed: cpu 4 → cpu 1", shown)
        self.assertEqual(witnessed.live(), ranks)
        witnessed.finish()
        waiting = cluster.submit("-n", "1", "--", "true")
        self.assertIn("its devices changed", cluster.jobctl("why", waiting).stdout)
        cluster.jobctl("nodes", "undrain", "node1")
        cluster.wait_for(waiting, SUCCEEDED)


class Relay:
    """A proxy between a worker and its coordinator; when cut, both ends stay open and nothing passes."""

    def __init__(self, case, target):
        self.target, self.path, self.is_cut = target, case.path("relay.sock"), threading.Event()
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen()
        case.addCleanup(self.server.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.target)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    def pump(self, source, sink):
        try:
            while data := source.recv(1 << 16):
                if not self.is_cut.is_set():
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        finally:
            source.close()


class SilentSupervisors(Case):
    def shim(self, job_dir):
        return next(pid for pid, line in self.processes().items()
                    if line.startswith("muster-shim") and job_dir in line)

    def test_a_stopped_supervisor_of_a_node_that_is_cut_off_does_not_outlive_the_fence(self):
        cluster = self.cluster(workers=(), heartbeat_ms=300)
        relay = Relay(self, cluster.socket)
        cluster.add_worker("far", "cpu:1", coordinator="unix:" + relay.path)
        witnessed = Witnessed(self, cluster, 1, ["--set", "stop_after=3s", "--grace", "1s"])
        cluster.add_worker("near", "cpu:1")
        os.kill(self.shim(os.path.join(cluster.directory, "w-far")), signal.SIGSTOP)
        relay.is_cut.set()
        witnessed.wait_attempt(1)
        self.assertIn("did not answer for", cluster.workers["far"].output())
        witnessed.finish()

    def test_ranks_that_a_supervisor_stopped_unasked_are_a_lost_node_and_no_failed_rank(self):
        cluster = self.cluster(devices="cpu:1", heartbeat_ms=300)
        job = cluster.submit("-n", "1", "--set", "stop_after=2s", "--grace", "20s", "--", "sh", "-c", "exec sleep 3600")

        def ranks():
            return [line for line in self.processes().values() if line.startswith("sleep 3600")]

        def ended(count):
            """The newest of `count` finished attempts, once the next one is running."""
            wait_until(lambda: len(cluster.api.record(job).attempts) > count, lambda: cluster.api.record(job).reason)
            cluster.wait_for(job, harness.RUNNING)
            return cluster.api.record(job).attempts[count - 1]

        cluster.wait_for(job, harness.RUNNING)
        os.kill(self.shim(os.path.join(cluster.directory, "w-node1")), signal.SIGTERM)
        by_signal = ended(1)
        self.assertEqual(by_signal.reason, "the supervisor (muster-shim) on node node1 stopped its ranks although "
                         "this worker had not asked it to")
        wait_until(ranks, "the rank's shell has become sleep")
        cluster.workers["node1"].kill9()
        wait_until(lambda: not ranks(), "the supervisor has stopped them, as no worker renewed its lease")
        cluster.workers["node1"].start()
        by_lease = ended(2)
        self.assertIn("this node stopped the attempt itself", by_lease.reason)
        for attempt in (by_signal, by_lease):
            self.assertFalse(attempt.HasField("culprit"), attempt.culprit)

    def test_a_stopped_supervisor_is_given_up_at_a_stop_and_its_job_says_so(self):
        cluster = self.cluster(devices="cpu:1")
        witnessed = Witnessed(self, cluster, 1)
        os.kill(self.shim(os.path.join(cluster.directory, "w-node1")), signal.SIGSTOP)
        # Including one that was adopted and has never sent anything.
        cluster.workers["node1"].kill9()
        cluster.workers["node1"].start()
        cluster.jobctl("cancel", witnessed.job, "--grace", "0s")
        record = cluster.wait_over(witnessed.job)
        self.assertEqual(record.state, harness.CANCELLED)
        self.assertIn("did not answer for", record.attempts[0].parts[0].failure)
        wait_until(lambda: not witnessed.live(), "its ranks are gone")


if __name__ == "__main__":
    harness.main()
