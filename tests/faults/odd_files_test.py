"""What lies in place of a file of the coordinator's data directory: a FIFO, a symbolic link, a directory, a socket. Nothing
waits for it: the coordinator starts or says what is wrong, serves, takes a job's output, and stops when it is told to."""
import os
import shutil
import socket
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import harness  # noqa: E402
from harness import SUCCEEDED, Case, wait_until  # noqa: E402

LINE = ["--", harness.PYTHON, "-S", os.path.join(HERE, "trainer.py"), 3]
# Without one of these no coordinator starts; it can do without all others.
NEEDED = ("LOCK", "HIGHWATER", "FORMAT", "muster.db", "muster.db-wal", "muster.db-shm")
# Job 1 is over, and job 2 comes.
OTHERS = ("LIVED", "NOTIFY", "RETENTION", "HEADROOM", "HEADROOM-LAST", "audit/0000000001.log", "logs/1/0/rank-0.stdout.seg",
          "metrics/1/0.seg", "metrics/1/newest", "logs/2/0/rank-0.stdout.seg", "logs/2/0/rank-0.stderr.seg", "metrics/2/0.seg",
          "metrics/2/newest", "samples/1", "samples/2")


def put(kind, path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        os.symlink("/dev/zero", path)
    elif kind == "directory":
        os.mkdir(path)
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            here = os.open(os.path.dirname(path), os.O_PATH)
            listener.bind(f"/proc/self/fd/{here}/{os.path.basename(path)}")
            os.close(here)


class OddFiles(Case):
    def test_nothing_waits_for_what_is_no_file(self):
        cluster = self.cluster()
        data = os.path.join(cluster.directory, "data")
        cluster.wait_over(cluster.submit(*LINE))
        cluster.coordinator.stop()
        cluster.workers["node1"].stop()
        whole = self.path("whole")
        shutil.copytree(data, whole)
        for kind in ("fifo", "link", "directory", "socket"):
            # One by one what it needs; all at once what it can do without.
            for paths in (*((path,) for path in NEEDED), OTHERS):
                with self.subTest(kind=kind, paths=paths):
                    shutil.rmtree(data)
                    shutil.copytree(whole, data)
                    for path in paths:
                        put(kind, os.path.join(data, path))
                    self.start_and_stop(cluster, kind, must_start=paths[0] not in NEEDED)

    def start_and_stop(self, cluster, kind, must_start):
        before = len(cluster.coordinator.output())
        cluster.coordinator.start()
        coordinator = cluster.coordinator
        wait_until(lambda: not coordinator.alive() or cluster.jobctl("ls", "-a", check=False).returncode == 0,
                   "it serves, or has said why not")
        if not coordinator.alive():
            said = coordinator.output()[before:]
            self.assertFalse(must_start, said)
            self.assertRegex(said, r"JC1\d\d\d")
        elif must_start:
            # Of another worker, as one does not follow a coordinator to older data.
            worker = cluster.add_worker(kind, wait=False)
            self.assertEqual(cluster.wait_over(cluster.submit(*LINE)).state, SUCCEEDED)
            time.sleep(0.3)  # until its output is on its way
            worker.stop()
        coordinator.stop()


if __name__ == "__main__":
    unittest.main()
