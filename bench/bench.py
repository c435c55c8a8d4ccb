#!/usr/bin/env python3
"""`./dev bench [NAME…]`: Muster and its peers, on this machine, in the same run.

Method: both sides are warmed up, then measured alternately (A B A B …); the median and the spread of each
are printed with their ratio and the target. A peer that is not installed is reported as absent, never
estimated. Durable is compared with durable, with the same logs kept. `--json FILE` keeps the raw values.
"""
import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from checkpoint_bench import bench_checkpoint as measure_checkpoint  # noqa: E402
from code_bench import bench_code as measure_code  # noqa: E402
import harness  # noqa: E402  (the daemons of the benchmarks are started as in the tests)
from harness import JOBCTL, wait_until  # noqa: E402
from heads_bench import bench_heads as measure_heads  # noqa: E402
from objects_bench import bench_objects as measure_objects  # noqa: E402
from page_bench import bench_page as measure_page  # noqa: E402
from sampling_bench import bench_sampling as measure_sampling, cpu_s  # noqa: E402
from scale_bench import bench_scale as measure_scale  # noqa: E402
from store_bench import bench_store as measure_store  # noqa: E402
from tls_bench import bench_tls as measure_tls  # noqa: E402
from exported_bench import bench_exported  # noqa: E402
from trainer_bench import bench_trainer  # noqa: E402
from schedule_bench import bench_schedule as measure_schedule  # noqa: E402
from tree_bench import bench_tree as measure_tree  # noqa: E402

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


class Stage(harness.Case):
    """A test case's directory, daemons and cleanup, for one benchmark."""

    def __init__(self, below="/tmp"):
        super().__init__()
        self.below = below

    def runTest(self):
        pass

    def __enter__(self):
        self.setUp()
        return self

    def __exit__(self, *exception):
        self.doCleanups()


class Table:
    """Collects rows; each is printed immediately."""

    def __init__(self):
        self.rows = []
        print(f"{'benchmark':34} {'muster':>18} {'peer':>26} {'ratio':>8}  target", flush=True)

    def row(self, name, unit, values, target, good, peer="", peer_values=None, note=""):
        """`good(median, peer median or None)` returns whether the target is met."""
        median = statistics.median(values)
        other = statistics.median(peer_values) if peer_values else None
        ratio = f"{median / other:.3f}" if other else "–"
        peer_text = f"{peer} {other:.4g} {unit}" if other else (f"{peer} absent" if peer else "–")
        verdict = "met" if good(median, other) else "MISSED"
        if other is None and "×" in target and peer:
            verdict = "not compared"
        spread = f"±{(max(values) - min(values)) / 2:.2g}" if len(values) > 1 else ""
        if target == "reported":
            verdict = ""
        print(f"{name:34} {median:>9.4g} {unit}{spread:>6} {peer_text:>26} {ratio:>8}  {target}"
              f"{': ' + verdict if verdict else ''}{'  (' + note + ')' if note else ''}", flush=True)
        self.rows.append({"name": name, "unit": unit, "values": values, "peer": peer, "peer_values": peer_values,
                          "target": target, "verdict": verdict, "note": note})


def timed(command, env=None, **options):
    started = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, **options)
    return time.perf_counter() - started


