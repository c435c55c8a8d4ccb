"""Clients that send muster-rendezvous anything: requests in pieces, cut off, with impossible lengths, pipelined, cancelled,
never read. It must neither end nor stop answering others. `--seconds N --seed S` for longer."""
import argparse
import os
import random
import socket
import struct
import sys
import threading
import time

import stores

BINARY = os.path.join(os.environ.get("MUSTER_BUILD", "build"), "bin", "muster-rendezvous")
VALIDATE = b"\0" + struct.pack("=I", 0x3C85F7CE)
CLIENTS = 6


def text(data):
    return struct.pack("=Q", len(data)) + data


class Client:
    def __init__(self, seed, ports, network_port):
        self.random, self.ports, self.network_port = random.Random(seed), ports, network_port

    def key(self):
        return self.random.choice([b"/k0", b"/k1", b"/k2", b"/k3", b"", b"/barrier", b"x" * 8192])

    def value(self):
        if self.random.random() < 0.3:
            return str(self.random.randint(-9, 9)).encode()
        return self.random.randbytes(self.random.choice([0, 1, 5, 50]))

    def request(self):
        op = self.random.randint(0, 18)
        head = bytes([op])
        if op == 0:
            return VALIDATE
        if op in (1, 9, 14):  # set, append, push
            return head + text(self.key()) + text(self.value())
        if op == 2:
            return head + text(self.key()) + text(self.value()) + text(self.value())
        if op in (3, 8, 15, 16):  # get, delete, pop, length
            return head + text(self.key())
        if op in (4, 18):  # add, barrier
            amount = self.random.choice([1, 2, -1, 3, 2**62, 2**63 - 1, -2**63])
            return head + text(self.key()) + struct.pack("=q", amount)
        if op in (5, 6, 10):  # check, wait, multi-get
            count = self.random.randint(0, 4)
            return head + struct.pack("=Q", count) + b"".join(text(self.key()) for _ in range(count))
        if op == 11:  # multi-set
            count = self.random.randint(0, 3)
            return head + struct.pack("=Q", count) + b"".join(
                text(self.key()) + text(self.value()) for _ in range(count))
        return head + (struct.pack("=I", self.random.getrandbits(32)) if op == 13 else b"")

    def send(self, connection):
        data = b"".join(self.request() for _ in range(self.random.randint(1, 4)))
        if self.random.random() < 0.05:  # from here on nothing can be read
            data = data[:self.random.randint(0, len(data))] + self.random.randbytes(9)
        while data:
            size = self.random.randint(1, len(data))
            connection.sendall(data[:size])
            data = data[size:]

    def connect_once(self):
        port = self.network_port if self.random.random() < 0.07 else self.random.choice(self.ports)
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.settimeout(0.05)
            if self.random.random() < 0.95:
                connection.sendall(VALIDATE)
            for _ in range(self.random.randint(1, 40)):
                self.send(connection)
                if self.random.random() < 0.4:
                    continue
                try:
                    if not connection.recv(65536):
                        return
                except TimeoutError:
                    connection.sendall(b"\x0c")

    def run(self, until):
        while time.monotonic() < until:
            try:
                self.connect_once()
            except OSError:
                pass  # it was closed, as it should be


def still_answers(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(VALIDATE + b"\x01" + text(b"/after") + text(b"all") + b"\x03" + text(b"/after"))
        answer = b""
        while len(answer) < 11:
            more = connection.recv(64)
            if not more:
                return False
            answer += more
        return answer == text(b"all")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with open(os.devnull, "wb") as log:
        store = stores.Stores(BINARY, [3, 3], log=log)
        clients = [Client(options.seed * 1000 + i, store.ports, store.nodes[0].port) for i in range(CLIENTS)]
        until = time.monotonic() + options.seconds
        threads = [threading.Thread(target=each.run, args=(until,)) for each in clients]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        alive = all(node.process.poll() is None for node in store.nodes)
        answers = alive and all(still_answers(port) for port in (store.ports[0], store.ports[-1]))
        store.close()
    codes = [node.process.returncode for node in store.nodes]
    print(f"seed {options.seed}: alive {alive}, answers {answers}, exit codes {codes}")
    return 0 if answers and codes == [0, 0] else 1


if __name__ == "__main__":
    sys.exit(main())
