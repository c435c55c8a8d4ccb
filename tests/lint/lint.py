#!/usr/bin/env python3
"""`./dev lint`: layering, banned calls, formatting and leftovers, over the files that git knows or
would take. Prints every finding as FILE:LINE: what, and what to do instead; exit 1 when there is one.
Sizes far over those of CONTRIBUTING.md (files of 400 lines, functions of 70) are reported, not enforced.

    lint.py              all checks
    lint.py --list-cpp   only prints the C++ files (for clang-format)
"""
import os
import re
import subprocess
import sys

import draw_rooms
import explained_checks
import limits_reference
import local_names
import named_tests
import one_list
import one_mechanism
import plain_words
import rooms
import sdk_layers
import standard_headers

CLANG_FORMAT = 14  # Debian 12's
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# gRPC lives at the edges: the coordinator's services, the worker's links, the client, the load generator. The
# coordinator's calls themselves (calls/) and what they stand on know no transport.
GRPC_FILES = re.compile(
    r"^(client/|bench/|tests/|coordinator/services/|coordinator/etcd/|worker/links/|worker/exec/exec_link\.cc$)")
# Boost.Beast costs 14 seconds to compile: once.
BOOST_FILES = ("coordinator/http/server/server.cc", "coordinator/http/server/connection.h", "coordinator/http/server/stream.h",
               "coordinator/http/server/wire_head.h")

# spdlog and CLI11 each cost eight seconds to compile: once a program.
LOG_FILE = "common/log.cc"
CLI_FILES = re.compile(r"^(client/command_line/flag_reader|(coordinator|worker)/flags|coordinator/init_command|coordinator/migrate_command|coordinator/care/commands)\.cc$")

# Banned calls: (pattern, files it concerns, files excepted, what to do instead).
BANNED = [
    (r"(?<![\w:>.])(::)?system\s*\(|(?<![\w:>.])popen\s*\(", r"\.(cc|h)$", r"^$",
     "no shell: start the program itself (common/kernel/process_start.h)"),
    (r"(?<![\w:>.])(::)?v?fork\s*\(\)", r"\.(cc|h)$", r"^(shim/|tests/|bench/)",
     "only the shim forks; common/kernel/process_start.h elsewhere (gRPC does not survive a fork)"),
    (r"\bstd::(jthread|thread|async)\b(?!::)", r"\.(cc|h)$", 
     r"^((coordinator|worker)/(?!core/|findings/)|trainer/|client/|tests/|bench/|examples/)",
     "threads are listed in docs/threads.md; the cores, common and the shim have none"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\s*\(|(?<![\w.])sleep\s*\(", r"\.(cc|h)$",
     r"^((coordinator|worker)/(?!core/|findings/)|tests/e2e/|trainer/|examples/|bench/|client/|shim/)",
     "wait for the condition itself, or let simulated time pass"),
    (r"\b(system_clock|steady_clock|high_resolution_clock)::now|\bclock_gettime\s*\(|\bgettimeofday\s*\(|"
     r"(?<![\w:.>])time\s*\(\s*(nullptr|NULL|0)\s*\)|absl::Now\s*\(", r"\.(cc|h)$",
     r"^(common/(base/clock|log|kernel/process)\.cc|(coordinator|worker)/(?!core/|findings/)|shim/|trainer/|examples/|tests/|bench/|client/)",
     "time arrives as an argument (common/base/clock.h)"),
    (r"\brand\s*\(\)|\bstd::random_device\b|\bstd::mt19937", r"^((coordinator|worker)/core|coordinator/findings)/", r"^$",
     "the cores have no random numbers: take one as an input"),
    (r"\b(inner|outer)HTML\b|insertAdjacentHTML|document\.write|\beval\s*\(|new Function\b|\bsrcdoc\b|createContextualFragment",
     r"^page/.*\.js$", r"^$", "text from jobs is hostile: h() and text nodes (page/base/dom.js)"),
    (r"\bhttps?://(?!www\.w3\.org/)", r"^page/.*\.(js|css|html)$", r"^$", "the page asks its own coordinator alone"),
]

# What these may not include: threads, clocks, files, random numbers, logging.
CORE_BANNED_HEADERS = re.compile(
    r"#include\s+[<\"](thread|mutex|shared_mutex|condition_variable|atomic|future|chrono|ctime|time\.h|"
    r"fstream|filesystem|iostream|cstdio|unistd\.h|fcntl\.h|sys/[^>]*|random|common/(files|log)\.h|"
    r"grpcpp/[^>]*|absl/time/clock\.h|absl/synchronization/[^>\"]*)[>\"]")

# Error codes: where one is made, that prose has none, and whose rows explain them. The sources of a code are
# what users run.
CODE_ROWS = "common/error_codes.cc"
CODE_SOURCES = re.compile(rf"^{rooms.PRODUCT}/.*\.(cc|h)$")
CODE_MADE = re.compile(r'(?:\bcode\s*=|\b(?:Usage|Refuse)\()\s*"(JC\d{4})"')
CODE_NAMED = re.compile(r'"(JC\d{4})"')
CODE_IN_PROSE = re.compile(r'"(?:\\.|[^"\\])*\[JC')

LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XXX|HACK)\b")


def project_files():
    """Tracked files and those that git would take, that still exist; without git all but what is built."""
    try:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        listed = []
        for directory, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if not name.startswith(("build", ".venv", ".git", "__pycache__"))]
            listed += [os.path.relpath(os.path.join(directory, name), ROOT) for name in names]
    return sorted({name for name in listed if name and os.path.isfile(os.path.join(ROOT, name))})


