"""What is left when a run has settled, judged by outside witnesses: etcd's own history, files that ranks wrote, bytes of
their output, the history of events, the three databases."""
import ast
import collections
import json
import os
import sqlite3

import grpc

import checks
import traffic
from etcd_api import Reader, messages
from harness import OVER, SUCCEEDED, protos, wait_until


# ---------------------------------------------------------------- the log in etcd

def read_pieces(endpoint, name):
    """[(number, writer, term)] of the log, in its order: `term` is the create-revision that the leader's key had when the
    piece was written, 0 if there was none. Without pieces that went into a snapshot, and those whose revision etcd no
    longer has."""
    _, head_pb2 = messages()
    reader, pieces = Reader(endpoint), []
    try:
        for pair in reader.range(f"/{name}/log/", prefix=True):
            piece = head_pb2.CommitPiece.FromString(pair.value)
            try:
                leader = reader.range(f"/{name}/leader", revision=pair.mod_revision - 1)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.OUT_OF_RANGE:
                    raise
                continue
            pieces.append((int(pair.key.rsplit(b"/", 1)[1], 16), piece.writer, leader[0].create_revision if leader else 0))
        return pieces
    finally:
        reader.close()


def check_pieces(pieces):
    """J10: a term adds to the log only as long as it lasts. Each term is one leader's, and a leader writes a random
    number into its pieces."""
    writers, terms = {}, {}
    for number, writer, term in pieces:
        if term == 0:
            yield f"J10: piece {number} of writer {writer:x} was added while no coordinator led"
        elif writers.setdefault(term, writer) != writer or terms.setdefault(writer, term) != term:
            yield f"J10: piece {number} of writer {writer:x} was added in the term {term} of another one"
    numbers = [number for number, _, _ in pieces]
    if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        yield f"J11: the pieces of the log are {numbers}"


# ---------------------------------------------------------------- ranks

