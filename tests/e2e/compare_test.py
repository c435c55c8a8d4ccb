"""jobctl compare, diff and export: two jobs as a gate, files in place of a job, and other programs that read what is
exported: TensorBoard, Python's csv, json and xml, and a stand-in for an MLflow server."""
import csv
import http.server
import importlib.util
import io
import json
import os
import shlex
import shutil
import ssl
import subprocess
import sys
import threading
import xml.etree.ElementTree as xml

import harness
from harness import OVER, RUNNING, SUCCEEDED, Case, main, need, python_line, wait_until
from http_test import HttpCase


sys.path.insert(0, harness.RANKS)
import events  # noqa: E402: writes event files without any library


class CompareCase(Case):
    def setUp(self):
        super().setUp()
        self.muster = self.cluster(devices="cpu:8")

    def job(self, *args, ranks=1, flags=()):
        return self.muster.submit("-n", ranks, *flags, *python_line("losses.py", *args), cwd=self.directory)

    def finish(self, *jobs, points):
        """Waits until the jobs are over and have `points` points each."""
        for job in jobs:
            self.muster.wait_for(job, SUCCEEDED)
            wait_until(lambda: len(self.muster.api.metrics(job)) >= points, f"{job} has {points} points")
        return jobs

    def compare(self, *args, code=0):
        done = self.muster.jobctl("compare", *args, check=False, cwd=self.directory)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def export(self, *args, **options):
        return self.muster.jobctl("export", *args, cwd=self.directory, **options)


