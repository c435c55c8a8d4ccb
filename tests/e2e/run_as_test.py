"""Ranks with another account than the worker's: what they cannot reach, and that everything else still works. Takes
root."""
import importlib.util
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile

import harness
from harness import RANKS, Case, need, need_scripts_outside_tmp, wait_until

ACCOUNT = "daemon"  # on every Debian
NEIGHBORS = "games"  # of one test alone
VICTIM = """import ctypes, os, sys, time
libc = ctypes.CDLL(None)
assert libc.shmget(int(sys.argv[1]), 4096, 0o1000 | 0o666) >= 0
libc.mq_open(b"/victim", os.O_CREAT | os.O_RDWR, 0o666, None)
print("ready", os.getpid(), flush=True)
time.sleep(1000)"""


class RunAs(Case):
    def setUp(self):
        super().setUp()
        need(os.geteuid() == 0, "only root may start ranks as another account")
        self.user = pwd.getpwnam(ACCOUNT)
        os.chmod(self.directory, 0o755)
        self.work = self.path("work")
        os.makedirs(self.work)
        os.chown(self.work, self.user.pw_uid, self.user.pw_gid)

    def cluster(self, *args, **options):
        cluster = harness.Cluster(self, **options).start()
        cluster.add_worker("n1", devices="cpu:4", args=args)
        return cluster

    def submit(self, cluster, *args, **options):
        return cluster.submit("--workdir", self.work, *args, **options)

    def submit_file(self, cluster, **keys):
        path = self.path("job.yaml")
        with open(path, "w") as file:
            json.dump({"workdir": self.work, **keys}, file)
        return cluster.submit(path)

    def of_ranks(self, cluster, job):
        """What the environment of the job's processes alone contains: other clusters here have jobs of its name."""
        return f"={cluster.directory}/w-n1/attempts/{cluster.api.record(job).id}-"

    def output(self, cluster, job, attempt=0, rank=0):
        logs, _ = cluster.api.logs(job)
        return logs.get((attempt, rank, 1), b"").decode()

    def test_a_rank_reaches_nothing_of_the_workers_or_of_other_jobs(self):
        need_scripts_outside_tmp()
        cluster = self.cluster("--run-as", ACCOUNT)
        shown = cluster.jobctl("nodes", "show", "n1").stdout
        self.assertRegex(shown, rf"Ranks run +as {ACCOUNT}; sandbox: no_new_privs, capabilities, seccomp(, landlock)?, private /tmp")
        victim = self.submit(cluster, "--", "sh", "-c", "touch /tmp/mine /dev/shm/mine $MUSTER_CHECKPOINT_DIR/x.tmp; "
                             "echo ready; exec sleep 1000")
        wait_until(lambda: "ready" in self.output(cluster, victim), "the other job runs")
        state, run = cluster.directory + "/w-n1", cluster.directory + "/w-n1/run"
        other = f"{state}/attempts/{cluster.api.record(victim).id}-0"
        secrets = self.path("secrets")
        os.makedirs(secrets, mode=0o700)
        with open(secrets + "/key", "w") as file:
            file.write("TOPSECRET")
        os.chmod(secrets, 0o755)  # its file stays closed to other accounts that can list the directory
        os.chmod(secrets + "/key", 0o600)
        shims = [pid for pid, line in self.processes().items() if "muster-shim" in line]
        facts = {
            "state": state, "secret": secrets + "/key", "secrets": secrets,
            "read": [f"{state}/identity", f"{other}/launch.pb", f"{other}/shim.launch", f"{other}/account",
                     f"{other}/credential/token", f"{other}/credential.sha256",
                     f"{other}/spool/rank-0.stdout", "/tmp/mine", "/dev/shm/mine", self.path("c/data/muster.db"),
                     secrets + "/key"],
            "list": [state + "/attempts", other, other + "/checkpoints", other + "/tmp", run],
            "connect": [f"{run}/shim-{os.path.basename(other)}.sock", f"{run}/{os.path.basename(other)}/trainer.sock"],
            "write": [f"{other}/checkpoints/y", f"{state}/x", f"{run}/x", secrets + "/x"],
            "make": [f"{other}/checkpoints/step-9", f"{run}/x"], "pids": [cluster.workers["n1"].pid, *shims]}
        self.assertTrue(shims)
        if ", landlock," in shown:  # otherwise they have one account, and may
            facts["pids"] += [pid for pid, line in self.processes().items() if line == "sleep 1000"]
        facts_path = self.work + "/facts.json"
        with open(facts_path, "w") as file:
            json.dump(facts, file)
        job = self.submit_file(cluster, log_dir=secrets, command=["/usr/bin/python3", RANKS + "/prowler.py", facts_path])
        record = cluster.wait_over(job)
        said = self.output(cluster, job)
        self.assertIn("\ntried\n", said, record.reason)
        got = [line for line in said.splitlines() if not line.endswith((": refused", "tried"))]
        own = f"{cluster.api.record(job).id}-0"  # of all attempts it sees its own
        self.assertEqual(got, [f"list {state}/attempts: ['{own}']", f"list {run}: ['{own}']"])
        self.assertGreater(said.count(": refused"), 30)
        self.assertNotIn("TOPSECRET", str(record))
        self.assertNotIn("TOPSECRET", cluster.jobctl("show", job, "-o", "json").stdout)
        self.assertEqual(os.listdir(secrets), ["key"])  # the copy of the output was not written with root's rights
        self.assertEqual(cluster.state(victim), harness.RUNNING)
        looked = cluster.jobctl("stack", victim).stdout  # the worker looks into ranks of another account
        self.assertIn("sleep", looked)
        its_own = self.of_ranks(cluster, victim)
        self.assertTrue(harness.processes_with(its_own))
        cluster.jobctl("cancel", victim)
        cluster.wait_over(victim)
        self.assert_gone(its_own)

    def test_a_rank_reaches_no_process_of_another_job_of_its_account(self):
        need_scripts_outside_tmp()
        cluster = self.cluster("--run-as", NEIGHBORS)
        self.assertRegex(cluster.jobctl("nodes", "show", "n1").stdout, "own System V memory, own processes\n")
        key = 0x6d750000 | os.getpid() & 0x7fff
        victim = self.submit(cluster, "--", "/usr/bin/python3", "-c", VICTIM, str(key))
        pid = int(wait_until(lambda: self.output(cluster, victim).partition("ready ")[2], "the other job runs"))
        (outside,) = [each for each, line in harness.processes_with(self.of_ranks(cluster, victim)).items() if VICTIM[:20] in line]
        self.assertEqual(pid, outside, "one number, inside and outside")
        before = self.standing(pid)
        job = self.submit(cluster, "--", "/usr/bin/python3", RANKS + "/neighbor.py", str(key), str(pid))
        record = cluster.wait_over(job)
        said = self.output(cluster, job)
        self.assertEqual(record.state, harness.SUCCEEDED, (record.reason, said))
        lines = [line for line in said.splitlines() if line.startswith(("own ", "other "))]
        self.assertEqual([line for line in lines if line.startswith("own") and not line.endswith("works")], [])
        self.assertEqual([line for line in lines if line.startswith("other") and not line.endswith("refused")], [])
        self.assertEqual(len(lines), 36)
        # That it is there and what it is called, as everybody may know.
        self.assertEqual([line for line in said.splitlines() if line.startswith("first") and line.endswith("works")],
                         ["first command line: works", "first pidfd: works"])
        self.assertIn("\nsaw 3 processes\ntried\n", said)  # the first of them, it, and its own
        self.assertEqual(self.standing(pid), before)
        self.assertEqual(cluster.state(victim), harness.RUNNING)
        cluster.jobctl("cancel", victim)
        cluster.wait_over(victim)
        with open("/proc/sysvipc/shm") as file:
            left = [line for line in file if line.split()[0] in (str(key), str(key + 1))]
        self.assertEqual(left, [], "System V memory outlives no job")

    def standing(self, pid):
        """What others of its account could change of a process."""
        with open(f"/proc/{pid}/oom_score_adj") as score, open(f"/proc/{pid}/limits") as limits:
            return (os.sched_getaffinity(pid), os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid), score.read(),
                    limits.read())

    def test_uid_0_without_capabilities_sets_nothing_of_the_kernel_and_moves_no_other_job(self):
        cluster = self.cluster("--run-as", "worker", "--sandbox", "on")
        victim = self.submit(cluster, "--", "sleep", "1000")
        cluster.wait_for(victim, harness.RUNNING)
        job = self.submit(cluster, "--", "sh", "-c", "cat /proc/sys/vm/swappiness >/proc/sys/vm/swappiness; echo h >/proc/sysrq-trigger;"
                          "for f in $(find /sys/fs/cgroup -path '*muster-*' -name cgroup.procs); do echo 0 >$f && echo MOVED; done;"
                          "head -c 1 /proc/kcore | wc -c; ls /proc | grep -c '^[0-9]'; echo tried")
        cluster.wait_over(job)
        self.assertEqual(self.output(cluster, job).split()[0::2], ["0", "tried"])
        logs, _ = cluster.api.logs(job)
        self.assertEqual(logs[(0, 0, 2)].decode().count("Read-only file system") > 1, True, logs)
        self.assertEqual(cluster.state(victim), harness.RUNNING)

    def test_a_program_that_a_rank_could_have_written_is_not_run_with_the_workers_rights(self):
        tools = self.work + "/tools"
        os.makedirs(tools)
        with open(tools + "/py-spy", "w") as file:
            file.write(f"#!/bin/sh\nid >{self.work}/ran\n")
        os.chmod(tools + "/py-spy", 0o755)
        self.env["PATH"] = "/usr/bin:/bin"  # where no py-spy is
        cluster = self.cluster("--run-as", ACCOUNT)
        cluster.add_worker("n2", devices="cpu:4", args=("--run-as", "worker", "--sandbox", "on", "--allow-root"))
        for _ in cluster.workers:  # each job fills a node
            job = self.submit(cluster, "-n", "4", "-e", f"PATH={tools}:/usr/bin:/bin", "--", "/usr/bin/python3", "-c",
                              "import time; time.sleep(1000)")
            cluster.wait_for(job, harness.RUNNING)
            told = wait_until(lambda: cluster.jobctl("stack", job).stderr, "the worker has looked at Python")
            self.assertIn("runs none of a rank that has another account or a sandbox; fix: pip install py-spy", told)
        self.assertFalse(os.path.exists(self.work + "/ran"))

    def assert_resumes(self, *args, prefix=()):
        need_scripts_outside_tmp()
        cluster = harness.Cluster(self).start()
        cluster.add_worker("n1", devices="cpu:4", args=("--run-as", ACCOUNT, *args), prefix=prefix)
        until = self.work + "/go"
        job = self.submit_file(cluster, resources={"processes": 2}, restarts=2, log_dir=self.work + "/copies", command=[
            "/usr/bin/python3", RANKS + "/counter.py", "30", "--every", "10", "--hold-at", "22", "--until", until,
            "--die-at", "25"])
        wait_until(lambda: any(each.step == 20 and each.committed_ms for each in cluster.api.record(job).checkpoints),
                   "step 20 is committed")
        cluster.workers["n1"].kill9()
        cluster.workers["n1"].start()
        with open(until, "w"):
            pass
        record = cluster.wait_over(job)
        self.assertEqual(record.state, harness.SUCCEEDED, record.reason)
        self.assertIn("attempt 1 rank 1 starts from step 20\n", self.output(cluster, job, 1, 1))
        copy = f"{self.work}/copies/{job}/attempt_1/0/stdout.log"
        self.assertEqual(os.stat(copy).st_uid, self.user.pw_uid)
        return cluster

    def test_checkpoints_logs_and_resuming_work_in_the_sandbox(self):
        self.assert_resumes()

    def test_checkpoints_logs_and_resuming_work_without_it(self):
        cluster = self.assert_resumes("--sandbox", "none")
        self.assertIn(f"as {ACCOUNT}; no sandbox: no_new_privs, capabilities\n",
                      cluster.jobctl("nodes", "show", "n1").stdout)

    def test_the_capabilities_of_the_packaged_unit_suffice(self):
        need(shutil.which("setpriv"), "needs setpriv")
        with open(os.path.join(harness.ROOT, "deploy/systemd/muster-worker.service.in")) as file:
            held = re.search(r"^CapabilityBoundingSet=(.*)$", file.read(), re.MULTILINE).group(1).split()
        words = ["-all", *("+" + each.removeprefix("CAP_").lower() for each in held)]
        cluster = self.assert_resumes(prefix=("setpriv", "--bounding-set", ",".join(words)))
        self.assertRegex(cluster.jobctl("nodes", "show", "n1").stdout, "seccomp(, landlock)?, private /tmp")
        # What escapes its supervisor is found and killed, and what ranks closed is removed.
        job = self.submit(cluster, "--", "sh", "-c", "cd $MUSTER_CHECKPOINT_DIR; mkdir -p closed sticky/x; chmod 0 closed; "
                          "chmod 1777 sticky; setsid sleep 1000 & trap 'echo stopped; exit' TERM; echo ready; "
                          "while :; do wait; done")
        wait_until(lambda: "ready" in self.output(cluster, job), "it runs")
        its_own = self.of_ranks(cluster, job)
        before = harness.processes_with(its_own)
        self.assertTrue(before)
        for pid, line in self.processes().items():
            if "muster-shim" in line:
                harness.kill9(pid)
        wait_until(lambda: len(cluster.api.record(job).attempts) == 2, "it is restarted")
        self.assertEqual(set(before) & set(harness.processes_with(its_own)), set())
        wait_until(lambda: "ready" in self.output(cluster, job, 1), "it runs again")
        cluster.jobctl("cancel", job)
        cluster.wait_over(job)
        self.assertIn("stopped", self.output(cluster, job, 1))  # its grace began with a signal
        self.assert_gone(its_own)
        wait_until(lambda: os.listdir(cluster.directory + "/w-n1/attempts") == [], "its files are removed")

    def test_metrics_errors_and_notify_are_the_accounts(self):
        cluster = self.cluster("--run-as", ACCOUNT)
        script = "import os, json; e = os.environ\n" \
            "json.dump({'message': 'boom as %d' % os.getuid()}, open(e['TORCHELASTIC_ERROR_FILE'], 'w'))\n" \
            "import socket; s = socket.socket(socket.AF_UNIX); s.connect(e['MUSTER_SOCKET'])\n" \
            "f = s.makefile('rw')\n" \
            "f.write(json.dumps({'type': 'hello', 'version': 1, 'rank': int(e['RANK'])}) + '\\n'); f.flush()\n" \
            "print(f.readline().strip(), flush=True); raise SystemExit(3)"
        job = self.submit_file(cluster, command=["/usr/bin/python3", "-c", script], notify=[
            {"on": ["end"], "command": ["sh", "-c", "id -u > notified.tmp; mv notified.tmp notified"]}])
        record = cluster.wait_over(job)
        self.assertIn(f"boom as {self.user.pw_uid}", str(record))
        self.assertIn("{", self.output(cluster, job))
        wait_until(lambda: os.path.exists(self.work + "/notified"), "the command ran")
        with open(self.work + "/notified") as file:
            self.assertEqual(file.read(), f"{self.user.pw_uid}\n")

    def test_torch_and_its_data_loaders_work_in_the_sandbox(self):
        torch = importlib.util.find_spec("torch")
        need(torch, "needs the Python package torch")
        need_scripts_outside_tmp()
        python, env = sys.executable, {}
        if not self.account_may_run(python):  # a Python in root's home
            python, env = "/usr/bin/python3", {"PYTHONPATH": os.path.dirname(os.path.dirname(torch.origin))}
        need(self.account_may_run(python, "-c", "import torch", env=env), f"{ACCOUNT} has no Python that imports torch")
        cluster = self.cluster("--run-as", ACCOUNT)
        job = self.submit(cluster, "-n", "2", "--", python, RANKS + "/loader.py", env=env)
        record = cluster.wait_over(job)
        self.assertEqual(record.state, harness.SUCCEEDED, record.reason)
        self.assertIn(f"sum 4032 of 2 as {self.user.pw_uid}\n", self.output(cluster, job))

    def account_may_run(self, *argv, env=None):
        try:
            return subprocess.run(argv if len(argv) > 1 else [*argv, "-c", ""], user=ACCOUNT, env={**self.env, **(env or {})},
                                  stderr=subprocess.DEVNULL, timeout=60).returncode == 0
        except PermissionError:
            return False

    def test_a_program_in_the_nodes_tmp_is_refused_with_the_reason(self):
        cluster = self.cluster("--run-as", ACCOUNT)
        tool = self.path("tool")
        shutil.copy("/bin/true", tool)
        reason = cluster.wait_for(self.submit(cluster, "--", tool), harness.FAILED).reason
        self.assertIn(f"command {tool} is in the node's /tmp, and ranks have their own there; fix: put it into", reason)
        shutil.copy("/bin/true", self.work + "/tool")
        cluster.wait_for(self.submit(cluster, "--", "./tool"), harness.SUCCEEDED)

    def test_a_link_that_a_rank_puts_in_the_way_leads_a_later_command_nowhere(self):
        cluster = self.cluster("--run-as", ACCOUNT)
        target = tempfile.mkdtemp(dir="/run")  # root's, and seen in the sandbox
        self.addCleanup(shutil.rmtree, target)
        for place in (self.work, "/"):  # in the node's /tmp, as is the worker's state
            job = cluster.submit("--workdir", place, "--", "sh", "-c", f"cd /; mv {self.directory} /tmp/aside && "
                                 f"ln -s {target} {self.directory} && echo moved; exec sleep 600")
            wait_until(lambda: "moved" in self.output(cluster, job), "the rank has replaced the directory")
            done = cluster.jobctl("exec", job, "--", "true", check=False)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertEqual(os.listdir(target), [], place)

    def test_what_looks_into_a_rank_has_the_ranks_account(self):
        try:
            with open("/proc/sys/kernel/yama/ptrace_scope") as file:
                need(file.read().strip() == "0", "this node lets only parents trace")
        except FileNotFoundError:
            pass
        tools = self.path("tools")
        os.makedirs(tools)
        with open(tools + "/py-spy", "w") as file:
            file.write("#!/bin/sh\necho I am $(id -u) with $(grep CapEff /proc/self/status) >&2\nexit 1\n")
        os.chmod(tools + "/py-spy", 0o755)
        self.env["PATH"] = tools + ":" + self.env["PATH"]
        cluster = self.cluster("--run-as", ACCOUNT)
        job = self.submit(cluster, "--", "/usr/bin/python3", "-S", "-c", "import time; time.sleep(600)")
        cluster.wait_for(job, harness.RUNNING)
        done = cluster.jobctl("stack", job)
        told = done.stdout + done.stderr
        self.assertIn(f"I am {self.user.pw_uid} with CapEff: 0000000000000000", " ".join(told.split()))
        self.assertIn("nanosleep", told, "muster-unwind sees the native frames")

    def test_python_threads_of_a_rank_with_processes_of_its_own_are_told_apart(self):
        py_spy = os.path.join(os.path.dirname(harness.PYTHON), "py-spy")
        need(os.access(py_spy, os.X_OK), "needs the Python package py-spy")
        tools = self.path("tools")
        os.makedirs(tools)
        shutil.copy(py_spy, tools)
        self.env["PATH"] = tools + ":" + self.env["PATH"]
        with open(self.work + "/train.py", "w") as file:
            file.write("import threading, time\ndef load():\n    time.sleep(600)\ndef train():\n    time.sleep(600)\n"
                       "threading.Thread(target=load).start()\ntrain()\n")
        cluster = self.cluster("--run-as", ACCOUNT)
        job = self.submit(cluster, "--", "/usr/bin/python3", self.work + "/train.py")
        cluster.wait_for(job, harness.RUNNING)
        each = r"(?s)\n  thread \d+ python3\n    train \(train.py:5\)\n.*\n  thread \d+ python3\n    load \(train.py:3\)\n"
        wait_until(lambda: re.search(each, cluster.jobctl("stack", job, "--full").stdout), "it has started both")

    def test_root_and_unknown_accounts_are_refused_before_a_rank_starts(self):
        cluster = self.cluster("--run-as", "owner")
        ran = self.work + "/ran"
        job = self.submit(cluster, "--restarts", "3", "--", "touch", ran)  # of uid 0
        reason = cluster.wait_for(job, harness.FAILED).reason
        self.assertIn("JC1415", reason)
        self.assertIn("node n1: ranks are to run as account uid 0, which is root's: refused", reason)
        self.assertIn("--allow-root", reason)
        self.assertFalse(os.path.exists(ran))
        cluster.workers["n1"].stop()
        cluster.add_worker("n2", args=("--run-as", "no-such-account"))
        reason = cluster.wait_for(self.submit(cluster, "--", "touch", ran), harness.FAILED).reason
        self.assertIn("JC1414", reason)
        self.assertIn("node n2: ranks are to run as account 'no-such-account': it does not exist", reason)
        cluster.workers["n2"].stop()
        cluster.add_worker("n3", args=("--run-as", "owner", "--allow-root"))
        job = self.submit(cluster, "--", "grep", "^CapEff", "/proc/self/status")
        cluster.wait_for(job, harness.SUCCEEDED)
        self.assertEqual(self.output(cluster, job).split(), ["CapEff:", "0000000000000000"])

    def test_ranks_get_the_account_of_the_one_who_submits(self):
        need(shutil.which("setpriv"), "needs setpriv")
        user = pwd.getpwnam("nobody")  # not a service's
        person = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]
        os.chown(self.directory, user.pw_uid, user.pw_gid)
        os.chown(self.work, user.pw_uid, user.pw_gid)
        cluster = harness.Cluster(self, prefix=person)
        for name in (cluster.directory, cluster.directory + "/s"):
            os.chown(name, user.pw_uid, user.pw_gid)
        cluster.start()
        cluster.add_worker("n1", args=("--run-as", "owner"))
        job = self.jobctl_as(cluster, person, "submit", "-o", "name", "--workdir", self.work, "--", "id")
        cluster.wait_for(job, harness.SUCCEEDED)
        self.assertTrue(self.output(cluster, job).startswith(f"uid={user.pw_uid}({user.pw_name})"))

    def test_a_worker_without_root_gives_its_ranks_what_takes_none(self):
        need(shutil.which("setpriv"), "needs setpriv")
        need_scripts_outside_tmp()
        person = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--init-groups"]
        cluster = harness.Cluster(self, prefix=person)
        for name in (cluster.directory, cluster.directory + "/s"):
            os.chown(name, self.user.pw_uid, self.user.pw_gid)
        cluster.start()
        cluster.add_worker("n1", devices="cpu:4", args=("--run-as", "worker", "--sandbox", "on"), prefix=person)
        shown = cluster.jobctl("nodes", "show", "n1").stdout
        self.assertRegex(shown, "sandbox: no_new_privs, capabilities, seccomp(, landlock)?; not private /tmp: cannot make")
        self.assertIn("; not own processes: cannot make", shown)
        other = self.submit(cluster, "--", "sleep", "1000")
        cluster.wait_for(other, harness.RUNNING)
        pid = next(pid for pid, line in harness.processes_with(self.of_ranks(cluster, other)).items() if line == "sleep 1000")
        job = self.submit(cluster, "--", "sh", "-c", f"grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; kill -0 {pid} && echo reached; "
                          f"cat /proc/{pid}/environ >/dev/null && echo read; unshare -U true && echo made")
        cluster.wait_over(job)
        said = self.output(cluster, job)
        self.assertTrue(said.startswith("NoNewPrivs:\t1\nSeccomp:\t2\n"), said)
        self.assertEqual(said.splitlines()[2:], [] if "seccomp, landlock" in shown else ["reached", "read"])

    def jobctl_as(self, cluster, person, *args):
        done = subprocess.run([*person, harness.JOBCTL, *args], env=cluster.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_a_worker_that_cannot_is_told_why(self):
        cluster = harness.Cluster(self).start()
        closed = self.path("closed")
        os.makedirs(closed, mode=0o700)
        worker = cluster.add_worker("n1", args=("--run-as", ACCOUNT, "--runtime-dir", closed + "/w"), wait=False)
        self.assertEqual(worker.process.wait(timeout=harness.DEADLINE_S), 2)
        self.assertIn(f"because {closed} lets only its owner through; fix: chmod o+x {closed}", worker.output())


if __name__ == "__main__":
    harness.main()
