"""The order of steps, and how far a workflow is by what the ledger holds of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from operator_protocols.domain.action import Action, Outcome, digest_of
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.workflow import (
    Passed,
    StepNote,
    Workflow,
    WorkflowRecord,
    WorkflowState,
)
from operator_sre.codec import from_json

__all__ = ["Progress", "cycle_in", "order_of", "ready"]

Needs = Mapping[str, Sequence[str]]


@dataclass(slots=True)
class Progress:
    """The newest note of every step, in the order in which steps were completed.

    It is `intact` when the definition is the original: a process that cannot open what redaction
    took out of it must not run what is left.
    """

    workflow: Workflow
    intact: bool = True
    notes: dict[str, StepNote] = field(default_factory=dict)
    undoing: dict[str, StepNote] = field(default_factory=dict)
    completed: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Progress:
        """From all entries of a workflow, oldest first, as they were before redaction."""
        progress: Progress | None = None
        for entry in entries:
            if entry.kind is Kind.WORKFLOW_REQUESTED:
                record = from_json(WorkflowRecord, entry.payload["record"])
                given = digest_of(entry.payload["record"]["workflow"]) == record.digest
                progress = cls(record.workflow, given)
            elif entry.kind in (Kind.WORKFLOW_STEP, Kind.WORKFLOW_UNDO):
                assert progress is not None
                progress.take(_note(entry.payload["note"]))
        assert progress is not None
        return progress

    def take(self, note: StepNote) -> None:
        """One more note."""
        if note.undoes:
            self.undoing[note.step] = note
            return
        self.notes[note.step] = note
        if note.state is WorkflowState.COMPLETED and note.step not in self.completed:
            self.completed.append(note.step)

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        """What each step waits for."""
        return {step.id: step.depends_on for step in self.workflow.steps}

    @property
    def failed(self) -> StepNote | None:
        """A step that did not end well, if there is one."""
        for note in self.notes.values():
            if note.state in (WorkflowState.FAILED, WorkflowState.CANCELLED):
                return note
        return None

    @property
    def unknown(self) -> bool:
        """The outcome of some step is unknown."""
        return any(note.outcome is Outcome.UNKNOWN for note in self.notes.values() if _over(note))

    @property
    def done(self) -> bool:
        """Every step is completed."""
        return len(self.completed) == len(self.workflow.steps)

    def ready(self, running: Iterable[str]) -> tuple[str, ...]:
        """The steps that may begin, or go on, now."""
        over = [name for name, note in self.notes.items() if _over(note)]
        return ready(self.needs, self.completed, [*running, *over])

    def open_attempt(self, step: str) -> StepNote | None:
        """The attempt that was under way when the last worker went, if there was one."""
        note = self.notes.get(step)
        return note if note and note.state is WorkflowState.IN_PROGRESS else None

    def next_attempt(self, step: str) -> tuple[int, datetime | None]:
        """The number of the attempt that comes next, and the moment before which it does not."""
        note = self.notes.get(step)
        return (note.attempt + 1, note.not_before) if note else (1, None)

    def passed_data(self) -> dict[str, Passed]:
        """What completed steps pass on."""
        return {
            name: note.passed or Passed()
            for name, note in self.notes.items()
            if note.state is WorkflowState.COMPLETED
        }

    def to_undo(self) -> list[tuple[str, Action]]:
        """The undo actions that are still to run, in reverse order of completion."""
        found: list[tuple[str, Action]] = []
        for name in reversed(self.completed):
            action = self.workflow.step(name).undo or self.notes[name].undo
            tried = self.undoing.get(name)
            if action is not None and (tried is None or not _over(tried)):
                found.append((name, action))
        return found


def _note(payload: Mapping[str, Any]) -> StepNote:
    """A note; what it passes on counts only as it was when it was written."""
    note = from_json(StepNote, payload)
    kept = {"passed": payload["passed"], "undo": payload["undo"]}
    if note.digest and digest_of(kept) != note.digest:
        return replace(note, passed=None, undo=None)
    return note


def _over(note: StepNote) -> bool:
    return note.state.over


def order_of(needs: Needs) -> tuple[str, ...]:
    """All steps, each behind those it needs, otherwise as they were written; cycles are left out.

    What needs a step that is not there is left out as well.
    """
    done: dict[str, None] = {}
    waiting = dict(needs)
    while found := [step for step in waiting if all(each in done for each in waiting[step])]:
        for step in found:
            done[step] = None
            del waiting[step]
    return tuple(done)


def cycle_in(needs: Needs) -> tuple[str, ...]:
    """Steps that wait for each other in a circle, in the order of waiting; none if all is well."""
    known = set(needs)
    ordered = set(
        order_of({step: [need for need in needs[step] if need in known] for step in needs})
    )
    stuck = [step for step in needs if step not in ordered]
    if not stuck:
        return ()
    path: list[str] = [stuck[0]]
    while True:
        # A stuck step waits for another stuck step, so this finds a cycle.
        following = next(need for need in needs[path[-1]] if need in stuck)
        if following in path:
            return (*path[path.index(following) :], following)
        path.append(following)


def ready(needs: Needs, completed: Iterable[str], started: Iterable[str]) -> tuple[str, ...]:
    """The steps that may start now: not started, and all dependencies completed."""
    done, taken = set(completed), set(started)
    return tuple(
        step
        for step, wanted in needs.items()
        if step not in taken and step not in done and done.issuperset(wanted)
    )