class Compare(CompareCase):
    def test_two_jobs_pass_or_fail_by_epoch_and_by_step(self):
        a, same, other = self.finish(self.job(30, "--steps-per-epoch", 10), self.job(30, "--steps-per-epoch", 10),
                                     self.job(30, "--steps-per-epoch", 10, "--scale", 1.01), points=60)
        passed = self.compare(a, same, "--rtol", "0.0483%").stdout
        self.assertIn(f"PASS  loss of {same} against {a}: 3 epochs", passed)
        report = self.path("report.xml")
        failed = self.compare(a, other, "--rtol", "0.0483%", "--junit", report, code=1).stdout
        self.assertIn(f"FAIL  loss of {other} against {a}: 3 epochs, 2 past the limit", failed)
        self.assertIn("first past the limit: epoch 2", failed)
        self.assertIn("first step past it: 11 (rel 1%)", failed)
        self.assertIn("argument --scale: none → 1.01", failed)
        root = xml.parse(report).getroot()
        self.assertEqual((root.get("tests"), root.get("failures")), ("3", "2"))
        names = {case.get("name"): case.find("failure") is not None for case in root.iter("testcase")}
        self.assertEqual(names, {"loss epoch 1": False, "loss epoch 2": True, "loss epoch 3": True})
        # The same report again, of a comparison that passes.
        self.compare(a, other, "--rtol", "2%", "--by", "step", "--junit", report)
        self.assertEqual(xml.parse(report).getroot().get("failures"), "0")
        result = json.loads(self.compare(a, same, other, "--rtol", "0.1%", "--by", "step", "-o", "json", code=1).stdout)
        self.assertEqual([(pair["run"], pair["verdict"]) for pair in result["comparisons"]],
                         [(same, "pass"), (other, "fail")])
        self.assertEqual(result["comparisons"][1]["first_past"]["step"], 11)
        self.assertEqual(len(result["comparisons"][1]["rows"]), 30)
        rows = list(csv.DictReader(io.StringIO(self.compare(other, a, "--baseline", a, "--by", "step", "-o", "csv").stdout)))
        self.assertEqual(len(rows), 30)
        self.assertAlmostEqual(float(rows[10]["rel"]), 0.01, places=12)
        # Nothing but what differs.
        difference = self.muster.jobctl("diff", a, other, check=False)
        self.assertEqual(difference.returncode, 1)
        self.assertEqual(difference.stdout, f"--- {a}\n+++ {other}\n+argument --scale: 1.01\n")
        self.assertEqual(self.muster.jobctl("diff", a, same).stdout, "")
        fields = json.loads(self.muster.jobctl("diff", a, other, "-o", "json", check=False).stdout)["differences"]
        self.assertEqual(fields, [{"field": "argument --scale", "a": None, "b": "1.01"}])

    def test_neither_nan_nor_nothing_in_common_nor_a_typo_passes(self):
        a, nan, even, odd, other = self.finish(
            self.job(20), self.job(20, "--nan", 7), self.job(20, "--every", 2), self.job(19, "--every", 3),
            self.job(20, "--name", "accuracy"), points=7)
        self.assertIn("first past the limit: step 7", self.compare(a, nan, "--rtol", "1e9", code=1).stdout)
        self.compare(a, nan, code=1)
        spaced = self.compare(a, even, "--rtol", "0").stdout
        self.assertIn("10 steps", spaced)
        self.assertIn(f"left out: 10 steps that only {a} has, 0 steps that only {even} has", spaced)
        csv_file = self.path("late.csv")
        with open(csv_file, "w") as file:
            file.write("step,loss\n100,1\n")
        report = self.path("report.xml")
        self.assert_error(self.compare(odd, csv_file, "--atol", "1", "--junit", report, code=1), "JC1541")
        self.assertEqual(xml.parse(report).getroot().get("errors"), "1")
        self.assert_error(self.compare(a, even, "--by", "epoch", code=1), "JC1542", "--steps-per-epoch")
        self.assert_error(self.compare(a, other, code=3), "JC1503", other)
        self.assert_error(self.compare(a, "no-such-job", code=3), "JC1201")
        self.assert_error(self.compare(a, even, "--rtol", "x", code=2), "JC1004")
        self.assert_error(self.compare(a, even, "--junit", self.path("y.xml"), code=2), "JC1004")
        precious = self.path("precious.xml")
        with open(precious, "w") as file:
            file.write("<mine/>")
        self.assert_error(self.compare(a, even, "--rtol", "0", "--junit", precious, code=1), "JC1545")

    def test_of_a_restarted_job_the_newest_attempt_counts_and_of_several_ranks_the_first(self):
        a, again = self.finish(self.job(30), self.job(30, "--fail", 20, ranks=2, flags=("--restarts", "1")), points=30)
        # The batches of both ranks of attempt 1, and of one of attempt 0.
        wait_until(lambda: len(self.muster.api.metrics(again)) >= 51, "all points are here")
        self.assertEqual(len(self.muster.api.record(again).attempts), 2)
        # Steps 1 to 9 are attempt 0's, which logs ten times the loss.
        failed = self.compare(a, again, "--rtol", "1e-6", code=1).stdout
        self.assertIn("30 steps, 9 past the limit", failed)
        self.assertIn("world size: 1 → 2", failed)
        self.assert_error(self.compare(a, again, "--rank", 1, code=1), "JC1541", f"{a} has none")
        self.assertIn("30\t0.0666666667\t", self.compare(again, again, "--rank", 1, "--rtol", "0").stdout)

    def test_a_file_may_stand_in_place_of_a_job(self):
        need(importlib.util.find_spec("tensorboard"), "needs the Python package tensorboard")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        first, second = self.finish(self.job(40, "--steps-per-epoch", 10, ranks=2), self.job(40), points=40)
        self.export(first, second, "--to", "tensorboard", "--out", "exported")
        points = {}
        for run in (first, first + "/rank-1"):
            reader = EventAccumulator(self.path(f"exported/{run}"))
            reader.Reload()
            self.assertEqual(sorted(reader.Tags()["scalars"]), ["epoch", "loss"])
            points[run] = [(event.step, event.value) for event in reader.Scalars("loss")]
        self.assertEqual([step for step, _ in points[first]], list(range(1, 41)))
        for step, value in points[first]:
            self.assertAlmostEqual(value, 1 / step, places=6)
        self.assertAlmostEqual(points[first + "/rank-1"][3][1], 2 / 4, places=6)
        self.assertEqual(reader.Scalars("loss")[0].wall_time, 1_790_000_000.001)
        # The export against the job: equal up to the rounding to 32-bit floats.
        self.assertIn("PASS", self.compare(first, f"./exported/{second}", "--by", "step", "--rtol", "1e-6").stdout)
        self.assertIn("PASS", self.compare(first, self.only_file(f"exported/{second}"), "--rtol", "1e-6").stdout)
        with open(self.path("rows.csv"), "w") as file:
            file.write(self.export(first, "--to", "csv").stdout)
        self.assertIn("4 epochs", self.compare("rows.csv", first, "--rtol", "0").stdout)
        with open(self.path("wide.csv"), "w") as file:
            file.write(self.muster.jobctl("metrics", first, "--key", "loss", "--rank", "0", "-o", "csv").stdout)
        self.assertIn("PASS", self.compare("wide.csv", first, "--by", "step", "--rtol", "1e-8").stdout)
        # A second export overwrites nothing.
        self.assert_error(self.export(first, "--to", "tensorboard", "--out", "exported", check=False), "JC1545", code=1)
        self.export(first, "--to", "tensorboard", "--out", "exported", "--force")
        self.assertEqual(len(os.listdir(self.path(f"exported/{second}"))), 1)

    def only_file(self, directory):
        names = os.listdir(self.path(directory))
        self.assertEqual(len(names), 1, names)
        return os.path.join(self.path(directory), names[0])


