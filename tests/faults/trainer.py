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


class Worker:
    """Reports as the SDK does: what is not acknowledged is sent again, on a new connection if need be."""

    def __init__(self, rank):
        self.rank, self.unacknowledged = rank, {}
        self.connect()

    def connect(self):
        self.connection, self.rest = socket.socket(socket.AF_UNIX), b""
        self.connection.settimeout(1)
        try:
            self.connection.connect(os.environ["MUSTER_SOCKET"])
        except OSError:  # while the worker restarts
            time.sleep(0.1)
        self.send({"type": "hello", "version": 1, "job": int(os.environ["MUSTER_JOB_ID"]),
                   "attempt": int(os.environ["MUSTER_ATTEMPT"]), "rank": self.rank, "pid": os.getpid(), "client": "test/1"})

    def send(self, message):
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # the next answer does not come
            pass

    def report(self, seq, points):
        self.unacknowledged[seq] = {"type": "metrics", "seq": seq, "points": points}
        self.send(self.unacknowledged[seq])

    def answers(self):
        try:
            received = self.connection.recv(1 << 16)
        except OSError:
            received = b""
        if not received:
            return None
        *lines, self.rest = (self.rest + received).split(b"\n")
        return [json.loads(each) for each in lines]

    def finish(self):
        while self.unacknowledged:
            answers = self.answers()
            if answers is None:
                self.connect()
                for message in self.unacknowledged.values():
                    self.send(message)
            for answer in answers or ():
                if answer["type"] == "ack":
                    self.unacknowledged = {seq: message for seq, message in self.unacknowledged.items()
                                           if seq > answer["metrics_seq"]}


def main():
    rank, steps = int(os.environ["RANK"]), int(sys.argv[1])
    worker = Worker(rank)
    for step in range(steps):
        os.write(1, line(rank, step).encode())
        worker.report(step + 1, [{"name": "loss", "step": step, "value": 1 / (step + 1), "time_ms": int(time.time() * 1000)}])
        if rank == 0 and step == steps // 2:
            save(step)
        time.sleep(0.01)
    worker.finish()


if __name__ == "__main__":
    main()
