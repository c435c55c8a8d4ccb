"""Adds to the wheel what `muster.client` needs of proto/: one descriptor set, made here and not checked in.

A descriptor set instead of generated code: generated code works only with protobuf releases near the one that generated
it, and would register muster.v1 in a pool that other code of the same process may use.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
# In a source distribution proto/ lies beside this file, in the repository one folder above.
PROTO = next((path for path in (HERE / "proto", HERE.parent / "proto") if path.is_dir()), None)


class BuildPy(build_py):
    """build_py that also makes muster/client/api.binpb."""

    def run(self) -> None:
        """Builds, then describes the API."""
        super().run()
        if PROTO is None:
            raise SystemExit("proto/ is missing; build from the repository or a source distribution")
        target = Path(self.build_lib).absolute() / "muster" / "client" / "api.binpb"
        if self.editable_mode:
            target = HERE / "src" / "muster" / "client" / "api.binpb"
        target.parent.mkdir(parents=True, exist_ok=True)
        # MUSTER_PROTOC: a compiler on this machine, where grpcio-tools is not installed.
        told = os.environ.get("MUSTER_PROTOC")
        subprocess.run(
            [
                *([told] if told else [sys.executable, "-m", "grpc_tools.protoc"]),
                "-I",
                PROTO,
                "--include_imports",
                f"--descriptor_set_out={target}",
                "muster/v1/job_service.proto",
            ],
            cwd=PROTO,
            check=True,
        )


class Sdist(sdist):
    """sdist that takes proto/ along."""

    def make_release_tree(self, base_dir: str, files: object) -> None:
        """Copies what the wheel is built from."""
        super().make_release_tree(base_dir, files)
        if PROTO is not None:
            shutil.copytree(PROTO / "muster", Path(base_dir) / "proto" / "muster")


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
