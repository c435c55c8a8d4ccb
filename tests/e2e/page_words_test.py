"""What the page says: a reason once, and a restart where it is."""
import os
import sys

import harness
from harness import FAILED

sys.path.insert(0, os.path.join(harness.ROOT, "tests/page"))
from browser import PageCase, expect  # noqa: E402


class Words(PageCase):
    def test_a_failed_job_gives_its_reason_once(self):
        private = self.up()
        script = "import sys; print('read the weights', file=sys.stderr); raise KeyError('weights of layer 7')"
        job = private.submit("--restarts", "1", "--", sys.executable, "-c", script)
        private.wait_for(job, FAILED)
        reason = private.api.record(job).attempts[0].reason
        self.assertIn("KeyError: 'weights of layer 7'", reason)
        page = self.open(private, f"/jobs/{job}")
        expect(page.locator(".jobhead .reason")).to_contain_text(reason)
        for tab in ("Logs", "Ranks", "Events", "Ledger"):
            page.get_by_role("tab", name=tab).click()
            expect(page.locator(f"#panel[data-panel={tab.lower()}]")).not_to_be_empty()
            if tab == "Events":
                expect(page.locator("#panel .events")).to_contain_text("RUNNING → STOPPING: rank 0 on")
            self.assertEqual(page.locator("main").inner_text().count(reason), 1, tab)
        expect(page.locator(".quote")).to_have_count(1)
        self.assert_quiet()

    def test_a_restart_stands_where_it_is_on_the_axis_and_below_a_signal_only_fresh_lines_are_quoted(self):
        page = self.open(self.up())
        quoted = page.evaluate("""async () => {
          const { linesToQuote } = await import(document.querySelector("script[type=module]").src.replace("app.js", "job/said.js"));
          const lastLines = "UserWarning: old\\n\\nepoch 7\\n";
          return [linesToQuote({ lastLines, exitCode: 1, freshLines: 0 }), linesToQuote({ lastLines, signal: 9, freshLines: 1 }),
                  linesToQuote({ lastLines, signal: 9, freshLines: 0 }), linesToQuote({ lastLines, signal: 9 })];
        }""")
        everything = "UserWarning: old\n\nepoch 7\n"
        self.assertEqual(quoted, [everything, "epoch 7", "", everything])
        text = page.evaluate("""async () => {
          const { restartText } = await import(document.querySelector("script[type=module]").src.replace("app.js", "job/choose.js"));
          const restart = { number: 1, startedMs: 2000, resumeStep: 360, reason: "rank 0 on a exited with code 1: KeyError" };
          return [restartText(restart, { times: [1000, 2500], steps: [6, 7] }, false), restartText(restart, undefined, false)];
        }""")
        self.assertEqual(text, ["↻1 attempt 1, at step 7, from checkpoint 360: rank 0 on a exited with code 1: …",
                                "↻1 attempt 1, from checkpoint 360: rank 0 on a exited with code 1: …"])
        self.assert_quiet()


if __name__ == "__main__":
    harness.main()
