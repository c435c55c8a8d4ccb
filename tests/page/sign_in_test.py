"""Signing in at the identity provider, from the signed-out page to the jobs, in a real browser and at 360 px."""
import os
import sys

from browser import NARROW, PageCase, expect, harness

sys.path.insert(0, os.path.join(harness.ROOT, "tests", "e2e"))
from oidc_test import ProviderCase  # noqa: E402
from provider import Provider  # noqa: E402


class SignIn(ProviderCase, PageCase):
    def test_from_the_signed_out_page_to_the_jobs(self):
        provider = Provider(self).start()
        cluster = self.at(provider)
        cluster.jobctl("user", "set", "alice", "--role", "user", "--oidc", f"{provider.issuer} alice")
        at = f"https://{self.address}"
        context = self.open_context(viewport=NARROW, ignore_https_errors=True)
        page = context.new_page()
        page.goto(at + "/queue")
        button = page.get_by_role("button", name=f"Sign in with {provider.issuer.split('/')[2]}")
        self.assert_fits(page, "signed out")
        self.assert_accessible(page, "signed out")
        self.shot(page, "sign-in-begin")
        button.click()
        expect(page.locator("[data-page-state=confirming]")).to_contain_text("Confirm no code that ")
        code = page.locator(".command code").inner_text()
        link = page.get_by_role("link", name=f"{provider.issuer}/device", exact=True)
        expect(link).to_have_attribute("href", f"{provider.issuer}/device?user_code={code}")
        self.assert_fits(page, "confirm")
        self.assert_accessible(page, "confirm")
        self.shot(page, "sign-in-confirm")
        secret = next(each for each in context.cookies() if each["name"].endswith("_provider"))
        self.assertEqual((secret["httpOnly"], secret["secure"], secret["sameSite"]), (True, True, "Strict"))
        provider.decide(code, "alice")
        expect(page).to_have_url(at + "/queue")
        page.goto(at + "/")
        expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        self.assert_live(page)
        self.assertEqual([each["name"].endswith("_provider") for each in context.cookies()], [False])
        self.expects("401")
        self.assert_quiet()


if __name__ == "__main__":
    harness.main()
