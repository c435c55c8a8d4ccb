"""Checkpoints on an object store: a file from its rename by the rank until it is committed there, and what of it passes the
coordinator, beside rclone copying the same file to the same store."""
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "e2e"))
import harness  # noqa: E402
import s3_server  # noqa: E402
from harness import wait_until  # noqa: E402

BYTES = 1 << 30
# Publishes a copy of a file as step 1, and tells when.
SAVE = """
import os, shutil, sys, time
draft = os.environ["MUSTER_CHECKPOINT_DIR"] + "/step-1.tmp"
os.mkdir(draft)
shutil.copyfile(sys.argv[1], draft + "/payload.bin")
with open(draft + "/payload.bin") as file:
    os.fsync(file.fileno())
os.rename(draft, draft[:-4])
print(time.monotonic(), flush=True)
"""


def rclone():
    beside = os.path.join(os.path.dirname(sys.executable), "rclone")
    return beside if os.path.exists(beside) else shutil.which("rclone")


def make_file(path, seed):
    """Bytes that nothing compresses, other ones each time."""
    with open("/dev/urandom", "rb") as source, open(path, "wb") as file:
        block = source.read(1 << 20)
        for index in range(BYTES >> 20):
            file.write(seed.to_bytes(8, "little") + index.to_bytes(8, "little") + block[16:])


def bytes_read(daemon):
    """By the process so far, from sockets as well."""
    with open(f"/proc/{daemon.pid}/io") as file:
        return int(file.readline().split()[1])


def is_committed(cluster, job):
    return [1] == [checkpoint.step for checkpoint in cluster.api.record(job).checkpoints if checkpoint.state == 2]


class Sides:
    def __init__(self, stage):
        self.stage = stage
        self.store = s3_server.SeaweedFs(stage, volumes=200)
        stage.env.update(self.store.environment())
        self.cluster = stage.cluster(coordinator_args=("--objects", self.store.address("bench")))
        self.passed, self.number = [], 0

    def fresh(self):
        self.number += 1
        path = self.stage.path(f"file{self.number}")
        make_file(path, self.number)
        return path

    def muster(self):
        path, before = self.fresh(), bytes_read(self.cluster.coordinator)
        job = self.cluster.submit("-n", "1", "--", sys.executable, "-c", SAVE, path)
        wait_until(lambda: is_committed(self.cluster, job), "it is committed", 300, every_s=0.01)
        committed = time.monotonic()
        self.passed.append((bytes_read(self.cluster.coordinator) - before) / 1e6)
        self.cluster.wait_for(job, harness.SUCCEEDED)
        published = float(self.cluster.api.logs(job)[0][(0, 0, 1)])
        os.remove(path)
        return BYTES / 1e6 / (committed - published)

    def rclone(self):
        path = self.fresh()
        remote = (f":s3,provider=Other,env_auth=true,region={s3_server.REGION},"
                  f"endpoint='http://127.0.0.1:{self.store.port}':{s3_server.BUCKET}/rclone/{self.number}")
        began = time.monotonic()
        subprocess.run([rclone(), "copyto", path, remote], env=self.stage.env, check=True, capture_output=True)
        took = time.monotonic() - began
        os.remove(path)
        return BYTES / 1e6 / took


def bench_objects(table, stage, in_turns):
    if s3_server.program() is None or rclone() is None:
        print("objects: there is no weed or no rclone here (tests/requirements.txt)", flush=True)
        return
    sides = Sides(stage)
    ours, peer = in_turns(3, sides.muster, sides.rclone)
    table.row("checkpoint of 1 GiB, to S3", "MB/s", ours, "≥ 0.9 × rclone", lambda a, b: a >= 0.9 * b, "rclone", peer)
    table.row("  of it, read by the coordinator", "MB", sides.passed[1:], "reported", lambda *_: True)
