"""A greedy caller for each call of the table: hundreds at once whose answers it does not read. The coordinator's memory
stays within the caller's share, and another caller is served meanwhile. Prints a row for each call.

    greedy_test.py                  what a test run has
    greedy_test.py --calls 2000     as many of each call
"""
import argparse
import itertools
import sys
import threading
import time

import grpc
import harness
from harness import Case, free_port, python_line, wait_until

CALLS = 200
# A caller's share is 512 MiB by its rows (common/calls.h). What gRPC and the allocator need besides is in it.
GROWTH_MAX = 600 << 20
OK = grpc.StatusCode.OK
QUEUED, ENVIRONMENT = 200, "x" * 100_000
LINES = 200_000


class Greedy(Case):
    def setUp(self):
        super().setUp()
        address = f"127.0.0.1:{free_port()}"
        self.one = self.cluster(coordinator_args=("--listen", address, "--insecure-plaintext"))
        self.addCleanup(self.close_channels)
        self.service = self.one.api.service
        self.loud = self.one.submit("-n", "1", "--", "sh", "-c",
                                    f"i=0; while [ $i -lt {LINES} ]; do echo line $i of what a job prints; i=$((i+1)); done")
        self.one.wait_over(self.loud)
        self.curve = self.one.submit("-n", "1", *python_line("losses.py", 30_000))
        self.one.wait_over(self.curve)
        self.spec = self.one.api.record(self.loud).spec
        self.queue_jobs()
        # Over TCP it is another user than on the socket.
        self.greedy = harness.Api(address)

    def close_channels(self):
        self.greedy.close()

    def queue_jobs(self):
        """Some that are large, behind one that nothing can hold."""
        def requests():
            for i in range(QUEUED):
                request = self.service.SubmitRequest(queue_anyway=True)
                request.spec.CopyFrom(self.spec)
                request.spec.shape.processes = 1000 + i
                request.spec.env["LARGE"] = ENVIRONMENT
                yield request
        call = self.one.api.channel.stream_stream(
            "/muster.v1.JobService/SubmitMany", request_serializer=self.service.SubmitRequest.SerializeToString,
            response_deserializer=self.service.SubmitResponse.FromString)
        answers = list(call(requests()))
        self.assertEqual([answer.status_message for answer in answers if answer.status_code], [])
        self.queued = [answer.job for answer in answers]

    def requests(self):
        """name, request, type of the answer, whether it is a stream."""
        service, worker, _ = harness.protos()
        job = str(self.loud)
        many = [str(self.queued[0])] * 2500
        plan = service.PlanJobRequest()
        plan.spec.CopyFrom(self.spec)
        plan.spec.ClearField("env")
        grep = service.StreamLogsRequest(job=job, attempt=-1)
        grep.filter.grep = "no such line"
        return [
            ("GetJob", service.JobReference(job=str(self.queued[0])), service.GetJobResponse, False),
            ("ListJobs", service.ListJobsRequest(all=True, limit=10_000), service.ListJobsResponse, False),
            ("WhyJob", service.JobReference(job=str(self.queued[-1])), service.WhyResponse, False),
            ("SetJobs", service.SetJobsRequest(jobs=many, priority=-3), service.BulkResponse, False),
            ("ListQueue", service.ListQueueRequest(limit=1000), service.ListQueueResponse, False),
            ("PlanJob", plan, service.PlanJobResponse, False),
            ("SignalJob", service.SignalJobRequest(job=str(self.queued[0]), signal=10), service.BulkResponse, False),
            ("ReleaseJobs", service.ReleaseJobsRequest(jobs=many), service.BulkResponse, False),
            ("ListNodes", service.ListNodesRequest(), service.ListNodesResponse, False),
            ("SummarizeMetrics", service.JobReference(job=job), service.MetricSummaries, False),
            ("QueryCurves", service.QueryCurvesRequest(job=job), service.QueryCurvesResponse, False),
            ("CompareJobs", service.CompareJobsRequest(jobs=[str(self.curve)] * 2, metrics=["*"]),
             service.CompareJobsResponse, False),
            ("ListEvents", service.ListEventsRequest(limit=100_000), service.EventBatch, True),
            ("WatchJob", service.WatchJobRequest(job=str(self.queued[0])), service.JobUpdate, True),
            ("StreamLogs", service.StreamLogsRequest(job=job, attempt=-1, follow=True), service.LogRecord, True),
            ("StreamLogs, a search", grep, service.LogRecord, True),
            ("QueryMetrics", service.QueryMetricsRequest(job=job, follow=True), worker.MetricBatch, True),
        ]

    def start(self, name, request, answer_type, is_stream):
        path = f"/muster.v1.JobService/{name.split(',')[0]}"
        make = self.greedy.channel.unary_stream if is_stream else self.greedy.channel.unary_unary
        call = make(path, request_serializer=type(request).SerializeToString, response_deserializer=answer_type.FromString)
        return call(request, timeout=60) if is_stream else call.future(request, timeout=60)

    def submits(self):
        """A stream of submits whose answers are not read."""
        wrong = self.service.SubmitRequest()
        wrong.spec.name = "?" * 50_000
        call = self.greedy.channel.stream_stream(
            "/muster.v1.JobService/SubmitMany", request_serializer=self.service.SubmitRequest.SerializeToString,
            response_deserializer=self.service.SubmitResponse.FromString)
        return call(itertools.repeat(wrong, 3_000), timeout=60)

    def watch(self, start):
        """The growth of memory while these calls are under way, and how long another caller waits at most."""
        pid = self.one.coordinator.pid
        before = peak = harness.rss_bytes(pid)
        waits, over = [], threading.Event()

        def other():
            while not over.is_set():
                begin = time.monotonic()
                self.one.api.unary("ListNodes", self.service.ListNodesRequest(), self.service.ListNodesResponse)
                waits.append(time.monotonic() - begin)
                over.wait(0.02)
        thread = threading.Thread(target=other)
        thread.start()
        calls = start()
        for _ in range(15):
            time.sleep(0.04)
            peak = max(peak, harness.rss_bytes(pid))
        over.set()
        thread.join()
        # Those that were refused said why; the others were served, wait or are unread.
        refused = [call.details() for call in calls if call.done() and call.code() not in (OK, None)]
        for call in calls:
            call.cancel()
        self.assertEqual([text for text in refused if "JC1308" not in text], [])
        time.sleep(0.3)  # what they held is given back
        self.assertTrue(self.one.coordinator.alive(), self.one.coordinator.output()[-2000:])
        return peak - before, max(waits), len(waits), len(refused)

    def test_each_call_stays_within_its_callers_share(self):
        print(f"\n{'call':24} {'memory':>10} {'longest wait of another':>26}")
        rows = [(each[0], lambda each=each: [self.start(*each) for _ in range(OPTIONS.calls)])
                for each in self.requests()]
        rows.append(("SubmitMany, unread", lambda: [self.submits() for _ in range(8)]))
        for name, start in rows:
            growth, wait, served, refused = self.watch(start)
            print(f"{name:24} {growth / 1e6:7.1f} MB {1000 * wait:17.1f} ms of {served:3} {refused:8} refused")
            self.assertLess(growth, GROWTH_MAX, name)
            self.assertGreater(served, 0, name)
        # Nothing is left behind that would refuse who comes now.
        self.assertEqual(len(list(self.greedy.stream("ListEvents", self.service.ListEventsRequest(limit=1),
                                                     self.service.EventBatch))), 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--calls", type=int, default=CALLS)
    OPTIONS, sys.argv[1:] = parser.parse_known_args()
    harness.main()
