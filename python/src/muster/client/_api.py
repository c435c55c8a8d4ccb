"""The messages of muster.v1, made from the descriptor set that the wheel was built with.

They live in their own pool, so other code of the process may register muster.v1 too.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

PROTOCOL = 3  # of proto/, as common/base/version.h


def _pool() -> Any:
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(resources.files("muster.client").joinpath("api.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


_POOL = _pool()


def message(name: str) -> Any:
    """The class of muster.v1.NAME."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"muster.v1.{name}"))


def enum_name(kind: str, value: int) -> str:
    """JobState, 3 → "RUNNING"; the number as text if this version does not know it."""
    enum = _POOL.FindEnumTypeByName(f"muster.v1.{kind}")
    found = enum.values_by_number.get(value)
    if found is None:
        return str(value)
    prefix = "".join("_" + letter if letter.isupper() else letter.upper() for letter in kind).lstrip("_") + "_"
    name: str = found.name
    return name[len(prefix) :] if name.startswith(prefix) else name


def method(name: str) -> tuple[str, Any, Any]:
    """Path, class of the request and class of the response of a call of JobService."""
    found = _POOL.FindServiceByName("muster.v1.JobService").FindMethodByName(name)
    classes = (message_factory.GetMessageClass(found.input_type), message_factory.GetMessageClass(found.output_type))
    return (f"/muster.v1.JobService/{name}", *classes)


def error_detail(details: bytes) -> Any:
    """The ErrorDetail in grpc-status-details-bin, or None."""
    status = message("StatusDetails")()
    try:
        status.ParseFromString(details)
        for each in status.details:
            if each.type_url.rpartition("/")[2] == "muster.v1.ErrorDetail":
                detail = message("ErrorDetail")()
                detail.ParseFromString(each.value)
                return detail
    except Exception:  # DecodeError: another program's bytes
        return None
    return None


__all__ = ["PROTOCOL", "any_pb2", "enum_name", "error_detail", "message", "method"]
