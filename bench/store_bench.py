"""The store that ranks meet at: muster-rendezvous, on one node and with relays on others, against torch's TCPStore
with libuv, each in its own process, with the same simulated ranks on real sockets.

All processes, relays and simulated ranks too, share this machine's cores. So the wall time of the tiered store is not
what a cluster would see, where each relay has a machine: for that, the CPU time of the root and of the busiest relay
is printed, one of which is what others would wait for."""
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "rendezvous"))
import stores  # noqa: E402

WORLDS, ROUNDS, TURNS = (256, 1_000, 4_000), 5, 2
GLOO_WORLD_MAX = 1_000  # it asks the square of the world: 4,000 ranks would be 48 million requests, for half a terabyte
PATTERNS = {"connect": "connect, greet, count", "gloo": "set-up of a Gloo group", "nccl": "NCCL's id to all",
            "barrier": "barrier", "late": "all wait for one key"}
LIBUV = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
print(store.port, flush=True)
sys.stdin.read()
"""


class Libuv:
    """torch's server asks for the name of each peer's address, on its one thread. Where no DNS server knows it, that
    takes seconds, which are not what is compared: as root, it finds the name in a file."""

    def __init__(self, ranks):
        command = [sys.executable, "-c", LIBUV]
        if os.geteuid() == 0 and shutil.which("unshare"):
            self.hosts = tempfile.NamedTemporaryFile("w")
            self.hosts.write("127.0.0.1 localhost\n::ffff:127.0.0.1 localhost\n")
            self.hosts.flush()
            command = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', self.hosts.name, *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port = int(self.process.stdout.readline())
        self.pids, self.places, self.network = [self.process.pid], [(port, 0)] * ranks, None

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()


class Ours:
    def __init__(self, binary, ranks, per_node):
        layout = [min(per_node, ranks - at) for at in range(0, ranks, per_node)]
        self.stores = stores.Stores(binary, layout, log=subprocess.DEVNULL)
        self.pids = [node.process.pid for node in self.stores.nodes]
        self.places = [(port, index) for index, node in enumerate(self.stores.nodes) for port in node.ports]
        self.network = self.stores.nodes[0].port
        # As on a cluster, where ranks take longer to start than a store does.
        deadline = time.monotonic() + 20
        while not (all(listens(node.ports[-1]) for node in self.stores.nodes)
                   and link_traffic(self.network)[1] == len(layout) - 1):
            if time.monotonic() > deadline:
                raise RuntimeError("the stores do not listen")
            time.sleep(0.05)

    def close(self):
        self.stores.close()


def listens(port):
    return f":{port}" in subprocess.run(["ss", "-tlnH", "sport", "=", f":{port}"], capture_output=True, text=True).stdout


def link_traffic(port):
    """Bytes and number of the root's connections to other nodes."""
    if port is None:
        return 0, 0
    lines = subprocess.run(["ss", "-tinH", "state", "established", "sport", "=", f":{port}"], capture_output=True,
                           text=True).stdout
    moved = sum(int(count) for count in re.findall(r"bytes_(?:acked|received):(\d+)", lines))
    return moved, lines.count(f":{port} ")


def measure(program, server, patterns, rounds):
    """One run of all patterns: pattern → lists of ms, CPU seconds, and bytes at the root."""
    places = "".join(f"pid {pid}\n" for pid in server.pids) + "".join(f"rank {port} {node}\n" for port, node in server.places)
    kept = {}
    with subprocess.Popen([program, str(rounds), str(GLOO_WORLD_MAX), *patterns], stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE) as clients:
        clients.stdin.write(places)
        clients.stdin.close()
        before = 0
        for line in clients.stdout:
            done = json.loads(line)
            linked, links = link_traffic(server.network)
            done["root_bytes"] = done["bytes"] + linked - before
            done["connections"] = sum(node == 0 for _, node in server.places) + links
            before = linked
            kept.setdefault(done["pattern"], []).append(done)
    if clients.returncode != 0:
        raise RuntimeError("the simulated ranks failed")
    return kept


def raise_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def sides(binary, world):
    yield "libuv", lambda: Libuv(world)
    yield "one node", lambda: Ours(binary, world, world)
    for per_node in (64, 128):
        if world > per_node:
            yield f"nodes of {per_node}", lambda per_node=per_node: Ours(binary, world, per_node)


def bench_store(binary, program, worlds=WORLDS):
    """Prints a separate table: a pattern has several rows."""
    descriptors, rows = raise_descriptors(), []
    print(f"\nsimulated ranks: {ROUNDS} rounds of a pattern (gloo: 1), {TURNS} turns, all sides one after the other; medians.")
    print("ms: all processes share these cores. CPU s: all server processes; of these the root, and the busiest relay: the")
    print("larger of the two is what ranks would wait for if each had a machine, beside libuv's in the last ratio.")
    print(f"{'ranks':>5} {'pattern':24} {'store':14} {'ms':>9} {'/libuv':>7} {'CPU s':>8} {'root':>8} {'relay':>8} "
          f"{'CPU/libuv':>9} {'bytes at root':>14} {'connections':>11}")
    for world in worlds:
        if 3 * world + 200 > descriptors:
            print(f"{world:>5} not run: {descriptors} descriptors are allowed")
            continue
        patterns = [name for name in PATTERNS if name != "connect" and (name != "gloo" or world <= GLOO_WORLD_MAX)]
        kept = {}
        for _ in range(TURNS):
            for name, start in sides(binary, world):
                server = start()
                try:
                    for pattern, values in measure(program, server, patterns, ROUNDS).items():
                        kept.setdefault((pattern, name), []).extend(values)
                finally:
                    server.close()
        rows += [row for pattern in PATTERNS for row in print_pattern(world, pattern, kept)]
        if world > GLOO_WORLD_MAX:
            print(f"{world:>5} {PATTERNS['gloo']:24} not run: {3 * world * world / 1e6:.0f} million requests, "
                  f"{world * world * (154 + 8 * world) / 1e9:.0f} GB")
    return rows


def print_pattern(world, pattern, kept):
    base = None
    for (each, name), values in kept.items():
        if each != pattern:
            continue

        def middle(of, values=values):
            return statistics.median(of(value) for value in values)
        row = {"ranks": world, "pattern": pattern, "store": name, "ms": middle(lambda v: v["ms"]),
               "cpu": middle(lambda v: sum(v["cpu_s"])), "root": middle(lambda v: v["cpu_s"][0]),
               "relay": middle(lambda v: max(v["cpu_s"][1:], default=0)),
               "bytes": middle(lambda v: v["root_bytes"]), "connections": values[-1]["connections"]}
        base = base or row
        row["ratio"], row["cpu_ratio"] = (
            row["ms"] / base["ms"], max(row["root"], row["relay"]) / base["root"])
        relay = f"{row['relay']:.4f}" if row["relay"] else "–"
        print(f"{world:>5} {PATTERNS[pattern]:24} {name:14} {row['ms']:>9.2f} {row['ratio']:>7.2f} {row['cpu']:>8.4f} "
              f"{row['root']:>8.4f} {relay:>8} {row['cpu_ratio']:>9.2f} {row['bytes']:>14,.0f} {row['connections']:>11}",
              flush=True)
        yield row
