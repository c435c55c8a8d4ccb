"""Ranks meet at Muster's store: over nodes, through a worker's death, and without strangers."""
import os
import re
import subprocess
import sys

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
    def two_nodes(self, *args):
        cluster = harness.Cluster(self, coordinator_args=("--findings-floor-ms", "2000"))
        cluster.start()
        for node, address in (("node1", "127.0.0.1"), ("node2", "127.0.0.2")):
            cluster.add_worker(node, "cpu:4", args=("--advertise", address, *args))
        return cluster

    def submit(self, cluster, text):
        return cluster.submit("--nodes", "2", "-n", "4", "--restarts", "0", *program(text))

    def wait_for_finding(self, cluster, job, code, sentence):
        """Nodes report once a second, so that the first sentence may not know of all ranks."""
        def found():
            return [each.sentence for each in cluster.api.assess(job).findings if each.code == code]
        wait_until(lambda: any(re.fullmatch(sentence, each) for each in found()), lambda: f"{sentence}; not {found()}", 40)

    def test_ranks_of_two_nodes_see_what_the_others_stored(self):
        cluster = self.two_nodes()
        job = self.submit(cluster, """
s = store()
s.set(f"/k{rank}", f"of {rank}")
got = [s.get(f"/k{each}") for each in range(world)]
s.barrier("/all", world)
print(os.environ["MASTER_ADDR"], os.environ["TORCHELASTIC_USE_AGENT_STORE"], got, s.add("/n", 1) <= world)
""")
        cluster.wait_for(job, SUCCEEDED)
        out = cluster.jobctl("logs", job).stdout
        self.assertEqual(out.count("127.0.0.1 True ['of 0', 'of 1', 'of 2', 'of 3'] True"), 4, out)
        self.assertNotIn("rendezvousSecret", cluster.jobctl("show", job, "-o", "json").stdout)
        self.assertNotIn("rendezvous_secret", cluster.jobctl("events", job, "-o", "json").stdout)

    def test_the_store_of_sandboxed_ranks_ends_with_them(self):
        """It is outside of their sandbox, whose supervisor cannot kill what is outside."""
        need(os.geteuid() == 0, "needs root to run ranks as another account")
        os.chmod(self.directory, 0o711)
        cluster = self.two_nodes("--run-as", "nobody")
        job = cluster.submit("--nodes", "2", "-n", "4", "--restarts", "0", "--workdir", "/", "--set", "rendezvous=muster",
                             "--", "/usr/bin/python3", "-c", CLIENT + """
s = store()
s.add("/n", 1)
s.barrier("/all", world)
""")
        cluster.wait_for(job, SUCCEEDED)
        self.assertNotIn("survived", cluster.jobctl("events", job).stdout)

    def test_the_store_outlives_the_workers(self):
        cluster = self.two_nodes()
        job = self.submit(cluster, """
s = store()
s.set(f"/k{rank}", "set")
s.barrier("/before", world)
print("here", flush=True)
s.wait("/go") if rank else time.sleep(4)
s.set("/go", "now")
s.barrier("/after", world)
print("after", [s.get(f"/k{each}") for each in range(world)])
""")
        wait_until(lambda: cluster.jobctl("logs", job).stdout.count("here") == 4, "all ranks are at the store")
        for worker in cluster.workers.values():
            kill9(worker.pid)
            worker.process.wait()
        for worker in cluster.workers.values():
            worker.start()
        cluster.wait_for(job, SUCCEEDED)
        self.assertEqual(cluster.jobctl("logs", job).stdout.count("after ['set', 'set', 'set', 'set']"), 4)
        self.assertEqual(len(cluster.api.record(job).attempts), 1)

    def test_a_store_that_is_killed_is_the_cause_and_the_job_restarts(self):
        cluster = self.two_nodes()
        job = self.submit(cluster, """
s = store()
s.barrier("/start", world)
print("here", flush=True)
if os.environ["MUSTER_ATTEMPT"] == "0": s.wait("/never")
""")
        wait_until(lambda: cluster.jobctl("logs", job).stdout.count("here") == 4, "all ranks are at the store")
        # A supervisor's command line has its attempt's directory, which tells it from those of other clusters.
        shims = [pid for pid, line in harness.processes_with("MUSTER_NONE", cluster.directory).items()
                 if line.startswith("muster-shim")]
        stores = [pid for shim in shims for pid, (_, line) in harness.children_of(shim).items() if "muster-rendezvous" in line]
        self.assertEqual(len(stores), 2)
        kill9(stores[0])
        record = cluster.wait_for(job, SUCCEEDED, deadline_s=60)
        self.assertRegex(record.attempts[0].reason, r"^on node node[12] the store of the ranks \(muster-rendezvous\) was "
                         r"killed by signal 9; the ranks were killed with it$")
        self.assertEqual(len(record.attempts), 2)

    def test_a_rank_that_does_not_come_is_named_with_its_last_line(self):
        cluster = self.two_nodes()
        job = self.submit(cluster, """
if rank == 3:
    print("loading shard 7 of 9", flush=True)
    time.sleep(60)
store().barrier("/all", world)
""")
        self.wait_for_finding(cluster, job, "rank-missing",
                              r"rank 3 on node2 has not joined after \d\S* m?s; its last line: loading shard 7 of 9; 3 of 4 are there")
        self.assertIn("rank 3 on node2 has not joined", cluster.jobctl("why", job).stdout)
        cluster.jobctl("cancel", job)

    def test_those_that_others_wait_for_are_named(self):
        cluster = self.two_nodes()
        barrier = self.submit(cluster, """
s = store()
if rank == 1: time.sleep(60)
s.barrier("/epoch-2", world)
""")
        self.wait_for_finding(cluster, barrier, "ranks-wait",
                              r"3 of 4 ranks have waited \d\S* m?s at the barrier '/epoch-2'; rank 1 on node1 has not come there")
        key = self.submit(cluster, """
s = store()
if rank == 2: time.sleep(60)
s.wait("/weights")
""")
        self.wait_for_finding(cluster, key, "ranks-wait",
                              r"3 of 4 ranks have waited \d\S* m?s for the key '/weights'; rank 2 on node2 has not come there")
        cluster.jobctl("cancel", barrier, key)

    def test_a_wait_that_no_rank_can_end_is_ended(self):
        cluster = self.two_nodes()
        job = self.submit(cluster, """
s = store()
s.barrier("/start", world)
if rank == 3: sys.exit(0)
s.wait("/from-rank-3")
""")
        self.wait_for_finding(cluster, job, "wait-ended",
                              r"rank 0 on node1, rank 1 on node1, rank 2 on node2 waited for the key '/from-rank-3', which only "
                              r"rank 3 on node2 could still have set: it has exited with 0; the wait was ended")
        cluster.wait_for(job, harness.FAILED)
        self.assertIn("the store has closed the connection", cluster.jobctl("logs", job).stdout +
                      cluster.jobctl("logs", job).stderr)

    def test_strangers_do_not_get_in(self):
        need(os.geteuid() == 0, "needs root to be another account")
        cluster = self.two_nodes()
        job = self.submit(cluster, """
print("port", os.environ["MASTER_PORT"], flush=True)
s = store()
s.set("/secret", "weights")
s.wait("/go")
""")
        ports = lambda: re.findall(r"port (\d+)\n", cluster.jobctl("logs", job).stdout)
        wait_until(lambda: len(ports()) == 4, "ranks run")
        ranks_port = int(ports()[0])
        network_port = cluster.api.record(job).attempts[0].master_port
        stranger = CLIENT.replace('os.environ["RANK"]', "0").replace('os.environ["WORLD_SIZE"]', "1") + """
import encodings.idna, sys  # while it may still read them
os.setuid(int(sys.argv[1]))
try: print("got", Store("127.0.0.1", int(sys.argv[2])).get("/secret"))
except (SystemExit, ConnectionError) as gone: print("refused:", gone)
"""
        def attempt(account, port):
            return subprocess.run([sys.executable, "-c", stranger, str(account), str(port)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=30).stdout
        self.assertIn("refused", attempt(65534, ranks_port))
        self.assertIn("refused", attempt(65534, network_port))
        self.assertIn("refused", attempt(0, network_port))  # even root does not have the attempt's secret
        self.assertIn("got weights", attempt(0, ranks_port))  # the job's own account
        cluster.jobctl("cancel", job)


if __name__ == "__main__":
    harness.main()
