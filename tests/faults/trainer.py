"""A rank that prints, reports and saves, with its interpreter's standard library alone. usage: trainer.py STEPS

Line i of rank r is "r i"; step i has the loss 1 / (i + 1); rank 0 saves a checkpoint at half of the steps."""
import json
import os
import socket
import sys
import time


def line(of_rank, number):
    return f"{of_rank} {number:06d} {'x' * (number * 7919 % 61)}\n"


def save(step):
    place = os.path.join(os.environ["MUSTER_CHECKPOINT_DIR"], f"step-{step}")
    os.makedirs(place + ".tmp")
    with open(os.path.join(place + ".tmp", "state"), "wb") as file:
        file.write(bytes(range(256)) * 256)
    os.rename(place + ".tmp", place)


def main():
    rank, steps = int(os.environ["RANK"]), int(sys.argv[1])
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["MUSTER_SOCKET"])
    replies = connection.makefile("r")

    def send(message):
        connection.sendall(json.dumps(message).encode() + b"\n")

    send({"type": "hello", "version": 1, "job": int(os.environ["MUSTER_JOB_ID"]),
          "attempt": int(os.environ["MUSTER_ATTEMPT"]), "rank": rank, "pid": os.getpid(), "client": "test/1"})
    for step in range(steps):
        os.write(1, line(rank, step).encode())
        send({"type": "metrics", "seq": step + 1, "points": [
            {"name": "loss", "step": step, "value": 1 / (step + 1), "time_ms": int(time.time() * 1000)}]})
        if rank == 0 and step == steps // 2:
            save(step)
        time.sleep(0.01)
    while True:
        reply = json.loads(replies.readline())
        if reply["type"] == "ack" and reply["metrics_seq"] >= steps:
            return


if __name__ == "__main__":
    main()
