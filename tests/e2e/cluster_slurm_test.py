"""jobctl cluster up --on slurm: a real Slurm of two slurmd, a job over a time limit, continued in the next allocation."""
import json
import os
import re
import subprocess

import harness
from harness import Case, wait_until
from slurm_nodes import SlurmNodes


class ClusterOnSlurm(Case):
    def setUp(self):
        super().setUp()
        self.slurm = SlurmNodes(self, 2)
        os.mkdir(self.path("local"))  # of the nodes
        self.env.update(self.slurm.environment, TMPDIR=self.path("local"))
        self.shared = self.path("shared")

    def jobctl(self, *args, check=True):
        done = subprocess.run([*self.slurm.network.inside(), harness.JOBCTL, *args], env=self.env, capture_output=True,
                              text=True, timeout=150, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"jobctl {' '.join(args)}: exit {done.returncode}\n{done.stdout}{done.stderr}{self.logs()}")
        return done

    def logs(self):
        """What the allocations wrote, for a failure's message."""
        folder, text = os.path.join(self.shared, "lab", "log"), ""
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            with open(os.path.join(folder, name), errors="replace") as file:
                text += f"\n== {name}\n{file.read()[-1500:]}"
        return text

    def record(self):
        with open(self.path("config/muster/clusters/lab.json")) as file:
            return json.load(file)

    def programs(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                found.append(os.readlink(f"/proc/{pid}/exe"))
            except OSError:
                continue
        return [program for program in found if program.startswith(self.shared)]

    def test_a_job_over_the_time_limit_continues_in_the_next_allocation(self):
        # Slurm's shortest limit is a minute, of which 35 s are for saving.
        up = self.jobctl("cluster", "up", "lab", "--on", "slurm", "-N", "2", "--dir", self.shared, "--margin", "35s",
                         "--", "--time=1", "--comment=a b")
        self.assertIn("cluster lab is up", up.stdout)
        first = self.record()["job"]
        self.assertIn("a b", self.slurm.run("scontrol", "show", "job", first))
        listed = json.loads(self.jobctl("cluster", "ls", "-o", "json").stdout)["items"][0]
        self.assertEqual((listed["on"], listed["nodes"], listed["head"]), ("slurm", "2", f"allocation {first}"))
        job = self.jobctl("submit", "-o", "name", "-n", "2", "--nodes", "2", "--no-sync", "--", harness.PYTHON, "-S",
                          harness.rank_script("saver.py"), "5").stdout.strip()
        self.jobctl("wait", job, "--for", "running")
        # Another `up` finds the one that runs.
        again = self.jobctl("cluster", "up", "lab")
        self.assertIn(f"allocation {first} was submitted before", again.stderr)
        wait_until(lambda: not self.slurm.run("squeue", "-h").strip(), lambda: "the allocation has ended" + self.logs(), 90)
        self.assertIn("1 jobs wait for the next allocation", self.logs())
        self.assertEqual((self.programs(), os.listdir(self.path("local"))), ([], []))
        self.assertIn("JC1301", self.jobctl("--timeout", "2s", "ls", check=False).stderr)

        self.jobctl("cluster", "up", "lab")
        self.assertNotEqual(self.record()["job"], first)
        self.jobctl("wait", job, "--timeout", "60s")
        said = self.jobctl("logs", job).stdout
        saved = re.search(r"saved step (\d+)", said)
        self.assertIsNotNone(saved, said)
        self.assertIn(f"rank 0 starts from step {saved[1]}", said)
        self.assertIn(f"rank 1 starts from step {saved[1]}", said)
        self.assertIn(f"rank 0 is done at step {int(saved[1]) + 5}", said)
        self.assertIn("JC1009", self.jobctl("cluster", "down", check=False).stderr)
        self.jobctl("cluster", "down", "--yes")
        self.assertEqual(self.slurm.run("squeue", "-h").strip(), "")
        self.assertFalse(os.path.exists(self.shared))
        self.assertFalse(os.path.exists(self.path("config/muster/clusters")))
        self.assertEqual((self.programs(), os.listdir(self.path("local"))), ([], []))

    def test_what_slurm_refuses_is_told_in_its_words(self):
        for words, said in ((("-N", "2", "--", "-p", "nowhere"), "invalid partition"),
                            (("-N", "many"), "is not a number of nodes"),
                            (("-N", "2", "--dir", "/a b"), "is not a directory for a cluster")):
            done = self.jobctl("cluster", "up", "--on", "slurm", "--dir", self.shared, *words, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)
            self.assertFalse(os.path.exists(self.shared))
            self.assertFalse(os.path.exists(self.path("config/muster/clusters")))


if __name__ == "__main__":
    harness.main()
