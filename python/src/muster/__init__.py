"""Makes a Python training script observable and resumable under Muster, and changes nothing without it.

    import muster

    state = muster.load_checkpoint()                      # None on a fresh start
    for step, batch in enumerate(muster.steps(loader)):   # and Muster knows what steps wait for
        loss = train(batch)
        muster.log(loss=loss, step=step)
        muster.progress(step, steps)
        if step % 100 == 0 or muster.should_checkpoint() or muster.should_stop():
            muster.save_checkpoint({"model": model.state_dict(), "step": step}, step)
        if muster.should_stop():
            break

Outside Muster every function here does nothing and costs about 100 ns. Inside, a daemon thread speaks to the node's
worker (docs/protocol.md); nothing that happens there blocks or breaks training. `muster.Client` submits and follows
jobs (it needs `pip install grpcio protobuf pyyaml`); `muster.integrations` has callbacks for transformers, Lightning
and Accelerate. Nothing of torch is imported before a function needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster._step_times import step, steps
from muster._training import log, progress, should_checkpoint, should_stop
from muster._version import VERSION as __version__

if TYPE_CHECKING:
    from muster._checkpoints import (
        latest_checkpoint,
        load_checkpoint,
        load_distributed_checkpoint,
        save_checkpoint,
        save_distributed_checkpoint,
    )
    from muster.client import Client as Client
    from muster.client import MusterError as MusterError

# Without Client and MusterError, so that `import *` needs nothing that is not installed.
__all__ = [
    "__version__",
    "latest_checkpoint",
    "load_checkpoint",
    "load_distributed_checkpoint",
    "log",
    "progress",
    "save_checkpoint",
    "save_distributed_checkpoint",
    "should_checkpoint",
    "should_stop",
    "step",
    "steps",
]


# What costs an import is imported when it is first used.
_HOMES = {
    "Client": "muster.client",
    "MusterError": "muster.client",
    **{name: "muster._checkpoints" for name in __all__ if name.endswith("checkpoint")},
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from importlib.util import find_spec

    return sorted([*__all__, *(name for name in ("Client", "MusterError") if find_spec("grpc"))])
