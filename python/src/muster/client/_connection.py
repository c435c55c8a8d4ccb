"""One channel to a coordinator: calls in, responses or MusterError out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import grpc

from muster._version import VERSION
from muster.client import _api
from muster.client._errors import MusterError, unreachable
from muster.client._settings import Target

COORDINATOR_NAME = "muster-coordinator"  # in every coordinator's certificate, whatever address is dialed
MESSAGE_BYTES_MAX = (4 << 20) + (64 << 10)
SLOW_REQUEST_S = 60.0  # a durable answer may wait for a slow disk


class Connection:
    """Any thread, several calls at once."""

    def __init__(self, target: Target, timeout: float) -> None:
        self.endpoint = target.endpoint
        self._target = target
        self._attend: Any = None
        self._channel = _channel(target)
        try:
            request = _api.message("GetServerRequest")(client_protocol=_api.PROTOCOL, client_version=VERSION)
            self.server = self.call("GetServer", request, timeout)
            if target.is_private:  # it ends when no client needs it
                path, request_class, response_class = _api.method("Attend")
                attend = self._channel.unary_stream(path, request_class.SerializeToString, response_class.FromString)
                self._attend = attend(request_class(pid=os.getpid()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends every call that is under way."""
        if self._attend is not None:
            self._attend.cancel()
        self._channel.close()

    def call(self, name: str, request: Any, timeout: float = SLOW_REQUEST_S) -> Any:
        """One request, one response."""
        path, request_class, response_class = _api.method(name)
        stub = self._channel.unary_unary(path, request_class.SerializeToString, response_class.FromString)
        try:
            return stub(request, timeout=timeout)
        except grpc.RpcError as error:
            raise self._converted(error) from None

    def stream(self, name: str, request: Any, timeout: float | None = None) -> Iterator[Any]:
        """The responses of a stream. A caller that stops early ends it by closing the generator."""
        path, request_class, response_class = _api.method(name)
        stub = self._channel.unary_stream(path, request_class.SerializeToString, response_class.FromString)
        responses = stub(request, timeout=timeout)
        try:
            yield from responses
        except grpc.RpcError as error:
            raise self._converted(error) from None
        finally:
            responses.cancel()

    def _converted(self, error: Any) -> MusterError:
        status = error.code().name if error.code() is not None else "UNKNOWN"
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin" and (detail := _api.error_detail(value)) is not None:
                return from_detail(detail, status)
        reason = error.details() or status
        if status == "UNIMPLEMENTED":
            return MusterError(
                f"the coordinator at {self.endpoint} is a different version and does not support this request",
                code="JC1302",
                fix="jobctl version",
                status=status,
            )
        if status == "DEADLINE_EXCEEDED":
            return MusterError(f"the coordinator at {self.endpoint} has not answered in time", status=status)
        if status != "UNAVAILABLE":
            return MusterError(reason, status=status)
        return self._unreachable(reason)

    def _unreachable(self, reason: str) -> MusterError:
        # Of gRPC's chain of causes, only the last is useful to people: "…: Connection refused".
        last = reason.rpartition(": ")[2]
        if self._target.is_private:
            return unreachable(self.endpoint, last, "jobctl up starts your private coordinator and keeps it running")
        if self._target.credentials is not None:
            fix = "jobctl whoami reports whether you are still signed in, and renews the certificate"
            return unreachable(self.endpoint, reason, fix)
        closed = ("Connection reset by peer", "Socket closed", "Endpoint closing")
        if not self.endpoint.startswith("unix:") and reason.endswith(closed):
            return MusterError(
                f"the coordinator at {self.endpoint} closes connections that are not encrypted",
                code="JC1357",
                why="you are not signed in to it",
                fix="jobctl login HOST:PORT",
                status="UNAUTHENTICATED",
            )
        return unreachable(self.endpoint, last)


def _channel(target: Target) -> Any:
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.enable_http_proxy", 0),
        ("grpc.keepalive_time_ms", 20_000),  # a cut network is noticed, also in a stream that waits for days
        ("grpc.keepalive_timeout_ms", 10_000),
    ]
    if target.endpoint.startswith("unix:"):
        return grpc.insecure_channel(target.endpoint, [*options, ("grpc.default_authority", "localhost")])
    if target.credentials is None:
        return grpc.insecure_channel(target.endpoint, options)
    shown = target.credentials
    proof = grpc.ssl_channel_credentials(shown.authority, shown.key, shown.certificate)
    return grpc.secure_channel(target.endpoint, proof, [*options, ("grpc.ssl_target_name_override", COORDINATOR_NAME)])


def from_detail(detail: Any, status: str) -> MusterError:
    """The coordinator's own error."""
    fix = detail.fix or (f"jobctl explain {detail.code}" if detail.code else "")
    return MusterError(detail.what, code=detail.code, why=detail.why, fix=fix, status=status)
