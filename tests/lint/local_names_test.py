"""Tests of local_names.py: which names of two sources count as one."""
import unittest

import local_names


def source(path, *lines):
    return path, ["namespace muster {", "namespace {", *lines, "}  // namespace", "}  // namespace muster"]


def names(*sources):
    return [text.split(":")[0] for _, _, text in local_names.findings(sources)]


class LocalNames(unittest.TestCase):
    def test_two_sources_of_a_folder_with_one_name(self):
        one = source("a/b/one.cc", "std::string_view NameIn(const Row& row) {", "  return row.name;", "}")
        other = source("a/b/other.cc", "std::string NameIn(const File& file) {", "  return Base(file);", "}")
        found = list(local_names.findings([one, other]))
        self.assertEqual([(path, line) for path, line, _ in found], [("a/b/other.cc", 3)])
        self.assertIn("NameIn: a/b/one.cc:3 has a local name like it", found[0][2])

    def test_static_functions_count(self):
        self.assertEqual(names(("a/one.cc", ["static int Sum(int a) {"]), ("a/other.cc", ["static int Sum(long a) {"])), ["Sum"])

    def test_constants_and_types_count(self):
        for line in ("constexpr size_t kInputBytes = 4;", "constexpr char kWords[] = \"a\";", "struct Row {", "enum class Way { kOne };"):
            self.assertEqual(len(names(source("a/one.cc", line), source("a/other.cc", line))), 1, line)
            self.assertEqual(names(("a/one.cc", [line]), ("a/other.cc", [line])), [], line)

    def test_overloads_of_one_source_are_its_own(self):
        self.assertEqual(names(source("a/one.cc", "int Sum(int a) {", "}", "int Sum(long a) {", "}")), [])

    def test_calls_members_and_macros_are_not_definitions(self):
        body = ["void Do() {", "  Sum(1);", "  return Sum(2);", "}"]
        self.assertEqual(names(source("a/one.cc", "int Sum(int a) {", "}"), source("a/other.cc", *body)), [])
        public = ("a/third.cc", ["namespace muster {", "int Sum(int a) {", "}"])
        self.assertEqual(names(source("a/one.cc", "int Sum(int a) {", "}"), public), [])

    def test_units_across_folders(self):
        lists = ("a/CMakeLists.txt", ["muster_sources(a COLD UNIT json", "  one.cc", "  b/other.cc)"])
        line = "int Sum(int a) {"
        self.assertEqual(names(lists, source("a/one.cc", line), source("a/b/other.cc", line)), ["Sum"])
        self.assertEqual(names(lists, source("a/one.cc", line), source("a/third.cc", line)), [])
        areas = [(f"t/src/{area}/CMakeLists.txt", [f"muster_trainer_area({area} UNIT ranks SOURCES {area}.cc)"])
                 for area in ("x", "y")]
        self.assertEqual(names(*areas, source("t/src/x/x.cc", line), source("t/src/y/y.cc", line)), ["Sum"])

    def test_other_folders_and_tests_are_other_programs(self):
        line = "int Sum(int a) {"
        self.assertEqual(names(source("a/one.cc", line), source("b/one.cc", line)), [])
        self.assertEqual(names(source("tests/a/one.cc", line), source("tests/a/other.cc", line)), [])


if __name__ == "__main__":
    unittest.main()
