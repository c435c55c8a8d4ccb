"""A rank that counts steps and saves checkpoints by the directory convention, without any library.

usage: counter.py STEPS [--every K] [--pause SECONDS] [--die-at STEP] [--die-attempts N] [--exit CODE]
                  [--hold-at STEP --until FILE] [--bytes N]
Rank 0 writes step-N with state.txt (the step) and payload.bin (bytes computed from the step). After
MUSTER_RESUME_FROM it continues from there and checks the payload.
"""
import argparse
import hashlib
import os
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--every", type=int, default=10)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--die-at", type=int, default=-1)
parser.add_argument("--die-attempts", type=int, default=1)
parser.add_argument("--exit", type=int, default=3)
parser.add_argument("--hold-at", type=int, default=-1)
parser.add_argument("--until")
parser.add_argument("--bytes", type=int, default=64_000)  # of the payload
options = parser.parse_args()

rank = int(os.environ["RANK"])
attempt = int(os.environ["MUSTER_ATTEMPT"])


def payload(step):
    return (hashlib.sha256(str(step).encode()).digest() * (options.bytes // 32 + 1))[:options.bytes]


def save(step):
    directory = os.environ["MUSTER_CHECKPOINT_DIR"]
    draft = os.path.join(directory, f"step-{step}.tmp")
    os.makedirs(draft)
    for name, content in (("state.txt", str(step).encode()), ("payload.bin", payload(step))):
        with open(os.path.join(draft, name), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    os.rename(draft, os.path.join(directory, f"step-{step}"))


first = 0
source = os.environ.get("MUSTER_RESUME_FROM")
if source:
    with open(os.path.join(source, "state.txt")) as file:
        first = int(file.read())
    with open(os.path.join(source, "payload.bin"), "rb") as file:
        if file.read() != payload(first):
            sys.exit("the checkpoint's payload is not what was saved")
print(f"attempt {attempt} rank {rank} starts from step {first}", flush=True)

for step in range(first + 1, options.steps + 1):
    time.sleep(options.pause)
    print(f"step {step}", flush=True)
    if rank == 0 and step % options.every == 0:
        save(step)
    if step == options.hold_at and options.until:
        while not os.path.exists(options.until):
            time.sleep(0.02)
    if step == options.die_at and attempt < options.die_attempts:
        print(f"rank {rank} fails at step {step}", file=sys.stderr, flush=True)
        os._exit(options.exit)
