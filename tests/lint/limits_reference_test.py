"""Tests of limits_reference.py: how a marked limit is read, and when the page is out of date."""
import unittest

import generated
import limits_reference


def read(*lines, path="common/base/limits.h"):
    return [tuple(found[3:]) for found in limits_reference.limits([(path, list(lines))])]


class LimitsReference(unittest.TestCase):
    def test_values_are_shown_with_their_units(self):
        for code, value in (("inline constexpr size_t kLogBytesMax = 256 * 1024;  // data", "256 KiB"),
                            ("static constexpr size_t kPendingMax = 10'000;", "10,000"),
                            ("constexpr std::chrono::seconds kWithin{60};", "1 min"),
                            ("constexpr std::chrono::hours kKept{25};", "25 h"),
                            ("constexpr int64_t kStuckMs = 10'000;", "10 s"),
                            ("constexpr uint64_t kImageBytesMax = uint64_t{1} << 40;", "1 TiB"),
                            ("uint64_t live_bytes_max = 640ull << 20;", "640 MiB"),
                            ("size_t most = 128;", "128"),
                            ("constexpr int kFetchMs = 2 * 3'600'000;", "2 h"),
                            ("constexpr size_t kEntriesMax = 2 * kFilesMax;", "`2 * kFilesMax`"),
                            ("Rate all{.per_second = 50, .saved_up = 500};", "`.per_second = 50, .saved_up = 500`")):
            self.assertEqual(read("// limit: a: b", code)[0][1], value, code)

    def test_a_mark_and_a_value_may_have_several_lines(self):
        self.assertEqual(read("  // limit: trees: entries of one;", "  // it is refused", "  size_t kMost =", "      16 << 20;"),
                         [("kMost", "16 MiB", "entries of one; it is refused")])

    def test_a_limit_that_is_another_has_its_value(self):
        sources = [("common/a.h", ["// limit: a: one", "size_t kOneBytes = 1 << 10;", "// limit: a: two", "size_t kTwo = b::kOneBytes;"])]
        self.assertIn("| 1 KiB | two | `kTwo`", limits_reference.tables(sources))

    def test_python(self):
        self.assertEqual(read("# limit: reporter: points that wait", "QUEUED_MAX = 65_536  # of all",
                              path="python/src/muster/_reporter.py"), [("QUEUED_MAX", "65,536", "points that wait")])

    def test_other_files_and_comments_are_left_alone(self):
        self.assertEqual(read("// limit: a: b", "int kMost = 1;", path="tests/common/a_test.cc"), [])
        self.assertEqual(read("// the limit: none", "int kMost = 1;"), [])

    def test_a_mark_without_a_constant(self):
        found = list(limits_reference.findings([], [("worker/a.cc", ["// limit: a: b", "", "void F() {", "}"])]))
        self.assertEqual([(path, line) for path, line, _ in found], [("worker/a.cc", 1)])

    def test_a_page_that_is_out_of_date(self):
        sources = [("worker/a.cc", ["// limit: a: b", "int kMost = 1;"])]
        page = "\n".join(["# Limits", limits_reference.BEGIN, limits_reference.tables(sources), generated.END])
        pages = [(limits_reference.PAGE, page.split("\n"))]
        self.assertEqual(list(limits_reference.findings(pages, sources)), [])
        sources[0][1][1] = "int kMost = 2;"
        self.assertEqual([line for _, line, _ in limits_reference.findings(pages, sources)], [2])


if __name__ == "__main__":
    unittest.main()
