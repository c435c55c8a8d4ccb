"""Which coordinator, and with which credentials: found as jobctl finds them.

argument > JOBCTL_CONTEXT or JOBCTL_SERVER > the current context of config.yaml > the user's private coordinator.
"""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass, replace
from pathlib import Path

from muster.client._errors import MusterError
from muster.client._heads import share_address, split_addresses
from muster.client._trust import check_private_socket, check_server_socket

CONFIG_BYTES_MAX = 1 << 20
CREDENTIALS_BYTES_MAX = 64 << 10
# A context's name that is fit for a file (identity/names.h).
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
PEM = r"-----BEGIN {0}-----\n.*?-----END {0}-----\n"


@dataclass(frozen=True)
class Credentials:
    """What `jobctl login` wrote: a key, its certificate, the cluster's authority (PEM)."""

    name: str
    cluster: str
    http: str
    key: bytes
    certificate: bytes
    authority: bytes


@dataclass(frozen=True)
class Target:
    """Where the coordinator is, or several that replace each other: "a:7700,b:7700". `is_private`: it is this user's,
    which ends when nothing needs it."""

    endpoint: str
    is_private: bool
    credentials: Credentials | None
    env_pass: tuple[str, ...] = ()  # more variables that jobs get, of the contexts with this server

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine."""
        return self.is_private or self.endpoint.startswith("unix:")


def resolve(server: str | None, context: str | None) -> Target:
    """The coordinator of these arguments, or of the environment and config.yaml. Raises MusterError."""
    if server is not None and context is not None:
        raise MusterError("server and context both select a coordinator", code="JC1004", fix="give only one of them")
    config = _config_path()
    contexts, current, passed = _read_config(config)
    target = _find(server, context, config, contexts, current)
    names = [
        name
        for each, address in contexts.items()
        if share_address(address, target.endpoint)
        for name in passed.get(each, ())
    ]
    return replace(target, env_pass=tuple(names))


def _find(server: str | None, context: str | None, config: Path, contexts: dict[str, str], current: str) -> Target:
    if server is None and context is None:
        server = os.environ.get("JOBCTL_SERVER") or None
        if server is not None:
            return _named(_checked("JOBCTL_SERVER", server), _context_of(config, contexts, server), config)
    if server is not None:
        return _named(_checked("server", server), _context_of(config, contexts, server), config)
    context = context or os.environ.get("JOBCTL_CONTEXT") or current or "private"
    if context == "private":
        return _private()
    if context not in contexts:
        known = ", ".join(["private", *sorted(contexts)])
        raise MusterError(
            f'there is no context "{context}"', code="JC1007", why=f"{config} has {known}", fix="jobctl context ls"
        )
    return _named(_checked(f"the server of context {context},", contexts[context]), context, config)


def _checked(what: str, server: str) -> str:
    if server.startswith("unix:/"):
        return server
    for address in split_addresses(server):
        host, _, port = address.rpartition(":")
        if host and port.isdigit() and 1 <= int(port) <= 65_535 and not address.startswith("unix:/"):
            continue
        fix = "give both, like head:7700, or several like a:7700,b:7700"
        raise MusterError(f'{what} "{address}" is neither HOST:PORT nor unix:/PATH', code="JC1004", fix=fix)
    return server


def _home() -> Path:
    return Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def _xdg(variable: str, below_home: str) -> Path:
    named = os.environ.get(variable, "")
    return Path(named) if named.startswith("/") else _home() / below_home


def _config_path() -> Path:
    named = os.environ.get("JOBCTL_CONFIG")
    return Path(named) if named else _xdg("XDG_CONFIG_HOME", ".config") / "muster" / "config.yaml"


def _read_config(path: Path) -> tuple[dict[str, str], str, dict[str, list[str]]]:
    """({context: server}, current, {context: env_pass})."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_BYTES_MAX)
    except FileNotFoundError:
        return {}, "", {}
    except OSError as error:
        raise MusterError(
            "the configuration cannot be read", code="JC1006", why=str(error), fix=f"ls -l {path}"
        ) from error
    import yaml

    try:
        root = yaml.safe_load(content) or {}
        contexts = {str(name): str(entry["server"]) for name, entry in (root.get("contexts") or {}).items()}
        passed = {
            str(name): [str(each) for each in entry.get("env_pass") or ()]
            for name, entry in (root.get("contexts") or {}).items()
        }
        return contexts, str(root.get("current") or ""), passed
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise MusterError(
            f"the configuration {path} has errors", code="JC1006", why=repr(error), fix="jobctl config view names them"
        ) from error


def _private() -> Target:
    named = os.environ.get("JOBCTL_RUNTIME_DIR")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if named:
        directory = Path(named).absolute()
    elif runtime.startswith("/") and os.access(runtime, os.W_OK):
        directory = Path(runtime) / "muster"
    else:
        directory = Path(f"/tmp/muster-{os.getuid()}")
    path = directory / "coordinator.sock"
    check_private_socket(directory, path)
    return Target(f"unix:{path}", True, None)


def _named(server: str, context: str, config: Path) -> Target:
    if server.startswith("unix:"):
        check_server_socket(Path(server[len("unix:") :]))
        return Target(server, False, None)
    credentials = None
    if NAME.fullmatch(context):
        credentials = _read_credentials(config.parent / "credentials" / context)
    return Target(server, False, credentials)


def _context_of(config: Path, contexts: dict[str, str], server: str) -> str:
    """A server that is named by its address, or by several of its cluster, has a context's credentials, too."""
    for name, address in contexts.items():
        if share_address(address, server) and NAME.fullmatch(name) and (config.parent / "credentials" / name).exists():
            return name
    return ""


# ---- credentials


def _unusable(path: Path, why: str) -> MusterError:
    return MusterError(
        f"the credentials in {path} cannot be used",
        code="JC1323",
        why=why,
        fix="jobctl login with a new token",
        status="UNAUTHENTICATED",
    )


def _read_credentials(path: Path) -> Credentials | None:
    try:
        with path.open("rb") as file:
            info = os.fstat(file.fileno())
            text = file.read(CREDENTIALS_BYTES_MAX).decode("ascii", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, str(error)) from error
    if info.st_mode & 0o077:
        raise _unusable(path, "others may read them")
    if info.st_uid != os.geteuid() and os.geteuid() != 0:
        raise _unusable(path, "they are another user's")
    head = dict(line.split(": ", 1) for line in text.split("-----BEGIN")[0].splitlines() if ": " in line)
    keys = re.findall(PEM.format("PRIVATE KEY"), text, re.DOTALL)
    certificates = re.findall(PEM.format("CERTIFICATE"), text, re.DOTALL)
    if not keys or len(certificates) < 2:
        raise _unusable(path, "it has no private key, no certificate or no certificate of the cluster's authority")
    return Credentials(
        name=head.get("name", ""),
        cluster=head.get("cluster", ""),
        http=head.get("http", ""),
        key=keys[0].encode(),
        certificate=certificates[0].encode(),
        authority=certificates[1].encode(),
    )
