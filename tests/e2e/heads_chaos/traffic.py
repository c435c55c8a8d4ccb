"""Clients that ask any coordinator for anything, and record each call. Each has its own random numbers, of the run's seed."""
import hashlib
import os
import random
import sys
import threading
import time

import grpc

import harness
from history import FAIL

sys.path.insert(0, harness.RANKS)
import writer  # noqa: E402  (the rank's program knows what it writes)

# A status with which the coordinator refuses a call, having done nothing.
REFUSED = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION,
           grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.PERMISSION_DENIED)
LIVE_MOST = 12  # jobs, so that all are over soon after the faults
GRACE_MS = 500
LINES = 300


def digest(message):
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()[:16]


class Jobs:
    """What the clients know of. Any thread."""

    def __init__(self, seed, env, witness):
        self.seed, self.env, self.witness = seed, env, witness
        self.lock = threading.Lock()
        self.number = 0
        self.kinds = {}    # by key
        self.by_id = {}    # the key of each acknowledged one
        self.unknown = {}  # what was asked for without an answer so far, by key
        self.live = set()
        # Of a fault: nothing is written for now; nothing is written through one coordinator.
        self.lull, self.avoid = False, None

    def make(self, choose, service):
        with self.lock:
            self.number += 1
            key = f"{self.seed}-{self.number}"
            kind = choose.choice(["true", "witness", "witness", "writer"])
            self.kinds[key] = kind
        request = service.SubmitRequest(idempotency_key=key, queue_anyway=True)
        spec = request.spec
        line = {"true": ["true"], "writer": harness.python_line("writer.py", LINES, "--rate", 600)[1:],
                "witness": harness.python_line("witness.py", "--for", f"{choose.uniform(0.05, 2.5):.2f}")[1:]}[kind]
        spec.command.extend(line)
        spec.workdir = "/"
        spec.env.update({"PATH": self.env["PATH"], "WITNESS": self.witness})
        spec.env.update({name: value for name, value in self.env.items() if name.startswith("TORCH_TEST")})
        spec.shape.processes = choose.choice([1, 1, 2])
        spec.shape.min_nodes = spec.shape.max_nodes = choose.choice([1, spec.shape.processes])
        spec.shape.device.kind = "cpu"
        with self.lock:
            self.unknown[key] = request
        return request

    def acknowledged(self, key, job):
        with self.lock:
            self.unknown.pop(key, None)
            if job not in self.by_id:
                self.live.add(job)
            self.by_id[job] = key

    def listed(self, states):
        with self.lock:
            self.live -= {job for job, (state, _) in states.items() if state in harness.OVER}

    def some(self, choose, live=False):
        with self.lock:
            pool = sorted(self.live if live else self.by_id)
            return choose.choice(pool[-30:]) if pool else None

    def writes(self, job):
        """Whether its ranks are writers, so that each byte of their output is known."""
        return self.kinds.get(self.by_id.get(job)) == "writer"


