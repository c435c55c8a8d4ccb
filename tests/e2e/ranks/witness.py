"""A rank that records its lifetime outside of Muster: one JSON line in WITNESS when it starts and
one when it exits, appended with a single write (O_APPEND), so that the history can be checked.

usage: witness.py [--until FILE] [--for SECONDS] [--exit CODE] [--fail-rank R] [--fail-attempts N] [--ignore-term] [--say TEXT]
"""
import argparse
import fcntl
import json
import os
import signal
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--until")
parser.add_argument("--for", type=float, default=0, dest="seconds")
parser.add_argument("--exit", type=int, default=0)
parser.add_argument("--fail-rank", type=int, default=-1)
parser.add_argument("--fail-attempts", type=int, default=1 << 30)
parser.add_argument("--ignore-term", action="store_true")
parser.add_argument("--say")
options = parser.parse_args()

environment = os.environ
identity = {
    "job": environment.get("MUSTER_JOB_ID"), "attempt": int(environment.get("MUSTER_ATTEMPT", "-1")),
    "rank": int(environment["RANK"]), "world": int(environment["WORLD_SIZE"]),
    "master": environment["MASTER_ADDR"] + ":" + environment["MASTER_PORT"],
    "pid": os.getpid(), "node": environment.get("GROUP_RANK"),
}


def account(what):
    line = json.dumps({**identity, "what": what, "mono": time.monotonic()}) + "\n"
    witness = os.open(environment["WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(witness, line.encode())
    os.close(witness)


def leave(signal_number, frame):
    account("end")
    os._exit(128 + signal_number)


# Held for as long as this process is alive, however it ends: a second process of the rank finds it locked.
life = os.open(f"{environment['WITNESS']}.life-{identity['job']}-{identity['rank']}", os.O_WRONLY | os.O_CREAT, 0o600)
try:
    fcntl.flock(life, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    account("overlap")

signal.signal(signal.SIGTERM, signal.SIG_IGN if options.ignore_term else leave)
account("start")
if options.say:
    print(options.say, flush=True)
while options.until and not os.path.exists(options.until):
    time.sleep(0.02)
if options.seconds:
    time.sleep(options.seconds)
code = 0
if options.fail_rank in (-1, identity["rank"]) and identity["attempt"] < options.fail_attempts:
    code = options.exit
account("end")
sys.stdout.flush()
os._exit(code)
