"""Descriptors run out, connections stay silent: the coordinator keeps working and loses no output."""
import resource
import socket

import harness
from harness import Case, free_port, wait_until


def limited(descriptors):
    return ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"]


class Descriptors(Case):
    def lines_of(self, cluster, job, ranks, lines):
        def whole():
            logs, _ = cluster.api.logs(job)
            return all(logs.get((0, rank, 1), b"").count(b"\n") == lines for rank in range(ranks))
        wait_until(whole, lambda: f"all lines of all ranks; {cluster.coordinator.output()[-2000:]}", deadline_s=60)

    def test_sixty_ranks_and_sixty_four_descriptors(self):
        cluster = self.cluster(workers=(), prefix=limited(64))
        cluster.add_worker("node1", "cpu:60")
        job = cluster.submit("-n", "60", "--", "sh", "-c", "echo one; echo err >&2; echo two; sleep 0.2; echo three")
        cluster.wait_for(job, harness.SUCCEEDED, deadline_s=90)
        self.lines_of(cluster, job, 60, 3)
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        self.lines_of(cluster, job, 60, 3)
        again = cluster.submit("-n", "1", "--", "echo", "still here")
        cluster.wait_for(again, harness.SUCCEEDED)
        self.lines_of(cluster, again, 1, 1)

    def test_half_open_connections_keep_nobody_out(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 2048:
            self.skipTest("needs 2,048 descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        port = free_port()
        cluster = self.cluster(workers=(), prefix=limited(1024),
                               coordinator_args=("--listen", f"127.0.0.1:{port}", "--insecure-plaintext"))
        cluster.add_worker("node1", "cpu:2", coordinator=f"127.0.0.1:{port}")
        silent = []
        self.addCleanup(lambda: [each.close() for each in silent])
        for _ in range(1100):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
            silent.append(each)
        job = cluster.submit("-n", "2", "--", "echo", "printed")
        cluster.wait_for(job, harness.SUCCEEDED)
        self.lines_of(cluster, job, 2, 1)
        # A worker that connects now is also accepted.
        cluster.workers["node1"].kill9()
        cluster.workers["node1"].start()
        job = cluster.submit("-n", "1", "--", "echo", "again")
        cluster.wait_for(job, harness.SUCCEEDED, deadline_s=60)
        self.assertTrue(cluster.coordinator.alive())
        self.assertIn("[JC1311]", cluster.coordinator.output())


if __name__ == "__main__":
    harness.main()
