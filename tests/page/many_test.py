"""A page of a big cluster: 10,000 jobs in the list, 1,000 ranks on the heat map, 100,000 points in a curve."""
import re

from browser import PageCase, expect, harness
from harness import RUNNING, python_line, wait_until

JOBS = 10_000
RANKS = 1_000


class Many(PageCase):
    def submit_many(self, cluster, count):
        """`count` jobs that wait, every hundredth of them named apart."""
        service = cluster.api.service
        from muster.v1 import job_pb2
        requests = (service.SubmitRequest(idempotency_key=f"key-{number}", spec=job_pb2.JobSpec(
            name="rare" if number % 100 == 0 else "many", command=["true"], workdir="/",
            shape=job_pb2.Shape(processes=1))) for number in range(count))
        call = cluster.api.channel.stream_stream(
            "/muster.v1.JobService/SubmitMany", request_serializer=service.SubmitRequest.SerializeToString,
            response_deserializer=service.SubmitResponse.FromString)
        answers = list(call(requests, timeout=120))
        self.assertEqual([answer.status_message for answer in answers if answer.status_code], [])
        return [answer.name for answer in answers]

    def test_ten_thousand_jobs_scroll_to_the_end_and_are_filtered_by_the_coordinator(self):
        cluster = self.shared(workers=())
        names = self.submit_many(cluster, JOBS)
        page = self.open(cluster)
        expect(page.get_by_role("link", name=names[-1], exact=True)).to_be_visible()
        self.assertLess(page.get_by_role("row").count(), 200, "rows out of sight exist")
        first, last = (page.get_by_role("link", name=name, exact=True) for name in (names[0], names[-1]))

        def scrolled():
            page.mouse.wheel(0, 1_000_000)
            return first.is_visible()
        wait_until(scrolled, "the oldest job comes into sight", every_s=0.1)
        self.assertLess(page.get_by_role("row").count(), 200, "rows out of sight exist")
        self.shot(page, "jobs-10000-end")
        page.keyboard.press("Home")
        expect(last).to_be_visible()
        asked = []
        page.on("request", lambda request: request.url.endswith("/ListJobs") and asked.append(request.post_data or ""))
        page.keyboard.press("/")
        page.keyboard.type("rare")
        expect(page.get_by_role("status").filter(has_text="100 jobs")).to_be_visible()
        self.assertTrue([body for body in asked if '"rare"' in body], asked)
        expect(page.get_by_role("row").nth(1)).to_contain_text("rare")
        page.goto(self.address + "/queue")
        expect(page.get_by_role("table", name="Queue")).to_contain_text(names[0])
        self.assert_quiet()

    def test_a_thousand_ranks_are_on_the_heat_map(self):
        cluster = self.shared(devices=f"cpu:{RANKS}")
        job = cluster.submit("-n", RANKS, "--", "sleep", "600")
        cluster.wait_for(job, RUNNING, deadline_s=4 * harness.DEADLINE_S)  # a thousand processes on a busy machine
        page = self.open(cluster, f"/jobs/{job}?tab=ranks")
        heat = page.get_by_role("img", name=re.compile("of 1,000 ranks"))
        expect(heat).to_be_visible()
        expect(page.locator("#panel").get_by_role("status")).not_to_contain_text(
            "without samples", timeout=4_000 * harness.DEADLINE_S)
        heat.press("End")
        expect(heat).to_have_attribute("aria-label", re.compile("rank 999: "))
        self.shot(page, "ranks-1000")
        self.assert_quiet()

    def test_a_long_curve_says_how_much_of_it_is_shown_and_has_all_of_it_on_zoom(self):
        private = self.up()
        job = private.submit("--name", "long", *python_line("losses.py", 100_000))
        private.wait_over(job)
        page = self.open(private, f"/jobs/{job}")
        figure = page.locator("[data-metric=loss]")
        expect(figure.locator(".count")).to_have_text(re.compile("of 100,000 points"))
        for _ in range(12):
            figure.locator("[role=img]").press("+")
        expect(figure.locator(".count")).to_have_text(re.compile(r"^\d+ points$"))
        figure.locator("[role=img]").press("0")
        expect(figure.locator(".count")).to_have_text(re.compile("of 100,000 points"))
        self.assert_quiet()


if __name__ == "__main__":
    harness.main()
