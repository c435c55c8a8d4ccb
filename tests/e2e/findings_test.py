"""What jobctl reports about a job unasked: findings at the top of `show` and in `ls --wasted`, the ledger of its device
time, and about how long it still takes."""
import json

import harness
from harness import FAILED, RUNNING, SUCCEEDED, Case, python_line, wait_until

PARTS = ("queue", "start", "data", "compute", "communication", "checkpoint", "restart", "repeated", "idle", "unknown")


class Findings(Case):
    def setUp(self):
        super().setUp()
        # The floor of findings is a second instead of a minute.
        self.muster = self.cluster(devices="cpu:4", coordinator_args=("--findings-floor-ms", "1000"))

    def shown(self, job):
        return self.muster.jobctl("show", job).stdout

    def assessment(self, job):
        return json.loads(self.muster.jobctl("show", job, "-o", "json").stdout)["assessment"]

    def wasted(self):
        items = json.loads(self.muster.jobctl("ls", "--wasted", "-o", "json").stdout)["items"]
        return {item["job"]: item for item in items}

    def test_a_loss_that_is_nan_is_the_first_line_of_show_and_a_row_of_wasted(self):
        go = self.path("go")
        bad = self.muster.submit("-n", "2", *python_line("stepper.py", 12, "--nan-from", 8, "--until", go))
        good = self.muster.submit("-n", "2", *python_line("stepper.py", 12, "--until", go))
        text = wait_until(lambda: (lambda text: text if "since step 8, 5 values" in text else None)(self.shown(bad)),
                          lambda: f"the finding is shown:\n{self.shown(bad)}")
        self.assertTrue(text.startswith("! loss has been NaN since step 8"), text)
        self.assertIn("\n  fix: jobctl cancel", text)
        self.assertIn("[loss-not-finite]", text)
        self.assertEqual(list(self.wasted()), [bad])
        row = self.wasted()[bad]
        self.assertEqual(row["code"], "loss-not-finite")
        self.assertIn("rerun", row["fix"])
        open(go, "w").close()
        self.muster.wait_for(bad, SUCCEEDED)
        self.assertIn(bad, self.wasted(), "of a finished job as well")
        self.assertNotIn(good, self.wasted())
        self.muster.wait_for(good, SUCCEEDED)
        self.assertEqual(self.assessment(good)["findings"], [])

    def test_no_progress_names_the_step_and_leads_to_stack_and_the_time_left_is_shown(self):
        go = self.path("go")
        job = self.muster.submit("-n", "2", *python_line(
            "stepper.py", 400, "--step", 0.05, "--hang-at", 30, "--until", go))
        # About 20 s of steps are left while it trains.
        wait_until(lambda: "Done in" in self.shown(job), "the time left")
        [row] = json.loads(self.muster.jobctl("ls", "-o", "json").stdout)["items"]
        self.assertGreater(row["eta_ms"], 5_000)
        wait_until(lambda: self.shown(job).startswith("! no step for"), lambda: self.shown(job))
        text = self.shown(job)
        self.assertIn("since step 30", text)
        self.assertIn(f"fix: jobctl stack {job}", text)
        open(go, "w").close()
        wait_until(lambda: not self.shown(job).startswith("! no step"), "the finding is gone")
        self.muster.jobctl("cancel", job, check=False)

    def test_the_ledger_of_a_run_with_two_restarts_adds_up(self):
        job = self.muster.submit("-n", "2", "--restarts", "2", *python_line(
            "stepper.py", 60, "--save-every", 20, "--die-at", "35,50"))
        record = self.muster.wait_for(job, SUCCEEDED)
        self.assertEqual([attempt.resume_step for attempt in record.attempts], [-1, 20, 40])
        ledger = {key: int(value) for key, value in self.assessment(job)["ledger"].items()
                  if key.endswith("_us") or key == "devices"}
        self.assertEqual(ledger["wall_us"], (record.finished_ms - record.submitted_ms) * 1000)
        self.assertEqual(ledger["total_us"], ledger["wall_us"] * 2)
        self.assertEqual(sum(ledger[f"{part}_us"] for part in PARTS), ledger["total_us"])
        # Steps 21 to 35 and 41 to 50 were done twice, on two devices, 20 ms each and more.
        self.assertGreaterEqual(ledger["repeated_us"], 2 * 25 * 20_000 * 9 // 10)
        for part in ("start", "compute", "data", "communication", "checkpoint", "restart"):
            self.assertGreater(ledger[f"{part}_us"], 0, part)
        self.assertEqual(ledger["idle_us"], 0)
        text = self.muster.jobctl("show", job, "--ledger").stdout
        self.assertIn("repeated steps", text)
        self.assertRegex(text, r"Goodput: \d+\.\d % of its device time computed steps that count")
        self.assertRegex(text, r"Lost to rank 0 on node1: .* \(2 failures: restarts, repeated steps\)")
        self.assertIn("Newest failure: rank 0 on node1 exited with code 4", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80, text)

    def test_a_job_that_fails_often_and_never_saves_is_told_how_often_to_save(self):
        job = self.muster.submit("-n", "1", "--restarts", "2", *python_line(
            "stepper.py", 25, "--step", 0.05, "--die-at", "20,24"))
        self.muster.wait_for(job, SUCCEEDED)
        text = self.shown(job)
        self.assertTrue(text.startswith("! it failed 2 times and has no checkpoint: "), text)
        self.assertIn("fix: save a checkpoint about every", text)
        self.assertEqual(self.wasted()[job]["code"], "checkpoints-too-rare")

    def test_it_survives_a_restart_of_the_coordinator(self):
        go = self.path("go")
        job = self.muster.submit("-n", "1", *python_line("stepper.py", 12, "--nan-from", 5, "--until", go))
        wait_until(lambda: "8 values in a row" in self.shown(job), "the finding")
        self.muster.coordinator.kill9()
        self.muster.restart_coordinator()
        self.assertIn("8 values in a row", self.shown(job))
        open(go, "w").close()
        self.muster.wait_for(job, SUCCEEDED)


class Quiet(Case):
    def test_a_program_that_reports_nothing_and_one_that_fails_have_no_finding(self):
        muster = self.cluster()
        done = muster.submit("-n", "2", "--", "true")
        failed = muster.submit("-n", "2", "--", "sh", "-c", "exit 3")
        muster.wait_for(done, SUCCEEDED)
        muster.wait_for(failed, FAILED)
        for job in (done, failed):
            self.assertFalse(muster.jobctl("show", job).stdout.startswith("!"))
            self.assertIn("Goodput: unknown", muster.jobctl("show", job, "--ledger").stdout)
        self.assertEqual(json.loads(muster.jobctl("ls", "--wasted", "-o", "json").stdout)["items"], [])
        waiting = muster.submit("-n", "1", "--", "sleep", "600")
        muster.wait_for(waiting, RUNNING)
        self.assertFalse(muster.jobctl("show", waiting).stdout.startswith("!"))
        muster.jobctl("cancel", waiting)


if __name__ == "__main__":
    harness.main()
