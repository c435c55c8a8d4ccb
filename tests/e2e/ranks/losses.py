"""Logs losses over the trainer socket (docs/protocol.md) and exits:
losses.py STEPS [--scale F] [--every N] [--steps-per-epoch N] [--nan STEP] [--fail STEP] [--name NAME]
Step s has the loss 1/s, times F from step 11 on. --steps-per-epoch: also the metric "epoch"; --fail: attempt 0
logs ten times the loss up to STEP, its rank 0 exits with 3, and the next one starts at half of STEP. The loss of
rank 1 is twice that of rank 0."""
import argparse
import json
import os
import socket
import sys

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--scale", type=float, default=1)
parser.add_argument("--every", type=int, default=1)
parser.add_argument("--steps-per-epoch", type=int, default=0)
parser.add_argument("--nan", type=int, default=-1)
parser.add_argument("--fail", type=int, default=0)
parser.add_argument("--name", default="loss")
options = parser.parse_args()

rank, attempt = int(os.environ["RANK"]), int(os.environ["MUSTER_ATTEMPT"])
first, last, factor = 1, options.steps, 1 + rank
if options.fail and attempt == 0:
    last, factor = options.fail, 10
elif options.fail:
    first = options.fail // 2

points = []
for step in range(first, last + 1, options.every):
    value = factor / step * (options.scale if step > 10 else 1)
    if step == options.nan:
        value = "NaN"
    points.append({"name": options.name, "step": step, "value": value, "time_ms": 1_790_000_000_000 + step})
    if options.steps_per_epoch:
        points.append({"name": "epoch", "step": step, "value": step / options.steps_per_epoch,
                       "time_ms": 1_790_000_000_000 + step})

connection = socket.socket(socket.AF_UNIX)
connection.settimeout(30)
connection.connect(os.environ["MUSTER_SOCKET"])
stream = connection.makefile("rwb")
batches = [points[i:i + 5000] for i in range(0, len(points), 5000)]
for message in ({"type": "hello", "version": 1, "job": int(os.environ["MUSTER_JOB_ID"]), "attempt": attempt,
                 "rank": rank, "pid": os.getpid(), "client": "test/1"},
                *({"type": "metrics", "seq": i + 1, "points": batch} for i, batch in enumerate(batches))):
    stream.write(json.dumps(message).encode() + b"\n")
stream.flush()
acknowledged = 0
while acknowledged < len(batches):
    message = json.loads(stream.readline())
    acknowledged = max(acknowledged, message.get("metrics_seq", 0))
sys.exit(3 if options.fail and attempt == 0 and rank == 0 else 0)
