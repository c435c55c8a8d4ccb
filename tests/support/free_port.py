"""Ports for servers that a test starts: a port that was free a moment ago may be another test's by now."""
import random
import socket

# Below what kernels give to outgoing connections (net.ipv4.ip_local_port_range begins at 32768 by default) and without
# torch's 29400 and 29500. free_port.cc has the same.
FIRST, LAST = 20000, 29399
_held = []


def free_port():
    """One of this host that no other test gets while this process lives: an abstract socket says that it is taken. That
    is in the same network namespace as the port, and ends with the process."""
    start = random.SystemRandom().randrange(FIRST, LAST + 1)
    for port in [*range(start, LAST + 1), *range(FIRST, start)]:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0muster-test-port-{port}")
            with socket.create_server(("", port)):
                pass
        except OSError:
            claim.close()
            continue
        _held.append(claim)
        return port
    raise OSError(f"no port of {FIRST} to {LAST} is free")
