"""jobctl doctor on a machine that is well, on one that was broken in ten places, and on a cluster; plan and init."""
import json
import os
import shutil
import subprocess
import time

import harness
from harness import Case, need


def has_mount_namespaces():
    """Root, or users may create namespaces in which they are."""
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


def findings(done):
    """{check: (grade, value, fix)}"""
    return {row["check"]: (row["grade"], row["value"], row["fix"]) for row in json.loads(done.stdout)["items"]}


# Breaks what doctor looks at, in its own mount namespace, then becomes doctor.
BREAK = r"""
set -e
echo "127.0.1.1 $(hostname)" > $1/hosts
mount --bind $1/hosts /etc/hosts
mkdir -p $1/full $1/dev $1/site/torch $1/bin
mount -t tmpfs -o size=1m none $1/full
head -c 2000000 /dev/zero > $1/full/file 2> $1/ignored || true
mount -t tmpfs none $1/dev
for each in null zero urandom random; do touch $1/dev/$each; mount --bind /dev/$each $1/dev/$each; done
touch $1/dev/nvidia0 $1/dev/nvidia1
mkdir $1/dev/shm
mount -t tmpfs -o size=1m none $1/dev/shm
mount --rbind $1/dev /dev
echo "__version__ = '2.6.0+cpu'" > $1/site/torch/version.py
printf '#!/bin/sh\necho torch %s/site/torch\n' $1 > $1/bin/python
chmod +x $1/bin/python
export PATH=$1/bin:$PATH JOBCTL_DATA_DIR=$1/full/data JOBCTL_SERVER=127.0.0.1:1
ulimit -n 64
exec "$2" doctor -o json
"""


