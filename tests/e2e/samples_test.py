"""What nodes measure of running jobs: `jobctl top`, and the stored samples across a crash and a removal."""
import json
import os
import signal
import subprocess
import sys
import time

import harness
from harness import RUNNING, SUCCEEDED, Case, wait_until
from terminal import Terminal

BURNER = "block = b'x' * (200 << 20); print('up', flush=True)\nwhile True: pass"
SLEEPER = "import time; time.sleep(600)"
LOADER = ("import mmap, os, sys, time; file = open(sys.argv[1], 'rb'); "
          "held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
          "while not os.path.exists(sys.argv[2]): time.sleep(0.05)")


def top(cluster, *args):
    return json.loads(cluster.jobctl("top", "-o", "json", *args).stdout)["items"]


def stored(cluster, job, **query):
    """Every stored bucket of the job."""
    from muster.v1 import sample_pb2
    request = sample_pb2.QuerySamplesRequest(job=str(job), **query)
    return list(cluster.api.stream("QuerySamples", request, sample_pb2.SampleBucket))


def sample_files(data):
    return sorted(os.path.relpath(os.path.join(where, name), data)
                  for where, _, names in os.walk(os.path.join(data, "samples")) for name in names)


class Samples(Case):
    def burn(self, cluster):
        job = cluster.submit("-n", "1", "--", sys.executable, "-c", BURNER)
        cluster.wait_for(job, RUNNING)
        return job

    def test_the_framework_that_a_rank_has_loaded_is_shown_and_outlives_the_job(self):
        cluster = self.cluster()
        torch, go = self.path("torch"), self.path("go")
        os.makedirs(os.path.join(torch, "lib"))
        library = os.path.join(torch, "lib", "libtorch_cpu.so")
        with open(library, "wb") as file:
            file.write(bytes(4096))
        with open(os.path.join(torch, "version.py"), "w") as file:
            file.write("__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n")
        job = cluster.submit("-n", "1", "--", sys.executable, "-S", "-c", LOADER, library, go)
        said = "torch 2.11.0+cu130 (CUDA 13.0): node1"
        wait_until(lambda: said in cluster.jobctl("show", job).stdout, lambda: cluster.jobctl("show", job).stdout)
        self.assertIn("node1 runs torch 2.11.0+cu130, built for CUDA 13.0", cluster.jobctl("events", job).stdout)
        self.assertNotIn("version-mismatch", cluster.jobctl("show", job, "-o", "json").stdout, "it runs on cpu slots")
        open(go, "w").close()
        cluster.wait_for(job, SUCCEEDED)
        self.assertIn(said, cluster.jobctl("show", job).stdout)
        self.assertIn(said, cluster.jobctl("diagnose", job, check=False).stdout)

    def busy_row(self, cluster, job):
        """The rank's row of `top` once it burns and holds what it was told to; a loaded machine may give it less than
        a core."""
        def shown():
            rows = top(cluster, job)
            return rows if rows and (rows[0]["cpu_cores"] or 0) > 0.3 and rows[0]["resident_bytes"] > 200e6 else None
        return wait_until(shown, lambda: f"a busy rank in {top(cluster, job)}")[0]

    def test_a_busy_rank_is_shown_kept_over_a_crash_and_removed(self):
        cluster = self.cluster()
        job = self.burn(cluster)
        row = self.busy_row(cluster, job)
        self.assertEqual((row["rank"], row["node"], row["device"]), (0, "node1", "cpu:0"))
        self.assertLess(row["cpu_cores"], 1.5)
        self.assertLess(row["resident_bytes"], 400e6)
        self.assertLess(row["age_ms"], 10_000)
        nodes = top(cluster, "--nodes")
        self.assertEqual([each["node"] for each in nodes], ["node1"])
        self.assertGreater(nodes[0]["resident_bytes"], 200e6)

        before = stored(cluster, job)
        self.assertTrue(before)
        self.assertGreaterEqual(len(stored(cluster, job, since_ms=-(1 << 63))), len(before), "from the beginning")
        cluster.coordinator.kill9()
        data, backup, again = os.path.join(cluster.directory, "data"), self.path("backup"), self.path("again")
        for line in (["check", "--data-dir", data], ["backup", "--data-dir", data, "--to", backup],
                     ["restore", "--from", backup, "--data-dir", again]):
            done = subprocess.run([os.path.join(harness.BIN, "muster-coordinator"), *line], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("samples   " if line[0] == "check" else "", done.stdout)
        self.assertEqual(sample_files(again), sample_files(data))
        self.assertTrue(sample_files(again))
        cluster.restart_coordinator()
        after = stored(cluster, job)
        self.assertEqual([each.last.time_ms for each in after[:len(before)]],
                         [each.last.time_ms for each in before], "what was stored is still there")
        self.assertGreater(max(each.last.ranks[0].resident_bytes for each in after), 200e6)
        wait_until(lambda: len(stored(cluster, job)) > len(after), "the worker sends on, unasked")
        self.busy_row(cluster, job)

        cluster.jobctl("cancel", job)
        cluster.wait_over(job)
        files = os.path.join(cluster.directory, "data", "samples", str(cluster.api.record(job).id))
        self.assertTrue(os.path.isdir(files))
        cluster.jobctl("rm", "-y", job)
        wait_until(lambda: not os.path.exists(files), "the samples go with the job")

    def test_the_rank_that_works_is_told_from_the_one_that_waits(self):
        cluster = self.cluster()
        script = f"if [ $RANK = 1 ]; then exec {sys.executable} -c 'while True: pass'; fi; exec sleep 600"
        job = cluster.submit("-n", "2", "--", "sh", "-c", script)

        def uneven():
            rows = top(cluster, job)
            cores = [row["cpu_cores"] for row in rows]
            return rows if len(rows) == 2 and None not in cores and cores[1] > 0.3 > 0.1 > cores[0] else None
        rows = wait_until(uneven, lambda: f"one busy rank in {top(cluster, job)}")
        self.assertEqual([row["rank"] for row in rows], [0, 1])
        busiest = cluster.jobctl("top", job, "-o", "csv", "--no-headers", "--sort", "-cpu%", "--columns", "rank")
        self.assertEqual(busiest.stdout.split(), ["1", "0"])

    def test_claims_of_a_foreign_program_are_refused(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", "sleep", "600")
        number = cluster.wait_for(job, RUNNING).id
        from muster.v1 import sample_pb2
        honest = dict(job=number, attempt=0, node="node1", time_ms=int(time.time() * 1000), rank=0, cpu=77)

        def batch(**lie):
            told = {**honest, **lie}
            rank = sample_pb2.RankSample(rank=told.pop("rank"), cpu_cores=told.pop("cpu"))
            return sample_pb2.SampleBatch(ranks=[rank], **told)
        lies = [batch(node="node2", cpu=8), batch(attempt=1, cpu=2), batch(rank=1, cpu=3), batch(job=99, cpu=4),
                batch(cpu=float("nan")), batch(time_ms=-5, cpu=5), batch(node="../../x", cpu=6)]
        upload = cluster.api.channel.stream_stream(
            "/muster.v1.WorkerService/UploadSamples", request_serializer=sample_pb2.SampleBatch.SerializeToString,
            response_deserializer=sample_pb2.SampleReceipt.FromString)
        self.assertEqual(list(upload(iter(lies + [batch()] + [batch(cpu=78)] * 100), timeout=harness.DEADLINE_S)), [])

        def claimed():
            cores = {bucket.last.ranks[0].cpu_cores for bucket in stored(cluster, job)}
            return cores if 77 in cores else None
        cores = wait_until(claimed, "the batch that may be true is stored")
        self.assertEqual([each for each in cores if not each <= 1.9 and each not in (77, 78)], [])  # NaN, too
        repeated = [bucket for bucket in stored(cluster, job) if bucket.last.ranks[0].cpu_cores == 78]
        self.assertLess(len(repeated), 40, "a flood is not stored")
        self.assertEqual(os.listdir(os.path.join(cluster.directory, "data", "samples")), [str(number)])
        self.assertIn("JC1611", cluster.coordinator.output())

    def test_without_jobs_there_is_nothing_to_see_and_nothing_is_started(self):
        alone = self.private()
        done = alone.jobctl("top")
        self.assertIn("no job is running", done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.directory, "d", "muster.db")))


