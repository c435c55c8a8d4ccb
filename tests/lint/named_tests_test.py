#!/usr/bin/env python3
"""What lint says about tests that a page names."""
import unittest

import named_tests

SOURCES = [("tests/e2e/secure_test.py", ["    def test_a_port_says_nothing(self):"]),
           ("tests/CMakeLists.txt", ["muster_test(shim_test SOURCES pipes_test.cc)"]),
           ("tests/fuzz/CMakeLists.txt", ["muster_fuzz(job_file job_file_fuzz.cc)"]),
           ("worker/CMakeLists.txt", ["add_library(nothing_test)"])]
PAGE = ["| who | shown by |", "|---|---|", "| a | {} |", "", "`elsewhere` is not a test"]


class NamedTests(unittest.TestCase):
    def found(self, cell):
        page = ("docs/page.md", [line.format(cell) for line in PAGE])
        return [(line, text.split("`")[1]) for _, line, text in named_tests.findings([page], SOURCES)]

    def test_what_is_there_is_fine(self):
        self.assertEqual(self.found("e2e `secure` `test_a_port_says_nothing`; `shim_test`, `fuzz_job_file`, `./dev fuzz all`"), [])

    def test_what_is_not_there_is_found_with_its_line(self):
        self.assertEqual(self.found("e2e `gone`, `shim_test`, `test_of_nothing`, `nothing_test`, `pipes_test`"),
                         [(3, "gone"), (3, "test_of_nothing"), (3, "nothing_test"), (3, "pipes_test")])

    def test_a_pipe_in_a_cell_is_no_border(self):
        self.assertEqual(self.found("`a\\|b`"), [(3, "a\\|b")])


if __name__ == "__main__":
    unittest.main()
