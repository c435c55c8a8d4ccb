"""What real daemons tell a person is true: complete lists, the intended job, how to run a file."""
import json
import os

import harness
from harness import CANCELLED, SUCCEEDED, Case, wait_until


class Lists(Case):
    def test_more_than_ten_thousand_finished_jobs_are_all_listed(self):
        count = 10_040
        cluster = self.cluster(workers=(), coordinator_args=("--retain-jobs", "100000"))
        service = cluster.api.service
        request = service.SubmitRequest(queue_anyway=True)
        request.spec.command.append("true")
        request.spec.shape.processes = 1
        request.spec.workdir = "/"
        submit = cluster.api.channel.stream_stream(
            "/muster.v1.JobService/SubmitMany", request_serializer=service.SubmitRequest.SerializeToString,
            response_deserializer=service.SubmitResponse.FromString)
        answers = list(submit((request for _ in range(count)), timeout=120))
        self.assertEqual({answer.status_code for answer in answers}, {0})
        ids = [answer.job for answer in answers]
        for at in range(0, count, 1000):
            cancel = service.CancelJobsRequest(jobs=[str(job) for job in ids[at:at + 1000]])
            cluster.api.unary("CancelJobs", cancel, service.BulkResponse, timeout=60)
        cluster.wait_for(str(ids[0]), CANCELLED)
        wait_until(lambda: cluster.api.server().live_jobs == 0, "all are over", 60)
        listed = cluster.jobctl("ls", "-a", "-o", "csv", "--columns", "id", "--no-headers").stdout.split()
        self.assertEqual([int(job) for job in listed], sorted(ids, reverse=True))
        first = cluster.jobctl("ls", "-a", "--sort", "id", "--limit", "1", "-o", "json").stdout
        self.assertEqual(json.loads(first)["items"][0]["id"], min(ids))
        self.assertEqual(len(cluster.jobctl("ls", "-a", "--limit", "50", "-o", "name").stdout.split()), 50)


class Names(Case):
    def test_the_name_that_was_given_wins_over_longer_ones_that_begin_with_it(self):
        cluster = self.cluster(devices="cpu:4")
        train = cluster.submit("--name", "train", "--", "sleep", "600")
        large = cluster.submit("--name", "train-large", "--", "sleep", "600")
        cluster.submit("--name", "train-1", "--", "true")
        self.assertEqual(cluster.jobctl("show", "train", "-o", "name").stdout.strip(), train, "among live jobs")
        self.assertEqual(cluster.jobctl("show", "train-l", "-o", "name").stdout.strip(), large)
        cluster.jobctl("cancel", "train", "train-large", "--grace", "1s")
        for job in (train, large):
            cluster.wait_for(job, CANCELLED)
        self.assertEqual(cluster.jobctl("show", "train", "-o", "name").stdout.strip(), train, "among finished ones")
        cluster.submit("--name", "train", "--", "true")
        self.assert_error(cluster.jobctl("show", "train", check=False), "matches several jobs", "[JC1202]")


class HowAFileIsRun(Case):
    def script(self, name, text, mode):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def run_here(self, *command):
        return self.private().jobctl("run", *command, cwd=self.directory, check=False)

    def test_a_python_file_that_is_no_command_is_named_with_the_line_that_runs_it(self):
        self.script("args.py", "import sys\nprint(sys.argv)\n", 0o644)
        done = self.run_here("--", "args.py", "1")
        self.assertEqual(done.returncode, 127, done.stderr)
        self.assertIn("but is in", done.stderr)
        self.assertIn("fix: write python args.py", done.stderr)

    def test_a_script_without_a_first_line_gets_its_own_sentence(self):
        self.script("bare.py", "import sys\nprint(sys.argv)\n", 0o755)
        done = self.run_here("--", "./bare.py")
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertIn("has no #! line, so the system would run it in /bin/sh; fix: write python ./bare.py", done.stderr)
        self.assertNotIn("Syntax error", done.stderr + done.stdout)

    def test_a_launcher_behind_env_nohup_or_a_shell_gets_its_ranks(self):
        self.script("rank.py", "import os\nprint('rank', os.environ['RANK'], os.environ.get('A'), flush=True)\n", 0o644)
        torchrun = "torchrun --nproc-per-node 2 rank.py"
        for line, a in ((("env", "A=1", *torchrun.split()), "1"), (("nohup", *torchrun.split()), "None"),
                        (("bash", "-c", "A=2 " + torchrun), "2")):
            with self.subTest(line=line):
                done = self.run_here("--", *line)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sorted(text.split("] ")[1] for text in done.stdout.splitlines()),
                                 [f"rank 0 {a}", f"rank 1 {a}"], done.stdout)

    def test_a_launcher_that_stays_hidden_is_said_to_run_as_one_rank(self):
        done = self.private().jobctl("submit", "--dry-run", "--", "bash", "-c", "cd . && torchrun rank.py")
        self.assertIn("note: one rank runs and starts torchrun itself", done.stderr)
        self.assertIn("jobctl submit -- torchrun", done.stderr)
        spec = self.path("job.yaml")
        with open(spec, "w") as file:
            file.write("command: torchrun --nproc-per-node $N rank.py\n")
        self.assertIn("starts torchrun itself", self.private().jobctl("validate", spec).stderr)


class Refusals(Case):
    def test_a_kind_that_no_node_has_is_said_with_what_there_is(self):
        cluster = self.cluster(devices="cpu:2")
        for verb in ("run", "submit"):
            done = cluster.jobctl(verb, "-n", "2", "--devices", "npu", "--", "true", check=False)
            self.assert_error(done, "the job asks for npu, and this cluster has cpu only", "--devices cpu", code=6)

    def test_the_first_command_ever_is_told_too_and_does_not_wait_for_ever(self):
        for line in (("--devices", "npu"), ("--nodes", "2", "-n", "2")):
            with self.subTest(line=line):
                private = self.private()
                private.env["JOBCTL_DATA_DIR"] = self.path("fresh" + line[0])
                done = private.jobctl("run", *line, "--", "true", check=False, timeout=30)
                self.assert_error(done, "[JC1402]", code=6)

    def test_a_key_of_another_job_is_a_refusal(self):
        cluster = self.cluster()
        cluster.wait_for(cluster.submit("--idempotency-key", "once", "--", "true"), SUCCEEDED)
        done = cluster.jobctl("submit", "--idempotency-key", "once", "--", "false", check=False)
        self.assert_error(done, "[JC1205]", code=6)


if __name__ == "__main__":
    harness.main()
