"""Ranks meet at Muster's store: over nodes, through a worker's death, and without strangers."""
import os
import signal
import socket
import struct
import subprocess
import sys
import unittest

import harness
from harness import SUCCEEDED, Case, kill9, need, wait_until

# A client of torch's TCPStore in a few lines, so that ranks start in milliseconds.
CLIENT = r"""
import os, socket, struct, sys, time
class Store:
    def __init__(self, address, port):
        self.socket = socket.create_connection((address, port), timeout=30)
        self.socket.sendall(b"\0" + struct.pack("=I", 0x3C85F7CE))
    def text(self, key):
        return struct.pack("=Q", len(key)) + key.encode()
    def read(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more: raise SystemExit("the store has closed the connection")
            data += more
        return data
    def set(self, key, value): self.socket.sendall(b"\1" + self.text(key) + self.text(value))
    def wait(self, key):
        self.socket.sendall(b"\6" + struct.pack("=Q", 1) + self.text(key))
        self.read(1)
    def get(self, key):
        self.wait(key)
        self.socket.sendall(b"\3" + self.text(key))
        return self.read(struct.unpack("=Q", self.read(8))[0]).decode()
    def add(self, key, amount):
        self.socket.sendall(b"\4" + self.text(key) + struct.pack("=q", amount))
        return struct.unpack("=q", self.read(8))[0]
    def barrier(self, key, world):
        self.socket.sendall(b"\x12" + self.text(key) + struct.pack("=q", world))
        self.read(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
def store(): return Store(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
"""


def program(text):
    return ["--set", "rendezvous=muster", "--", sys.executable, "-c", CLIENT + text]


class MustersStore(Case):
    def two_nodes(self):
        cluster = harness.Cluster(self)
        cluster.start()
        for node, address in (("node1", "127.0.0.1"), ("node2", "127.0.0.2")):
            cluster.add_worker(node, "cpu:4", args=("--advertise", address))
        return cluster

    def test_ranks_of_two_nodes_see_what_the_others_stored(self):
        cluster = self.two_nodes()
        job = cluster.submit("--nodes", "2", "-n", "4", *program("""
s = store()
s.set(f"/k{rank}", f"of {rank}")
got = [s.get(f"/k{each}") for each in range(world)]
s.barrier("/all", world)
print(os.environ["MASTER_ADDR"], os.environ["TORCHELASTIC_USE_AGENT_STORE"], got, s.add("/n", 1) <= world)
"""))
        cluster.wait_for(job, SUCCEEDED)
        out = cluster.jobctl("logs", job).stdout
        self.assertEqual(out.count("127.0.0.1 True ['of 0', 'of 1', 'of 2', 'of 3'] True"), 4, out)

if __name__ == "__main__":
    harness.main()
