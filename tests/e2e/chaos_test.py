"""Daemons are killed at random while jobs come and go, and worse: state files damaged, supervisors stopped, second workers
with the same name started, descriptors exhausted. Afterwards the history is checked against the contract:
J1 every acknowledged submit is listed, J2 one job per key, J3 one start per (job, attempt, rank), J4 no two
live processes of a rank at once, J5 complete worlds, J6 nothing is left, J7 exact logs, J12 everything settles.

MUSTER_CHAOS_SEED=N repeats a run's choices (not the machine's timing); MUSTER_CHAOS_ATTEMPTS=N continues until that many
attempts were started."""
import collections
import json
import os
import random
import shutil
import signal
import sys
import threading
import time

import grpc

import harness
from harness import FULL, SUCCEEDED, Case, need, python_line, wait_until

sys.path.insert(0, harness.RANKS)
import writer  # noqa: E402  (the rank's program knows what it writes)


class RandomKills(Case):
    def test_no_promise_is_broken(self):
        seed = int(os.environ.get("MUSTER_CHAOS_SEED", random.SystemRandom().randrange(1 << 30)))
        print(f"MUSTER_CHAOS_SEED={seed}", file=sys.stderr, flush=True)
        choose = random.Random(seed)
        cluster = self.cluster(workers=("a", "b"), devices="cpu:3", coordinator_args=["--suspect-after-ms", "60000"])
        witness, acknowledged = self.path("witness"), {}
        duration = 60 if FULL else 12
        over = threading.Event()

        def submit_jobs():
            number = 0
            while not over.is_set():
                if len(acknowledged) - sum(job.state in harness.OVER for job in self.list(cluster)) > 30:
                    time.sleep(0.05)  # enough are in progress
                    continue
                number += 1
                ranks = number % 3 + 1
                if number % 3:
                    line = python_line("witness.py")
                    kind = "witness"
                else:
                    line = python_line("writer.py", 400, "--rate", 400)
                    kind = "writer"
                command = ["submit", "-o", "name", "-n", ranks, "--idempotency-key", f"chaos-{number}", "-e",
                           f"WITNESS={witness}", *line]
                # Exit 5 means no answer: the same key may be resent, whether or not the first one arrived.
                done = wait_until(lambda: (lambda tried: tried if tried.returncode != 5 else None)(
                    cluster.jobctl(*command, check=False)), "submitted")
                acknowledged[done.stdout.strip()] = (kind, ranks)
        submitter = threading.Thread(target=submit_jobs)
        submitter.start()
        self.addCleanup(over.set)
        end = time.monotonic() + duration
        while time.monotonic() < end:
            time.sleep(choose.uniform(0.3, 1.5))  # random timing, not a wait
            victim = choose.choice([cluster.coordinator, *cluster.workers.values()])
            victim.kill9()
            time.sleep(choose.choice([0, 0, 0.5]))
            victim.start()
        over.set()
        cluster.wait_serving()
        submitter.join(timeout=120)
        self.assertFalse(submitter.is_alive())
        self.settle(cluster, acknowledged)
        self.check_witness(witness)
        self.check_logs(cluster, acknowledged)

    def list(self, cluster):
        """All jobs, even while the coordinator comes and goes."""
        def listed():
            try:
                return [cluster.api.list()]
            except grpc.RpcError:
                return None
        return wait_until(listed, "jobs listed")[0]

    def settle(self, cluster, acknowledged):
        def settled():
            jobs = {job.name: job for job in cluster.api.list()}
            return jobs if all(job.state in harness.OVER for job in jobs.values()) else None

        def unsettled():
            return "all jobs over; still: " + ", ".join(f"{job.name} {job.state} {job.reason}" for job in
                                                          cluster.api.list() if job.state not in harness.OVER)
        jobs = wait_until(settled, unsettled, 90, every_s=0.2)
        self.assertEqual(set(jobs), set(acknowledged), "J1, J2: exactly the acknowledged jobs")
        bad = {name: job.reason for name, job in jobs.items() if job.state != SUCCEEDED}
        self.assertEqual(bad, {}, "killed daemons disturb no job")
        ranks = {pid: line for pid, line in self.processes().items()
                 if "witness.py" in line or "writer.py" in line}
        self.assertEqual(ranks, {}, "J6")

    def check_witness(self, path):
        with open(path) as file:
            lines = [json.loads(line) for line in file]
        starts = collections.Counter((line["job"], line["attempt"], line["rank"]) for line in lines
                                     if line["what"] == "start")
        self.assertEqual([key for key, count in starts.items() if count > 1], [], "J3")
        self.assertEqual([line for line in lines if line["what"] == "overlap"], [], "J4")
        worlds = collections.defaultdict(set)
        for line in lines:
            worlds[(line["job"], line["attempt"])].add((line["world"], line["master"]))
        self.assertEqual([key for key, views in worlds.items() if len(views) > 1], [], "J5")
        return len(worlds)

    def check_logs(self, cluster, acknowledged):
        for name, (kind, ranks) in acknowledged.items():
            if kind == "writer":
                logs, dropped = cluster.api.logs(name)
                self.assertEqual(sum(dropped.values()), 0)
                last = max(attempt for attempt, _, _ in logs)
                for rank in range(ranks):
                    self.assertEqual(logs[(last, rank, 1)], writer.expected(rank, "o", 400), f"J7 {name} rank {rank}")
                    self.assertEqual(logs[(last, rank, 2)], writer.expected(rank, "e", 400), f"J7 {name} rank {rank}")


