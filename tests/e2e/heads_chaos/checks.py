"""Whether what clients were answered can have come from one coordinator that forgets nothing and that answers each
call at one moment between its begin and its end (linearizability), although several answered.

The objects are simple enough for sweeps in place of a search, which grows exponentially (Wing and Gong):

- A key of submits is a register that is written once, with the id of its job. Its history is linearizable if and only
  if all answers have the same id, and no answer lacks the job that began after another one that has it had ended.
- A job is a register whose value only moves forward: its version (the number of its events), and (final, attempts,
  phase), of which lists show the second alone. What coordinators write into it between two reads is not seen, so any
  order of values is possible that never goes back: linearizable if and only if no read that began after another one
  had ended is behind it, and one version has one content.
- A cancel that was acknowledged is a write: every read that begins later shows it. The same of an id, by order: of two
  submits one after the other, the second has the greater id.
- The epoch of the coordinator that leads is a register that only grows: a coordinator that answers with an older epoch,
  after a newer one had been answered, acts beside another leader (J14).

This holds object by object. That a list shows all jobs as of one moment is checked only of their numbers: a job has all
before it.

A call without an answer (UNKNOWN) may have been done at any time after it began, or never, so it restricts nothing: what
the checks find is broken whatever became of it. What no call shows, they cannot see.
"""
import bisect
import collections

from history import FAIL, OK

QUEUED, STARTING, RUNNING, STOPPING, RESTARTING, SUCCEEDED, FAILED, CANCELLED = range(1, 9)
FINAL = (SUCCEEDED, FAILED, CANCELLED)
# Of one attempt, in the only order that there is; QUEUED comes after the attempt before it.
PHASES = {STARTING: 0, RUNNING: 1, STOPPING: 2, RESTARTING: 3, QUEUED: 4}
AFTER_CANCEL = (STOPPING, *FINAL)


def progress(state, attempts):
    """Grows with each change of state, as docs/lifecycle.md has them."""
    return (1, 0, 0) if state in FINAL else (0, attempts, PHASES[state])


class Ahead:
    """The greatest value of all answers that had ended before a moment."""

    def __init__(self, ended):
        """(end, value, op) of each answer."""
        self.ends, self.greatest, most = [], [], None
        for end, value, op in sorted(ended, key=lambda each: each[0]):
            if most is None or value > most[0]:
                most = (value, op)
            self.ends.append(end)
            self.greatest.append(most)

    def before(self, moment):
        """(value, op), or None."""
        index = bisect.bisect_left(self.ends, moment)
        return self.greatest[index - 1] if index else None


def told(op):
    return f"{op.kind} of {op.client} at h{op.head} [{op.begin:.3f}, {op.end:.3f}]"


def check_forward(what, reads):
    """`reads`: (begin, end, value, op)."""
    ahead = Ahead([(end, value, op) for _, end, value, op in reads])
    for begin, _, value, op in reads:
        known = ahead.before(begin)
        if known and known[0] > value:
            yield f"{what}: {told(op)} shows {value}, and {told(known[1])} had shown {known[0]}"


def answers(ops, *kinds):
    return [op for op in ops if op.kind in kinds and op.outcome == OK]


def reads_of_jobs(ops):
    """{id: [(begin, end, what a get shows)]} of gets and watches: an update of a stream is as new as the call only if it
    is the first; of a later one, only its end counts."""
    found = collections.defaultdict(list)
    for op in answers(ops, "get"):
        if op.value is not None:
            found[op.value["id"]].append((op.begin, op.end, op.value, op))
    for op in ops:
        if op.kind == "watch" and op.value:
            for number, seen in enumerate(op.value["seen"]):
                found[seen["id"]].append((op.begin if number == 0 else None, seen["at"], seen, op))
    return found


def check_submits(ops):
    ids, jobs = collections.defaultdict(set), collections.defaultdict(set)
    for op in answers(ops, "submit"):
        ids[op.asked["key"]].add(op.value["id"])
        jobs[op.value["id"]].add(op.asked["key"])
    for op in answers(ops, "get"):
        if op.value is not None:
            ids[op.value["key"]].add(op.value["id"])
            jobs[op.value["id"]].add(op.value["key"])
    for key, found in ids.items():
        if len(found) > 1:
            yield f"J2: the key {key} has the jobs {sorted(found)}"
    for job, keys in jobs.items():
        if len(keys) > 1:
            yield f"J1: the job {job} was acknowledged for the keys {sorted(keys)}"
    made = [op for op in answers(ops, "submit") if not op.value["existed"]]
    for key, count in collections.Counter(op.asked["key"] for op in made).items():
        if count > 1:
            yield f"J2: the key {key} was new {count} times"
    yield from check_forward("J1, ids of jobs", [(op.begin, op.end, op.value["id"], op) for op in made])


