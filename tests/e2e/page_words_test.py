"""What the page shows to whom: a reason once, buttons to users who may use them, and how to sign in to all others."""
import os
import sys

import harness
from enroll_test import EnrollCase
from harness import FAILED, RUNNING

sys.path.insert(0, os.path.join(harness.ROOT, "tests/page"))
from browser import NARROW, WIDE, PageCase, expect  # noqa: E402


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

    def test_the_signed_out_page_has_a_form_that_takes_tokens_and_links(self):
        cluster = self.shared(workers=())
        self.expects("401")
        for viewport in (NARROW, WIDE):
            page = self.open_context(viewport=viewport).new_page()
            page.goto(self.address + "/nodes")
            expect(page.locator(".signin")).to_be_visible()
            self.assertNotEqual(page.evaluate("getComputedStyle(document.querySelector('.signin form')).borderTopStyle"), "none")
            self.assert_fits(page, "signed out")
            self.assert_accessible(page, "signed out")
            self.shot(page, f"signed-out-{viewport['width']}")
            page.get_by_label("paste").fill("nonsense")
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text("not a token of this coordinator")
            page.get_by_label("paste").fill(self.token if viewport == WIDE else cluster.jobctl("ui", "--no-open").stdout)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("main h1")).to_have_text("Nodes")
            expect(page).to_have_url(self.address + "/nodes")
            # The session ends while the page is open: it leads to the same form, and back.
            page.context.clear_cookies()
            page.get_by_role("link", name="Queue").click()
            expect(page.locator("[data-page-state=signed-out]")).to_be_visible()
            self.assert_fits(page, "signed out in the page")
            page.get_by_role("link", name="Sign in with a token").click()
            page.get_by_label("paste").fill(self.token)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("main h1")).to_have_text("Queue")
        self.assert_quiet()


class Roles(PageCase, EnrollCase):
    def test_who_may_not_drain_or_cancel_sees_no_button_for_it(self):
        cluster = self.secured()
        done = self.join(EnrollCase.token(self, cluster, "worker"), "node1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.start_worker(cluster, "node1")
        job = cluster.submit("--", "sleep", "600")
        cluster.wait_for(job, RUNNING)
        self.expects("asks https|401")
        shown = {}
        for name, role in (("eve", "viewer"), ("alice", "user"), ("olga", "operator")):
            token = cluster.jobctl("token", "create", "person", name, "--role", role).stdout.strip()
            context = self.browser.new_context(viewport=WIDE, ignore_https_errors=True)
            context.set_default_timeout(harness.DEADLINE_S * 1000)
            self.addCleanup(context.close)
            page = context.new_page()
            page.goto(f"https://{self.address}/nodes")
            page.get_by_label("paste").fill(token)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("main .node")).to_be_visible()
            drains = page.locator("[data-action=drain]")
            page.goto(f"https://{self.address}/jobs/{job}")
            expect(page.locator(".jobhead .badge")).to_have_attribute("data-state", "RUNNING")
            actions = page.locator(".jobhead .actions")
            if role == "operator":
                expect(actions.locator("[data-action=cancel]")).to_be_visible()
            elif role == "user":
                expect(actions.locator("[data-action=rerun]")).to_be_visible()
            else:
                page.wait_for_timeout(300)
            shown[name] = [each for each in ("rerun", "cancel") if actions.locator(f"[data-action={each}]").is_visible()]
            page.goto(f"https://{self.address}/nodes")
            expect(page.locator("main .node")).to_be_visible()
            if role == "operator":
                expect(drains).to_be_visible()
            shown[name] += ["drain"] if drains.is_visible() else []
        self.assertEqual(shown, {"eve": [], "alice": ["rerun"], "olga": ["rerun", "cancel", "drain"]})


if __name__ == "__main__":
    harness.main()
