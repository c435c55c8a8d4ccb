"""A name of the standard library needs its header, in the file itself or in one of ours that it includes. Used by lint.py.

What one release of a compiler brings along by accident, the next one does not: a source that compiles on Debian 12 may
not on 13.
"""
import os
import re

ALGORITHMS = ("all_of any_of binary_search clamp copy copy_if copy_n count count_if equal fill find find_if find_if_not for_each "
              "generate is_sorted lower_bound max max_element min min_element minmax mismatch none_of nth_element partial_sort "
              "partition remove_if replace reverse rotate search shuffle sort stable_sort swap_ranges transform unique "
              "upper_bound").split()
NAMES = {  # header: what of std:: it declares
    "algorithm": r"(?:ranges::)?(?:" + "|".join(ALGORITHMS) + r")\(",
    "array": r"array<",
    "atomic": r"atomic<",
    "chrono": r"chrono\b",
    "cmath": r"(?:exp|fabs|floor|isfinite|isinf|isnan|log|log2|lround|nan|pow|round|sqrt)\(",
    "cstdlib": r"(?:abort|exit|getenv|strtol|strtoull)\(",
    "cstring": r"(?:memcmp|memcpy|memset|strcmp|strerror|strlen)\(",
    "functional": r"function<",
    "limits": r"numeric_limits<",
    "map": r"map<",
    "memory": r"(?:make_shared|make_unique|shared_ptr|unique_ptr|weak_ptr)<",
    "mutex": r"(?:lock_guard|mutex|unique_lock)\b",
    "numeric": r"(?:accumulate|gcd|iota|lcm|partial_sum|reduce)\(",
    "optional": r"(?:nullopt\b|optional<)",
    "set": r"set<",
    "sstream": r"[io]?stringstream\b",
    "thread": r"(?:thread|this_thread)\b",
}
USES = {header: re.compile(r"\bstd::" + names) for header, names in NAMES.items()}
INCLUDE = re.compile(r'^#include (?:<(\w+)>|"([^"]+)")', re.M)
FOLDERS = ("", "trainer/include/", "trainer/src/", "tests/trainer/")  # which our includes are named from
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')


def brought(path, texts, seen):
    """The standard headers that a file includes, also by way of ours."""
    headers = set()
    for standard, own in INCLUDE.findall(texts[path]):
        headers.add(standard)
        for folder in (*FOLDERS, os.path.dirname(path) + "/"):
            if folder + own in texts and folder + own not in seen:
                seen.add(folder + own)
                headers |= brought(folder + own, texts, seen)
    return headers


def findings(sources):
    """`sources` are (path, lines) of .cc and .h files. Yields (path, line number, what is wrong)."""
    texts = {path: "\n".join(lines) for path, lines in sources if path.endswith((".cc", ".h"))}
    for path, text in texts.items():
        bare = INCLUDE.sub("", COMMENT_OR_TEXT.sub("", text))
        used = {header: found for header, names in USES.items() if (found := names.search(bare))}
        missing = used.keys() - brought(path, texts, {path})
        for header in sorted(missing):
            name = used[header].group().rstrip("(<")
            line = 1 + text[:text.find(used[header].group())].count("\n")
            yield path, line, f"{name} without #include <{header}>"
