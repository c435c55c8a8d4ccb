"""Logs are exactly the bytes that each rank wrote (J7), even across kill -9 of coordinator and worker."""
import os
import sys
import time

import harness
from harness import FULL, Case, wait_until

sys.path.insert(0, harness.RANKS)
import writer  # noqa: E402  (the rank's program knows what it writes)


class ExactLogs(Case):
    def assert_exact(self, cluster, job, ranks, lines, binary=False, attempt=0):
        size = sum(len(writer.expected(rank, letter, lines, binary)) for rank in range(ranks) for letter in "oe")
        # The end of the output may arrive after the job's end; more than was written must never arrive.
        arrived = [cluster.api.logs(job)]

        def whole():
            arrived[0] = cluster.api.logs(job)
            return sum(map(len, arrived[0][0].values())) >= size
        try:
            wait_until(whole, "the whole output", 15, every_s=0.1)
        except AssertionError:
            pass  # the assertion below reports what is missing
        logs, dropped = arrived[0]
        self.assertEqual(sum(dropped.values()), 0, dropped)
        for rank in range(ranks):
            for stream, letter in ((1, "o"), (2, "e")):
                want = writer.expected(rank, letter, lines, binary)
                have = logs.get((attempt, rank, stream), b"")
                if have != want:
                    at = next((i for i, (a, b) in enumerate(zip(have, want)) if a != b), min(len(have), len(want)))
                    self.fail(f"rank {rank} stream {letter}: {len(have)} bytes, wanted {len(want)}; they differ at "
                              f"{at}: {have[at:at + 60]!r} for {want[at:at + 60]!r}")

    def test_any_bytes_of_both_streams_come_back(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "2", *harness.python_line("writer.py", 5000, "--binary"))
        cluster.wait_for(job, harness.SUCCEEDED)
        self.assert_exact(cluster, job, 2, 5000, binary=True)

    def test_raw_output_of_one_rank_and_stream_is_its_bytes(self):
        muster = self.private()
        muster.jobctl("run", "-n", "2", *harness.python_line("writer.py", 300, "--binary"))
        for rank in (0, 1):
            for stream, letter in (("stdout", "o"), ("stderr", "e")):
                done = muster.jobctl("logs", "@last", "--raw", "--rank", rank, "--stream", stream)
                self.assertEqual(done.out, writer.expected(rank, letter, 300, binary=True))

    def test_a_terminal_is_never_sent_escape_sequences_of_a_rank(self):
        import pty
        muster = self.private()
        muster.jobctl("run", "-n", "1", "--", "printf", r"\033[2Jgone\n")
        leader, follower = pty.openpty()
        client = muster.start_jobctl("logs", "@last", stdout=follower, stderr=follower,
                                     env={"TERM": "xterm"})
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(leader)
        client.wait()
        self.assertIn(b"gone", shown)
        self.assertNotIn(b"\x1b[2J", shown)

    def test_kill_9_of_the_coordinator_loses_and_repeats_nothing(self):
        cluster = self.cluster()
        lines = 60_000 if FULL else 16_000
        job = cluster.submit("-n", "2", *harness.python_line("writer.py", lines, "--rate", lines / 8))
        cluster.wait_for(job, harness.RUNNING)
        for _ in range(3):
            time.sleep(1.2)  # not a wait: the kill should hit somewhere in the middle of the stream
            cluster.coordinator.kill9()
            cluster.restart_coordinator()
        cluster.wait_for(job, harness.SUCCEEDED, deadline_s=60)
        self.assert_exact(cluster, job, 2, lines)
        self.assertEqual(cluster.api.record(job).next_attempt, 1, "the job was not disturbed")

    def test_kill_9_of_the_worker_loses_and_repeats_nothing(self):
        cluster = self.cluster()
        lines = 60_000 if FULL else 16_000
        job = cluster.submit("-n", "2", *harness.python_line("writer.py", lines, "--rate", lines / 8))
        cluster.wait_for(job, harness.RUNNING)
        for _ in range(3):
            time.sleep(1.2)  # as above
            cluster.workers["node1"].kill9()
            cluster.workers["node1"].start()
        cluster.wait_for(job, harness.SUCCEEDED, deadline_s=60)
        self.assert_exact(cluster, job, 2, lines)
        self.assertEqual(cluster.api.record(job).next_attempt, 1, "the ranks went on")

    def test_output_written_while_no_coordinator_lives_arrives_later(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", *harness.python_line("writer.py", 3000, "--rate", 1500))
        cluster.wait_for(job, harness.RUNNING)
        cluster.coordinator.kill9()
        time.sleep(3)  # meanwhile the rank writes and exits
        cluster.restart_coordinator()
        cluster.wait_for(job, harness.SUCCEEDED)
        self.assert_exact(cluster, job, 1, 3000)

    def test_a_follower_sees_lines_as_they_are_written(self):
        cluster = self.cluster()
        go = self.path("go")
        job = cluster.submit("-n", "1", "--", "sh", "-c",
                             f"echo first; while [ ! -e {go} ]; do sleep 0.02; done; echo second")
        follower = cluster.start_jobctl("logs", "-f", job)
        self.assertIn(b"first", follower.stdout.readline())
        open(go, "w").close()
        rest, error = follower.communicate(timeout=20)
        self.assertIn(b"second", rest)
        self.assertEqual(follower.returncode, 0, error.decode())

    def test_tail_rank_and_grep_choose_lines(self):
        muster = self.private()
        muster.jobctl("run", "-n", "2", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo line $i of $RANK; done")
        tail = muster.jobctl("logs", "@last", "--rank", "1", "--tail", "2").stdout.splitlines()
        self.assertEqual([line.split("] ")[-1] for line in tail], ["line 4 of 1", "line 5 of 1"])
        grep = muster.jobctl("logs", "@last", "--grep", "line 3").stdout.splitlines()
        self.assertEqual(len(grep), 2, grep)


if __name__ == "__main__":
    harness.main()
