"""A trainer whose ranks report step times, a loss and progress on the trainer socket (docs/protocol.md), and failures
at given steps.

usage: stepper.py STEPS [--step SECONDS] [--nan-from STEP] [--hang-at STEP] [--die-at STEP,STEP,…] [--save-every K]
                  [--until FILE]
--die-at: the step at which attempt 0, 1, … ends, with exit code 3, 4, …; --until: the last step waits for the file, and
so does a rank that hangs.
"""
import argparse
import json
import os
import socket
import time

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--step", type=float, default=0.02)
parser.add_argument("--nan-from", type=int, default=0)
parser.add_argument("--hang-at", type=int, default=0)
parser.add_argument("--die-at", default="")
parser.add_argument("--save-every", type=int, default=0)
parser.add_argument("--until")
options = parser.parse_args()

rank = int(os.environ["RANK"])
attempt = int(os.environ["MUSTER_ATTEMPT"])
deaths = [int(step) for step in options.die_at.split(",") if step]
worker = socket.socket(socket.AF_UNIX)
worker.connect(os.environ["MUSTER_SOCKET"])
lines = worker.makefile("r")


def send(message):
    worker.sendall(json.dumps(message).encode() + b"\n")


def wait_for(kind, **wanted):
    for line in lines:
        message = json.loads(line)
        if message["type"] == kind and all(message.get(key) == value for key, value in wanted.items()):
            return


def report(step):
    names = {"loss": "NaN" if options.nan_from and step >= options.nan_from else 1.0 / step}
    for part, share in (("step", 1), ("compute", 0.5), ("data_wait", 0.1), ("communication", 0.2), ("checkpoint", 0.05)):
        names[f"time/{part}"] = options.step * share
    now = int(time.time() * 1000)
    send({"type": "metrics", "seq": step - first,
          "points": [{"name": name, "step": step, "value": value, "time_ms": now} for name, value in names.items()]})
    send({"type": "progress", "step": step, "total": options.steps})


def save(step):
    directory = os.path.join(os.environ["MUSTER_CHECKPOINT_DIR"], f"step-{step}")
    os.makedirs(directory + ".tmp")
    with open(os.path.join(directory + ".tmp", "state.txt"), "w") as file:
        file.write(str(step))
    os.rename(directory + ".tmp", directory)
    wait_for("committed", step=step)


def wait_until_told():
    while options.until and not os.path.exists(options.until):
        time.sleep(0.02)


send({"type": "hello", "version": 1, "job": int(os.environ["MUSTER_JOB_ID"]), "attempt": attempt, "rank": rank,
      "pid": os.getpid(), "client": "test/1"})
first = 0
if os.environ.get("MUSTER_RESUME_FROM"):
    with open(os.path.join(os.environ["MUSTER_RESUME_FROM"], "state.txt")) as state:
        first = int(state.read())
for step in range(first + 1, options.steps + 1):
    time.sleep(options.step)
    report(step)
    if rank == 0 and options.save_every and step % options.save_every == 0:
        save(step)
    if step == options.hang_at:
        wait_until_told()
    if rank == 0 and attempt < len(deaths) and step == deaths[attempt]:
        wait_for("ack", metrics_seq=step - first)
        os._exit(3 + attempt)
wait_until_told()
