"""torch's own tests of TCPStore on muster-rendezvous, started by hand:

    .venv/bin/python tests/rendezvous/torch_own_tests.py TEST_STORE.PY [--nodes N] [CLASS…]

TEST_STORE.PY is test/distributed/test_store.py of PyTorch's sources, which are not in its wheels; Debian's source
package pytorch has them (`apt-get source --download-only pytorch`; 2.6.0 in Debian 13). It needs the Python package
expecttest. Where a test makes a store as its master, the server is muster-rendezvous, and the store is a client of it;
with --nodes N, other clients of the same port are spread over N nodes. Prints counts, and why a test is left out."""
import argparse
import atexit
import importlib.util
import itertools
import os
import sys
import threading
import unittest
from datetime import timedelta

import stores

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.join(os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build")), "bin", "muster-rendezvous")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

CLASSES = ["TCPStoreTest", "LibUvTCPStoreTest", "PrefixTCPStoreTest", "PrefixStoreTest", "TestMultiThreadedWait",
           "TimeoutTest", "RendezvousTCPTest"]
OWN_SERVER = "it is about how torch's own server takes a port"
NOT_OURS = {
    "test_address_already_in_use": OWN_SERVER,
    "test_multitenancy": OWN_SERVER,
    "test_take_over_listen_socket": OWN_SERVER,
    "test_repr": "it prints torch's own server",
    "test_store_timeout_on_missing_clients": "the constructor of torch's own server waits for clients",
    "test_tcp_store_timeout_set": "the constructor of torch's own server waits for clients",
    "test_dns_timeout": "it is about a host that does not exist",
    **dict.fromkeys(["test_wait_file_store", "test_wait_hash_store", "test_wait_prefix_file_store"],
                    "it is about another store"),
}


def adapt(dist, nodes):
    """Puts a TCPStore into torch whose servers are ours."""
    served, lock = {}, threading.Lock()

    class Adapted(dist.TCPStore):
        def __init__(self, host_name, port, world_size=None, is_master=False, timeout=timedelta(seconds=300),
                     wait_for_workers=True, multi_tenant=False, master_listen_fd=None, use_libuv=True):
            with lock:
                if is_master:
                    made = stores.Stores(BINARY, [1] * nodes)
                    atexit.register(made.close)
                    served[port] = served[made.ports[0]] = itertools.cycle(made.ports[1:] or made.ports)
                    port = made.ports[0]
                elif port in served:
                    port = next(served[port])
            super().__init__(host_name, port, world_size, False, timeout, wait_for_workers, use_libuv=use_libuv)

    for module in (dist, dist.distributed_c10d, dist.rendezvous_module):
        if hasattr(module, "TCPStore"):
            module.TCPStore = Adapted


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("classes", nargs="*")
    parser.add_argument("--nodes", type=int, default=1)
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # torch's tests parse it, too
    import torch.distributed as dist
    dist.rendezvous_module = importlib.import_module("torch.distributed.rendezvous")
    adapt(dist, options.nodes)
    spec = importlib.util.spec_from_file_location("test_store", options.file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_store"] = module
    spec.loader.exec_module(module)
    suite = unittest.TestSuite()
    left_out = []
    for name in options.classes or CLASSES:
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(getattr(module, name)):
            reason = NOT_OURS.get(test._testMethodName)
            if reason:
                left_out.append(f"{name}.{test._testMethodName}: {reason}")
            else:
                suite.addTest(test)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    bad = len(result.failures) + len(result.errors)
    print(f"{options.nodes} node(s): {result.testsRun - bad - len(result.skipped)} passed, {bad} failed, "
          f"{len(result.skipped)} skipped, {len(left_out)} left out")
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    for line in left_out:
        print(f"left out: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
