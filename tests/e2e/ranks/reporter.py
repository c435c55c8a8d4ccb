"""A trainer with a handwritten trainer socket client (docs/protocol.md) that reconnects and resends.

usage: reporter.py STEPS [--rate STEPS_PER_S] [--garbage]
"""
import argparse
import json
import os
import socket
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--rate", type=float, default=0)
parser.add_argument("--garbage", action="store_true")
options = parser.parse_args()

rank = int(os.environ["RANK"])
connection, buffer, pending, acknowledged = None, b"", [], 0


def send(message):
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(timeout):
    """One message or None; ConnectionError when the worker is gone."""
    global buffer
    connection.settimeout(timeout)
    while b"\n" not in buffer:
        try:
            piece = connection.recv(65536)
        except TimeoutError:
            return None
        if not piece:
            raise ConnectionError("closed")
        buffer += piece
    line, buffer = buffer.split(b"\n", 1)
    return json.loads(line)


def connect():
    global connection, buffer, acknowledged
    while True:
        try:
            connection, buffer = socket.socket(socket.AF_UNIX), b""
            connection.connect(os.environ["MUSTER_SOCKET"])
            send({"type": "hello", "version": 1, "job": int(os.environ["MUSTER_JOB_ID"]),
                  "attempt": int(os.environ["MUSTER_ATTEMPT"]), "rank": rank, "pid": os.getpid(), "client": "test/1"})
            welcome = receive(5)
            while welcome and welcome["type"] != "welcome":
                welcome = receive(5)
            if welcome is None:
                raise ConnectionError("no welcome")
            acknowledged = max(acknowledged, welcome["metrics_seq"])
            for seq, batch in pending:
                if seq > acknowledged:
                    send(batch)
            return
        except OSError:
            time.sleep(0.05)


def drain(timeout):
    global acknowledged, pending
    while True:
        try:
            message = receive(timeout)
        except OSError:
            connect()
            continue
        if message is None:
            return
        if message["type"] == "ack":
            acknowledged = max(acknowledged, message["metrics_seq"])
            pending = [item for item in pending if item[0] > acknowledged]
            if not pending:
                return
        if message["type"] == "error":
            print("refused:", message["message"], flush=True)


connect()
if options.garbage:
    connection.sendall(b"this is not a message\n\x00\xff\n[1,2]\n")
for step in range(options.steps):
    batch = {"type": "metrics", "seq": step + 1,
             "points": [{"name": "loss", "step": step, "value": 1.0 / (step + 1), "time_ms": int(time.time() * 1000)}]}
    pending.append((step + 1, batch))
    try:
        send(batch)
    except OSError:
        connect()
    if options.rate:
        time.sleep(1 / options.rate)
deadline = time.monotonic() + 30
while pending and time.monotonic() < deadline:
    drain(0.2)
if pending:
    sys.exit(f"{len(pending)} batches were never acknowledged")
print("all acknowledged", flush=True)
