"""What a Client returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from muster.client import _api

COMMITTED = 2  # CheckpointState


@dataclass(frozen=True)
class Job:
    """A job as the coordinator knows it at one moment. Times are Unix seconds; None: not yet."""

    id: int
    name: str
    state: str
    """QUEUED, STARTING, RUNNING, STOPPING, RESTARTING, SUCCEEDED, FAILED or CANCELLED."""
    reason: str
    """One sentence about the state, as `jobctl why` shows it."""
    owner: str
    owner_id: str
    """The person's id: a later user of the same name has another. Empty: a local account, or a user of 0.2.0."""
    submitted: float
    finished: float | None
    exit_code: int | None
    """What `jobctl run` returns: the failing rank's code, or 128 + signal; 130 if it was cancelled. None: not over."""
    attempts: int
    checkpoint_step: int | None
    """Of the newest committed checkpoint."""
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.state in ("SUCCEEDED", "FAILED", "CANCELLED")

    @property
    def succeeded(self) -> bool:
        """Whether every rank exited with 0."""
        return self.state == "SUCCEEDED"


@dataclass(frozen=True)
class QueuedJob:
    """A job that waits, as the scheduler sees it at one moment."""

    id: int
    name: str
    owner: str
    project: str
    priority: int
    urgent: bool
    needs: str
    """The devices: "8 gpu"."""
    reason: str
    """What keeps it back, in one sentence."""
    starts_in: float | None
    """Seconds until it is expected to start, if what it waits for ends as expected; None: not known."""
    starts_until: float | None
    """The same if what it waits for takes longer, as far as the scheduler allows for; None: not known."""
    place: str
    """Nodes and ranks that are held for it: "node3 4, node4 4"; empty: none."""


@dataclass(frozen=True)
class LogLine:
    """A line of a rank, without its newline; bytes that are not UTF-8 are replaced. `stream`: stdout, stderr, or
    notice: a message from Muster between the lines ("attempt 1 starts from step 40"). `time`: Unix seconds."""

    text: str
    rank: int
    stream: str
    attempt: int
    node: str
    time: float


@dataclass(frozen=True)
class MetricPoint:
    """One value of a metric. `time`: Unix seconds."""

    name: str
    step: int
    value: float
    rank: int
    attempt: int
    time: float


@dataclass(frozen=True)
class Coordinator:
    """One of the coordinators that replace each other, as it last registered, or the only one."""

    name: str
    leads: bool
    """False: it stands by."""
    endpoint: str
    """HOST:PORT of gRPC."""
    http: str
    """HOST:PORT of HTTP; empty: none."""
    version: str
    lag: int
    """Entries of the shared log that it is behind the one that leads, as of its last renewal."""


def coordinator_of(view: Any) -> Coordinator:
    """Of a CoordinatorView."""
    return Coordinator(view.name, view.leads, view.endpoint, view.http, view.version, view.lag)


def queued_job_of(entry: Any) -> QueuedJob:
    """Of a QueuedJob."""
    starts = entry.starts if entry.HasField("starts") else None
    is_bounded = starts is not None and starts.HasField("until_ms")
    return QueuedJob(
        id=entry.id,
        name=entry.name,
        owner=entry.owner,
        project=entry.project,
        priority=entry.priority,
        urgent=entry.urgent,
        needs=entry.needs,
        reason=entry.reason,
        starts_in=None if starts is None else starts.from_ms / 1000,
        starts_until=starts.until_ms / 1000 if is_bounded else None,
        place=entry.place,
    )


def job_of(record: Any) -> Job:
    """Of a JobRecord."""
    committed = [each.step for each in record.checkpoints if each.state == COMMITTED]
    return Job(
        id=record.id,
        name=record.name,
        state=_api.enum_name("JobState", record.state),
        reason=record.reason,
        owner=record.owner,
        owner_id=record.owner_id,
        submitted=record.submitted_ms / 1000,
        finished=record.finished_ms / 1000 if record.finished_ms else None,
        exit_code=record.exit_code if record.finished_ms else None,
        attempts=record.next_attempt,
        checkpoint_step=max(committed, default=None),
        labels=dict(record.spec.labels),
    )
