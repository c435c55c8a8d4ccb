"""Data directories, worker states and keys of earlier versions, as tests/data-VERSION/make.py made them: opened by today's
programs, everything is as it was, and what was under way continues."""
import glob
import json
import os
import subprocess

import harness
import older_data
from harness import CANCELLED, RUNNING, SUCCEEDED, Case

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class OlderData(Case):
    def opened(self, made):
        # The data directory names the one that its keys were in.
        cluster = harness.Cluster(self, os.path.basename(made), ("--keys-dir", self.path(os.path.basename(made) + "/keys")))
        subprocess.run(["tar", "-C", cluster.directory, "-xf", os.path.join(made, "data.tar.xz")], check=True)
        os.rename(os.path.join(cluster.directory, "worker"), os.path.join(cluster.directory, "w-node1"))
        return cluster

    def compare(self, cluster, expected):
        """Nothing that was under way has ended yet."""
        found = older_data.seen(cluster)
        self.assertTrue(cluster.jobctl("audit", "--verify", "--head", expected.pop("audit")).stdout)
        del found["audit"]
        # Ids came later: of these people the name is all there is.
        self.assertEqual({user.pop("id", "") for user in found["people"]}, {""})
        for name, job in expected["jobs"].items():
            if job["state"] in harness.OVER:
                continue
            now = found["jobs"][name]
            self.assertGreaterEqual(now["events"], job["events"], name)
            for changes in ("events", "reason"):
                job[changes] = now[changes]
        self.assertEqual(found, expected)
        for name, job in expected["jobs"].items():
            for step, _ in job["checkpoints"]:
                cluster.jobctl("ckpt", "verify", name, step)

    def test_what_each_earlier_version_has_left_is_there_and_goes_on(self):
        directories = sorted(glob.glob(os.path.join(TESTS, "data-*")))
        self.assertIn("data-0.2.0", map(os.path.basename, directories))
        for made in directories:
            with self.subTest(os.path.basename(made)):
                cluster = self.opened(made)
                with open(os.path.join(made, "expected.json")) as file:
                    expected = json.load(file)
                jobs = expected["jobs"]
                checked = subprocess.run([os.path.join(harness.BIN, "muster-coordinator"), "check", "--data-dir",
                                          os.path.join(cluster.directory, "data")], capture_output=True, text=True)
                self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
                cluster.start()
                self.compare(cluster, expected)
                # Of what ran nothing is left on this machine: it runs again, and what waited for its place follows.
                cluster.add_worker("node1", devices="cpu:1", args=("--run-as", "worker"))
                running = next(name for name, job in jobs.items() if job["state"] == RUNNING)
                harness.wait_until(lambda: len(cluster.api.record(running).attempts) > jobs[running]["attempts"],
                                   "it starts a new attempt")
                cluster.wait_for(running, RUNNING)
                cluster.jobctl("cancel", running, "--yes")
                cluster.wait_for(running, CANCELLED)
                for name, job in jobs.items():
                    if job["state"] == harness.QUEUED:
                        cluster.wait_for(name, SUCCEEDED)
                text = cluster.api.logs(running)[0][(0, 0, 1)].decode()
                self.assertTrue(text.startswith(jobs[running]["logs"]["0/0/1"]), text)
                cluster.coordinator.stop()


if __name__ == "__main__":
    harness.main()
