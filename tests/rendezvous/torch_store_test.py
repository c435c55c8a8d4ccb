"""torch's own Python clients on muster-rendezvous: what TCPStore promises, on one node and over three, and, so that the
expectations are known to be right, with MUSTER_TEST_FULL=1 on torch's own server."""
import contextlib
import importlib.util
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import stores

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BINARY = os.path.join(os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build")), "bin", "muster-rendezvous")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # else it logs each timeout of a test of timeouts
HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch.distributed as dist

LONG, SHORT = timedelta(seconds=20), timedelta(milliseconds=150)


class OfTorch:
    """The same clients on torch's own server."""

    def __init__(self, ranks):
        self.server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.ports = [self.server.port] * ranks

    def close(self):
        self.server = None


class Promises:
    """One store for each class of tests: each test has its own keys, by its prefix."""

    @classmethod
    def setUpClass(cls):
        cls.served = cls.serve()

    @classmethod
    def tearDownClass(cls):
        cls.served.close()

    def raw(self, rank=0, timeout=LONG, **options):
        return dist.TCPStore("127.0.0.1", self.served.ports[rank], is_master=False, timeout=timeout,
                             wait_for_workers=False, **options)

    def store(self, rank=0, timeout=LONG, **options):
        return dist.PrefixStore(self.id(), self.raw(rank, timeout, **options))

    def all(self, timeout=LONG):
        return [self.store(rank, timeout) for rank in range(3)]

    def together(self, *calls):
        with ThreadPoolExecutor(len(calls)) as pool:
            return [each.result(timeout=30) for each in [pool.submit(call) for call in calls]]

    @contextlib.contextmanager
    def times_out(self, longest_s=2.0):
        begun = time.monotonic()
        with self.assertRaises(dist.DistStoreError):
            yield
        self.assertLess(time.monotonic() - begun, longest_s)
        self.assertGreater(time.monotonic() - begun, SHORT.total_seconds() * 0.9)

    def test_what_one_rank_sets_all_others_get(self):
        for writer, value in zip(self.all(), ("first", "", "bytes of \u00e9 and \0")):
            writer.set("key", value)
            writer.get("key")  # it has arrived: a set is not answered
            for reader in self.all():
                self.assertEqual(reader.get("key"), value.encode())

    def test_a_key_that_changes_is_never_read_as_it_was_before_the_change_was_answered(self):
        a, b, c = self.all()
        for turn in range(100):
            a.set("turn", str(turn))
            self.assertEqual(a.get("turn"), str(turn).encode())
            self.assertEqual(b.get("turn"), str(turn).encode())
            self.assertEqual(c.multi_get(["turn", "turn"]), [str(turn).encode()] * 2)

    def test_get_waits_until_the_key_is_set(self):
        a, b, c = self.all()
        with ThreadPoolExecutor(2) as pool:
            early = [pool.submit(each.get, "late") for each in (b, c)]
            time.sleep(0.05)
            self.assertFalse(early[0].done() or early[1].done())
            a.set("late", "here")
            self.assertEqual([each.result(timeout=20) for each in early], [b"here", b"here"])

    def test_what_was_deleted_or_exchanged_is_gone_on_all_nodes(self):
        a, b, c = self.all()
        for turn in range(50):
            key = f"key{turn}"
            a.set(key, "old")
            self.assertEqual([store.get(key) for store in (a, b, c)], [b"old"] * 3)
            if turn % 2:
                self.assertTrue(b.delete_key(key))
                self.assertEqual([store.check([key]) for store in (c, b, a)], [False] * 3)
            else:
                b.compare_set(key, "old", "new")
                self.assertEqual([store.get(key) for store in (c, b, a)], [b"new"] * 3)

    def test_add_counts_over_all_ranks(self):
        all_ = self.all()
        sums = self.together(*[lambda store=store: [store.add("count", 1) for _ in range(200)] for store in all_])
        self.assertEqual(sorted(sum(sums, [])), list(range(1, 601)))
        self.assertEqual(all_[1].get("count"), b"600")
        self.assertEqual(all_[2].add("count", -1000), -400)
        self.assertEqual(all_[0].get("count"), b"-400")
        self.assertEqual(all_[0].add("count", 0), -400)
        all_[1].set("number", "41")
        self.assertEqual(all_[1].add("number", 1), 42)
        self.assertEqual(all_[2].add("number", 1), 43)

    def test_compare_set_changes_only_the_expected_value(self):
        a, b, c = self.all()
        self.assertEqual(a.compare_set("key", "something", "new"), b"something")  # it is not there
        self.assertFalse(b.check(["key"]))
        self.assertEqual(b.compare_set("key", "", "first"), b"first")
        self.assertEqual(c.compare_set("key", "wrong", "second"), b"first")
        self.assertEqual(c.compare_set("key", "first", "second"), b"second")
        self.assertEqual(a.compare_set("key", "", "third"), b"second")
        self.assertEqual(b.get("key"), b"second")

    def test_of_many_that_compare_and_set_one_wins(self):
        won = self.together(*[lambda i=i, store=store: store.compare_set("key", "", f"rank {i}")
                              for i, store in enumerate(self.all())])
        self.assertEqual(len(set(won)), 1)

    def test_append_appends_also_to_what_is_not_there(self):
        a, b, c = self.all()
        a.append("key", "one ")
        a.get("key")
        b.append("key", "two ")
        b.get("key")
        self.assertEqual(c.get("key"), b"one two ")
        c.append("key", "three")
        self.assertEqual(c.get("key"), b"one two three")
        self.assertEqual(a.get("key"), b"one two three")

    def test_multi_set_and_multi_get(self):
        a, b, c = self.all()
        keys = [f"key{i}" for i in range(50)]
        a.multi_set(keys, [f"value{i}" for i in range(50)])
        for store in (a, b, c):
            self.assertEqual(store.multi_get(keys), [f"value{i}".encode() for i in range(50)])
        b.set("key7", "changed")
        self.assertEqual(b.multi_get(["key8", "key7", "key8"]), [b"value8", b"changed", b"value8"])
        self.assertEqual(c.multi_get(["key7"]), [b"changed"])

    def test_multi_get_waits_for_all_keys(self):
        a, b, c = self.all()
        with ThreadPoolExecutor(2) as pool:
            early = [pool.submit(each.multi_get, ["x", "y"]) for each in (b, c)]
            a.set("x", "1")
            time.sleep(0.02)
            self.assertFalse(early[0].done())
            a.multi_set(["y", "z"], ["2", "3"])
            self.assertEqual([each.result(timeout=20) for each in early], [[b"1", b"2"]] * 2)

    def test_empty_lists_of_keys(self):
        for store in self.all():
            self.assertEqual(store.multi_get([]), [])
            store.multi_set([], [])
            store.wait([])
            self.assertTrue(store.check([]))
            store.set("key", "still usable")
            self.assertEqual(store.get("key"), b"still usable")

    def test_check_does_not_wait(self):
        a, b, c = self.all()
        self.assertFalse(a.check(["x"]))
        b.set("x", "1")
        b.get("x")
        self.assertTrue(a.check(["x"]))
        self.assertFalse(c.check(["x", "y"]))
        c.set("y", "1")
        self.assertTrue(c.check(["x", "y"]))

    def test_delete_key(self):
        a, b, c = self.all()
        a.set("key", "value")
        self.assertEqual(b.get("key"), b"value")
        self.assertEqual(c.get("key"), b"value")
        self.assertTrue(b.delete_key("key"))
        self.assertFalse(c.delete_key("key"))
        for store in (a, b, c):
            self.assertFalse(store.check(["key"]))
        c.set("key", "again")
        self.assertEqual(c.get("key"), b"again")
        self.assertEqual(a.get("key"), b"again")

    def test_num_keys_and_list_keys(self):
        for rank in range(3):
            store = self.raw(rank)
            before, name = store.num_keys(), f"{self.id()}/{rank}"
            store.set(name, "1")
            store.add(name + "/count", 1)
            self.assertEqual(store.num_keys(), before + 2)
            listed = [key for key in store.list_keys() if self.id() in key]
            self.assertEqual(len(listed), 2 * (rank + 1))
            self.assertIn(name, [key.lstrip("/") for key in listed])

    def test_a_wait_that_times_out_leaves_the_store_usable(self):
        def of_one(store):
            calls = (lambda: store.wait(["never"]), lambda: store.get("never"), lambda: store.wait(["never"], SHORT),
                     lambda: store.multi_get(["never", "never either"]))
            for call in calls:
                with self.times_out():
                    call()
                store.set("key", "value")
                self.assertEqual(store.get("key"), b"value")
        self.together(*[lambda store=store: of_one(store) for store in self.all(SHORT)])

    def test_a_key_that_comes_after_the_timeout_is_seen_by_the_next_wait(self):
        a, b, c = self.all()
        for store in (b, c):
            with self.times_out():
                store.wait(["late"], SHORT)
        a.set("late", "1")
        for store in (b, c):
            store.wait(["late"], LONG)

    def test_queues_give_each_item_to_one_in_order(self):
        a, b, c = self.all()
        for i in range(5):
            a.queue_push("queue", str(i))
        self.assertEqual(a.queue_len("queue"), 5)
        self.assertTrue(b.check(["queue"]))
        b.wait(["queue"])
        self.assertEqual([store.queue_pop("queue") for store in (b, c, a, b, c)], [b"0", b"1", b"2", b"3", b"4"])
        self.assertEqual(b.queue_len("queue"), 0)
        self.assertFalse(c.check(["queue"]))
        for store in (a, b, c):
            with self.assertRaises(dist.QueueEmptyError):
                store.queue_pop("queue", block=False)

    def test_a_blocking_pop_waits_for_the_next_item_and_times_out_without(self):
        a, b, c = self.all()
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(b.queue_pop, "queue")
            time.sleep(0.05)
            self.assertFalse(first.done())
            c.queue_push("queue", "item")
            self.assertEqual(first.result(timeout=20), b"item")
        for rank in range(3):
            store = self.store(rank, SHORT)
            with self.times_out():
                store.queue_pop("queue")
            with self.assertRaises(dist.QueueEmptyError):
                store.queue_pop("queue", block=False)
            store.queue_push("queue", "of this rank")
            self.assertEqual(store.queue_pop("queue"), b"of this rank")
        self.assertEqual(a.queue_len("queue"), 0)

    def test_as_many_that_pop_as_items_that_are_pushed(self):
        poppers = [self.store(i % 3) for i in range(9)]
        pusher = self.store(1)
        with ThreadPoolExecutor(9) as pool:
            popped = [pool.submit(store.queue_pop, "queue") for store in poppers]
            time.sleep(0.1)  # all wait
            for i in range(9):
                pusher.queue_push("queue", str(i))
            self.assertEqual(sorted(each.result(timeout=20) for each in popped), [b"%d" % i for i in range(9)])
        self.assertEqual(pusher.queue_len("queue"), 0)

    def needs_barrier(self):
        if not hasattr(dist.TCPStore, "barrier"):
            self.skipTest("this torch's store has no barrier")

    def test_a_barrier_lets_all_pass_once_the_last_one_is_there(self):
        self.needs_barrier()
        clients = [self.store(i % 3) for i in range(9)]
        for name in ("first", "second"):
            with ThreadPoolExecutor(9) as pool:
                early = [pool.submit(store.barrier, name, 9) for store in clients[:-1]]
                time.sleep(0.05)
                self.assertFalse(any(each.done() for each in early))
                clients[-1].barrier(name, 9)
                for each in early:
                    each.result(timeout=20)

    def test_a_barrier_that_times_out_leaves_the_store_usable(self):
        self.needs_barrier()
        for store in self.all():
            with self.times_out():
                store.barrier("never", 100, SHORT)
            store.set("key", "value")
            self.assertEqual(store.get("key"), b"value")

    def test_a_clone_is_another_connection_to_the_same_values(self):
        for rank in range(3):
            store = self.raw(rank)
            clone = store.clone()
            name = f"{self.id()}/{rank}"
            store.set(name, "value")
            store.get(name)
            self.assertEqual(clone.get(name), b"value")
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(clone.get, name + "/late")
                time.sleep(0.02)
                store.set(name + "/late", "1")  # while its clone waits
                self.assertEqual(waiting.result(timeout=20), b"1")

    def test_clients_of_either_kind_meet(self):
        with_libuv, without = self.store(1, use_libuv=True), self.store(2, use_libuv=False)
        with_libuv.set("key", "value")
        self.assertEqual(without.get("key"), b"value")
        self.assertEqual(without.add("count", 1), 1)
        self.assertEqual(with_libuv.add("count", 1), 2)

    def test_large_values(self):
        a, b, c = self.all()
        value = os.urandom(512 << 10) * 14  # 7 MiB
        a.set("large", value)
        for store in (a, b, c):
            self.assertEqual(store.get("large"), value)
        c.multi_set([f"large{i}" for i in range(4)], [value] * 4)
        self.assertEqual(b.multi_get([f"large{i}" for i in range(4)]), [value] * 4)

    def test_prefixes_keep_groups_apart(self):
        outer = [dist.PrefixStore("group", self.store(rank)) for rank in range(3)]
        inner = [dist.PrefixStore("of", store) for store in outer]
        outer[0].set("key", "outer")
        inner[0].set("key", "inner")
        inner[0].get("key")
        for i in range(3):
            self.assertEqual((outer[i].get("key"), inner[i].get("key")), (b"outer", b"inner"))
            self.assertEqual(outer[i].get("of/key"), b"inner")
        self.assertTrue(inner[1].delete_key("key"))
        self.assertFalse(inner[2].check(["key"]))
        self.assertTrue(outer[2].check(["key"]))

    def test_a_rank_that_leaves_in_a_wait_harms_no_other(self):
        def text(of):
            return struct.pack("<Q", len(of)) + of.encode()
        a, b, c = self.all()
        here, never = (f"/{self.id()}/{name}" for name in ("here", "never"))
        with socket.create_connection(("127.0.0.1", self.served.ports[2])) as rank:
            rank.sendall(struct.pack("<BI", 0, 0x3C85F7CE) + b"\x01" + text(here) + text("1")
                         + struct.pack("<BQ", 6, 1) + text(never))
            a.wait(["here"])
        b.set("never", "1")
        self.assertEqual([c.get("never"), a.get("never")], [b"1", b"1"])


class OnOneNode(Promises, unittest.TestCase):
    @classmethod
    def serve(cls):
        return stores.Stores(BINARY, [3])


class OnThreeNodes(Promises, unittest.TestCase):
    @classmethod
    def serve(cls):
        return stores.Stores(BINARY, [1, 1, 1])

    def test_a_change_is_answered_once_no_node_keeps_what_was_there_before(self):
        a, b, c = self.all()
        a.set("key", "value")
        self.assertEqual(c.get("key"), b"value")  # its node keeps it
        hung = self.served.nodes[2].process

        def until_it_is_gone():  # until then a check that overtook the deletion may find the value
            while a.check(["key"]):
                pass
        with ThreadPoolExecutor(2) as pool:
            hung.send_signal(signal.SIGSTOP)
            try:
                deleted = pool.submit(b.delete_key, "key")
                gone = pool.submit(until_it_is_gone)
                time.sleep(0.3)
                self.assertFalse(deleted.done() or gone.done())
            finally:
                hung.send_signal(signal.SIGCONT)
            self.assertTrue(deleted.result(timeout=20))
        self.assertFalse(c.check(["key"]))

    def test_a_node_that_hangs_for_long_is_not_waited_for(self):
        a, b, c = self.all()
        a.set("key", "value")
        self.assertEqual(c.get("key"), b"value")
        hung = self.served.nodes[2].process
        hung.send_signal(signal.SIGSTOP)
        try:
            self.assertTrue(b.delete_key("key"))
            self.assertFalse(a.check(["key"]))
        finally:
            hung.send_signal(signal.SIGCONT)
        until = time.monotonic() + 20
        while c.check(["key"]) and time.monotonic() < until:
            time.sleep(0.01)
        a.set("key", "again")  # a late word about the first change is not taken for one about the second
        self.assertEqual([store.get("key") for store in (a, b, c)], [b"again"] * 3)
        self.assertEqual(b.compare_set("key", "again", "new"), b"new")
        self.assertEqual([store.get("key") for store in (c, a)], [b"new"] * 2)


@unittest.skipUnless(HAS_TORCH and os.environ.get("MUSTER_TEST_FULL") == "1", "needs torch and MUSTER_TEST_FULL=1")
class OnTorchsOwnServer(Promises, unittest.TestCase):
    @classmethod
    def serve(cls):
        return OfTorch(3)


RANK = """
import os, sys, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo", timeout=timedelta(seconds=30))
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
some = dist.new_group([1, 2])
if dist.get_rank() in (1, 2):
    dist.all_reduce(value, group=some)
dist.barrier()
print(value.item())
dist.destroy_process_group()
"""


class Groups(unittest.TestCase):
    def test_four_ranks_on_two_nodes_make_a_group_and_reduce(self):
        served = stores.Stores(BINARY, [2, 2])
        try:
            ranks = [subprocess.Popen([sys.executable, "-c", RANK], stdout=subprocess.PIPE, text=True, env={
                **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": "4",
                "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
                for rank, port in enumerate(served.ports)]
            said = [each.communicate(timeout=60)[0].strip() for each in ranks]
            self.assertEqual([each.returncode for each in ranks], [0] * 4)
            self.assertEqual(said, ["10.0", "20.0", "20.0", "10.0"])
        finally:
            served.close()


if __name__ == "__main__":
    if not HAS_TORCH:
        print("SKIPPED: needs the Python package torch")
        sys.exit(77)
    unittest.main()
