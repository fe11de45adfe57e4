"""What is known of a run, and which of its actions were denied. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.run import RunRecord
from operator_sre.contract.documents import is_valid_error_category
from operator_sre.contract.messages import ConfirmationRequirement, EvidenceRef, RunStatus

__all__ = ["Denial", "RunFacts", "Waiting", "category_of", "denials_of", "obstacle_of"]


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
    judged: dict[str, Entry] = {}
    minted: set[str] = set()
    found = []
    for entry in entries:
        if entry.kind is Kind.VERDICT:
            judged[digest_of(entry.payload["action"])] = entry
        elif entry.kind is Kind.PERMIT_MINTED:
            minted.add(str(entry.payload.get("permit", "")))
        elif entry.kind is Kind.REFUSED:
            before = judged.pop(digest_of(entry.payload.get("action")), None)
            permitted = str(entry.payload.get("permit", "")) in minted - {""}
            if before is not None and not permitted and _was_refused(entry):
                found.append(Denial(entry, before.payload, before))
        elif entry.kind is Kind.TOOL_RESULT and category_of(entry) is ErrorCategory.POLICY_DENIED:
            found.append(Denial(entry))
    return found


def category_of(entry: Entry | None) -> ErrorCategory | None:
    """The category that a record carries, of a run or of a result."""
    if entry is None:
        return None
    result = entry.payload.get("result") or {}
    said = entry.payload.get("category") or (result.get("data") or {}).get("error_category")
    return ErrorCategory(str(said)) if is_valid_error_category(said) else None


def obstacle_of(facts: RunFacts) -> Entry | None:
    """The newest record that shows the failure: one of its category, else the last that failed."""
    outcomes = list(_failures(facts.entries))
    same = [one for one in outcomes if category_of(one) is facts.category]
    return next(iter(same or outcomes), None)


def _failures(entries: Sequence[Entry]) -> Iterator[Entry]:
    for entry in reversed(entries):
        if entry.kind in (Kind.TOOL_RESULT, Kind.REFUSED):
            result = entry.payload.get("result") or {}
            if result.get("outcome") != "ran" or result.get("exit_code") not in (0, None):
                yield entry


def _was_refused(entry: Entry) -> bool:
    """What came late was put off, and is proposed again."""
    return (entry.payload.get("result") or {}).get("outcome") == "refused"