class Call(HttpCase, CompareCase):
    """What the call says of jobs, as the page shows it, beside what jobctl says of the same jobs."""

    def setUp(self):
        super(CompareCase, self).setUp()
        self.muster = self.shared(devices="cpu:8")

    def said(self, jobs, by="", **asked):
        request = {"jobs": list(jobs), "by": f"COMPARE_BY_{by.upper()}" if by else "COMPARE_BY_UNSPECIFIED", **asked}
        answer = self.post("CompareJobs", request)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def check(self, jobs, *args, code=0, **asked):
        """Both say the same, to the last digit, and in the same words."""
        said = self.said(jobs, **asked)
        result = json.loads(self.compare(*jobs, *args, "-o", "json", code=code).stdout)
        text = self.compare(*jobs, *args, code=code).stdout
        unit = result["by"]
        self.assertEqual(said["by"], f"COMPARE_BY_{unit.upper()}")
        self.assertEqual(len(said["comparisons"]), len(result["comparisons"]))
        for ours, theirs in zip(said["comparisons"], result["comparisons"]):
            self.assertEqual((ours["metric"], ours["job"], ours["baseline"]),
                             (theirs["metric"], theirs["run"], result["baseline"]))
            for name, other in (("compared", "compared"), ("onlyBaseline", "left_out_of_baseline"), ("past", "past"),
                                ("onlyJob", "left_out_of_run"), ("notFinite", "not_finite"), ("zeroBaseline", "zero_baseline")):
                self.assertEqual(int(ours.get(name, 0)), theirs[other], name)
            for name, other in (("meanAbs", "mean_abs"), ("meanRel", "mean_rel")):
                self.assertEqual(ours.get(name, 0), theirs[other], name)
            rows = {row[unit]: row for row in theirs["rows"]}
            for name, other in (("largestAbs", "largest_abs"), ("largestRel", "largest_rel"), ("firstPast", "first_past")):
                self.assert_row(ours.get(name), theirs[other], unit)
            self.assert_row(ours.get("firstStepPast"), theirs["first_step_past"], "step")
            for row in ours["rows"]:
                self.assert_row(row, rows[int(row.get("at", 0))], unit)
                self.assertIn("\t".join([row.get("at", "0"), *row["texts"]]), text)
            self.assertEqual(len(ours["rows"]), len(rows) if len(rows) <= 40 else len(ours["rows"]))
            summary = "\n  ".join([f"{ours['verdict']}  {ours['head']}", *ours["lines"]]) + "\n"
            self.assertIn(summary, text)
        return said

    def assert_row(self, ours, theirs, unit):
        if theirs is None:
            return self.assertIsNone(ours)
        self.assertEqual([int(ours.get("at", 0)), *(ours.get(name, 0) for name in ("baseline", "value", "abs", "rel"))],
                         [theirs[name] for name in (unit, "baseline", "value", "abs", "rel")])
        self.assertEqual(ours.get("past", False), theirs["past"])

    def test_it_and_jobctl_say_the_same_of_the_same_jobs(self):
        a, scaled, nan, sparse, again = self.finish(
            self.job(60, "--steps-per-epoch", 20), self.job(60, "--steps-per-epoch", 20, "--scale", 1.01),
            self.job(60, "--nan", 7), self.job(60, "--every", 7),
            self.job(60, "--fail", 20, ranks=2, flags=("--restarts", "1")), points=9)
        wait_until(lambda: len(self.muster.api.metrics(again)) >= 82, "all points are here")
        said = self.check((a, scaled), "--rtol", "0.0483%", code=1, rtol="0.0483%")
        self.assertEqual(self.get(f"/api/v1/CompareJobs?jobs={a}&jobs={scaled}&rtol=0.0483%25").json, said)
        self.check((a, scaled), "--by", "step", "--atol", "1e-3", "--rtol", "1e-3", by="step", atol="1e-3", rtol="1e-3")
        self.check((a, scaled), "--steps-per-epoch", "7", stepsPerEpoch="7")
        self.check((a, scaled), "--key", "loss,epoch", "--rtol", "1e-6", code=1, metrics=["loss", "epoch"], rtol="1e-6")
        self.check((a, scaled), "--key", "*", "--by", "epoch", by="epoch", metrics=["*"])
        self.check((a, nan, sparse, again), "--rtol", "1e-6", code=1, rtol="1e-6")
        self.check((again, again), "--rank", 1, rank=1)
        self.check((nan, a), code=1)

    def test_it_looks_at_all_points_of_a_long_run_and_at_a_running_job(self):
        """More points than a chart has: what differs between two of those counts, too."""
        a, b = self.finish(self.job(20_001), self.job(20_001, "--nan", 15_001), points=20_001)
        said = self.check((a, b), code=1)["comparisons"][0]
        self.assertEqual((said["compared"], said["firstPast"]["at"]), ("20001", "15001"))
        losses = shlex.join(python_line("losses.py", "30")[1:])
        live = self.muster.submit("--", "sh", "-c", f"{losses}; sleep 100", cwd=self.directory)
        wait_until(lambda: len(self.muster.api.metrics(live)) >= 30, "its points")
        self.muster.wait_for(live, RUNNING)
        said = self.check((a, live), "--rtol", "0", rtol="0")["comparisons"][0]
        self.assertEqual((said["compared"], said["onlyBaseline"], said["verdict"]), ("30", "19971", "PASS"))
        self.muster.jobctl("cancel", live)

    def test_its_errors_are_those_of_jobctl_and_tell_strangers_nothing(self):
        a, other = self.finish(self.job(20), self.job(20, "--name", "accuracy"), points=20)
        for jobs, asked, args, code in (((a, "no-such-job"), {}, (), 3), ((a, other), {}, (), 3),
                                        ((a, a), {"metrics": ["los"]}, ("--key", "los"), 3)):
            answer = self.post("CompareJobs", {"jobs": jobs, **asked})
            self.assertEqual(answer.status, 404, answer.body)
            self.assert_error(self.compare(*jobs, *args, code=code), answer.error["code"], answer.error["what"])
        answer = self.said((a, a), by="epoch")["comparisons"][0]
        self.assert_error(self.compare(a, a, "--by", "epoch", code=1), "JC1542", answer["problem"]["what"])
        self.assertEqual(self.post("CompareJobs", {"jobs": [a, a], "rtol": "x"}).error["code"], "JC1004")
        stranger = self.ask("POST", "/api/v1/CompareJobs", {"Content-Type": "application/json"}, {"jobs": [a, a]})
        self.assertEqual(stranger.status, 401)
        self.assertNotIn(a, stranger.body)


