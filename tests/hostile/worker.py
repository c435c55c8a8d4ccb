"""A node that lies. A program that speaks as a worker sends random messages, legal and not, over every call of
WorkerService to a real coordinator, while a job runs on an honest node. The coordinator must live, must not grow, and
the honest job must end with exactly the output that it wrote.

Without identities any peer that reaches the coordinator's socket may speak for any node, so there the liar reports only
on its own name and jobs. In a cluster with identities it has joined, and reports on the honest node and its job, too.

usage: worker.py --seconds N [--seed S]     as many seeds from S on as fit into N seconds
       worker.py --seeds N [--seed S]       N seeds
Each seed is one life of the liar, against the same coordinator. Exits with 1 and the seed when a promise is broken.
"""
import argparse
import hashlib
import os
import queue
import random
import re
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
from enroll_test import EnrollCase  # noqa: E402
from harness import RUNNING, SUCCEEDED, Case, wait_until  # noqa: E402

MESSAGES = 60           # of each call in one life
GROWTH_MAX = 64 << 20   # bytes that the coordinator may grow by after the first life, whatever it was told
LINES = 2000
CALL_S = 10
SHARE = (512 << 20) // (12 << 20)  # of a node, in streams of logs (common/calls.h)
NUMBERS = [0, 1, 2, 3, 63, 255, 4096, 65535, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 53, (1 << 63) - 1, 1 << 63,
           (1 << 64) - 1]
TEXTS = ["", "a", "liar", "../../etc/passwd", "/", "x" * 300, "x" * 70_000, "\x00", "\x1b[2J", "ü\u202e", "a/b", "%s%n",
         "0" * 64, "f" * 64, "empty"]
FLOATS = [0.0, -0.0, 1.5, -1e308, 1e308, float("nan"), float("inf"), float("-inf")]


def is_repeated(field):
    known = getattr(field, "is_repeated", None)  # protobuf has it since 6.31, and no `label` soon after
    return field.label == field.LABEL_REPEATED if known is None else known