def has_slurm():
    """Whether a Slurm is here that answers; its programs are installed for a test, too, without any daemon."""
    return shutil.which("srun") is not None and subprocess.run(
        ["sinfo"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def in_turns(repeats, *sides):
    """Each side is a callable returning one value, or None (absent). Warmed up once, then A B A B …"""
    values = [[] for _ in sides]
    for turn in range(repeats + 1):
        for side, kept in zip(sides, values):
            if side is not None:
                value = side()
                if turn:
                    kept.append(value)
    return values


def mpirun_command():
    if not shutil.which("mpirun"):
        return None
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "-n", "2", "true"]


def bench_launch(table):
    """Two ranks of `true`, from start to end of the command: private and cold, and with the coordinator up."""
    with Stage() as stage:
        muster = stage.private()
        line = [JOBCTL, "run", "-n", "2", "--", "true"]
        mpirun = mpirun_command()
        srun = ["srun", "-n", "2", "true"] if has_slurm() else None

        def torchrun():
            return timed([*TORCHRUN, "--nproc-per-node", "2", "--no-python", "true"])
        cold, torch_values, mpi_values, srun_values = in_turns(
            5, lambda: timed(line, muster.env), torchrun, mpirun and (lambda: timed(mpirun)),
            srun and (lambda: timed(srun)))
        muster.jobctl("up")
        warm, = in_turns(9, lambda: timed(line, muster.env))
        muster.jobctl("down")
        table.row("launch, private coordinator", "s", cold, "≤ 0.1 × torchrun", lambda a, b: a <= 0.1 * b, "torchrun",
                  torch_values)
        table.row("launch, coordinator up", "s", warm, "≤ 0.1 × torchrun", lambda a, b: a <= 0.1 * b, "torchrun",
                  torch_values)
        table.row("launch, coordinator up", "s", warm, "≤ 1.0 × mpirun", lambda a, b: b is not None and a <= b,
                  "mpirun", mpi_values)
        table.row("launch, coordinator up", "s", warm, "≤ 0.5 × srun", lambda a, b: b is not None and a <= 0.5 * b,
                  "srun", srun_values)


def bench_submit(table):
    """Durable submits: one pipelined connection, one by one, and through the command line."""
    load = os.path.join(harness.BIN, "bench", "bench_submit")

    def measure(cluster, count, window):
        done = subprocess.run([load, cluster.endpoint, str(count), str(window)], check=True, capture_output=True,
                              text=True, timeout=300)
        return json.loads(done.stdout)
    with Stage() as stage:
        cluster = harness.Cluster(stage).start()  # no worker: the jobs are queued, durable and counted
        measure(cluster, 500, 64)
        piped = [measure(cluster, 5000, 512) for _ in range(3)]
        single = [measure(cluster, 500, 1) for _ in range(3)]
        table.row("submits/s, one connection, piped", "/s", [run["rate"] for run in piped], "≥ 5000 /s",
                  lambda a, _: a >= 5000, note=f"p99 {statistics.median(run['p99_ms'] for run in piped):.1f} ms")
        table.row("submit, one by one", "ms", [run["p50_ms"] for run in single], "reported", lambda a, _: True,
                  note=f"p99 {statistics.median(run['p99_ms'] for run in single):.2f} ms")
    with Stage() as stage:
        cluster = harness.Cluster(stage).start()
        line = [JOBCTL, "submit", "-n", "1", "--queue-anyway", "--", "true"]
        script = tempfile.NamedTemporaryFile("w", suffix=".sh")
        script.write("#!/bin/sh\ntrue\n")
        script.flush()
        sbatch = ["sbatch", "-o", "/dev/null", script.name] if has_slurm() else None
        ours, theirs = in_turns(50, lambda: timed(line, cluster.env) * 1000,
                                sbatch and (lambda: timed(sbatch) * 1000))
        table.row("jobctl submit", "ms", ours, "≤ 1.0 × sbatch", lambda a, b: b is not None and a <= b, "sbatch",
                  theirs, note="7.8 ms was measured for sbatch on 2 cores")
        listing, = in_turns(50, lambda: timed([JOBCTL, "ls"], cluster.env) * 1000)
        table.row("jobctl ls", "ms", listing, "≤ 10 ms", lambda a, _: a <= 10)


def bench_jobs(table):
    """Short one-rank jobs, with their logs and final states: on the disk, and in memory, where a file costs little."""
    for name, below in (("on disk", "/tmp"), ("in memory", "/dev/shm")):
        rounds = [short_jobs(300, below) for _ in range(3)]
        table.row(f"short jobs completed/s, {name}", "/s", [each[0] for each in rounds], "≥ 400 /s",
                  lambda a, _: a >= 400)
        for number, part in enumerate(("coordinator", "worker", "shim and rank"), 1):
            table.row(f"  CPU of a job: {part}", "ms", [each[number] for each in rounds], "reported",
                      lambda *_: True)
    floor = [started_and_ended(100) for _ in range(3)]
    table.row("  floor: a shim and a rank that end", "ms", floor, "reported", lambda *_: True,
              note="fork and exec of both, nothing else")


def short_jobs(count, below):
    """Jobs a second, and ms of CPU a job: coordinator, worker, its children. The submitter's are not in them."""
    load = os.path.join(harness.BIN, "bench", "bench_submit")
    with Stage(below) as stage:
        cluster = harness.Cluster(stage).start()
        worker = cluster.add_worker("node1", f"cpu:{max(4, 2 * (os.cpu_count() or 1))}")

        def used():
            return [cpu_s(cluster.coordinator.pid), cpu_s(worker.pid), cpu_s(worker.pid, of_children=True)]
        workdir = stage.path("work")
        os.mkdir(workdir)
        before, started = used(), time.perf_counter()
        subprocess.run([load, cluster.endpoint, str(count), "128"], check=True, stdout=subprocess.DEVNULL, cwd=workdir)
        wait_until(lambda: sum(job.state == harness.SUCCEEDED for job in cluster.api.list()) == count,
                   "all short jobs are over", 120, every_s=0.05)
        rate = count / (time.perf_counter() - started)
        return [rate, *(1000 * (after - was) / count for after, was in zip(used(), before))]


def started_and_ended(count):
    """ms of CPU of a shim that refuses its arguments and of `true`, each started and waited for."""
    before = os.times()
    for _ in range(count):
        for command in ([os.path.join(harness.BIN, "muster-shim")], ["true"]):
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return 1000 * (after.children_user - before.children_user + after.children_system - before.children_system) / count


def bench_exit(table):
    """From SIGKILL of a rank to the event at the client."""
    with Stage() as stage:
        cluster = harness.Cluster(stage).start()
        cluster.add_worker("node1", "cpu:2")
        service = cluster.api.service

        def ours():
            marker = f"EXITBENCH={time.monotonic_ns()}"
            job = cluster.submit("-n", "2", "-e", marker, "--", "sleep", "600")
            cluster.wait_for(job, harness.RUNNING)
            pids = [pid for pid, line in harness.processes_with(marker).items() if line.startswith("sleep")]
            stream = cluster.api.stream("WatchJob", service.WatchJobRequest(job=job), service.JobUpdate)
            next(stream)
            started = time.perf_counter()
            os.kill(pids[0], signal.SIGKILL)
            for update in stream:
                if any(part.exits for attempt in update.record.attempts for part in attempt.parts):
                    took = time.perf_counter() - started
                    break
            stream.cancel()
            cluster.wait_over(job)
            return took * 1000

        def torchrun():
            marker = f"EXITBENCH={time.monotonic_ns()}"
            name, value = marker.split("=")
            process = subprocess.Popen([*TORCHRUN, "--nproc-per-node", "2", "--no-python", "sleep", "600"],
                                       env={**os.environ, name: value}, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            pids = wait_until(lambda: [pid for pid, line in harness.processes_with(marker).items()
                                       if line.startswith("sleep")][:2], "torchrun's ranks run")
            time.sleep(0.5)  # its monitor loop is running
            started = time.perf_counter()
            os.kill(pids[0], signal.SIGKILL)
            process.wait()
            return (time.perf_counter() - started) * 1000
        values, peer = in_turns(5, ours, torchrun)
        table.row("exit seen at the client", "ms", values, "≤ 20 ms and ≤ 0.2 × torchrun",
                  lambda a, b: a <= 20 and a <= 0.2 * b, "torchrun", peer)


def bench_logs(table):
    """1 GB in 100-byte lines, from one rank and from eight, to the client; compared with the same writers into plain files."""
    writer = os.path.join(harness.BIN, "bench", "bench_writer")
    lines = 10_000_000
    with Stage() as stage:
        cluster = harness.Cluster(stage).start()
        cluster.add_worker("node1", "cpu:8")
        for ranks in (1, 8):
            written, dropped = lines * 100, []

            def plain():
                paths = [stage.path(f"plain-{rank}.log") for rank in range(ranks)]
                started = time.perf_counter()
                files = [open(path, "wb") for path in paths]
                writers = [subprocess.Popen([writer, str(lines // ranks)], stdout=file) for file in files]
                for process, file in zip(writers, files):
                    process.wait()
                    os.fsync(file.fileno())
                    file.close()
                took = time.perf_counter() - started
                for path in paths:
                    os.remove(path)
                return written / took / 1e6

            def ours():
                started = time.perf_counter()
                job = cluster.submit("-n", ranks, "--", writer, lines // ranks)
                follower = subprocess.Popen([JOBCTL, "logs", "-f", "--raw", job], env=cluster.env,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                count = subprocess.run(["wc", "-c"], stdin=follower.stdout, capture_output=True, check=True)
                follower.wait()
                took = time.perf_counter() - started
                dropped.append(written - int(count.stdout))
                cluster.jobctl("rm", job, "--yes")
                return written / took / 1e6
            values, peer = in_turns(3, ours, plain)
            table.row(f"log, 1 GB of {ranks} rank{'s' if ranks > 1 else ''}, to the client", "MB/s", values,
                      "≥ 0.6 × plain file", lambda a, b: a >= 0.6 * b, "file", peer,
                      note=f"{max(dropped)} bytes dropped")


def bench_grep(table):
    """Searching 1 GB of a rank's output with jobctl, and the same bytes in a plain file with ripgrep."""
    writer = os.path.join(harness.BIN, "bench", "bench_writer")
    lines = 10_000_000
    with Stage() as stage:
        cluster = harness.Cluster(stage).start()
        cluster.add_worker("node1", "cpu:1")
        job = cluster.submit("-n", 1, "--", writer, lines)
        cluster.wait_for(job, harness.SUCCEEDED, deadline_s=300)
        wait_until(lambda: cluster.jobctl("logs", job, "--tail", 1).stdout.find(f"{lines - 1:010}") > 0,
                   "the whole output", 60)
        plain = stage.path("plain.log")
        with open(plain, "wb") as file:
            subprocess.run([writer, str(lines)], stdout=file, check=True)
        ripgrep = shutil.which("rg")
        for name, pattern in (("literal", "step 0009999999"), ("expression", "step 000999[0-9]{3}9 loss"),
                              ("alternatives", "(0009999998|0009999999) loss"), ("10 % of lines", "step [0-9]{9}7")):
            def ours():
                return lines * 100 / 1e6 / timed([JOBCTL, "logs", job, "--grep", pattern], cluster.env)

            def theirs():
                try:
                    return lines * 100 / 1e6 / timed([ripgrep, pattern, plain])
                except subprocess.CalledProcessError:
                    return None
            # ripgrep exits with 1 if it finds nothing.
            found = ripgrep and subprocess.run([ripgrep, "-c", pattern, plain], capture_output=True).returncode == 0
            values, peer = in_turns(3, ours, theirs if found else None)
            table.row(f"grep in 1 GB, {name}", "MB/s", values, "≥ 0.5 × ripgrep",
                      lambda a, b: b is not None and a >= 0.5 * b, "ripgrep", peer)


def bench_restart(table):
    """kill -9 of the coordinator under 100 running jobs, until it serves again and until it has adopted all jobs."""
    with Stage() as stage:
        cluster = harness.Cluster(stage).start()
        cluster.add_worker("node1", "cpu:100")
        for _ in range(100):
            cluster.submit("-n", "1", "--", "sleep", "600")
        wait_until(lambda: sum(job.state == harness.RUNNING for job in cluster.api.list()) == 100, "100 jobs run", 120)
        marks = set(harness.processes_with(stage.mark))
        serving, attached = [], []
        for _ in range(3):
            cluster.coordinator.kill9()
            started = time.perf_counter()
            cluster.restart_coordinator()
            serving.append(time.perf_counter() - started)
            wait_until(lambda: cluster.nodes()["node1"].record.state == 1, "the worker is back", every_s=0.005)
            attached.append(time.perf_counter() - started)
        jobs = cluster.api.list()
        disturbed = sum(job.state != harness.RUNNING or job.attempts != 1 for job in jobs)
        ranks_gone = len([pid for pid in marks if not os.path.exists(f"/proc/{pid}")]) - 1  # the first coordinator
        table.row("restart to serving, 100 jobs", "s", serving, "≤ 2 s", lambda a, _: a <= 2 and disturbed == 0,
                  note=f"{disturbed} jobs disturbed, {ranks_gone} processes lost")
        table.row("restart to worker attached", "s", attached, "≤ 2 s", lambda a, _: a <= 2)
        cluster.jobctl("cancel", *[job.name for job in jobs], "--grace", "1s", timeout=120)
        wait_until(lambda: all(job.state in harness.OVER for job in cluster.api.list()), "all are cancelled", 60)


def bench_idle(table):
    """Memory of an idle coordinator and worker."""
    with Stage() as stage:
        cluster = harness.Cluster(stage).start()
        cluster.add_worker("node1", "cpu:2")
        cluster.wait_for(cluster.submit("-n", "1", "--", "true"), harness.SUCCEEDED)
        time.sleep(2)  # idle
        table.row("coordinator idle RSS", "MB", [harness.rss_bytes(cluster.coordinator.pid) / 1e6], "≤ 60 MB",
                  lambda a, _: a <= 60)
        table.row("worker idle RSS", "MB", [harness.rss_bytes(cluster.workers["node1"].pid) / 1e6], "reported",
                  lambda a, _: True)


def bench_sampling(table):
    """What it costs to sample ranks once a second."""
    with Stage() as stage:
        measure_sampling(table, stage)


def bench_page(table):
    """The page: lists, many watchers, long curves, a browser."""
    with Stage() as stage:
        measure_page(table, stage)


def bench_tls(table):
    """TLS with client certificates against plaintext TCP, and submits under a flood of strangers."""
    measure_tls(table, in_turns, timed)


def bench_tree(table):
    """Directories sent with jobs: snapshots, objects, unpacking."""
    measure_tree(table, os.path.join(harness.BIN, "bench", "bench_tree"))


def bench_schedule(_):
    """The scheduler with simulated nodes: what turns cost, and the waits of a trace's jobs."""
    measure_schedule(os.path.join(harness.BIN, "bench", "bench_schedule"), **trace_options)


def bench_code(table):
    """Directories sent by submits, beside rsync."""
    with Stage() as stage:
        measure_code(table, stage)


def bench_store(table):
    """The store that ranks meet at, with simulated ranks, against torch's TCPStore with libuv."""
    table.rows += measure_store(os.path.join(harness.BIN, "muster-rendezvous"),
                                os.path.join(harness.BIN, "bench", "bench_store"))


def bench_scale(_):
    """A coordinator with simulated workers, up to 4,000: what costs what."""
    with Stage() as stage:
        measure_scale(stage)


def bench_heads(table):
    """Coordinators that replace each other: failover, and submits on etcd beside SQLite alone."""
    with Stage() as stage:
        measure_heads(table, stage, in_turns)


def bench_checkpoint(table):
    """A checkpoint into the coordinator's own store."""
    with Stage() as stage:
        measure_checkpoint(table, stage, in_turns)


def bench_objects(table):
    """Checkpoints on an object store, beside rclone."""
    with Stage() as stage:
        measure_objects(table, stage, in_turns)


trace_options = {}  # of the command line
BENCHES = {"launch": bench_launch, "submit": bench_submit, "jobs": bench_jobs, "exit": bench_exit,
           "logs": bench_logs, "grep": bench_grep, "restart": bench_restart, "idle": bench_idle,
           "sampling": bench_sampling, "page": bench_page, "tls": bench_tls, "tree": bench_tree,
           "schedule": bench_schedule,
           "code": bench_code, "store": bench_store, "scale": bench_scale, "heads": bench_heads,
           "checkpoint": bench_checkpoint, "objects": bench_objects,
           "trainer": bench_trainer, "exported": bench_exported}


def machine():
    def version(command):
        if not shutil.which(command[0]):
            return "absent"
        return subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0].strip()
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "?")
    torch_version = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"],
                                   capture_output=True, text=True).stdout.strip() or "absent"
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0],
            "torch": torch_version, "mpirun": version(["mpirun", "--version"]), "slurm": version(["sinfo", "--version"])}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="*", help=f"which ones: {', '.join(BENCHES)} (default: all)")
    parser.add_argument("--json", metavar="FILE", help="keep the raw values")
    parser.add_argument("--trace", metavar="FILE", help="schedule: replay this trace of jobs")
    parser.add_argument("--nodes", type=int, default=80, help="schedule: of the replay (80)")
    parser.add_argument("--devices", type=int, default=8, help="schedule: of each node (8)")
    parser.add_argument("--shares", default="", metavar="PROJECT=SHARE,…", help="schedule: quotas, scaled to the cluster")
    options = parser.parse_args()
    trace_options.update(trace=options.trace, nodes=options.nodes, devices=options.devices, shares=options.shares)
    unknown = [name for name in options.name if name not in BENCHES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]}; there are {', '.join(BENCHES)}")
    facts = machine()
    print(" · ".join(f"{key} {value}" for key, value in facts.items()))
    table, failed = Table(), []
    for name in options.name or BENCHES:
        try:
            BENCHES[name](table)
        except Exception as error:  # one failing benchmark must not hide the others
            failed.append(name)
            print(f"{name}: could not be measured: {type(error).__name__}: {error}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": facts, "rows": table.rows}, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
