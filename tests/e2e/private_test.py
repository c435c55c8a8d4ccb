"""The private coordinator under adverse conditions: another user's socket in its place, and a full home directory."""
import fcntl
import os
import select
import shutil
import signal
import socket
import subprocess

import harness
from harness import Case, need

VICTIM, OTHER = 54321, 54322


def squat(directory, say):
    """Creates the directory and the socket that a victim's jobctl would use, and prints how many bytes arrive."""
    os.mkdir(directory)
    os.chmod(directory, 0o777)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(directory + "/coordinator.sock")
    os.chmod(directory + "/coordinator.sock", 0o777)
    listener.listen()
    os.write(say, b"ready\n")
    while True:
        peer, _ = listener.accept()
        os.write(say, b"%d\n" % len(peer.recv(65536)))


def as_other_user(work):
    """The pid of a copy of this process that runs as another user and does `work`. Forked, because that user may not be
    able to read this interpreter."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            work()
        finally:
            os._exit(1)
    return pid


class ForeignSockets(Case):
    def test_nothing_is_sent_to_a_socket_that_another_user_put_in_place_first(self):
        need(os.geteuid() == 0, "needs root to become two other users")
        # The build may be where other users cannot read it.
        program = shutil.copy(harness.JOBCTL, self.path("jobctl"))
        os.chmod(self.directory, 0o1777)
        runtime = self.path("muster-victim")
        said, say = os.pipe()
        squatter = as_other_user(lambda: squat(runtime, say))
        self.addCleanup(os.waitpid, squatter, 0)
        self.addCleanup(os.kill, squatter, signal.SIGKILL)
        self.assertEqual(os.read(said, 6), b"ready\n")
        env = dict(self.env, JOBCTL_RUNTIME_DIR=runtime, SECRET="of the victim")
        for server in ({}, {"JOBCTL_SERVER": f"unix:{runtime}/coordinator.sock"}):
            done = subprocess.run([program, "submit", "--", "true"], capture_output=True, text=True, user=VICTIM,
                                  group=VICTIM, extra_groups=(), env={**env, **server}, cwd="/", timeout=30)
            self.assert_error(done, "[JC1304]", runtime, "nothing was sent")
        while select.select([said], [], [], 0.2)[0]:
            self.assertEqual(set(os.read(said, 100)), set(b"0\n"), "at most a look at who is there")


class Leaving(Case):
    def test_a_coordinator_that_is_just_leaving_holds_up_the_next_command_only_while_it_leaves(self):
        # Simulates one that has closed its socket but still holds its data directory.
        private = self.private()
        private.jobctl("run", "--", "true")
        self.assert_gone(self.mark)
        lock = open(self.path("d/coordinator/LOCK"), "a")
        fcntl.flock(lock, fcntl.LOCK_EX)
        client = private.start_jobctl("run", "--", "echo", "it runs")
        log = self.path("d/coordinator/coordinator.log")

        def turned_away():
            with open(log) as file:
                return "[JC1604]" in file.read()
        harness.wait_until(turned_away, "the next one has found the directory taken")
        lock.close()
        output, error = client.communicate(timeout=20)
        self.assertEqual(client.returncode, 0, error.decode())
        self.assertIn(b"it runs", output)


class FullHome(Case):
    """Uses a small tmpfs as the disk of HOME; needs root."""

    def small_home(self):
        need(os.geteuid() == 0, "needs root to mount a tmpfs")
        home = self.path("home")
        os.makedirs(home)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", home], capture_output=True)
        need(done.returncode == 0, "cannot mount a tmpfs here")
        self.addCleanup(subprocess.run, ["umount", "-l", home], capture_output=True)
        self.env["JOBCTL_DATA_DIR"] = home + "/d"
        return home

    def leave(self, home, free_kib):
        def filled():
            with open(home + "/filler", "wb") as file:
                disk = os.statvfs(home)
                try:
                    os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - free_kib * 1024)
                    return True
                except OSError:
                    return False  # a daemon has written in the meantime
        harness.wait_until(filled, "the disk is full")

    def use_up(self, home):
        """As if all that is kept had been used up."""
        for name in ("HEADROOM", "HEADROOM-LAST"):
            os.remove(f"{home}/d/coordinator/{name}")
        self.leave(home, 0)

    def test_the_full_disk_is_named_at_once_and_with_room_it_goes_on(self):
        home = self.small_home()
        private = self.private()
        for free_kib in (0, 4, 124, 600):
            self.leave(home, free_kib)
            done = private.jobctl("submit", "--", "true", check=False, timeout=20)
            self.assert_error(done, "[JC1605]", home, "full", "fix:")
            self.assertEqual(self.processes(), {}, f"no process holds the lock with {free_kib} KiB")
        os.remove(home + "/filler")
        self.assertEqual(private.jobctl("run", "--", "true", timeout=30).returncode, 0)

    def test_a_disk_that_filled_up_meanwhile_is_no_reason_not_to_start(self):
        home = self.small_home()
        private = self.private()
        name = private.jobctl("submit", "--wait", "-o", "name", "--", "true").stdout.split()[0]
        private.jobctl("down", check=False)
        harness.wait_until(lambda: not self.processes(), "it has left")
        self.leave(home, 0)
        self.assertIn(name, private.jobctl("ls", "-a", timeout=20).stdout, "the reserve is there for this")
        self.assert_error(private.jobctl("submit", "--", "true", check=False, timeout=20), "[JC1605]", "full")

    def test_a_disk_that_fills_up_is_said_by_every_command_until_there_is_room(self):
        home = self.small_home()
        private = self.private()
        private.jobctl("up")
        self.use_up(home)
        # What cannot be recorded waits for room; later requests are refused immediately.
        waits = private.start_jobctl("nodes", "drain", os.uname().nodename, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)

        def said():
            done = private.jobctl("ls", check=False, timeout=50)
            return done if "[JC1605]" in done.stderr else None
        self.assert_error(harness.wait_until(said, "the full disk is named"), home, "full")
        os.remove(home + "/filler")
        harness.wait_until(lambda: private.jobctl("ls", "-a", check=False, timeout=50).returncode == 0,
                           "it continues without a restart")
        self.assertEqual(waits.wait(timeout=30), 0, "what waited was recorded")
        private.jobctl("down")
        self.assert_gone(self.mark)

    def test_a_coordinator_on_a_full_disk_can_be_ended(self):
        home = self.small_home()
        private = self.private()
        private.jobctl("up")
        self.use_up(home)
        private.start_jobctl("nodes", "drain", os.uname().nodename, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: "[JC1605]" in private.jobctl("ls", check=False, timeout=50).stderr,
                           "nothing is recorded anymore")
        with open(home + "/d/coordinator/LOCK") as file:
            pid = int(file.read())
        os.kill(pid, signal.SIGTERM)
        harness.wait_until(lambda: pid not in self.processes(), "it does not wait for room to end")


if __name__ == "__main__":
    harness.main()
