"""What a coordinator costs with very many nodes: simulated workers (bench/scale_workers.cc) on the real protocol over real
sockets, many in one process on the same machine. Processor time is the coordinator's alone; what is waited for includes
that of the simulation."""
import json
import os
import shutil
import statistics
import subprocess
import time

import harness
from sampling_bench import cpu_ms_per_s, cpu_s

SIZES = (100, 1_000, 4_000)
IDLE_S = 10
QUEUED, FINISHED, JOB_NODES = (1_000, 10_000), (10_000, 100_000), 100
WRITERS = 1_000  # at most


class Workers:
    def __init__(self, stage, cluster, count):
        self.cluster = cluster
        self.process = subprocess.Popen([os.path.join(harness.BIN, "bench", "bench_scale"), cluster.endpoint, str(count)],
                                        env=stage.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        """(answer, milliseconds it took, milliseconds of the coordinator's processor time)."""
        used, began = cpu_s(self.pid()), time.monotonic()
        answer = self.tell(*words)
        return answer, 1000 * (time.monotonic() - began), 1000 * (cpu_s(self.pid()) - used)

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"bench_scale ended with {self.process.wait()} at {words}")
        return json.loads(line)

    def pid(self):
        return self.cluster.coordinator.pid

    def idle_percent(self):
        return cpu_ms_per_s(self.pid(), seconds=IDLE_S)[0] / 10

    def close(self):
        self.process.kill()
        self.process.wait()


def measure(stage, count):
    """Name -> value, in the order of what happens."""
    cluster = harness.Cluster(stage, name=f"scale{count}", heartbeat_ms=5_000).start()
    empty = harness.rss_bytes(cluster.coordinator.pid)
    workers = Workers(stage, cluster, count)
    found = {}
    try:
        _, found["register, ms"], cpu = workers.ask("registered")
        found["register, µs of CPU a worker"] = 1000 * cpu / count
        time.sleep(2)
        found["memory, KB a worker"] = (harness.rss_bytes(cluster.coordinator.pid) - empty) / 1024 / count
        found["idle, % of a core"] = workers.idle_percent()
        found["submit alone, p50 ms"] = workers.tell("submits", 300)["p50_ms"]
        found["nodes ls, p50 ms"] = workers.tell("nodes", 20)["p50_ms"]
        gang, _, cpu = workers.ask("gang")
        found["gang: all released, ms"] = gang["released_ms"]
        found["gang: RUNNING, ms"] = gang["running_ms"]
        found["gang, µs of CPU a rank"] = 1000 * cpu / count
        found["submit meanwhile, p50 ms"] = gang.get("p50_ms", 0)
        found["submit meanwhile, p99 ms"] = gang.get("p99_ms", 0)
        found["gang runs, idle, % of a core"] = workers.idle_percent()
        written, _, cpu = workers.ask("write", WRITERS)
        found["written by ranks: output, MB/s"] = written["output_mb_per_s"]
        found["… batches of metrics, /s"] = written["batches_per_s"]
        found["… µs of CPU a piece"] = 1000 * cpu / written["pieces"]
        found["… submit meanwhile, p99 ms"] = written.get("p99_ms", 0)
        cluster.coordinator.kill9()
        workers.tell("lost")
        began = time.monotonic()
        cluster.restart_coordinator()
        workers.tell("registered")
        found["kill -9 to all back, s"] = time.monotonic() - began
        _, found["cancel, ms"], cpu = workers.ask("cancel")
        found["cancel, µs of CPU a rank"] = 1000 * cpu / count
    finally:
        workers.close()
        cluster.coordinator.stop()
    return found


def timed_ms(command, env):
    began = time.monotonic()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return 1000 * (time.monotonic() - began)


def submit_many(cluster, count, in_flight):
    load = os.path.join(harness.BIN, "bench", "bench_submit")
    done = subprocess.run([load, cluster.endpoint, str(count), str(in_flight)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def queue_length(cluster):
    service = cluster.api.service
    return cluster.api.unary("ListQueue", service.ListQueueRequest(limit=1), service.ListQueueResponse).total


def answers_ms(cluster, name):
    """What a person waits for: medians of jobctl, and percentiles of single submits."""
    job = cluster.jobctl("ls", "--all", "--limit", 1, "-o", "name").stdout.split()[0]
    submits = submit_many(cluster, 300, 1)

    def median_ms(*words):
        return statistics.median(timed_ms([harness.JOBCTL, *words], cluster.env) for _ in range(20))
    return {f"{name}: ls --limit 100, ms": median_ms("ls", "--limit", "100"), f"{name}: why, ms": median_ms("why", job),
            f"{name}: submit, p50 ms": submits["p50_ms"], f"{name}: submit, p99 ms": submits["p99_ms"]}


def measure_jobs(stage, name, count):
    """With so many jobs that are "over", or that are "queued" behind jobs that hold all nodes."""
    cluster = harness.Cluster(stage, name="jobs", heartbeat_ms=5_000).start()
    workers = Workers(stage, cluster, JOB_NODES)
    try:
        workers.tell("registered")
        for _ in range(2 if name == "queued" else 0):
            workers.tell("gang")  # each takes one of the two devices of every node
        submit_many(cluster, count, 512)
        if name == "over":
            harness.wait_until(lambda: queue_length(cluster) == 0, "all are over", 600, every_s=0.2)
        found = answers_ms(cluster, name)
        found[f"{name}: resident, MB"] = harness.rss_bytes(cluster.coordinator.pid) / 1e6
        data = os.path.join(cluster.directory, "data")
        found[f"{name}: on disk, KB a job"] = int(subprocess.check_output(["du", "-sk", data]).split()[0]) / count
        cluster.coordinator.kill9()
        began = time.monotonic()
        cluster.restart_coordinator()
        found[f"{name}: restart to serving, ms"] = 1000 * (time.monotonic() - began)
    finally:
        workers.close()
        cluster.coordinator.stop()
        shutil.rmtree(cluster.directory)
    return found


def row(name, values, form):
    """With how each value has grown from the one before."""
    growth = [f"x{b / a:.1f}" if a > 0 else "" for a, b in zip(values, values[1:])]
    print(f"{name:30}" + "".join(f"{value:>10{form}}" for value in values) + "".join(f"{text:>8}" for text in growth),
          flush=True)


def bench_scale(stage, sizes=SIZES):
    found = {}
    for count in sizes:
        found[count] = measure(stage, count)
        print(f"measured with {count} workers", flush=True)
    jobs = [(counts, [measure_jobs(stage, name, count) for count in counts])
            for name, counts in (("queued", QUEUED), ("over", FINISHED))]
    row("simulated workers", sizes, ",")
    for name in found[sizes[0]]:
        row(name, [found[count][name] for count in sizes], ".2f")
    for counts, values in jobs:
        row(f"jobs, on {JOB_NODES} nodes", counts, ",")
        for name in values[0]:
            row(name, [each[name] for each in values], ".2f")
