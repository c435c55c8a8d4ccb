"""The wheel in an empty environment: from pip install to a job that loses a rank and resumes, without a compiler."""
import base64
import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import unittest
import zipfile

import support
from support import HERE, ROOT, harness, package

sys.path.insert(0, str(ROOT / "tests" / "page"))
import typed  # noqa: E402

TRAIN = str(HERE / "train.py")
PROGRAMS = {"jobctl", "muster-coordinator", "muster-worker", "muster-shim", "muster-rendezvous", "muster-unwind"}


def the_wheel():
    return next(package("wheel").glob("*.whl"))


class Wheel(unittest.TestCase):
    def test_the_record_lists_every_file_with_its_hash(self):
        with zipfile.ZipFile(the_wheel()) as archive:
            names = archive.namelist()
            record = next(name for name in names if name.endswith(".dist-info/RECORD"))
            rows = list(csv.reader(archive.read(record).decode().splitlines()))
            self.assertEqual(sorted(row[0] for row in rows), sorted(names))
            for name, told, size in (row for row in rows if row[0] != record):
                data = archive.read(name)
                found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((told, int(size)), (f"sha256={found}", len(data)), name)

    def test_what_its_extras_bring(self):
        with zipfile.ZipFile(the_wheel()) as archive:
            name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            needs = re.findall(r"(?m)^Requires-Dist: ([\w-]+).* extra == ['\"](\w+)['\"]$", archive.read(name).decode())
        self.assertEqual(set(needs), {("grpcio", "client"), ("protobuf", "client"), ("PyYAML", "client"), ("py-spy", "stacks")})

    def test_its_tag_is_the_newest_glibc_that_a_program_asks_for(self):
        # Read another way than the packager does: as the dynamic linker's error would name them.
        newest = (0, 0)
        with zipfile.ZipFile(the_wheel()) as archive:
            scripts = [each for each in archive.infolist() if ".data/scripts/" in each.filename]
            for each in scripts:
                self.assertEqual(each.external_attr >> 16, 0o100755, each.filename)
                if not each.filename.endswith("muster-shim"):  # static: it contains its own glibc
                    found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=\0)", archive.read(each))
                    newest = max([newest, *((int(major), int(minor)) for major, minor in found)])
        self.assertEqual({each.filename.rsplit("/", 1)[1] for each in scripts}, PROGRAMS)
        self.assertIn("-py3-none-manylinux_%d_%d_" % newest, the_wheel().name)

    def test_its_bill_names_the_programs_and_the_libraries_in_them(self):
        with zipfile.ZipFile(the_wheel()) as archive:
            data = {each.rsplit("/", 1)[1]: archive.read(each) for each in archive.namelist()}
        bill = json.loads(data["muster.spdx.json"])
        told = {each["fileName"][2:]: {sum["algorithm"]: sum["checksumValue"] for sum in each["checksums"]}["SHA256"]
                for each in bill["files"]}
        self.assertEqual(told, {name: hashlib.sha256(data[name]).hexdigest() for name in PROGRAMS})
        # Two libraries have their version in their code.
        versions = {each["name"]: each["versionInfo"] for each in bill["packages"]}
        zlib = re.search(rb"deflate (\d+\.\d+\.\d+) Copyright", data["jobctl"]).group(1).decode()
        self.assertIn(f":{zlib}.", versions["zlib1g-dev"])
        sqlite = versions["libsqlite3-dev"].split("-")[0]
        self.assertIn(sqlite.encode() + b"\0", data["muster-coordinator"])
        links = {(each["spdxElementId"], each["relatedSpdxElement"]) for each in bill["relationships"]
                 if each["relationshipType"] == "STATIC_LINK"}
        self.assertIn(("SPDXRef-jobctl", "SPDXRef-deb-libssl-dev"), links)
        self.assertIn(("SPDXRef-muster-coordinator", "SPDXRef-deb-libsqlite3-dev"), links)
        self.assertNotIn(("SPDXRef-muster-shim", "SPDXRef-deb-libssl-dev"), links)
        # What must accompany the code of others.
        for name in versions.keys() - {"muster"}:
            self.assertIn(f"\n{name} {versions[name]}\n".encode(), data["third-party.txt"])

    def test_two_wheels_of_one_tree_are_the_same_bytes(self):
        again = package("wheel", TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="1")
        self.assertEqual(support.digests(package("wheel")), support.digests(again))


