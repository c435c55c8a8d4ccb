"""The forgotten launcher: two devices are asked for and one works. Found from what the worker measures, whatever the
program is, and said at the top of `show` and in `ls --wasted`."""
import json

import harness
from harness import FULL, Case, wait_until

BURN = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass\n"


class ForgottenLauncher(Case):
    def setUp(self):
        super().setUp()
        # The full size shows the finding within a minute, as a user gets it; otherwise within some seconds.
        floor = () if FULL else ("--findings-floor-ms", "4000")
        self.muster = self.cluster(coordinator_args=floor)

    def wasted(self):
        return [item["job"] for item in json.loads(self.muster.jobctl("ls", "--wasted", "-o", "json").stdout)["items"]]

    def test_one_process_on_two_slots_under_a_foreign_launcher(self):
        # What `accelerate launch --cpu --num_processes 2` does under a shell: one process trains.
        job = self.muster.submit("-n", "1", "--devices", "cpu:2", "--", "sh", "-c",
                                 f"{harness.PYTHON} -c '{BURN}'; true")
        wait_until(lambda: self.muster.jobctl("show", job).stdout.startswith("! 1 of 2 devices is busy"),
                   lambda: self.muster.jobctl("show", job).stdout, deadline_s=60)
        text = self.muster.jobctl("show", job).stdout
        self.assertIn("the launcher was forgotten", text)
        self.assertIn("fix: jobctl run -n 2 --devices cpu:2 -- ", text)
        self.assertEqual(self.wasted(), [job])
        self.muster.jobctl("cancel", "--grace", "0", job)

    def test_two_ranks_that_both_work_have_no_finding_and_one_that_sleeps_is_named(self):
        both = self.muster.submit("-n", "2", "--", harness.PYTHON, "-c", BURN)
        wait_until(lambda: int(json.loads(self.muster.jobctl("show", both, "-o", "json").stdout)
                               ["assessment"]["ledger"]["wall_us"]) > (60 if FULL else 5) * 1_000_000,
                   "it has run long enough to be judged", deadline_s=90)
        self.assertEqual(self.wasted(), [])
        self.muster.jobctl("cancel", "--grace", "0", both)
        one = self.muster.submit("-n", "2", "--", "sh", "-c",
                                 f"[ $RANK = 1 ] && exec sleep 600; exec {harness.PYTHON} -c '{BURN}'")
        wait_until(lambda: "rank 1 on node1 has not used its device" in self.muster.jobctl("show", one).stdout,
                   lambda: self.muster.jobctl("show", one).stdout, deadline_s=90)
        self.muster.jobctl("cancel", "--grace", "0", one)


if __name__ == "__main__":
    harness.main()
