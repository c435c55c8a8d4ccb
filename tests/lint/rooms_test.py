"""Tests of rooms.py: what the table of floors lets a room include, and which folders it refuses."""
import unittest
from unittest import mock

import rooms


def wrong(path, header):
    return rooms.include_finding(path, header) is not None


class Rooms(unittest.TestCase):
    def test_a_room_sees_lower_floors_and_itself(self):
        self.assertFalse(wrong("worker/attempts/a.cc", "worker/launch/shim_client.h"))
        self.assertFalse(wrong("worker/launch/a.cc", "worker/launch/shim_client.h"))
        self.assertTrue(wrong("worker/launch/a.cc", "worker/attempts/attempt_processes.h"))

    def test_rooms_of_one_floor_do_not_see_each_other(self):
        self.assertTrue(wrong("client/diagnosis/a.cc", "client/doctor/facts.h"))
        self.assertTrue(wrong("client/doctor/a.cc", "client/diagnosis/report.h"))

    def test_no_two_rooms_of_the_table_can_include_each_other(self):
        for area, floors in rooms.FLOORS.items():
            names = [area if name == "." else f"{area}/{name}" for floor in floors for name in floor]
            self.assertEqual(len(names), len(set(names)), area)
            if area == "trainer":
                continue
            for one in names:
                for other in names:
                    if one != other:
                        self.assertTrue(wrong(f"{one}/a.cc", f"{other}/b.h") or wrong(f"{other}/a.cc", f"{one}/b.h"))

    def test_areas(self):
        self.assertFalse(wrong("client/session/a.cc", "identity/enroll.h"))
        self.assertTrue(wrong("client/session/a.cc", "coordinator/base/work_pool.h"))
        self.assertTrue(wrong("shim/a.cc", "muster/v1/job.pb.h"))
        self.assertFalse(wrong("tests/client/a.cc", "coordinator/base/work_pool.h"))

    def test_rooms_that_see_less_than_their_area(self):
        self.assertTrue(wrong("worker/core/a.cc", "identity/keys.h"))
        self.assertTrue(wrong("coordinator/core/state/a.cc", "tree/manifest.h"))
        self.assertFalse(wrong("coordinator/core/state/a.cc", "common/job/labels.h"))
        self.assertTrue(wrong("coordinator/segments/a.cc", "muster/v1/job.pb.h"))
        self.assertTrue(wrong("tree/a.cc", "common/job/labels.h"))
        self.assertTrue(wrong("common/base/a.cc", "common/job/labels.h"))
        self.assertTrue(wrong("coordinator/core/scheduling/a.cc", "coordinator/core/state/apply.h"))
        self.assertFalse(wrong("coordinator/core/scheduling/a.cc", "coordinator/core/state/owner.h"))

    def test_the_sdk_stands_alone(self):
        self.assertTrue(wrong("trainer/src/base/files.cc", "common/files/files.h"))
        self.assertTrue(wrong("trainer/src/base/files.cc", "muster/v1/job.pb.h"))
        self.assertFalse(wrong("trainer/src/base/files.cc", "muster/base/errors.h"))

    def test_engines_and_transports_are_known_to_few(self):
        self.assertFalse(wrong("coordinator/config/open_stores.cc", "coordinator/sqlite/journal.h"))
        self.assertTrue(wrong("coordinator/calls/a.cc", "coordinator/sqlite/journal.h"))
        self.assertFalse(wrong("coordinator/care/check.cc", "coordinator/local/blob_check.h"))
        self.assertTrue(wrong("coordinator/care/check.cc", "coordinator/sqlite/journal.h"))
        self.assertTrue(wrong("coordinator/http/a.cc", "coordinator/services/server.h"))
        self.assertFalse(wrong("coordinator/coordinator.cc", "coordinator/services/server.h"))
        self.assertTrue(wrong("coordinator/init_command.cc", "coordinator/http/site.h"))

    def test_pure_rooms(self):
        for path in ("coordinator/core/decide/a.cc", "coordinator/core/a.h", "worker/core/a.cc", "common/job/a.cc"):
            self.assertTrue(rooms.is_pure(path), path)
        self.assertFalse(rooms.is_pure("coordinator/calls/a.cc"))

    def test_a_folder_that_the_table_does_not_name(self):
        found = list(rooms.house_findings(["worker/new/a.cc", "worker/new/a.h"]))
        self.assertIn(("worker/new/a.cc", 1), [(path, line) for path, line, _ in found])

    def test_a_room_that_is_too_large(self):
        files = [f"worker/events/f{number}.cc" for number in range(rooms.FILES_MAX + 1)]
        self.assertTrue(any("worker/events has" in text for _, _, text in rooms.house_findings(files)))
        with mock.patch.object(rooms, "FLAT_LISTS", ("worker/events",)):
            self.assertFalse(any("worker/events has" in text and "divide" in text for _, _, text in rooms.house_findings(files)))

    def test_a_room_without_a_readme(self):
        files = [f"worker/events/f{number}.cc" for number in range(rooms.FILES_WITH_README)]
        wanting = lambda paths: any("no README.md" in text for _, _, text in rooms.house_findings(paths))
        self.assertTrue(wanting(files))
        self.assertFalse(wanting([*files, "worker/events/README.md"]))


if __name__ == "__main__":
    unittest.main()
