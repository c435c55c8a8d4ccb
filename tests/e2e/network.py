"""Separate nodes on one machine: a network namespace each, joined by a bridge in the head's namespace.

    head (10.77.0.1, bridge) ── veth ── node1 (10.77.0.11), node2 (10.77.0.12), …
"""
import os
import subprocess


def ip(*args, check=True):
    return subprocess.run(["ip", *args], check=check, capture_output=True, text=True)


class Network:
    def __init__(self, case, nodes):
        tag = f"mt{os.getpid() % 100000}"
        self.head = tag + "h"
        self.address = "10.77.0.1"
        self.nodes = {f"node{i}": f"10.77.0.{10 + i}" for i in range(1, nodes + 1)}
        self.namespaces = {name: tag + name[-1] for name in self.nodes}
        case.addCleanup(self.remove)
        self.make(self.head)
        ip("-n", self.head, "link", "add", "br0", "type", "bridge")
        ip("-n", self.head, "addr", "add", self.address + "/24", "dev", "br0")
        ip("-n", self.head, "link", "set", "br0", "up")
        for number, (name, address) in enumerate(self.nodes.items()):
            namespace = self.namespaces[name]
            self.make(namespace)
            ip("-n", self.head, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0",
               "netns", namespace)
            ip("-n", self.head, "link", "set", f"v{number}", "master", "br0", "up")
            ip("-n", namespace, "addr", "add", address + "/24", "dev", "eth0")
            ip("-n", namespace, "link", "set", "eth0", "up")

    def make(self, namespace):
        ip("netns", "add", namespace)
        ip("-n", namespace, "link", "set", "lo", "up")

    def inside(self, name=None):
        """The command prefix that runs a command on a node (default: the head)."""
        return ["ip", "netns", "exec", self.namespaces[name] if name else self.head]

    def cut(self, number):
        """node `number` (from 1) is disconnected."""
        ip("-n", self.head, "link", "set", f"v{number - 1}", "down")

    def mend(self, number):
        ip("-n", self.head, "link", "set", f"v{number - 1}", "up")

    def remove(self):
        for namespace in [*self.namespaces.values(), self.head]:
            ip("netns", "del", namespace, check=False)
