"""Second coordinators, second workers, other protocol versions, garbage on the port, occupied ports."""
import concurrent.futures
import os
import socket
import time

import grpc

import harness
from harness import SUCCEEDED, Case, free_port, protos


class Identities(Case):
    def works(self, cluster):
        job = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(job, SUCCEEDED)

    def test_a_second_coordinator_on_the_same_data_directory_exits_with_a_clear_line(self):
        cluster = self.cluster()
        second = harness.Daemon(
            [os.path.join(harness.BIN, "muster-coordinator"), "--data-dir", os.path.join(cluster.directory, "data"),
             "--socket", self.path("other.sock")], cluster.env, self.path("second.out"))
        self.daemons.append(second)
        self.assertEqual(second.start(expect_exit=True), 3)
        self.assertIn(os.path.join(cluster.directory, "data"), second.output())
        self.works(cluster)

    def test_a_second_worker_with_the_same_name_is_refused_while_the_first_lives(self):
        cluster = self.cluster()
        twin = harness.Daemon([*cluster.workers["node1"].argv[:-1], self.path("w-twin")], cluster.env,
                              self.path("twin.out"))
        self.daemons.append(twin)
        twin.start()
        harness.wait_until(lambda: "node1" in twin.output() and
                           ("already" in twin.output() or "another" in twin.output()), twin.output)
        self.works(cluster)
        self.assertTrue(cluster.workers["node1"].alive())

    def test_a_second_worker_on_the_same_state_directory_exits(self):
        cluster = self.cluster()
        twin = harness.Daemon(cluster.workers["node1"].argv, cluster.env, self.path("twin.out"))
        self.daemons.append(twin)
        self.assertNotEqual(twin.start(expect_exit=True), 0)
        self.assertIn("w-node1", twin.output())
        self.works(cluster)

    def test_a_worker_of_another_protocol_is_refused_with_the_reason(self):
        cluster = self.cluster()
        _, worker, _ = protos()
        register = worker.WorkerMessage()
        facts = register.register.facts
        facts.name = "ancient"
        facts.protocol = 0
        call = cluster.api.channel.stream_stream(
            "/muster.v1.WorkerService/Connect", request_serializer=worker.WorkerMessage.SerializeToString,
            response_deserializer=worker.CoordinatorMessage.FromString)
        with self.assertRaises(grpc.RpcError) as raised:
            list(call(iter([register]), timeout=10))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertRegex(raised.exception.details(), r"\[JC13\d\d\].*protocol 0")
        self.assertNotIn("ancient", cluster.nodes())

    def test_a_coordinator_of_another_protocol_is_refused_by_jobctl_with_both_versions(self):
        service, _, _ = protos()

        def get_server(request, context):
            return service.GetServerResponse(version="0.0.1", protocol=0)
        handler = grpc.method_handlers_generic_handler("muster.v1.JobService", {
            "GetServer": grpc.unary_unary_rpc_method_handler(
                get_server, service.GetServerRequest.FromString, service.GetServerResponse.SerializeToString)})
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[handler])
        server.add_insecure_port(f"unix:{self.path('old.sock')}")
        server.start()
        self.addCleanup(server.stop, 0)
        done = self.private().jobctl("submit", "-n", "1", "--", "true", check=False,
                                     env={"JOBCTL_SERVER": f"unix:{self.path('old.sock')}"})
        self.assert_error(done, "0.0.1", "protocol")

    def test_garbage_on_the_port_harms_nobody(self):
        port = free_port()
        cluster = self.cluster(coordinator_args=["--listen", f"127.0.0.1:{port}", "--insecure-plaintext"])
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(100_000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 9000,
                        b"", b"\0" * 1_000_000):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                try:
                    connection.sendall(garbage)
                except OSError:
                    pass  # refused midway, as it should be
        self.assertTrue(cluster.coordinator.alive())
        self.works(cluster)

    def test_an_occupied_port_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            cluster = harness.Cluster(self, coordinator_args=["--listen", f"127.0.0.1:{port}", "--insecure-plaintext"])
            self.assertNotEqual(cluster.coordinator.start(expect_exit=True), 0)
            self.assertIn(str(port), cluster.coordinator.output())

    def test_tcp_needs_the_flag_that_says_it_is_insecure_and_warns(self):
        port = free_port()
        refused = harness.Cluster(self, name="no", coordinator_args=["--listen", f"127.0.0.1:{port}"])
        self.assertNotEqual(refused.coordinator.start(expect_exit=True), 0)
        self.assertIn("--insecure-plaintext", refused.coordinator.output())
        allowed = harness.Cluster(self, name="yes", coordinator_args=["--listen", f"127.0.0.1:{port}",
                                                                       "--insecure-plaintext"]).start()
        self.assertRegex(allowed.coordinator.output().lower(), "warn")

    def test_messages_of_an_older_epoch_or_unknown_attempts_change_nothing(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", "echo", "real")
        cluster.wait_for(job, SUCCEEDED)
        number = cluster.api.record(job).id
        _, worker, _ = protos()
        call = cluster.api.channel.stream_stream(
            "/muster.v1.WorkerService/UploadLogs", request_serializer=worker.LogChunk.SerializeToString,
            response_deserializer=worker.LogAck.FromString)
        for attempt in (1, 7):
            chunk = worker.LogChunk(job=number, attempt=attempt, rank=0, stream=1, offset=0, data=b"forged\n",
                                    node="node1", incarnation=1)
            acks = call(iter([chunk]), timeout=5)
            try:
                self.assertTrue(next(acks).refused)
            except (grpc.RpcError, StopIteration):
                pass  # refused along with the whole stream
        logs, _ = cluster.api.logs(job)
        self.assertEqual(logs, {key: data for key, data in logs.items() if b"forged" not in data})
        self.assertEqual(logs[(0, 0, 1)], b"real\n")

    def test_a_slow_reader_of_logs_holds_nobody_up(self):
        cluster = self.cluster()
        service = cluster.api.service
        job = cluster.submit("-n", "1", "--", "sh", "-c", "head -c 30000000 /dev/zero | tr '\\0' y; sleep 600")
        cluster.wait_for(job, harness.RUNNING)
        stream = cluster.api.stream("StreamLogs", service.StreamLogsRequest(job=job, attempt=-1, follow=True),
                                    service.LogRecord)
        next(stream)  # and then nothing more
        started = time.monotonic()
        self.assertIn(job, cluster.jobctl("ls").stdout)
        self.assertLess(time.monotonic() - started, 3)
        stream.cancel()
        cluster.jobctl("cancel", job, "--grace", "1s")


if __name__ == "__main__":
    harness.main()
