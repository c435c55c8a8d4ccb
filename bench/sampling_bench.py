"""What sampling ranks costs: the worker, the coordinator, the wire. Ranks sleep, so that the cores are free."""
import os
import time

import harness
from harness import wait_until

MEASURED_S = 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid, of_children=False):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    first = 13 if of_children else 11
    return (int(fields[first]) + int(fields[first + 1])) / TICKS_PER_S


def cpu_ms_per_s(*pids, seconds=MEASURED_S):
    """Processor milliseconds per second of each process over the next seconds."""
    before, began = [cpu_s(pid) for pid in pids], time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return [1000 * (cpu_s(pid) - used) / took for pid, used in zip(pids, before)]


def newest(cluster, job):
    from muster.v1 import sample_pb2
    request = sample_pb2.QuerySamplesRequest(job=job, newest=True)
    return [bucket.last for bucket in cluster.api.stream("QuerySamples", request, sample_pb2.SampleBucket)]


def bench_sampling(table, stage):
    cluster = harness.Cluster(stage).start()
    worker = cluster.add_worker("node1", "cpu:1000").pid
    coordinator = cluster.coordinator.pid
    time.sleep(2)
    idle_bytes = harness.rss_bytes(worker)
    idle_worker, idle_coordinator = cpu_ms_per_s(worker, coordinator)

    job = cluster.submit("-n", "8", "--", "sleep", "3600")
    cluster.wait_for(job, harness.RUNNING)
    wait_until(lambda: newest(cluster, job), "samples arrive")
    time.sleep(5)
    sampling_worker, = cpu_ms_per_s(worker)
    batch = newest(cluster, job)[0]
    reported = lambda *_: True  # noqa: E731
    table.row("worker idle", "ms/s", [idle_worker], "reported", reported)
    table.row("worker, 8 ranks sampled", "ms/s", [sampling_worker - idle_worker], "≤ 10 ms/s", lambda a, _: a <= 10,
              note="with its scans for checkpoints and event files")
    table.row("worker idle RSS", "MB", [idle_bytes / 1e6], "reported", reported)
    table.row("worker RSS, more while sampling", "KB", [(harness.rss_bytes(worker) - idle_bytes) / 1e3], "reported",
              reported, note="with all else that a running job needs")
    table.row("wire, per rank and second", "B", [len(batch.SerializeToString()) / 8], "reported", reported)
    cluster.jobctl("cancel", job, "--grace", "1s")
    cluster.wait_over(job)

    # As many batches as 125 nodes with 8 ranks each send.
    jobs = [cluster.submit("-n", "8", "--", "sleep", "3600") for _ in range(125)]
    for each in jobs:
        cluster.wait_for(each, harness.RUNNING, deadline_s=120)
    wait_until(lambda: newest(cluster, jobs[-1]), "samples arrive")
    time.sleep(5)
    loaded, = cpu_ms_per_s(coordinator)
    arrived = len(newest(cluster, ""))
    table.row("coordinator, 1,000 ranks", "ms/s", [loaded - idle_coordinator], "≤ 50 ms/s", lambda a, _: a <= 50,
              note=f"{arrived} attempts of 8 ranks, stored in three tiers")
    cluster.jobctl("cancel", *jobs, "--grace", "1s", timeout=120)
    wait_until(lambda: all(each.state in harness.OVER for each in cluster.api.list()), "all are cancelled", 120)
