"""Tests of plain_words.py: which turns of phrase are found, and where they are looked for."""
import unittest

import plain_words


def found(path, *lines):
    return [(line, text.split('"')[1].lower()) for _, line, text in plain_words.findings([(path, lines)])]


class PlainWords(unittest.TestCase):
    def test_each_row_is_found(self):
        for phrase in ("it says so", "a file that is no database", "nobody listens", "somebody else", "whoever waits",
                       "the job goes on", "takes up what runs", "is said again", "divided over the ranks", "lets go of it",
                       "a thread of its own", "restarts by itself", "ends the process", "after it said its last", "starts anew",
                       "opens it again", "levels, not edges"):
            self.assertEqual(len(found("client/a.cc", f"// {phrase}")), 1, phrase)

    def test_what_only_looks_alike(self):
        for phrase in ("there is no database", "it is no longer there", "is no more than ten", "on its own", "tries it again",
                       "takes up room", "going to one", "its own thread", 'the account "nobody"', "user:nobody"):
            self.assertEqual(found("client/a.cc", f"// {phrase}"), [], phrase)

    def test_comments_and_strings_and_pages_but_no_code(self):
        self.assertEqual(found("a.cc", 'Print("nobody waits");', "int x;  // nobody"), [(1, "nobody"), (2, "nobody")])
        self.assertEqual(found("a.cc", "int nobody = 1;", "kill(nobody);"), [])
        self.assertEqual(found("docs/a.md", "Nobody reads it."), [(1, "nobody")])

    def test_a_line_that_must_have_it_says_why(self):
        self.assertEqual(found("a.cc", 'Print("(nobody)");  // plain-words: as id prints that account'), [])

    def test_pages_of_the_past_and_the_table_itself(self):
        for path in ("CHANGELOG.md", "CONTRIBUTING.md", "tests/data-0.1/a.py"):
            self.assertEqual(found(path, "nobody"), [], path)


if __name__ == "__main__":
    unittest.main()
