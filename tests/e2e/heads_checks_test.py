"""The checks of heads_chaos/ find what they are for: histories written by hand, one broken promise each."""
import os
import sys
import unittest

import harness
from harness import CANCELLED, QUEUED, RUNNING, STARTING, STOPPING, SUCCEEDED

sys.path.insert(0, os.path.join(harness.HERE, "heads_chaos"))
import checks  # noqa: E402
import end_checks  # noqa: E402
from history import FAIL, OK, UNKNOWN, Op  # noqa: E402


def op(kind, begin, end, value=None, outcome=OK, head=0, **asked):
    return Op("c0", head, kind, asked, begin, end, outcome, value)


def submit(key, job, begin, end, existed=False):
    return op("submit", begin, end, {"id": job, "existed": existed}, key=key)


def unknown_submit(key, begin, end):
    return op("submit", begin, end, outcome=UNKNOWN, key=key)


def shown(job, version, state=QUEUED, attempts=0, cancel=False, key="k1", digest=None):
    return {"id": job, "version": version, "state": state, "attempts": attempts, "cancel": cancel, "key": key,
            "digest": digest or f"{version}"}


def get(job, version, begin, end, **fields):
    return op("get", begin, end, shown(job, version, **fields), id=job)


def listed(begin, end, **jobs):
    """j1=(state, attempts)"""
    return op("list", begin, end, {"jobs": {int(name[1:]): pair for name, pair in jobs.items()}})


class Histories(unittest.TestCase):
    def found(self, *ops):
        return "\n".join(checks.violations(list(ops)))

    def assert_fine(self, *ops):
        self.assertEqual(self.found(*ops), "")

    def assert_found(self, words, *ops):
        self.assertIn(words, self.found(*ops))

    def test_what_one_coordinator_could_have_answered_is_fine(self):
        self.assert_fine(
            unknown_submit("k1", 0, 1), submit("k1", 1, 2, 3, existed=True), submit("k2", 2, 2.5, 4),
            listed(3.5, 5, j1=(QUEUED, 0)), listed(3.5, 5, j1=(RUNNING, 1), j2=(QUEUED, 0)),
            get(1, 5, 6, 7, state=RUNNING, attempts=1), get(1, 3, 4.5, 8, state=STARTING, attempts=1),
            op("cancel", 8, 9, {"status": 0}, id=1), get(1, 6, 8.5, 10, state=STOPPING, attempts=1, cancel=True),
            get(1, 7, 11, 12, state=CANCELLED, attempts=1, cancel=True),
            op("server", 0, 1, {"epoch": 1}), op("server", 0.5, 2, {"epoch": 2}), op("server", 1.5, 3, {"epoch": 2}))

    def test_a_call_without_an_answer_may_have_been_done_or_not(self):
        self.assert_fine(unknown_submit("k1", 0, 1), listed(2, 3), listed(4, 5, j1=(QUEUED, 0)))
        self.assert_fine(submit("k1", 1, 0, 1), op("cancel", 2, 3, outcome=UNKNOWN, id=1), get(1, 1, 4, 5))

    def test_an_acknowledged_job_is_lost(self):
        self.assert_found("J1", submit("k1", 1, 0, 1), listed(2, 3))
        self.assert_found("J1", submit("k1", 1, 0, 1), op("get", 2, 3, None, id=1))

    def test_a_list_is_older_than_one_before_it(self):
        self.assert_found("J1", unknown_submit("k1", 0, 1), listed(1, 2, j1=(QUEUED, 0)), listed(3, 4))

    def test_a_list_has_a_later_job_and_lacks_an_earlier_one(self):
        self.assert_found("has the job 2 and lacks 1", unknown_submit("k1", 0, 9), listed(1, 5, j1=(QUEUED, 0)),
                          listed(1, 5, j2=(QUEUED, 0)))

    def test_one_key_has_two_jobs(self):
        self.assert_found("J2: the key k1 has", submit("k1", 1, 0, 1), submit("k1", 2, 2, 3))
        self.assert_found("J2: the key k1 was new", submit("k1", 1, 0, 1), submit("k1", 1, 2, 3))

    def test_one_job_was_acknowledged_twice(self):
        self.assert_found("J1: the job 1", submit("k1", 1, 0, 1), submit("k2", 1, 2, 3))

    def test_a_later_job_has_a_smaller_number(self):
        self.assert_found("ids of jobs", submit("k1", 5, 0, 1), submit("k2", 4, 2, 3))
        self.assert_fine(submit("k1", 5, 0, 2), submit("k2", 4, 1, 3))

    def test_a_job_goes_back(self):
        self.assert_found("version", get(1, 5, 0, 1), get(1, 4, 2, 3))
        self.assert_found("progress", listed(0, 1, j1=(RUNNING, 1)), listed(2, 3, j1=(STARTING, 1)))
        self.assert_found("progress", listed(0, 1, j1=(SUCCEEDED, 1)), listed(2, 3, j1=(QUEUED, 2)))
        self.assert_found("progress", get(1, 5, 0, 1, state=RUNNING, attempts=2), listed(2, 3, j1=(RUNNING, 1)))

    def test_one_version_has_two_contents(self):
        self.assert_found("2 contents", get(1, 5, 0, 1, digest="x"), get(1, 5, 0, 1, digest="y"))

    def test_an_acknowledged_cancel_is_lost(self):
        cancel = op("cancel", 0, 1, {"status": 0}, id=1)
        self.assert_found("cancel of job 1", cancel, get(1, 5, 2, 3, state=RUNNING, attempts=1))
        self.assert_found("after cancel", cancel, listed(2, 3, j1=(RUNNING, 1)))

    def test_a_stream_goes_back_or_shows_what_a_later_read_lacks(self):
        def watch(*seen):
            return op("watch", 0, 9, {"seen": [{**shown(1, version), "at": at} for version, at in seen]}, UNKNOWN, id=1)
        self.assert_found("has the versions", watch((5, 1), (4, 2)))
        self.assert_found("version", watch((5, 1), (6, 2)), get(1, 5, 3, 4))
        self.assert_fine(watch((5, 1), (6, 5)), get(1, 6, 2, 3))

    def test_an_older_leader_answers_after_a_newer_one(self):
        self.assert_found("J14", op("server", 0, 1, {"epoch": 2}), op("server", 2, 3, {"epoch": 1}, head=1))

    def test_a_refused_submit_and_wrong_output_are_reported(self):
        self.assert_found("was refused", op("submit", 0, 1, "no", FAIL, key="k1"))
        self.assert_found("J7", op("logs", 0, 1, {"wrong": "rank 0"}, id=1))

    def test_an_event_was_seen_that_is_not_in_the_history(self):
        stream = op("events", 0, 1, {"events": {7: "a", 8: "b"}}, UNKNOWN)
        self.assertEqual(list(checks.check_seen_events([stream], {7: "a", 8: "b"})), [])
        self.assertIn("another one", "".join(checks.check_seen_events([stream], {7: "x", 8: "b"})))
        self.assertIn("none", "".join(checks.check_seen_events([stream], {7: "a"})))


