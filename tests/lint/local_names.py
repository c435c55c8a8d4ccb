"""Local functions, constants and types of two sources that may be compiled as one must not share a name. Used by lint.py.

Several sources of a target are compiled as one translation unit (cmake/MusterUnits.cmake): neighbors in a list of a
CMakeLists.txt, those that it puts into a unit by its name, and those of a folder that it takes whole. Two local functions with the same name and the same
parameters are a compiler error there. With different parameters they become overloads, and a call may silently reach the
other file's function. This check finds those, and constants and types that only some build tree (release, sanitizers, fuzzing)
compiles as one source.
"""
import collections
import os
import re

OPENS = re.compile(r"^namespace \{")
CLOSES = re.compile(r"^\}  // namespace$")
# A definition or declaration at the left margin: a return type, a name, an open parenthesis.
FUNCTION = re.compile(r"^(?!using |namespace |class |struct |enum |template|static_assert|return |#|//|\}|friend )"
                      r"[A-Za-z_][\w:<>,*&\[\]() ]*?[ *&>]([A-Za-z_]\w*)\((?!\*)")
# One that is a constant or a type.
OTHER = re.compile(r"^(?:(?:constexpr|const)\b.*?\b(k[A-Z]\w*)\s*(?:\[[^\]]*\])?\s*[={;]|(?:struct|class|enum class) (\w+) [:{f])")
# muster_sources(TARGET … UNIT NAME a.cc…), muster_trainer_area(NAME UNIT NAME SOURCES a.cc…), and lists without a name.
NAMED = re.compile(r"muster_(?:sources\((\w+)(?: COLD)?|trainer_(area)\(\w+) UNIT (\w+)\s([^()]*)\)")
LISTED = re.compile(r"(?:muster_sources\(\w+(?: COLD)?|set\(\w+)((?:\s+[\w/]+\.cc\b)+)\s*\)")
ALONE = re.compile(r"^(tests|trainer/plugins)/")  # each source is a separate target


def local_functions(lines):
    """Yields (line number, name) of each function that is static or in an unnamed namespace, each name once."""
    inside, seen = False, set()
    for number, line in enumerate(lines, 1):
        if OPENS.match(line):
            inside = True
        elif CLOSES.match(line):
            inside = False
        elif inside or line.startswith("static "):
            found = FUNCTION.match(line) or (OTHER.match(line) if inside else None)
            name = found and next(filter(None, found.groups()))
            if name and name not in seen and not name.startswith("operator"):
                seen.add(name)
                yield number, name


def units(sources):
    """{path of a source: the unit or the list of a CMakeLists.txt that names it}."""
    found = {}

    def take(path, names, unit):
        for source in re.findall(r"\S+\.cc\b", names):
            found[os.path.normpath(os.path.join(os.path.dirname(path), source))] = unit

    for path, lines in sources:
        if os.path.basename(path) == "CMakeLists.txt":
            text = "\n".join(lines)
            for number, listed in enumerate(LISTED.finditer(text)):
                take(path, listed.group(1), f"{path}:{number}")
            for named in NAMED.finditer(text):
                take(path, named.group(4), f"{named.group(1) or named.group(2)}:{named.group(3)}")
    return found


def findings(sources):
    """`sources` are (path, lines) of .cc files and of CMakeLists.txt. Yields (path, line number, what is wrong)."""
    sources = list(sources)
    places = collections.defaultdict(list)
    unit_of = units(sources)
    for path, lines in sources:
        if path.endswith(".cc") and not ALONE.match(path):
            for number, name in local_functions(lines):
                places[unit_of.get(path, os.path.dirname(path)), name].append((path, number))
    for (_, name), where in sorted(places.items()):
        first = where[0]
        for path, number in where[1:]:
            yield path, number, (f"{name}: {first[0]}:{first[1]} has a local name like it, and both may be "
                                 "compiled as one source: rename one or share it")
