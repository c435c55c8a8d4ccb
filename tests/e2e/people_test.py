"""Who is who, and who did what: users, tokens, projects, secrets, the audit, over the coordinator's unix socket,
where root is an administrator."""
import glob
import json
import os
import subprocess
import unittest

import harness
from harness import RUNNING, SUCCEEDED, Case, wait_until

COORDINATOR = os.path.join(harness.BIN, "muster-coordinator")
WORKER = os.path.join(harness.BIN, "muster-worker")
VALUE = "hunter22-is-not-a-good-password"


@unittest.skipUnless(os.geteuid() == 0, "root is the administrator here")
class People(Case):
    def as_json(self, cluster, *args):
        return json.loads(cluster.jobctl(*args, "-o", "json").stdout)

    def refused(self, cluster, code, *args, stdin=None):
        done = cluster.jobctl(*args, check=False, stdin=stdin)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(code, done.stderr)
        return done.stderr

    def secured(self, workers=()):
        """A cluster with identities, which its own machine reaches over the socket."""
        cluster = harness.Cluster(self)
        subprocess.run([COORDINATOR, "init", "--data-dir", os.path.join(cluster.directory, "data"), "--name", "lab"],
                       env=self.env, check=True, capture_output=True)
        cluster.start()
        for name in workers:
            cluster.add_worker(name, args=("--run-as", "worker"))
        return cluster

    def test_people_projects_and_the_audit_of_a_coordinator_without_identities(self):
        cluster = self.cluster()
        me = self.as_json(cluster, "whoami")
        self.assertEqual((me["principal"], me["role"]), ("uid:0", "admin"))
        # What needs keys names the command that makes them.
        for words in (["token", "create", "worker"], ["secret", "set", "wandb"]):
            self.assertIn("muster-coordinator init", self.refused(cluster, "JC1330", *words, stdin=b"value"))
        cluster.jobctl("user", "set", "uid:0", "--role", "admin", "--comment", "the machine's owner")
        self.refused(cluster, "JC1333", "user", "rm", "uid:0", "--yes")
        self.refused(cluster, "JC1321", "user", "set", "../root")
        # A project is for its members.
        cluster.jobctl("project", "create", "vision", "--member", "alice")
        self.refused(cluster, "JC1338", "submit", "--project", "vision", "--", "true")
        self.refused(cluster, "JC1332", "submit", "--project", "audio", "--", "true")
        cluster.jobctl("project", "add", "vision", "uid:0")
        job = cluster.submit("--project", "vision", "--", "true")
        cluster.wait_for(job, SUCCEEDED)
        other = cluster.submit("--", "true")
        cluster.wait_for(other, SUCCEEDED)
        self.assertEqual(cluster.jobctl("ls", "--project", "vision", "-o", "name").stdout.split(), [job])
        self.assertEqual(cluster.jobctl("ls", "--project", "default", "-o", "name").stdout.split(), [other])
        self.looked_at(cluster)
        self.audited(cluster, job)

    def looked_at(self, cluster):
        """Of the test above: who asked for stacks, once per minute."""
        job = cluster.submit("--", "sleep", "600")
        cluster.wait_for(job, RUNNING)
        for _ in range(2):
            self.assertIn("nanosleep", cluster.jobctl("stack", job).stdout)
        cluster.jobctl("cancel", job)

        def recorded(what):
            return [(entry["object"], entry["result"]) for entry in self.as_json(cluster, "audit")["items"]
                    if entry["what"] == what]
        wait_until(lambda: recorded("CancelJobs"), "what came later is recorded")
        self.assertEqual(recorded("DiagnoseJob"), [(job, "ok")])

    def audited(self, cluster, job):
        """Of the test above: every change is there, and any change of the record is found."""
        def submits():
            return [entry for entry in self.as_json(cluster, "audit")["items"] if entry["what"] == "Submit"]
        # Submits are written a moment behind their answers.
        wait_until(lambda: len(submits()) == 5, submits)
        self.assertEqual([job in entry["object"] for entry in submits()], [False, False, True, False, False])
        self.assertEqual([entry["result"].startswith("ok") for entry in submits()], [False, False, True, True, True])
        entries = self.as_json(cluster, "audit", "--user", "uid:0")["items"]
        self.assertIn(("SetUser", "ok", "admin", "unix"),
                      {(entry["what"], entry["result"], entry["role"], entry["from"]) for entry in entries})
        verified = cluster.jobctl("audit", "--verify").stdout
        head = verified.split("head ")[1].strip()
        self.assertIn("with 1 head that was kept", cluster.jobctl("audit", "--verify", "--head", head).stdout)
        # A worker was told, and keeps it.
        heads = wait_until(lambda: subprocess.run(
            [WORKER, "audit-heads", "--state-dir", os.path.join(cluster.directory, "w-node1")], capture_output=True,
            text=True).stdout.split(), "the worker keeps a hash of the audit")
        cluster.jobctl("audit", "--verify", "--head", heads[-1])
        cluster.coordinator.stop()
        self.assertIn("audit head=" + head, cluster.coordinator.output())
        self.tampered(cluster, head)

    def tampered(self, cluster, head):
        path, = glob.glob(os.path.join(cluster.directory, "data", "audit", "*.jsonl"))
        with open(path) as file:
            lines = file.readlines()

        def served(changed):
            with open(path, "w") as file:
                file.writelines(changed)
            cluster.restart_coordinator()
            said = cluster.jobctl("audit", "--verify", "--head", head, check=False)
            cluster.coordinator.stop()
            self.assertIn("JC1337", said.stderr)
            return said.stdout
        self.assertIn("entry 2 was changed", served([lines[0], lines[1].replace("uid:0", "uid:7"), *lines[2:]]))
        self.assertIn("entries 2 to 2 are missing", served([lines[0], *lines[2:]]))
        self.assertIn("its end was cut off", served(lines[:-1]))

    def test_tokens_and_certificates_are_listed_and_revoked(self):
        cluster = self.secured()
        self.assertEqual(self.as_json(cluster, "whoami")["cluster"], "lab")
        join = self.as_json(cluster, "token", "create", "worker", "node7", "--uses", "3", "--expires", "2h")
        self.assertRegex(join["token"], r"^muster1\.[0-9a-f]{64}\.[0-9a-f]{12}\.[\w-]{43}$")
        person = cluster.jobctl("token", "create", "person", "alice", "--role", "operator")
        self.assertEqual(len(person.stdout.splitlines()), 1, "the token alone, to be copied or piped")
        listed = {token["id"]: token for token in self.as_json(cluster, "token", "ls")["items"]}
        self.assertEqual((listed[join["id"]]["subject"], listed[join["id"]]["uses_left"]), ("node7", 3))
        self.assertNotIn(join["token"].rsplit(".", 1)[1], json.dumps(listed))
        self.assertIn(("alice", "operator"),
                      [(user["name"], user["role"]) for user in self.as_json(cluster, "user", "ls")["items"]])
        cluster.jobctl("token", "revoke", join["id"])
        self.refused(cluster, "JC1332", "token", "revoke", join["id"])
        self.assertEqual(self.as_json(cluster, "cert", "ls", "worker/node7")["items"], [])
        self.refused(cluster, "JC1332", "cert", "revoke", "0123")
        # The secret of a token is nowhere on the disk.
        secret = person.stdout.strip().rsplit(".", 1)[1].encode()
        self.assertEqual(self.files_with(cluster.directory, secret), [])

    def files_with(self, directory, needle):
        found = []
        for where, _, names in os.walk(directory):
            for name in names:
                try:
                    with open(os.path.join(where, name), "rb") as file:
                        if needle in file.read():
                            found.append(name)
                except OSError:
                    continue  # a socket, or gone
        return found

    def test_a_secret_reaches_its_ranks_as_a_file_and_nothing_else(self):
        cluster = self.secured(workers=["node1"])
        self.refused(cluster, "JC1339", "submit", "--secret", "wandb", "--", "true")
        cluster.jobctl("secret", "set", "wandb", stdin=VALUE.encode() + b"\n")
        self.assertEqual([(each["name"], each["bytes"]) for each in self.as_json(cluster, "secret", "ls")["items"]],
                         [("wandb", len(VALUE))])
        script = ("import os, stat, sys; path = os.environ['MUSTER_SECRETS_DIR'] + '/wandb'; "
                  "value = open(path).read(); status = os.stat(path); "
                  "assert stat.S_IMODE(status.st_mode) == 0o400 and status.st_uid == os.getuid(); "
                  f"assert len(value) == {len(VALUE)}; print('DIR ' + os.path.dirname(path)); "
                  "sys.stdout.flush(); raise RuntimeError('the key was ' + value)")
        job = cluster.submit("--secret", "wandb", "-n", "1", "--", harness.PYTHON, "-c", script)
        record = cluster.wait_over(job)
        self.assertEqual(record.exit_code, 1, record.reason)
        # What Muster itself tells of the failure has no value in it.
        for words in (["show", job], ["show", job, "-o", "json"], ["events", job, "-o", "json"], ["audit", "-o", "json"]):
            said = cluster.jobctl(*words).stdout
            self.assertNotIn(VALUE, said, words)
        self.assertIn("(hidden)", cluster.jobctl("show", job, "-o", "json").stdout)
        directory = cluster.jobctl("logs", job).stdout.split("DIR ")[1].split()[0]
        self.assertFalse(os.path.exists(directory), "the files end with the attempt")
        # The rank printed it itself: only its own output has it.
        kept = [name for name in self.files_with(cluster.directory, VALUE.encode()) if "stderr" not in name]
        self.assertEqual(kept, [])
        cluster.jobctl("secret", "rm", "wandb")
        self.refused(cluster, "JC1339", "rerun", job)

    def test_secrets_end_with_a_job_whose_worker_is_dead_and_are_not_told_by_the_next_one(self):
        cluster = self.secured(workers=["node1"])
        cluster.jobctl("secret", "set", "wandb", stdin=VALUE.encode() + b"\n")
        script = ("import json, os, sys, time; folder = os.environ['MUSTER_SECRETS_DIR']; value = open(folder + '/wandb').read()\n"
                  "json.dump({'message': 'file ' + value}, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
                  "open(sys.argv[1], 'w').write(folder)\n"
                  "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
                  "raise RuntimeError('the key was ' + value)")
        told, go = self.path("told"), self.path("go")
        job = cluster.submit("--secret", "wandb", "-n", "1", "--", harness.PYTHON, "-c", script, told, go)
        wait_until(lambda: os.path.exists(told) and os.path.getsize(told), "it runs")
        with open(told) as file:
            directory = file.read()
        cluster.workers["node1"].kill9()
        self.assertEqual(os.listdir(directory), ["wandb"], "a rank keeps what it has")
        with open(go, "w"):
            pass
        wait_until(lambda: not os.path.exists(directory), "the supervisor has removed them")
        cluster.workers["node1"].start()
        record = cluster.wait_over(job)
        self.assertEqual(record.exit_code, 1, record.reason)
        for words in (["show", job], ["show", job, "-o", "json"], ["events", job, "-o", "json"]):
            self.assertNotIn(VALUE, cluster.jobctl(*words).stdout, words)
        self.assertIn("its error is only in its log", str(record))
        self.assertIn(VALUE, cluster.jobctl("logs", job).stdout)  # what it printed itself


if __name__ == "__main__":
    harness.main()
