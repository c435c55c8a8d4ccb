#!/usr/bin/env python3
"""Writes the source that holds the page's files (assets.h):  embed.py OUTPUT NAME=PATH…

Each file is compressed, its scripts without comments and indentation, and has an address under "/assets/HASH/",
where HASH is that of all of them, so that a browser may keep it forever. In index.html, @ASSETS@ becomes "/assets/HASH",
and @VIEWS@ the links to the views: NAME/NAME.js that says "@view PLACE TITLE" in its first comment has the address /NAME,
the first one of all "/".
"""
import gzip
import hashlib
import re
import sys


BLOCK = re.compile(r"^[ ]*/\*.*?\*/[ ]*\n", re.M | re.S)
# No quote follows, so this is not within a text.
AT_THE_END = re.compile(r"""[ ]+// [^"'`]*$""")


# A template is one only where the line has no other: it may hold another one.
QUOTED = re.compile(r"""("[^"\\]*"|'[^'\\]*')""")
QUOTED_OR_TEMPLATE = re.compile(r"""("[^"\\]*"|'[^'\\]*'|`[^`\\]*`)""")
SPACED = re.compile(r"\s*([{}()\[\];,:=<>!&|?*])\s*")


def tight(line):
    """Without the spaces that nothing needs. A line that might hold more than code and plain texts stays as it is."""
    parts = (QUOTED_OR_TEMPLATE if line.count("`") == 2 else QUOTED).split(line)
    code = "".join(parts[::2])
    if any(each in code for each in "`/\\\"'"):
        return line
    return "".join(part if at % 2 else SPACED.sub(r"\1", part) for at, part in enumerate(parts))


def lean_script(text):
    """Without comments and spaces that nothing needs, but line by line: what a browser reports still reads like the
    source. A text over several lines keeps its file as it is."""
    if any(line.count("`") % 2 for line in text.split("\n")):
        return text
    lines = (AT_THE_END.sub("", line).strip() for line in BLOCK.sub("", text).split("\n"))
    return "\n".join(tight(line) for line in lines if line and not line.startswith("//")) + "\n"


def lean_style(text):
    """A rule per line, without comments and the spaces that nothing needs."""
    text = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    text = re.sub(r" ?([{};,]) ?", r"\1", text).replace(": ", ":")
    return text.replace(";}", "}").replace("}", "}\n").strip() + "\n"


def read(name, path):
    with open(path, "rb") as file:
        content = file.read()
    if ".min." in name or not name.endswith((".js", ".css")):
        return content
    lean = lean_script if name.endswith(".js") else lean_style
    return lean(content.decode()).encode()


VIEW = re.compile(r"^/\*\*(?:(?!\*/).)*?@view (\d+) (\w+)", re.S)


def views(named):
    """(address, name, title) of each, in their order."""
    found = []
    for name, path in named:
        folder, _, file = name.partition("/")
        if file != f"{folder}.js":
            continue
        with open(path, encoding="utf-8") as script:
            said = VIEW.match(script.read())
        if said:
            found.append((int(said.group(1)), folder, said.group(2)))
    return [(f"/{name}" if at else "/", name, title) for at, (_, name, title) in enumerate(sorted(found))]


def links(shown):
    return "\n".join(f'    <a href="{address}" data-view="{name}">{title}</a>' for address, name, title in shown)


def literal(data):
    return ",".join(map(str, data))


def source(files, shown):
    listed = hashlib.sha256(b"".join(name.encode() + b"\0" + hashlib.sha256(data).digest() for name, data in files))
    prefix = f"/assets/{listed.hexdigest()[:16]}"
    arrays, rows = [], []
    pages = ", ".join(f'"{address}"' for address, _, _ in shown)
    for number, (name, data) in enumerate(files):
        if name == "index.html":
            data = data.replace(b"@ASSETS@", prefix.encode()).replace(b"@VIEWS@", links(shown).encode())
        compressed = gzip.compress(data, 9, mtime=0)
        arrays.append(f"constexpr unsigned char kBytes{number}[] = {{{literal(compressed)}}};\n")
        rows.append(f'    {{"{name}", kBytes{number}, {len(data)}}},\n')
    return f"""// Made by page/embed.py.
#include "page/assets.h"

namespace muster::page {{
namespace {{

{"".join(arrays)}
constexpr Asset kAssets[] = {{
{"".join(rows)}}};
constexpr std::string_view kPages[] = {{{pages}}};

}}  // namespace

std::string_view AssetPrefix() {{ return "{prefix}/"; }}
std::span<const Asset> Assets() {{ return kAssets; }}
std::span<const std::string_view> Pages() {{ return kPages; }}

}}  // namespace muster::page
"""


def main():
    output, *named = sys.argv[1:]
    named = [each.split("=", 1) for each in sorted(named)]
    files = [(name, read(name, path)) for name, path in named]
    with open(output, "w") as file:
        file.write(source(files, views(named)))


if __name__ == "__main__":
    main()