class WorseThanKills(RandomKills):
    """These faults may cost attempts and exhaust a job's budgets, but must never break a promise."""

    def test_no_promise_is_broken(self):
        seed = int(os.environ.get("MUSTER_CHAOS_SEED", random.SystemRandom().randrange(1 << 30)))
        print(f"MUSTER_CHAOS_SEED={seed}", file=sys.stderr, flush=True)
        self.choose = random.Random(seed)
        wanted = int(os.environ.get("MUSTER_CHAOS_ATTEMPTS", 220 if FULL else 12))
        self.cluster_ = cluster = self.cluster(workers=("a", "b"), devices="cpu:3",
                                               coordinator_args=["--suspect-after-ms", "60000"])
        witness, acknowledged, started = self.path("witness"), {}, 0
        faults = [self.damage_state, self.stop_a_shim, self.start_a_second_worker, self.copy_state,
                  self.exhaust_descriptors, self.kill_a_daemon]
        done = collections.Counter()
        while started < wanted:
            for _ in range(4):
                number = len(acknowledged)
                ranks = number % 3 + 1
                job = harness.wait_until(lambda: self.submitted(
                    ["submit", "-o", "name", "-n", ranks, "--restarts", 2, "--idempotency-key", f"worse-{number}", "-e",
                     f"WITNESS={witness}", *python_line("witness.py", "--for", self.choose.uniform(0.2, 3))]),
                    "submitted")
                acknowledged[job] = ("witness", ranks)
            fault = faults[done.total() % len(faults)] if done.total() < len(faults) else self.choose.choice(faults)
            print(f"{fault.__name__} after {started} attempts", file=sys.stderr, flush=True)
            fault()
            done[fault.__name__] += 1
            cluster.wait_serving()
            started = sum(job.attempts for job in self.list(cluster))
            wait_until(lambda: self.few_live(), "not many jobs at once", 120, every_s=0.1)
        print(f"{len(acknowledged)} jobs, {started} attempts, faults {dict(done)}", file=sys.stderr, flush=True)
        self.settle(cluster, acknowledged)
        self.check_witness(witness)

    def submitted(self, command):
        done = self.cluster_.jobctl(*command, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def few_live(self):
        self.release_held()
        return sum(job.state not in harness.OVER for job in self.list(self.cluster_)) <= 6

    def release_held(self):
        for job in self.list(self.cluster_):
            if job.state == harness.QUEUED and job.reason.startswith("held: "):
                self.cluster_.jobctl("release", job.name, check=False)

    def settle(self, cluster, acknowledged):
        def settled():
            self.release_held()
            jobs = {job.name: job for job in cluster.api.list()}
            return jobs if all(job.state in harness.OVER for job in jobs.values()) else None
        jobs = wait_until(settled, lambda: f"all jobs over: {cluster.api.list()}", 180, every_s=0.5)
        self.assertEqual(set(jobs), set(acknowledged), "J1, J2: exactly the acknowledged jobs")
        bad = {name: job.reason for name, job in jobs.items()
               if job.state != SUCCEEDED and "are used" not in job.reason}
        self.assertEqual(bad, {}, "only used-up budgets end a job")
        self.assertEqual({pid: line for pid, line in self.processes().items() if "witness.py" in line}, {}, "J6")

    # ------------------------------------------------------------ faults

    def some_worker(self):
        return self.choose.choice(list(self.cluster_.workers.items()))

    def state_dir(self, name):
        return os.path.join(self.cluster_.directory, "w-" + name)

    def kill_a_daemon(self):
        victim = self.choose.choice([self.cluster_.coordinator, *self.cluster_.workers.values()])
        victim.kill9()
        victim.start()

    def damage_state(self):
        name, worker = self.some_worker()
        worker.kill9()
        state = self.state_dir(name)
        files = [os.path.join(state, "identity")]
        for root, _, names in os.walk(os.path.join(state, "attempts")):
            files += [os.path.join(root, name) for name in names
                      if name in ("launch.pb", "shim.launch", "shim.state", "exit")]
        for path in self.choose.sample(files, min(len(files), 3)):
            self.damage(path)
        worker.start()

    def damage(self, path):
        try:
            with open(path, "r+b") as file:
                data = bytearray(file.read())
                if not data or self.choose.random() < 0.3:
                    file.truncate(len(data) // 2)
                    return
                data[self.choose.randrange(len(data))] ^= 1 << self.choose.randrange(8)
                file.seek(0)
                file.write(data)
        except OSError:
            pass  # the attempt is over

    def stop_a_shim(self):
        shims = [pid for pid, line in self.processes().items() if line.startswith("muster-shim ")]
        if not shims:
            return
        pid = self.choose.choice(shims)
        try:
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            return
        if self.choose.random() < 0.5:
            self.kill_a_daemon()

    def start_a_second_worker(self, state=None):
        name, worker = self.some_worker()
        first_is_dead = self.choose.random() < 0.5
        if first_is_dead:
            worker.kill9()
        argv = list(worker.argv)
        argv[argv.index("--state-dir") + 1] = state or self.path(f"second-{self.choose.randrange(1 << 30)}")
        second = harness.Daemon(argv, worker.env, self.path("second.out")).start()
        self.daemons.append(second)
        time.sleep(self.choose.uniform(0.2, 1.5))  # random timing, not a wait
        second.kill9()
        if first_is_dead:
            worker.start()

    def copy_state(self):
        copy = self.path(f"copy-{self.choose.randrange(1 << 30)}")
        harness.copy_in_use(self.state_dir(self.some_worker()[0]), copy, ignore_dangling_symlinks=True,
                            ignore=lambda _, names: [name for name in names if name.endswith(".sock") or name == "run"])
        self.start_a_second_worker(copy)

    def exhaust_descriptors(self):
        need(shutil.which("prlimit"), "prlimit is not there")
        daemon = self.choose.choice([self.cluster_.coordinator, *self.cluster_.workers.values()])
        daemon.kill9()
        daemon.prefix = ["prlimit", f"--nofile={self.choose.choice([64, 96, 128])}"]
        daemon.start()
        time.sleep(self.choose.uniform(0.2, 1.5))  # random timing, not a wait
        daemon.prefix = []
        if self.choose.random() < 0.5:
            daemon.kill9()
            daemon.start()


if __name__ == "__main__":
    harness.main()
