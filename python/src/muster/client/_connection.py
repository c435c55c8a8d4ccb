"""The connection to the coordinator that leads: calls in, responses or MusterError out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from muster._version import VERSION
from muster.client import _api
from muster.client._errors import MusterError, unreachable
from muster.client._heads import HeadSearch, hosts_and_ports, merge_addresses, split_addresses
from muster.client._settings import Target

COORDINATOR_NAME = "muster-coordinator"  # in every coordinator's certificate, whatever address is dialed
MESSAGE_BYTES_MAX = (4 << 20) + (64 << 10)
SLOW_REQUEST_S = 60.0  # a durable answer may wait for a slow disk


class Connection:
    """To the coordinator that leads, also after another one does. Any thread, several calls at once."""

    def __init__(self, target: Target, timeout: float) -> None:
        self._target = target
        self._timeout = timeout
        self._addresses = merge_addresses(split_addresses(target.endpoint), ())
        self._attend: Any = None
        self._search: HeadSearch | None = None
        self._lock = threading.Lock()  # guards what follows; held while one thread looks for the one that leads
        self._line: _Line | None = None
        self._is_lost = False
        self._is_closed = False
        self.server = self._leading().server
        try:
            if target.is_private:  # it ends when no client needs it
                path, request_class, response_class = _api.method("Attend")
                channel = self._leading().channel
                attend = channel.unary_stream(path, request_class.SerializeToString, response_class.FromString)
                self._attend = attend(request_class(pid=os.getpid()))
        except BaseException:
            self.close()
            raise

    @property
    def endpoint(self) -> str:
        line = self._line
        return self._target.endpoint if line is None else line.endpoint

    def close(self) -> None:
        """Ends every call that is under way."""
        if self._attend is not None:
            self._attend.cancel()
        if self._search is not None:
            self._search.cancel()
        with self._lock:
            self._is_closed = True
            if self._line is not None:
                self._line.close()

    def call(self, name: str, request: Any, timeout: float = SLOW_REQUEST_S, *, repeat: bool = False) -> Any:
        """One request, one response. `repeat`: a call that changes nothing, or that the coordinator knows by a key, is
        made once more if the coordinator goes away before it answers and another one leads."""
        line = self._leading()
        try:
            return line.call(name, request, timeout)
        except MusterError as error:
            if not self._may_turn(line, error, repeat):
                raise
        return self._leading().call(name, request, timeout)

    def stream(self, name: str, request: Any, timeout: float | None = None) -> Iterator[Any]:
        """The responses of a stream that changes nothing. A caller that stops early closes the generator."""
        line = self._leading()
        has_begun = False
        try:
            for response in line.stream(name, request, timeout):
                has_begun = True
                yield response
            return
        except MusterError as error:
            if not self._may_turn(line, error, repeat=True) or has_begun:
                raise
        yield from self._leading().stream(name, request, timeout)

    def _leading(self) -> _Line:
        with self._lock:
            if self._line is not None and (self._is_closed or not self._is_lost):
                return self._line
            if self._is_closed:
                raise MusterError("the connection was closed", status="CANCELLED")
            self._search = HeadSearch(self._addresses, lambda each: _Line(each, self._target), self._timeout)
            found: _Line = self._search.find()
            # The old one is not closed here: it may have streams that have not broken yet.
            self._line, self._is_lost = found, False
            if not found.endpoint.startswith("unix:"):
                known = merge_addresses([found.endpoint], self._addresses)
                self._addresses = merge_addresses(known, hosts_and_ports(found.server.heads))
            return found

    def _may_turn(self, line: _Line, error: MusterError, repeat: bool) -> bool:
        """Whether a call that ended like this may be made again at the one that leads then. The next call finds it."""
        stands_by = error.code == "JC1630"  # then it has done nothing
        is_late = error.status == "DEADLINE_EXCEEDED" and not error.code
        with self._lock:
            # gRPC redials a coordinator that is alone.
            if not stands_by and (len(self._addresses) < 2 or not (error.code == "JC1301" or is_late)):
                return False
            if self._line is line and not self._is_closed:
                self._is_lost = True
            return not self._is_closed and (stands_by or (repeat and not is_late))


class _Line:
    """One coordinator's channel: calls in, responses or MusterError out. The certificate of whatever listens at
    `endpoint` is checked for this line alone."""

    def __init__(self, endpoint: str, target: Target) -> None:
        self.endpoint = endpoint
        self.server: Any = None  # its answer when it was found to lead
        self._target = target
        self.channel = _channel(endpoint, target)

    def close(self) -> None:
        self.channel.close()

    def ask(self, timeout: float) -> Any:
        """A future of GetServer's answer."""
        path, request_class, response_class = _api.method("GetServer")
        request = request_class(client_protocol=_api.PROTOCOL, client_version=VERSION)
        stub = self.channel.unary_unary(path, request_class.SerializeToString, response_class.FromString)
        return stub.future(request, timeout=timeout)

    def error(self, error: Exception) -> MusterError:
        if isinstance(error, grpc.RpcError):
            return self._converted(error)
        return unreachable(self.endpoint, str(error) or type(error).__name__)

    def call(self, name: str, request: Any, timeout: float) -> Any:
        path, request_class, response_class = _api.method(name)
        stub = self.channel.unary_unary(path, request_class.SerializeToString, response_class.FromString)
        try:
            return stub(request, timeout=timeout)
        except grpc.RpcError as error:
            raise self._converted(error) from None

    def stream(self, name: str, request: Any, timeout: float | None) -> Iterator[Any]:
        path, request_class, response_class = _api.method(name)
        stub = self.channel.unary_stream(path, request_class.SerializeToString, response_class.FromString)
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
        # A port that answered before speaks as we do: it has just closed.
        if self.server is None and not self.endpoint.startswith("unix:") and reason.endswith(closed):
            return MusterError(
                f"the coordinator at {self.endpoint} closes connections that are not encrypted",
                code="JC1357",
                why="you are not signed in to it",
                fix="jobctl login HOST:PORT",
                status="UNAUTHENTICATED",
            )
        return unreachable(self.endpoint, last)


def _channel(endpoint: str, target: Target) -> Any:
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.enable_http_proxy", 0),
        ("grpc.keepalive_time_ms", 20_000),  # a cut network is noticed, also in a stream that waits for days
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.use_local_subchannel_pool", 1),  # a line that is dialed again does not wait for an older one's pause
    ]
    if endpoint.startswith("unix:"):
        return grpc.insecure_channel(endpoint, [*options, ("grpc.default_authority", "localhost")])
    # A host may have the name of one of gRPC's schemes: "unix:7700".
    is_host = bool(hosts_and_ports([endpoint])) and not endpoint.startswith("[")
    dialed = f"dns:///{endpoint}" if is_host else endpoint
    if target.credentials is None:
        return grpc.insecure_channel(dialed, options)
    shown = target.credentials
    proof = grpc.ssl_channel_credentials(shown.authority, shown.key, shown.certificate)
    return grpc.secure_channel(dialed, proof, [*options, ("grpc.ssl_target_name_override", COORDINATOR_NAME)])


def from_detail(detail: Any, status: str) -> MusterError:
    """The coordinator's own error."""
    fix = detail.fix or (f"jobctl explain {detail.code}" if detail.code else "")
    return MusterError(detail.what, code=detail.code, why=detail.why, fix=fix, status=status)