class InAnEmptyEnvironment(harness.Case):
    def setUp(self):
        super().setUp()
        self.venv = self.path("venv")
        subprocess.run([sys.executable, "-m", "venv", self.venv], check=True, capture_output=True)
        for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"):
            self.env.pop(name, None)
        # Nothing of the build tree, no compiler: only the environment and the system's own tools.
        self.env.update(PATH=f"{self.venv}/bin:/usr/bin:/bin", PIP_NO_INDEX="1", PYTHONDONTWRITEBYTECODE="1")

    def told_by_the_page(self):
        """What docs/install.md tells to type, with the wheel and the script of this test."""
        block = next(block for _, block in typed.blocks((ROOT / "docs" / "install.md").read_text())
                     if block.startswith("pip install muster_train-"))
        return [re.sub(r"muster_train-\S+\.whl", str(the_wheel()), line).replace("train.py", f"{TRAIN} 20")
                for line in block.splitlines()]

    def type(self, line):
        done = subprocess.run(line, shell=True, env=self.env, cwd=self.directory, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}")
        return done.stdout

    def files(self):
        return {os.path.join(where, name) for where, _, names in os.walk(self.venv) for name in names
                if "__pycache__" not in where}

    def pip(self, *arguments):
        subprocess.run(["pip", "--quiet", *map(str, arguments)], env=self.env, check=True, capture_output=True,
                       stdin=subprocess.DEVNULL, timeout=120)

    def jobctl(self, *arguments):
        return subprocess.run(["jobctl", *arguments], env=self.env, cwd=self.directory, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=True).stdout

    def test_a_job_of_two_ranks_loses_one_and_resumes(self):
        package("wheel")
        install, run_it = self.told_by_the_page()
        before, begin = self.files(), time.monotonic()
        self.type(install)
        run = subprocess.Popen(["jobctl", "run", "-n", "2", "--restarts", "1", "--", "python", TRAIN, "60", "0.05"],
                               env=self.env, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.addCleanup(lambda: (run.kill(), run.communicate()))
        timer = threading.Timer(60, run.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        lines, first_loss, victim = [], None, None
        muster = self.private()
        for line in run.stdout:
            lines.append(line)
            if first_loss is None and re.search(r"step \d+ loss", line):
                first_loss = time.monotonic() - begin
            if found := re.search(r"rank 1 pid (\d+) begins with step 1\b", line):
                victim = int(found.group(1))
            elif victim and " loss " in line and self.committed(muster):
                harness.kill9(victim)
                victim = None
        said = "".join(lines)
        self.assertEqual(run.wait(), 0, said)
        self.assertEqual(said.count("done"), 2, said)
        resumed = [int(step) for step in re.findall(r"rank [01] pid \d+ begins with step (\d+)", said)]
        self.assertEqual(resumed[:2], [1, 1], said)
        self.assertEqual(len(resumed), 4, said)
        self.assertEqual({step % 10 for step in resumed[2:]}, {1}, said)
        self.assertGreater(min(resumed[2:]), 10, said)
        self.assertIn("SIGKILL", self.jobctl("events", "@last"))
        self.assertIn("loss", self.jobctl("metrics", "@last"))
        print(f"from pip install to the first loss: {first_loss:.1f} s", file=sys.stderr)
        self.assertLess(first_loss, 60)

        self.alone()
        self.assertIn("✓ succeeded", self.type(run_it))
        self.jobctl("down")
        self.verified()
        self.pip("uninstall", "--yes", "muster-train")
        self.assertEqual(self.files(), before)

    def verified(self):
        verify = ("version", "--verify", "--key", f"{support.signing_key()}.pub")
        self.assertRegex(self.jobctl(*verify), r"^✓ muster_train \S+: \d+ files as listed; signed by SHA256:[0-9a-f]{64}\n")
        changed = next(path for path in self.files() if path.endswith("/muster/_lines.py"))
        more = os.path.join(os.path.dirname(changed), "more.py")
        for path in (changed, more):
            with open(path, "a") as file:
                file.write("# by another user\n")
        done = subprocess.run(["jobctl", *verify], env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(f"  changed  {changed}\n  extra    {more}\n", done.stdout)
        os.remove(more)

    def committed(self, muster):
        jobs = muster.api.list()
        return any(each.state == 2 for each in muster.api.record(jobs[0].id).checkpoints)

    def alone(self):
        """The same script without Muster, twice: it resumes from its own checkpoints, too."""
        os.mkdir(self.path("alone"))
        for steps, first in (("20", 1), ("40", 21)):
            done = subprocess.run(["python", TRAIN, steps], env=self.env, cwd=self.path("alone"), check=True,
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
            self.assertIn(f"begins with step {first}\n", done.stdout)
            self.assertTrue(done.stdout.endswith("done\n"), done.stdout)
            self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    harness.main()
