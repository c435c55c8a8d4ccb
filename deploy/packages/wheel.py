"""The wheel: the pure package that python/ describes, with the programs as the scripts of its .data folder."""
import base64
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import elf
import files_list
from release import ROOT, Problem, run


def write(release, bill, signer, out):
    """Writes the wheel into `out` and returns its path."""
    with tempfile.TemporaryDirectory(prefix="muster-wheel-") as folder:
        pure = build_pure(release, Path(folder))
        name, version = re.match(r"(.+?)-(.+?)-", pure.name).groups()
        if version != release.version:
            raise Problem(f"python/ is version {version}, the programs are {release.version}; "
                          "fix: the same in python/src/muster/_version.py and CMakeLists.txt")
        with zipfile.ZipFile(pure) as archive:
            files = {each.filename: archive.read(each) for each in archive.infolist() if not each.is_dir()}
    tag = "py3-none-" + elf.manylinux(release.programs(), release.architecture)
    base = f"{name}-{version}"
    # One folder for all five: each finds the others beside itself.
    scripts = {f"{base}.data/scripts/{path.name}": path.read_bytes() for path in release.programs()}
    files |= scripts
    files[f"{base}.dist-info/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: muster ({version})\nRoot-Is-Purelib: false\nTag: {tag}\n").encode()
    files[f"{base}.dist-info/sboms/muster.spdx.json"] = bill.text().encode()
    files[f"{base}.dist-info/licenses/third-party.txt"] = bill.licenses().encode()
    record = f"{base}.dist-info/RECORD"
    files.pop(record)
    for each, data in signer.signed("muster.files", list_of(name, version, files, signer)).items():
        files[f"{base}.dist-info/{each}"] = data
    lines = [f"{path},sha256={digest(data)},{len(data)}" for path, data in sorted(files.items())]
    files[record] = ("\n".join([*lines, f"{record},,"]) + "\n").encode()
    path = out / f"{base}-{tag}.whl"
    write_zip(path, files, scripts, release.epoch)
    return path


def list_of(name, version, files, signer):
    """The files as pip installs them: paths from site-packages, which the programs are beside in all of pip's schemes."""
    installed = {re.sub(r"^[^/]*\.data/scripts/", "../../../bin/", path): data for path, data in files.items()
                 if ".dist-info/" not in path}
    return files_list.text(name, version, installed, ["muster"], signer)


def build_pure(release, folder):
    """The py3-none-any wheel of a copy of python/, as its build backend would write into the repository."""
    source = folder / "source"
    shutil.copytree(ROOT / "python", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*"))
    shutil.copytree(ROOT / "proto" / "muster", source / "proto" / "muster")
    protoc = shutil.which("protoc") or ""
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
        "--wheel-dir", folder / "pure", source,
        env={**os.environ, "MUSTER_PROTOC": protoc, "SOURCE_DATE_EPOCH": str(release.epoch)})
    return next((folder / "pure").glob("*.whl"))


def digest(data):
    """A hash as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_zip(path, files, executable, epoch):
    """An archive whose bytes depend on its arguments alone. RECORD comes last, as PEP 427 recommends."""
    moment = max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(files, key=lambda name: (name.endswith("/RECORD"), name)):
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100755 if name in executable else 0o100644) << 16
            entry.create_system = 3  # Unix: the attributes are modes
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED, 6)