class Asker:
    """One client: a channel for each coordinator."""

    def __init__(self, name, endpoints, history, jobs, seed):
        self.name, self.history, self.jobs = name, history, jobs
        self.choose = random.Random(seed)
        self.service, _, _ = harness.protos()
        self.endpoints = endpoints
        self.apis = [harness.Api(endpoint) for endpoint in endpoints]
        self.head = 0

    def close(self):
        for api in self.apis:
            api.close()

    def call(self, method, request, response, within_s):
        api = self.apis[self.head]
        call = api.channel.unary_unary(f"/muster.v1.JobService/{method}", request_serializer=type(request).SerializeToString,
                                       response_deserializer=response.FromString)
        return call(request, timeout=within_s)

    def stream(self, method, request, response, within_s):
        call = self.apis[self.head].channel.unary_stream(
            f"/muster.v1.JobService/{method}", request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString)
        return call(request, timeout=within_s)

    def attempt(self, kind, ask, within_s=None, **asked):
        """Records one call. `ask(within_s)` returns the value. None: no answer."""
        op = self.history.invoke(self.name, self.head, kind, **asked)
        try:
            value = ask(within_s or self.choose.choice([0.5, 1, 2.5]))
        except grpc.RpcError as error:
            if error.code() in REFUSED:
                self.history.answered(op, error.details(), FAIL)
            else:
                self.history.without_answer(op)
                self.look_elsewhere(error)
            return op
        self.history.answered(op, value)
        return op

    def look_elsewhere(self, error):
        """One that stands by tells who leads, as far as it knows."""
        told = [index for index, endpoint in enumerate(self.endpoints) if endpoint in (error.details() or "")]
        others = told or [index for index in range(len(self.apis)) if index != self.head]
        self.head = self.choose.choice(others)

    # ---------------------------------------------------------------- calls

    def submit(self, request, within_s=None):
        def ask(within):
            answer = self.call("Submit", request, self.service.SubmitResponse, within)
            return {"id": answer.job, "existed": answer.existed}
        op = self.attempt("submit", ask, within_s, key=request.idempotency_key)
        if op.outcome == "ok":
            self.jobs.acknowledged(request.idempotency_key, op.value["id"])
        return op

    def cancel(self, job):
        def ask(within):
            result = self.call("CancelJobs", self.service.CancelJobsRequest(jobs=[str(job)], grace_ms=GRACE_MS, has_grace=True),
                               self.service.BulkResponse, within).results[0]
            return {"status": result.status_code}
        op = self.attempt("cancel", ask, id=job)
        if op.outcome == "ok" and op.value["status"]:
            op.outcome = FAIL
        return op

    def shown(self, record):
        return {"id": record.id, "version": record.event_count, "state": record.state, "attempts": record.next_attempt,
                "cancel": record.cancel_requested, "key": record.idempotency_key, "digest": digest(record)}

    def get(self, job, within_s=None):
        def ask(within):
            try:
                return self.shown(self.call("GetJob", self.service.JobReference(job=str(job)), self.service.GetJobResponse,
                                            within).record)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.NOT_FOUND:
                    raise
                return None
        return self.attempt("get", ask, within_s, id=job)

    def list(self, within_s=None):
        def ask(within):
            answer = self.call("ListJobs", self.service.ListJobsRequest(all=True, limit=5000), self.service.ListJobsResponse,
                               within)
            return {"jobs": {job.id: (job.state, job.attempts) for job in answer.jobs}}
        op = self.attempt("list", ask, within_s)
        if op.outcome == "ok":
            self.jobs.listed(op.value["jobs"])
        return op

    def server(self, within_s=None):
        def ask(within):
            answer = self.call("GetServer", self.service.GetServerRequest(client_protocol=1, client_version="test"),
                               self.service.GetServerResponse, within)
            return {"epoch": answer.epoch, "stands_by": answer.stands_by}
        op = self.attempt("server", ask, within_s)
        if op.outcome == "ok" and op.value["stands_by"]:
            op.outcome = FAIL  # not one that leads
            self.head = (self.head + 1) % len(self.apis)
        return op

    def watch(self, job, seconds):
        op = self.history.invoke(self.name, self.head, "watch", id=job)
        op.value = {"seen": []}
        try:
            for update in self.stream("WatchJob", self.service.WatchJobRequest(job=str(job)), self.service.JobUpdate, seconds):
                op.value["seen"].append({**self.shown(update.record), "at": time.monotonic()})
        except grpc.RpcError:
            pass
        self.history.without_answer(op)

    def events(self, after, seconds):
        """The newest sequence number that it has seen."""
        op = self.history.invoke(self.name, self.head, "events")
        op.value = {"events": {}}
        request = self.service.ListEventsRequest(after_seq=after, follow=True)
        try:
            for batch in self.stream("ListEvents", request, self.service.EventBatch, seconds):
                for event in batch.events:
                    op.value["events"][event.seq] = digest(event)
                    after = max(after, event.seq)
        except grpc.RpcError as error:
            self.look_elsewhere(error)
        self.history.without_answer(op)
        return after

    def logs(self, job, follow=False, within_s=None):
        """Each byte that comes is the one that its rank wrote there. `notices`, `dropped` and `ends` for the end of a run."""
        def ask(within):
            value = {"wrong": "", "notices": [], "dropped": 0, "ends": {}}
            request = self.service.StreamLogsRequest(job=str(job), attempt=-2, follow=follow)
            for record in self.stream("StreamLogs", request, self.service.LogRecord, within):
                if record.notice:
                    value["notices"].append(record.notice)
                value["dropped"] += record.dropped
                if record.data:
                    want = writer.expected(record.rank, "o" if record.stream == 1 else "e", LINES)
                    end = record.offset + len(record.data)
                    if want[record.offset:end] != record.data:
                        value["wrong"] = f"rank {record.rank}, stream {record.stream}, offset {record.offset}"
                    key = f"{record.rank}/{record.stream}"
                    value["ends"][key] = max(end, value["ends"].get(key, 0))
            return value
        return self.attempt("logs", ask, within_s, id=job)


