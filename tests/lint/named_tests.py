"""A test that a page of the documentation names must be there: a claim that says who checks it is checked. Used by
lint.py.

In a table whose column is headed "shown by" or "attacked by", each word in backticks is a test: one of ctest's, a topic of
tests/e2e after "e2e", or a test function. Commands (`./dev …`) are left alone.
"""
import re

COLUMNS = re.compile(r"^(?:shown|attacked) by$")
CELL = re.compile(r"(?<!\\)\|")


def named(lines):
    """(line, name) of each test that the tables of a page name."""
    inside = False
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in CELL.split(line.strip())[1:-1]] if line.startswith("|") else []
        if not cells:
            inside = False
        elif COLUMNS.match(cells[-1]):
            inside = True
        elif inside:
            for name in re.findall(r"`([^`]+)`", cells[-1]):
                if not name.startswith("./dev "):
                    yield number, name


def known(sources):
    """The names of all tests, of (path, lines) of the project's CMakeLists.txt and Python files."""
    names = set()
    for path, lines in sources:
        text = "\n".join(lines)
        if path.startswith("tests/") and path.endswith(".py"):
            names.update(re.findall(r"def (test_\w+)\(", text))
            if path.startswith("tests/e2e/") and path.endswith("_test.py"):
                names.add(path[len("tests/e2e/"):-len("_test.py")])
        elif path.startswith("tests/") and path.endswith("CMakeLists.txt"):
            names.update(re.findall(r"\b[a-z]\w+\b(?!\.)", text))  # Of a file's name, no test.
            names.update("fuzz_" + harness for harness in re.findall(r"(\w+)_fuzz\.cc", text))
    return names


def findings(pages, sources):
    """(path, line, what is wrong) of pages and sources, each (path, lines)."""
    tests = known(sources)
    return [(path, number, f"there is no test `{name}`: name the one that shows it")
            for path, lines in pages for number, name in named(lines) if name not in tests]
