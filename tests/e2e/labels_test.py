"""Labels of jobs: given, shown, kept and selected by; and what a person sees of a list that is watched."""
import json

import harness
from harness import SUCCEEDED, Case
from terminal import Terminal


class Labels(Case):
    def names(self, cluster, *args):
        return [item["job"] for item in json.loads(cluster.jobctl("ls", "-o", "json", *args).stdout)["items"]]

    def test_jobs_are_selected_by_labels_while_they_live_and_after_a_restart(self):
        cluster = self.cluster()
        with open(self.path("train.yaml"), "w") as file:
            file.write("name: filed\ncommand: [\"true\"]\nlabels: {team: vision, sweep: \"1\"}\n")
        filed = cluster.submit(self.path("train.yaml"), "-l", "sweep=2")
        speech = cluster.submit("-l", "team=speech", "--", "true")
        plain = cluster.submit("--", "true")
        for job in (filed, speech, plain):
            cluster.wait_for(job, SUCCEEDED)
        live = cluster.submit("-l", "team=vision", "-n", "99", "--queue-anyway", "--", "true")

        def check():
            self.assertEqual(self.names(cluster, "-l", "team=vision"), [live, filed])
            self.assertEqual(self.names(cluster, "-l", "team=vision,sweep=2"), [filed], "the flag overrides the file")
            self.assertEqual(self.names(cluster, "-l", "team", "--limit", "1", "--sort", "id"), [filed])
            self.assertEqual(self.names(cluster, "-l", "team", "--limit", "2"), [live, speech], "of those that have it")
            self.assertEqual(self.names(cluster, "-l", "team!=vision"), [plain, speech])
            self.assertEqual(self.names(cluster, "-l", "!team"), [plain])
            rows = json.loads(cluster.jobctl("ls", "-l", "sweep=2", "-o", "json").stdout)["items"]
            self.assertEqual(rows[0]["labels"], {"sweep": "2", "team": "vision"})
        check()
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        check()
        self.assertIn("sweep=2, team=vision", cluster.jobctl("show", filed).stdout)
        again = cluster.jobctl("rerun", filed, "-l", "sweep=3", "-l", "extra=", "-o", "name").stdout.strip()
        self.assertEqual(dict(cluster.api.record(again).spec.labels), {"team": "vision", "sweep": "3", "extra": ""})
        kept = cluster.jobctl("rerun", filed, "-l", "sweep-", "-o", "name").stdout.strip()
        self.assertEqual(dict(cluster.api.record(kept).spec.labels), {"team": "vision"})
        self.assert_error(cluster.jobctl("submit", "-l", "team=a b", "--", "true", check=False), "label", "JC1108")
        cluster.jobctl("cancel", *cluster.jobctl("ls", "-l", "team=vision", "--state", "queued", "-o",
                                                 "name").stdout.split(), check=False)  # some may be over by now
        cluster.wait_for(live, harness.CANCELLED)

    def test_a_watched_list_fits_the_screen_and_stays_at_its_rows(self):
        cluster = self.cluster(workers=())
        for number in range(40):
            cluster.submit("--name", f"job-{number}", "-l", "many=", "--", "true")
        terminal = Terminal(self, cluster, "ls", "-w", "-l", "many")
        lines = terminal.wait_for_screen(lambda lines: lines[23].startswith("rows 1-22 of 40"))
        self.assertTrue(lines[0].startswith("JOB "), lines)
        self.assertTrue(lines[1].startswith("job-39-40 "), lines)
        self.assertTrue(lines[22].startswith("job-18-19 "), lines)
        terminal.type(b"\033[B")
        terminal.wait_for_screen(lambda lines: lines[1].startswith("job-38-39 "))
        new = cluster.submit("--name", "new", "-l", "many=", "--", "true")
        lines = terminal.wait_for_screen(lambda lines: lines[23].startswith("rows 3-24 of 41"))
        self.assertTrue(lines[1].startswith("job-38-39 "), "what was looked at stays")
        terminal.type(b"g")
        terminal.wait_for_screen(lambda lines: lines[1].startswith(new))
        terminal.type(b"G")
        terminal.wait_for_screen(lambda lines: lines[22].startswith("job-0-1 ") and " 20-41 of 41" in lines[23])
        terminal.type(b"q")
        self.assertEqual(terminal.process.wait(timeout=harness.DEADLINE_S), 0)
        self.assertTrue(terminal.is_as_before())

    def test_a_run_folds_equal_lines_on_a_terminal_and_not_in_a_pipe(self):
        muster = self.private()
        line = ("-n", "2", "--color", "never", "--", "sh", "-c", "echo loading; echo rank $RANK >&2")
        terminal = Terminal(self, muster, "run", *line)
        self.assertEqual(terminal.process.wait(timeout=harness.DEADLINE_S), 0)
        lines = terminal.read().decode().splitlines()
        self.assertIn("[2 ranks] loading", lines)
        self.assertEqual(sum("] rank " in each for each in lines), 2, lines)
        piped = muster.jobctl("run", *line)
        self.assertEqual(sorted(each.split("] ")[1] for each in piped.stdout.splitlines()), ["loading"] * 2)


if __name__ == "__main__":
    harness.main()
