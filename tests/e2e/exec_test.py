"""`jobctl exec` and `jobctl attach`: commands in the place of running ranks, from start to end."""
import fcntl
import hashlib
import json
import os
import pwd
import signal
import struct
import subprocess
import termios

import harness
from enroll_test import EnrollCase
from harness import Case, need, processes_with, rss_bytes, wait_until
from terminal import Terminal

SLEEPS = ["--", "/bin/sh", "-c", "sleep 1000"]


class Exec(Case):
    def running(self, *options, ranks=2, command=SLEEPS):
        muster = self.cluster()
        job = muster.submit("-n", str(ranks), "--grace", "0", *options, *command)
        muster.wait_for(job, harness.RUNNING)
        # The worker awaits orders once it is registered.
        wait_until(lambda: muster.jobctl("exec", job, "--", "true", check=False).returncode == 0, "it takes commands")
        return muster, job

    def test_output_exit_codes_and_the_place_of_a_rank(self):
        place = self.path("place")
        os.mkdir(place)
        muster, job = self.running("--workdir", place, "--env", "COLOR=green")
        done = muster.jobctl("exec", job, "--rank", "1", "--", "sh", "-c",
                             "echo $RANK $WORLD_SIZE $COLOR; pwd; id -u; cat; echo oops >&2; exit 7", check=False)
        self.assertEqual(done.stdout, f"1 2 green\n{place}\n{os.geteuid()}\n")
        self.assertEqual((done.stderr, done.returncode), ("oops\n", 7))
        self.assertEqual(muster.jobctl("exec", job, "--", "sh", "-c", "kill -9 $$", check=False).returncode, 137)
        missing = muster.jobctl("exec", job, "--", "no-such-program", check=False)
        self.assertEqual(missing.returncode, 127)
        self.assertIn("no-such-program", missing.stderr)
        # What a command starts in its session ends with it.
        muster.jobctl("exec", job, "--", "sh", "-c", "LEFT=behind sleep 1000 & LEFT=behind setsid sleep 1000 &")
        wait_until(lambda: not processes_with("LEFT=behind"), "what it started is gone")
        self.assert_error(muster.jobctl("exec", job, "--rank", "2", "--", "true", check=False), "rank 2", "JC1211")
        self.assert_error(muster.jobctl("exec", "nothing", "--", "true", check=False), "JC1201")
        self.assert_error(muster.jobctl("exec", job, check=False), "JC1004", code=2)
        waiting = muster.submit("-n", "2", *SLEEPS)
        self.assert_error(muster.jobctl("exec", waiting, "--", "true", check=False), "no rank is running", "JC1208")

    def test_runs_with_the_ranks_account_and_sandbox(self):
        need(os.geteuid() == 0, "only root may start ranks as another account")
        os.chmod(self.directory, 0o755)
        user = pwd.getpwnam("daemon")
        place = self.path("place")
        os.mkdir(place)
        os.chown(place, user.pw_uid, user.pw_gid)
        muster = self.cluster(workers=())
        muster.add_worker("node1", args=("--run-as", "daemon"))
        job = muster.submit("--workdir", place, "--", "sh", "-c", "echo told >/tmp/mine; exec sleep 1000")
        muster.wait_for(job, harness.RUNNING)
        facts = "grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' /proc/self/status"
        done = wait_until(lambda: (lambda done: done if done.returncode == 0 else None)(
            muster.jobctl("exec", job, "--", "sh", "-c", f"cat /tmp/mine && {facts}", check=False)), "it takes commands")
        uid = user.pw_uid
        self.assertEqual(done.stdout.split("\n")[0], "told")
        self.assertEqual(dict(line.split(":\t") for line in done.stdout.splitlines()[1:]),
                         {"Uid": f"{uid}\t{uid}\t{uid}\t{uid}", "CapEff": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"})
        screen = Terminal(self, muster, "exec", "-it", job, "--", "sh", "-c", "stat -c %U $(tty); sleep 1000")
        screen.wait_for(b"daemon\r\n")
        # Among its rank's processes, whose first reaps what it leaves; with its terminal and its session.
        done = muster.jobctl("exec", job, "--", "sh", "-c", "cat /proc/1/comm; pgrep -x sleep >/dev/null && echo beside; "
                             "LEFT=inside setsid sleep 1000 & kill -9 $$", check=False)
        self.assertEqual((done.stdout, done.returncode), ("muster-first\nbeside\n", 137))
        wait_until(lambda: not processes_with("LEFT=inside"), "what it started is gone")
        screen = Terminal(self, muster, "exec", "-it", job, "--", "bash", "--norc", "-i")
        screen.type(b"sleep 1000 & jobs; [ $(ps -o sid= $$) = $$ ] && echo lea''ds\r")
        screen.wait_for(b"leads\r\n")
        self.assertNotIn(b"no job control", screen.seen)
        screen.type(b"\x04\x04")
        muster.jobctl("cancel", job)
        muster.wait_over(job)

    def test_standard_input_arrives_unchanged_and_a_slow_reader_holds_the_writer(self):
        muster, job = self.running(ranks=1)
        sent = os.urandom(5 << 20)
        self.assertEqual(muster.jobctl("exec", "-i", job, "--", "cat", stdin=sent).out, sent)
        digest = muster.jobctl("exec", "-i", job, "--", "sha256sum", stdin=sent).stdout.split()[0]
        self.assertEqual(digest, hashlib.sha256(sent).hexdigest())
        # The command does not read: jobctl's input waits.
        blocked = muster.start_jobctl("exec", "-i", job, "--", "sleep", "1000", stdin=subprocess.PIPE)
        os.set_blocking(blocked.stdin.fileno(), False)
        # jobctl does not read: the command's output waits.
        before = {pid: rss_bytes(pid) for pid in self.daemon_pids(muster)}
        unread = muster.start_jobctl("exec", job, "--", "sh", "-c", "FLOOD=1 exec cat /dev/zero")
        written = self.fill(blocked.stdin)
        self.assertLess(written, 16 << 20)
        flood = wait_until(lambda: list(processes_with("FLOOD=1")), "it writes")[0]
        self.wait_until_it_stands_still(flood)
        for pid, bytes_before in before.items():
            self.assertLess(rss_bytes(pid) - bytes_before, 24 << 20)
        for process in (blocked, unread):
            process.kill()
        wait_until(lambda: not processes_with("FLOOD=1"), "the command died with its client")

    def daemon_pids(self, muster):
        return [muster.coordinator.pid, *(worker.pid for worker in muster.workers.values())]

    def fill(self, pipe):
        """Writes until no more is taken; how much was."""
        written, still = [0], [0]

        def stands_still():
            try:
                written[0] += os.write(pipe.fileno(), bytes(1 << 20))
                still[0] = 0
            except BlockingIOError:
                still[0] += 1
            return still[0] > 25 or written[0] > 64 << 20
        wait_until(stands_still, "the pipe is full")
        return written[0]

    def wait_until_it_stands_still(self, pid):
        def written():
            with open(f"/proc/{pid}/io") as file:
                return next(line for line in file if line.startswith("wchar"))
        seen = []

        def stands_still():
            seen.append(written())
            return len(seen) > 15 and len(set(seen[-15:])) == 1
        wait_until(stands_still, "it writes no more")

    def test_ends_with_its_job_with_its_client_and_with_its_worker(self):
        muster, job = self.running()
        inside = muster.start_jobctl("exec", job, "--", "sh", "-c", "INSIDE=1 sleep 1000; echo not reached")
        wait_until(lambda: processes_with("INSIDE=1"), "it runs")
        muster.jobctl("cancel", job)
        muster.wait_over(job)
        wait_until(lambda: not processes_with("INSIDE=1"), "it ended with the job")
        self.assertEqual(inside.wait(timeout=20), 137)
        self.assert_error(muster.jobctl("exec", job, "--", "true", check=False), "no rank is running", "JC1208")
        # The node kills an attempt's processes before it says that the attempt is over.
        over = self.path("over")
        job = muster.submit("-n", "1", "--", "sh", "-c", f"until [ -e {over} ]; do sleep 0.01; done")
        muster.wait_for(job, harness.RUNNING)
        ended = muster.jobctl("exec", job, "--", "sh", "-c", f"touch {over}; exec sleep 1000", check=False)
        self.assertEqual(ended.returncode, 137)
        self.assertIn("the attempt of its rank has ended", ended.stderr)

        job = muster.submit("-n", "2", "--grace", "0", *SLEEPS)
        muster.wait_for(job, harness.RUNNING)
        asks = muster.start_jobctl("exec", job, "--", "sh", "-c", "trap 'echo asked; exit 5' INT; echo ready; "
                                                                 "while true; do sleep 0.01; done")
        self.assertEqual(asks.stdout.readline(), b"ready\n")
        asks.send_signal(signal.SIGINT)
        self.assertEqual((asks.stdout.readline(), asks.wait(timeout=20)), (b"asked\n", 5))

        deaf = muster.start_jobctl("exec", job, "--", "sh", "-c", "trap '' INT TERM; echo ready; DEAF=1 sleep 1000")
        self.assertEqual(deaf.stdout.readline(), b"ready\n")
        deaf.send_signal(signal.SIGINT)
        deaf.send_signal(signal.SIGINT)
        wait_until(lambda: deaf.poll() is not None or deaf.send_signal(signal.SIGINT), "a second Ctrl-C leaves")
        self.assertEqual(deaf.returncode, 130)
        wait_until(lambda: not processes_with("DEAF=1"), "it was killed")

        last = muster.start_jobctl("exec", job, "--", "sh", "-c", "echo ready; LAST=1 sleep 1000")
        self.assertEqual(last.stdout.readline(), b"ready\n")
        muster.workers["node1"].stop()
        wait_until(lambda: not processes_with("LAST=1"), "it ended with the worker")
        self.assertNotEqual(last.wait(timeout=20), 0)
        self.assertEqual(muster.state(job), harness.RUNNING)

        muster.workers["node1"].start()
        muster.wait_nodes("node1")
        wait_until(lambda: muster.jobctl("exec", job, "--", "true", check=False).returncode == 0, "it takes commands")
        torn = muster.start_jobctl("exec", job, "--", "sh", "-c", "TORN=1 sleep 1000")
        wait_until(lambda: processes_with("TORN=1"), "it runs")
        muster.workers["node1"].kill9()
        self.assertNotEqual(torn.wait(timeout=20), 0)
        muster.workers["node1"].start()
        wait_until(lambda: not processes_with("TORN=1"), "the next worker ended what was left")

    def test_a_terminal_of_the_persons_size_that_is_left_as_it_was(self):
        muster, job = self.running(ranks=1)
        screen = Terminal(self, muster, "exec", "-it", job, "--", "sh", "-c",
                          "tty -s && echo $TERM; stty size; read line; stty size; echo got $line; sleep 1000")
        screen.wait_for(b"xterm\r\n24 80\r\n")
        fcntl.ioctl(screen.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        screen.process.send_signal(signal.SIGWINCH)
        screen.type(b"words\r")
        screen.wait_for(b"30 100\r\ngot words\r\n")
        screen.type(b"\x03")  # Ctrl-C is the terminal's, not jobctl's
        self.assertEqual(screen.process.wait(timeout=20), 130)
        self.assertTrue(screen.is_as_before())
        # Also when jobctl is ended.
        screen = Terminal(self, muster, "exec", "-it", job, "--", "sh", "-c", "echo ready; ONTTY=1 sleep 1000")
        screen.wait_for(b"ready")
        screen.process.send_signal(signal.SIGTERM)
        self.assertEqual(screen.process.wait(timeout=20), 143)
        self.assertTrue(screen.is_as_before())
        wait_until(lambda: not processes_with("ONTTY=1"), "it was killed")

    def test_attach_follows_a_job_and_leaves_it_running(self):
        go = self.path("go")
        muster, job = self.running(command=["--", "/bin/sh", "-c",
                                            f"echo rank $RANK; until [ -e {go} ]; do sleep 0.01; done; exit 3"])
        left = muster.start_jobctl("attach", job)
        seen = b""
        while b"rank 0" not in seen or b"rank 1" not in seen:
            seen += left.stdout.readline()
        left.send_signal(signal.SIGINT)
        self.assertEqual(left.wait(timeout=20), 130)
        self.assertIn(b"keeps running", left.stderr.read())
        self.assertEqual(muster.state(job), harness.RUNNING)
        stays = muster.start_jobctl("attach", job)
        self.assertIn(b"Ctrl-C detaches", stays.stderr.readline())
        with open(go, "w"):
            pass
        self.assertEqual(stays.wait(timeout=30), 3)
        self.assert_error(muster.jobctl("attach", job, check=False), "JC1203")


class Owners(EnrollCase):
    def test_only_the_owner_runs_commands_and_the_audit_has_who_and_what(self):
        cluster = self.secured()
        self.assertEqual(self.join(self.token(cluster, "worker"), "node1").returncode, 0)
        self.start_worker(cluster, "node1")
        alice = self.person(cluster, "alice")
        others = {"bob": "user", "carol": "operator", "dave": "admin"}
        people = {name: self.person(cluster, name, "--role", role) for name, role in others.items()}
        job = alice.submit("--", "sleep", "600")
        cluster.wait_for(job, harness.RUNNING)
        wait_until(lambda: alice.jobctl("exec", job, "--", "true", check=False).returncode == 0, "it takes commands")
        self.assertEqual(alice.jobctl("exec", job, "--", "echo", "s3cret").stdout, "s3cret\n")
        for name, person in people.items():
            self.assert_error(person.jobctl("exec", job, "--", "true", check=False), f"user:{name}", "JC1320")

        def entries():
            found = json.loads(cluster.jobctl("audit", "-o", "json").stdout)["items"]
            return [(entry["who"], entry["object"], entry["result"][:8]) for entry in found if entry["what"] == "Exec"]
        wait_until(lambda: len(entries()) >= 5, entries)
        self.assertIn(("user:alice", f"{job} echo", "ok"), entries())
        for name in others:
            self.assertIn((f"user:{name}", f"{job} true", "[JC1320]"), entries())
        self.assertNotIn("s3cret", cluster.jobctl("audit", "-o", "json").stdout)


if __name__ == "__main__":
    harness.main()
