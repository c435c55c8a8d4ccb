"""A client of Muster's coordinator: submit jobs, follow them, read their logs and metrics.

    from muster import Client

    with Client() as muster:
        job = muster.submit(["python", "train.py"], processes=2, restarts=1)
        for line in muster.logs(job, follow=True):
            print(line.rank, line.text)
        print(muster.wait(job).state)

It needs `pip install grpcio protobuf pyyaml`, which the extra `muster-train[client]` names.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

from muster.client._errors import MusterError

try:
    from muster.client import _api
    from muster.client._connection import SLOW_REQUEST_S, Connection, from_detail
    from muster.client._environment import job_environment
    from muster.client._logs import lines_of
    from muster.client._settings import resolve
    from muster.client._spec import Nodes, StrPath, milliseconds, shape, spec, whole
    from muster.client._values import (
        Coordinator,
        Job,
        LogLine,
        MetricPoint,
        QueuedJob,
        coordinator_of,
        job_of,
        queued_job_of,
    )
except ModuleNotFoundError as missing:
    raise ImportError(
        f"muster.Client needs grpcio, protobuf and PyYAML, and there is no module {missing.name} here; "
        "fix: pip install grpcio protobuf pyyaml"
    ) from missing

__all__ = ["Client", "Coordinator", "Job", "LogLine", "MetricPoint", "MusterError", "QueuedJob"]

PATIENCE_S = 60.0  # how long a coordinator that restarts may be away while a job is followed
RETRY_S = 0.5

JobOrName = Union[Job, str, int]


class Client:
    """A connection to a cluster's coordinator. Thread-safe; use it as a context manager or `close` it.

    The coordinator is the one that jobctl would use: `server` ("HOST:PORT" or "unix:/PATH"; of several that replace
    each other, "a:7700,b:7700", the one that leads, also when another one does later), `context` (of jobctl's
    config.yaml), else JOBCTL_SERVER or JOBCTL_CONTEXT, else config.yaml's current context, else your private
    coordinator, which has to run (`jobctl up`). A context that you signed in to (`jobctl login`) is spoken to over TLS
    with its certificate; jobctl renews that, this class does not.

    Every method raises MusterError, with the coordinator's code, what, why and fix, and ValueError or TypeError for an
    argument that cannot be right. A job is given as a Job, its name, a label or number, or "@last".
    """

    def __init__(self, server: str | None = None, *, context: str | None = None, timeout: float = 10.0) -> None:
        self._target = resolve(server, context)
        self._connection = Connection(self._target, timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and every call that is under way."""
        self._connection.close()

    @property
    def endpoint(self) -> str:
        """The address that is dialed."""
        return self._connection.endpoint

    def coordinators(self) -> list[Coordinator]:
        """Those that replace each other, by name; of one whose state is not in etcd, itself alone."""
        request = _api.message("ListCoordinatorsRequest")()
        response = self._connection.call("ListCoordinators", request, repeat=True)
        return [coordinator_of(each) for each in response.coordinators]

    def submit(
        self,
        command: Sequence[str],
        *,
        processes: int | None = None,
        nodes: Nodes | None = None,
        per_node: int | None = None,
        devices: str | None = None,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        clean_env: bool = False,
        env_from: str | None = None,
        workdir: StrPath | None = None,
        labels: Mapping[str, str] | None = None,
        project: str | None = None,
        secrets: Sequence[str] = (),
        restarts: int = 0,
        priority: int = 0,
        grace: float | None = None,
        time_limit: float | None = None,
        estimate: float | None = None,
        idempotency_key: str | None = None,
        queue_anyway: bool = False,
    ) -> Job:
        """Queues a job and returns it; it is durable then.

        `command` is each rank's argument list. Ranks: `processes` in total, or `per_node` on each of `nodes` (a number,
        or (least, most)); one by default. `devices`: a kind ("gpu"), or "gpu:2" for two per rank. The job gets this
        process's environment with `env` on top and the current directory unless `workdir` names another. To a
        coordinator on another host only what training needs is sent of the environment, and a warning names what may be
        secrets (`env_from="shell"`: all of it; `clean_env`: only PATH, HOME and the like, to any host). `grace`,
        `time_limit` and `estimate` (how long it takes, as far as you know; it never stops the job) are seconds. Two
        submits with one `idempotency_key` are one job; by default each call has a key of
        its own. `queue_anyway` accepts what no registered nodes could hold.
        """
        built = spec(
            command,
            shape(processes, nodes, per_node, devices),
            env={**job_environment(self._target, clean=clean_env, env_from=env_from), **(env or {})},
            workdir=workdir,
            labels=labels,
            secrets=secrets,
            grace=grace,
            time_limit=time_limit,
            estimate=estimate,
            name=name,
            project=project,
            restarts=whole("restarts", restarts),
            priority=priority,
        )
        request = _api.message("SubmitRequest")(
            spec=built, idempotency_key=idempotency_key or uuid.uuid4().hex, queue_anyway=queue_anyway
        )
        response = self._connection.call("Submit", request, repeat=True)
        return self.job(response.job)

    def job(self, job: JobOrName) -> Job:
        """The job as it is now."""
        return job_of(self._connection.call("GetJob", _reference(job), repeat=True).record)

    def queue(self, limit: int = 0) -> list[QueuedJob]:
        """The jobs that wait, in the scheduler's order: the first `limit` of them, 100 by default, at most 1,000."""
        request = _api.message("ListQueueRequest")(limit=whole("limit", limit))
        return [queued_job_of(each) for each in self._connection.call("ListQueue", request, repeat=True).jobs]

    def set(
        self,
        job: JobOrName,
        *,
        priority: int | None = None,
        estimate: float | None = None,
        urgent: bool | None = None,
        project: str | None = None,
    ) -> None:
        """Changes what the scheduler knows about a job that is not over; None: as it is. `estimate`: seconds that it
        takes, 0: not known. `urgent`: before all jobs that are not; for operators. `project`: of a job that waits."""
        if priority is None and estimate is None and urgent is None and project is None:
            raise ValueError("nothing is set: give a priority, an estimate, urgent or a project")
        request = _api.message("SetJobsRequest")(jobs=[_name(job)])
        if priority is not None:
            request.priority = whole("priority", priority, least=-(2**31))
        if estimate is not None:
            request.estimate_ms = 0 if estimate == 0 else milliseconds("estimate", estimate)
        if project is not None:
            request.project = project
        if urgent is not None:
            request.urgent = bool(urgent)
        _raise_first(self._connection.call("SetJobs", request, SLOW_REQUEST_S))

    def follow(self, job: JobOrName, *, timeout: float | None = None) -> Iterator[Job]:
        """The job as it is now, and again after every change, until it is over. A coordinator that restarts meanwhile,
        or that another one replaces, is waited for. Raises TimeoutError after `timeout` seconds."""
        request = _api.message("WatchJobRequest")(job=_name(job))
        deadline = None if timeout is None else time.monotonic() + timeout
        last_answer = time.monotonic()
        while True:
            left = None if deadline is None else max(0.001, deadline - time.monotonic())
            try:
                for update in self._connection.stream("WatchJob", request, left):
                    last_answer = time.monotonic()
                    seen = job_of(update.record)
                    yield seen
                    if seen.is_over:
                        return
            except MusterError as error:
                if error.status == "DEADLINE_EXCEEDED" and not error.code:
                    raise TimeoutError(f"job {_name(job)} was not over within {timeout:g} s") from None
                if error.status != "UNAVAILABLE" or time.monotonic() - last_answer > PATIENCE_S:
                    raise
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"job {_name(job)} was not over within {timeout:g} s")
            time.sleep(RETRY_S)

    def wait(self, job: JobOrName, *, timeout: float | None = None) -> Job:
        """The job once it is over, in whatever way. Raises TimeoutError after `timeout` seconds."""
        for seen in self.follow(job, timeout=timeout):
            if seen.is_over:
                return seen
        raise MusterError(f"the coordinator ended its answer about job {_name(job)} before the job was over")

    def logs(
        self,
        job: JobOrName,
        *,
        follow: bool = False,
        ranks: Sequence[int] = (),
        attempt: int | None = None,
        tail: int = 0,
    ) -> Iterator[LogLine]:
        """What the ranks wrote, line by line, merged by time. `follow`: until the job is over. `ranks`: of these alone.
        `attempt`: of this one alone (-2: the newest). `tail`: only so many last lines."""
        request = _api.message("StreamLogsRequest")(
            job=_name(job),
            follow=follow,
            ranks=[whole("ranks", rank) for rank in ranks],
            attempt=-1 if attempt is None else whole("attempt", attempt, least=-2),
            tail_lines=whole("tail", tail),
        )
        yield from lines_of(self._connection.stream("StreamLogs", request))

    def metrics(
        self, job: JobOrName, names: str | Sequence[str] = (), *, rank: int | None = None, follow: bool = False
    ) -> Iterator[MetricPoint]:
        """Values of the metrics `names` (one or several, all by default) of `rank` (all by default): the job's history,
        in which a later attempt replaces the steps that it repeats. `follow`: until the job is over."""
        request = _api.message("QueryMetricsRequest")(
            job=_name(job),
            names=[names] if isinstance(names, str) else names,
            attempt=-1,
            rank=-1 if rank is None else whole("rank", rank),
            follow=follow,
        )
        for batch in self._connection.stream("QueryMetrics", request):
            for point in batch.points:
                yield MetricPoint(point.name, point.step, point.value, batch.rank, batch.attempt, point.time_ms / 1000)

    def cancel(self, job: JobOrName, *, reason: str = "", grace: float | None = None) -> None:
        """Asks for the job's end and returns at once; `wait` for it. `grace`: seconds between SIGTERM and SIGKILL."""
        request = _api.message("CancelJobsRequest")(jobs=[_name(job)], reason=reason)
        if grace is not None:
            request.has_grace, request.grace_ms = True, max(0, int(grace * 1000))
        _raise_first(self._connection.call("CancelJobs", request, SLOW_REQUEST_S))

    def stop(self, job: JobOrName, *, notice: float | None = None) -> None:
        """Asks the job to save, and returns at once. It is stopped once it has, or after `notice` seconds, and held:
        `release` continues it from its checkpoint. A job that waits is held at once."""
        request = _api.message("StopJobsRequest")(jobs=[_name(job)])
        if notice is not None:
            request.notice_ms = 0 if notice == 0 else milliseconds("notice", notice)
        _raise_first(self._connection.call("StopJobs", request, SLOW_REQUEST_S))

    def release(self, job: JobOrName) -> None:
        """Lets a held job continue. A `stop` that has not come to its end is taken back."""
        request = _api.message("ReleaseJobsRequest")(jobs=[_name(job)])
        _raise_first(self._connection.call("ReleaseJobs", request, SLOW_REQUEST_S))


def _raise_first(response: Any) -> None:
    for result in response.results:
        if result.status_code:
            status = {3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 7: "PERMISSION_DENIED", 9: "FAILED_PRECONDITION"}
            name = status.get(result.status_code, str(result.status_code))
            raise from_detail(result.error, name) if result.error.what else MusterError(result.message, status=name)


def _name(job: JobOrName) -> str:
    return str(job.id if isinstance(job, Job) else job)


def _reference(job: JobOrName) -> Any:
    return _api.message("JobReference")(job=_name(job))
