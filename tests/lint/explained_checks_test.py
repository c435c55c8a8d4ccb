"""Tests of explained_checks.py: which aborts are not explained."""
import unittest

import explained_checks


def lines_of(*lines, path="worker/a.cc"):
    return [line for _, line, _ in explained_checks.findings([(path, list(lines))])]


class ExplainedChecks(unittest.TestCase):
    def test_one_without_a_comment_is_found(self):
        self.assertEqual(lines_of("int a;", "  CHECK(a > 0);", "  if (!b) std::abort();", "  LOG(FATAL) << c;"), [2, 3, 4])

    def test_a_comment_on_the_line_or_right_above_explains_it(self):
        self.assertEqual(lines_of("  CHECK(a > 0);  // counted above", "", "  // Never of others.", "  CHECK(b);"), [])
        self.assertEqual(lines_of("  // Of another line.", "  int c = 1;", "  CHECK(b);"), [3])

    def test_a_row_of_them_needs_one(self):
        self.assertEqual(lines_of("  // Counted by us.", "  CHECK(a);", "  CHECK(b);", "", "  CHECK(c);"), [5])

    def test_a_word_a_text_and_others_names_do_not_count(self):
        self.assertEqual(lines_of("  CHECK(a);  // NOLINT now"), [1])
        self.assertEqual(lines_of("  CHECK(a);  // ours"), [1])
        self.assertEqual(lines_of('  f("std::abort()");', "  id INTEGER CHECK(id = 1),", "  stream.abort();", "// CHECK(a)"), [])

    def test_tests_and_the_macro_itself_are_free(self):
        for path in ("tests/worker/a.cc", "trainer/src/a.cc", "common/base/status.h", "worker/a.py"):
            self.assertEqual(lines_of("  CHECK(a);", path=path), [])


if __name__ == "__main__":
    unittest.main()
