"""A rank that speaks for itself and for others on trainer sockets, and prints one line per claim: its name and the
type of the answer. usage: claimant.py FACTS GO, a JSON file that describes the claims, and a file that lets it claim."""
import json
import os
import socket
import sys
import time

env = os.environ
with open(env["MUSTER_RANK_TOKEN_FILE"]) as file:
    own = file.read()
info = os.stat(env["MUSTER_RANK_TOKEN_FILE"])
shown = any(own in open(f"/proc/self/{name}").read() for name in ("environ", "cmdline"))
print(f"token: mode {info.st_mode & 0o777:o}, own {info.st_uid == os.getuid()}, shown in /proc {shown}", flush=True)


def claim(name, path=env["MUSTER_SOCKET"], token=None, job=int(env["MUSTER_JOB_ID"]), attempt=0, rank=int(env["RANK"])):
    hello = {"type": "hello", "version": 1, "job": job, "attempt": attempt, "rank": rank}
    if token is not None:
        hello["token"] = token
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            peer.sendall(json.dumps(hello).encode() + b"\n")
            line = peer.makefile().readline()
            print(f"{name}: {json.loads(line)['type'] if line else 'closed'}", flush=True)
    except OSError as error:
        print(f"{name}: {type(error).__name__}", flush=True)


print("ready", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
while True:  # the worker was restarted, and listens again at some point
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(env["MUSTER_SOCKET"])
        break
    except OSError:
        time.sleep(0.02)
with open(sys.argv[1]) as file:
    facts = json.load(file)
claim("without the token")
claim("with a guessed token", token="0" * 64)
claim("for another job", token=own, job=facts["job"])
claim("for another attempt", token=own, attempt=7)
claim("for a rank of another node", token=own, rank=9)
claim("on another job's socket", path=facts["socket"], token=own, job=facts["job"])
claim("on another job's socket, without a token", path=facts["socket"], job=facts["job"])
claim("with its token", token=own)
