"""`./dev new call|policy|command NAME`: files of the right shape, their rows in the tables that list them, and a test
that fails until they are written. dev-lib/new/ has the templates.

All texts are made before the first one is written: what is refused leaves no trace.
"""
import functools
import re
import shutil
import string
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = Path(__file__).resolve().parent / "new"
COLUMNS = 100      # of a source
NAME_MOST = 30     # characters: longer ones do not fit into help pages and signatures
CLANG_FORMAT = 14  # as in tests/lint/lint.py


class Refused(Exception):
    """What is wrong, and what to type instead."""

    def __init__(self, what, fix):
        super().__init__(what)
        self.fix = fix


class Change:
    """Files that are to be made and files that are to be edited, as texts until write()."""

    def __init__(self):
        self.made, self.edited = {}, {}

    def make(self, path, template, **words):
        if (ROOT / path).exists():
            raise Refused(f"{path} is already there", "choose another name, or edit that file")
        self.made[path] = string.Template((TEMPLATES / template).read_text()).substitute(words)

    def insert(self, path, anchor, text, after=False):
        """`text` before (or after) the first match of `anchor`, a regular expression over lines."""
        before = self.edited.get(path) or (ROOT / path).read_text()
        found = re.search(anchor, before, re.M | re.S)
        if not found:
            raise Refused(f"{path} no longer has the place that dev-lib/new.py looks for: {anchor}",
                          "adapt the anchor in dev-lib/new.py")
        at = found.end() if after else found.start()
        self.edited[path] = before[:at] + text + before[at:]

    def insert_sorted(self, path, line):
        """`line` into the sorted lines of its folder."""
        folder = line.rpartition("/")[0]
        text = (ROOT / path).read_text()
        after = [each for each in re.findall(rf"^{folder}/\S+$", text, re.M) if each > line]
        self.insert(path, rf"^{re.escape(after[0])}$" if after else rf"^{folder}/(?!.*^{folder}/)[^\n]*\n", line + "\n",
                    after=not after)

    def write(self):
        texts = {path: formatted(path, text) for path, text in {**self.made, **self.edited}.items()}
        for path, text in texts.items():
            (ROOT / path).write_text(text)


