"""A rank dies: the gang is stopped and, while restarts remain, resumes from the last committed checkpoint."""
import json
import os
import signal
import socket
import time

import harness
from harness import FAILED, RUNNING, SUCCEEDED, Case, python_line, wait_until


class Restarts(Case):
    def committed(self, cluster, job):
        return [checkpoint.step for checkpoint in cluster.api.record(job).checkpoints if checkpoint.state == 2]

    def test_the_next_attempt_goes_on_from_the_last_committed_checkpoint(self):
        cluster = self.cluster()
        hold = self.path("go")
        job = cluster.submit("-n", "2", "--restarts", "1", *python_line(
            "counter.py", 40, "--every", 10, "--hold-at", 25, "--until", hold, "--die-at", 25))
        wait_until(lambda: 20 in self.committed(cluster, job), "the checkpoint of step 20 is committed")
        open(hold, "w").close()
        record = cluster.wait_for(job, SUCCEEDED)
        self.assertEqual(record.next_attempt, 2)
        self.assertEqual(record.attempts[1].resume_step, 20)
        logs, _ = cluster.api.logs(job)
        self.assertIn(b"attempt 1 rank 0 starts from step 20", logs[(1, 0, 1)])
        self.assertIn(b"attempt 1 rank 1 starts from step 20", logs[(1, 1, 1)])
        self.assertEqual(logs[(0, 0, 1)].count(b"\n"), 26, "the first attempt's log is kept")

    def test_without_restarts_it_fails_with_one_sentence_that_names_rank_node_and_cause(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "2", "--", "sh", "-c",
                             "[ $RANK = 1 ] && { echo the disk caught fire >&2; exit 3; }; exec sleep 600")
        record = cluster.wait_for(job, FAILED)
        for word in ("rank 1", "node1", "3"):
            self.assertIn(word, record.reason)
        self.assertIn("the disk caught fire", cluster.jobctl("show", job).stdout)
        self.assertEqual(record.exit_code, 3)

    def test_a_rank_killed_by_a_signal_is_named_with_it(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", "sh", "-c", "kill -SEGV $$")
        record = cluster.wait_for(job, FAILED)
        self.assertRegex(record.reason, r"SIGSEGV|signal 11")
        self.assertEqual(record.exit_code, 139)

    def test_ports_that_others_use_up_cost_no_restart(self):
        taken = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        port = taken.getsockname()[1]
        cluster = harness.Cluster(self).start()
        for node in ("node1", "node2"):
            cluster.add_worker(node, args=("--port-range", f"{port}-{port}"))
        # Ranks on one node take another port.
        alone = cluster.submit("-n", "1", "--", "sh", "-c", f'echo "$MASTER_PORT"; test "$MASTER_PORT" != {port}')
        self.assertEqual(cluster.wait_for(alone, SUCCEEDED).next_attempt, 1)
        # Between nodes a firewall may let only the range through.
        spread = cluster.submit("-n", "4", "--", "true")
        wait_until(lambda: cluster.api.record(spread).next_attempt >= 2, "a second attempt")
        record = cluster.wait_for(spread, harness.RESTARTING)
        self.assertIn(f"no 1 ports free in {port}-{port}", record.reason)
        self.assertRegex(record.reason, r"restarts in \d+ s, .*\(this uses up no restart\)")
        taken.close()
        record = cluster.wait_for(spread, SUCCEEDED)
        self.assertEqual((record.node_losses, record.failures), (0, 0))

    def test_exit_code_93_is_never_retried(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--restarts", "5", "--", "sh", "-c", "exit 93")
        record = cluster.wait_for(job, FAILED)
        self.assertEqual(record.next_attempt, 1)
        self.assertIn("93", record.reason)

    def test_identical_failures_at_the_start_do_not_burn_all_restarts(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--restarts", "100", "--", "sh", "-c", "exit 3")
        wait_until(lambda: cluster.api.record(job).next_attempt >= 2, "a second attempt")
        record = cluster.wait_for(job, FAILED, harness.RESTARTING)
        self.assertLess(record.next_attempt, 20)
        self.assertTrue(record.reason)
        cluster.jobctl("cancel", job, check=False)

    def test_kill_9_of_a_rank_is_a_failure_like_any_other(self):
        cluster = self.cluster()
        witness = self.path("witness")
        job = cluster.submit("-n", "2", "--restarts", "1", "-e", f"WITNESS={witness}",
                             *python_line("witness.py", "--until", self.path("go")))
        cluster.wait_for(job, RUNNING)

        def started():
            if not os.path.exists(witness):
                return None
            with open(witness) as file:
                lines = [json.loads(line) for line in file]
            return lines if len([line for line in lines if line["what"] == "start"]) >= 2 else None
        os.kill(wait_until(started, "both ranks started")[0]["pid"], signal.SIGKILL)
        wait_until(lambda: cluster.api.record(job).next_attempt == 2, "a second attempt")
        open(self.path("go"), "w").close()
        cluster.wait_for(job, SUCCEEDED)
        self.check_witness(witness, ranks=2)

    def check_witness(self, path, ranks):
        """J3, J4, J5: one start per (attempt, rank); no overlap of attempts; one world per attempt."""
        with open(path) as file:
            lines = [json.loads(line) for line in file]
        starts = [(line["attempt"], line["rank"]) for line in lines if line["what"] == "start"]
        self.assertEqual(len(starts), len(set(starts)), starts)
        for attempt in {attempt for attempt, _ in starts}:
            self.assertEqual(sorted(rank for a, rank in starts if a == attempt), list(range(ranks)))
            views = {(line["world"], line["master"]) for line in lines if line["attempt"] == attempt}
            self.assertEqual(len(views), 1)
        for later in (line for line in lines if line["what"] == "start" and line["attempt"] > 0):
            for earlier in (line for line in lines if line["attempt"] < later["attempt"]):
                self.assertLessEqual(earlier["mono"], later["mono"])


class DaemonsDie(Case):
    def test_coordinator_killed_the_ranks_go_on_and_it_serves_again_within_two_seconds(self):
        cluster = self.cluster()
        go = self.path("go")
        job = cluster.submit("-n", "2", *python_line("counter.py", 5, "--hold-at", 3, "--until", go))
        cluster.wait_for(job, RUNNING)
        before = cluster.api.record(job)
        cluster.coordinator.kill9()
        started = time.monotonic()
        cluster.restart_coordinator()
        self.assertLess(time.monotonic() - started, 2.0)
        cluster.wait_nodes("node1")
        self.assertEqual(cluster.api.record(job).attempts[0].parts, before.attempts[0].parts)
        open(go, "w").close()
        self.assertEqual(cluster.wait_for(job, SUCCEEDED).next_attempt, 1)

    def test_worker_killed_the_ranks_go_on_and_it_adopts_them(self):
        cluster = self.cluster()
        go, witness = self.path("go"), self.path("witness")
        job = cluster.submit("-n", "2", "-e", f"WITNESS={witness}",
                             *python_line("witness.py", "--until", go, "--exit", 5, "--fail-rank", 1))
        cluster.wait_for(job, RUNNING)
        cluster.workers["node1"].kill9()
        open(go, "w").close()  # they exit while no worker is running

        def ended():
            if not os.path.exists(witness):
                return False
            with open(witness) as file:
                return file.read().count('"end"') == 2
        wait_until(ended, "both ranks ended")
        cluster.workers["node1"].start()
        record = cluster.wait_for(job, FAILED)
        self.assertEqual(record.exit_code, 5, "the exit codes of the gap are known")
        self.assertIn("rank 1", record.reason)

    def test_a_killed_shim_is_noticed_and_its_ranks_are_ended(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "2", "-e", "SHIMTEST=" + self.directory, "--", "sleep", "600")
        cluster.wait_for(job, RUNNING)
        shims = [pid for pid, line in self.processes().items() if line.startswith("muster-shim")]
        self.assertEqual(len(shims), 1, self.processes())
        old_ranks = harness.processes_with("SHIMTEST=" + self.directory)
        harness.kill9(shims[0])
        record = wait_until(lambda: (lambda seen: seen if seen.next_attempt == 2 else None)(cluster.api.record(job)),
                            "the next attempt, from the budget of lost supervisors")
        self.assertEqual(record.attempts[0].cause, 8, "STOP_CAUSE_SUPERVISOR_LOST")
        self.assertIn("node1", record.attempts[0].reason)
        self.assertEqual(set(old_ranks) & set(self.processes()), set(), "no rank of the first attempt is alive")
        self.assertEqual((record.failures, record.node_losses, record.supervisor_losses), (0, 0, 1))
        cluster.jobctl("cancel", job, "--grace", "1s")


if __name__ == "__main__":
    harness.main()
