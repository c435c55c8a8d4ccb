"""`jobctl stack` and `jobctl diagnose` on programs that know nothing of Muster: looked at from outside while they
run, explained when they have ended, packed into a bundle."""
import json
import os
import re
import shutil
import signal
import stat
import tarfile
import textwrap

import harness
from harness import Case, wait_until

PY_SPY = """#!/bin/sh
# What py-spy prints for a program with one thread, for any pid.
for word; do pid=$word; done
echo "[{\\"pid\\": $pid, \\"thread_id\\": 1, \\"thread_name\\": \\"MainThread\\", \\"os_thread_id\\": $pid, \\"active\\": true,
 \\"owns_gil\\": true, \\"frames\\": [{\\"name\\": \\"load_batch\\", \\"filename\\": \\"/x/train.py\\",
 \\"short_filename\\": \\"train.py\\", \\"line\\": 42}, {\\"name\\": \\"main\\", \\"filename\\": \\"/x/train.py\\",
 \\"short_filename\\": \\"train.py\\", \\"line\\": 7}]}]"
"""


BARE_PYTHON = os.path.realpath(harness.PYTHON)  # outside of any environment: no py-spy beside it


class Diagnose(Case):
    def setUp(self):
        super().setUp()
        self.env["PATH"] = "/usr/bin:/bin"  # where no py-spy is

    def script(self, text):
        path = self.path("train.py")
        with open(path, "w") as file:
            file.write(textwrap.dedent(text))
        return path

    def running(self, muster, *command, ranks=1):
        name = muster.submit("-n", ranks, "--grace", "0", "--", *command)
        muster.wait_for(name, harness.RUNNING)
        return name

    def said(self, muster, name, rank):
        """What the rank wrote, once it has printed its pid in a whole line."""
        return wait_until(lambda: (text := muster.api.logs(name)[0].get((0, rank, 1), b"")).count(b"pid ") and
                          text.endswith(b"\n") and text, f"rank {rank} told its pid")

    def report(self, muster, name, *args):
        return muster.jobctl("diagnose", name, *args).stdout

    def test_sees_any_program_from_outside_and_leaves_it_as_it_was(self):
        muster = self.cluster()
        busy = self.script("""
            import os, threading
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            def spin():
                while True:
                    pass
            print("pid", os.getpid(), flush=True)
            spin()
            """)
        sleeper = self.running(muster, "sh", "-c", "sleep 1000; true")
        text = wait_until(lambda: "waits" in (text := muster.jobctl("stack", sleeper, "--full").stdout) and text,
                          "the program sleeps")
        # The shell only waits for it.
        self.assertRegex(text, r"^seen from outside: rank 0 waits in clock_nanosleep, in \w*nanosleep")
        self.assertRegex(text, r"seen from outside: process \d+ \(sleep\) waits in clock_nanosleep")
        self.assertRegex(text, r"(?m)^    .*nanosleep.* in libc\.so\.6\+0x")
        muster.jobctl("cancel", sleeper)

        python = self.running(muster, BARE_PYTHON, busy)
        pid = int(self.said(muster, python, 0).split()[-1])
        full = muster.jobctl("stack", python, "--full").stdout
        fix = "no Python frames: py-spy is neither on the worker's PATH nor beside the rank's Python; fix: pip install " \
              "py-spy in the rank's environment (muster-train[stacks] brings it)"
        self.assertIn(fix, full)
        short = muster.jobctl("stack", python)
        self.assertIn(f"rank 0 on node1: {fix}", short.stderr)
        self.assertNotIn("py-spy", short.stdout)
        self.assertRegex(full, r"(?m)^    _PyEval_EvalFrameDefault in (lib)?python")
        self.assertEqual(full.count("\n  thread "), 2, full)

        # A stopped program is looked at too, and stays stopped.
        os.kill(pid, signal.SIGSTOP)
        stopped = wait_until(lambda: "stopped" in (text := muster.jobctl("stack", python, "--full").stdout) and text,
                             "it has stopped")
        self.assertRegex(stopped, rf"^rank 0 is stopped by a signal on node1; fix: kill -CONT {pid} there\n")
        self.assertRegex(stopped, r"(?m)^    \w.* in ")
        with open(f"/proc/{pid}/stat") as file:
            self.assertEqual(file.read().rsplit(")", 1)[1].split()[0], "T")
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(muster.state(python), harness.RUNNING)
        with open(f"/proc/{pid}/status") as file:
            self.assertIn("TracerPid:\t0\n", file.read())
        muster.jobctl("cancel", python)

    def test_asks_py_spy_where_the_node_has_it_and_reads_programs_with_many_threads(self):
        tools = self.path("tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "py-spy"), "w") as file:
            file.write(PY_SPY)
        os.chmod(os.path.join(tools, "py-spy"), 0o755)
        self.env["PATH"] = f"{tools}:{self.env['PATH']}"
        muster = self.cluster()
        python = self.running(muster, BARE_PYTHON, "-c", "import time; time.sleep(1000)")
        text = muster.jobctl("stack", python, "--full").stdout
        self.assertIn("in load_batch (train.py:42) < main (train.py:7)\n", text)
        self.assertIn("    main (train.py:7)\n", text)
        muster.jobctl("cancel", python)

        native = self.running(muster, os.path.join(harness.BIN, "muster-coordinator"), "--data-dir",
                              self.path("inner"), "--socket", self.path("i.sock"))
        wait_until(lambda: os.path.exists(self.path("i.sock")), "the inner coordinator serves")
        text = muster.jobctl("stack", native, "--full").stdout
        self.assertIn("muster::coordinator::", text)
        self.assertGreater(text.count("\n  thread "), 4, text)
        muster.jobctl("cancel", native)

    def test_shows_python_functions_by_the_py_spy_of_the_ranks_own_environment(self):
        py_spy = os.path.join(os.path.dirname(harness.PYTHON), "py-spy")
        harness.need(os.access(py_spy, os.X_OK), "needs the Python package py-spy")
        muster = self.cluster()
        train = self.script("""
            import time
            def load_batch():
                time.sleep(1000)
            def main():
                load_batch()
            main()
            """)
        seen = r"in load_batch \(train.py:4\) < main \(train.py:6\)"
        home = self.path("home")
        os.makedirs(home + "/.local/bin")
        shutil.copy(py_spy, home + "/.local/bin")  # as `pip install --user` leaves it
        for where, python, env in (("beside its Python", harness.PYTHON, {}),
                                   ("in its home", BARE_PYTHON, {"HOME": home})):
            with self.subTest(where):
                name = muster.submit("-n", 1, "--grace", "0", "--", python, train, env=env)
                muster.wait_for(name, harness.RUNNING)
                shown = wait_until(lambda: re.search(seen, (done := muster.jobctl("stack", name)).stdout) and done,
                                   lambda: muster.jobctl("stack", name, "--full").stdout)
                self.assertEqual(shown.stderr, "")
                muster.jobctl("cancel", name)

    def test_explains_a_killed_rank_and_packs_a_bundle_without_secrets(self):
        muster = self.cluster(workers=("node1", "node2"))
        script = self.script("""
            import os, time
            print("password=hunter2 step 1 loss 0.5", flush=True)
            print("connecting to postgres://me:s3cr3t@db/x as", os.environ["WANDB_API_KEY"], flush=True)
            print("pid", os.getpid(), flush=True)
            time.sleep(1000)
            """)
        name = muster.submit("-n", "2", "--nodes", "2", "--grace", "0", "--", harness.PYTHON, script, "--api-key",
                             "topsecret", env={"WANDB_API_KEY": "0123456789abcdef"})
        muster.wait_for(name, harness.RUNNING)
        self.said(muster, name, 0)
        os.kill(int(self.said(muster, name, 1).split()[-1]), signal.SIGTERM)
        muster.wait_over(name)
        bundle = self.path("b.tar.gz")
        done = muster.jobctl("diagnose", name, "--bundle", bundle)
        self.assertRegex(done.stdout, r"first cause   rank 1 on node\d was killed by SIGTERM, which came from outside "
                                      r"Muster: a person, another program, or the rank itself\n")
        self.assertRegex(done.stdout, r"(?m)^fix: ssh node\d journalctl ")
        self.assertRegex(done.stdout, r"rank 1 on node\d: SIGTERM  \(first\)\n")
        self.assertIn("secrets hidden", done.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(bundle).st_mode), 0o600)
        self.assert_error(muster.jobctl("diagnose", name, "--bundle", bundle, check=False), "JC1213")
        muster.jobctl("diagnose", name, "--bundle", bundle, "--force")
        with tarfile.open(bundle) as archive:
            files = {member.name.split("/", 1)[1]: archive.extractfile(member).read().decode()
                     for member in archive.getmembers()}
        self.assertEqual(set(files), {"report.txt", "job.json", "events.jsonl", "metrics.csv", "stacks.json", "nodes.json",
                                      "versions.txt", "hidden.txt", "logs/rank-0.log", "logs/rank-1.log"})
        for secret in ("hunter2", "s3cr3t", "0123456789abcdef", "topsecret"):
            for file, text in files.items():
                self.assertNotIn(secret, text, file)
        self.assertIn("step 1 loss 0.5", files["logs/rank-1.log"])
        self.assertIn("postgres://(hidden)@db/x", files["logs/rank-0.log"])
        self.assertIn("passwords in URLs", files["hidden.txt"])
        self.assertEqual(json.loads(files["job.json"])["name"], name)
        json.loads(files["stacks.json"])
        for line in files["events.jsonl"].splitlines():
            json.loads(line)
        self.assertEqual(json.loads(self.report(muster, name, "-o", "json"))["cause"]["kind"], "signal_from_outside")

    def test_explains_a_file_that_one_node_lacks(self):
        muster = self.cluster(workers=("node1", "node2"))
        with open(self.path("data.bin"), "w") as file:
            file.write("here")
        script = self.script(f"""
            import os, time
            path = {self.path("data.bin")!r} if os.environ["GROUP_RANK"] == "0" else {self.path("gone.bin")!r}
            open(path)
            time.sleep(1000)
            """)
        name = muster.submit("-n", "2", "--nodes", "2", "--grace", "0", "--", harness.PYTHON, script)
        muster.wait_over(name)
        text = self.report(muster, name)
        self.assertRegex(text, rf"first cause   {self.path('gone.bin')} is missing on node\d, where rank 1 needs it\n")
        self.assertRegex(text, r"- no rank on node\d reported it missing\n")
        self.assertRegex(text, rf"(?m)^fix: scp node\d:{self.path('gone.bin')} node\d:")
        self.assertIn("| FileNotFoundError: ", text)


if __name__ == "__main__":
    harness.main()
