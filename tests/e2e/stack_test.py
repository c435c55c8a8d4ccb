"""`jobctl stack`: real ranks on the SDK on two nodes, one of them stuck, diagnosed from outside."""
import os
import re
import signal

import harness
from harness import Case, need, wait_until

RANKS = os.path.join(harness.BIN, "tests", "diagnosis_ranks")


class Stack(Case):
    def setUp(self):
        super().setUp()
        need(os.path.exists(RANKS), "needs the trainer SDK's test program diagnosis_ranks")
        self.files = self.path("files")
        os.mkdir(self.files)

    def release(self):
        with open(os.path.join(self.files, "release"), "w") as file:
            file.write("now")

    def test_names_the_rank_that_the_others_wait_for_and_where_it_is(self):
        muster = self.cluster(workers=("node1", "node2"))
        name = muster.submit("-n", "3", "--name", "hangs", "--", RANKS, "stuck", self.files, "sleeping")
        muster.wait_for(name, harness.RUNNING)

        def report():
            done = muster.jobctl("stack", name, check=False)
            return done.stdout if "rank 2 has not entered all_reduce #4" in done.stdout else None
        text = wait_until(report, "the ranks wait in the fourth collective")
        self.assertRegex(text, r"^rank 2 has not entered all_reduce #4 \(4 MiB float32, group default\); "
                               r"ranks 0 and 1 wait in it for \d+\.\d s; rank 2 is in poll < load_batch < stuck\n")
        self.assertRegex(text, r"(?m)^ +0 +node1 +all_reduce #4 default +in it ")
        self.assertRegex(text, r"(?m)^ +2 +node2 +all_reduce #3 default +ended ")
        full = muster.jobctl("stack", name, "--full", "--rank", "2").stdout
        self.assertIn("load_batch() in diagnosis_ranks+0x", full)
        self.assertNotIn("rank 0 (node1)\n", full)
        # The same, from the files that the ranks wrote.
        self.assertIn("rank 2 has not entered", muster.jobctl("stack", "--files", self.files).stdout)
        self.release()
        self.assertEqual(muster.wait_over(name).state, harness.SUCCEEDED)
        self.assert_error(muster.jobctl("stack", name, check=False), "JC1208")

    def test_looks_from_outside_at_a_rank_that_no_longer_answers(self):
        muster = self.cluster(workers=("node1",))
        name = muster.submit("-n", "2", "--grace", "0", "--", RANKS, "stuck", self.files, "sleeping")
        muster.wait_for(name, harness.RUNNING)
        wait_until(lambda: "has not entered all_reduce #4" in muster.jobctl("stack", name, check=False).stdout,
                   "rank 0 waits in the fourth collective")
        pid = next(pid for pid in harness.processes_with("LOCAL_RANK=1\0")
                   if pid in self.processes() and os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "diagnosis_ranks")
        os.kill(pid, signal.SIGSTOP)
        # Who asks within a second of another look gets that one's answers.
        wait_until(lambda: re.search(r"^rank 1 does not answer: rank 0 waits in all_reduce #4 .*; "
                                     r"rank 1 is stopped by a signal, in .*load_batch",
                                     muster.jobctl("stack", name).stdout), "its own look")
        os.kill(pid, signal.SIGKILL)

    def test_reports_when_there_is_no_record(self):
        muster = self.private()
        self.assert_error(muster.jobctl("stack", "--files", self.files, check=False), "JC1210")

    def test_a_stuck_rank_writes_its_record_before_a_failed_one_ends_it(self):
        muster = self.cluster(workers=("node1",))
        name = muster.submit("-n", "2", "--grace", "60s", "--", RANKS, "deserted", self.files)
        output = wait_until(lambda: next(iter([text for text in [muster.jobctl("logs", name, check=False).stdout +
                                                                 muster.jobctl("logs", name, check=False).stderr]
                                               if "load_batch" in text]), None), "the record's line in the logs")
        self.assertRegex(output, r"muster: rank 1 of 2: in poll < load_batch < \w+; all_reduce #3 .* ended ")
        self.release()
        self.assertEqual(muster.wait_over(name).state, harness.FAILED)


if __name__ == "__main__":
    harness.main()