@functools.cache
def clang_format():
    for name in ("clang-format", f"clang-format-{CLANG_FORMAT}"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
            if f"version {CLANG_FORMAT}." in version:
                return name
    return None


def formatted(path, text):
    """As `./dev format` would leave it, where that program is installed."""
    program = clang_format()
    if not program or not path.endswith((".cc", ".h")):
        return text
    return subprocess.run([program, f"--assume-filename={path}"], cwd=ROOT, input=text, capture_output=True, text=True,
                          check=True).stdout


def filled(head, items, tail, width=COLUMNS):
    """head, items with commas and tail, on as few lines as they fit on, below the end of head."""
    lines = [head]
    for number, item in enumerate(items):
        text = item + (tail if number == len(items) - 1 else ", ")
        if len((lines[-1] + text).rstrip()) > width:
            lines.append(" " * len(head))
        lines[-1] += text
    return "\n".join(line.rstrip() for line in lines)


def in_braces(head, fields):
    """head and its fields, one a line: below the first one if they fit there."""
    lines = ",\n".join(" " * (len(head) + 1) + field for field in fields).lstrip()
    if max(len(line) for line in (head + "{" + lines + "};").split("\n")) > COLUMNS:
        lines = "\n" + ",\n".join("    " + field for field in fields)
    return head + "{" + lines + "};"


def is_anywhere(pattern, folder, suffixes):
    return next((str(path.relative_to(ROOT)) for path in sorted((ROOT / folder).rglob("*"))
                 if path.suffix in suffixes and re.search(pattern, path.read_text(), re.M)), None)


def refuse_if_known(pattern, folder, suffixes, what):
    where = is_anywhere(pattern, folder, suffixes)
    if where:
        raise Refused(f"{where} already has {what}", "choose another name")


# ---------------------------------------------------------------- names

def words_of(name):
    """["list", "things"] of ListThings, list_things or list-things."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def camel(words):
    return "".join(word.capitalize() for word in words)


def check_name(kind, name, pattern, wanted):
    words = words_of(name)
    if re.fullmatch(pattern, name) and len(name) <= NAME_MOST:
        return words
    if words and words[0][0].isalpha() and len(wanted(words)) <= NAME_MOST:
        fix = f"./dev new {kind} {wanted(words)}"
    else:
        fix = f"give a name of at most {NAME_MOST} letters and digits: ./dev new {kind} {wanted(['small', 'thing'])}"
    raise Refused(f"\"{name}\" is not a name for a {kind}", fix)


# ---------------------------------------------------------------- a command of jobctl

SUMMARY, EXAMPLE = "what it does, in one line", "what this line does"
HELP = "docs/jobctl.md"


def two_columns(rows):
    """As in client/help/help.cc, whose page docs/jobctl.md is."""
    width = max(min(len(left), 30) for left, _ in rows)
    lines = []
    for left, right in rows:
        start = f"  {left.ljust(width)}  "
        if len(left) > width:
            lines.append(f"  {left}")
            start = " " * (width + 4)
        while len(right) > 80 - len(start):
            cut = right.rfind(" ", 0, 80 - len(start) + 1)
            if cut <= 0:
                break
            lines.append(start + right[:cut])
            start, right = " " * (width + 4), right[cut + 1:]
        lines.append(start + right)
    return "\n".join(lines) + "\n"


def in_overview(page, name):
    """The page with a row more at the end of its list of commands, which is laid out again around it."""
    head, listed, rest = re.fullmatch(r"(.*?\nCommands:\n)(.*?\n)(\n.*)", page, re.S).groups()
    rows = []
    for line in listed.splitlines():
        found = re.fullmatch(r"  (\S+) +(\S.*)", line)
        if found:
            rows.append([found.group(1), found.group(2)])
        else:
            rows[-1][1] += " " + line.strip()
    return head + two_columns([*rows, (name, SUMMARY)]) + rest


def help_section(name):
    example = f"  jobctl {name}"
    example += ("\n      " if len(example) + len(EXAMPLE) + 4 > 80 else "  ") + f"# {EXAMPLE}"
    return f"## jobctl {name}\n\n```\njobctl {name}: {SUMMARY}\n\n{example}\n\nUsage: jobctl {name}\n```\n\n"


def new_command(name):
    words = check_name("command", name, r"[a-z][a-z0-9]*(-[a-z0-9]+)*", "-".join)
    snake, title = "_".join(words), camel(words)
    commands = "client/commands"
    refuse_if_known(rf'\.name = "{name}[" ]', commands, (".cc",), f"the command {name}")
    refuse_if_known(rf"\bk{title}Command\b|\bRun{title}\b", "client", (".cc", ".h"), f"a k{title}Command or Run{title}")
    places = [int(place) for path in (ROOT / commands).glob("*.cc")
              for place in re.findall(r"\.place = (\d+)", path.read_text())]
    change = Change()
    source, test = f"{commands}/{snake}.cc", f"tests/client/{snake}_test.cc"
    row = in_braces(f"const Command k{title}Command = ", [
        f'.name = "{name}"', f".place = {max(places) + 10}", f'.summary = "{SUMMARY}"',
        f'.examples = "jobctl {name}\\t{EXAMPLE}"', f".run = Run{title}"])
    change.make(source, "command.cc.in", name=name, snake=snake, camel=title, summary=SUMMARY, row=row)
    change.make(test, "command_test.cc.in", name=name, snake=snake, camel=title)
    change.insert("tests/client/CMakeLists.txt", r"\Z",
                  f"muster_jobctl_test(jobctl_{snake}_test SOURCES {snake}_test.cc)\n")
    change.edited[HELP] = in_overview((ROOT / HELP).read_text(), name)
    change.insert(HELP, r"^## Exit codes$", help_section(name))
    return change, f"jobctl_{snake}_test", [
        f"{source}: what it does (Run{title}); its row: place on the help page, summary, arguments, flags, examples",
        f"{test}: what it prints and asks",
        f"{HELP}, once the row is right: build/bin/jobctl help --markdown > {HELP}",
        "CHANGELOG.md: a line for users"]


# ---------------------------------------------------------------- a call of the coordinator

PROTO = "proto/muster/v1/job_service.proto"


def table_row(name):
    """The row in common/calls.h, with the backslash of the line before it, which was the last one."""
    text = (ROOT / "common/calls.h").read_text()
    column = len(re.search(r"^#define MUSTER_JOB_CALLS.*?(?=\\$)", text, re.M).group(0))
    last = re.search(r"^#define MUSTER_JOB_CALLS.*?\n([^\n]*)\n\n", text, re.M | re.S).group(1)
    row = filled("  ONE(", [name, f"{name}Request", f"{name}Response", "kRead", "kCoordinator", "kSmall"], ")",
                 column)
    *broken, end = row.split("\n")
    return "".join([" " * max(column - len(last), 1) + "\\"] + [f"\n{line.ljust(column)}\\" for line in broken] + [f"\n{end}"])


def new_call(name):
    words = check_name("call", name, r"[A-Z][A-Za-z0-9]*[a-z0-9][A-Za-z0-9]*", camel)
    snake = "_".join(words)
    refuse_if_known(rf"\b(rpc|message|enum) {name}(Request|Response)?\b", "proto", (".proto",), f"a {name}")
    # A handler is a function of this name beside all of the coordinator's.
    refuse_if_known(rf"\b{name}\b", "coordinator", (".h",), f"another {name}")
    change = Change()
    source, test = f"coordinator/calls/{snake}.cc", f"tests/coordinator/{snake}_test.cc"
    signature = filled(f"void {name}(", ["const Caller&", f"const v1::{name}Request&", f"Answer<v1::{name}Response> answer"],
                       ") {")
    change.make(source, "call.cc.in", name=name, snake=snake, signature=signature)
    change.make(test, "call_test.cc.in", name=name, snake=snake)
    change.insert(PROTO, r"^service JobService \{.*?(?=^\}$)",
                  f"\n  // What it answers, and its errors.\n  rpc {name}({name}Request) returns ({name}Response);\n", after=True)
    change.insert(PROTO, r"\Z", f"\nmessage {name}Request {{}}\nmessage {name}Response {{}}\n")
    change.insert("common/calls.h", r"^#define MUSTER_JOB_CALLS.*?(?=\n\n)", table_row(name), after=True)
    change.insert("tests/coordinator/CMakeLists.txt", r"\Z",
                  f"muster_test(coordinator_{snake}_test SOURCES {snake}_test.cc workers_daemon.cc LINK muster_coordinator)\n")
    return change, f"coordinator_{snake}_test", [
        f"{PROTO}: the fields of {name}Request and {name}Response, each with a comment",
        "common/calls.h, its row: action and object (who may call it), cost; STREAM if it answers with several messages",
        f"{source}: the handler, which takes the contexts that it uses (coordinator/contexts/contexts.h)",
        f"{test}: what it answers",
        f"the command that calls it, as connection->{name}(request): ./dev new command NAME"]


# ---------------------------------------------------------------- a policy of scheduling

SCHEDULING, BLOCKERS = "coordinator/core/scheduling", "coordinator/core/state/blockers.h"


def blocker_row(title, words):
    fields = [f".reason = Reason::k{title}", f".text = \"is kept back by the policy {' '.join(words)}\"", ".of_demand = false"]
    row = "    {" + ", ".join(fields) + "},\n"
    return row if len(row) <= COLUMNS + 1 else "    {" + ",\n     ".join(fields) + "},\n"


def new_policy(name):
    words = check_name("policy", name, r"[a-z][a-z0-9]*(_[a-z0-9]+)*", "_".join)
    title = camel(words)
    refuse_if_known(rf"\b(class {title}|struct {title}|Make{title}|Reason::k{title})\b", "coordinator/core", (".cc", ".h"),
                    f"a {title}")
    change = Change()
    source, test = f"{SCHEDULING}/{name}.cc", f"tests/coordinator/core/{name}_test.cc"
    change.make(source, "policy.cc.in", words=" ".join(words), camel=title)
    change.make(test, "policy_test.cc.in", words=" ".join(words), snake=name, camel=title)
    change.insert(f"{SCHEDULING}/policies.cc", r"^std::unique_ptr<Policy> MakeDevices\(",
                  f"std::unique_ptr<Policy> Make{title}(Ground& ground);\n")
    change.insert(f"{SCHEDULING}/policies.cc", r"(?=\n      MakeDevices,)", f" Make{title},")
    change.insert(BLOCKERS, r"^enum class Reason \{.*?(?=^\};)", f"  k{title},\n", after=True)
    change.insert(BLOCKERS, r"^inline constexpr auto kBlockers.*?(?=^\}\);)", blocker_row(title, words), after=True)
    change.insert_sorted("coordinator/CMakeLists.txt", f"  core/scheduling/{name}.cc")
    change.insert("tests/coordinator/core/CMakeLists.txt", r"\Z",
                  f"muster_test(coordinator_core_{name}_test\n  SOURCES {name}_test.cc\n"
                  "  LINK muster_cluster_script muster_coordinator_core)\n")
    return change, f"coordinator_core_{name}_test", [
        f"{source}: which jobs it lets start (Allows), and what it counts (OnStart, OnWait)",
        f"{BLOCKERS}, its row: what the job is told; if others may pass it, others_pass; if it lasts for good, so that a "
        "submit is refused: lasts, code (a row of common/error_codes.cc) and fix",
        f"{SCHEDULING}/policies.cc: its place, as a job is told the first reason",
        f"{test}: a job that it keeps back, and when it starts"]


# ---------------------------------------------------------------- the command line

KINDS = {"call": new_call, "policy": new_policy, "command": new_command}


def report(change, test, steps):
    made, edited = sorted(change.made), sorted(change.edited)
    print("made:     " + "\n          ".join(made))
    print("changed:  " + "\n          ".join(edited))
    print("fill in:  " + "\n          ".join(steps))
    print(f"then:     ./dev test '^{test}$'    fails until it is written, and tells what is next")
    if not clang_format():
        print(f"          ./dev format: clang-format {CLANG_FORMAT} is not installed, so long names may need it")
    print(f"undo:     git checkout -- {' '.join(edited)}\n          git clean -f -- {' '.join(made)}\n"
          "          (all that is not committed in these files is lost)")


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in KINDS:
        raise Refused("new takes call, policy or command, and a name",
                      "./dev new call ListThings | ./dev new policy small_thing | ./dev new command small-thing")
    change, test, steps = KINDS[arguments[0]](arguments[1])
    change.write()
    report(change, test, steps)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as refused:
        sys.exit(f"error: {refused}\nfix: {refused.fix}")