class Liar:
    """One life: a seed, the coordinator's channel, and the jobs that it may lie about."""

    def __init__(self, seed, channel, jobs, nodes=("liar",), hashes=()):
        self.choose = random.Random(seed)
        self.channel = channel
        self.jobs = jobs
        self.nodes = nodes
        self.hashes = hashes  # of files that are not its own
        _, self.worker, _ = harness.protos()
        from muster.v1 import sample_pb2
        self.sample = sample_pb2
        self.process = self.choose.getrandbits(63)
        self.problem = None

    # ------------------------------------------------------------ what is said

    def number(self, field):
        name = field.name
        if name in ("job", "jobs") and self.choose.random() < 0.8:
            return self.choose.choice(self.jobs)
        if name in ("attempt", "rank", "part", "parts") and self.choose.random() < 0.8:
            return self.choose.randrange(3)
        value = self.choose.choice(NUMBERS)
        if self.choose.random() < 0.3:
            value = self.choose.getrandbits(self.choose.choice((4, 16, 32, 64)))
        bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
        value &= (1 << bits) - 1
        if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64) and value >= 1 << (bits - 1):
            value -= 1 << bits
        return value

    def scalar(self, field):
        if field.type == field.TYPE_BYTES:
            return self.choose.randbytes(self.choose.choice((0, 1, 100, 70_000)))
        if field.type == field.TYPE_STRING:
            if field.name == "node":
                return self.choose.choice(self.nodes)
            if field.name == "sha256" and self.hashes and self.choose.random() < 0.8:
                return self.choose.choice(self.hashes)
            return self.choose.choice(TEXTS)
        if field.type == field.TYPE_BOOL:
            return self.choose.random() < 0.5
        if field.type == field.TYPE_ENUM:
            return self.choose.choice([value.number for value in field.enum_type.values])
        if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
            return self.choose.choice(FLOATS) if field.type == field.TYPE_DOUBLE else 1.0
        return self.number(field)

    def fill(self, message, depth=0):
        """Sets most fields of a message at random, and those below it."""
        for field in message.DESCRIPTOR.fields:
            if self.choose.random() < 0.3 or depth > 5:
                continue
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                continue
            if is_repeated(field):
                into = getattr(message, field.name)
                for _ in range(self.choose.choice((1, 2, 2, 40))):
                    if field.message_type is not None:
                        self.fill(into.add(), depth + 2)
                    else:
                        into.append(self.scalar(field))
            elif field.message_type is not None:
                child = getattr(message, field.name)
                child.SetInParent()
                self.fill(child, depth + 1)
            else:
                setattr(message, field.name, self.scalar(field))
        return message

    def registration(self):
        message = self.worker.WorkerMessage()
        facts = message.register.facts
        facts.name, facts.incarnation, facts.process, facts.boot_id = "liar", 7, self.process, "boot"
        facts.protocol, facts.advertise, facts.cores = 2, "127.0.0.1", 4
        for index in range(4):
            facts.devices.add(kind="cpu", index=index)
        return message

    def answer(self, order):
        """What an honest worker would answer, so that the liar's jobs get far enough to be lied about."""
        message = self.worker.WorkerMessage()
        what = order.WhichOneof("what")
        if what == "registered" and order.registered.clear:
            message.cleared.SetInParent()
        elif what in ("prepare", "launch"):
            told = getattr(order, what)
            status = message.attempt_status
            status.job, status.attempt, status.ready = told.job, told.attempt, True
            status.phase, status.master_port = (1, 20000) if what == "prepare" else (3, 20000)
            status.ranks_started = 0 if what == "prepare" else told.part.local_world_size
        elif what in ("stop", "forget"):
            told = getattr(order, what)
            status = message.attempt_status
            status.job, status.attempt, status.phase, status.how_ended = told.job, told.attempt, 4, "empty"
        else:
            return None
        return message

    def lie(self):
        message = self.worker.WorkerMessage()
        kind = self.choose.choice([field.name for field in message.DESCRIPTOR.fields])
        child = getattr(message, kind)
        child.SetInParent()
        self.fill(child)
        if kind == "register":
            child.facts.name = self.choose.choice(self.nodes)
        return message

    # ------------------------------------------------------------ sending

    def call(self, name, request, response, messages, answers=None):
        """One stream; the coordinator decides how it ends, but it must end or continue, not hang."""
        import grpc
        stream = self.channel.stream_stream(f"/muster.v1.WorkerService/{name}",
                                            request_serializer=request.SerializeToString,
                                            response_deserializer=response.FromString)
        try:
            for said in stream(messages, timeout=CALL_S, wait_for_ready=True):
                if answers is not None:
                    answers(said)
        except grpc.RpcError as error:
            return error.code()
        return None

    def control(self):
        """Connects, mixes honest answers with lies, and is cut off or leaves."""
        outbox = queue.SimpleQueue()
        outbox.put(self.registration())
        for _ in range(MESSAGES):
            outbox.put(self.lie())

        def answers(said):
            if (answer := self.answer(said)) is not None and self.choose.random() < 0.8:
                outbox.put(answer)

        def messages():
            while True:
                try:
                    yield outbox.get(timeout=0.2)
                except queue.Empty:
                    return
        self.call("Connect", self.worker.WorkerMessage, self.worker.CoordinatorMessage, messages(), answers)

    def behave(self):
        """Registers and does what it is told for a moment, so that its jobs run."""
        outbox = queue.SimpleQueue()
        outbox.put(self.registration())

        def answers(said):
            if (answer := self.answer(said)) is not None:
                outbox.put(answer)

        def messages():
            until = time.monotonic() + 0.4
            while time.monotonic() < until:
                try:
                    yield outbox.get(timeout=0.05)
                except queue.Empty:
                    pass
        self.call("Connect", self.worker.WorkerMessage, self.worker.CoordinatorMessage, messages(), answers)

    def bulk(self, name, request, response):
        self.call(name, request, response, iter([self.fill(request()) for _ in range(MESSAGES)]))

    def blobs(self):
        import grpc
        begin = self.channel.unary_unary("/muster.v1.WorkerService/BeginUpload",
                                         request_serializer=self.worker.BeginUploadRequest.SerializeToString,
                                         response_deserializer=self.worker.BeginUploadResponse.FromString)
        upload = self.channel.stream_unary("/muster.v1.WorkerService/UploadBlob",
                                           request_serializer=self.worker.BlobChunk.SerializeToString,
                                           response_deserializer=self.worker.UploadBlobResponse.FromString)
        for _ in range(MESSAGES // 6):
            chunks = [self.fill(self.worker.BlobChunk()) for _ in range(self.choose.randrange(4))]
            for ask in (lambda: begin(self.fill(self.worker.BeginUploadRequest()), timeout=CALL_S),
                        lambda chunks=chunks: upload(iter(chunks), timeout=CALL_S)):
                try:
                    ask()
                except grpc.RpcError:
                    pass

    def live(self):
        """On its own thread, so that a call that hangs is noticed."""
        try:
            self.say_everything()
        except Exception as problem:  # noqa: BLE001 - the test's own mistake, shown by the test
            self.problem = problem
            raise

    def say_everything(self):
        worker, sample = self.worker, self.sample
        self.behave()
        self.control()
        self.bulk("UploadLogs", worker.LogChunk, worker.LogAck)
        self.bulk("UploadMetrics", worker.MetricBatch, worker.MetricAck)
        self.bulk("UploadSamples", sample.SampleBatch, sample.SampleReceipt)
        self.blobs()


class Promises:
    """What a cluster keeps to whatever a node says. `one`, `channel` and `go` are the test's."""
    options = None
    nodes = ("liar",)

    def honest_job(self):
        # The honest job saves a checkpoint, whose hash the liar is told.
        script = (f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done; "
                  "mkdir $MUSTER_CHECKPOINT_DIR/step-1.tmp; echo weights >$MUSTER_CHECKPOINT_DIR/step-1.tmp/model; "
                  "mv $MUSTER_CHECKPOINT_DIR/step-1.tmp $MUSTER_CHECKPOINT_DIR/step-1; "
                  f"while ! [ -e {self.go} ]; do sleep 0.05; done; echo over")
        job = self.one.submit("-n", "1", "--", "sh", "-c", script)
        self.one.wait_for(job, RUNNING)
        wait_until(lambda: self.one.api.record(job).checkpoints, "its checkpoint is committed")
        return job

    def check_alive(self, seed):
        self.assertTrue(self.one.coordinator.alive(),
                        f"seed {seed}: the coordinator ended: {self.one.coordinator.output()[-2000:]}")
        began = time.monotonic()
        self.one.api.list()
        self.assertLess(time.monotonic() - began, CALL_S, f"seed {seed}: the coordinator is held up")

    def seeds(self):
        """The seeds of this run."""
        until = time.monotonic() + self.options.seconds
        seed = self.options.seed
        while seed < self.options.seed + self.options.seeds or time.monotonic() < until:
            yield seed
            seed += 1

    def keeps_its_promises(self, foreign=False):
        honest = self.honest_job()
        # Three ranks do not fit on the honest node, so the liar gets them.
        own = [self.one.submit("-n", "3", "--queue-anyway", "--", "true") for _ in range(2)]
        jobs = [self.one.api.record(job).id for job in own] + [999]
        hashes = ()
        if foreign:
            jobs += 2 * [self.one.api.record(honest).id]
            hashes = (hashlib.sha256(b"weights\n").hexdigest(),)
        grown_from = None
        for seed in self.seeds():
            liar = Liar(seed, self.channel, jobs, self.nodes, hashes)
            lives = threading.Thread(target=liar.live, daemon=True)
            lives.start()
            lives.join(timeout=12 * CALL_S)
            self.assertFalse(lives.is_alive(), f"seed {seed}: a call hangs")
            self.assertIsNone(liar.problem)
            self.check_alive(seed)
            rss = harness.rss_bytes(self.one.coordinator.pid)
            grown_from = grown_from or rss
            self.assertLess(rss - grown_from, GROWTH_MAX, f"seed {seed}: the coordinator grows")
        records = [self.one.api.record(job) for job in own]
        told = [attempt.parts[0] for record in records for attempt in record.attempts]
        self.assertTrue(any(part.node == "liar" and part.launched for part in told), "the liar ran one of its own jobs")
        taken = [file.sha256 for record in records for checkpoint in record.checkpoints for file in checkpoint.files]
        self.assertFalse(set(taken) & set(hashes), "nothing that it has not sent became its checkpoint")
        open(self.go, "w").close()
        self.one.wait_for(honest, SUCCEEDED)
        wait_until(lambda: self.one.jobctl("logs", "--raw", honest).stdout ==
                   "".join(f"line {i}\n" for i in range(LINES)) + "over\n", "the honest job's output, exactly")
        record = self.one.api.record(honest)
        self.assertEqual(record.next_attempt, 1)
        self.assertEqual([checkpoint.step for checkpoint in record.checkpoints], [1])
        self.assertEqual([part.node for part in record.attempts[0].parts], ["honest"])


class HostileWorker(Promises, Case):
    def test_what_a_worker_says_hurts_nobody_else(self):
        self.one = self.cluster(workers=("honest",), devices="cpu:1")
        self.go = self.path("go")
        self.channel = self.one.api.channel
        self.keeps_its_promises()


class HostileMember(Promises, EnrollCase):
    nodes = ("liar", "liar", "honest")

    def setUp(self):
        super().setUp()
        import grpc
        self.one = self.secured()
        self.go = self.path("go")
        for name in ("honest", "liar"):
            self.assertEqual(self.join(self.token(self.one, "worker"), name).returncode, 0)
        self.start_worker(self.one, "honest", devices="cpu:1")
        with open(self.path("state-liar") + "/credentials") as file:
            pem = file.read()
        parts = {kind: re.findall(f"-----BEGIN {kind}-----.*?-----END {kind}-----\n", pem, re.DOTALL)
                 for kind in ("PRIVATE KEY", "CERTIFICATE")}
        proof = grpc.ssl_channel_credentials(root_certificates=parts["CERTIFICATE"][1].encode(),
                                             private_key=parts["PRIVATE KEY"][0].encode(),
                                             certificate_chain=parts["CERTIFICATE"][0].encode())
        endpoint = re.search(r" tcp=(\S+)", self.one.coordinator.output()).group(1)
        self.channel = grpc.secure_channel(endpoint, proof, (("grpc.ssl_target_name_override", "muster-coordinator"),))
        self.addCleanup(self.channel.close)

    def test_what_a_worker_with_a_certificate_says_reaches_its_own_jobs_alone(self):
        self.keeps_its_promises(foreign=True)

    def test_a_node_has_its_share_of_streams_and_another_node_does_not_notice(self):
        import grpc
        _, worker, _ = harness.protos()
        upload = self.channel.stream_stream("/muster.v1.WorkerService/UploadLogs",
                                            request_serializer=worker.LogChunk.SerializeToString,
                                            response_deserializer=worker.LogAck.FromString)
        over = threading.Event()
        self.addCleanup(over.set)

        def nothing():
            over.wait()
            yield from ()

        calls = [upload(nothing()) for _ in range(4 * SHARE)]
        wait_until(lambda: sum(call.is_active() for call in calls) == SHARE, "a node has its share of streams")
        refused = [call for call in calls if not call.is_active()]
        self.assertEqual({call.code() for call in refused}, {grpc.StatusCode.RESOURCE_EXHAUSTED})
        self.assertIn("the calls of worker:liar that are under way", refused[0].details())
        job = self.one.submit("-n", "1", "--", "echo", "all the same")
        self.one.wait_for(job, SUCCEEDED)
        wait_until(lambda: self.one.jobctl("logs", "--raw", job).stdout == "all the same\n", "the other node's output")
        over.set()
        wait_until(lambda: not any(call.is_active() for call in calls), "the streams are over")
        self.assertTrue(next(upload(iter([worker.LogChunk(job=999)]))).refused, "there is room again")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hostile", action="store_true", help="it always is; ./dev chaos tells all its tools")
    Promises.options = parser.parse_args()
    sys.argv[1:] = []
    harness.main()


if __name__ == "__main__":
    main()
