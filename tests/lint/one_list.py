"""A call is one row, a command one file: no source lists them again. Used by lint.py.

The calls are the rows of JobService in common/calls.h, the commands those of the files in client/commands/. A source
that names several of them as rows of a macro, as words, as gRPC's methods or as declarations is a second list, which the
next call or command would be missing in. Those who stand alone are fine: a call that is left out over HTTP, a
handler's own definition.
"""
import re

CALLS = "common/calls.h"
COMMANDS = "client/commands/"
PRODUCT = re.compile(r"^(client|common|coordinator|identity|worker)/.*\.(cc|h|txt)$")
MOST = 4  # named in one source; the fifth makes it a list

ROW = re.compile(r"\b(?:ONE|STREAM|INTAKE|DUPLEX)\((\w+),")
COMMAND = re.compile(r"^const Command k(\w+)Command = ", re.M)
# How a list names a call: "GetJob", "/muster.v1.JobService/GetJob", ROW(GetJob, …), Stub::GetJob, and the prototype of a
# handler (Daemon& …).
CALL_NAMED = re.compile(r'"(?:/muster\.v1\.JobService/)?([A-Z]\w+)"|\b[A-Z_]{3,}\((\w+),|\bStub::(\w+)|'
                        r"^void (\w+)\([^;{]*Daemon& \w+[^{;]*;", re.M)
COMMAND_NAMED = re.compile(r"\bk(\w+)Command\b(?! = )")
# A command that is treated differently by its name.
COMPARED = re.compile(r'\bname == "([a-z][a-z -]*)"')
WORD = re.compile(r'^const Command k\w+Command = \{\s*\.name = "([^"]+)"', re.M)


def without_comments(lines):
    return "\n".join(line.split("//", 1)[0] for line in lines)


def repeated(path, text, pattern, known, remedy):
    """A finding where the source names more than MOST of what is known."""
    named = {}
    for found in pattern.finditer(text):
        name = next(filter(None, found.groups()), None)
        if name in known:
            named.setdefault(name, text.count("\n", 0, found.start()) + 1)
    if len(named) > MOST:
        yield path, sorted(named.values())[MOST], f"a second list of {len(named)} {remedy}"


def findings(sources):
    """`sources` are (path, lines) of C++ and CMakeLists.txt. Yields (path, line number, what is wrong)."""
    texts = {path: without_comments(lines) for path, lines in sources if PRODUCT.match(path)}
    calls = set(ROW.findall(texts.get(CALLS, "")))
    rows = "\n".join(text for path, text in texts.items() if path.startswith(COMMANDS))
    commands, words = set(COMMAND.findall(rows)), set(WORD.findall(rows))
    for path, text in sorted(texts.items()):
        if path != CALLS:
            yield from repeated(path, text, CALL_NAMED, calls,
                                f"calls: make it from MUSTER_JOB_CALLS ({CALLS}), or put what differs into the row")
        if path.startswith("client/"):
            yield from repeated(path, text, COMMAND_NAMED, commands,
                                f"commands: make it from MUSTER_COMMANDS ({COMMANDS}commands.h)")
        if path.startswith("client/") and not path.startswith(COMMANDS):
            for found in COMPARED.finditer(text):
                if found.group(1) in words:
                    yield path, text.count("\n", 0, found.start()) + 1, (
                        f"the command \"{found.group(1)}\" by its name: what is special about it belongs into its row "
                        "(client/command_line/command.h)")