class OnATerminal(Case):
    ENTER, LEAVE = b"\033[?1049h", b"\033[?1049l"

    def setUp(self):
        super().setUp()
        self.muster = self.cluster()
        self.job = self.muster.submit("-n", "2", "--", sys.executable, "-c", SLEEPER)
        self.muster.wait_for(self.job, RUNNING)

    def live(self):
        terminal = Terminal(self, self.muster, "top", self.job)
        terminal.wait_for(b"q quit")
        self.assertIn(self.ENTER, terminal.seen)
        self.assertFalse(terminal.is_as_before())
        return terminal

    def ended(self, terminal, code):
        self.assertEqual(terminal.process.wait(timeout=harness.DEADLINE_S), code)
        terminal.read()
        self.assertGreater(terminal.seen.rfind(self.LEAVE), terminal.seen.rfind(self.ENTER))
        self.assertTrue(terminal.is_as_before(), "line editing and echo are back")

    def test_the_view_fits_scrolls_sorts_and_leaves_the_terminal_as_it_was(self):
        terminal = self.live()
        terminal.wait_for_screen(lambda lines: "RANK" in lines[1] and lines[4].startswith("q quit"))
        terminal.type(b" ")
        terminal.wait_for(b"PAUSED")
        terminal.type(b" ")
        for keys in (b"c", b"m", b"s", b"\033[B", b"\033[6~", b"G", b"g", b"r"):
            terminal.type(keys)
        terminal.type(b"h")
        terminal.wait_for(b"slowest steps first")
        terminal.type(b"q")
        self.ended(terminal, 0)

    def test_ctrl_c_and_a_signal_restore_the_terminal(self):
        terminal = self.live()
        terminal.type(b"\x03")
        self.ended(terminal, 130)
        terminal = self.live()
        terminal.process.send_signal(signal.SIGTERM)
        self.ended(terminal, 143)
        terminal = self.live()
        terminal.process.send_signal(signal.SIGQUIT)
        self.ended(terminal, -signal.SIGQUIT)

    def test_a_stopped_view_gives_the_terminal_back_and_returns(self):
        terminal = self.live()
        terminal.process.send_signal(signal.SIGTSTP)
        pid, status = os.waitpid(terminal.process.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status), status)
        wait_until(lambda: self.LEAVE in terminal.read(), "the ordinary screen is back")
        self.assertTrue(terminal.is_as_before())
        seen = len(terminal.seen)
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: self.ENTER in terminal.read()[seen:] and b"q quit" in terminal.seen[seen:],
                   "the view is back")
        terminal.type(b"q")
        self.ended(terminal, 0)

    def test_once_prints_a_table_and_leaves_the_terminal_alone(self):
        terminal = Terminal(self, self.muster, "top", self.job, "--once")
        self.assertEqual(terminal.process.wait(timeout=harness.DEADLINE_S), 0)
        terminal.read()
        self.assertIn(b"RANK", terminal.seen)
        self.assertNotIn(self.ENTER, terminal.seen)


if __name__ == "__main__":
    harness.main()