def read_witness(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def check_witness(lines):
    starts = collections.Counter((line["job"], line["attempt"], line["rank"]) for line in lines if line["what"] == "start")
    for key, count in starts.items():
        if count > 1:
            yield f"J3: main() of (job, attempt, rank) {key} ran {count} times"
    for line in lines:
        if line["what"] == "overlap":
            yield f"J4: two processes of a rank at once: {line}"
    begins, ends, worlds = {}, {}, collections.defaultdict(set)
    for line in lines:
        attempt = (line["job"], line["attempt"])
        worlds[attempt].add((line["world"], line["master"]))
        times = begins if line["what"] == "start" else ends
        times.setdefault(attempt, []).append(line["mono"])
    for attempt, seen in worlds.items():
        if len(seen) > 1:
            yield f"J5: (job, attempt) {attempt} saw {sorted(seen)}"
    for (job, number), stopped in ends.items():
        for (other, later), began in begins.items():
            if other == job and later > number and min(began) < max(stopped):
                yield f"J4: a rank of job {job}, attempt {number}, ran after attempt {later} had begun"


# ---------------------------------------------------------------- events

def check_events(events, records):
    """J11: numbered in order, each change of state from the one before, nothing after the end, and the last state is what
    the record has."""
    _, _, job_pb2 = protos()
    seqs = [event.seq for event in events]
    if seqs != sorted(set(seqs)):
        yield "J11: the events are not numbered in order"
    states = {}
    for event in events:
        if states.get(event.job) in OVER and event.WhichOneof("what") == "job_state_changed":
            yield f"J11: job {event.job} changed after its end, by the event {event.seq}"
        if event.WhichOneof("what") == "job_submitted":
            states[event.job] = job_pb2.JOB_STATE_QUEUED
        elif event.WhichOneof("what") == "job_state_changed":
            change = event.job_state_changed
            if states.get(event.job) != getattr(change, "from"):
                yield f"J11: the event {event.seq} of job {event.job} does not follow from the state {states.get(event.job)}"
            states[event.job] = change.to
    for job, record in records.items():
        if states.get(job) != record.state:
            yield f"J11: job {job} is recorded as {record.state}, and its events end with {states.get(job)}"


def read_events(api):
    request = api.service.ListEventsRequest(limit=10_000)
    return [event for batch in api.stream("ListEvents", request, api.service.EventBatch) for event in batch.events]


# ---------------------------------------------------------------- output

def check_output(record, value, head):
    """J7: exact where the coordinator that leads led all the time; otherwise gaps are marked, or it is named who has it."""
    attempt = record.attempts[-1]
    whole = set(attempt.heads) == {head}
    full = {}
    for rank in range(attempt.world_size):
        full[f"{rank}/1"] = len(traffic.writer.expected(rank, "o", traffic.LINES))
        full[f"{rank}/2"] = len(traffic.writer.expected(rank, "e", traffic.LINES))
    if whole and (value["dropped"] or value["ends"] != full):
        yield f"J7: job {record.id} at {head}: {value['ends']} and {value['dropped']} dropped of {full}"
    if head not in attempt.heads and not any("another coordinator" in notice for notice in value["notices"]):
        yield f"J7: job {record.id}: its output is at {list(attempt.heads)}, and {head} has no notice of it"
    if head in attempt.heads and not value["notices"] and value["ends"] != full:
        yield f"J7: job {record.id} at {head}: the output ends at {value['ends']} of {full}, and there is no notice"


def check_shared_output(record, value):
    """J7, J8 with an object store: whole at every coordinator, also at one that did not lead when it came."""
    full = {}
    for rank in range(record.attempts[-1].world_size):
        full[f"{rank}/1"] = len(traffic.writer.expected(rank, "o", traffic.LINES))
        full[f"{rank}/2"] = len(traffic.writer.expected(rank, "e", traffic.LINES))
    if value["dropped"] or value["ends"] != full or value["notices"]:
        yield f"J8: job {record.id}: {value['ends']}, {value['dropped']} dropped of {full}; {value['notices']}"


def check_packs(tables, root):
    """What the state names is there. Rows as dump has them."""
    keys = {os.path.relpath(os.path.join(folder, name), root).partition("/")[2]
            for folder, _, names in os.walk(root) for name in names}
    for job, kind, attempt, node, epoch, life, first, last, *_ in map(ast.literal_eval, tables["packs"]):
        where = f"logs/{job}/{attempt}/{node}" if kind == 1 else f"metrics/{job}/{attempt}"
        for number in range(first, last + 1):
            if f"{where}/{epoch}-{life}-{number}" not in keys:
                yield f"J8: the pack {epoch}-{life}-{number} of {where} is recorded, and not there"


# ---------------------------------------------------------------- copies

def dump(path):
    """(position, {table: rows}) of a coordinator's database; None: it was killed before it had a copy."""
    with sqlite3.connect(path) as database:
        names = [name for name, in database.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name != 'replica'")]
        if not database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'replica'").fetchone():
            return None
        tables = {name: sorted(map(repr, database.execute(f"SELECT * FROM {name}"))) for name in names}
        return database.execute("SELECT position FROM replica").fetchone()[0], tables


def check_copies(dumps):
    """J11: databases at the same position of the log are equal. {head: dump}."""
    first = {}
    for head, (position, tables) in dumps.items():
        other = first.setdefault(position, (head, tables))
        for name in tables:
            if tables[name] != other[1].get(name):
                yield f"J11: the table {name} of {head} differs from that of {other[0]} at position {position}"


# ---------------------------------------------------------------- all of it

def settle(asker, cluster, within_s):
    """J12. The records of all jobs, once all are over, by number."""
    def settled():
        op = asker.list(within_s=5)
        if op.outcome != "ok" or not all(state in OVER for state, _ in op.value["jobs"].values()):
            return None
        return [op.value["jobs"]]

    def unsettled():
        jobs = [f"{job.name} {job.state} {job.reason}" for job in cluster.api.list() if job.state not in OVER]
        return f"J12: all jobs are over; still: {jobs}"
    return wait_until(settled, unsettled, within_s, every_s=0.2)[0]


def check_records(records, jobs, acknowledged):
    """J1, J2 at the end; and no fault here may cost a job."""
    keys = collections.Counter(record.idempotency_key for record in records.values())
    for key, count in keys.items():
        if count > 1 or key not in jobs.kinds:
            yield f"J2: {count} jobs have the key {key}"
    for job, key in acknowledged.items():
        if job not in records or records[job].idempotency_key != key:
            yield f"J1: the acknowledged job {job} with the key {key} is not there"
    for job, record in records.items():
        if record.state != SUCCEEDED and not record.cancel_requested:
            yield f"job {job} ended as {record.state}: {record.reason}"


def check_seen(history, events):
    return checks.check_seen_events(history.ops, {event.seq: traffic.digest(event) for event in events})
