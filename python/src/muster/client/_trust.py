"""Which process is at the other end of a unix socket, checked before anything is sent: a submit carries the whole
environment. The rules are those of client/connection/socket_trust.h."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path

from muster.client._errors import MusterError


def _unsafe(what: str, fix: str) -> MusterError:
    return MusterError(f"{what}; nothing was sent", code="JC1304", fix=fix, status="FAILED_PRECONDITION")


def _listener(path: Path) -> int | None:
    """The uid of the listening process; None if there is none. The kernel records it at listen(2)."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except OSError:
            return None
        peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", peer)[1]
    return uid


def _is_us_or_root(uid: int) -> bool:
    return uid in (os.geteuid(), 0)


def check_private_socket(directory: Path, path: Path) -> None:
    """A directory and socket of ours, and the listening process is ours or root's. OK if none listens."""
    try:
        info = os.lstat(directory)
    except FileNotFoundError:
        return  # the connection reports that nothing runs
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
        raise _unsafe(
            f"{directory} (uid {info.st_uid}, mode {stat.S_IMODE(info.st_mode):04o}) must be a directory of yours (uid "
            f"{os.geteuid()}) with access for you only: it holds your private coordinator's socket",
            "export JOBCTL_RUNTIME_DIR=$HOME/.muster-run",
        )
    uid = _listener(path)
    if uid is not None and not _is_us_or_root(uid):
        raise _unsafe(f"a process of uid {uid} is listening at {path}", f"rm {path}")


def check_server_socket(path: Path) -> None:
    """The listening process belongs to us, root or the owner of the socket's directory, and no other user can put
    another socket there. OK if none listens."""
    uid = _listener(path)
    if uid is None:
        return
    where, found = path.parent.stat(), path.stat()
    fix = "ask its administrator for a socket in a directory that only its user can write to"
    others_write = bool(where.st_mode & 0o022)
    # In a sticky directory such as /tmp, only the socket's owner can replace it.
    is_sticky = bool(where.st_mode & stat.S_ISVTX) and _is_us_or_root(found.st_uid)
    if others_write and not is_sticky:
        raise _unsafe(f"other users can replace {path}: its directory has mode {stat.S_IMODE(where.st_mode):04o}", fix)
    if not _is_us_or_root(uid) and (others_write or uid != where.st_uid):
        raise _unsafe(
            f"a process of uid {uid} is listening at {path}: neither yours, nor root's, nor that of the directory's "
            f"owner (uid {where.st_uid})",
            fix,
        )
