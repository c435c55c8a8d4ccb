"""One run: traffic and faults, then quiet, then every check. The seed repeats the faults in their order and, as long as
answers are the same, each client's choices; not the machine's timing."""
import collections
import concurrent.futures
import os
import random
import shutil
import sys
import threading
import time

import checks
import end_checks
import harness
from cluster import HEADS, NAME, Cluster
from faults import WEIGHTS, Faults, Weather, plan
from history import History
from traffic import Asker, Client, Follower, Jobs

CLIENTS = 6
SETTLE_S = 90


class Run:
    def __init__(self, case, seed, seconds, plant=None, faults=None, objects=None):
        self.case, self.seed, self.seconds = case, seed, seconds
        self.choose = random.Random(seed)
        self.names = faults or [name for name in WEIGHTS if name != "pause_store" or objects == "s3"]
        self.is_planted = plant is not None
        self.objects = objects
        self.cluster = Cluster(case, self.choose, plant, objects)
        self.history = History()
        self.witness = case.path("witness")
        self.jobs = Jobs(seed, case.env, self.witness)
        self.found = []
        self.counts = collections.Counter()

    def asker(self, name):
        asker = Asker(name, self.cluster.endpoints, self.history, self.jobs, f"{self.seed}-{name}")
        self.case.addCleanup(asker.close)
        return asker

    def go(self):
        """What was broken, a line each."""
        self.cluster.start()
        over = threading.Event()
        self.case.addCleanup(over.set)
        threads = [Client(self.asker(f"c{index}"), over) for index in range(CLIENTS)]
        threads += [Follower(self.asker(what), over, what) for what in ("events", "watch")]
        for thread in threads:
            thread.start()
        faults = Faults(self.cluster, self.jobs)
        Weather(faults, plan(self.seed, self.names), time.monotonic, time.sleep).blow(self.seconds)
        self.counts.update(faults.done)
        self.cluster.wait_leader()
        over.set()
        for thread in threads:
            thread.join(timeout=30)
            if thread.failure or thread.is_alive():
                raise thread.failure or AssertionError(f"{thread} does not end")
        try:
            # A planted bug shows in what clients were answered, or in the log.
            self.check_log() if self.is_planted else self.check_end(self.asker("last"))
        except AssertionError as error:
            self.found.append(str(error))
        self.found += checks.violations(self.history.ops)
        return self.found

    def check_end(self, asker):
        for key, request in sorted(self.jobs.unknown.items()):
            harness.wait_until(lambda: asker.submit(request, within_s=5).outcome == "ok", f"J12: the key {key} is answered")
        listed = end_checks.settle(asker, self.cluster, SETTLE_S)
        records = {}
        for job in listed:
            asker.get(job, within_s=5)
            records[job] = self.cluster.apis[asker.head].record(job)
        self.found += end_checks.check_records(records, self.jobs, dict(self.jobs.by_id))
        events = end_checks.read_events(self.cluster.apis[asker.head])
        self.found += end_checks.check_events(events, records)
        self.found += end_checks.check_seen(self.history, events)
        self.check_output(asker, records)
        self.found += end_checks.check_witness(end_checks.read_witness(self.witness))
        ranks = [line for line in self.case.processes().values() if "witness.py" in line or "writer.py" in line]
        self.found += [f"J6: {line} is alive" for line in ranks]
        self.check_copies()
        self.check_log()

    def check_output(self, asker, records):
        wanted = [job for job, record in records.items() if record.state == harness.SUCCEEDED and self.jobs.writes(job)]
        # Where output is incomplete, the coordinator waits a few seconds for the rest before it tells that.
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ops = list(pool.map(lambda job: asker.logs(job, follow=True, within_s=30), wanted))
        for job, op in zip(wanted, ops):
            if op.outcome != "ok":
                self.found.append(f"J7: the output of job {job} cannot be read")
                continue
            if self.objects is None:
                self.found += end_checks.check_output(records[job], op.value, f"h{op.head}")
            else:
                self.found += end_checks.check_shared_output(records[job], op.value)
            self.counts["outputs"] += 1

    def check_copies(self):
        """The three databases. The coordinators are killed."""
        time.sleep(1)  # an idle cluster writes nothing: the copies are as new as the leader's by then
        for head in self.cluster.heads:
            head.kill9()
        dumps = {f"h{index}": end_checks.dump(self.case.path(f"{NAME}-h{index}/muster.db")) for index in range(HEADS)}
        dumps = {head: dump for head, dump in dumps.items() if dump is not None}
        self.found += end_checks.check_copies(dumps)
        if self.objects == "file":
            _, tables = max(dumps.values(), key=lambda dump: dump[0])
            self.found += end_checks.check_packs(tables, self.cluster.objects)
        self.counts["copies"] += len(dumps) + 1 - len({position for position, _ in dumps.values()})

    def check_log(self):
        pieces = end_checks.read_pieces(self.cluster.etcd.endpoints[0], NAME)
        self.counts["pieces"] += len(pieces)
        self.counts["terms"] += len({term for _, _, term in pieces})
        self.found += end_checks.check_pieces(pieces)

    # ---------------------------------------------------------------- for people

    def summary(self):
        ops = self.history.ops
        outcomes = collections.Counter(op.outcome for op in ops if op.kind not in ("events", "watch"))
        return (f"{len(ops)} calls ({', '.join(f'{count} {name}' for name, count in sorted(outcomes.items()))}), "
                f"{len(self.jobs.by_id)} jobs, " + ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items())))

    def keep(self):
        """History and logs of a run that broke a promise."""
        folder = os.path.join(harness.BUILD, "heads-chaos", str(self.seed))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.history.save(os.path.join(folder, "history.jsonl"))
        for name in os.listdir(self.case.directory):
            path = os.path.join(self.case.directory, name)
            if os.path.isfile(path):
                shutil.copy(path, folder)
        return folder


class Stage(harness.Case):
    """A case's directory and daemons, for one run."""

    def runTest(self):
        pass


def one_run(seed, seconds, plant=None, faults=None, objects=None):
    """What was broken."""
    stage = Stage()
    stage.setUp()
    try:
        run = Run(stage, seed, seconds, plant, faults, objects)
        found = run.go()
        print(f"seed {seed}: {run.summary()}", file=sys.stderr, flush=True)
        if found and not plant:
            print(f"  history and logs: {run.keep()}", file=sys.stderr, flush=True)
        return found
    finally:
        for daemon in stage.daemons:
            if daemon.alive():
                daemon.kill9()  # they have nothing left to do, and etcd's members wait for each other
        stage.doCleanups()
