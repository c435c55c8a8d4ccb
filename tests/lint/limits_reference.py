#!/usr/bin/env python3
"""The limits of docs/limits-reference.md, collected from where they stand. A limit is marked in a comment right above it,

    // limit: SUBJECT: what it bounds; what happens at it
    inline constexpr size_t kExecMessageBytesMax = 64 * 1024;

and the comment may have several lines. Run this to rewrite the page; lint.py reports a page that is out of date.
"""
import re
import sys

import generated
import rooms

PAGE = "docs/limits-reference.md"
SCRIPT = "tests/lint/limits_reference.py"
BEGIN = f"<!-- limits: written by {SCRIPT} from the comments \"limit: …\" -->"
READ = re.compile(rf"^(?:{rooms.PRODUCT}/.*\.(?:h|cc)"
                  r"|python/src/.*\.py)$")
MARK = re.compile(r"^\s*(?://|#) limit: ([^:]+): (.+)$")
MORE = re.compile(r"^\s*(?://|#) (.+)$")
DECLARATION = re.compile(r"(?P<type>[\w:<>]*)\s+(?P<name>\w+)\s*(?:=\s*(?P<value>[^;]+)|\{(?P<braced>.*)\})\s*;")
PYTHON = re.compile(r"^(?P<name>\w+) = (?P<value>[^#]+)")
ALIAS = re.compile(r"`(?:\w+::)*(k\w+)`")
TIMES = {"milliseconds": 1, "seconds": 1_000, "minutes": 60_000, "hours": 3_600_000}


def number(text):
    """The value of an expression of numbers, or None."""
    text = re.sub(r"\b(?:u?int(?:32|64)_t|size_t|rlim_t)\{(.*?)\}", r"\1", text)
    text = re.sub(r"(?<=\d)['_](?=\d)", "", text)
    text = re.sub(r"\b(\d+)(?:ULL|ull|LL|ll|UL|U|u|L)\b", r"\1", text)
    if not re.fullmatch(r"[\d\s+*<>()-]+|\d+\.\d+", text):
        return None
    return eval(text, {"__builtins__": {}})  # digits and operators alone


def of_bytes(count):
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count and count % (1 << power) == 0:
            return f"{count >> power:,} {unit}"
    return f"{count:,} bytes"


def of_time(ms):
    for size, unit in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= 2 * size and ms % size == 0 or ms == size and unit != "days":
            return f"{ms // size} {unit}"
    return f"{ms:,} ms"


def shown(kind, name, text):
    """A value as a person reads it."""
    text = " ".join(text.split())
    value = number(text)
    if value is None:
        return "`" + re.sub(r"(?<=\d)'(?=\d)", ",", text) + "`"
    for unit, ms in TIMES.items():
        if kind.endswith(unit):
            return of_time(value * ms)
    if re.search(r"Bytes|bytes|BYTES", name) or re.search(r"<< [1-4]0|\* 1024", text):
        return of_bytes(value)
    if re.search(r"Ms(?:$|[A-Z])", name):
        return of_time(value)
    if re.search(r"(?:[a-z]S|Seconds|_S)$", name):
        return of_time(int(value * 1_000))
    return f"{value:,}"


def limits(sources):
    """(subject, path, line, name, value, meaning) of each mark in sources (path, lines); of one whose limit cannot be read
    the name is None."""
    for path, lines in sources:
        if not READ.match(path):
            continue
        number_of = 0
        while number_of < len(lines):
            mark = MARK.match(lines[number_of])
            number_of += 1
            if mark is None:
                continue
            at, words = number_of, [mark.group(2)]
            while number_of < len(lines) and (more := MORE.match(lines[number_of])):
                words.append(more.group(1))
                number_of += 1
            code = ""
            while number_of < len(lines) and not code.rstrip().endswith((";", "]")) and len(code) < 400:
                code += " " + re.sub(r"\s*//.*", "", lines[number_of])
                number_of += 1
                if path.endswith(".py"):
                    break
            found = (PYTHON if path.endswith(".py") else DECLARATION).search(code.strip() if path.endswith(".py") else code)
            if found is None:
                yield mark.group(1), path, at, None, "", ""
                continue
            parts = found.groupdict()
            value = parts["value"] if parts["value"] is not None else parts["braced"]
            yield (mark.group(1), path, at, parts["name"], shown(parts.get("type", ""), parts["name"], value.strip()),
                   " ".join(words))


def tables(sources):
    """The page's generated part: a table for each subject."""
    by_subject = {}
    found = list(limits(sources))
    values = {name: value for _, _, _, name, value, _ in found}
    for subject, path, _, name, value, meaning in found:
        if name is not None:
            other = ALIAS.fullmatch(value)  # another limit's name
            value = values.get(other.group(1), value) if other else value
            by_subject.setdefault(subject, []).append(f"| {value} | {meaning} | `{name}` in `{path}` |")
    return "\n\n".join(f"## {subject[0].upper()}{subject[1:]}\n\n| limit | of what | where |\n|---|---|---|\n" + "\n".join(rows)
                       for subject, rows in sorted(by_subject.items(), key=lambda item: item[0].lower()))


def findings(pages, sources):
    """(path, line, what is wrong) of the page, and of marks above something that is not a limit."""
    for _, path, line, name, _, _ in limits(sources):
        if name is None:
            yield path, line, "a mark \"limit: …\" that no constant follows"
    yield from generated.findings(pages, PAGE, BEGIN, tables(sources), SCRIPT)


def main():
    import lint
    sources = []
    for path in lint.project_files():
        if READ.match(path):
            with open(f"{generated.ROOT}/{path}", encoding="utf-8") as file:
                sources.append((path, file.read().split("\n")))
    return generated.rewrite(PAGE, BEGIN, tables(sources))


if __name__ == "__main__":
    sys.exit(main())
