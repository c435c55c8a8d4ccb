"""`./dev new`, in a copy of the tree: it makes files that lint accepts and lists them where they belong, and what it
refuses leaves no trace. Nothing is compiled."""
import contextlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lint"))
import lint  # noqa: E402
import plain_words  # noqa: E402
import rooms  # noqa: E402

spec = importlib.util.spec_from_file_location("new", ROOT / "dev-lib" / "new.py")
new = importlib.util.module_from_spec(spec)
spec.loader.exec_module(new)

# What `new` reads and writes, and what lint needs to judge that.
COPIED = re.compile(r"(dev|dev-lib/.*|\.clang-format|docs/jobctl\.md|(.*/)?CMakeLists\.txt|.*\.cmake|"
                    rf"({rooms.PRODUCT}|proto|trainer/include)/.*|"
                    r"tests/(client|coordinator|lint|support)/.*|"
                    r"trainer/src/(.*\.h|checkpoint/retention\.cc|tracking/csv_table\.cc))$")

LONG = ("AnswerOfAQuestionThatIsSoLongA", "a_rule_with_a_name_so_long_abc", "a-command-with-a-name-so-longs")
SHORT = ("Pry", "lone", "say")
MADE = {
    "call": ("ListThings", ["coordinator/calls/list_things.cc", "tests/coordinator/list_things_test.cc"],
             ["common/calls.h", "proto/muster/v1/job_service.proto", "tests/coordinator/CMakeLists.txt"],
             "coordinator_list_things_test"),
    "policy": ("quiet_hours", ["coordinator/core/scheduling/quiet_hours.cc", "tests/coordinator/core/quiet_hours_test.cc"],
               ["coordinator/CMakeLists.txt", "coordinator/core/scheduling/policies.cc",
                "coordinator/core/state/blockers.h", "tests/coordinator/core/CMakeLists.txt"],
               "coordinator_core_quiet_hours_test"),
    "command": ("check-links", ["client/commands/check_links.cc", "tests/client/check_links_test.cc"],
                ["docs/jobctl.md", "tests/client/CMakeLists.txt"], "jobctl_check_links_test"),
}


