"""Errors of the coordinator, and of reaching it, as exceptions."""

from __future__ import annotations

from typing import Any


class MusterError(Exception):
    """What went wrong, in the same words as jobctl's.

    `code` is stable ("JC1201"; `jobctl explain JC1201` has more), empty for an error without one. `what` names the
    thing and the value, `why` the cause if `what` does not give it, `fix` what to do. `status` is gRPC's ("NOT_FOUND").
    """

    def __init__(self, what: str, *, code: str = "", why: str = "", fix: str = "", status: str = "") -> None:
        self.code = code
        self.what = what
        self.why = why
        self.fix = fix
        self.status = status
        text = f"[{code}] {what}" if code else what
        super().__init__(text + (f": {why}" if why else "") + (f"; fix: {fix}" if fix else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return _error, (self.what, self.code, self.why, self.fix, self.status)


def _error(what: str, code: str, why: str, fix: str, status: str) -> MusterError:
    return MusterError(what, code=code, why=why, fix=fix, status=status)


def unreachable(endpoint: str, why: str, fix: str = "") -> MusterError:
    """No coordinator answers there."""
    return MusterError(
        f"the coordinator at {endpoint} does not answer",
        code="JC1301",
        why=why,
        fix=fix or "check that muster-coordinator runs there and that the port is open; jobctl context show",
        status="UNAVAILABLE",
    )
