"""Tests of one_list.py: which sources are a second list of calls or commands."""
import unittest

import one_list

NAMES = ["GetJob", "ListJobs", "WhyJob", "PlanJob", "Submit", "WatchJob"]
TABLE = ("common/calls.h", ["#define MUSTER_JOB_CALLS(ONE, STREAM, INTAKE, DUPLEX) \\"] +
         [f"  ONE({name}, {name}Request, {name}Response, kRead, kJob, kSmall) \\" for name in NAMES])
COMMANDS = ("client/commands/all.cc", [line for name in ("Run", "Ls", "Show", "Help", "Top", "Wait")
                                       for line in (f"const Command k{name}Command = {{", f'    .name = "{name.lower()}",', "};")])


def found(path, *lines):
    return [(where, line) for where, line, _ in one_list.findings([TABLE, COMMANDS, (path, list(lines))])]


class OneList(unittest.TestCase):
    def test_the_lists_themselves_are_none(self):
        self.assertEqual(list(one_list.findings([TABLE, COMMANDS])), [])

    def test_a_second_list_of_calls(self):
        for row in ('  "{}",', '  {{"/muster.v1.JobService/{}", 1}},', "MUSTER_UNARY({}, Request, Response, kSlowMs)",
                    "  Ask(&v1::JobService::Stub::{});", "void {}(Daemon& daemon, const Caller& caller);"):
            lines = [row.format(name) for name in NAMES]
            self.assertEqual(found("coordinator/http/other.cc", *lines), [("coordinator/http/other.cc", 5)], row)

    def test_a_few_calls_and_what_only_looks_like_one(self):
        few = [f'  "{name}",' for name in NAMES[:4]]
        self.assertEqual(found("coordinator/http/api/api_calls.cc", *few, '  "GetJob",', '  "Other",'), [])
        self.assertEqual(found("coordinator/calls/jobs.cc", *(f"MUSTER_HANDLER({name})" for name in NAMES)), [])
        self.assertEqual(found("coordinator/calls/jobs.cc", *(f'// "{name}"' for name in NAMES)), [])
        self.assertEqual(found("tests/coordinator/calls_test.cc", *(f'  "{name}",' for name in NAMES)), [])

    def test_a_second_list_of_commands(self):
        lines = [f"    &k{name}Command," for name in ("Run", "Ls", "Show", "Help", "Top")]
        for path in ("client/commands/command_table.cc", "client/commands/commands.h"):
            self.assertEqual(found(path, *lines), [(path, 5)])
        own = [f"const Command k{name}Command = {{" for name in ("Run", "Ls", "Show", "Help", "Top")]
        self.assertEqual(found("client/commands/jobs.cc", *own), [])

    def test_a_command_that_is_special_by_its_name(self):
        line = '  if (name == "help" || name == "other") return true;'
        self.assertEqual(found("client/main.cc", line), [("client/main.cc", 1)])
        self.assertEqual(found("client/commands/ls.cc", line), [])


if __name__ == "__main__":
    unittest.main()
