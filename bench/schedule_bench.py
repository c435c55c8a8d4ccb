"""The scheduler alone, in one process with simulated nodes and a simulated clock: what a turn costs while very many jobs
wait, and how long the jobs of a trace wait under each policy."""
import json
import subprocess

LOADS = ((1_000, 1_000), (10_000, 1_000), (10_000, 10_000))  # queued jobs, nodes


def lines_of(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def bench_schedule(program, trace=None, nodes=80, devices=8, shares=""):
    for queued, count in LOADS:
        found = lines_of(program, "load", queued, count)
        print(f"{found['queued']} queued, {found['running']} running on {count} nodes: a turn p50 "
              f"{found['turn_p50_us'] / 1000:.2f} ms, p99 {found['turn_p99_us'] / 1000:.2f} ms, longest "
              f"{found['turn_max_us'] / 1000:.2f} ms", flush=True)
    if not trace:
        print("with --trace FILE [--nodes N] [--devices N] [--shares PROJECT=SHARE,…]: the waits of its jobs (a CSV with "
              "submit_s, duration_s, gpus or procs, and perhaps vc and estimate_s)")
        return
    policies = [("strict order", "strict", "none"), ("places held, no estimates", "backfill", "none"),
                ("places held, true estimates", "backfill", "true")]
    if shares:
        policies += [("quotas, nothing gives way", shares, "none"), ("quotas, borrowed jobs give way", f"reclaim:{shares}", "none")]
    print(f"{'':32} {'mean wait':>9} {'p95':>7} {'longest':>8} {'≥ 8 each':>9} {'mean JCT':>9} {'gave way':>9} {'jobs/s':>7}   (hours)")
    for name, policy, estimates in policies:
        found = lines_of(program, "replay", trace, nodes, devices, policy, estimates)
        print(f"{name:32} {found['mean_wait_h']:9.2f} {found['p95_wait_h']:7.1f} {found['max_wait_h']:8.1f} "
              f"{found['mean_wait_8_h']:9.2f} {found['mean_jct_h']:9.2f} {found['preempted'] / found['jobs']:9.2%} "
              f"{found['jobs_per_s']:7.0f}", flush=True)
