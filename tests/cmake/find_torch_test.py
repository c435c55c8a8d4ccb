"""Where CMake finds LibTorch when no path is given, and that the installed package names no machine's path."""
import glob
import os
import stat
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build"))


class FindTorch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = os.path.realpath(scratch.name)
        self.script = self.write("find.cmake", f'include("{ROOT}/cmake/TorchDirectory.cmake")\n'
                                 'muster_torch_directory(found)\nmessage("${found}")\n')

    def write(self, name, text=""):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def torch(self, name):
        self.write(f"{name}/include/torch/csrc/distributed/c10d/reducer.hpp")
        return os.path.join(self.directory, name)

    def found(self, *settings, python="", **environment):
        """What is found with a python3 in PATH that prints `python`."""
        program = self.write("bin/python3", f"#!/bin/sh\necho '{python}'\n")
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
        done = subprocess.run(["cmake", *(f"-D{each}" for each in settings), "-P", self.script], text=True, capture_output=True,
                              env={"PATH": os.path.dirname(program) + ":/usr/bin:/bin", **environment}, check=True)
        return done.stderr.strip()

    def test_each_way_to_name_it_and_their_order(self):
        named, prefix, imported = self.torch("named"), self.torch("prefix"), self.torch("venv/torch")
        ways = dict(settings=[f"CMAKE_PREFIX_PATH={prefix}"], python=imported)
        self.assertEqual(self.found(), "")
        self.assertEqual(self.found(python=imported), imported)
        self.assertEqual(self.found(python="/nowhere"), "")
        self.assertEqual(self.found(*ways["settings"], python=imported), prefix)
        self.assertEqual(self.found(python=imported, CMAKE_PREFIX_PATH=prefix), prefix)
        self.assertEqual(self.found(f"Torch_DIR={named}/share/cmake/Torch", *ways["settings"], python=imported), named)
        self.assertEqual(self.found(*ways["settings"], python=imported, TORCH_DIR=named), named)

    def test_the_installed_package_names_no_path_of_this_machine(self):
        files = [os.path.join(BUILD, "trainer/MusterTrainerConfig.cmake"),
                 *glob.glob(os.path.join(BUILD, "trainer/CMakeFiles/Export/*/MusterTrainerTargets*.cmake"))]
        self.assertGreater(len(files), 1)
        with open(os.path.join(BUILD, "CMakeCache.txt")) as cache:
            torch = next(line.strip().split("=", 1)[1] for line in cache if line.startswith("MUSTER_TORCH:"))
        for path in files:
            with open(path) as file:
                text = file.read()
            for machine in (torch, ROOT, BUILD):
                self.assertNotIn(machine, text, path)


if __name__ == "__main__":
    unittest.main()