class Files(Case):
    """Without any coordinator."""

    def write(self, path, values, scalars=True):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "wb") as file:
            file.write(events.record(b"\x09" + bytes(8) + events.field(3, b"brain.Event:2")))
            file.writelines(events.scalar(step, value) for step, value in values.items() if scalars)

    def compare(self, *args, code=0):
        done = self.private().jobctl("compare", *args, check=False, cwd=self.directory)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_event_files_of_a_restarted_run_are_one_run_and_directories_with_scalars_several(self):
        self.write("runs/x/events.out.tfevents.1.host", {step: 10.0 for step in range(1, 21)})
        self.write("runs/x/events.out.tfevents.2.host", {step: 1.0 for step in range(11, 16)})
        self.write("runs/x/hparams/events.out.tfevents.1.host", {1: 5.0}, scalars=False)
        with open(self.path("wanted.csv"), "w") as file:
            file.write("step,loss\n" + "".join(f"{step},{10 if step < 11 else 1}\n" for step in range(1, 16)))
        passed = self.compare("wanted.csv", "./runs", "--rtol", "0").stdout
        self.assertIn("15 steps\n", passed)
        self.assertNotIn("left out", passed)
        self.write("runs/y/events.out.tfevents.1.host", {1: 2.0})
        self.assert_error(self.compare("wanted.csv", "./runs", code=3), "JC1503", "x/loss, y/loss")
        with open(self.path("runs/x/events.out.tfevents.2.host"), "ab") as file:
            file.write(b"\x05")  # its writer is at it
        self.compare("wanted.csv", "runs/x", "--rtol", "0")
        with open(self.path("runs/x/events.out.tfevents.2.host"), "ab") as file:
            file.write(b"no record of any kind")
        self.assert_error(self.compare("wanted.csv", "runs/x", code=1), "JC1543", "runs/x/events.out.tfevents.2.host")

    def test_what_is_not_metrics_is_named(self):
        with open(self.path("a.csv"), "w") as file:
            file.write("loss;step\n1;2\n")
        self.assert_error(self.compare("a.csv", "a.csv", code=1), "JC1543", "a.csv:1", "no column")
        self.assert_error(self.compare("b.csv", "a.csv", code=3), "JC1005", "b.csv")
        os.makedirs(self.path("empty"))
        self.assert_error(self.compare("./empty", "a.csv", code=1), "JC1543", "no TensorBoard event files")
        self.assert_error(self.compare("a.csv", code=2), "JC1004")


