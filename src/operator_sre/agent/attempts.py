"""What a failed proof means for the next attempt: another plan, and nothing left behind. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.health import Health
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Act, Prove, Step
from operator_protocols.domain.tool import ToolSpec

__all__ = [
    "ARRIVED",
    "attempts_of",
    "deadline_of",
    "repeats",
    "to_undo",
    "undone_by",
    "undos_of",
    "unreadable",
]

# What is claimed of a ticket that nothing had to be done about.
ARRIVED = "It holds again by itself; nothing was changed."
REDACTED = "[REDACTED:"


def attempts_of(steps: Iterable[Step]) -> int:
    """How many proofs spoke of something that was done; a look on arrival is no attempt."""
    return sum(
        isinstance(step.want, Prove) and isinstance(step.result, Proof) and not step.want.arrival
        for step in steps
    )


def repeats(steps: Sequence[Step], action: Action) -> str:
    """Why this change makes no sense again: it was made, and a proof failed after it."""
    failed = [place for place, step in enumerate(steps) if _failed(step)]
    taken_back = undos_of(steps)
    for step in steps[: failed[-1] if failed else 0]:
        if not isinstance(step.want, Act) or not _ran(step):
            continue
        done = step.want.action
        same = (done.command, done.target) == (action.command, action.target)
        if same and action not in taken_back:
            return (
                f"{action.command} was done already and the proof after it failed; choose another"
                " plan, or escalate."
            )
    return ""


def to_undo(steps: Sequence[Step]) -> tuple[Action, ...]:
    """What takes back the changes since the proof before the last, newest first.

    Only where the last proof saw that they did not help; what cannot be seen is left as it is.
    """
    last = steps[-1].result if steps else None
    if not isinstance(last, Proof) or last.held or not (last.harm or last.health is Health.BROKEN):
        return ()
    taken_back = undos_of(steps)
    found: list[Action] = []
    for step in reversed(steps[:-1]):
        if isinstance(step.want, Prove):
            break
        undo = step.result.undo if isinstance(step.result, Result) and step.result.ok else None
        itself = isinstance(step.want, Act) and step.want.action in taken_back
        if undo is not None and not itself:
            found.append(undo)
    return tuple(found)


def unreadable(steps: Iterable[Step], action: Action) -> str:
    """Why this cannot be taken back: what was recorded of it lacks a secret."""
    told = repr(replace(action, reasoning="", expected=""))
    if REDACTED not in told or action not in undos_of(steps):
        return ""
    return f"{action.command} cannot be done: a secret in it was redacted. Take it back by hand."


def deadline_of(steps: Sequence[Step], tools: Iterable[ToolSpec]) -> float | None:
    """How long the slowest change since the last proof needs until its effect shows."""
    settles = {spec.name: spec.settle_s for spec in tools}
    slowest = 0.0
    for step in reversed(steps):
        if isinstance(step.want, Prove):
            break
        if isinstance(step.want, Act):
            slowest = max(slowest, settles.get(step.want.action.tool, 0.0))
    return slowest or None


def undos_of(steps: Iterable[Step]) -> list[Action]:
    """What takes something back that was done in these steps."""
    results = [step.result for step in steps if isinstance(step.result, Result)]
    return [result.undo for result in results if result.undo is not None]


def undone_by(step: Step, later: Iterable[Step]) -> bool:
    """Whether one of these steps took back what this one did."""
    undo = step.result.undo if isinstance(step.result, Result) else None
    return undo is not None and any(
        isinstance(one.want, Act)
        and one.want.action == undo
        and isinstance(one.result, Result)
        and one.result.ok
        for one in later
    )


def _failed(step: Step) -> bool:
    return isinstance(step.result, Proof) and not step.result.held


def _ran(step: Step) -> bool:
    ran = {Outcome.RAN, Outcome.TIMED_OUT}
    return isinstance(step.result, Result) and step.result.outcome in ran
