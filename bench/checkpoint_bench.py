"""A checkpoint of 1 GiB, from its rename to its commit in the coordinator's own store: sent, hashed on both sides, synced.
The peer is what a careful person does by hand: cp, sync, a hash of the copy."""
import glob
import hashlib
import mmap
import os
import subprocess
import sys
import time

import harness
from harness import wait_until
from objects_bench import BYTES, SAVE, is_committed, make_file

# Waits, with everything written, until a file is gone.
SAVE_WHEN_TOLD = SAVE.replace("os.rename(", "while os.path.exists(sys.argv[2]): time.sleep(0.001)\nos.rename(")


def touch_memory():
    """A virtual machine's free memory may be its host's until it is used: then its first use costs more than the copy."""
    with mmap.mmap(-1, 3 * BYTES) as memory:
        for _ in range(0, 3 * BYTES, 1 << 20):
            memory.write(bytes(1 << 20))


def hashed(path):
    """By OpenSSL, which uses the processor's instructions; sha256sum takes four times as long."""
    with open(path, "rb") as file:
        hashlib.file_digest(file, "sha256")


def bench_checkpoint(table, stage, in_turns):
    cluster = harness.Cluster(stage).start()
    cluster.add_worker("node1")
    number = 0

    def fresh():
        nonlocal number
        number += 1
        path = stage.path(f"file{number}")
        make_file(path, number)
        return path

    def ours():
        path, hold = fresh(), stage.path("hold")
        open(hold, "w").close()
        job = cluster.submit("-n", "1", "--", sys.executable, "-c", SAVE_WHEN_TOLD, path, hold)
        drafts = os.path.join(cluster.directory, "w-node1", "attempts", "*", "checkpoints", "step-1.tmp", "payload.bin")
        wait_until(lambda: [os.path.getsize(draft) for draft in glob.glob(drafts)] == [BYTES], "it is written", 60)
        subprocess.run(["sync", *glob.glob(drafts)], check=True)
        touch_memory()
        os.remove(hold)
        wait_until(lambda: is_committed(cluster, job), "it is committed", 300, every_s=0.005)
        committed = time.monotonic()
        cluster.wait_for(job, harness.SUCCEEDED)
        published = float(cluster.api.logs(job)[0][(0, 0, 1)])
        os.remove(path)
        cluster.jobctl("rm", job, "--yes")
        return committed - published

    def by_hand():
        path = fresh()
        copy = stage.path("copy")
        touch_memory()
        began = time.monotonic()
        for command in (["cp", path, copy], ["sync", copy]):
            subprocess.run(command, check=True)
        hashed(copy)
        took = time.monotonic() - began
        os.remove(path)
        os.remove(copy)
        return took
    values, peer = in_turns(5, ours, by_hand)
    table.row(f"checkpoint of {BYTES >> 30} GiB, to commit", "s", values, "≤ 1.1 × by hand", lambda a, b: a <= 1.1 * b,
              "cp+sync+hash", peer)