class FakeMlflow(http.server.BaseHTTPRequestHandler):
    """The calls of MLflow's REST API that an export makes, with its limits."""

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.server.calls.append((self.path, None))
        self.answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST"})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        call = self.path.split("/api/2.0/mlflow/")[1]
        if self.server.failures and call == self.server.failures[0][0]:
            return self.answer(self.server.failures.pop(0)[1], {"message": "not now"})
        body = json.loads(raw)
        self.server.calls.append((call, body))
        if len(raw) > 1_000_000 or len(body.get("metrics", ())) > 1000 or len(body.get("params", ())) > 100:
            return self.answer(400, {"error_code": "INVALID_PARAMETER_VALUE"})
        self.answer(200, {"experiments/create": {"experiment_id": "7"},
                          "runs/create": {"run": {"info": {"run_id": "r1"}}}}.get(call, {}))


class Export(CompareCase):
    def serve(self, certificate=None):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeMlflow)
        server.calls, server.failures = [], []
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.handle_error = lambda *_: None
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server, f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}/base/"

    def test_mlflow_gets_every_point_within_its_limits(self):
        server, url = self.serve()
        job, = self.finish(self.job(2500, "--nan", 2, "--name", "train/../loss=é"), points=2500)
        server.failures += [("runs/log-batch", 503), ("runs/create", 429)]
        self.export(job, "--to", "mlflow", "--url", url, "--experiment", "a b/ü")
        calls = server.calls
        self.assertEqual([name for name, _ in calls][1:], ["experiments/create", "runs/create", *["runs/log-batch"] * 4,
                                                          "runs/update"])
        self.assertIn("/base/api/2.0/mlflow/experiments/get-by-name?experiment_name=a%20b%2F%C3%BC", calls[0][0])
        self.assertEqual(calls[1][1]["name"], "a b/ü")
        self.assertEqual((calls[2][1]["experiment_id"], calls[2][1]["run_name"]), ("7", job))
        params = {each["key"]: each["value"] for each in calls[3][1]["params"]}
        self.assertEqual(params["world size"], "1")
        self.assertFalse([name for name in params if name.startswith("env")])
        metrics = [metric for _, body in calls[4:7] for metric in body["metrics"]]
        self.assertEqual([len(body["metrics"]) for _, body in calls[4:7]], [1000, 1000, 500])
        self.assertEqual({metric["key"] for metric in metrics}, {"train/_/loss___"})
        self.assertEqual([metric["step"] for metric in metrics], list(range(1, 2501)))
        self.assertEqual(metrics[1]["value"], "NaN")
        self.assertEqual(metrics[2], {"key": "train/_/loss___", "value": 1 / 3, "timestamp": 1_790_000_000_003, "step": 3})
        self.assertEqual((calls[7][1]["run_id"], calls[7][1]["status"]), ("r1", "FINISHED"))
        # A permanent failure is named, and no partial run stays.
        server.failures += [("runs/update", 400)]
        done = self.export(job, "--to", "mlflow", "--url", url, check=False)
        self.assert_error(done, "JC1546", url, "runs/update", "400", "not now", code=1)
        self.assertEqual(server.calls[-1][0], "runs/delete")
        for url, words in (("ftp://x", "https:// or http://"), ("http://127.0.0.1:1", "Connection refused")):
            self.assert_error(self.export(job, "--to", "mlflow", "--url", url, check=False), words)

    def test_mlflow_over_https_whose_certificate_must_be_valid(self):
        harness.need(shutil.which("openssl"), "needs openssl to make a certificate")
        pem = self.path("server.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                        "2", "-subj", "/CN=mlflow", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pem, "-out", pem + ".crt"],
                       check=True, capture_output=True)
        with open(pem + ".crt", encoding="utf-8") as certificate, open(pem, "a", encoding="utf-8") as both:
            both.write(certificate.read())
        server, url = self.serve(pem)
        job, = self.finish(self.job(9), points=9)
        refused = self.export(job, "--to", "mlflow", "--url", url, check=False)
        self.assert_error(refused, "JC1546", "its certificate is not valid", "SSL_CERT_FILE", code=1)
        self.assertEqual(server.calls, [])
        self.export(job, "--to", "mlflow", "--url", url, env={"SSL_CERT_FILE": pem + ".crt"})
        self.assertEqual(server.calls[-1][1]["status"], "FINISHED")

    def test_csv_and_json_lines_have_every_point_in_full(self):
        job, = self.finish(self.job(9, "--nan", 4, "--name", "=a,\"b\"", ranks=2), points=18)
        rows = list(csv.DictReader(io.StringIO(self.export(job, "--to", "csv").stdout)))
        lines = [json.loads(line) for line in self.export(job, "--to", "jsonl").stdout.splitlines()]
        self.assertEqual(len(rows), 18)
        for row, line in zip(rows, lines):
            self.assertEqual({**row, "value": ""}, {**{key: str(value) for key, value in line.items()}, "value": ""})
            expected = "NaN" if line["step"] == 4 else (1 + line["rank"]) / line["step"]
            self.assertEqual((line["job"], line["name"], line["value"]), (job, "=a,\"b\"", expected))
            self.assertEqual(row["value"] if expected == "NaN" else float(row["value"]), expected)
        self.export(job, "--to", "csv", "--rank", "1", "--out", "one.csv")
        self.assert_error(self.export(job, "--to", "csv", "--out", "one.csv", check=False), "JC1545", "--force", code=1)
        self.assertEqual(os.listdir(self.directory).count("one.csv"), 1)
        self.assert_error(self.export(job, "--to", "csv", "--key", "nope", check=False), "JC1503", code=3)

    def test_perfetto_shows_attempts_ranks_and_events(self):
        job = self.job(4, "--fail", 2, ranks=2, flags=("--restarts", "1"))
        self.muster.wait_for(job, *OVER)
        self.export(job, "--to", "perfetto", "--out", "trace.json")
        with open(self.path("trace.json")) as file:
            trace = json.load(file)["traceEvents"]
        slices = [event for event in trace if event["ph"] == "X"]
        self.assertEqual([event["name"] for event in slices if event["pid"] == 1 and event["tid"] == 2],
                         ["attempt 0", "attempt 1"])
        self.assertEqual(sorted((event["tid"], event["name"]) for event in slices if event["pid"] == 2),
                         [(1, "attempt 0"), (1, "attempt 1"), (2, "attempt 0"), (2, "attempt 1")])
        names = [event["args"]["name"] for event in trace if event["ph"] == "M" and event["pid"] == 2]
        self.assertEqual(set(names), {f"{job} on node1", "rank 0", "rank 1"})
        self.assertTrue(all(event["ts"] >= 0 and event["dur"] >= 0 for event in slices))
        self.assertIn("SUCCEEDED", [event["name"] for event in trace if event["ph"] == "i"])


if __name__ == "__main__":
    main()