class Client(threading.Thread):
    """Asks at random until it is over."""

    def __init__(self, asker, over):
        super().__init__(daemon=True)
        self.asker, self.over, self.failure = asker, over, None

    def run(self):
        try:
            while not self.over.wait(self.asker.choose.uniform(0.02, 0.2)):
                self.step()
        except Exception as error:  # reported by the run
            self.failure = error

    def step(self):
        asker, choose = self.asker, self.asker.choose
        if choose.random() < (0.2 if asker.jobs.avoid is None else 0.5):
            asker.head = choose.randrange(len(asker.apis))
        what = choose.choices(["submit", "cancel", "get", "list", "server", "logs"], [6, 1, 6, 5, 4, 1])[0]
        if what in ("submit", "cancel"):
            if asker.jobs.lull:
                return
            while asker.head == asker.jobs.avoid:
                asker.head = choose.randrange(len(asker.apis))
        job = asker.jobs.some(choose, live=what in ("cancel", "get") and choose.random() < 0.7)
        if what == "submit":
            if len(asker.jobs.live) < LIVE_MOST:
                self.submit(asker.jobs.make(choose, asker.service))
        elif what == "list":
            asker.list()
        elif what == "server":
            asker.server()
        elif job is not None:
            self.step_of(what, job)

    def step_of(self, what, job):
        asker = self.asker
        if what == "cancel":
            asker.cancel(job)
        elif what == "get":
            asker.get(job)
        elif what == "logs" and asker.jobs.writes(job):
            asker.logs(job)

    def submit(self, request):
        """With the same key until there is an answer, at most a few times: others try it at the end."""
        for _ in range(self.asker.choose.choice([1, 3, 8])):
            if self.asker.submit(request).outcome == "ok" or self.over.wait(0.1):
                break
            if self.asker.head == self.asker.jobs.avoid:
                return
        if self.asker.choose.random() < 0.1:
            self.asker.submit(request)


class Follower(threading.Thread):
    """Streams: one follows all events, one watches jobs."""

    def __init__(self, asker, over, what):
        super().__init__(daemon=True)
        self.asker, self.over, self.what, self.failure = asker, over, what, None

    def run(self):
        after = 0
        try:
            while not self.over.wait(0.1):
                if self.what == "events":
                    after = self.asker.events(after, self.asker.choose.uniform(1, 4))
                    continue
                job = self.asker.jobs.some(self.asker.choose, live=True)
                if job is not None:
                    self.asker.watch(job, self.asker.choose.uniform(1, 4))
                self.asker.head = self.asker.choose.randrange(len(self.asker.apis))
        except Exception as error:  # reported by the run
            self.failure = error


