"""What the tests of the packages share: packages of the build tree, made once per test program."""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import harness  # noqa: E402
from harness import need  # noqa: E402

BUILD = Path(harness.BUILD)
PREVIOUS = BUILD / "bin" / "tests" / "previous"
_made = {}
_key = []


def signing_key():
    """The key of this run, which signs the packages: a private one in a file; the public one is KEY.pub."""
    if not _key:
        need(shutil.which("openssl"), "packages are signed with openssl")
        folder = Path(tempfile.mkdtemp(prefix="mt-key-"))
        unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
        _key.append(new_key(folder / "key"))
    return _key[0]


def new_key(path):
    """An Ed25519 key in two files, PATH and PATH.pub."""
    subprocess.run(["openssl", "genpkey", "-algorithm", "ED25519", "-out", path], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", path, "-pubout", "-out", f"{path}.pub"], check=True, capture_output=True)
    return path


def package(kind, programs=None, **environment):
    """A folder with the packages of one kind, wheel or deb; of another release with `programs`."""
    for tool in ("readelf", "ninja", "cmake", "dpkg", "protoc"):
        need(shutil.which(tool), f"packages are made with {tool}")
    need(kind != "wheel" or importlib.util.find_spec("setuptools"), "the wheel is built by the Python package setuptools")
    need(kind != "deb" or shutil.which("dpkg-shlibdeps"), "Debian packages are made with dpkg-shlibdeps (dpkg-dev)")
    # Debian 13's static libdw is not whole (cmake/MusterDependencies.cmake), so packages are made on 12 and run on both.
    needed = subprocess.run(["readelf", "-d", BUILD / "bin" / "muster-unwind"], capture_output=True, text=True).stdout
    need("libdw" not in needed, "packages are made where libdw can be linked statically, on Debian 12")
    key = (kind, programs, *sorted(environment.items()))
    if key not in _made:
        out = Path(tempfile.mkdtemp(prefix="mt-packages-"))
        unittest.addModuleCleanup(shutil.rmtree, out, ignore_errors=True)
        more = ["--programs", str(programs)] if programs else []
        moment = {} if (ROOT / ".git").exists() and shutil.which("git") else {"SOURCE_DATE_EPOCH": "1795000000"}
        done = subprocess.run([sys.executable, "-B", ROOT / "deploy" / "packages" / "build.py", "--build", BUILD, "--out",
                               out, f"--{kind}", "--sign", signing_key(), *more], env={**os.environ, **moment, **environment}, capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        _made[key] = out
    return _made[key]


def the_debs(**options):
    """{name: path} of the packages but the SDK's, which needs more than a bare machine has."""
    found = {path.name.split("_")[0]: path for path in package("deb", **options).glob("*.deb")}
    return {name: found[name] for name in ("muster-jobctl", "muster-coordinator", "muster-worker")}


def field(path, name):
    """A field of a package's control file."""
    return subprocess.run(["dpkg-deb", "--field", path, name], check=True, capture_output=True, text=True).stdout.strip()


def digests(folder):
    """{name: contents} of a folder's files."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
