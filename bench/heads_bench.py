"""Coordinators that replace each other on etcd: how long none answers when the leader dies, and what a durable submit
costs, beside the coordinator that is alone on its disk. The clients of these submits are threads of this program, as most
of a submit is spent in etcd; `submit` has what a coordinator alone can take."""
import concurrent.futures
import os
import random
import shutil
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "e2e"))
import harness  # noqa: E402
import heads  # noqa: E402
from harness import wait_until  # noqa: E402

sys.path.insert(0, os.path.join(harness.HERE, "heads_chaos"))
import etcd_api  # noqa: E402

LEASE_S = 5  # the default
KILLS, KILLS_WITH_ETCD = 20, 5
SUBMITS, CLIENTS = 300, 8


def start(stage, etcd, name, count):
    cluster = heads.Heads(stage, etcd, count=count, name=name)
    for head in cluster.heads:
        head.argv[head.argv.index("--lease") + 1] = f"{LEASE_S}s"
    return cluster.start()


def answers(cluster, index):
    """A call that only one that leads answers."""
    service = cluster.apis[index].service
    call = cluster.apis[index].channel.unary_unary(
        "/muster.v1.JobService/ListNodes", request_serializer=service.ListNodesRequest.SerializeToString,
        response_deserializer=service.ListNodesResponse.FromString)
    try:
        call(service.ListNodesRequest(), timeout=0.5)
        return True
    except Exception:  # grpc.RpcError: it stands by, or starts to lead
        return False


def registered(cluster, index):
    return cluster.heads[index].output().count(" registered head=")


def failover_s(cluster, etcd, with_etcd=False):
    """(seconds from the kill to the first answer, whether etcd elected meanwhile)."""
    leader, _ = cluster.wait_leader()
    member = etcd.leader()
    reader = etcd_api.Reader(etcd.endpoints[(member + 1) % heads.MEMBERS])
    before, joined = reader.raft_term(), registered(cluster, leader)
    time.sleep(random.uniform(0, LEASE_S / 5))  # anywhere between two renewals
    killed = time.monotonic()
    cluster.heads[leader].kill9()
    if with_etcd:
        etcd.members[member].kill9()
    others = [index for index in range(len(cluster.heads)) if index != leader]
    wait_until(lambda: any(answers(cluster, index) for index in others), "another one answers", 60, every_s=0.005)
    took = time.monotonic() - killed
    if with_etcd:
        etcd.members[member].start()
    cluster.heads[leader].start()
    wait_until(lambda: registered(cluster, leader) > joined, "it stands by", 60)
    elected = reader.raft_term() != before
    reader.close()
    return took, elected


def bench_failover(table, stage, etcd):
    cluster = start(stage, etcd, "failover", 3)
    stage_took = [failover_s(cluster, etcd) for _ in range(KILLS)]
    quiet = [took for took, elected in stage_took if not elected]
    disturbed = [took for took, elected in stage_took if elected]
    disturbed += [failover_s(cluster, etcd, with_etcd=True)[0] for _ in range(KILLS_WITH_ETCD)]
    limit = LEASE_S + 1
    table.row("failover, kill -9 of the leader", "s", quiet, f"≤ {limit} s (all)", lambda *_: max(quiet) <= limit,
              note=f"{len(quiet)} kills, max {max(quiet):.2f} s, lease {LEASE_S} s")
    table.row("failover, etcd elects meanwhile", "s", disturbed, "reported", lambda *_: True,
              note=f"{len(disturbed)} kills, max {max(disturbed):.2f} s")
    for head in cluster.heads:
        head.stop()


def submits_per_s(endpoint, clients):
    """(per second, median ms). Each client has a connection, and one submit at a time."""
    apis = [harness.Api(endpoint) for _ in range(clients)]
    service = apis[0].service
    took = []

    def load(number):
        request = service.SubmitRequest(queue_anyway=True)
        request.spec.command.append("true")
        request.spec.workdir = "/"
        request.spec.shape.processes = 1
        for index in range(SUBMITS):
            request.idempotency_key = f"{number}-{began}-{index}"
            sent = time.perf_counter()
            apis[number].unary("Submit", request, service.SubmitResponse)
            took.append(time.perf_counter() - sent)
    for api in apis:
        api.server()  # connected
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(load, range(clients)))
    rate = clients * SUBMITS / (time.perf_counter() - began)
    for api in apis:
        api.close()
    return rate, statistics.median(took) * 1000


def bench_submits(table, stage, etcd, in_turns):
    several = start(stage, etcd, "submits", 2)
    endpoint = several.endpoints[several.wait_leader()[0]]
    alone = harness.Cluster(stage).start()
    for clients in (1, CLIENTS):
        ours, peer = in_turns(3, lambda: submits_per_s(endpoint, clients), lambda: submits_per_s(alone.endpoint, clients))
        table.row(f"submits/s on etcd, {clients} client{'s' if clients > 1 else ''}", "/s", [rate for rate, _ in ours],
                  "reported", lambda *_: True, "SQLite", [rate for rate, _ in peer],
                  note=f"p50 {statistics.median(ms for _, ms in ours):.2f} ms, alone "
                       f"{statistics.median(ms for _, ms in peer):.2f} ms")


def bench_heads(table, stage, in_turns):
    if shutil.which("etcd") is None:
        print("heads: there is no etcd here (the package etcd-server)", flush=True)
        return
    etcd = heads.Etcd(stage)
    bench_submits(table, stage, etcd, in_turns)
    bench_failover(table, stage, etcd)
