"""Daemons killed at random while jobs come and go; afterwards the history is checked against the contract:
J1 every acknowledged submit is listed, J2 one job per key, J3 one start per (job, attempt, rank), J4 no two
lives of a rank at once, J5 whole worlds, J6 nothing is left, J7 exact logs, J12 everything settles.

MUSTER_CHAOS_SEED=N repeats a run's choices (not the machine's timing)."""
import collections
import json
import os
import random
import sys
import threading
import time

import grpc

import harness
from harness import FULL, SUCCEEDED, Case, python_line, wait_until

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
                    time.sleep(0.05)  # enough is under way
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
                # Exit 5 is "no answer": the same key may be sent again, whether or not the first one arrived.
                done = wait_until(lambda: (lambda tried: tried if tried.returncode != 5 else None)(
                    cluster.jobctl(*command, check=False)), "submitted")
                acknowledged[done.stdout.strip()] = (kind, ranks)
        submitter = threading.Thread(target=submit_jobs)
        submitter.start()
        self.addCleanup(over.set)
        end = time.monotonic() + duration
        while time.monotonic() < end:
            time.sleep(choose.uniform(0.3, 1.5))  # chance, not a wait
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
        """All jobs, also while the coordinator comes and goes."""
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
        worlds = collections.defaultdict(set)
        for line in lines:
            worlds[(line["job"], line["attempt"])].add((line["world"], line["master"]))
        self.assertEqual([key for key, views in worlds.items() if len(views) > 1], [], "J5")

    def check_logs(self, cluster, acknowledged):
        for name, (kind, ranks) in acknowledged.items():
            if kind == "writer":
                logs, dropped = cluster.api.logs(name)
                self.assertEqual(sum(dropped.values()), 0)
                last = max(attempt for attempt, _, _ in logs)
                for rank in range(ranks):
                    self.assertEqual(logs[(last, rank, 1)], writer.expected(rank, "o", 400), f"J7 {name} rank {rank}")
                    self.assertEqual(logs[(last, rank, 2)], writer.expected(rank, "e", 400), f"J7 {name} rank {rank}")


if __name__ == "__main__":
    harness.main()
