"""The HTTP API against its own description: schemathesis reads openapi.json and asks whatever that allows, and what
it does not allow. The same requests in every run, as far as answers do not lead to new ones."""
import json
import os
import re
import subprocess
import sys

import harness
from harness import need
from http_test import HttpCase

# negative_data_rejection is not among them: protobuf JSON takes null for any field and numbers for 64-bit ones, which
# is more than the document says. Nor is positive_data_acceptance: values have rules that no schema can express (a
# label's grammar, a shape that fits). ignored_auth doubles the requests; http_test.py has a row for each kind of proof.
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "unsupported_method", "allow_header_conformance")

# A stream that waits for what comes next is answered after 15 s, and ranks are given 10 s to say what they do.
HOOKS = '''
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    for part in (case.body, case.query):
        if isinstance(part, dict):
            part.pop("follow", None)
            if "waitMs" in part:
                part["waitMs"] = 1
'''


class Described(HttpCase):
    def description(self, jobs):
        document = self.get("/api/v1/openapi.json").json
        # Would stop the coordinator. A job that runs is watched until it ends.
        for call in ("SetLifetime", "WatchJob"):
            del document["paths"][f"/api/v1/{call}"]
        for schema in document["components"]["schemas"].values():
            job = schema.get("properties", {}).get("job", {})
            if job.get("type") == "string" and "format" not in job:  # a reference: often one of a job that exists
                schema["properties"]["job"] = {"anyOf": [{"enum": jobs}, dict(job)]}
        return document

    def test_every_call_answers_as_described_whatever_it_is_asked(self):
        fuzzer = os.path.join(os.path.dirname(sys.executable), "schemathesis")
        need(os.path.exists(fuzzer), "needs the Python package schemathesis")
        private = self.up()
        over = private.submit("--name", "over", "--", "sh", "-c", "echo out; echo err >&2")
        private.wait_over(over)
        runs = private.submit("--name", "runs", "-n", "2", "--", "sh", "-c", "echo step=1 loss=0.5; sleep 600")
        private.wait_for(runs, harness.RUNNING)
        waits = private.submit("--name", "waits", "--", "true")
        with open(self.path("openapi.json"), "w") as file:
            json.dump(self.description([over, runs, waits, "@last"]), file)
        with open(self.path("hooks.py"), "w") as file:
            file.write(HOOKS)
        done = subprocess.run(
            [fuzzer, "run", "openapi.json", "--url", self.address, "--header", f"Authorization: Bearer {self.token}",
             "--generation-deterministic", "--seed", "1", "--max-examples", "10", "--phases", "coverage,fuzzing",
             "--checks", ",".join(CHECKS), "--request-timeout", "10", "--continue-on-failure", "--warnings", "off",
             "--no-color"],
            cwd=self.directory, env={**self.env, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": self.directory},
            capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr[-2000:])
        asked = re.search(r"(\d+) generated", done.stdout)
        self.assertGreater(int(asked.group(1)), 1000, done.stdout[-2000:])
        self.assertEqual(self.get("/healthz").status, 200)
        self.assertEqual(self.get("/api/v1/ListJobs?all=true").status, 200)
        private.jobctl("down", "--cancel-jobs")


if __name__ == "__main__":
    harness.main()
