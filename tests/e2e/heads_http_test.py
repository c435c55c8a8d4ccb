"""HTTP of coordinators that replace each other on a real etcd: requests find the leader, sessions outlive it, and a
leader that is over sends nothing more."""
import http.client
import os
import re
import shutil
import signal
import subprocess
import time

import harness
import heads
from harness import Case, need, wait_until
from http_test import Answer, ask


class HttpOfSeveral(Case):
    def start(self, count=2, *args):
        self.cluster = heads.Heads(self, heads.Etcd(self), count=count, args=["--http", "127.0.0.1:0", *args]).start()
        self.addresses = [wait_until(lambda: self.address_of(i), f"h{i} listens") for i in range(count)]
        return self.cluster.wait_leader()[0]

    def read(self, index, name):
        try:
            with open(self.path(f"lab-h{index}/{name}")) as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def address_of(self, index):
        port = self.read(index, "HTTP-PORT")
        return port and f"http://127.0.0.1:{port}"

    def ask(self, index, target, token=None, **fields):
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return ask(self.addresses[index], "GET", target, headers)

    def when(self, index, target, status, **how):
        """The first answer with that status: a coordinator that changes its role is away for a moment."""
        def came():
            try:
                answer = self.ask(index, target, **how)
            except OSError:
                return None
            return answer if answer.status == status else None
        return wait_until(came, f"{status} of h{index}{target}")

    def test_requests_find_the_leader_and_its_tokens_outlive_it(self):
        first = self.start()
        second = 1 - first
        self.assertEqual(self.ask(first, "/leader").status, 200)
        self.assertEqual(self.ask(first, "/readyz").body, "ready\nleads\n")
        away = self.when(second, "/jobs/7?tab=logs", 307)
        self.assertEqual(away.headers["Location"], self.addresses[first] + "/jobs/7?tab=logs")
        self.assertEqual(self.ask(second, "/api/v1/ListJobs").error["code"], "JC1630")
        self.assertEqual(self.ask(second, "/leader").status, 503)
        self.assertEqual(self.ask(second, "/readyz").body, "ready\nstands by\n")
        token, scraper = self.read(first, "HTTP-TOKEN"), self.read(first, "HTTP-METRICS-TOKEN")
        self.assertEqual(self.ask(second, "/metrics").status, 401)
        for index, leads in ((first, 1), (second, 0)):
            page = self.when(index, "/metrics", 200, token=scraper).body
            self.assertIn(f"\nmuster_head_leads {leads}\n", page)
            self.assertRegex(page, r"\nmuster_head_position \d+\n")

        job = self.cluster.submit("--queue-anyway", "--", "true")
        self.cluster.heads[first].kill9()
        self.when(second, "/leader", 200)
        self.assertIn(job, self.ask(second, "/api/v1/ListJobs", token=token).body)
        self.assertEqual((self.read(second, "HTTP-TOKEN"), self.read(second, "HTTP-METRICS-TOKEN")), (token, scraper))
        self.cluster.heads[first].start()
        back = self.when(first, "/jobs", 307)
        self.assertEqual(back.headers["Location"], self.addresses[second] + "/jobs")

    def test_promtool_finds_nothing_at_a_coordinator_that_stands_by(self):
        need(shutil.which("promtool"), "needs promtool")
        first = self.start()
        page = self.when(1 - first, "/metrics", 200, token=self.read(first, "HTTP-METRICS-TOKEN")).body
        done = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_behind_a_balancer_no_request_is_sent_around_it(self):
        balancer = f"127.0.0.1:{harness.free_port()}"
        first = self.start(2, "--advertise-http", balancer)
        self.assertEqual(self.when(1 - first, "/", 307).headers["Location"], f"http://{balancer}/")
        self.assertEqual(self.ask(1 - first, "/", Host=balancer).status, 503)
        link = self.cluster.jobctl("ui", "--no-open").stdout
        self.assertTrue(re.match(rf"http://{re.escape(balancer)}/sign-in\?ticket=", link), link)

    def test_a_leader_whose_term_ended_while_it_was_paused_answers_nothing(self):
        first = self.start()
        token = self.read(first, "HTTP-TOKEN")
        host = self.addresses[first].removeprefix("http://")
        stream, late = (http.client.HTTPConnection(host, timeout=harness.DEADLINE_S) for _ in range(2))
        for each in (stream, late):
            self.addCleanup(each.close)
        stream.request("GET", "/events", headers={"Authorization": f"Bearer {token}"})
        events = stream.getresponse()
        self.cluster.submit("--queue-anyway", "--", "true")
        wait_until(lambda: b"event:" in events.readline(), "the stream tells of a job")
        late.request("GET", "/healthz")
        Answer(late.getresponse())
        os.kill(self.cluster.heads[first].pid, signal.SIGSTOP)
        try:
            late.request("GET", "/api/v1/ListJobs", headers={"Authorization": f"Bearer {token}"})
            self.cluster.wait_leader(other_than=first)
            self.cluster.submit("--queue-anyway", "--", "true")
            time.sleep(heads.LEASE_S)  # its own watch of the term is due when it continues, as is all else
        finally:
            os.kill(self.cluster.heads[first].pid, signal.SIGCONT)
        try:
            answered = late.getresponse()
        except (ConnectionError, http.client.BadStatusLine):
            pass
        else:  # a busy machine may have it stand by before it comes to the request: what it knew of jobs is not told
            self.assertIn(answered.status, (307, 503), answered.read())
        try:
            rest = events.read()
        except (ConnectionError, http.client.IncompleteRead):
            rest = b""
        self.assertNotIn(b"event:", rest)
        self.when(first, "/leader", 503)
        self.assertEqual(self.when(first, "/readyz", 200).body, "ready\nstands by\n")


if __name__ == "__main__":
    harness.main()
