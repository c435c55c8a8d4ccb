"""Tests of one_mechanism.py: a second mechanism that a test plants is found."""
import unittest

import one_mechanism


def found(path, *lines):
    return [(line, text.rsplit(": ", 1)[-1]) for _, line, text in one_mechanism.findings([(path, list(lines))])]


class OneMechanism(unittest.TestCase):
    def assert_planted(self, line, words, path="worker/a.cc"):
        lines = found(path, "int a;", line)
        self.assertEqual([number for number, _ in lines], [2], line)
        self.assertIn(words, next(text for _, _, text in one_mechanism.findings([(path, [line])])))

    def test_a_second_http_client_is_found(self):
        for line in ('  text = StrCat("GET ", path, " HTTP/1.0");', '  send(fd, "x HTTP/1.1\\r\\nHost: y");', "  SSL_connect(ssl);",
                     "  SSL_CTX_new(TLS_client_method());", "#include <curl/curl.h>"):
            for path in ("client/export/a.cc", "coordinator/a.cc", "identity/a.cc", "trainer/src/a.cc"):
                self.assert_planted(line, "CallHttp", path)
        self.assertEqual(found("common/http/a.cc", "SSL_connect(ssl);") + found("coordinator/http/a.h", '"x HTTP/1.1\\r\\n"'), [])
        self.assertEqual(found("coordinator/sqlite/a.cc", '"DELETE FROM jobs"', "// GET / HTTP/1.1\\r\\n", 'Call("GET", path)'), [])

    def test_a_second_process_start_is_found(self):
        for line in ("  posix_spawn(&pid, p, &files, 0, argv, env);", "  posix_spawn_file_actions_t files;", "  execvp(argv[0], argv);",
                     "  syscall(SYS_clone3, &args);"):
            self.assert_planted(line, "StartProcess")
        self.assertEqual(found("shim/a.cc", "execve(p, argv, env);") + found("common/kernel/process_start.cc", "posix_spawn(a)"), [])

    def test_a_second_replace_is_found(self):
        for line in ("  rename(temporary.c_str(), path.c_str());", "  std::rename(a, b);", "  renameat2(d, a, d, b, 0);",
                     "  std::filesystem::rename(a, b);"):
            self.assert_planted(line, "WriteFileDurably")
            self.assert_planted(line, "write_file_durably", "trainer/src/tracking/a.cc")
        self.assertEqual(found("worker/checkpoints/transfers.cc", "rename(a, b);") + found("worker/a.cc", "// rename(2)", "Rename(a)", "options.rename(a)"), [])

    def test_json_by_hand_is_found(self):
        for line in ('  StrCat("{\\"job\\": ", id, "}");', '  StrAppend(&out, ", \\"name\\": ", name);', '  out += "{\\"";'):
            for path in ("client/commands/a.cc", "coordinator/notify/a.cc"):
                self.assert_planted(line, "JsonObject", path)
        self.assertEqual(found("client/a.cc", 'StrCat("the job \\"", name, "\\": ", why)', '// {"a": 1}',
                               'StrCat("no \\"token\\": the worker gives none")'), [])

    def test_what_is_excused_for_nothing_is_named(self):
        self.assertIn("worker/checkpoints/transfers.cc", "".join(text for _, _, text in one_mechanism.stale([("worker/checkpoints/transfers.cc", ["int a;"])])))
        self.assertNotIn("worker/checkpoints/transfers.cc", "".join(
            text for _, _, text in one_mechanism.stale([("worker/checkpoints/transfers.cc", ["rename(a, b);"])])))


if __name__ == "__main__":
    unittest.main()
