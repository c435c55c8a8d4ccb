"""Which of several coordinators leads: addresses as people type them, and the search. As jobctl's HeadSearch."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from muster.client._errors import MusterError

ADDRESSES_MAX = 16
PATIENCE_S = 15.0  # for a coordinator that leads while others stand by; the next one leads within about six seconds
NEXT_AFTER_S = 0.25  # an address that does not refuse at once gets this long before the next one is asked, too
PAUSE_S = (0.15, 0.25)  # between two questions to one address
HOST_AND_PORT = re.compile(r"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{1,253}\]):([0-9]{1,5})")


def split_addresses(text: str) -> list[str]:
    """ "a:7700,b:7700"; a socket is one address, whatever its path contains."""
    return [text] if text.startswith("unix:") else [each.strip() for each in text.split(",")]


def share_address(one: str, other: str) -> bool:
    """Whether two lists are lists of one cluster."""
    return not set(split_addresses(one)).isdisjoint(split_addresses(other))


def merge_addresses(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))[:ADDRESSES_MAX]


def hosts_and_ports(addresses: Iterable[str]) -> list[str]:
    """Those that a coordinator may name: never a socket of this machine, or a scheme of gRPC's."""
    found = [(each, HOST_AND_PORT.fullmatch(each)) for each in addresses]
    return merge_addresses((each for each, match in found if match and 1 <= int(match[2]) <= 65_535), ())


@dataclass
class _Candidate:
    address: str
    line: Any = None
    question: Any = None  # a call under way
    asked: bool = False
    again: float = 0.0  # when it is asked next
    failed: MusterError | None = None
    stands_by: bool = False
    named: str = ""

    @property
    def has_answered(self) -> bool:
        return self.stands_by or self.failed is not None


class HeadSearch:
    """Asks the addresses in turn, and again while one of several stands by. `dial` makes a line to an address: it has
    `ask(timeout)`, a future of the answer; `error(exception)`; `server`, where the answer of the one that leads goes;
    and `close()`."""

    def __init__(self, addresses: Iterable[str], dial: Callable[[str], Any], timeout: float) -> None:
        self._candidates = [_Candidate(address) for address in addresses]
        self._dial = dial
        self._timeout = timeout
        self._changed = threading.Event()
        self._is_cancelled = False

    def find(self, patience: float = PATIENCE_S) -> Any:
        """The line to the one that leads. Raises MusterError (JC1630, JC1301) if there is none."""
        found = None
        try:
            until = time.monotonic() + patience
            last_start = 0.0
            while found is None:
                self._changed.clear()
                found = self._hear()
                if found is not None:
                    break
                if self._is_cancelled:
                    raise MusterError("the connection was closed", status="CANCELLED")
                is_waiting = any(each.stands_by for each in self._candidates)
                if self._is_hopeless() or (is_waiting and time.monotonic() >= until):
                    raise self._none_leads()
                last_start = self._ask(last_start)
                self._changed.wait(0.05)
            return found
        finally:
            for each in self._candidates:
                if each.question is not None:
                    each.question.cancel()
                if each.line is not None and each.line is not found:
                    each.line.close()

    def cancel(self) -> None:
        """Any thread; `find` raises."""
        self._is_cancelled = True

    def _ask(self, last_start: float) -> float:
        """Asks whom it is time to ask. When the last one was asked for the first time."""
        now = time.monotonic()
        for each in self._candidates:
            if not each.asked:
                before = self._candidates[: self._candidates.index(each)]
                if now < last_start + NEXT_AFTER_S and not all(one.has_answered for one in before):
                    return last_start
                last_start = now
            if each.question is None and now >= each.again:
                each.asked = True
                if each.line is None:
                    each.line = self._dial(each.address)
                each.question = each.line.ask(self._timeout)
                each.question.add_done_callback(lambda _: self._changed.set())
        return last_start

    def _hear(self) -> Any:
        """The line of one that leads, if it has answered."""
        for each in list(self._candidates):
            if each.question is None or not each.question.done():
                continue
            question, each.question = each.question, None
            each.again = time.monotonic() + random.uniform(*PAUSE_S)
            each.failed, each.stands_by, each.named = None, False, ""
            try:
                server = question.result()
            except Exception as error:  # grpc.RpcError, or a future's own
                each.failed = each.line.error(error)
                # A new channel next time: the old one would wait longer and longer before it dials again.
                each.line.close()
                each.line = None
                continue
            if not server.stands_by:
                each.line.server = server
                return each.line
            each.stands_by, each.named = True, server.leader
            # Who asks at a socket sends all of the environment: a coordinator elsewhere is for the user to decide.
            if not each.address.startswith("unix:"):
                known = [one.address for one in self._candidates]
                for address in merge_addresses(known, hosts_and_ports([server.leader, *server.heads]))[len(known) :]:
                    self._candidates.append(_Candidate(address))
        return None

    def _is_hopeless(self) -> bool:
        if not all(each.has_answered for each in self._candidates):
            return False
        return len(self._candidates) == 1 or not any(each.stands_by for each in self._candidates)

    def _none_leads(self) -> MusterError:
        first = self._candidates[0]
        if len(self._candidates) == 1:
            if first.failed is not None:
                return first.failed
            return MusterError(
                f"the coordinator at {first.address} stands by",
                code="JC1630",
                why=f"{first.named} leads" if first.named else "none leads at the moment",
                fix=f'Client("{first.named}")' if first.named else "try again in a few seconds",
                status="UNAVAILABLE",
            )
        stands_by = any(each.stands_by for each in self._candidates)
        refusals = [each.failed for each in self._candidates if each.failed and each.failed.status != "UNAVAILABLE"]
        refusal = refusals[0] if refusals and not stands_by else None
        does_not = "leads" if stands_by else "can be used" if refusal else "answers"
        return MusterError(
            f"none of the coordinators at {', '.join(each.address for each in self._candidates)} {does_not}",
            code=refusal.code if refusal else "JC1630" if stands_by else "JC1301",
            why="; ".join(map(_answer, self._candidates)),
            fix=refusal.fix if refusal else "check that muster-coordinator runs on each host",
            status=refusal.status if refusal else "UNAVAILABLE",
        )


def _answer(candidate: _Candidate) -> str:
    if candidate.stands_by:
        return f"{candidate.address} stands by" + (f" and names {candidate.named}" if candidate.named else "")
    if candidate.failed is None:
        return f"{candidate.address} has not answered"
    if candidate.failed.code == "JC1301":
        return f"{candidate.address} does not answer ({candidate.failed.why})"
    return candidate.failed.what + (f": {candidate.failed.why}" if candidate.failed.why else "")
