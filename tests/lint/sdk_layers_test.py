#!/usr/bin/env python3
"""What lint says about includes between the areas of the trainer SDK, and that the architecture page agrees."""
import os
import re
import unittest

import sdk_layers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class IncludesBetweenAreas(unittest.TestCase):
    def assert_fine(self, path, header):
        self.assertIsNone(sdk_layers.finding(path, header))

    def assert_found(self, path, header, why):
        self.assertIn(why, sdk_layers.finding(path, header) or "nothing found")

    def test_an_area_sees_itself_and_lower_layers(self):
        self.assert_fine("trainer/src/parallel/join.cc", "parallel/process_group.h")
        self.assert_fine("trainer/src/parallel/join.cc", "muster/parallel/data_parallel.h")
        self.assert_fine("trainer/src/parallel/join.cc", "muster/base/errors.h")
        self.assert_fine("trainer/include/muster/parallel/data_parallel.h", "muster/values/nested.h")
        self.assert_fine("trainer/src/accelerator/state.h", "sharding/sharded_model.h")

    def test_an_include_upward_is_found_in_sources_and_in_public_headers(self):
        self.assert_found("trainer/src/checkpoint/named_state.cc", "muster/optim/optimizers.h",
                          "checkpoint (layer 5) may not include muster/optim/optimizers.h (layer 6)")
        self.assert_found("trainer/include/muster/parallel/data_parallel.h", "muster/collectives/reduction.h",
                          "parallel (layer 4) may not include")
        self.assert_found("trainer/src/base/files.cc", "tracking/reporter.h", "base (layer 1)")

    def test_an_include_sideways_is_found(self):
        self.assert_found("trainer/src/tracking/reporter.cc", "device/device_driver.h", "only lower layers")

    def test_headers_of_several_areas_are_for_programs(self):
        self.assert_found("trainer/src/data/collate.cc", "muster/trainer.h", "for programs")
        self.assert_found("trainer/src/data/collate.cc", "muster/training_loop.h", "for programs")
        self.assert_fine("trainer/include/muster/trainer.h", "muster/accelerator/accelerator.h")
        self.assert_fine("trainer/include/muster/trainer.h", "muster/training_loop.h")

    def test_files_and_headers_outside_the_areas_are_found(self):
        self.assert_found("trainer/include/muster/loose.h", "vector", "is not an area")
        self.assert_found("trainer/src/novel/code.cc", "vector", "novel is not an area")
        self.assert_found("trainer/src/data/collate.cc", "muster/loose.h", "in no area")

    def test_a_plug_in_sees_the_device_headers_only(self):
        self.assert_fine("trainer/plugins/ascend/plugin.cc", "muster/device/device_plugin_torch.h")
        self.assert_found("trainer/plugins/ascend/plugin.cc", "muster/base/errors.h", "a plug-in may not include")

    def test_public_headers_include_little_of_libtorch(self):
        self.assert_found("trainer/include/muster/optim/ema.h", "torch/optim.h", "slow to compile")
        self.assert_fine("trainer/include/muster/optim/ema.h", "torch/optim/optimizer.h")
        self.assert_fine("trainer/include/muster/trainer.h", "torch/torch.h")

    def test_headers_of_others_are_none_of_its_business(self):
        for header in ("torch/torch.h", "vector", "nlohmann/json.hpp", "sys/stat.h"):
            self.assert_fine("trainer/src/base/files.cc", header)


class TheArchitecturePage(unittest.TestCase):
    def test_it_shows_the_same_layers(self):
        with open(os.path.join(ROOT, "docs/trainer-architecture.md"), encoding="utf-8") as page:
            rows = re.findall(r"^\| (\d) \| ([`\w, ]+) \|", page.read(), flags=re.M)
        shown = {int(number): sorted(re.findall(r"`(\w+)`", areas)) for number, areas in rows}
        self.assertEqual(shown, {number: layer for number, layer in enumerate(sdk_layers.LAYERS, 1)})

    def test_every_folder_is_an_area_and_every_area_a_folder(self):
        source = os.path.join(ROOT, "trainer/src")
        self.assertEqual(sorted(os.listdir(source)), sorted(sdk_layers.LAYER_OF))


if __name__ == "__main__":
    unittest.main(verbosity=2)
