"""What is known of a run, and which of its actions were denied. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.run_record import RunRecord
from operator_sre.contract.documents import is_valid_error_category
from operator_sre.contract.messages import ConfirmationRequirement, EvidenceRef, RunStatus

__all__ = [
    "ATTEMPTS",
    "Denial",
    "RunFacts",
    "Waiting",
    "attempt_of",
    "category_of",
    "denials_of",
    "obstacle_of",
]

# What the history of commands keeps a command under: it began, or it was refused.
ATTEMPTS = frozenset({Kind.TOOL_CALL, Kind.REFUSED})


@dataclass(frozen=True, slots=True)
class Denial:
    """One action that the gate refused: the record of it, and what was thought of it before."""

    entry: Entry
    verdict: Mapping[str, Any] = field(default_factory=dict)
    judged: Entry | None = None

    @property
    def action(self) -> Mapping[str, Any]:
        """What was wanted."""
        found: Mapping[str, Any] = self.entry.payload.get("action") or {}
        return found

    @property
    def why(self) -> str:
        """What the mind was told."""
        return str((self.entry.payload.get("result") or {}).get("stderr", "")).strip()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A question to a person that a run waits for, and where it is shown."""

    sentence: str
    evidence: EvidenceRef
    next_action: NextAction = NextAction.ASK_USER
    confirmation: ConfirmationRequirement | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run with all its entries, oldest first; `halted` when the kill switch holds it."""

    run: RunRecord
    entries: Sequence[Entry]
    ticket_state: str = ""
    halted: str = ""
    waiting: Waiting | None = None

    @property
    def status(self) -> RunStatus:
        """How it stands: what the kill switch holds is stopped, not running."""
        known = self.run.state in tuple(RunStatus)
        status = RunStatus(self.run.state) if known else RunStatus.FAILED
        return RunStatus.STOPPED if status is RunStatus.RUNNING and self.halted else status

    @property
    def category(self) -> ErrorCategory | None:
        """Why it failed; None exactly when it did not."""
        if self.status is not RunStatus.FAILED:
            return None
        return category_of(self.last(Kind.RUN_FINISHED)) or ErrorCategory.AGENT_RUNTIME_EXCEPTION

    def last(self, *kinds: Kind) -> Entry | None:
        """The newest entry of these kinds."""
        return next((one for one in reversed(self.entries) if one.kind in kinds), None)

    def count(self, kind: Kind) -> int:
        """How many entries of a kind there are."""
        return sum(one.kind is kind for one in self.entries)


def denials_of(entries: Sequence[Entry]) -> list[Denial]:
    """What the gate refused, oldest first.

    An action that was never judged was refused for another reason, such as a missing diagnosis;
    one that was permitted was refused by what should have run it.
    """
    judged, minted = _Judged(), set[str]()
    found = []
    for entry in entries:
        if entry.kind is Kind.VERDICT:
            judged.add(entry)
        elif entry.kind is Kind.PERMIT_MINTED:
            minted.add(str(entry.payload.get("permit", "")))
        elif entry.kind is Kind.REFUSED:
            before = judged.take(entry.payload.get("action"))
            permit = str(entry.payload.get("permit", ""))
            permitted = permit != "" and permit in minted
            if before is not None and not permitted and _was_refused(entry):
                found.append(Denial(entry, before.payload, before))
        elif entry.kind is Kind.TOOL_RESULT and category_of(entry) is ErrorCategory.POLICY_DENIED:
            found.append(Denial(entry))
    return found


class _Judged:
    """Verdicts that nothing has followed yet. What is refused is nearly always what came last."""

    def __init__(self) -> None:
        self._newest: Entry | None = None
        self._earlier: dict[str, Entry] = {}

    def add(self, verdict: Entry) -> None:
        """One more; of several about the same action the newest counts."""
        if self._newest is not None:
            self._earlier[_name_of(self._newest.payload["action"])] = self._newest
        self._newest = verdict

    def take(self, action: object) -> Entry | None:
        """The newest verdict about an action, once."""
        newest = self._newest
        if newest is not None and newest.payload["action"] == action:
            self._newest = None
        earlier = self._earlier.pop(_name_of(action), None) if self._earlier else None
        return earlier if self._newest is newest else newest


def _name_of(action: object) -> str:
    """What is equal for equal actions only: the ledger keeps the keys of an object in order."""
    return repr(action)


def category_of(entry: Entry | None) -> ErrorCategory | None:
    """The category that a record carries, of a run or of a result."""
    if entry is None:
        return None
    result = entry.payload.get("result") or {}
    said = entry.payload.get("category") or (result.get("data") or {}).get("error_category")
    return ErrorCategory(str(said)) if is_valid_error_category(said) else None


def obstacle_of(facts: RunFacts) -> Entry | None:
    """The newest record that shows the failure: one of its category, else the last that failed."""
    category, newest = facts.category, None
    for one in _failures(facts.entries):
        if category_of(one) is category:
            return one
        newest = newest or one
    return newest


def attempt_of(entries: Sequence[Entry], outcome: Entry) -> Entry | None:
    """The record with which a command began that ended so; a refusal is its own."""
    if outcome.kind is Kind.REFUSED:
        return outcome
    permit = outcome.payload.get("permit")
    calls = (one for one in reversed(entries) if one.kind is Kind.TOOL_CALL)
    return next((one for one in calls if one.payload.get("permit") == permit), None)


def _failures(entries: Sequence[Entry]) -> Iterator[Entry]:
    for entry in reversed(entries):
        if entry.kind in (Kind.TOOL_RESULT, Kind.REFUSED):
            result = entry.payload.get("result") or {}
            if result.get("outcome") != "ran" or result.get("exit_code") not in (0, None):
                yield entry


def _was_refused(entry: Entry) -> bool:
    """What came late was put off, and is proposed again."""
    return (entry.payload.get("result") or {}).get("outcome") == "refused"
