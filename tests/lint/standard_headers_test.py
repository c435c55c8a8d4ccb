"""Tests of standard_headers.py: whose header is missing."""
import unittest

import standard_headers


def missing(*sources):
    return [(path, line, text.split()[-1]) for path, line, text in standard_headers.findings(sources)]


class StandardHeaders(unittest.TestCase):
    def test_a_name_without_its_header(self):
        text = ["#include <vector>", "", "int a = std::count_if(b, e, f);", "std::optional<int> c;"]
        self.assertEqual(missing(("a.cc", text)), [("a.cc", 3, "<algorithm>"), ("a.cc", 4, "<optional>")])

    def test_its_own_headers_bring_it(self):
        header = ("a/b.h", ['#include "a/c.h"'])
        deeper = ("a/c.h", ["#include <optional>", '#include "a/b.h"'])
        self.assertEqual(missing(("a/d.cc", ['#include "a/b.h"', "std::optional<int> c;"]), header, deeper), [])
        public = ("trainer/include/muster/x.h", ["#include <memory>"])
        self.assertEqual(missing(("t.cc", ['#include "muster/x.h"', "std::unique_ptr<int> c;"]), public), [])

    def test_comments_texts_and_longer_names_do_not_count(self):
        self.assertEqual(missing(("a.cc", ['// std::sort(a)', 'f("std::sort(");', "mystd::sort(a); std::maps<int> b;"])), [])


if __name__ == "__main__":
    unittest.main()