class New(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="mt-new-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.addClassCleanup(setattr, new, "ROOT", new.ROOT)
        cls.tree = new.ROOT = Path(cls.directory) / "tree"
        cls.tree.mkdir()
        names = "\0".join(name for name in lint.project_files() if COPIED.match(name))
        subprocess.run(["xargs", "-0", "cp", "-p", "--parents", "-t", cls.tree], cwd=ROOT, input=names, text=True, check=True)

    def setUp(self):
        self.before = self.state()
        self.addCleanup(self.restore, self.before)

    def restore(self, before):
        self.before = before
        made, edited = self.changed()
        for path in made:
            (self.tree / path).unlink()
        for path in edited:
            shutil.copy2(ROOT / path, self.tree / path)

    def state(self):
        """(size, time of the last change) of each file, by path."""
        return {os.path.relpath(os.path.join(folder, name), self.tree): (status.st_size, status.st_mtime_ns)
                for folder, _, names in os.walk(self.tree) for name in names if "/.git" not in folder
                if (status := os.lstat(os.path.join(folder, name)))}

    def changed(self):
        """Paths of the files that were made, and of those that were edited, since `before`."""
        after = self.state()
        return (sorted(set(after) - set(self.before)),
                sorted(path for path, state in self.before.items() if after.get(path) != state))

    def run_in_tree(self, *command, **options):
        return subprocess.run(command, cwd=self.tree, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
                              check=False, **options)

    def make(self, kind, name):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            new.main([kind, name])
        return told.getvalue()

    def read(self, path):
        return (self.tree / path).read_text()

    def test_each_kind_makes_its_files_and_their_rows_and_lint_accepts_them(self):
        for kind, (name, made, edited, test) in MADE.items():
            told = self.make(kind, name)
            self.assertEqual(self.changed(), (made, edited))
            self.assertIn(f"./dev test '^{test}$'", told)
            for path in made + edited:
                self.assertIn(path, told)
                self.assertEqual(list(plain_words.findings([(path, self.read(path).split("\n"))]))
                                 if path in made else [], [])
            self.assertRegex(self.read(edited[-1]), rf"test\({test}\s+SOURCES {os.path.basename(made[1])}")
            self.before = self.state()
        self.assertIn("ONE(ListThings, ListThingsRequest, ListThingsResponse, ", self.read("common/calls.h"))
        self.assertRegex(self.read("proto/muster/v1/job_service.proto"), r"rpc ListThings\(ListThingsRequest\) returns")
        self.assertRegex(self.read("coordinator/core/scheduling/policies.cc"), r"MakeQuietHours,\s+MakeDevices,")
        # Without clang-format, which reads the whole tree: half a minute.
        done = self.run_in_tree(sys.executable, "-B", "tests/lint/lint.py", env={**os.environ, "PATH": self.directory})
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_what_it_prints_undoes_it(self):
        if not shutil.which("git"):
            self.skipTest("needs git")
        self.addCleanup(shutil.rmtree, self.tree / ".git", ignore_errors=True)
        self.run_in_tree("git", "init", "-q")
        for kind, (name, _, edited, _) in MADE.items():
            self.run_in_tree("git", "add", "-f", *edited)
            told = self.make(kind, name)
            self.assertNotEqual(self.run_in_tree("git", "diff", "--quiet").returncode, 0)
            for command in re.findall(r"\bgit (?:checkout|clean) .*", told):
                self.assertEqual(self.run_in_tree("sh", "-c", command).returncode, 0, command)
            self.assertEqual(self.run_in_tree("git", "diff", "--quiet").returncode, 0, kind)
            self.assertEqual(self.changed()[0], [], kind)

    def test_names_of_any_length_are_formatted(self):
        if not new.clang_format():
            self.skipTest(f"needs clang-format {new.CLANG_FORMAT}")
        for kind, name in zip(MADE, LONG):
            self.assertEqual(len(name), new.NAME_MOST)
            self.make(kind, name)
        for kind, name in zip(MADE, SHORT):
            self.make(kind, name)
        paths = [path for path in sum(self.changed(), []) if path.endswith((".cc", ".h"))]
        done = self.run_in_tree(new.clang_format(), "--dry-run", "-Werror", *paths)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_ordinary_name_needs_no_clang_format(self):
        if not new.clang_format():
            self.skipTest(f"needs clang-format {new.CLANG_FORMAT}, to compare with")
        formatted = {}
        for kind, (name, _, _, _) in MADE.items():
            change, _, _ = new.KINDS[kind](name)
            formatted.update({**change.made, **change.edited})
        for path, text in formatted.items():
            self.assertEqual(text, new.formatted(path, text), path)

    def test_the_page_of_commands_is_as_help_would_print_it(self):
        page = self.read("docs/jobctl.md")
        self.make("command", "say")
        row = "  say          what it does, in one line\n"  # as wide as the longest, coordinator
        self.assertIn(row, self.read("docs/jobctl.md"))
        self.assertEqual(self.read("docs/jobctl.md").replace(row, "").replace(new.help_section("say"), ""), page,
                         "all other rows stay as they are")

    def test_what_is_refused_leaves_no_trace(self):
        for kind, name, why, fix in (
                ("call", "GetJob", "already has a GetJob", "another name"),
                ("call", "Caller", "already has another Caller", "another name"),
                ("call", "list_things", "not a name", "./dev new call ListThings"),
                ("call", "X" * 31, "not a name", "at most 30"),
                ("policy", "devices", "already has a Devices", "another name"),
                ("policy", "notices", "notices_test.cc is already there", "another name"),
                ("policy", "QuietHours", "not a name", "./dev new policy quiet_hours"),
                ("policy", "../x", "not a name", "./dev new policy x"),
                ("command", "run", "has the command run", "another name"),
                ("command", "ckpt", "has the command ckpt", "another name"),
                ("command", "text", "text_test.cc is already there", "another name"),
                ("command", "Check_Links", "not a name", "./dev new command check-links"),
                ("command", "", "not a name", "./dev new command small-thing"),
                ("table", "x", "new takes call, policy or command", "./dev new call")):
            with self.assertRaisesRegex(new.Refused, re.escape(why), msg=name) as caught:
                self.make(kind, name)
            self.assertIn(fix, caught.exception.fix)
        self.assertEqual(self.changed(), ([], []))

    def test_dev_tells_what_is_wrong_and_the_fix(self):
        done = self.run_in_tree("./dev", "new", "call", "GetJob")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^error: .* already has a GetJob\nfix: .*\n$")
        self.assertEqual(self.changed(), ([], []))

    def test_a_table_that_has_moved_is_named_and_nothing_is_written(self):
        path = "coordinator/core/state/blockers.h"
        (self.tree / path).write_text(self.read(path).replace("kBlockers", "kRows"))
        self.before = self.state()
        with self.assertRaisesRegex(new.Refused, f"{path} no longer has the place"):
            self.make("policy", "quiet_hours")
        self.assertEqual(self.changed(), ([], []))


if __name__ == "__main__":
    unittest.main(verbosity=2)
