#!/usr/bin/env python3
"""Draws the rooms of rooms.py as ARCHITECTURE.md shows them, floor by floor. Run it to rewrite the picture after a
change of that table; lint.py reports a picture that is out of date.

    draw_rooms.py           rewrites the picture
    draw_rooms.py --print   only prints it
"""
import sys
import textwrap

import generated
import rooms

PAGE = "ARCHITECTURE.md"
BEGIN = "<!-- floors: written by tests/lint/draw_rooms.py from tests/lint/rooms.py -->"
WIDTH = 110
# Areas side by side and their widths, from the top: an area sees only what is below it. What has no C++ rooms of ours
# (proto, page, LibTorch) is drawn too.
ROWS = [
    [("client", 82)],
    [("replay", 82), ("bench", 26)],
    [("coordinator", 66), ("worker", 43)],
    [("compare", 13), ("identity", 13), ("tree", 12), ("shim", 13), ("unwind", 13), ("rendezvous", 14),
     ("examples", 26)],
    [("common", 83), ("trainer", 26)],
    [("proto", 41), ("page", 41), ("LibTorch", 26)],
]


def shown(area, name):
    """A room's name in its area: pure ones with a star."""
    room = area if name == "." else f"{area}/{name}"
    return (f"{area}/" if name == "." else name) + ("*" if rooms.in_list(room, rooms.PURE) else "")


def box(area, width):
    """The lines of an area, without its lower border: what it sees, and its floors from the top."""
    inner = width - 4
    lines = [area + ("*" if area not in rooms.FLOORS and rooms.in_list(area, rooms.PURE) else "")]
    seen = rooms.AREAS.get(area, ())
    if seen:
        lines += textwrap.wrap("sees " + ", ".join(seen), inner, subsequent_indent=" ")
    floors = rooms.FLOORS.get(area, [])
    for number in range(len(floors), 0, -1):
        text = ", ".join(shown(area, name) for name in floors[number - 1])
        lines += textwrap.wrap(f"{number:2} {text}", inner, subsequent_indent="   ", break_on_hyphens=False)
    return ["┌" + "─" * (width - 2) + "┐", *(f"│ {line:<{inner}} │" for line in lines)]


def row(areas):
    """Boxes side by side that stand on one line."""
    boxes = [(box(area, width), width) for area, width in areas]
    height = max(len(lines) for lines, _ in boxes)
    padded = [[" " * width] * (height - len(lines)) + lines for lines, width in boxes]
    yield from (" ".join(parts).rstrip() for parts in zip(*padded))
    yield " ".join("└" + "─" * (width - 2) + "┘" for _, width in boxes)


def short(name):
    """A room without its area: "care"; the area's own folder: "coordinator/"; all rooms below one: "http/*"."""
    area, _, room = name.partition("/")
    return (f"{room}*" if room.endswith("/") else room) or f"{area}/"


def picture():
    lines = [line for areas in ROWS for line in row(areas)]
    lines.append("* pure: no thread, clock, file, random number or log")
    known = "; ".join(f"{short(room)} to {', '.join(map(short, users))}" for room, users in rooms.KNOWN_TO.items())
    lines += textwrap.wrap(f"known only to some rooms: {known}", WIDTH, subsequent_indent="  ")
    return "\n".join(["```", *lines, "```"])


def findings(pages):
    """(path, line, what is wrong) with the picture, of pages (path, lines)."""
    yield from generated.findings(pages, PAGE, BEGIN, picture(), "tests/lint/draw_rooms.py")


def main():
    if sys.argv[1:] == ["--print"]:
        print(picture())
        return 0
    return generated.rewrite(PAGE, BEGIN, picture())


if __name__ == "__main__":
    sys.exit(main())