class Ends(unittest.TestCase):
    def test_a_piece_of_a_term_that_is_over(self):
        def found(*pieces):
            return "\n".join(end_checks.check_pieces(list(pieces)))
        self.assertEqual(found((1, 10, 100), (2, 10, 100), (3, 11, 200)), "")
        self.assertIn("no coordinator led", found((1, 10, 100), (2, 10, 0)))
        self.assertIn("of another one", found((1, 10, 100), (2, 11, 200), (3, 10, 200)))
        self.assertIn("of another one", found((1, 10, 100), (2, 10, 200)))
        self.assertIn("J11", found((1, 10, 100), (3, 10, 100)))

    def test_ranks_that_run_twice_or_beside_a_later_attempt(self):
        def line(what, attempt, mono, world=1):
            return {"job": "1", "attempt": attempt, "rank": 0, "world": world, "master": "m", "what": what, "mono": mono}

        def found(*lines):
            return "\n".join(end_checks.check_witness(list(lines)))
        self.assertEqual(found(line("start", 0, 1), line("end", 0, 2), line("start", 1, 3), line("end", 1, 4)), "")
        self.assertIn("J3", found(line("start", 0, 1), line("start", 0, 2)))
        self.assertIn("J4", found(line("start", 0, 1), line("start", 1, 2), line("end", 0, 3)))
        self.assertIn("J4", found(line("overlap", 0, 1)))
        self.assertIn("J5", found(line("start", 0, 1), line("end", 0, 2, world=2)))

    def test_copies_that_differ(self):
        same, other = {"jobs": ["(1,)"]}, {"jobs": ["(2,)"]}
        self.assertEqual(list(end_checks.check_copies({"h0": (5, same), "h1": (5, same), "h2": (4, other)})), [])
        self.assertIn("J11", "".join(end_checks.check_copies({"h0": (5, same), "h1": (5, other)})))

    def test_a_history_of_events_that_is_not_legal(self):
        harness.protos()
        from muster.v1 import event_pb2

        def event(seq, before, after):
            made = event_pb2.Event(seq=seq, job=1)
            if before is None:
                made.job_submitted.record.id = 1
            else:
                made.job_state_changed.to = after
                setattr(made.job_state_changed, "from", before)
            return made

        def found(last, *events):
            record = type("Record", (), {"state": last})
            return "\n".join(end_checks.check_events(list(events), {1: record}))
        first = event(1, None, QUEUED)
        self.assertEqual(found(STARTING, first, event(2, QUEUED, STARTING)), "")
        self.assertIn("numbered", found(STARTING, event(2, None, QUEUED), event(2, QUEUED, STARTING)))
        self.assertIn("does not follow", found(STOPPING, first, event(2, RUNNING, STOPPING)))
        self.assertIn("after its end", found(QUEUED, first, event(2, QUEUED, CANCELLED), event(3, CANCELLED, QUEUED)))
        self.assertIn("is recorded as", found(RUNNING, first, event(2, QUEUED, STARTING)))


if __name__ == "__main__":
    harness.main()
