"""A page that stays open: a job from its submit to its end, a rank that is killed under a curve, a coordinator that is
killed and comes back. Nothing is ever reloaded."""
import http.server
import os
import re
import threading

from browser import PageCase, expect, harness
from harness import RUNNING, python_line, wait_until


class Live(PageCase):
    def stay(self, page):
        """From here on, a reload is found."""
        page.evaluate("window.musterStayed = true")

    def assert_stayed(self, page):
        self.assertTrue(page.evaluate("window.musterStayed"), "the page was loaded again")

    def badge(self, page):
        return page.locator(".jobhead .badge")

    def row(self, page, job):
        return page.get_by_role("row").filter(has=page.get_by_role("link", name=job, exact=True))

    def curve(self, page, pattern):
        expect(page.locator("[data-metric=loss] [role=img]")).to_have_attribute("aria-label", re.compile(pattern))

    def test_a_job_is_followed_from_submit_to_end(self):
        private = self.up()
        page = self.open(private)
        expect(page.locator("[data-page-state=empty]")).to_be_visible()
        self.stay(page)
        go = self.path("go")
        job = private.submit("--name", "followed", "-n", "2", *python_line("stepper.py", 30, "--until", go))
        expect(self.row(page, job).locator(".badge")).to_have_attribute("data-state", "RUNNING")
        expect(self.row(page, job)).to_contain_text("30")  # the step that it waits at
        page.get_by_role("link", name=job, exact=True).click()
        expect(self.badge(page)).to_have_attribute("data-state", "RUNNING")
        self.curve(page, "to step 30")
        self.shot(page, "live-running")
        open(go, "w").close()
        expect(self.badge(page)).to_have_attribute("data-state", "SUCCEEDED")
        page.get_by_role("link", name="Jobs", exact=True).click()
        expect(self.row(page, job).locator(".badge")).to_have_attribute("data-state", "SUCCEEDED")
        self.assert_stayed(page)
        self.assert_quiet()

    def test_a_curve_goes_on_when_a_rank_is_killed_and_marks_the_restart(self):
        private = self.up()
        page = self.open(private)  # before the job starts: its steps take seconds only
        go = self.path("go")
        job = private.submit("--name", "killed", "-n", "2", "--restarts", "1", *python_line(
            "stepper.py", 120, "--step", 0.03, "--save-every", 20, "--until", go), cwd=self.directory)
        page.goto(f"{self.address}/jobs/{job}")
        self.stay(page)
        self.curve(page, r"to step ([3-9]|1[01])\d:")
        ranks = [pid for pid, line in self.processes().items() if line.startswith(harness.PYTHON) and line.endswith(go)]
        harness.kill9(min(ranks))
        expect(page.get_by_role("list", name="Restarts")).to_contain_text("attempt 1")
        self.curve(page, "restarts marked: 1")
        wait_until(lambda: private.state(job) == RUNNING, "the second attempt runs")
        expect(page.locator("[data-attempt='1']")).to_be_visible()
        self.shot(page, "curve-with-restart")
        open(go, "w").close()
        expect(self.badge(page)).to_have_attribute("data-state", "SUCCEEDED")
        self.curve(page, "to step 120:.*restarts marked: 1")
        self.assert_stayed(page)
        self.assert_quiet()

    def test_a_page_says_that_the_coordinator_is_gone_and_is_right_again_when_it_is_back(self):
        cluster = self.shared()
        job = cluster.submit("--name", "outlives", *python_line("stepper.py", 5, "--until", self.path("go")))
        cluster.wait_for(job, RUNNING)
        jobs, one = self.open(cluster), self.open(cluster, f"/jobs/{job}")
        for page in (jobs, one):
            self.assert_live(page)
            self.stay(page)
        cluster.coordinator.kill9()
        for page in (jobs, one):
            expect(page.locator("#live")).to_have_attribute("data-state", "gone")
            expect(page.locator("#notice")).to_contain_text("does not answer")
        self.shot(one, "coordinator-gone")
        expect(self.badge(one)).to_have_attribute("data-state", "RUNNING")  # what it said last
        cluster.restart_coordinator()
        late = cluster.submit("--name", "late", "--", "true")
        open(self.path("go"), "w").close()
        expect(self.row(jobs, late).locator(".badge")).to_have_attribute("data-state", "SUCCEEDED")
        expect(self.row(jobs, job).locator(".badge")).to_have_attribute("data-state", "SUCCEEDED")
        expect(self.badge(one)).to_have_attribute("data-state", "SUCCEEDED")
        for page in (jobs, one):
            self.assert_live(page)
            expect(page.locator("#notice")).to_be_empty()
            self.assert_stayed(page)
        self.expects(r"ERR_|Failed to load resource|net::")
        self.assert_quiet()

    def stand_in(self, answer):
        """Something that answers every request at the address of the coordinator, which is gone."""
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, fields = answer(self.path)
                self.send_response(status)
                for name, value in {"Content-Length": "0", **fields}.items():
                    self.send_header(name, value)
                self.end_headers()
            do_HEAD = do_POST = do_GET

            def log_message(self, *_):
                pass
        host, port = self.address.removeprefix("http://").split(":")
        server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def stop():
            server.shutdown()
            server.server_close()
        self.addCleanup(stop)
        return stop

    def test_a_page_follows_to_the_coordinator_that_leads_now(self):
        there = self.shared(workers=(), name="there")
        there_address = self.address
        here = self.shared()
        job = here.submit("--name", "moves", "--", "true")
        page = self.open(here, f"/jobs/{job}?x=1")
        self.assert_live(page)
        here.coordinator.kill9()
        self.stand_in(lambda path: (307, {"Location": there_address + path}))
        # Not signed in there: browsers keep cookies by host and by name.
        page.wait_for_url(f"{there_address}/jobs/{job}?x=1")
        expect(page.locator("[data-page-state=signed-out]")).to_be_visible()
        page.goto(there.jobctl("ui", "--no-open").stdout.strip())
        self.assert_live(page)
        self.expects(r"ERR_|Failed to load resource|net::|Content Security Policy|Refused to connect|violates|not available|Fetch API cannot load")
        self.assert_quiet()

    def test_a_page_behind_a_balancer_stays_over_a_change_of_the_leader(self):
        cluster = self.shared()
        job = cluster.submit("--name", "stays", *python_line("stepper.py", 5, "--until", self.path("go")))
        cluster.wait_for(job, RUNNING)
        page = self.open(cluster, f"/jobs/{job}")
        self.assert_live(page)
        self.stay(page)
        cluster.coordinator.kill9()
        asked = []

        def no_leader(path):  # as a balancer that has nothing to ask
            asked.append(path)
            return 503, {"Retry-After": "2"}
        stop = self.stand_in(no_leader)
        wait_until(lambda: len(asked) > 4, "the page keeps asking")
        expect(page.locator("#live")).to_have_attribute("data-state", "gone")
        stop()
        cluster.restart_coordinator()
        open(self.path("go"), "w").close()
        expect(self.badge(page)).to_have_attribute("data-state", "SUCCEEDED")
        self.assert_live(page)
        self.assert_stayed(page)
        self.expects(r"ERR_|Failed to load resource|net::")
        self.assert_quiet()

    def test_logs_are_followed_and_searched(self):
        private = self.up()
        go = self.path("go")
        job = private.submit("--name", "writes", "-n", "2", "--", "sh", "-c",
                             f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo ended; echo 'Error: no' >&2")
        page = self.open(private, f"/jobs/{job}")
        box = page.locator(".logbox")
        expect(box).to_contain_text("begun")
        open(go, "w").close()
        expect(box).to_contain_text("ended")
        expect(box).to_contain_text(re.compile(r"\[2 ranks\]\s*begun"))  # equal lines of ranks are folded
        page.locator("[data-field=grep]").fill("beg[a-z]n")
        expect(box).not_to_contain_text("ended")
        expect(box).to_contain_text("begun")
        self.assert_quiet()

    def test_a_search_covers_the_whole_log_and_what_comes_later_repeats_nothing(self):
        private = self.up()
        go = self.path("go")
        quiet = f"echo needle; while [ ! -e {go} ]; do sleep 0.05; done; echo fresh"
        busy = f"sleep 1; seq 1 2500; while [ ! -e {go} ]; do sleep 0.05; done"
        job = private.submit("--name", "long", "-n", "2", "--", "sh", "-c",
                             f'if [ "$RANK" = 0 ]; then {quiet}; else {busy}; fi')
        wait_until(lambda: "2500" in private.jobctl("logs", job).stdout, "both ranks have written")
        page = self.open(private, f"/jobs/{job}")
        note, box = page.locator(".lognote"), page.locator(".logbox")
        expect(note).to_contain_text("the last 2,000 lines")
        open(go, "w").close()
        expect(note).to_contain_text("the last 2,001 lines")  # not the needle of a rank that was silent since
        expect(box).to_contain_text("fresh")
        page.locator("[data-field=grep]").fill("needle")
        expect(box).to_contain_text("needle")
        expect(note).to_have_text("1 line found")
        expect(self.badge(page)).to_have_attribute("data-state", "SUCCEEDED")
        asked = []
        page.on("request", lambda request: asked.append(request.url) if "StreamLogs" in request.url else None)
        page.evaluate("() => ['events', 'logs', 'logs'].forEach((id) => document.getElementById(`tab-${id}`).click())")
        expect(box).to_contain_text("needle")
        self.assertEqual(len(asked), 1, "a tab that is chosen twice is opened once")
        private.jobctl("rm", "--yes", job)
        expect(page.locator("[data-page-state=empty]")).to_contain_text("The job was removed")
        self.expects("status of 404")
        self.assert_quiet()

    def test_the_forgotten_launcher_is_said_first(self):
        cluster = self.cluster(coordinator_args=("--http", "127.0.0.1:0", "--findings-floor-ms", "4000"))
        self.look_at(cluster, os.path.join(cluster.directory, "data"))
        busy = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass\n"
        job = cluster.submit("--name", "alone", "-n", "1", "--devices", "cpu:2", "--", "sh", "-c",
                             f"{harness.PYTHON} -c '{busy}'; true")
        page = self.open(cluster, f"/jobs/{job}")
        finding = page.locator("main article[data-finding]").first
        expect(finding).to_contain_text("1 of 2 devices is busy", timeout=60_000)
        expect(finding).to_contain_text("the launcher was forgotten")
        expect(finding).to_contain_text("jobctl run -n 2 --devices cpu:2 -- ")
        self.shot(page, "forgotten-launcher")
        page.get_by_role("link", name="Jobs", exact=True).click()
        expect(self.row(page, job)).to_contain_text("1 of 2 devices is busy")
        cluster.jobctl("cancel", "--grace", "0", job)
        self.assert_quiet()


if __name__ == "__main__":
    harness.main()
