"""The answers of a run as JSON, and back, so that a run can be resumed."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.diagnosis import RankedHypothesis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import CheckResult
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Call,
    Diagnose,
    Escalate,
    Finish,
    Misuse,
    Prove,
    Spent,
    Want,
)
from operator_protocols.domain.ticket import Ticket
from operator_protocols.ports import Entries, Sealed
from operator_sre.codec import from_json, to_json

__all__ = [
    "Recorded",
    "Stopped",
    "Summaries",
    "answer_from",
    "answer_payload",
    "stopped_from",
    "stopped_payload",
]

_CALLS: dict[str, type[Call]] = {
    "act": Action,
    "diagnose": Diagnose,
    "finish": Finish,
    "escalate": Escalate,
    "misuse": Misuse,
}

_NAMES = {kind: name for name, kind in _CALLS.items()}
ENTRIES_MAX = 10_000
Recover = Callable[[Entry], Awaitable[object]]

_ANSWERS: dict[Kind, type[Want]] = {
    Kind.REASONING: Ask,
    Kind.TOOL_RESULT: Act,
    Kind.REFUSED: Act,
    Kind.DIAGNOSIS: Diagnose,
    Kind.PROOF: Prove,
}


@dataclass(frozen=True, slots=True)
class Stopped:
    """Instead of an answer: the agent cannot continue, and why. `spent`: its budget is used up."""

    reason: str
    category: ErrorCategory | None = None
    spent: bool = False


Told = tuple[Answer | Result | Proof | Stopped | None, int | None]

# Time is not in the ledger: a resumed run starts with all of it, and must not continue where
# it had run out.
_OUT_OF_TIME = Stopped("time", ErrorCategory.BUDGET_EXCEEDED, spent=True)


class Summaries(Protocol):
    """Summarizes reasoning and results in a sentence or two, in the background."""

    def note(self, ticket: Ticket, seq: int, source: str | Result) -> None:
        """Have the content of an entry summarised, some time soon."""
        ...

    async def finish(self, run: str) -> None:
        """Finish the summaries of a run, soon."""
        ...


def stopped_payload(stopped: Stopped) -> dict[str, Any]:
    """The same as JSON, in the place of the answer that never came."""
    payload = answer_payload(Answer(stopped.reason, ()))
    return {**payload, "stopped": stopped.category.value if stopped.category else ""}


def stopped_from(payload: Mapping[str, Any]) -> Stopped | None:
    """What stopped the agent, or None if it answered."""
    if "stopped" not in payload:
        return None
    category = payload["stopped"]
    return Stopped(payload["reasoning"], ErrorCategory(category) if category else None)


def answer_payload(answer: Answer) -> dict[str, Any]:
    """The answer as JSON; each call says what it is."""
    calls = [{"call": _NAMES[type(call)], "with": to_json(call)} for call in answer.calls]
    payload = {"reasoning": answer.reasoning, "calls": calls, "spent": to_json(answer.spent)}
    if answer.hypotheses:
        payload["hypotheses"] = [to_json(hypothese) for hypothese in answer.hypotheses]
    return payload if not answer.by else {**payload, "by": answer.by, "note": answer.note}


def answer_from(payload: Mapping[str, Any]) -> Answer:
    """The answer that was written down."""
    calls = tuple(from_json(_CALLS[call["call"]], call["with"]) for call in payload["calls"])
    spent = from_json(Spent, payload.get("spent", {}))
    by, note = payload.get("by", ""), payload.get("note", "")
    hypotheses = tuple(
        from_json(RankedHypothesis, hypothesis) for hypothesis in payload.get("hypotheses", ())
    )
    return Answer(payload["reasoning"], calls, spent, by, note, hypotheses)


class Recorded:
    """The recorded answers of a run, returned in their order.

    A resumed run may take another path, because the policy or its budget has changed. Actions of
    the old path are done all the same: their results are returned when they are wanted again.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._answers = deque(entry for entry in entries if entry.kind in _ANSWERS)
        self._calls = _by_permit(entries, Kind.TOOL_CALL)
        self._minted = _by_permit(entries, Kind.PERMIT_MINTED)
        self._unclaimed: list[Entry] = []
        # Observations that the agent was shown, so that its citations stay valid.
        self.shown = tuple(entry.seq for entry in entries if entry.kind is Kind.OBSERVED)
        observed = [entry for entry in entries if entry.kind is Kind.OBSERVED]
        self.first_look = from_json(CheckResult, observed[0].payload) if observed else None

    def began_well(self, *, now: bool) -> bool:
        """Whether everything held when the run began; `now` is the state of a new run."""
        return self._answers[0].kind is Kind.PROOF if self._answers else now

    @classmethod
    async def of(
        cls, ticket: Ticket, entries: Entries, sealed: Sealed, recover: Recover
    ) -> Recorded:
        """Read the ticket's run from the ledger; `recover` completes its open actions."""
        known = entries.after(0, limit=ENTRIES_MAX, run=ticket.run)
        ended = {entry.payload["permit"] for entry in known if entry.kind is Kind.TOOL_RESULT}
        for entry in known:
            if entry.kind is Kind.TOOL_CALL and entry.payload["permit"] not in ended:
                await recover(entry)
        return cls(sealed.unseal(entries.after(0, limit=ENTRIES_MAX, run=ticket.run)))

    def next(self, want: Want) -> Told | None:
        """The recorded answer to this want; None from the point where the run broke off."""
        if not self._answers:
            return None
        if isinstance(want, Ask) and self._answers[0].kind is Kind.PROOF:
            return _OUT_OF_TIME, None  # no other proof comes before the first answer
        first = self._answers[0]
        started = first.payload if first.kind is Kind.REFUSED else None
        if first.kind is Kind.TOOL_RESULT:
            started = self._calls.get(first.payload["permit"])
        is_other = (
            started and isinstance(want, Act) and started["action"]["tool"] != want.action.tool
        )
        if _ANSWERS[first.kind] is not type(want) or is_other:
            self._unclaimed = [
                answer for answer in self._answers if answer.kind is Kind.TOOL_RESULT
            ]
            self._answers.clear()  # the run took another path: what follows does not answer it
            return None
        entry = self._answers.popleft()
        match entry.kind:
            case Kind.REASONING:
                return stopped_from(entry.payload) or answer_from(entry.payload), entry.seq
            case Kind.TOOL_RESULT | Kind.REFUSED:
                return from_json(Result, entry.payload["result"]), entry.seq
            case Kind.PROOF:
                return from_json(Proof, entry.payload), entry.seq
            case _:
                return None, entry.seq

    def find_result(self, action: Action) -> tuple[Result, int] | None:
        """The result of an action of the abandoned path, returned once; or None."""
        for entry in self._unclaimed:
            if self._minted.get(entry.payload["permit"], {}).get("digest") == action.digest:
                self._unclaimed.remove(entry)
                return from_json(Result, entry.payload["result"]), entry.seq
        return None


def _by_permit(entries: Sequence[Entry], kind: Kind) -> dict[str, Mapping[str, Any]]:
    return {entry.payload["permit"]: entry.payload for entry in entries if entry.kind is kind}
