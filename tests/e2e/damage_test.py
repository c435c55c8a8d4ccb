"""Bytes change on the coordinator's disk. What a worker still has is sent again, the rest is a marked gap, and all that
follows is served."""
import os

import harness
from harness import RUNNING, SUCCEEDED, Case, wait_until

LINES = 500


def count_to(number):
    return f"i=0; while [ $i -lt {number} ]; do echo line $i; i=$((i+1)); done"


EXPECTED = "".join(f"line {i}\n" for i in range(LINES))


class Damage(Case):
    def setUp(self):
        super().setUp()
        self.one = self.cluster()

    def segment(self, job, name="rank-0.stdout.seg"):
        return os.path.join(self.one.directory, "data", "logs", job.rsplit("-", 1)[1], "0", name)

    def flip(self, path, word):
        """Four bytes of the record that holds this word."""
        with open(path, "r+b") as file:
            at = file.read().index(word)
            file.seek(at)
            file.write(b"\xa5\xa5\xa5\xa5")

    def test_what_the_worker_still_has_is_sent_again(self):
        go = self.path("go")
        job = self.one.submit("-n", "1", "--", "sh", "-c",
                              f"echo first; sleep 0.3; {count_to(LINES)}; while [ ! -e {go} ]; do sleep 0.05; done; echo the end")
        self.one.wait_for(job, RUNNING)
        wait_until(lambda: f"line {LINES - 1}\n" in self.one.jobctl("logs", "--raw", job).stdout, "all lines")
        self.one.coordinator.kill9()
        self.flip(self.segment(job), b"first")
        self.one.restart_coordinator()
        open(go, "w").close()
        self.one.wait_for(job, SUCCEEDED)
        # A gap until the worker has been asked and has answered.
        wait_until(lambda: self.one.jobctl("logs", "--raw", job).stdout == "first\n" + EXPECTED + "the end\n",
                   lambda: f"the first line comes again: {self.one.jobctl('logs', job).stderr}")
        self.assertNotIn("damaged", self.one.jobctl("logs", "--raw", job).stderr)
        self.assertIn("[JC1620]", self.one.coordinator.output())
        self.assertIn("output is resent", self.one.workers["node1"].output())

    def test_what_nobody_has_any_more_is_a_marked_gap(self):
        job = self.one.submit("-n", "1", "--", "sh", "-c", f"echo first; sleep 0.3; {count_to(LINES)}; sleep 0.3; echo the end")
        self.one.wait_for(job, SUCCEEDED)
        self.assertIn("the end", self.one.jobctl("logs", "--raw", job).stdout)
        self.flip(self.segment(job), b"first")
        done = self.one.jobctl("logs", "--raw", job)
        self.assertEqual(done.stdout, EXPECTED + "the end\n")
        self.assertIn("rank 0 on node1: 6 bytes of output are damaged on the coordinator's disk", done.stderr)
        self.assertNotIn("out of reach", done.stderr)
        tail = self.one.jobctl("logs", "--raw", "--tail", "2", job).stdout
        self.assertEqual(tail, f"line {LINES - 1}\nthe end\n")


if __name__ == "__main__":
    harness.main()
