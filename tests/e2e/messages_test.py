"""Messages at their limits, between real daemons: many ranks that fail with long texts, checkpoints of many files."""
import json

import harness
from harness import FAILED, FULL, SUCCEEDED, Case

# Writes an error file of 8 KiB and 4 KiB of stderr, then fails: rank 0 on its own, the others when they are stopped.
FAILING = r"""
text=$(head -c 8000 /dev/zero | tr '\0' m)
echo "{\"message\": \"$text\"}" > "$TORCHELASTIC_ERROR_FILE"
echo "$text" | head -c 4096 >&2
trap 'exit 3' TERM
[ "$RANK" = 0 ] && exit 3
sleep 60 & wait
"""

# Every rank saves COUNT files (all with the same content), publishes them by renaming, and fails in the first attempt.
SAVING = """
import os, sys, time
root, rank = os.environ["MUSTER_CHECKPOINT_DIR"], os.environ["RANK"]
count = int(sys.argv[1])
if int(os.environ["MUSTER_ATTEMPT"]) > 0:
    resumed = os.environ["MUSTER_RESUME_FROM"]
    names = [name for name in os.listdir(resumed)]
    assert len(names) >= 2 * count, len(names)
    sys.exit(0)
os.makedirs(f"{root}/step-1.tmp")
with open(f"{root}/content", "w") as file:
    file.write("the same")
for number in range(count):
    os.link(f"{root}/content", f"{root}/step-1.tmp/shard-of-rank-{rank}-{'n' * 200}-{number:06}")
os.rename(f"{root}/step-1.tmp", f"{root}/step-1")
time.sleep(3600)
"""


class Messages(Case):
    def test_hundreds_of_ranks_that_fail_with_long_texts_leave_the_node_as_it_was(self):
        ranks = 360
        cluster = self.cluster(workers=("node1",), devices=f"cpu:{ranks}")
        job = cluster.submit("-n", ranks, "--grace", "20s", "--", "sh", "-c", FAILING)
        record = cluster.wait_for(job, FAILED, deadline_s=120)
        self.assertIn("rank 0 on node1 exited with code 3: mmmm", record.reason)
        exits = [exit for part in record.attempts[0].parts for exit in part.exits]
        self.assertEqual(len(exits), ranks)
        self.assertEqual(record.attempts[0].culprit.rank, 0)
        self.assertGreaterEqual(len(record.attempts[0].culprit.error_message), 8000)
        shown = json.loads(cluster.jobctl("show", job, "-o", "json").stdout)
        self.assertTrue(shown)
        # The node is still usable by other jobs.
        cluster.wait_for(cluster.submit("--", "true"), SUCCEEDED)

    def test_a_checkpoint_of_tens_of_thousands_of_files_is_committed_shown_and_resumed_from(self):
        count = 19_001 if FULL else 7_001
        cluster = self.cluster(workers=("node1", "node2"), devices="cpu:1")
        script = self.path("saving.py")
        with open(script, "w") as file:
            file.write(SAVING)
        spec = self.path("job.yaml")
        with open(spec, "w") as file:
            json.dump({"command": [harness.PYTHON, "-S", script, str(count)], "restarts": 1,
                       "resources": {"processes": 2, "nodes": 2}, "checkpoint": {"writers": "all"}, "workdir": self.directory}, file)
        job = cluster.submit(spec)

        def committed():
            checkpoints = cluster.api.record(job).checkpoints
            return checkpoints and checkpoints[0].committed_ms
        harness.wait_until(committed, lambda: f"committed: {cluster.api.record(job)}", 120)
        self.assertEqual(cluster.api.record(job).checkpoints[0].file_count, 2 * count)
        for line in ("show",), ("ckpt", "show"), ("ckpt", "ls"), ("events",):
            self.assertNotIn("RESOURCE_EXHAUSTED", cluster.jobctl(*line, job).stderr)
        listed = json.loads(cluster.jobctl("ckpt", "show", job, "-o", "json").stdout)
        self.assertEqual(len(listed["items"]), 2 * count)
        # One rank dies; the next attempt gets the whole checkpoint, and neither node was ever disconnected.
        pids = [pid for pid, line in self.processes().items() if line.startswith(harness.PYTHON) and "saving.py" in line]
        harness.kill9(pids[0])
        cluster.wait_for(job, SUCCEEDED, deadline_s=180)
        for name in cluster.workers:
            self.assertEqual(cluster.workers[name].output().count("control stream ended"), 0)


if __name__ == "__main__":
    harness.main()
