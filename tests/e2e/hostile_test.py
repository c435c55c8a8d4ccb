"""Malicious jobs: poisoned spools, endless JSON, FIFOs in place of files, sparse files, thousands of connections.
Each hurts only itself; a neighbor on the same node runs, logs exactly and ends, under the same worker."""
import os
import socket
import textwrap

import harness
from harness import FAILED, PYTHON, RUNNING, SUCCEEDED, Case, wait_until

LINES = 2000
NEIGHBOR = f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done"


class Hostile(Case):
    def setUp(self):
        super().setUp()
        self.one = self.cluster(devices="cpu:4")
        self.worker = self.one.workers["node1"]
        self.worker_pid = self.worker.pid

    def submit_python(self, text, *args):
        """A job of one rank that runs this program."""
        path = self.path("hostile.py")
        with open(path, "w") as file:
            file.write(textwrap.dedent(text))
        return self.one.submit("-n", "1", *args, "--", PYTHON, "-S", path)

    def wait_output(self, job, word):
        wait_until(lambda: word in self.one.jobctl("logs", "--raw", job).stdout, f"{word} in the output of {job}")

    def assert_neighbor_is_unharmed(self):
        job = self.one.submit("-n", "1", "--", "sh", "-c", NEIGHBOR)
        self.one.wait_for(job, SUCCEEDED)
        self.assertEqual(self.one.jobctl("logs", "--raw", job).stdout, "".join(f"line {i}\n" for i in range(LINES)))
        self.assertTrue(self.worker.alive(), self.worker.output()[-2000:])
        self.assertTrue(self.one.coordinator.alive(), self.one.coordinator.output()[-2000:])

    def test_a_poisoned_index_ends_one_stream(self):
        # Repeatedly, because the shim's next record overwrites the first one appended.
        job = self.submit_python(f"""
            import os, struct, sys, time
            spool = os.path.dirname(os.environ["MUSTER_CHECKPOINT_DIR"]) + "/spool/rank-0.stdout"
            print("still here", file=sys.stderr, flush=True)
            while not os.path.exists("{self.path("go")}"):
                print("more", flush=True)
                with open(spool + ".idx", "ab") as index: index.write(struct.pack("<QQqQ", 1 << 63, 0, 1, 1 << 63) * 2)
                time.sleep(0.02)
            """)
        wait_until(lambda: "output abandoned" in self.worker.output(), "the stream is given up")
        open(self.path("go"), "w").close()
        self.one.wait_for(job, SUCCEEDED)
        self.assert_neighbor_is_unharmed()
        self.assertIn("is beyond what a stream may hold", self.worker.output())
        self.assertIn("still here", self.one.jobctl("logs", "--raw", job).stdout)

    def test_a_line_of_half_a_million_brackets_is_refused(self):
        job = self.submit_python("""
            import os, socket
            peer = socket.socket(socket.AF_UNIX)
            peer.connect(os.environ["MUSTER_SOCKET"])
            peer.sendall(b'{"type":"hello","version":1,"job":%d,"attempt":0,"rank":0}\\n' % int(os.environ["MUSTER_JOB_ID"]))
            peer.sendall(b'{"type":"diagnosis","number":1,"record":{"a":' + b"[" * 250000 + b"]" * 250000 + b"}}\\n")
            answers = b""
            while answers.count(b"\\n") < 2: answers += peer.recv(65536) or exit("cut off")
            print(answers.decode())
            """)
        self.one.wait_for(job, SUCCEEDED)
        self.assertIn("nested deeper than 32 levels", self.one.jobctl("logs", "--raw", job).stdout)
        self.assert_neighbor_is_unharmed()

    def test_a_fifo_as_error_file_holds_up_nobody_and_no_restart(self):
        job = self.one.submit("-n", "1", "--", "sh", "-c", 'mkfifo "$TORCHELASTIC_ERROR_FILE"; echo done; exit 3')
        record = self.one.wait_for(job, FAILED)
        self.assertIn("is not a regular file", str(record))
        # A worker that was down when the rank ended reads the exit record again.
        job = self.one.submit("-n", "1", "--", "sh", "-c",
                              f'mkfifo "$TORCHELASTIC_ERROR_FILE"; while ! [ -e {self.path("go")} ]; do sleep 0.02; done; exit 3')
        self.one.wait_for(job, RUNNING)
        self.worker.kill9()
        open(self.path("go"), "w").close()
        self.worker.start()
        self.one.wait_for(job, FAILED)
        self.assert_neighbor_is_unharmed()

    def test_a_fifo_in_the_log_directory_ends_the_copy_alone(self):
        copies = self.path("copies")
        job = self.one.submit("--name", "hold", "--", "torchrun", "--nproc-per-node", "1", "--log-dir", copies,
                              "--no-python", "sh", "-c", f"while ! [ -e {self.path('go')} ]; do sleep 0.02; done; echo out")
        self.one.wait_for(job, RUNNING)
        where = f"{copies}/{job}/attempt_0/0"
        os.makedirs(where, exist_ok=True)
        os.mkfifo(where + "/stdout.log")
        open(self.path("go"), "w").close()
        self.one.wait_for(job, SUCCEEDED)
        self.assert_neighbor_is_unharmed()
        self.assertEqual(self.one.jobctl("logs", "--raw", job).stdout, "out\n")
        wait_until(lambda: "was abandoned" in self.worker.output(), "the note about the copy")

    def test_sparse_event_files_cost_their_own_job(self):
        job = self.submit_python("""
            import os, struct, time
            table = []
            for i in range(256):
                for _ in range(8): i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
                table.append(i)
            def masked(data):
                crc = 0xFFFFFFFF
                for byte in data: crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
                crc ^= 0xFFFFFFFF
                return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
            length = struct.pack("<Q", 63 << 20)
            for i in range(150):
                with open(os.environ["MUSTER_TENSORBOARD_DIR"] + f"/events.out.tfevents.1.h.{i}.0", "wb") as file:
                    file.write(length + struct.pack("<I", masked(length)))
                    file.truncate((63 << 20) + 12)
            print("laid", flush=True)
            time.sleep(3600)
            """)
        self.wait_output(job, "laid")
        self.assert_neighbor_is_unharmed()
        self.one.jobctl("cancel", job)
        self.one.wait_over(job)
        # Every scan reads only a header of each file: nowhere near their 9 GiB.
        with open(f"/proc/{self.worker_pid}/io") as file:
            read = int(file.readline().split()[1])
        self.assertLess(read, 1 << 30)

    def test_a_hoard_of_connections_shuts_nobody_else_out(self):
        job = self.submit_python("""
            import os, resource, socket, time
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            held = []
            for _ in range(5000):
                peer = socket.socket(socket.AF_UNIX)
                peer.setblocking(False)
                try: peer.connect(os.environ["MUSTER_SOCKET"])
                except OSError: time.sleep(0.001)
                held.append(peer)
            print("held", flush=True)
            time.sleep(3600)
            """)
        self.wait_output(job, "held")
        reporter = self.one.submit("-n", "1", *harness.python_line("reporter.py", 20))
        self.one.wait_for(reporter, SUCCEEDED)
        self.assert_neighbor_is_unharmed()
        descriptors = len(os.listdir(f"/proc/{self.worker_pid}/fd"))
        self.assertLess(descriptors, 200)
        self.one.jobctl("cancel", job)
        self.one.wait_over(job)


class FewDescriptors(Case):
    def test_many_ranks_under_a_small_limit_log_exactly(self):
        cluster = self.cluster(workers=())
        cluster.add_worker("node1", "cpu:40",
                           prefix=["sh", "-c", 'ulimit -S -n 96; exec "$@"', "sh"])
        script = "ulimit -S -n 1024; i=0; while [ $i -lt 50 ]; do echo $RANK $i; i=$((i+1)); done"
        jobs = [cluster.submit("-n", "8", "--", "sh", "-c", script) for _ in range(5)]
        for job in jobs:
            cluster.wait_for(job, SUCCEEDED, deadline_s=60)
            lines = sorted(cluster.jobctl("logs", "--raw", job).stdout.split("\n")[:-1])
            self.assertEqual(len(lines), 8 * 50, lines[:5])
        self.assertTrue(cluster.workers["node1"].alive())


if __name__ == "__main__":
    harness.main()
