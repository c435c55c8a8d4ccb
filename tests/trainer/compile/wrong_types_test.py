"""A type that prepare() does not accept, or a call that a prepared object refuses, causes a one-sentence error, not a
screen of templates.

    wrong_types_test.py   (MUSTER_BUILD: the build directory)
"""
import json
import os
import re
import shlex
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("MUSTER_BUILD", "build")
SOURCES = [os.path.join(HERE, name) for name in ("wrong_types.cc", "wrong_calls.cc")]
LINES_MAX = 16  # of compiler output per error: location, sentence, condition


def compile_as_the_tests_are(sources):
    """Returns the compiler's output for all of them at once; runs it without the launcher."""
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
        entry = next(each for each in json.load(file) if "/trainer_sharding_refusals_test.dir/" in each["command"])
    words = shlex.split(entry["command"])
    while not re.fullmatch(r"(.*/)?(c\+\+|g\+\+|clang\+\+)(-\d+)?", words[0]):
        words.pop(0)
    command = words[:words.index("-o")] + ["-fsyntax-only", "-fdiagnostics-color=never", "-x", "c++", "-"]
    unit = "".join(f'#include "{source}"\n' for source in sources)
    return subprocess.run(command, cwd=entry["directory"], input=unit, capture_output=True, text=True, timeout=240).stderr


class WrongTypes(unittest.TestCase):
    def test_each_costs_one_sentence_and_right_ones_none(self):
        expected = []
        for source in SOURCES:
            with open(source, encoding="utf-8") as file:
                expected += re.findall(r"[;(] +// WRONG: (.*)$", file.read(), flags=re.M)
        message = compile_as_the_tests_are(SOURCES)
        errors = [line for line in message.splitlines() if re.search(r"\berror: ", line)]
        # Once per type: the compiler does not repeat errors.
        self.assertEqual(len(errors), len(expected), message)
        for sentence in expected:
            error = next((each for each in errors if sentence in each), None)
            self.assertIsNotNone(error, sentence + "\n" + message)
            self.assertIn("static assertion failed: ", error)
            errors.remove(error)
        self.assertLessEqual(len(message.splitlines()), LINES_MAX * len(expected), message)


if __name__ == "__main__":
    unittest.main(verbosity=2)
