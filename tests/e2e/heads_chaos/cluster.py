"""Three members of etcd, three coordinators, a proxy between each coordinator and etcd, two workers."""
import os
import subprocess
import sys

import grpc

import harness
import heads
import s3_server
from harness import wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "lab"
HEADS = 3
WORKERS = ("a", "b")
# Of the clocks that count from a boot: as if each run of a coordinator were on a machine that booted another time.
OFFSET_S_MOST = 10_000_000


def has_time_namespaces():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-T", "true"], capture_output=True).returncode == 0


class Proxy:
    """etcd as one coordinator sees it."""

    def __init__(self, case, etcd, index, plant):
        ports = [harness.free_port() for _ in etcd.endpoints]
        self.endpoints = [f"127.0.0.1:{port}" for port in ports]
        self.daemon = harness.Daemon(
            [harness.PYTHON, "-B", os.path.join(HERE, "etcd_proxy.py"), "--name", NAME, *(["--plant", plant] if plant else []),
             *(f"{port}={endpoint}" for port, endpoint in zip(ports, etcd.endpoints))],
            dict(os.environ, **case.env), case.path(f"proxy{index}.out"))
        case.daemons.append(self.daemon.start())
        self.channel = grpc.insecure_channel(self.endpoints[0])
        case.addCleanup(self.channel.close)
        self.mode = "pass"

    def wait(self):
        wait_until(lambda: "serving" in self.daemon.output(), lambda: "the proxy serves: " + self.daemon.output())

    def set(self, mode):
        self.mode = mode
        self.channel.unary_unary("/proxy/Mode")(mode.encode(), timeout=10, wait_for_ready=True)


class Cluster(heads.Heads):
    def __init__(self, case, choose, plant=None, objects=None):
        self.choose = choose
        self.etcd = heads.Etcd(case)
        self.proxies = [Proxy(case, self.etcd, index, plant) for index in range(HEADS)]
        # A planted bug may show in the log alone, so that it has to stay.
        snapshot_after = choose.choice(["64KiB", "256KiB", "32MiB", "32MiB"]) if plant is None else "32MiB"
        args = ["--snapshot-after", snapshot_after, "--backoff-first-ms", "200"]
        self.store = None  # the daemon of the object store
        self.objects = case.path("objects")
        if objects == "s3":
            store = s3_server.SeaweedFs(case)
            case.env.update(store.environment())
            self.store = store.daemon
            args += ["--objects", store.address("lab")]
        elif objects == "file":
            os.mkdir(self.objects)
            args += ["--objects", "file://" + self.objects]
        super().__init__(case, self.etcd, count=HEADS, name=NAME, args=args)
        self.has_offsets = has_time_namespaces()
        for head, proxy in zip(self.heads, self.proxies):
            at = head.argv.index("--state") + 1
            head.argv[at] = f"etcd://{','.join(proxy.endpoints)}/{NAME}"

    def start(self):
        for proxy in self.proxies:
            proxy.wait()
        for index in range(HEADS):
            self.start_head(index)
        self.wait_leader()
        for name in WORKERS:
            self.add_worker(name, devices="cpu:4")
        self.wait_nodes(*WORKERS)
        return self

    def start_head(self, index):
        head = self.heads[index]
        if self.has_offsets:
            offset = str(self.choose.randrange(OFFSET_S_MOST))
            head.prefix = ["unshare", "-T", "--monotonic", offset, "--boottime", offset, "--"]
        head.start()
