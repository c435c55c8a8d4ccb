"""What of this process's environment a job gets, as jobctl sends it (client/session/spec_environment.cc)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable

from muster.client._settings import Target

LEAST = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR")
USUAL = (
    "ASCEND_*",
    "CONDA_*",
    "CUDA_*",
    "GLOO_*",
    "HCCL_*",
    "HF_HOME",
    "LC_*",
    "LD_LIBRARY_PATH",
    "MKL_*",
    "MUSTER_*",
    "NCCL_*",
    "OMP_*",
    "PYTHON*",
    "TERM",
    "TORCH*",
    "TRANSFORMERS_*",
    "VIRTUAL_ENV",
)
SECRET_WORDS = ("TOKEN", "KEY", "PASSWORD", "PASSWD", "SECRET", "CREDENTIAL")
SHOWN = 5


def _looks_secret(name: str) -> bool:
    return any(word in name.upper() for word in SECRET_WORDS)


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    """By its name, or by "NAME*", which takes no name that looks like a secret."""
    return any(
        name.startswith(each[:-1]) and not _looks_secret(name) if each.endswith("*") else name == each
        for each in patterns
    )


def _warn_left_out(names: list[str]) -> None:
    secrets = sorted(name for name in names if _looks_secret(name))
    if not secrets:
        return
    shown = ", ".join(secrets[:SHOWN]) + (f" and {len(secrets) - SHOWN} more" if len(secrets) > SHOWN else "")
    warnings.warn(
        f"of this process's environment {len(names)} variables were not sent to another host, among them {shown}, "
        'which may be secrets; env={...} sends some, env_from="shell" all',
        stacklevel=4,
    )


def job_environment(target: Target, *, clean: bool, env_from: str | None) -> dict[str, str]:
    """What is not UTF-8 is left out."""
    if env_from not in (None, "shell"):
        raise ValueError(f'env_from is {env_from!r}; pass "shell" or None')
    if clean and env_from is not None:
        raise ValueError("clean_env and env_from exclude each other")
    takes_all = not clean and (env_from == "shell" or target.is_local)
    patterns = LEAST if clean else (*LEAST, *USUAL, *target.env_pass)
    kept, left_out = {}, []
    for name, value in os.environ.items():
        if not takes_all and not _is_among(name, patterns):
            left_out.append(name)
            continue
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            continue
        kept[name] = value
    if not clean:
        _warn_left_out(left_out)
    return kept
