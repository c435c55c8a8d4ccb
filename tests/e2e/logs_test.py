"""Logs are exactly the bytes that each rank wrote (J7), even across kill -9 of coordinator and worker."""
import os
import sys
import time

import harness
from harness import FULL, Case, wait_until
from terminal import Terminal

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

    def on_a_terminal(self, muster, *arguments):
        """What `jobctl logs` shows there."""
        import pty
        leader, follower = pty.openpty()
        client = muster.start_jobctl("logs", *arguments, stdout=follower, stderr=follower,
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
        return shown

    def test_a_terminal_is_never_sent_escape_sequences_of_a_rank(self):
        muster = self.private()
        muster.jobctl("run", "-n", "1", "--", "printf", r"\033[2Jgone\n")
        shown = self.on_a_terminal(muster, "@last")
        self.assertIn(b"gone", shown)
        self.assertNotIn(b"\x1b[2J", shown)

    def test_equal_lines_of_ranks_are_folded_on_a_terminal_and_kept_apart_in_a_pipe(self):
        muster = self.private()
        muster.jobctl("run", "-n", "4", "--", "sh", "-c",
                      "echo loading checkpoint 1000; echo loss of $RANK; [ $RANK = 3 ] || echo most")
        shown = self.on_a_terminal(muster, "@last", "--color", "never").decode().replace("\r", "").splitlines()
        self.assertIn("[4 ranks] loading checkpoint 1000", shown)
        self.assertIn("[0-2] most", shown)
        self.assertEqual(len(shown), 6, shown)
        apart = self.on_a_terminal(muster, "@last", "--no-fold", "--color", "never").decode().splitlines()
        self.assertEqual(len(apart), 11, apart)
        piped = muster.jobctl("logs", "@last").stdout.splitlines()
        self.assertEqual(sum(line.endswith("loading checkpoint 1000") for line in piped), 4, piped)

    def test_the_bars_of_two_ranks_are_two_lines_that_change(self):
        # As the Hugging Face Trainer writes: a bar on stderr, a line of numbers now and then, a bar below the bar.
        script = ("import sys, time\n"
                  "bar = lambda name, step, of: f'\\r{name}: {100 * step // of}%|{chr(9608) * (10 * step // of):10}| {step}/{of}'\n"
                  "say = lambda text: print(text, end='', file=sys.stderr, flush=True)\n"
                  "for step in range(101):\n"
                  "  say(bar('train', step, 100))\n"
                  "  if step == 40:\n"
                  "    for at in range(21): say('\\n' + bar('eval', at, 20) + '\\x1b[A')\n"
                  "    say('\\n\\r' + ' ' * 40 + '\\r\\x1b[A')\n"
                  "  if step % 50 == 25: print('loss at', step, flush=True)\n"
                  "  time.sleep(0.02)\n"
                  "say('\\n')\n")
        muster = self.private()
        terminal = Terminal(self, muster, "run", "-n", "2", "--no-fold", "--color", "never", "--", sys.executable, "-c", script)

        def bars(lines):
            return sorted(line[:line.index("%|")] for line in lines if "train:" in line)
        seen = bars(terminal.wait_for_screen(lambda lines: len(bars(lines)) == 2 and " 100" not in "".join(bars(lines))))
        self.assertEqual([line.split(":")[1][0] for line in seen], ["0", "1"], "a line of each rank")
        self.assertEqual(terminal.process.wait(timeout=harness.DEADLINE_S), 0)
        lines = terminal.screen()
        self.assertEqual([line.split("train: ")[1] for line in bars(lines)], ["100", "40", "100", "40"], lines)
        self.assertEqual(sum("loss at" in line for line in lines), 4, lines)
        self.assertNotIn("eval", "".join(lines))
        piped = muster.jobctl("logs", "@last").stdout
        self.assertEqual(bars(piped.splitlines()), bars(lines), piped)
        self.assertNotIn("\r", piped)
        raw = muster.jobctl("logs", "@last", "--raw", "--rank", 0, "--stream", "stderr").out
        self.assertEqual(raw.count(b"\rtrain:"), 101, "every byte")

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
        self.assertEqual(cluster.api.record(job).next_attempt, 1, "the ranks kept running")

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
        around = muster.jobctl("logs", "@last", "--rank", "0", "--grep", "LINE 3", "-i", "-C", "1").stdout
        self.assertEqual(around.count("line"), 3, around)
        rest = muster.jobctl("logs", "@last", "--grep", "line [34]", "--invert-match").stdout.splitlines()
        self.assertEqual(len(rest), 6, rest)
        count = muster.jobctl("logs", "@last", "--grep", "line", "--count").stdout.splitlines()
        self.assertEqual(count[-1], "total 10", count)
        self.assertEqual(len(count), 3, count)
        bad = muster.jobctl("logs", "@last", "--grep", "line (3", check=False)
        self.assertIn("missing ): line (3 (at byte 6)", bad.stderr)
        self.assertIn("JC1019", bad.stderr)

    def test_levels_and_the_first_error_of_all_ranks(self):
        muster = self.private()
        muster.jobctl("run", "-n", "2", "--", "sh", "-c",
                      "[ $RANK = 0 ] && sleep 0.5; for i in 1 2 3 4; do echo step $i; done; echo WARNING:root:hot;"
                      "echo ERROR:root:broken of $RANK; for i in 5 6 7 8; do echo step $i; done")
        warned = muster.jobctl("logs", "@last", "--level", "warn").stdout.splitlines()
        self.assertEqual(len(warned), 4, warned)
        first = muster.jobctl("logs", "@last", "--first-error").stdout.splitlines()
        self.assertTrue(first[0].startswith("first error: rank 1 on "), first)
        self.assertEqual([line.split("] ")[-1] for line in first[1:]],
                         ["step 3", "step 4", "WARNING:root:hot", "ERROR:root:broken of 1", "step 5", "step 6",
                          "step 7"])

    def test_the_end_of_and_a_search_in_a_log_of_many_segments(self):
        muster = self.private()
        lines = 300_000  # of 100 bytes: four segments
        muster.jobctl("run", "-n", "1", "--", sys.executable, "-c",
                      f"for i in range({lines}): print(f'line {{i:07}} ' + 87 * 'x')")
        end = muster.jobctl("logs", "@last", "--tail", "2").stdout.splitlines()
        self.assertEqual([line.split()[2] for line in end], [f"{lines - 2:07}", f"{lines - 1:07}"])
        found = muster.jobctl("logs", "@last", "--grep", "line 0(1|2)99999").stdout.splitlines()
        self.assertEqual([line.split()[2] for line in found], ["0199999", "0299999"])
        self.assertEqual(muster.jobctl("logs", "@last", "--since", "1h", "--grep", "x", "--count").stdout.split()[-1],
                         str(lines))


if __name__ == "__main__":
    harness.main()
