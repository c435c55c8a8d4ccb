"""The page in a real browser: Debian's Chromium through playwright, one per file, a fresh profile per test.

Pictures go to MUSTER_PAGE_SHOTS, or page-shots in the build folder; of a test that fails, also a trace (`playwright
show-trace FILE`) and what the console said. A page that logs an error, breaks the Content-Security-Policy or asks in
vain fails its test, unless the test says that it must: see `expects`.
"""
import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
from http_test import HttpCase  # noqa: E402

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import expect, sync_playwright
    MISSING = "" if shutil.which("chromium") else "needs Debian's chromium"
    expect.set_options(timeout=harness.DEADLINE_S * 1000)
except ImportError as error:
    expect = None
    MISSING = f"needs the Python package {error.name}"

SHOTS = os.environ.get("MUSTER_PAGE_SHOTS") or os.path.join(harness.BUILD, "page-shots")
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
# The browser's own background requests must not leave this machine.
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--no-first-run", "--no-default-browser-check", "--disable-dev-shm-usage"]

# Nothing on these pages asks anybody else.
FOREIGN = re.compile(r"^(?!data:|blob:|https?://(127\.0\.0\.1|localhost)[:/])")


def launch(playwright):
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)


class PageCase(HttpCase):
    @classmethod
    def setUpClass(cls):
        if MISSING:
            raise unittest.SkipTest("SKIPPED: " + MISSING)
        os.makedirs(SHOTS, exist_ok=True)
        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        cls.browser = launch(playwright)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.problems, self.expected = [], []

    def open_context(self, viewport=None, scheme="light", **options):
        context = self.browser.new_context(viewport=viewport or WIDE, color_scheme=scheme, reduced_motion="reduce", **options)
        context.set_default_timeout(harness.DEADLINE_S * 1000)
        context.tracing.start(snapshots=True)
        context.on("console", self._said)
        context.on("weberror", lambda error: self.problems.append(f"script: {error.error}"))
        context.on("request", lambda asked: FOREIGN.match(asked.url) and self.problems.append(f"asks {asked.url}"))
        self.addCleanup(self._close, context)
        return context

    def _said(self, said):
        if said.type == "error":
            where = f"{said.location['url'].removeprefix(self.address)}:{said.location['lineNumber']}:{said.location['columnNumber']}"
            self.problems.append(f"console: {said.text[:200]} ({where})")

    def _close(self, context):
        trace = os.path.join(SHOTS, f"failed-{self.id().rsplit('.', 1)[1]}.zip")
        if self._failed():
            context.tracing.stop(path=trace)
            print(f"\ntrace: {trace}\n" + "\n".join(dict.fromkeys(self.problems)), file=sys.stderr)
        else:
            context.tracing.stop()
        context.close()

    def _failed(self):
        result = getattr(self._outcome, "result", None)
        return result is not None and any(getattr(test, "test_case", test) is self
                                          for test, _ in result.failures + result.errors)

    def open(self, muster, path="/", **options):
        """A page that a link of `jobctl ui` has signed in, at `path`."""
        page = self.open_context(**options).new_page()
        page.goto(muster.jobctl("ui", "--no-open").stdout.strip())
        expect(page).to_have_url(self.address + "/")
        if path != "/":
            page.goto(self.address + path)
        expect(page.locator("main")).not_to_be_empty()
        return page

    def expects(self, pattern):
        """What the page may say in this test: a coordinator that was killed does not answer."""
        self.expected.append(re.compile(pattern))

    def assert_quiet(self):
        said = [text for text in dict.fromkeys(self.problems) if not any(pattern.search(text) for pattern in self.expected)]
        self.assertEqual(said, [])

    def assert_accessible(self, page, where):
        found = Axe().run(page).response["violations"]
        text = [f"{each['id']}: {each['help']}: " + "; ".join(
            f"{node['target']} {node['html'][:160]} {node.get('failureSummary', '')[:300]}" for node in each["nodes"][:3])
            for each in found]
        self.assertEqual(text, [], where)

    def assert_fits(self, page, where):
        width, room = page.evaluate("[document.scrollingElement.scrollWidth, document.documentElement.clientWidth]")
        self.assertLessEqual(width, room, f"{where} scrolls sideways")

    def shot(self, page, name):
        page.screenshot(path=os.path.join(SHOTS, f"{name}.png"))

    def assert_live(self, page):
        expect(page.locator("#live")).to_have_attribute("data-state", "ok")
