"""Tests of draw_rooms.py: the picture has every room once, fits its width, and a stale one is found."""
import re
import unittest
from unittest import mock

import draw_rooms
import generated
import rooms


def page(picture):
    return [(draw_rooms.PAGE, ["# Map", draw_rooms.BEGIN, *picture.split("\n"), generated.END, "text"])]


class DrawRooms(unittest.TestCase):
    def test_it_fits_the_page(self):
        self.assertLessEqual(max(len(line) for line in draw_rooms.picture().split("\n")), draw_rooms.WIDTH)

    def test_every_area_stands_on_what_it_sees(self):
        row_of = {area: number for number, areas in enumerate(draw_rooms.ROWS) for area, _ in areas}
        self.assertEqual(set(rooms.AREAS) - set(row_of), set())
        for area, seen in rooms.AREAS.items():
            for other in seen:
                self.assertLess(row_of[area], row_of[other.split("/")[0]], f"{area} sees {other}")

    def test_every_room_is_in_its_area(self):
        for area, floors in rooms.FLOORS.items():
            words = re.findall(r"[\w/]+", "\n".join(draw_rooms.box(area, 44)))
            for name in (name for floor in floors for name in floor):
                self.assertIn(f"{area}/" if name == "." else name, words)

    def test_a_current_picture_is_fine(self):
        self.assertEqual(list(draw_rooms.findings(page(draw_rooms.picture()))), [])

    def test_another_floor_makes_it_stale(self):
        pages = page(draw_rooms.picture())
        with mock.patch.dict(rooms.FLOORS, {"common": [["base"], ["."]]}):
            self.assertEqual([(path, line) for path, line, _ in draw_rooms.findings(pages)], [(draw_rooms.PAGE, 2)])

    def test_a_page_without_the_markers(self):
        self.assertEqual(len(list(draw_rooms.findings([(draw_rooms.PAGE, ["# Map"])]))), 1)
        self.assertEqual(list(draw_rooms.findings([("docs/tour.md", ["# Tour"])])), [])


if __name__ == "__main__":
    unittest.main()