def check_presence(ops):
    """J1: a job that an answer had is in each answer that begins later."""
    first = {}
    for op in answers(ops, "submit", "get", "list"):
        shown = op.value["jobs"] if op.kind == "list" else [op.value["id"]] if op.value else []
        for job in shown:
            if job not in first or op.end < first[job].end:
                first[job] = op
    for op in answers(ops, "get", "list"):
        if op.kind == "get":
            lacks = [op.asked["id"]] if op.value is None else []
        else:
            lacks = [job for job in first if job not in op.value["jobs"]]
        newest = max(op.value["jobs"], default=0) if op.kind == "list" else 0
        for job in lacks:
            if job in first and first[job].end < op.begin:
                yield f"J1: {told(op)} lacks the job {job}, which {told(first[job])} had"
            elif job < newest:
                yield f"J1: {told(op)} has the job {newest} and lacks {job}, which was there before that"


def check_jobs(ops):
    listed = collections.defaultdict(list)
    for op in answers(ops, "list"):
        for job, (state, attempts) in op.value["jobs"].items():
            listed[job].append((op.begin, op.end, progress(state, attempts), op))
    seen = reads_of_jobs(ops)
    for job in {*seen, *listed}:
        fresh = [each for each in seen[job] if each[0] is not None]
        late = [each for each in seen[job] if each[0] is None]
        of = f"J1, J11: job {job}"
        for what, value in (("version", lambda shown: shown["version"]),
                            ("progress", lambda shown: progress(shown["state"], shown["attempts"]))):
            reads = [(begin, end, value(shown), op) for begin, end, shown, op in fresh]
            reads += listed[job] if what == "progress" else []
            # Later updates of streams are behind nothing, and others must not be behind them.
            reads += [(float("-inf"), end, value(shown), op) for _, end, shown, op in late]
            yield from check_forward(f"{of}, {what}", reads)
        contents = collections.defaultdict(set)
        for _, _, shown, _ in seen[job]:
            contents[shown["version"]].add(shown["digest"])
        for version, digests in contents.items():
            if len(digests) > 1:
                yield f"{of}: version {version} has {len(digests)} contents"
    yield from check_streams(ops)


def check_streams(ops):
    for op in ops:
        if op.kind == "watch" and op.value:
            versions = [seen["version"] for seen in op.value["seen"]]
            if versions != sorted(versions):
                yield f"J11: {told(op)} has the versions {versions}"


def check_cancels(ops):
    done = {}
    for op in answers(ops, "cancel"):
        job = op.asked["id"]
        if job not in done or op.end < done[job].end:
            done[job] = op
    for job, reads in reads_of_jobs(ops).items():
        for begin, _, shown, op in reads:
            if begin is not None and job in done and done[job].end < begin and not (
                    shown["cancel"] or shown["state"] in FINAL):
                yield f"J1: {told(op)} does not show the cancel of job {job}, acknowledged by {told(done[job])}"
    for op in answers(ops, "list"):
        for job, (state, _) in op.value["jobs"].items():
            if job in done and done[job].end < op.begin and state not in AFTER_CANCEL:
                yield f"J1: {told(op)} shows job {job} as {state} after {told(done[job])}"


def check_epochs(ops):
    yield from check_forward("J14: the epoch of the one that leads", [
        (op.begin, op.end, op.value["epoch"], op) for op in answers(ops, "server")])


def check_refused(ops):
    """A submit that was refused has made no job: none of them should be."""
    for op in ops:
        if op.kind == "submit" and op.outcome == FAIL:
            yield f"J1: {told(op)} was refused: {op.value}"


def check_logs(ops):
    for op in answers(ops, "logs"):
        if op.value["wrong"]:
            yield f"J7: {told(op)}: {op.value['wrong']}"


def check_seen_events(ops, durable):
    """Durable before visible: what any stream showed is in the history that is there at the end. {seq: digest}."""
    for op in ops:
        if op.kind != "events" or not op.value:
            continue
        for seq, digest in op.value["events"].items():
            if durable.get(seq) != digest:
                yield f"J1: {told(op)} had the event {seq}, and the history has " + (
                    "another one" if seq in durable else "none of that number")


def violations(ops):
    """What promise was broken, a line each, of calls alone."""
    found = []
    for check in (check_submits, check_presence, check_jobs, check_cancels, check_epochs, check_refused, check_logs):
        found.extend(check(ops))
    return found