class Lint:
    def __init__(self):
        self.findings = 0

    def report(self, path, line, text):
        self.findings += 1
        print(f"{path}:{line}: {text}")

    def check_includes(self, path, lines):
        for number, line in enumerate(lines, 1):
            found = re.match(r'\s*#include\s+[<"]([^>"]+)[>"]', line)
            if not found:
                continue
            header = found.group(1)
            for wrong in (rooms.include_finding(path, header), sdk_layers.finding(path, header)):
                if wrong:
                    self.report(path, number, wrong)
            if (header.startswith("grpc") or header.endswith(".grpc.pb.h")) and not GRPC_FILES.match(path):
                self.report(path, number, f"{header}: gRPC only in services, links, etcd and the client")
            if header.startswith("boost/") and path not in BOOST_FILES:
                self.report(path, number, f"{header}: only in {BOOST_FILES[0]}")
            if re.match(r"(torch|c10|ATen)/", header) and path.split("/")[0] not in ("trainer", "examples", "tests", "bench"):
                self.report(path, number, f"{header}: LibTorch only in trainer/ and examples/")
            if header.startswith("sqlite3") and not re.match(r"coordinator/sqlite/.*\.cc$|tests/", path):
                self.report(path, number, f"{header}: SQLite only in coordinator/sqlite/")
            if rooms.is_pure(path) and CORE_BANNED_HEADERS.match(line):
                self.report(path, number, f"{header}: {rooms.room_of(path)} is pure (no thread, clock, file, "
                            "random number or log)")
            if header.startswith(("spdlog/", "fmt/")) and path != LOG_FILE:
                self.report(path, number, f"{header}: only in {LOG_FILE}; use common/log.h")
            if header.startswith("CLI/") and not CLI_FILES.match(path):
                self.report(path, number, f"{header}: only where command lines are parsed")
            if path.endswith(".h") and not path.startswith("tests/") and re.match(r"(nlohmann/json\.|yaml-cpp/)", header):
                self.report(path, number, f"{header}: heavy header, include it in .cc files only")

    def check_banned(self, path, lines):
        for pattern, concerned, excepted, remedy in BANNED:
            if not re.search(concerned, path) or re.search(excepted, path):
                continue
            for number, line in enumerate(lines, 1):
                code = re.sub(r'"(\\.|[^"\\])*"', '""', line.split("//", 1)[0])
                if re.search(pattern, code):
                    self.report(path, number, f"{code.strip()[:60]}: {remedy}")

    def check_text(self, path, lines):
        for number, line in enumerate(lines, 1):
            if LEFTOVER.search(line):
                self.report(path, number, "leftover marker: finish it, or open an issue")
            if line.rstrip("\n") != line.rstrip("\n").rstrip(" \t") and not path.endswith(".md"):
                self.report(path, number, "trailing white space")

    def check_head_comment(self, path, lines):
        first = next((line for line in lines if line.strip()), "")
        if path.endswith(".h") and not first.startswith("//"):
            self.report(path, 1, "no head comment: say what it owns, which thread, what it never does")

    def check_format(self, paths):
        if not paths:
            return
        try:
            version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
            if f"version {CLANG_FORMAT}." not in version:
                print(f"note: formatting not checked: releases of clang-format differ, and this tree is that of {CLANG_FORMAT}")
                return
            done = subprocess.run(["clang-format", "--dry-run", "-Werror", *paths], cwd=ROOT,
                                  capture_output=True, text=True)
        except FileNotFoundError:
            print("note: clang-format is not installed: formatting not checked")
            return
        unformatted = sorted(set(re.findall(r"^([^:\s]+):\d+:\d+: error: code should be", done.stderr, re.M)))
        for path in unformatted:
            self.report(path, 1, "not formatted: run ./dev format")

    def check_across_files(self, sources):
        for path, line, text in (*explained_checks.findings(sources), *local_names.findings(sources),
                                 *one_list.findings(sources), *standard_headers.findings(sources),
                                 *one_mechanism.findings(sources), *one_mechanism.stale(sources)):
            self.report(path, line, text)

    def check_words(self, path, lines):
        for _, line, text in plain_words.findings([(path, lines)]):
            self.report(path, line, text)

    def check_house(self, paths):
        for path, line, text in rooms.house_findings(paths):
            self.report(path, line, text)

    def check_pages(self, pages, tests, limited):
        for path, line, text in (*named_tests.findings(pages, tests), *draw_rooms.findings(pages),
                                 *limits_reference.findings(pages, limited)):
            self.report(path, line, text)

    def check_error_codes(self, paths):
        """Each code that is made has a row that explains it, each row is made somewhere, and no code is prose."""
        def positions(text, pattern):
            return [(text.count("\n", 0, found.start(1) if found.groups() else found.end()) + 1, found)
                    for found in pattern.finditer(text)]
        texts = {path: open(os.path.join(ROOT, path), encoding="utf-8").read()
                 for path in paths if CODE_SOURCES.match(path)}
        rows = {found.group(1): line for line, found in positions(texts.pop(CODE_ROWS), re.compile(r'\{"(JC\d{4})"'))}
        made = set()
        for path, text in texts.items():
            code = re.sub(r"//.*", "", text)
            made.update(CODE_MADE.findall(code))
            for line, found in positions(code, CODE_NAMED):
                if found.group(1) not in rows:
                    self.report(path, line, f"{found.group(1)} has no row in {CODE_ROWS}")
            for line, found in positions(code, CODE_IN_PROSE):
                self.report(path, line, "an error code in prose: make it with common/problem.h, ask for it with CodeOf")
        for code in sorted(set(rows) - made):
            self.report(CODE_ROWS, rows[code], f"nothing makes {code}: use it, or delete its row")

    def check_orphans(self, paths):
        """A .cc file that no CMakeLists.txt names, alone or as one of a folder (file(GLOB …)), is dead."""
        lists = {path: open(os.path.join(ROOT, path), encoding="utf-8").read()
                 for path in paths if path.endswith(("CMakeLists.txt", ".cmake"))}
        folders = {os.path.normpath(os.path.join(os.path.dirname(path), folder)) for path, text in lists.items()
                   for folder in re.findall(r"file\(GLOB [^)]*?([\w/]+)/\*\.cc\)", text)}
        named = "\n".join(lists.values())
        for path in paths:
            if path.endswith(".cc") and os.path.dirname(path) not in folders and os.path.basename(path) not in named:
                self.report(path, 1, "no CMakeLists.txt names this file: add it or delete it")


