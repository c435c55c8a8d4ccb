"""The Debian packages: what is in them and what they ask of a machine."""
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import support
from support import field, harness, need, package, the_debs


class Packages(unittest.TestCase):
    def test_two_packages_of_one_tree_are_the_same_bytes(self):
        mask = os.umask(0o077)
        self.addCleanup(os.umask, mask)
        again = package("deb", TZ="Asia/Tokyo", PYTHONHASHSEED="1")
        self.assertEqual(support.digests(package("deb")), support.digests(again))

    def test_they_depend_on_what_every_debian_has(self):
        for path in the_debs().values():
            names = {re.match(r"[a-z0-9+.-]+", each).group() for each in field(path, "Depends").split(", ")}
            self.assertLessEqual(names, {"libc6", "libgcc-s1", "passwd"}, path.name)
            self.assertIn("libc6 (>= 2.", field(path, "Depends"))

    def test_files_belong_to_root_and_nobody_else_may_write_them(self):
        for path in the_debs().values():
            listed = subprocess.run(["dpkg-deb", "--contents", path], check=True, capture_output=True, text=True).stdout
            for line in listed.splitlines():
                self.assertRegex(line, r"^(d|-)rw[x-]r-[x-]r-[x-] root/root ")

    def test_the_sdk_is_the_one_that_another_project_was_built_with(self):
        found = list(package("deb").glob("libmuster-dev_*.deb"))
        need(found, "the build tree has no trainer SDK")
        with tempfile.TemporaryDirectory(prefix="mt-sdk-") as folder:
            unpacked, installed = Path(folder, "unpacked"), Path(folder, "installed")
            subprocess.run(["dpkg-deb", "--extract", found[0], unpacked], check=True)
            subprocess.run(["cmake", "--install", support.BUILD, "--component", "trainer", "--prefix", installed], check=True,
                           capture_output=True)
            self.assertTrue((installed / "include").is_dir())
            for path in installed.rglob("*"):
                if path.is_file():
                    self.assertEqual((unpacked / "usr" / path.relative_to(installed)).read_bytes(), path.read_bytes(), path)

    def test_a_restart_of_the_worker_spares_its_ranks(self):
        unit = subprocess.run(f"dpkg-deb --fsys-tarfile {the_debs()['muster-worker']} | "
                              "tar -xO ./usr/lib/systemd/system/muster-worker.service", shell=True, check=True,
                              capture_output=True, text=True).stdout.splitlines()
        for line in ("KillMode=process", "Delegate=yes", "RuntimeDirectoryPreserve=yes"):
            self.assertIn(line, unit)


if __name__ == "__main__":
    harness.main()
