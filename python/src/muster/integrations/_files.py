"""A directory that a library has written, as files of a checkpoint."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def link_tree(source: Path, target: Path) -> None:
    """The same files in `target`, which exists: hard links, or copies on another file system. Links are followed."""
    shutil.copytree(source, target, copy_function=_link_or_copy, dirs_exist_ok=True)


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copy2(source, target)
    return target
