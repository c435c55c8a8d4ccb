"""The Debian packages: what is in them and what they ask of a machine."""
import hashlib
import json
import os
import re
import shutil
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


class Verified(unittest.TestCase):
    """What `jobctl version --verify` reports of unpacked packages that a user changes who can change any file there."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="mt-unpacked-")
        cls.addClassCleanup(folder.cleanup)
        cls.unpacked = Path(folder.name, "root")
        for path in the_debs().values():
            subprocess.run(["dpkg-deb", "--extract", path, cls.unpacked], check=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mt-verify-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name, "root")
        shutil.copytree(self.unpacked, self.root, symlinks=True)
        self.lists = self.root / "usr/share/muster/files"
        self.key = f"{support.signing_key()}.pub"
        self.thief = support.new_key(Path(folder.name, "thief"))

    def verify(self, *words, exits=0):
        done = subprocess.run([self.root / "usr/bin/jobctl", "version", "--verify", *words], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
        self.assertEqual(done.returncode, exits, done.stdout + done.stderr)
        return done.stdout

    def fingerprint(self, key):
        der = subprocess.run(["openssl", "pkey", "-pubin", "-in", key, "-outform", "DER"], check=True, capture_output=True).stdout
        return "SHA256:" + hashlib.sha256(der).hexdigest()

    def test_every_change_is_named(self):
        good = self.verify("--key", self.key)
        self.assertEqual(good.count(f"as listed; signed by {self.fingerprint(self.key)}\n"), 3, good)
        self.assertNotIn("Proof needs", good)
        self.assertIn("Proof needs --key FILE", self.verify())
        helpers = self.root / "usr/libexec/muster"
        with open(self.root / "usr/bin/muster-worker", "ab") as file:
            file.write(b"\0")
        (helpers / "muster-shim").unlink()
        (helpers / "muster-shim").symlink_to("/bin/true")
        (helpers / "muster-unwind").unlink()
        (helpers / "more").write_text("")
        said = self.verify("--key", self.key, exits=1)
        for line in ("changed  usr/bin/muster-worker", "changed  usr/libexec/muster/muster-shim",
                     "missing  usr/libexec/muster/muster-unwind", "extra    usr/libexec/muster/more"):
            self.assertIn(line, said.replace(f"{self.root}/", ""))
        found = json.loads(self.verify("-o", "json", exits=1))
        self.assertEqual([found["good"], found["trusted_key"]], [False, ""])
        self.assertEqual([(each["signature"], len(each["changed"])) for each in found["packages"]],
                         [("valid", 0), ("valid", 0), ("valid", 2)])

    def test_what_cannot_be_read_is_not_fine(self):
        need(os.geteuid() == 0, "needs root, to be another user")
        for folder in (self.root.parent, self.root):
            folder.chmod(0o755)
        closed = self.root / "usr/libexec/muster/closed"
        closed.mkdir(mode=0o700)
        (closed / "more").write_text("")
        done = subprocess.run([self.root / "usr/bin/jobctl", "version", "--verify"], capture_output=True, text=True, user=65534,
                              env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("unread   usr/libexec/muster/closed\n", done.stdout.replace(f"{self.root}/", ""))
        shutil.copy(self.lists / "muster-jobctl.files", self.lists / "muster-worker.files")
        done = subprocess.run([self.root / "usr/bin/jobctl", "version", "--verify"], capture_output=True, text=True)
        self.assertIn("muster-worker.files is the list of muster-jobctl", done.stderr)

    def test_who_replaces_the_list_and_the_key_too_is_found_by_a_key_from_elsewhere(self):
        program, listed = self.root / "usr/bin/muster-worker", self.lists / "muster-worker.files"
        before = hashlib.sha256(program.read_bytes()).hexdigest()
        program.write_bytes(b"#!/bin/sh\n")
        listed.write_text(listed.read_text().replace(before, hashlib.sha256(program.read_bytes()).hexdigest())
                          .replace(self.fingerprint(self.key), self.fingerprint(f"{self.thief}.pub")))
        self.assertIn("its signature does not fit", self.verify(exits=1))
        subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.thief, "-in", listed, "-out", f"{listed}.sig"],
                       check=True)
        shutil.copy(f"{self.thief}.pub", f"{listed}.pub")
        self.assertIn("Proof needs --key FILE", self.verify())
        self.assertIn(f"not signed by {self.fingerprint(self.key)}", self.verify("--key", self.key, exits=1))

    def test_what_is_not_signed_or_not_listed_is_told(self):
        listed = self.lists / "muster-worker.files"
        Path(f"{listed}.sig").unlink()
        self.assertIn(f"its signature by {self.fingerprint(self.key)} is missing", self.verify(exits=1))
        listed.write_text(listed.read_text().replace(self.fingerprint(self.key), "nobody"))
        self.assertIn("muster-worker 0", self.verify())
        self.assertIn("as listed; unsigned\n", self.verify("--key", self.key, exits=1))
        listed.unlink()
        said = self.verify(exits=1).replace(f"{self.root}/", "")
        for name in ("bin/muster-worker", "libexec/muster/muster-shim", "libexec/muster/muster-rendezvous",
                     "libexec/muster/muster-unwind"):
            self.assertIn(f"extra    usr/{name}\n", said)

    def test_other_tools_check_the_same(self):
        listed = self.lists / "muster-worker.files"
        subprocess.run(["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", self.key, "-in", listed, "-sigfile",
                        f"{listed}.sig"], check=True, capture_output=True)
        subprocess.run(["sha256sum", "--quiet", "--check", listed], cwd=self.root, check=True, capture_output=True)
        sums = package("deb") / "SHA256SUMS"
        subprocess.run(["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", self.key, "-in", sums, "-sigfile",
                        f"{sums}.sig"], check=True, capture_output=True)
        subprocess.run(["sha256sum", "--quiet", "--check", sums], cwd=sums.parent, check=True, capture_output=True)


if __name__ == "__main__":
    harness.main()
