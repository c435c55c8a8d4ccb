"""What callers pass, as what the protocol takes: numbers, steps, metric names."""

from __future__ import annotations

import math
from typing import Any

NAME_BYTES_MAX = 256
STEP_MAX = 2**63 - 1


def number(value: Any) -> float | None:
    """`value` as a float: int, float, bool, a numpy scalar, a torch tensor with one element; else None.

    A tensor on a device is copied to the host, which waits for the device.
    """
    if type(value) is float:
        return value
    if isinstance(value, (str, bytes, bytearray)):
        return None
    try:
        detach = getattr(value, "detach", None)  # torch warns about a tensor that needs a gradient
        return float(value if detach is None else detach())
    except Exception:  # whatever a foreign type's conversion raises, logging must not raise it
        return None


def whole(value: Any) -> int | None:
    """`value` as a signed 64-bit integer: int, or a scalar of numpy or torch with a whole value; else None."""
    if type(value) is not int:
        if isinstance(value, (str, bytes, bytearray)):
            return None
        try:
            converted = int(value)
            if converted != value:
                return None
        except Exception:
            return None
        value = converted
    return value if -STEP_MAX - 1 <= value <= STEP_MAX else None


def json_number(value: float) -> float | str:
    """JSON has no NaN and no infinities; docs/protocol.md defines strings for them."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _is_control(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000


def metric_name(name: Any) -> str:
    """A name that the worker accepts: at most 256 bytes of UTF-8, "_" for each control character."""
    text = name if type(name) is str else str(name)
    if not (text.isascii() and text.isprintable()):
        text = "".join("_" if _is_control(character) else character for character in text)
    if len(text) * 4 > NAME_BYTES_MAX:
        text = text.encode()[:NAME_BYTES_MAX].decode(errors="ignore")
    return text or "_"
