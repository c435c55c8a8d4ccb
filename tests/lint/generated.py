"""A part of a page that a script writes, between two lines: what it should be, and where it is not. Used by draw_rooms.py
and limits_reference.py.
"""
import os
import sys

END = "<!-- end -->"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def replaced(text, begin, body):
    """The page's text with this body between `begin` and END; None if they are missing."""
    start = text.find(begin)
    end = text.find(END, start)
    if start < 0 or end < 0:
        return None
    return text[:start] + begin + "\n" + body + "\n" + text[end:]


def findings(pages, page, begin, body, script):
    """(path, line, what is wrong) with that part of that page; `pages` are (path, lines)."""
    for path, lines in pages:
        if path != page:
            continue
        text = "\n".join(lines)
        expected = replaced(text, begin, body)
        if expected is None:
            yield path, 1, f"no place for what {script} writes: put {begin} and {END} around it"
        elif expected != text:
            yield path, text[:text.find(begin)].count("\n") + 1, f"out of date: run {script}"


def rewrite(page, begin, body):
    """Writes the body into the page. The exit status of a script that does only this."""
    path = os.path.join(ROOT, page)
    with open(path, encoding="utf-8") as file:
        text = replaced(file.read(), begin, body)
    if text is None:
        print(f"{page} has no lines {begin} and {END}", file=sys.stderr)
        return 1
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return 0