class Doctor(Case):
    def test_a_tiny_job_runs_and_leaves_nothing_behind(self):
        muster = self.private()
        muster.env["TMPDIR"] = self.directory
        begin = time.monotonic()
        done = muster.jobctl("doctor", check=False)
        took = time.monotonic() - begin
        self.assertRegex(done.stdout, r"✓ all-reduce +2 ranks agreed")
        self.assertRegex(done.stdout, r"✓ programs +jobctl, coordinator, worker, shim")
        self.assertEqual(done.returncode, 1 if "✗" in done.stdout else 0, done.stdout)
        self.assertEqual(done.stderr, "")
        self.assert_gone(self.mark)
        # Neither a job in the user's records nor a directory.
        self.assertEqual(os.listdir(self.directory), [])
        self.assertLess(took, harness.DEADLINE_S)
        print(f"doctor took {took:.2f} s", end=" ", flush=True)

    def test_what_is_broken_on_purpose_is_named_with_its_fix(self):
        need(has_mount_namespaces(), "needs mount namespaces")
        done = subprocess.run(["unshare", "-rm", "sh", "-c", BREAK, "sh", self.directory, harness.JOBCTL],
                              env=self.env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        found = findings(done)
        for check, grade, value in (
                ("disk: data", "broken", "full: "),
                ("shared memory", "broken", "bus error"),
                ("open files", "broken", "64"),
                ("host name", "warning", "127.0.1.1"),
                ("coordinator", "broken", "127.0.0.1:1"),
                ("nvidia driver", "broken", "2 NVIDIA devices"),
                ("torch", "broken", "2.6.0+cpu has no CUDA")):
            with self.subTest(check):
                self.assertEqual(found[check][0], grade, found[check])
                self.assertIn(value, found[check][1])
                self.assertNotEqual(found[check][2], "")
        # A dead coordinator elsewhere and a full disk there do not keep the tiny job from running.
        self.assertEqual(found["all-reduce"][0], "good", found["all-reduce"])

    def test_nodes_are_judged_from_what_they_report(self):
        cluster = self.cluster(workers=("node1", "node2"))
        harness.wait_until(lambda: not any(node.clearing for node in cluster.nodes().values()), "nodes take jobs")
        done = cluster.jobctl("doctor", "--cluster")
        self.assertRegex(done.stdout, r"✓ node1 +2 cpu, ")
        cluster.jobctl("nodes", "drain", "node2", "--reason", "new disk")
        done = cluster.jobctl("doctor", "--cluster")
        self.assertIn("! node2  drained: new disk\n    fix: jobctl nodes undrain node2\n", done.stdout)
        cluster.workers["node1"].kill9()
        harness.wait_until(lambda: not cluster.nodes()["node1"].record.connected, "node1 is missed")
        done = cluster.jobctl("doctor", "--cluster", "-o", "json", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(findings(done)["node1"][:2], ("broken", "not connected"))


    def test_a_node_whose_clock_is_off_is_named_with_the_fix(self):
        need(shutil.which("faketime"), "needs faketime")
        cluster = self.cluster()
        cluster.add_worker("node2", prefix=["faketime", "-m", "-f", "-3s"])

        def told():
            return cluster.jobctl("doctor", "--cluster").stdout
        harness.wait_until(lambda: "behind the coordinator's" in told(), told)
        self.assertRegex(told(), r"! node2 +its clock is [23]s behind the coordinator's\n    fix: .*timedatectl")
        self.assertRegex(told(), r"✓ node1 +2 cpu, ")


class Plan(Case):
    def test_now_later_and_never_each_have_an_exit_code_and_change_nothing(self):
        cluster = self.cluster()
        harness.wait_until(lambda: not cluster.nodes()["node1"].clearing, "node1 takes jobs")
        done = cluster.jobctl("plan", "-n", 2, "--", "true")
        self.assertEqual(done.stdout, "starts now: 2 ranks on 1 node\n  rank 0-1  node1  cpu 0,1\n")
        done = cluster.jobctl("plan", "-n", 3, "--", "true", check=False)
        self.assertEqual(done.returncode, 11, done.stdout + done.stderr)
        self.assertIn("never: needs 3 cpu; ", done.stdout)
        self.assertIn("would start now with -n 2\n", done.stdout)
        self.assertEqual(len(cluster.api.list()), 0)
        blocker = cluster.submit("--", "sleep", "60")
        cluster.wait_for(blocker, harness.RUNNING)
        done = cluster.jobctl("plan", "-n", 2, "-o", "json", "--", "true", check=False)
        self.assertEqual(done.returncode, 10, done.stdout + done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual((plan["outcome"], plan["smaller"]), ("later", "-n 1"))
        self.assertIn("free now: 1", plan["reason"])
        # What it promised is what happens.
        job = cluster.submit("-n", 1, "--", "true")
        self.assertEqual(cluster.wait_over(job).state, harness.SUCCEEDED)
        cluster.jobctl("cancel", blocker)

    def test_the_programs_estimate_is_compared_with_what_a_rank_gets(self):
        muster = self.private()
        script = 'echo loading; echo "{\\"muster_estimate\\": $MUSTER_ESTIMATE, \\"bytes_per_rank\\": %d}"'
        done = muster.jobctl("plan", "--memory-estimate", "-n", 2, "--", "sh", "-c", script % 2_000_000)
        self.assertRegex(done.stdout, r"memory: 2.0 MB per rank; fits: a rank on \S+ has ")
        done = muster.jobctl("plan", "--memory-estimate", "-n", 2, "-o", "json", "--", "sh", "-c", script % (1 << 45), check=False)
        self.assertEqual(done.returncode, 11)
        self.assertIs(json.loads(done.stdout)["memory_fits"], False)
        done = muster.jobctl("plan", "--memory-estimate", "-n", 2, "--", "true")
        self.assertIn("memory: not known: the program ended without an estimate\n    fix: print", done.stdout)

    def test_a_private_coordinator_plans_too(self):
        done = self.private().jobctl("plan", "-n", 2, "--", "true")
        self.assertRegex(done.stdout, r"^starts now: 2 ranks on 1 node\n  rank 0-1  \S+  cpu 0,1\n$")


class Init(Case):
    def init(self, *args, **options):
        return self.private().jobctl("init", *args, cwd=self.directory, **options)

    def test_what_init_writes_is_what_submit_accepts(self):
        with open(self.path("job.sbatch"), "w") as file:
            file.write("#!/bin/sh\n#SBATCH -J bert -n 2 --time=30 --mem=1G\nsrun python train.py\n")
        done = self.init("--from", "sbatch", "job.sbatch")
        self.assertIn("not taken over: --mem=1G: it is of all ranks of a node together", done.stderr)
        with open(self.path("accelerate.yaml"), "w") as file:
            file.write("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nnum_machines: 1\n"
                       "num_processes: 2\nmixed_precision: bf16\nmain_process_port: 29500\n")
        done = self.init("--from", "accelerate", "accelerate.yaml", "-o", "b.yaml", "--", "python", "x.py")
        self.assertIn("main_process_port", done.stderr)
        with open(self.path("b.yaml")) as file:
            self.assertIn("ACCELERATE_MIXED_PRECISION: \"bf16\"", file.read())
        self.init("-o", "c.yaml", "--from", "torchrun", "--", "torchrun", "--nproc-per-node", 2, "train.py")
        self.init("-o", "d.yaml", "-n", 2, "--devices", "cpu", "--", "true")
        for name in ("train.yaml", "b.yaml", "c.yaml", "d.yaml"):
            with self.subTest(name):
                self.private().jobctl("submit", "--dry-run", name, cwd=self.directory)
                done = self.private().jobctl("plan", name, cwd=self.directory)
                self.assertIn("starts now: 2 ranks on 1 node", done.stdout)

    def test_a_batch_script_is_submitted_as_it_is(self):
        muster = self.private()
        with open(self.path("job.sbatch"), "w") as file:
            file.write("#!/bin/bash\n#SBATCH --job-name=bert --ntasks=2\n#SBATCH --array=1-9\nexport GREETING=hello\n"
                       "source ./site.sh\nsrun python3 -c 'import os, sys; print(os.environ[\"GREETING\"], os.environ[\"SITE\"], "
                       "os.environ[\"RANK\"], *sys.argv[1:])' \"$@\"\n")
        with open(self.path("site.sh"), "w") as file:
            file.write("export SITE=$(basename $PWD)\n")
        for command in ("submit", "plan", "validate"):
            self.assert_error(muster.jobctl(command, "job.sbatch", check=False, cwd=self.directory), "line 3: --array=1-9", "JC1013", code=2)
        done = muster.jobctl("submit", "--wait", "--ignore", "array", "job.sbatch", "a", "b c", cwd=self.directory)
        self.assertRegex(done.stdout, r"^bert-\d+ submitted")
        self.assertIn("not taken over: line 3: --array=1-9", done.stderr)
        self.assertIn("a login shell (/bin/bash) runs what Slurm runs once per job: source ./site.sh", done.stderr)
        place = os.path.basename(self.directory)
        self.assertEqual(sorted(muster.jobctl("logs", "@last").stdout.splitlines())[0].split("] ")[1], f"hello {place} 0 a b c")
        dashes = muster.jobctl("submit", "--wait", "--ignore", "array", "job.sbatch", "--", "--lr", "1", cwd=self.directory)
        self.assertRegex(dashes.stdout, r"^bert-\d+ submitted")
        self.assertIn(f"hello {place} 0 --lr 1", muster.jobctl("logs", "@last").stdout)
        # Without the first line it is read as a job file, and refused, unless --from names its kind.
        with open(self.path("job.sbatch")) as file:
            plain = file.read().split("\n", 1)[1].encode()
        self.assertEqual(muster.jobctl("submit", "-", stdin=plain, check=False, cwd=self.directory).returncode, 6)
        self.assert_error(muster.jobctl("submit", "python", "train.py", check=False), "jobctl submit -- python train.py", "JC1004", code=2)
        plain = plain.replace(b"#SBATCH --array=1-9", b"").replace(b"source", b"echo")
        muster.jobctl("submit", "--dry-run", "--from", "sbatch", "-", stdin=plain, cwd=self.directory)
        self.assert_error(muster.jobctl("submit", self.path("b.yaml"), "x", check=False), "b.yaml")

    def test_nothing_is_overwritten_and_nothing_is_asked_without_a_terminal(self):
        self.assert_error(self.init(check=False), "no terminal", code=2)
        self.assertFalse(os.path.exists(self.path("train.yaml")))
        self.init("--yes")
        with open(self.path("train.yaml"), "a") as file:
            file.write("# mine\n")
        self.assert_error(self.init("--yes", check=False), "train.yaml exists", code=1)
        with open(self.path("train.yaml")) as file:
            self.assertTrue(file.read().endswith("# mine\n"))
        self.init("--yes", "--force")

    def test_questions_are_asked_on_a_terminal(self):
        leader, follower = os.openpty()
        self.addCleanup(os.close, leader)
        process = subprocess.Popen([harness.JOBCTL, "init"], env=self.env, cwd=self.directory, stdin=follower,
                                   stdout=follower, stderr=follower)
        os.close(follower)
        # Command, devices, nodes, ranks (wrong, then right), precision, restarts.
        os.write(leader, b"./train --lr 1\ncpu\n\nmany\n4\nbf16\n3\n")
        self.assertEqual(process.wait(timeout=harness.DEADLINE_S), 0)
        with open(self.path("train.yaml")) as file:
            text = file.read()
        for line in ('command: ["./train", "--lr", "1"]', "processes: 4", "devices: cpu", "restarts: 3",
                     'ACCELERATE_MIXED_PRECISION: "bf16"'):
            self.assertIn(line, text)


if __name__ == "__main__":
    harness.main()
