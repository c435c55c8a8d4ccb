"""muster-rendezvous as a shim starts it, for tests and benches: the store of an attempt, and the relays of its other
nodes, which here are processes on this machine."""
import os
import secrets
import socket
import subprocess


class Node:
    """One process: `ports` has a port for each rank of the node."""

    def __init__(self, binary, ranks, nodes=1, world=None, secret=None, upstream=None, log=None, account=None):
        self.secret = secret or secrets.token_hex(32)
        self.port = None
        fds, lines = [], [f"nodes {nodes}", f"world {world or ranks}", f"account {os.getuid() if account is None else account}"]
        sockets = []
        if nodes > 1:
            lines.append(f"secret {self.secret}")
        if upstream:
            lines.append(f"upstream 127.0.0.1 {upstream}")
        elif nodes > 1:
            network = self.bound(sockets)
            self.port = network.getsockname()[1]
            lines.append(f"listen {network.fileno()}")
        locals_ = [self.bound(sockets) for _ in range(ranks)]
        self.ports = [each.getsockname()[1] for each in locals_]
        lines += [f"local {each.fileno()}" for each in locals_]
        self.status_fd = os.memfd_create("status")
        lines.append(f"status {self.status_fd}")
        exits, self.exits = os.pipe()
        lines.append(f"exits {exits}")
        fds = [each.fileno() for each in sockets] + [self.status_fd, exits]
        self.process = subprocess.Popen([binary, "test"], stdin=subprocess.PIPE, pass_fds=fds, stderr=log)
        self.process.stdin.write("\n".join(lines).encode())
        self.process.stdin.close()
        for each in sockets:
            each.close()
        os.close(exits)

    @staticmethod
    def bound(sockets):
        each = socket.socket()
        each.bind(("127.0.0.1", 0))
        sockets.append(each)
        return each

    def rank_exited(self, index):
        os.write(self.exits, index.to_bytes(4, "little"))

    def close(self):
        os.close(self.exits)  # it ends when its shim does
        self.process.wait(timeout=10)
        os.close(self.status_fd)


class Stores:
    """A root, and relays: `layout` is the number of ranks of each node."""

    def __init__(self, binary, layout, log=None):
        world = sum(layout)
        self.nodes = [Node(binary, layout[0], len(layout), world, log=log)]
        root = self.nodes[0]
        for ranks in layout[1:]:
            self.nodes.append(Node(binary, ranks, len(layout), world, root.secret, root.port, log=log))
        self.ports = [port for node in self.nodes for port in node.ports]

    def close(self):
        for node in self.nodes:
            node.close()
