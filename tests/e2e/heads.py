"""Real etcd, and coordinators that replace each other on it."""
import json
import os
import shutil
import signal
import subprocess
import time

import harness
from harness import BIN, need, wait_until

MEMBERS = 3
LEASE_S = 3
# The folder of the etcd to use, which may be another than the one on PATH.
FOLDER = os.environ.get("MUSTER_ETCD") or None


def binary(name):
    return shutil.which(name, path=FOLDER)


class Etcd:
    """Members on loopback. Skips the test where there is no etcd."""
    scheme = "etcd://"

    def __init__(self, case, count=MEMBERS):
        need(binary("etcd") and binary("etcdctl"), "there is no etcd here (the packages etcd-server and etcd-client)")
        self.case = case
        ports = [(harness.free_port(), harness.free_port()) for _ in range(count)]
        initial = ",".join(f"m{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(ports))
        self.endpoints = [f"127.0.0.1:{client}" for client, _ in ports]
        self.members = [harness.Daemon(
            [binary("etcd"), "--name", f"m{i}", "--data-dir", case.path(f"etcd{i}"), "--initial-cluster", initial,
             "--initial-cluster-state", "new", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}", *self.serving(f"127.0.0.1:{client}")],
            dict(case.env), case.path(f"etcd{i}.out")) for i, (client, peer) in enumerate(ports)]
        case.daemons.extend(self.members)
        for member in self.members:
            member.start()
        wait_until(lambda: self.leader() is not None, "etcd has a leader")

    def serving(self, client):
        """A member's flags about its clients."""
        return ["--listen-client-urls", f"http://{client}", "--advertise-client-urls", f"http://{client}"]

    def address(self, name="lab"):
        return f"{self.scheme}{','.join(self.endpoints)}/{name}"

    def etcdctl(self, *args, endpoint=None, stdin=None):
        return subprocess.run([binary("etcdctl"), "--endpoints", endpoint or ",".join(self.endpoints), *args], input=stdin,
                              capture_output=True, text=True, env={**os.environ, "ETCDCTL_API": "3"}, timeout=10)

    def leader(self):
        """The member that leads etcd itself, by its index."""
        for index, endpoint in enumerate(self.endpoints):
            done = self.etcdctl("endpoint", "status", "-w", "json", endpoint=endpoint)
            for each in json.loads(done.stdout or "[]"):
                if each["Status"]["leader"] == each["Status"]["header"]["member_id"]:
                    return index
        return None


def run_coordinator(case, *words):
    """One of its commands, to its end."""
    return subprocess.run([os.path.join(BIN, "muster-coordinator"), *words], env=case.env, capture_output=True, text=True,
                          timeout=harness.DEADLINE_S)


class Heads(harness.Muster):
    """Coordinators named h0, h1, …, and workers that know all of them."""

    def __init__(self, case, etcd, count=3, name="lab", args=()):
        self.endpoints = [f"127.0.0.1:{harness.free_port()}" for _ in range(count)]
        super().__init__(case, dict(case.env), ",".join(self.endpoints))
        self.env["JOBCTL_SERVER"] = self.endpoint
        self.apis = [harness.Api(endpoint) for endpoint in self.endpoints]
        self.workers = {}
        self.heads = [harness.Daemon(
            [os.path.join(BIN, "muster-coordinator"), "--state", etcd.address(name), "--head", f"h{i}", "--lease",
             f"{LEASE_S}s", "--data-dir", case.path(f"{name}-h{i}"), "--listen", endpoint, "--insecure-plaintext",
             "--heartbeat-ms", "500", "--suspect-after-ms", "60000", *args],
            dict(case.env), case.path(f"{name}-h{i}.out")) for i, endpoint in enumerate(self.endpoints)]
        case.daemons.extend(self.heads)
        for api in self.apis:
            case.addCleanup(api.close)

    def data(self, index):
        """Its data directory."""
        argv = self.heads[index].argv
        return argv[argv.index("--data-dir") + 1]

    def start(self):
        for head in self.heads:
            head.start()
        self.wait_leader()
        return self

    def server(self, index):
        service = self.apis[index].service
        call = self.apis[index].channel.unary_unary(
            "/muster.v1.JobService/GetServer", request_serializer=service.GetServerRequest.SerializeToString,
            response_deserializer=service.GetServerResponse.FromString)
        return call(service.GetServerRequest(client_protocol=1, client_version="test"), timeout=1)

    def leader(self):
        """Its index; None: none leads now."""
        for index in range(len(self.heads)):
            try:
                if not self.server(index).stands_by:
                    return index
            except Exception:  # grpc.RpcError: it is down, or starts over
                pass
        return None

    def wait_leader(self, other_than=None, deadline_s=harness.DEADLINE_S):
        """(index, how long it took)."""
        begin = time.monotonic()

        def found():
            index = self.leader()
            return None if index is None or index == other_than else [index]
        index = wait_until(found, lambda: "a coordinator leads:\n" + "\n".join(
            head.output()[-600:] for head in self.heads if head.process), deadline_s, every_s=0.05)[0]
        return index, time.monotonic() - begin

    @property
    def api(self):
        return self.apis[self.wait_leader()[0]]

    def add_worker(self, name, devices="cpu:2"):
        worker = harness.Daemon([os.path.join(BIN, "muster-worker"), "--coordinator", self.endpoint, "--name", name, "--devices",
                                 devices, "--state-dir", self.case.path("w-" + name)], dict(self.case.env),
                                self.case.path(name + ".out"))
        self.case.daemons.append(worker)
        self.workers[name] = worker.start()

    def wait_nodes(self, *names):
        service = self.apis[0].service

        def registered():
            nodes = self.api.unary("ListNodes", service.ListNodesRequest(), service.ListNodesResponse).nodes
            return {node.record.facts.name for node in nodes if node.record.connected} >= set(names)
        wait_until(registered, lambda: f"nodes {names}: " + "".join(each.output()[-800:] for each in self.workers.values()))

    # ---------------------------------------------------------------- what fails

    def kill_leader(self):
        index, _ = self.wait_leader()
        self.heads[index].kill9()
        _, took = self.wait_leader(other_than=index)
        self.heads[index].start()
        return took

    def pause_leader(self, seconds):
        index, _ = self.wait_leader()
        os.kill(self.heads[index].pid, signal.SIGSTOP)
        begin = time.monotonic()
        _, took = self.wait_leader(other_than=index)
        time.sleep(max(0.0, seconds - (time.monotonic() - begin)))
        os.kill(self.heads[index].pid, signal.SIGCONT)
        return took
