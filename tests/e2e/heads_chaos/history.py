"""What clients asked and were answered, with times of one clock. The checks read nothing else of a run's clients."""
import dataclasses
import json
import threading
import time

OK, FAIL, UNKNOWN = "ok", "fail", "unknown"


@dataclasses.dataclass
class Op:
    """One call. FAIL: refused with a reason, it did nothing. UNKNOWN: it may have been done, or may be done yet.

    kind      asked                what an answer has
    submit    key                  id, existed
    cancel    id                   –
    get       id                   id, version (JobRecord.event_count), state, attempts, cancel, key, digest;
                                   None: there is no such job
    list      –                    jobs: {id: (state, attempts)}
    server    –                    epoch
    events    –                    events: {seq: digest}, as they came on a stream
    watch     id                   seen: [as of get, …], as they came on a stream
    logs      id                   wrong: bytes that differ from what the rank wrote
    """
    client: str
    head: int
    kind: str
    asked: dict
    begin: float
    end: float = 0.0
    outcome: str = UNKNOWN
    value: dict = None


class History:
    """Any thread."""

    def __init__(self):
        self.lock = threading.Lock()
        self.ops = []

    def invoke(self, client, head, kind, **asked):
        op = Op(client, head, kind, asked, time.monotonic())
        with self.lock:
            self.ops.append(op)
        return op

    def answered(self, op, value, outcome=OK):
        op.value, op.outcome, op.end = value, outcome, time.monotonic()

    def without_answer(self, op):
        op.end = time.monotonic()

    def save(self, path):
        with self.lock, open(path, "w") as file:
            for op in self.ops:
                file.write(json.dumps(dataclasses.asdict(op)) + "\n")