def report_sizes(cpp):
    """The largest files and functions beyond the aim: information, not an error."""
    long_files, long_functions = [], []
    for path in cpp:
        if path.startswith("tests/"):
            continue
        lines = open(os.path.join(ROOT, path), encoding="utf-8").read().split("\n")
        if len(lines) > 400:
            long_files.append((len(lines), path))
        start = None
        for number, line in enumerate(lines, 1):
            if start is None and re.match(r"^\S.*\)[^;]*\{$", line) and not line.startswith(("namespace", "class", "struct", "//", "#")):
                start = number
            elif start is None and re.match(r"^ {4,}.*\)[^;]*\{$", line) and number > 1 and re.match(r"^[A-Za-z].*\($|^[A-Za-z].*,$", lines[number - 2]):
                start = number
            elif start is not None and line.startswith("}"):
                if number - start > 70:
                    long_functions.append((number - start, f"{path}:{start}"))
                start = None
    for title, found in (("files over 400 lines", long_files), ("functions over 70 lines", long_functions)):
        if found:
            print(f"note: {title}: " + ", ".join(f"{name} ({size})" for size, name in sorted(found, reverse=True)))


def main():
    paths = project_files()
    cpp = [path for path in paths if path.endswith((".cc", ".h", ".cpp"))]
    if sys.argv[1:] == ["--list-cpp"]:
        print("\n".join(os.path.join(ROOT, path) for path in cpp))
        return 0
    lint = Lint()
    sources, pages, tests, limited = [], [], [], []
    for path in paths:
        if not path.endswith((".cc", ".h", ".py", ".proto", ".cmake", "CMakeLists.txt", "dev", ".sh", ".md", ".js", ".yaml", ".service")):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        if path != "tests/lint/lint.py":
            lint.check_text(path, lines)
            lint.check_words(path, lines)
        if path.endswith("CMakeLists.txt"):
            sources.append((path, lines))
        if path.startswith("tests/") and path.endswith((".py", "CMakeLists.txt")):
            tests.append((path, lines))
        if path.endswith(".md"):
            pages.append((path, lines))
        if limits_reference.READ.match(path):
            limited.append((path, lines))
        if path in cpp:
            lint.check_includes(path, lines)
            lint.check_banned(path, lines)
            lint.check_head_comment(path, lines)
            sources.append((path, lines))
    lint.check_across_files(sources)
    lint.check_pages(pages, tests, limited)
    lint.check_house(paths)
    lint.check_format(cpp)
    lint.check_orphans(paths)
    lint.check_error_codes(paths)
    report_sizes(cpp)
    print(f"lint: {len(paths)} files, " + (f"{lint.findings} findings" if lint.findings else "clean"))
    return 1 if lint.findings else 0


if __name__ == "__main__":
    sys.exit(main())
