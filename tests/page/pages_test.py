"""Every page: whole, accessible, within its Content-Security-Policy, light, dark and narrow; by keyboard; with text that
wants to be markup; signed in and not; and what an action shows before it acts."""
import json
import os
import re
import sys
from urllib.parse import quote

from browser import NARROW, WIDE, PageCase, expect, harness
from harness import FAILED, RUNNING, SUCCEEDED, python_line

TABS = ("Logs", "Ranks", "Checkpoints", "Events", "Config", "Environment", "Ledger")
# Each would do something, if it ever became markup. A job's name has no spaces and no slashes.
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>&lt;b&gt;"
MARKUP_NAME = "<script>alert(3)<b>&amp;"


class Pages(PageCase):
    def jobs(self):
        """A private coordinator with two jobs that are over, one that has failed and one that runs."""
        private = self.up()
        trained = []
        for steps in (40, 30):
            trained.append(private.submit("--name", "trained", "-n", "2", "--label", "team=vision", *python_line(
                "stepper.py", steps, "--step", 0.001, "--save-every", 20), cwd=self.directory))
        for job in trained:
            private.wait_for(job, SUCCEEDED)
        failed = private.submit("--name", "failed", "--", sys.executable, "-c", "raise KeyError('weights')")
        private.wait_for(failed, FAILED)
        runs = private.submit("--name", "runs", "--", "sh", "-c", "echo out; echo err >&2; sleep 600")
        private.wait_for(runs, RUNNING)
        return private, trained, failed, runs

    def settled(self, page):
        """The page has all that it asked for at first."""
        for state in ("loading", "error"):
            expect(page.locator(f"main [data-page-state={state}]")).to_have_count(0)
        self.assert_live(page)

    def visit(self, page, trained, look, each):
        """Calls each(name) on every page and tab."""
        places = {"jobs": "/", "queue": "/queue", "nodes": "/nodes", "usage": "/usage", "compare": f"/compare?jobs={','.join(trained)}",
                  "job": f"/jobs/{trained[0]}"}
        for name, path in places.items():
            page.goto(self.address + path)
            expect(page.locator("main h1")).to_be_visible()
            self.settled(page)
            if name != "job":
                each(f"{name}-{look}")
        expect(page.locator("[data-metric=loss] canvas").first).to_be_visible()
        for tab in TABS:
            page.get_by_role("tab", name=tab).click()
            expect(page.locator(f"#panel[data-panel={tab.lower()}]")).not_to_be_empty()
            self.settled(page)
            each(f"job-{tab.lower()}-{look}")

    def test_every_page_is_whole_and_accessible_light_dark_and_narrow(self):
        private, trained, _, _ = self.jobs()
        for look, viewport, scheme in (("light", WIDE, "light"), ("dark", WIDE, "dark"), ("narrow", NARROW, "light")):
            page = self.open(private, viewport=viewport, scheme=scheme)

            def look_at(name):
                self.shot(page, name)
                self.assert_fits(page, name)
                if look != "narrow":  # the same elements, in the same colors
                    self.assert_accessible(page, name)
            self.visit(page, trained, look, look_at)
            self.assert_quiet()

    def test_without_jobs_each_page_says_what_to_do(self):
        page = self.open(self.up())
        for path in ("/", "/queue"):
            page.goto(self.address + path)
            expect(page.locator("[data-page-state=empty]")).to_be_visible()
            self.shot(page, f"empty{path.replace('/', '-')}")
        page.goto(self.address + "/jobs/nobody")
        expect(page.locator("[data-page-state=error]")).to_contain_text("nobody")
        self.expects("404")
        self.assert_quiet()

    def test_by_keyboard_from_the_list_to_a_job_and_back(self):
        private, trained, _, runs = self.jobs()
        page = self.open(private)
        expect(page.get_by_role("link", name=trained[0], exact=True)).to_be_visible()
        page.keyboard.press("j")
        expect(page.locator(".row[data-current]")).to_contain_text(runs)
        expect(page.get_by_role("link", name=runs, exact=True)).to_be_focused()
        for _ in range(3):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{self.address}/jobs/{trained[0]}")
        expect(page.get_by_role("heading", level=1)).to_have_text(trained[0])
        page.get_by_role("tab", name="Logs").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Ranks")).to_be_focused()
        expect(page).to_have_url(re.compile(r"tab=ranks"))
        page.keyboard.press("g")
        page.keyboard.press("j")
        expect(page).to_have_url(self.address + "/")
        page.keyboard.press("/")
        page.keyboard.type("fail")
        expect(page.get_by_role("row")).to_have_count(2)  # with the head
        self.assert_quiet()

    def test_the_loss_is_the_one_that_jobctl_shows(self):
        with open(os.path.join(harness.ROOT, "tests/common/loss_names.json")) as file:
            table = json.load(file)
        private = self.up()
        job = private.submit("--", sys.executable, harness.rank_script("losses.py"), "4", "--name", "train/loss")
        private.wait_for(job, SUCCEEDED)
        page = self.open(private)
        expect(page.get_by_title("train/loss", exact=True)).to_have_text("0.25")
        seen = page.evaluate("""async (table) => {
          const { isLossName, byLossName, lossOf } = await import(document.querySelector("script[type=module]").src.replace("app.js", "job/choose.js"));
          return { losses: table.losses.filter(isLossName), others: table.others.filter(isLossName),
                   in_order: [...table.in_order].reverse().sort(byLossName), first: lossOf(["lr", ...table.in_order.slice(3)]) };
        }""", table)
        self.assertEqual(seen, {**table, "others": [], "first": "train_loss"})
        self.assert_quiet()

    def test_compare_says_what_jobctl_says_of_all_points_of_long_runs_too(self):
        private = self.up()
        # More points than a chart gets, and what differs is between two that it gets.
        jobs = [private.submit("--", sys.executable, harness.rank_script("losses.py"), "20001", "--nan", nan) for nan in ("-1", "15001")]
        for job in jobs:
            private.wait_for(job, SUCCEEDED)
            harness.wait_until(lambda: len(private.api.metrics(job)) >= 20001, "its points")
        page = self.open(private, f"/compare?jobs={','.join(jobs)}&rtol=2%25&atol=1e-6")
        pair = page.locator("section.pair")
        expect(pair).to_have_attribute("data-verdict", "FAIL")
        said = private.jobctl("compare", *jobs, "--rtol", "2%", "--atol", "1e-6", check=False).stdout
        head, *lines = said[said.index("FAIL  "):].split("configuration of")[0].rstrip("\n").split("\n")
        expect(pair.locator("h2")).to_have_text(head.replace("FAIL  ", "✗ FAIL "))
        # A browser joins spaces.
        expect(pair.locator(".summary li")).to_have_text([" ".join(line.split()) for line in lines])
        self.assertIn("first past the limit: step 15001", "\n".join(lines))
        row = pair.locator("tr[data-at='15001']")
        expect(row).to_have_attribute("data-past", "")
        cells = [line for line in said.split("\n") if line.startswith("15001\t")][0].split("\t")
        expect(row.locator("td")).to_have_text(cells)
        expect(pair).to_contain_text("42 of 20,001 rows")
        expect(page.locator("figure[data-metric=loss] canvas").first).to_be_visible()
        self.shot(page, "compare-long")
        # A limit that is none is marked, with the reason, and the curves stay.
        page.get_by_label("Relative limit").fill("much")
        page.get_by_label("Relative limit").press("Tab")
        expect(page.locator(".comparison [role=alert]")).to_contain_text("not \"much\"")
        expect(page.get_by_label("Relative limit")).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_label("Absolute limit")).to_have_attribute("aria-invalid", "false")
        expect(page.locator("figure[data-metric=loss] canvas").first).to_be_visible()
        page.get_by_label("Relative limit").fill("")
        page.get_by_label("Relative limit").press("Tab")
        expect(pair).to_have_attribute("data-verdict", "FAIL")
        self.expects("400")
        self.assert_quiet()

    def test_a_progress_bar_is_one_line_that_changes(self):
        private = self.up()
        # As the Hugging Face Trainer does: the bar on stderr, a logger's line after each few steps, a second bar.
        line = ("import sys\nfor epoch in (1, 2):\n for step in range(0, 101, 10):\n"
                "  print(f'\\rtrain:  {step}%|{chr(9608) * (step // 10):10}| {step}/100 [00:01<00:00]', file=sys.stderr, flush=True)\n"
                "  if step == 50: print('half of', epoch, flush=True)")
        job = private.submit("--", sys.executable, "-c", line)
        private.wait_for(job, SUCCEEDED)
        page = self.open(private, f"/jobs/{job}?tab=logs")
        expect(page.locator(".logbox")).to_contain_text("half of 2")
        expect(page.locator(".logline .text").filter(has_text="%|")).to_have_count(2)
        expect(page.locator(".logline .text").filter(has_text="100%|██████████| 100/100")).to_have_count(2)
        self.assert_quiet()

    def test_coordinators_are_listed_only_where_several_replace_each_other(self):
        private = self.up()
        page = self.open(private, "/nodes")
        self.settled(page)
        expect(page.get_by_role("list", name="Coordinators")).to_have_count(0)
        several = [{"name": "head-1.example.org", "leads": True, "endpoint": "h1:7700", "version": "0.9", "term": "812"},
                   {"name": MARKUP_NAME, "endpoint": "h2:7700", "version": "0.9", "lag": "1"},
                   {"name": "h" * 63, "endpoint": "h3:7700", "version": "0.9", "lag": "70000"}]
        page = self.open_context(viewport=NARROW).new_page()
        page.route("**/api/v1/ListCoordinators", lambda route: route.fulfill(json={"coordinators": several}))
        page.goto(private.jobctl("ui", "--no-open").stdout.strip())
        expect(page).to_have_url(self.address + "/")  # the link has signed in, and led there
        page.goto(self.address + "/nodes")
        rows = page.get_by_role("list", name="Coordinators").get_by_role("listitem")
        expect(rows).to_have_text(["head-1.example.org leads", f"{MARKUP_NAME} stands by, 1 entry behind",
                                   f"{'h' * 63} stands by, 70,000 entries behind"])
        self.settled(page)
        self.shot(page, "nodes-coordinators-narrow")
        self.assert_fits(page, "the list of coordinators")
        self.assert_accessible(page, "the list of coordinators")
        self.assert_quiet()

    def test_text_that_is_markup_stays_text(self):
        private = self.up()
        line = 'echo "$1"; "$2" -S "$3" 5 --name "$1"; exit 3'
        job = private.submit("--name", MARKUP_NAME, "-e", f"NOTE={MARKUP}", "--", "sh", "-c", line,
                             "sh", MARKUP, sys.executable, harness.rank_script("losses.py"))
        private.wait_for(job, FAILED)
        page = self.open(private)
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        expect(page.get_by_role("table")).to_contain_text(MARKUP_NAME)
        page.get_by_role("link", name=job, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(job)
        expect(page.locator(".logbox")).to_contain_text(MARKUP)
        expect(page.locator("section.charts figure h3").get_by_text(MARKUP, exact=True)).to_be_visible()
        for tab in TABS:
            page.get_by_role("tab", name=tab).click()
            expect(page.locator(f"#panel[data-panel={tab.lower()}]")).not_to_be_empty()
            self.settled(page)
        page.goto(f"{self.address}/jobs/nobody{quote(MARKUP, safe='')}")
        expect(page.locator("[data-page-state=error]")).to_contain_text("onerror")
        self.shot(page, "markup")
        self.assertEqual(page.locator("img[src=x], main script").count(), 0)
        self.expects("404")
        self.assert_quiet()

    def test_a_link_signs_in_and_without_one_the_page_says_how(self):
        private = self.up()
        job = private.submit("--", "true")
        private.wait_over(job)
        page = self.open_context().new_page()
        page.goto(self.address + "/")
        expect(page.locator("body")).to_contain_text("jobctl ui")
        self.expects("401")
        page.goto(private.jobctl("ui", "--no-open", "@last").stdout.strip())
        expect(page).to_have_url(f"{self.address}/jobs/{job}")
        expect(page.get_by_role("heading", level=1)).to_have_text(job)
        page.context.clear_cookies()
        page.get_by_role("link", name="Nodes").click()
        expect(page.locator("[data-page-state=signed-out]")).to_contain_text("jobctl ui")
        self.shot(page, "signed-out")
        self.assert_quiet()

    def test_an_action_shows_its_command_and_asks_before_it_cancels(self):
        private, _, _, runs = self.jobs()
        page = self.open(private, f"/jobs/{runs}")
        page.locator("[data-action=cancel]").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"jobctl cancel {runs}")
        self.shot(page, "action-cancel")
        self.assert_accessible(page, "the dialog")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        self.assertEqual(private.state(runs), RUNNING)
        page.locator("[data-action=cancel]").click()
        page.get_by_label("Reason").fill("wrong data")
        expect(dialog).to_contain_text(f"jobctl cancel {runs} --reason 'wrong data'")
        dialog.get_by_role("button", name="Cancel job").click()
        expect(page.locator(".jobhead .badge")).to_have_attribute("data-state", "CANCELLED")
        self.assertIn("wrong data", private.api.record(runs).reason)
        self.assert_quiet()

    def test_a_coordinator_that_several_people_share_acts_for_whose_session_it_is(self):
        cluster = self.shared()
        job = cluster.submit("--", "sleep", "600")
        cluster.wait_for(job, RUNNING)
        page = self.open(cluster, f"/jobs/{job}")
        page.locator("[data-action=cancel]").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"jobctl cancel {job}")
        dialog.get_by_role("button", name="Cancel job").click()
        expect(page.locator(".jobhead .badge")).to_have_attribute("data-state", "CANCELLED")
        self.assertIn(f"uid:{os.getuid()}", cluster.api.record(job).reason)
        self.assert_quiet()


if __name__ == "__main__":
    harness.main()
