"""python -m muster.export: what it refuses, in one sentence each, before anything is written; and a dimension of each kind."""
import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "python/src"))
from muster import export  # noqa: E402

NETS = """
import torch
def net(): return torch.nn.Linear(2, 1), (torch.zeros(4, 2),)
def named(): return torch.nn.Linear(2, 1), {"input": torch.zeros(4, 2)}
def bare(): return torch.nn.Linear(2, 1)
"""


class Export(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(place.name)
        with open("nets.py", "w") as file:
            file.write(NETS)

    def files(self):
        return sorted(set(os.listdir()) - {"__pycache__"})

    def refused(self, message, *arguments):
        with self.assertRaises(SystemExit) as refusal:
            export.main(arguments)
        self.assertEqual(str(refusal.exception), f"muster.export: {message}")
        self.assertEqual(self.files(), ["nets.py"])

    def test_refusals(self):
        self.refused("'nets' is not MODULE:FACTORY, as in my_nets:make_net", "nets")
        self.refused("cannot import other: No module named 'other'", "other:net")
        self.refused("nets has no function 'missing'", "nets:missing")
        self.refused("nets:bare must return (net, inputs); inputs are a tuple, or a dict of named ones", "nets:bare")
        self.refused("--dynamic y:0: must be INPUT:DIMENSION, and inputs are input", "nets:net", "--dynamic", "y:0")

    def test_dimensions(self):
        for factory, dynamic in (("net", "input:0"), ("named", "input:0=batch"), ("net", "input:0=2..64")):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                export.main(["nets:" + factory, "--dynamic", dynamic])
            self.assertRegex(said.getvalue(), r"^net\.pt2: 3 parameters, [\d,]+ bytes, both modes\n$")
            self.assertEqual(self.files(), ["net.pt2", "nets.py"])


if __name__ == "__main__":
    unittest.main()
