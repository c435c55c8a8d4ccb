"""A CHECK, or another abort, takes the whole daemon and everybody's jobs with it. Used by lint.py.

So a comment on its line or right above it states why no job, peer, client, disk or library can reach it. What one of these
can reach must be an error that goes back to it.
"""
import re

import rooms

PRODUCT = re.compile(rf"^{rooms.PRODUCT}/.*\.(cc|h)$")
DEFINES = "common/base/status.h"
COMMENT_OR_TEXT = re.compile(r'//.*|"(?:\\.|[^"\\])*"')
ABORTS = re.compile(r"^\s*(?:if \(.*\) )?CHECK\(|(?<![\w.>])(?:std::|::)?(?:abort|terminate)\(\)|\bLOG\(FATAL\b|"
                    r"\b__builtin_trap\(")
WORDS = re.compile(r"//\s*(?!NOLINT)\S+\s+\S+")  # more than a word


def findings(sources):
    """`sources` are (path, lines) of .cc and .h files. Yields (path, line number, what is wrong)."""
    for path, lines in sources:
        if not PRODUCT.match(path) or path == DEFINES:
            continue
        explained = False  # those right below one that is explained are explained by it
        for number, line in enumerate(lines, 1):
            if not ABORTS.search(COMMENT_OR_TEXT.sub("", line)):
                explained = bool(WORDS.match(line.strip()))
                continue
            explained = explained or bool(WORDS.search(line))
            if not explained:
                yield path, number, (f"{line.strip()[:50]}: say on this line or right above it why no job, peer, client, disk or "
                                     "library can reach it; if one can, return an error")
