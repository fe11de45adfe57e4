"""What a run was told before it was interrupted, so that nothing is done twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import Sighting
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Act, Answer, Ask, Diagnose, Prove, Want
from operator_protocols.domain.ticket import Ticket
from operator_protocols.ports import Entries, Sealed
from operator_sre.agent.transcript import Stopped, answer_from, stopped_from
from operator_sre.codec import from_json

__all__ = ["Recorded"]

ENTRIES_MAX = 10_000
Recover = Callable[[Entry], Awaitable[object]]
Told = tuple[Answer | Result | Proof | Stopped | None, int | None]
# Time is not in the ledger: a resumed run has it anew, and must not go on where it had run out.
_OUT_OF_TIME = Stopped("time", ErrorCategory.BUDGET_EXCEEDED, spent=True)
_ANSWERS: dict[Kind, type[Want]] = {
    Kind.REASONING: Ask,
    Kind.TOOL_RESULT: Act,
    Kind.REFUSED: Act,
    Kind.DIAGNOSIS: Diagnose,
    Kind.PROOF: Prove,
}


class Recorded:
    """The recorded answers of a run, handed out in the order in which they were given.

    A run may take another way than it took: the policy or its budget is another by now. What was
    done on the way that it took is done all the same, and is told whenever it is wanted again.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._answers = deque(entry for entry in entries if entry.kind in _ANSWERS)
        self._calls = _by_permit(entries, Kind.TOOL_CALL)
        self._minted = _by_permit(entries, Kind.PERMIT_MINTED)
        self._deeds: list[Entry] = []
        # Looks that the mind was told of, so that what it said of them still points somewhere.
        self.shown = tuple(entry.seq for entry in entries if entry.kind is Kind.OBSERVED)
        looks = [entry for entry in entries if entry.kind is Kind.OBSERVED]
        self.first_look = from_json(Sighting, looks[0].payload) if looks else None

    def began_well(self, *, now: bool) -> bool:
        """Whether everything held when the run began; `now` is how it is for one that begins."""
        return self._answers[0].kind is Kind.PROOF if self._answers else now

    @classmethod
    async def of(
        cls, ticket: Ticket, entries: Entries, sealed: Sealed, recover: Recover
    ) -> Recorded:
        """What the ledger knows of the ticket's run; `recover` finds out what is open in it."""
        known = entries.after(0, limit=ENTRIES_MAX, run=ticket.run)
        ended = {entry.payload["permit"] for entry in known if entry.kind is Kind.TOOL_RESULT}
        for entry in known:
            if entry.kind is Kind.TOOL_CALL and entry.payload["permit"] not in ended:
                await recover(entry)
        return cls(sealed.unsealed(entries.after(0, limit=ENTRIES_MAX, run=ticket.run)))

    def next(self, want: Want) -> Told | None:
        """The recorded answer to this want; None from the point where the run broke off."""
        if not self._answers:
            return None
        if isinstance(want, Ask) and self._answers[0].kind is Kind.PROOF:
            return _OUT_OF_TIME, None  # nothing else proves before the mind has answered
        if not self._answers_to(want):
            self._deeds = [one for one in self._answers if one.kind is Kind.TOOL_RESULT]
            self._answers.clear()  # the run took another way: what follows is not an answer to it
            return None
        return _told(self._answers.popleft())

    def done(self, action: Action) -> tuple[Result, int] | None:
        """What became of an action that was begun on a way that is left, told once; or None."""
        for entry in self._deeds:
            if self._minted.get(entry.payload["permit"], {}).get("digest") == action.digest:
                self._deeds.remove(entry)
                return from_json(Result, entry.payload["result"]), entry.seq
        return None

    def _answers_to(self, want: Want) -> bool:
        entry = self._answers[0]
        if _ANSWERS[entry.kind] is not type(want):
            return False
        begun = entry.payload if entry.kind is Kind.REFUSED else None
        if entry.kind is Kind.TOOL_RESULT:
            begun = self._calls.get(entry.payload["permit"])
        if begun is None or not isinstance(want, Act):
            return True
        return bool(begun["action"]["tool"] == want.action.tool)


def _by_permit(entries: Sequence[Entry], kind: Kind) -> dict[str, Mapping[str, Any]]:
    return {one.payload["permit"]: one.payload for one in entries if one.kind is kind}


def _told(entry: Entry) -> Told:
    match entry.kind:
        case Kind.REASONING:
            return stopped_from(entry.payload) or answer_from(entry.payload), entry.seq
        case Kind.TOOL_RESULT | Kind.REFUSED:
            return from_json(Result, entry.payload["result"]), entry.seq
        case Kind.PROOF:
            return from_json(Proof, entry.payload), entry.seq
        case _:
            return None, entry.seq
