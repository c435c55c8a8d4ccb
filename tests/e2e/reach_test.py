"""What a rank can reach of the control plane: its own worker, for its own attempt, with its attempt's token. Prints each
claim of a rank and its answer. Takes root."""
import importlib.util
import json
import os
import pwd
import re

import harness
from harness import RANKS, SUCCEEDED, Case, need, need_scripts_outside_tmp, wait_until

ACCOUNT = "daemon"  # on every Debian


class RanksReach(Case):
    def setUp(self):
        super().setUp()
        need(os.geteuid() == 0, "only root may start ranks as another account")
        os.chmod(self.directory, 0o755)
        self.work = self.path("work")
        os.makedirs(self.work)
        user = pwd.getpwnam(ACCOUNT)
        os.chown(self.work, user.pw_uid, user.pw_gid)

    def claims(self, *args):
        """The lines of a rank that makes its claims while another job's runs, after its worker was restarted."""
        cluster = harness.Cluster(self).start()
        worker = cluster.add_worker("n1", devices="cpu:4", args=("--run-as", ACCOUNT, *args))
        victim = cluster.submit("--workdir", self.work, "--", "sh", "-c", "echo $MUSTER_SOCKET; exec sleep 1000")
        wait_until(lambda: "trainer" in cluster.jobctl("logs", "--raw", victim).stdout, "the other job runs")
        with open(self.work + "/facts.json", "w") as file:
            json.dump({"job": cluster.api.record(victim).id,
                       "socket": cluster.jobctl("logs", "--raw", victim).stdout.strip()}, file)
        job = cluster.submit("--workdir", self.work, "--", "/usr/bin/python3", RANKS + "/claimant.py",
                             self.work + "/facts.json", self.work + "/go")
        wait_until(lambda: "ready" in cluster.jobctl("logs", "--raw", job).stdout, "the rank is ready")
        worker.kill9()
        worker.start()
        with open(self.work + "/go", "w"):
            pass
        cluster.wait_for(job, SUCCEEDED)
        lines = cluster.jobctl("logs", "--raw", job).stdout.splitlines()
        for line in lines:
            print(f"| {args or 'sandbox'} | {line}")
        self.assertEqual(cluster.state(victim), harness.RUNNING)
        return dict(line.split(": ", 1) for line in lines if ": " in line)

    def assert_own_claims(self, said):
        self.assertEqual(said["token"], "mode 400, own True, shown in /proc False")
        for claim in ("without the token", "with a guessed token", "for another job", "for another attempt",
                      "for a rank of another node"):
            self.assertEqual(said[claim], "error", claim)
        self.assertEqual(said["with its token"], "welcome")

    def test_a_rank_speaks_only_for_its_own_attempt(self):
        need_scripts_outside_tmp()
        said = self.claims()
        self.assert_own_claims(said)
        self.assertEqual(said["on another job's socket"], "FileNotFoundError")

    def test_the_token_holds_where_another_jobs_socket_can_be_reached(self):
        said = self.claims("--sandbox", "none")
        self.assert_own_claims(said)
        self.assertEqual(said["on another job's socket"], "error")
        self.assertEqual(said["on another job's socket, without a token"], "error")


class Rendezvous(Case):
    def test_whoever_reaches_the_rendezvous_reads_and_writes_it(self):
        """What is open (docs/security.md, S7): c10d's store does not authenticate its peers, and listens at every address
        of its node, not only at the one that ranks are told."""
        need(importlib.util.find_spec("torch"), "the rendezvous is torch's")
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", harness.PYTHON, RANKS + "/meeting.py")
        said = wait_until(lambda: re.search(r"meets at (\S+):(\d+)", cluster.jobctl("logs", "--raw", job).stdout), "it meets")
        self.assertEqual(said.group(1), "127.0.0.1")
        from torch.distributed import TCPStore  # takes a second: while the rank does the same
        stranger = TCPStore("127.0.0.2", int(said.group(2)), is_master=False, wait_for_workers=False)
        self.assertEqual(stranger.get("of the job"), b"42")
        stranger.set("next", "by a stranger")
        cluster.wait_for(job, SUCCEEDED)
        self.assertIn("next is by a stranger", cluster.jobctl("logs", "--raw", job).stdout)


if __name__ == "__main__":
    harness.main()
