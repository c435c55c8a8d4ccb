"""`./dev bench trainer`: the trainer SDK and the same program on Hugging Face Accelerate.

Ranks are started by hand with torchrun's variables on both sides, one OpenMP thread each, so that no
launcher is measured. Both sides train the same model with the same fused AdamW kernel over the same data in memory;
the first steps of each process are excluded.
"""
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OURS = [os.path.join(os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build")), "bin", "bench", "bench_trainer")]
TWIN = [sys.executable, "-W", "ignore", os.path.join(ROOT, "bench", "trainer_twin.py")]
TURNS = 3
LIMIT_S = 240  # of a round
ATTEMPTS = 3  # of a round of the peer
LARGE_GB = 14  # of memory, for one parameter of 2.2 GB


class Rounds:
    """The peer's rounds that failed and were repeated, and those that printed a result and aborted at their end."""
    repeated = 0
    aborted = 0


def start(command, arguments, ranks):
    """Runs the ranks to their end; returns [(exit code, stdout, stderr)] and when they were started, on the same clock
    that they use."""
    with socket.socket() as held:  # holds the port for this bench until the ranks bind it
        held.bind(("", 0))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held.getsockname()[1]),
                       "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
        started = time.monotonic()
        processes = [subprocess.Popen([*command, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                     for rank in range(ranks)]
        outputs = []
        try:
            for process in processes:
                outputs.append(process.communicate(timeout=LIMIT_S))
        except subprocess.TimeoutExpired:
            outputs += [("", f"took more than {LIMIT_S} s")] * (ranks - len(outputs))
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
    return [(process.returncode, *output) for process, output in zip(processes, outputs)], started


def printed(output):
    """The JSON object on the last line; None if there is none."""
    try:
        return json.loads(output.strip().split("\n")[-1])
    except ValueError:
        return None


def run(command, *arguments, ranks=2):
    """What rank 0 printed, and when the ranks were started. The peer's result counts once it is printed: torch's threads
    may abort its process at the end (pytorch/pytorch#179291). Another failure of the peer repeats the round; one of ours is
    an error."""
    is_peer = command is TWIN
    attempts = ATTEMPTS if is_peer else 1
    for _ in range(attempts):
        results, started = start(command, arguments, ranks)
        result = printed(results[0][1])
        failed = [errors for code, _, errors in results if code]
        if result is not None and (is_peer or not failed):
            Rounds.aborted += bool(failed)
            return result, started
        Rounds.repeated += is_peer
    raise RuntimeError(f"{' '.join(map(str, [*command, *arguments]))} failed {attempts} times: "
                       f"{(failed or ['it printed no result'])[0].strip()[-600:]}")


def bench_parts(table, data):
    """Where a step of the transformer spends its time, on both sides, and the least that it could take."""
    arguments = ("transformer_wide", 8, 20, 100, data)
    names = ("forward", "backward", "waiting", "optimizer", "rest")
    sides = {name: ([], []) for name in names}
    steps, floors = ([], []), []
    for _ in range(TURNS):
        for side, command in enumerate((OURS, TWIN)):
            result, _ = run(command, "steps", *arguments)
            steps[side].append(1000 / result["steps_per_s"])
            for name in names:
                sides[name][side].append(result["parts_ms"][name])
        floor, _ = run(OURS, "floor", *arguments)
        floors.append(floor["loop_ms"] + floor["reduction_ms"])
    for name in names:
        table.row(f"transformer, {name}", "ms", sides[name][0], "reported", lambda a, b: True, "Accelerate",
                  sides[name][1])
    table.row("transformer, step", "ms", steps[0], "reported", lambda a, b: True, "Accelerate", steps[1])
    table.row("transformer, step", "ms", steps[0], "≤ 1.05 × floor", lambda a, b: a <= 1.05 * b, "floor", floors,
              note="the bare loop on each rank, and one all-reduce")


def bench_steps(table, data):
    """Steps per second and, from the same runs, the time to the first step and the peak memory."""
    starts, memory = ([], []), ([], [])
    for label, model, batch, warm_up, steps, target in (
            ("digits, 32 a rank", "digits", 32, 50, 400, 1.2), ("digits, 8 a rank", "digits", 8, 50, 800, 1.4),
            ("transformer, 8 a rank", "transformer_wide", 8, 20, 120, 1.0)):
        rates = ([], [])
        for _ in range(TURNS):
            for side, command in enumerate((OURS, TWIN)):
                result, started = run(command, "steps", model, batch, warm_up, steps, data)
                rates[side].append(result["steps_per_s"])
                if model == "digits":
                    starts[side].append(result["first_step"] - started)
                memory[side].append(result["peak_rss_mb"])
        table.row(label, "/s", rates[0], f"≥ {target} × Accelerate", lambda a, b, t=target: a >= t * b, "Accelerate",
                  rates[1])
    table.row("start to first step", "s", starts[0], "≤ 0.2 × Accelerate", lambda a, b: a <= 0.2 * b, "Accelerate",
              starts[1])
    table.row("peak memory of rank 0", "MB", memory[0], "≤ 1.0 × Accelerate", lambda a, b: a <= b, "Accelerate",
              memory[1])


def bench_sharding(table, data):
    """Sharded models: each stage compared with DDP here and with torch's FSDP (which Accelerate wraps)."""
    kinds = {"DDP": (OURS, ()), "zero1": (OURS, ("zero1",)), "zero2": (OURS, ("zero2",)), "zero3": (OURS, ("zero3",)),
             "FSDP grad": (TWIN, ("grad",)), "FSDP full": (TWIN, ("full",))}
    for label, model, batch in (("wide", "transformer_wide", 8), ("293 tensors", "transformer_deep", 2)):
        times = {kind: [] for kind in kinds}
        for _ in range(TURNS):
            for kind, (command, more) in kinds.items():
                result, _ = run(command, "steps", model, batch, 10, 60, data, *more)
                times[kind].append(1000 / result["steps_per_s"])
        for stage, peer in (("zero1", "FSDP grad"), ("zero2", "FSDP grad"), ("zero3", "FSDP full")):
            table.row(f"transformer, {label}, {stage}", "ms", times[stage], "≤ 1.0 × FSDP", lambda a, b: a <= b, peer,
                      times[peer])
            table.row(f"transformer, {label}, {stage}", "ms", times[stage], "reported", lambda a, b: True, "DDP",
                      times["DDP"])


def bench_small_layers(table, data):
    """300 layers of 272 weights: with up to 300 units, the cost of a unit shows."""
    times = {stage: [] for stage in ("DDP", "zero1", "zero2", "zero3")}
    for _ in range(TURNS):
        for stage, values in times.items():
            result, _ = run(OURS, "steps", "small_layers", 16, 10, 60, data, *([] if stage == "DDP" else [stage]))
            values.append(1000 / result["steps_per_s"])
    for stage in ("zero1", "zero2", "zero3"):
        table.row(f"300 small layers, {stage}", "ms", times[stage], "≤ 2.0 × DDP", lambda a, b: a <= 2 * b, "DDP",
                  times["DDP"])


def bench_overhead(table, data):
    for model, batch, steps in (("digits", 32, 40), ("digits", 8, 80)):
        result, _ = run(OURS, "overhead", model, batch, 24, steps, data, ranks=1)
        table.row(f"one rank, {model}, {batch} a step", "ms", result["muster_ms"], "≤ 1.02 × bare LibTorch",
                  lambda a, b: a <= 1.02 * b, "bare loop", result["bare_ms"])


def bench_checkpoint(table):
    """240 MB of weights and moments on 2 ranks; the time for which training is blocked."""
    kinds = {"async": [], "blocking": [], "dcp": []}
    for _ in range(TURNS - 1):
        for kind, values in kinds.items():
            with tempfile.TemporaryDirectory(prefix="muster-bench-") as directory:
                command = TWIN if kind == "dcp" else OURS
                arguments = [directory, 20, 4] + ([] if kind == "dcp" else [kind])
                values += run(command, "checkpoint", *arguments)[0]["stalls_s"]
    table.row("checkpoint stall", "s", kinds["async"], "≤ 0.1 × blocking", lambda a, b: a <= 0.1 * b, "blocking",
              kinds["blocking"])
    table.row("checkpoint stall", "s", kinds["async"], "≤ 1.0 × dcp.async_save", lambda a, b: a <= b,
              "async_save", kinds["dcp"])


def bench_logging(table, data):
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as directory:
        result, _ = run(OURS, "logging", 40, 25, directory, data, ranks=1)
    change = statistics.median(a - b for a, b in zip(result["with_ms"], result["without_ms"])) * 1000
    step = statistics.median(result["without_ms"])
    # The difference between whole loops is noisier than the effect, so the calls themselves are measured.
    table.row("10 scalars a step", "µs", result["calls_us"], "≤ 50 µs (1 % of 5 ms)", lambda a, _: a <= 50,
              note=f"whole step {step:.2f} ms without, {change:+.0f} µs with")


MANY = 100_000


def bench_many_tensors(table):
    """100,000 tensors of four elements in two ranks; a step against one process without the SDK."""
    stages = ("none", "zero1", "zero2", "zero3")
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as directory:
        for kind in ("flat", "layers"):
            bare, ours = [], {stage: [] for stage in stages}
            for stage in stages:
                bare += run(OURS, "many", MANY, kind, "bare", 3, directory, ranks=1)[0]["step_s"][1:]
                ours[stage] = run(OURS, "many", MANY, kind, stage, 3, os.path.join(directory, kind + stage))[0]
            for stage in stages:
                label = f"{MANY} tensors, {kind}, {'DDP' if stage == 'none' else stage}"
                table.row(f"{label}, prepare", "s", ours[stage]["prepare_s"], "≤ 3 s", lambda a, _: a <= 3)
                # The third step on: the first allocates, the second rebuilds the buckets.
                table.row(f"{label}, step", "s", ours[stage]["step_s"][2:], "≤ 1.5 × one process",
                          lambda a, b: a <= 1.5 * b, "torch alone", bare)
        stored = 40_000
        for stage in stages:
            result, _ = run(OURS, "many", stored // 4, "flat", stage, 1, os.path.join(directory, "save" + stage))
            table.row(f"save_state, {stored} tensors, {'DDP' if stage == 'none' else stage}", "µs",
                      [seconds / stored * 1e6 for seconds in result["save_s"]], "≤ 20 µs a tensor",
                      lambda a, _: a <= 20)


def bench_large_parameter(table):
    """One parameter of more than 2^31 bytes: trained by SGD on two ranks, saved, resharded to zero2."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        available = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) / 1e6
    if available < LARGE_GB:
        print(f"one parameter of 2.2 GB: skipped, it needs {LARGE_GB} GB of memory and {available:.0f} GB are available",
              flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as directory:
        result, _ = run(OURS, "large", directory)
    table.row("one parameter of 2.2 GB: right", "", [float(result["right"])], "1", lambda a, _: a == 1,
              note=f"step {result['step_s']:.1f} s, save {result['save_s']:.1f} s, load in zero2 "
                   f"{result['load_s']:.1f} s, peak of a rank {result['peak_rss_mb'] / 1000:.1f} GB")



def bench_trainer(table):
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as directory:
        twin = os.path.join(ROOT, "tests", "trainer", "parity", "parity_twin.py")
        subprocess.run([sys.executable, twin, "--inputs", directory], check=True)
        data = os.path.join(directory, "data.safetensors")
        bench_steps(table, data)
        bench_sharding(table, data)
        bench_small_layers(table, data)
        bench_overhead(table, data)
        bench_checkpoint(table)
        bench_logging(table, data)
        bench_parts(table, data)
        bench_many_tensors(table)
        bench_large_parameter(table)
    print(f"rounds of Accelerate that failed and were repeated: {Rounds.repeated}; that aborted after their result: "
          f"{Rounds.aborted}", flush=True)
