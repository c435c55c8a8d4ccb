"""The packages on machines that have nothing but Debian, of this release and of the next: the Debian packages installed,
upgraded and downgraded under a running job, removed, purged; the wheel installed and run."""
import re
import shlex
import shutil
import unittest

from machine import Machine
from support import PREVIOUS, field, harness, need, package, the_debs

SERVER = "unix:/run/muster/coordinator.sock"  # root needs no certificate there


class Life:
    SUITE = ""

    def setUp(self):
        need((PREVIOUS / "muster-worker").exists(), f"{PREVIOUS} has no programs of an older release")
        self.machine = Machine(self, self.SUITE)
        self.machine.run("mkdir", "-p", "/etc/systemd/system/multi-user.target.wants")  # systemd's own package has it

    def jobctl(self, *arguments, check=True):
        try:
            return self.machine.run("jobctl", "--server", SERVER, *arguments, check=check).stdout
        except AssertionError as error:
            logs = [self.machine.read(f"/var/log/{name}.log")[-3000:] for name in self.machine.daemons]
            raise AssertionError("\n".join([str(error), *logs])) from None

    def make_cluster(self):
        """What an administrator does: runs the lines that stand in the two settings files, and edits those."""
        told = self.machine.run(*self.line_of("coordinator", "muster-coordinator init", CLUSTER="lab", HOST="127.0.0.1")).stdout
        token = re.search(r"muster-worker join .*\n *(\S+)", told).group(1)
        self.assertIn("you are its administrator admin", told)
        self.machine.write("/etc/muster/coordinator.env",
                           "MUSTER_COORDINATOR_OPTIONS=--listen 127.0.0.1:7700 --http 127.0.0.1:7701\n")
        self.machine.write("/etc/muster/token", token)
        join = self.line_of("worker", "muster-worker join", HOST="127.0.0.1", NODE="node1", FILE="/etc/muster/token")
        self.machine.write("/etc/muster/worker.env",
                           "MUSTER_COORDINATOR=127.0.0.1:7700\nMUSTER_NODE_NAME=node1\nMUSTER_RUN_AS=daemon\n"
                           "MUSTER_WORKER_OPTIONS=--advertise 127.0.0.1 --devices cpu:2\n")
        self.machine.start("muster-coordinator")
        harness.wait_until(lambda: "protocol" in self.jobctl("version", check=False), "the coordinator serves")
        self.machine.run(*join)
        self.machine.start("muster-worker")

    def line_of(self, name, program, **words):
        """The command in a settings file's comments that runs the program."""
        lines = self.machine.read(f"/etc/muster/{name}.env").splitlines()
        line = next(line for line in lines if line.startswith("# ") and program in line)[2:]
        return [words.get(word, word.replace("HOST:", f"{words.get('HOST')}:")) for word in shlex.split(line)]

    def wait_node(self, version):
        """Until the coordinator serves and the node is up, with the version that is installed."""
        def up():
            shown = self.jobctl("nodes", "show", "node1", check=False)
            return version in shown and "ALIVE" in shown and shown
        return harness.wait_until(up, lambda: f"node1 is up with {version}: {self.jobctl('nodes', 'ls')}")

    def state_of(self, job):
        """What a failed wait prints."""
        return self.jobctl("show", job) + self.jobctl("logs", job)

    def ranks(self, job):
        """The ranks' processes, as they introduced themselves."""
        def introduced():
            found = re.findall(r"rank (\d) is (\d+)", self.jobctl("logs", job))
            return len(found) == 2 and sorted(found)
        return harness.wait_until(introduced, lambda: self.jobctl("show", job))

    def test_installed_upgraded_and_downgraded_under_a_job_removed_and_purged(self):
        machine, old, new = self.machine, the_debs(programs=PREVIOUS), the_debs()
        bare = machine.files()
        machine.install(*old.values())
        self.assertIn("client 0.0.9  protocol 2", machine.run("jobctl", "--version").stdout)
        self.assertEqual(set(machine.told_systemd()), {"--system daemon-reload"})  # nothing starts unconfigured
        self.make_cluster()
        self.wait_node("0.0.9")
        job = self.jobctl("submit", "-o", "name", "-n", "2", "--name", "life", "--workdir", "/var", "--", "sh", "-c",
                          "echo rank $RANK is $$; while [ ! -e /var/lib/finish ]; do sleep 0.1; done; echo finished").strip()
        ranks = self.ranks(job)

        newest = field(new["muster-worker"], "Version")
        for packages, version in ((new, newest), (old, "0.0.9"), (new, newest)):
            # Up: the coordinator first. Down: it would refuse a newer worker, which then goes first.
            order = ["muster-coordinator", "muster-worker"]
            for name in order if packages is new else reversed(order):
                machine.install(packages[name])
                told = machine.told_systemd()
                self.assertEqual([line for line in told if "daemon-reload" not in line], [f"try-restart {name}.service"])
                machine.restart(name)
            machine.install(packages["muster-jobctl"])
            self.wait_node(version)
            self.assertIn(f"server {version}", self.jobctl("version"))
            self.assertIn("--listen 127.0.0.1", machine.read("/etc/muster/coordinator.env"))
            self.assertEqual(self.ranks(job), ranks, f"after the change to {version}")
            for _, pid in ranks:
                self.assertTrue(machine.alive(pid), f"rank {pid} died in the change to {version}")

        warning = machine.run("/var/lib/dpkg/info/muster-worker.prerm", "upgrade", "9.9").stdout
        self.assertEqual(warning, "")
        self.assertIn("ranks still run here", machine.run("/var/lib/dpkg/info/muster-worker.prerm", "remove").stdout)
        machine.write("/var/lib/finish", "")
        harness.wait_until(lambda: "SUCCEEDED" in self.jobctl("show", job), lambda: self.state_of(job),
                           every_s=0.2)
        self.assertEqual(self.jobctl("logs", job).count("finished"), 2)
        shown = self.jobctl("show", job)
        self.assertIn("SUCCEEDED", shown.upper())
        self.assertNotIn("attempt 1", shown)
        (machine.root / "var/lib/finish").unlink()

        for unit in ("muster-worker", "muster-coordinator"):
            machine.stop(unit)
        machine.run("rm", "-r", "/run/muster")  # as systemd does; RuntimeDirectoryPreserve keeps the worker's
        enabled = "/etc/systemd/system/multi-user.target.wants/muster-worker.service"
        machine.run("ln", "-s", "/lib/systemd/system/muster-worker.service", enabled)
        machine.told_systemd()
        machine.run("/var/lib/dpkg/info/muster-worker.postinst", "abort-remove", "in-favour", "x", "1")
        self.assertIn("--quiet --system start muster-worker.service", machine.told_systemd(), "a removal that was given up")
        self.assertNotIn("ranks still run", machine.run("dpkg", "--remove", *new).stdout)
        told = machine.told_systemd()
        for unit in ("muster-worker", "muster-coordinator"):
            self.assertIn(f"stop {unit}.service", told)
        kept = set(machine.files()) - set(bare)
        self.assertLessEqual({"/etc/muster/worker.env", "/var/lib/muster/coordinator", "/var/lib/muster/worker"}, kept)
        self.assertFalse([path for path in kept if path.startswith("/usr/")])
        self.assertTrue(machine.run("readlink", enabled).stdout, "enabled until it is purged")
        machine.run("dpkg", "--purge", *new)
        self.assertNotEqual(machine.run("readlink", enabled, check=False).returncode, 0)
        self.assertEqual(machine.files(), bare)

    def test_the_wheel_runs_two_ranks(self):
        wheel = next(package("wheel").glob("*.whl"))
        shutil.copy(wheel, self.machine.root / "var/tmp")
        self.machine.run("python3", "-m", "venv", "/opt/venv")
        self.machine.run("/opt/venv/bin/pip", "install", "--no-index", f"/var/tmp/{wheel.name}")
        said = self.machine.run("/opt/venv/bin/jobctl", "run", "-n", "2", "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE").stdout
        self.assertEqual(sorted(re.findall(r"rank \d of 2", said)), ["rank 0 of 2", "rank 1 of 2"], said)


class OnABareDebian12(Life, unittest.TestCase):
    SUITE = "bookworm"


class OnABareDebian13(Life, unittest.TestCase):
    SUITE = "trixie"


if __name__ == "__main__":
    harness.main()
