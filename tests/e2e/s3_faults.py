"""A proxy before a store of S3, which does to single requests what a test has planned, and remembers all of them.

Host goes through as it came, so that the store itself verifies what clients signed for the proxy's address. Threads; one
connection to the store for each request.
"""
import collections
import dataclasses
import datetime
import http.client
import http.server
import re
import select
import socket
import socketserver
import struct
import threading
import time
import urllib.parse

TOO_SKEWED = "RequestTimeTooSkewed"


def error(status, code, message):
    """An answer in the store's place, as S3 has it."""
    body = f"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Fault("answer", status=status, body=body.encode())


@dataclasses.dataclass
class Fault:
    what: str  # a method of Handler
    status: int = 0
    body: bytes = b""
    name: str = ""
    kind: str = ""

    def of(self, kind, name):
        """Of the next request of this kind."""
        return dataclasses.replace(self, kind=kind, name=f"{name} to {kind}")


INTERNAL = error(500, "InternalError", "We encountered an internal error. Please try again.")
SLOW_DOWN = error(503, "SlowDown", "Please reduce your request rate.")
EXPIRED = error(403, "AccessDenied", "Request has expired")
CUT = Fault("cut")          # the answer's head, half of its body, then the end of the connection
RESET = Fault("reset")      # half of the request's body reaches the store, then both connections are reset
HOLD = Fault("hold")        # likewise, but once the sender is gone, which waits until then
UNHEARD = Fault("unheard")  # the store has done it; the sender is gone before the answer comes


@dataclasses.dataclass
class Seen:
    kind: str
    key: str
    status: int = 0
    code: str = ""    # of an error
    fault: str = ""   # that it met
    late_s: float = 0.0  # the proxy's clock less that of the signature in a header
    is_from_store: bool = False
    sender_left: bool = False


def kind_of(method, path, query, headers):
    """"url PUT": by a presigned URL. Else by who signs in a header: "PUT" of an object, "GET", "HEAD", "begin", "parts",
    "complete", "part", "list", "uploads", "delete"."""
    if "X-Amz-Signature" in query:
        return f"url {method}"
    if "uploadId" in query:
        return {"GET": "parts", "POST": "complete", "PUT": "part"}.get(method, "abort")
    if method == "POST":
        return "begin" if "uploads" in query else "delete"
    if method == "GET" and "/" not in path.strip("/"):
        return "uploads" if "uploads" in query else "list"
    return method


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_):
        pass

    def serve(self):
        parsed = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(parsed.query, keep_blank_values=True)
        self.seen = Seen(kind_of(self.command, parsed.path, query, self.headers), urllib.parse.unquote(parsed.path))
        if self.headers["x-amz-date"]:
            signed = datetime.datetime.strptime(self.headers["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z")
            self.seen.late_s = time.time() - signed.timestamp()
        self.request_body = self.rfile.read(int(self.headers["content-length"] or 0))
        fault = self.server.proxy.meet(self.seen)
        try:
            getattr(self, fault.what if fault else "pass_on")(fault)
        except (OSError, http.client.HTTPException):  # the store, or the sender, is gone
            self.end(reset=False)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve

    # ---------------------------------------------------------------- to the store

    def send_on(self, body):
        """The request's head, and of its body these bytes."""
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.proxy.store_port, timeout=120)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "expect"):
                upstream.putheader(name, value)
        upstream.endheaders()
        if body:
            upstream.send(body)
        return upstream

    def ask(self):
        """(answer, its body)."""
        upstream = self.send_on(self.request_body)
        try:
            answer = upstream.getresponse()
            body = answer.read()
        finally:
            upstream.close()
        code = re.search(rb"<Code>([^<]*)</Code>", body) if answer.status >= 300 else None
        self.seen.status, self.seen.code = answer.status, code[1].decode() if code else ""
        self.seen.is_from_store = True
        return answer, body

    # ---------------------------------------------------------------- to the sender

    def head(self, status, headers, size):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", size)
        self.end_headers()

    def tell(self, answer, body, of_it=None):
        has_body = self.command != "HEAD"
        self.head(answer.status, answer.getheaders(), len(body) if has_body else answer.getheader("content-length", "0"))
        if has_body:
            self.wfile.write(body if of_it is None else body[:of_it])
        self.wfile.flush()

    def end(self, reset):
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.connection.close()
        self.close_connection = True

    def wait_until_sender_leaves(self):
        watch = select.poll()
        watch.register(self.connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        while not self.seen.sender_left and not self.server.proxy.over.is_set():
            self.seen.sender_left = bool(watch.poll(100))
        self.close_connection = True

    # ---------------------------------------------------------------- what is done to a request

    def pass_on(self, _):
        self.tell(*self.ask())

    def answer(self, fault):
        self.seen.status = fault.status
        self.head(fault.status, [("Date", self.date_time_string()), ("Content-Type", "application/xml")], len(fault.body))
        if self.command != "HEAD":
            self.wfile.write(fault.body)
        self.wfile.flush()

    def cut(self, fault):
        answer, body = self.ask()
        if answer.status >= 300:  # a refusal is not what is meant
            self.seen.fault = ""
            self.server.proxy.plan(fault)
            return self.tell(answer, body)
        self.tell(answer, body, of_it=len(body) // 2)
        self.end(reset=False)

    def reset(self, _):
        self.send_on(self.request_body[:len(self.request_body) // 2]).close()
        self.end(reset=True)

    def hold(self, _):
        upstream = self.send_on(self.request_body[:len(self.request_body) // 2])
        self.wait_until_sender_leaves()
        upstream.close()

    def unheard(self, _):
        self.ask()
        self.wait_until_sender_leaves()


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, proxy, port):
        self.proxy, self.open = proxy, set()
        super().__init__(("127.0.0.1", port), Handler)

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)  # without a look-up of the host's name

    def process_request(self, request, address):
        self.open.add(request)
        super().process_request(request, address)

    def shutdown_request(self, request):
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, address):
        pass  # the sender has gone


class Proxy:
    def __init__(self, case, store_port, port):
        self.store_port, self.port = store_port, port
        self.lock = threading.Lock()
        self.planned, self.seen = [], []  # guarded by it
        self.over = threading.Event()
        case.addCleanup(self.close)
        self.come_back()

    def close(self):
        self.over.set()
        self.go_away()

    # ---------------------------------------------------------------- faults

    def plan(self, *faults):
        with self.lock:
            self.planned += faults

    def left(self):
        """What has met no request yet, or is under way."""
        with self.lock:
            return [fault.name for fault in self.planned]

    def meet(self, seen):
        with self.lock:
            self.seen.append(seen)
            fault = next((each for each in self.planned if each.kind == seen.kind), None)
            if fault:
                self.planned.remove(fault)
                seen.fault = fault.name
            return fault

    def go_away(self):
        """Connections are refused, and those that are open end."""
        if self.server is None:
            return
        self.server.shutdown()
        self.server.server_close()
        for connection in list(self.server.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # its peer has closed it
        self.server = None

    def come_back(self):
        self.server = Server(self, self.port)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    # ---------------------------------------------------------------- what was seen

    def all(self, **wanted):
        """Of what was asked so far, what has these values."""
        with self.lock:
            return [each for each in self.seen if all(getattr(each, name) == value for name, value in wanted.items())]

    def count(self):
        with self.lock:
            return collections.Counter(each.kind for each in self.seen)
