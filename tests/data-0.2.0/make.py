"""Makes data.tar.xz and expected.json: what a coordinator and a worker of this version have on their disks, with jobs that
have ended, failed, wait and run, checkpoints, metrics, people, secrets and an audit. Run it, with MUSTER_BUILD set, when a
release is made, in a copy of this directory that is named after it; older directories stay as they are.
These of 0.2.0 are from a later build of that version. What it writes otherwise than the release: metrics/JOB/newest names its
metric; the flag 2 of a log's record, DiskSpace events, and the fields `metric` and `logs_keep_bytes` of a job, none of which
is in here."""
import json
import os
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import harness  # noqa: E402
import older_data  # noqa: E402
from harness import FAILED, RUNNING, SUCCEEDED, wait_until  # noqa: E402

SAVES = ("for n in 10 20; do d=$MUSTER_CHECKPOINT_DIR/step-$n; mkdir $d.tmp; echo $n >$d.tmp/state.txt;"
         "mv $d.tmp $d; done; echo saved")
MEASURES = """
import json, os, socket
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["MUSTER_SOCKET"])
stream = connection.makefile("rwb")
points = [{"name": "loss", "step": step, "value": 1 / step, "time_ms": 1790000000000 + step} for step in range(1, 6)]
for message in ({"type": "hello", "version": 1, "job": int(os.environ["MUSTER_JOB_ID"]), "attempt": 0, "rank": 0,
                 "pid": os.getpid(), "client": "test/1"}, {"type": "metrics", "seq": 1, "points": points}):
    stream.write(json.dumps(message).encode() + b"\\n")
stream.flush()
while json.loads(stream.readline()).get("metrics_seq", 0) < 1:
    pass
print("measured")
"""

# Made anew by a start: kept small without them.
LEFT_OUT = {"HEADROOM", "HEADROOM-LAST", "LOCK", "muster.db-shm"}


class Make(harness.Case):
    def test_make(self):
        cluster = harness.Cluster(self)
        data = os.path.join(cluster.directory, "data")
        subprocess.run([os.path.join(harness.BIN, "muster-coordinator"), "init", "--data-dir", data, "--name", "lab",
                        "--host", "lab.example"],
                       env=self.env, check=True, capture_output=True)
        cluster.start()
        cluster.add_worker("node1", devices="cpu:1", args=("--run-as", "worker"))
        cluster.jobctl("user", "set", "uid:0", "--role", "admin", "--comment", "the machine's owner")
        cluster.jobctl("user", "set", "alice", "--role", "user")
        cluster.jobctl("project", "create", "vision", "--member", "alice")
        cluster.jobctl("secret", "set", "wandb", stdin=b"a value")
        def submit(name, *command):
            return cluster.submit("--name", name, "-n", "1", "--clean-env", "--", *command, cwd="/")
        saved = submit("saved", "sh", "-c", SAVES)
        cluster.wait_for(saved, SUCCEEDED)
        wait_until(lambda: [each.state for each in cluster.api.record(saved).checkpoints] == [2, 2], "its checkpoints are committed")
        cluster.wait_for(submit("failed", "sh", "-c", "echo to no avail; exit 3"), FAILED)
        cluster.wait_for(submit("measured", "python3", "-c", MEASURES), SUCCEEDED)
        running = submit("running", "sh", "-c", "echo begun; sleep 60")
        cluster.wait_for(running, RUNNING)
        wait_until(lambda: cluster.api.logs(running)[0], "its output arrived")
        submit("queued", "true")
        cluster.jobctl("cancel", submit("cancelled", "true"), "--yes")
        wait_until(lambda: len(json.loads(cluster.jobctl("audit", "-o", "json").stdout)["items"]) >= 10, "the audit is written")
        expected = older_data.seen(cluster)
        # As after a crash: with a log of SQLite that a start has to read.
        cluster.coordinator.kill9()
        directory = self.path("copy")
        for source, name in ((data, "data"), (f"{data}-keys", "keys"),
                             (os.path.join(cluster.directory, "w-node1"), "worker")):
            harness.copy_in_use(source, os.path.join(directory, name),
                                ignore=lambda where, names: [each for each in names if each in LEFT_OUT or
                                                             not (os.path.isfile(os.path.join(where, each)) or
                                                                  os.path.isdir(os.path.join(where, each)))])
        with tarfile.open(os.path.join(HERE, "data.tar.xz"), "w:xz") as archive:
            for name in ("data", "keys", "worker"):
                archive.add(os.path.join(directory, name), name)
        with open(os.path.join(HERE, "expected.json"), "w") as file:
            json.dump(expected, file, indent=1, sort_keys=True)
            file.write("\n")


if __name__ == "__main__":
    harness.main()
