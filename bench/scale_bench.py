"""What a coordinator costs with very many nodes: simulated workers (bench/scale_workers.cc) on the real protocol over real
sockets, many in one process on the same machine. Processor time is the coordinator's alone; what is waited for includes
that of the simulation."""
import json
import os
import subprocess
import time

import harness
from sampling_bench import cpu_ms_per_s, cpu_s

SIZES = (100, 1_000, 4_000)
IDLE_S = 10


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
    row("simulated workers", sizes, ",")
    for name in found[sizes[0]]:
        row(name, [found[count][name] for count in sizes], ".2f")
