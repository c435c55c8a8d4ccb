"""Whether tests raise findings about jobs that are fine: with MUSTER_FINDINGS=FILE every job of every
test is assessed once a second, as `jobctl ls --wasted` would, and each new finding is a line of FILE."""
import os
import threading

FILE = os.environ.get("MUSTER_FINDINGS")


class Watch:
    def __init__(self, test, api):
        self.test, self.api = test, api
        self.seen = set()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self):
        self.done.set()
        self.thread.join()
        self.api.close()

    def _run(self):
        while not self.done.wait(1.0):
            try:
                for job in self.api.newest():
                    self._look(job)
            except Exception:  # the coordinator may be down, killed or not there yet
                continue

    def _look(self, job):
        for finding in self.api.assess(job.id).findings:
            key = (job.id, finding.code, finding.attempt)
            if key not in self.seen:
                self.seen.add(key)
                with open(FILE, "a", encoding="utf-8") as file:
                    file.write(f"{self.test}\t{job.id}\t{finding.code}\t{finding.sentence}\t{finding.cause}\n")


def start(case, make_api):
    if FILE:
        case.addCleanup(Watch(case.id(), make_api()).stop)
