"""CONTRIBUTING's table of words as a rule over comments, strings, help and docs. Used by lint.py.

Each row is a turn of phrase that keeps coming back, and what the field writes instead. A line that must have one (a
quotation, an interface of another program) ends with `plain-words: REASON` in a comment, or stands in EXCEPT.
"""
import re

# (what is not written, what is written instead). Patterns are matched without regard to case.
ROWS = [
    (r"\b(?:says so|it is said|is said (?:to|once|so)|says the \w+|say so)\b",
     '"reports", "prints", "logs", or the exact message'),
    (r"(?<!there )(?<!there, )\b(?:is|are|was|were) no (?!longer|more|less|later|earlier|larger|smaller|better|worse|different|shorter|matter)"
     r"(?:[a-z]+)\b", '"is not a …", "does not count as …"'),
    # Not the name of an account or a job: "nobody", user:nobody, /jobs/nobody.
    (r"(?<![=:/])\b(?:nobody|somebody)\b(?!(?<=[\"']nobody)[\"'\\])", 'the actor: "no one else", "another user", "the peer"'),
    (r"\bwhoever\b", 'the actor: "the process that …", "the user who …"'),
    (r"\b(?:goes|go|went|going|gone) on\b", '"continues", "resumes"'),
    (r"\btak(?:es?|ing) up (?!to\b|too\b|room|space|\d)", '"resumes", "adopts"'),
    (r"\b(?:said again|a whole report)\b", '"resends", "each report carries full state"'),
    (r"\bdivided over\b", '"sharded"'),
    (r"\b(?:let|lets) go\b", '"resharded", "released"'),
    (r"\ban? [a-z]+(?: [a-z]+)? of (?:its|their|our|one's|your) own\b", '"its own …", "a separate …"'),
    (r"\bby (?:itself|themselves)\b", '"automatically", "alone"'),
    (r"\bends (?:a|the) process\b", '"kills" or "stops a process"'),
    (r"\bsaid its last\b", '"after it half-closes"'),
    (r"\b(?:anew|for ever)\b", '"again", "over", "forever"'),
    (r"\b(?:opens?|opened|starts?|started|begins?) (?:it |them )?again\b", '"reopens", "restarts", "starts over"'),
    (r"\b(?:levels, not edges|held by their pipes)\b", "the term instead of the image"),
]
RULES = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in ROWS]

READ = re.compile(r"^(?!tests/data|CHANGELOG\.md$|CONTRIBUTING\.md$|tests/lint/plain_words)"
                  r".*(?:\.(?:h|cc|md|py|js|proto|sh|cmake|yaml|service)|/?dev|CMakeLists\.txt)$")
EXCUSED = re.compile(r"plain-words: \S")
# Quotations in code blocks of pages, where a comment would be quoted too: what a model printed.
EXCEPT = {("examples/char_transformer/README.md", "for ever")}
COMMENT = {".h": "//", ".cc": "//", ".js": "//", ".proto": "//", ".py": "#", ".sh": "#", ".cmake": "#", ".yaml": "#"}
STRING = re.compile(r'"(?:\\.|[^"\\])*"')


def prose(path, line):
    """What of a line a person reads: in a page all of it, in code the comment and the strings."""
    if path.endswith((".md", ".js", ".py", ".proto")) or "." not in path.rsplit("/", 1)[-1]:
        return line
    mark = COMMENT.get(path[path.rfind("."):], "#")
    at = line.find(mark)
    comment = line[at:] if at >= 0 else ""
    return " ".join([*STRING.findall(line[:at] if at >= 0 else line), comment])


def findings(sources):
    """`sources` are (path, lines). Yields (path, line number, what is wrong)."""
    for path, lines in sources:
        if not READ.match(path):
            continue
        for number, line in enumerate(lines, 1):
            if EXCUSED.search(line):
                continue
            text = prose(path, line)
            for pattern, instead in RULES:
                found = pattern.search(text)
                if found and (path, found.group(0)) not in EXCEPT:
                    yield path, number, f'"{found.group(0)}": write {instead} (CONTRIBUTING, "How we write")'
